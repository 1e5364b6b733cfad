"""Bring what a kit measured elsewhere into the results store."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd

from loopwright.machine import hosts
from loopwright.store import exchange
from loopwright.store.exchange import Results
from loopwright.store.runs import Store

COLUMNS = [
    "file",
    "machine",
    "microarch",
    "clock",
    "new",
    "there",
    "refused",
    "missing",
    "damaged",
    "note",
]


def import_results(files: Sequence[Path]) -> pd.DataFrame:
    """Add files of results to the store; one row a run, of which a file has one or several.

    new and there count readings: a file that was imported before adds none. missing are those that
    the run planned and the file has not, damaged the lines that are not whole, or say what cannot
    be. All files are read before anything is written; InputError where one is no file of results.
    """
    found = [results for path in files for results in exchange.read(path)]
    with closing(Store.open()) as store:
        rows = []
        for results in found:
            new = store.add(results.run, results.records, results.processes)
            rows.append(_row(results, new))
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(results: Results, new: int) -> dict[str, object]:
    facts, found = hosts.of_banner(results.run.banner)
    clocks = sorted({str(r.answer["clock"]) for r in results.records} - {""})
    return {
        "file": str(results.path),
        "machine": hosts.machine(facts),
        "microarch": found.core or "",
        "clock": ", ".join(clocks),
        "new": new,
        "there": len(results.records) - new,
        "refused": sum(bool(r.answer["refused"]) for r in results.records),
        "missing": results.missing,
        "damaged": results.damaged,
        "note": "; ".join(exchange.notes(results, found.core, found.doubt)),
    }
