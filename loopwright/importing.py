"""Bring what a kit measured elsewhere into the results store."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from loopwright import hosts
from loopwright.errors import InputError
from loopwright.facts import Facts
from loopwright.recognise import recognise
from loopwright.store import Record, Run, Store

FORMAT = 1  # of the file: harness/kit/results.c
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
_INTEGERS = ("count", "dst_align", "src_align", "skew", "offset", "point")
_NUMBERS = ("cycles", "p10", "p90", "milliseconds")
_TEXTS = ("id", "object", "cache", "clock", "refused")


@dataclass
class _Results:
    """What a file of results holds, whole lines alone."""

    path: Path
    run: Run
    records: list[Record] = field(default_factory=list)
    processes: dict[int, dict[str, Any]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)  # variants, and how
    planned: int = 0
    declared: int | None = None  # readings by the trailer
    nothing: str = ""  # why nothing was measured
    damaged: int = 0

    @property
    def missing(self) -> int:
        """Return how many readings the file lacks: of those declared, or else of those planned."""
        wanted = self.planned if self.declared is None else self.declared
        return max(0, wanted - len(self.records))


def import_results(files: Sequence[Path]) -> pd.DataFrame:
    """Add files of results to the store; one row a file.

    new and there count readings: a file that was imported before adds none. missing are those that
    the run planned and the file has not, damaged the lines that are not whole. All files are read
    before anything is written; InputError where one is no file of results.
    """
    found = [_read(path) for path in files]
    with closing(Store.open()) as store:
        rows = []
        for results in found:
            new = store.add(results.run, results.records, results.processes)
            rows.append(_row(results, new))
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(results: _Results, new: int) -> dict[str, object]:
    facts = Facts.of(results.run.banner)
    found = recognise(facts)
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
        "note": "; ".join(_notes(results, found.core, found.doubt)),
    }


def _notes(results: _Results, core: str | None, doubt: str) -> Iterator[str]:
    if results.declared is None:
        yield (
            f"no end: interrupted or cut off, {results.missing} of {results.planned} readings are "
            "missing"
        )
    elif results.missing:
        yield f"{results.missing} of {results.declared} readings are lost"
    if results.damaged:
        yield f"{results.damaged} lines are damaged and left out"
    if results.nothing:
        yield f"nothing was measured there: {results.nothing}"
    for variant, failure in results.broken.items():
        yield f"{variant} was not measured there: it breaks its contract: {failure}"
    if doubt:
        yield doubt
    if core is None:
        yield "no core.toml describes this machine: its results are listed and used for nothing"


def _read(path: Path) -> _Results:
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    lines = text.split("\n")
    header = _parse(lines[0]) or {}
    if "loopwright_results" not in header:
        raise InputError(f"{path} is no file of results; give one that the kit's ./run wrote")
    if header["loopwright_results"] != FORMAT:
        raise InputError(
            f"{path} is of format {header['loopwright_results']}, and this loopwright reads "
            f"{FORMAT}: use the version that made the kit"
        )
    banner = _parse(lines[1]) if len(lines) > 2 else None
    try:
        if banner is None:
            raise KeyError("banner")
        run = Run(
            uid=str(header["uid"]),
            machine=str(banner["fingerprint"]),
            started=int(banner["time"]),
            protocol=int(header["protocol"]),
            origin=f"kit {header['version']} ({str(header['kit'])[:12]})",
            banner=banner,
        )
        recognise(Facts.of(banner))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{path} ends before it says what machine it is from: nothing in it can be used"
        ) from None
    results = _Results(path, run)
    for line in lines[2:-1]:
        _add(results, _parse(line))
    results.damaged += bool(lines[-1])
    return results


def _parse(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _add(results: _Results, line: Mapping[str, Any] | None) -> None:
    """Take in one line of a file."""
    kind = line.get("id") if line else None
    try:
        if line is None:
            raise ValueError
        if "end" in line:
            results.declared = int(line["readings"])
            results.nothing = str(line["nothing_measured"])
        elif kind == "plan":
            results.planned = int(line["points"]) * int(line["processes"])
        elif kind == "clock":
            results.processes[len(results.processes) + 1] = {**line, "self_test": line["self_test"]}
        elif "passed" in line:
            if not line["passed"]:
                results.broken[str(kind)] = str(line["failure"])
        else:
            results.records.append(_record(line, len(results.processes)))
    except (KeyError, TypeError, ValueError):
        results.damaged += 1


def _record(line: Mapping[str, Any], process: int) -> Record:
    """Return the record that a line is; ValueError where it is none."""
    whole = (
        all(type(line[key]) is int for key in _INTEGERS)
        and all(isinstance(line[key], str) for key in _TEXTS)
        and (bool(line["refused"]) or all(_is_number(line[key]) for key in _NUMBERS))
        and all(map(_is_number, line["samples"]))
        and process > 0
    )
    kernel, slash, variant = str(line["id"]).rpartition("/")
    if not whole or not slash:
        raise ValueError
    return Record(process, kernel, variant, line["object"], line)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
