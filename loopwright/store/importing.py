"""Bring what a kit measured elsewhere into the results store."""

import itertools
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd

from loopwright.machine import hosts
from loopwright.store import exchange, plausible
from loopwright.store.exchange import Results
from loopwright.store.runs import Record, Store

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

    new and there count readings: a file that was imported before adds none, also where it gives
    its run another name. missing are those that the run planned and the file has not, damaged the
    lines that are not whole, say what cannot be, or contradict what the run had before. All files
    are read before anything is written; InputError where one is no file of results, and where its
    head contradicts what the store has of its run or its machine.
    """
    found = [results for path in files for results in exchange.read(path)]
    with closing(Store.open()) as store:
        rows = []
        for results in found:
            store.agree(results.run)
        for results in found:
            fresh, elsewhere, changed = _parted(store, results)
            new = store.add(results.run, fresh, results.processes)
            there = len(results.records) - changed - new
            rows.append(_row(results, new, there, elsewhere, changed))
    return pd.DataFrame(rows, columns=COLUMNS)


def _parted(store: Store, results: Results) -> tuple[list[Record], list[str], int]:
    """Return the records to add, the runs that hold others, and how many contradict their run.

    A reading with the samples of another run's is a copy of it.
    """
    ours = {exchange.place(r): r.answer for r in store.records(results.run)}
    alike = [ours.get(exchange.place(r), r.answer) == r.answer for r in results.records]
    kept = list(itertools.compress(results.records, alike))
    measured = [r for r in kept if not r.answer["refused"]]
    contents = {plausible.content(r.answer) for r in measured}
    copies = {
        key: uid
        for uid, answer in store.alike(results.run.uid, (r.answer["cycles"] for r in measured))
        if (key := plausible.content(answer)) in contents
    }
    fresh = [
        r for r in kept if r.answer["refused"] or plausible.content(r.answer) not in copies
    ]  # fmt: skip
    return fresh, sorted(set(copies.values())), alike.count(False)


def _row(
    results: Results, new: int, there: int, elsewhere: list[str], changed: int
) -> dict[str, object]:
    facts, found = hosts.of_banner(results.run.banner)
    clocks = sorted({str(r.answer["clock"]) for r in results.records} - {""})
    notes = list(exchange.notes(results, found.core, found.doubt))
    if elsewhere:
        names = ", ".join(uid[:12] for uid in elsewhere)
        notes.append(f"readings that are in the store already, as run {names}, are left out")
    if changed:
        notes.append(f"{changed} readings contradict what the store has of this run: left out")
    return {
        "file": str(results.path),
        "machine": hosts.machine(facts),
        "microarch": found.core or "",
        "clock": ", ".join(clocks),
        "new": new,
        "there": there,
        "refused": sum(bool(r.answer["refused"]) for r in results.records),
        "missing": results.missing,
        "damaged": results.damaged + changed,
        "note": "; ".join(notes),
    }
