"""Read a file of results, as a kit or the kernel module's script write it, and trust nothing in it.

The file is lines of JSON. A head begins a run, and may come again: files that were put one behind
the other are several runs. A line that is not whole, or says what cannot be, is damaged and left
out; what a run says of its machine has to be sound, and has to be the same all along.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from loopwright import harness
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.store.runs import Record, Run

FORMAT = 1  # of the file: harness/kit/results.c
_HEAD = "loopwright_results"
_LONGEST = 1 << 20  # characters of a line
_DEEPEST = 8  # arrays and objects in each other
_MOST_SAMPLES = 4096
_MOST_BYTES = 1 << 40  # of a call
_MOST_CYCLES = 1e15  # of a call
_END_OF_TIME = 253402300799  # s: the last second of the year 9999
_FINGERPRINT_SINCE = 6  # protocol: processes say from then on what machine they ran on
_INTEGERS = {  # least and most, of a reading
    "count": (0, _MOST_BYTES),
    "dst_align": (0, 4095),
    "src_align": (0, 4095),
    "skew": (0, 4095),
    "offset": (0, 63),
    "point": (0, 1 << 31),
}
_LEFT_OUT = {"accepted": (0, _MOST_SAMPLES), "slow": (0, _MOST_SAMPLES)}
_TEXTS = ("id", "object", "cache", "clock", "refused")


@dataclass
class Results:
    """One run of a file, whole lines alone. number counts the runs of the file from 1."""

    path: Path
    number: int
    run: Run
    records: list[Record] = field(default_factory=list)
    processes: dict[int, dict[str, Any]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)  # variants, and how
    planned: int = 0
    declared: int | None = None  # readings by the trailer
    nothing: str = ""  # why nothing was measured
    damaged: int = 0
    ended: bool = False  # by the trailer, and not gone on with

    @property
    def missing(self) -> int:
        """Return how many readings the run lacks: of those declared, or else of those planned."""
        wanted = self.planned if self.declared is None else self.declared
        return max(0, wanted - len(self.records))


def read(path: Path) -> list[Results]:
    """Return the runs of a file, the one that began it first; InputError where it is none.

    So is a file in which a run ends before it says what machine it is from, or says two.
    """
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    lines = text.split("\n")
    if _HEAD not in (_parse(lines[0]) or {}):
        raise InputError(f"{path} is no file of results; give one that the kit's ./run wrote")
    if "calibration" in (_parse(lines[0]) or {}):
        raise InputError(f"{path} holds a calibration; give it to import_calibration")
    whole, rest = lines[:-1] or lines, lines[-1]
    parsed = [_parse(line) for line in whole]
    heads = [n for n, line in enumerate(parsed) if line and _HEAD in line]
    found = []
    for number, (begin, end) in enumerate(zip(heads, [*heads[1:], len(parsed)], strict=True), 1):
        results = _begin(path, number, parsed[begin:end])
        for line in parsed[begin + 2 : end]:
            _add(results, line)
        found.append(results)
    found[-1].damaged += bool(rest)
    return found


def _parse(line: str) -> dict[str, Any] | None:
    """Return the object that a line is, None where it is none that can be kept."""
    if len(line) > _LONGEST:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and _is_sane(found) else None


def _is_sane(value: object, depth: int = 0) -> bool:
    """Say whether a value can be kept: numbers in range, text of characters, not too deep."""
    if isinstance(value, dict | list):
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        return depth < _DEEPEST and all(_is_sane(v, depth + 1) for v in inside)
    if isinstance(value, str):
        return not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < 1 << 63


def _begin(path: Path, number: int, lines: list[dict[str, Any] | None]) -> Results:
    """Return a run that begins with these lines, its head and what its machine says of itself."""
    head = lines[0] or {}
    if head[_HEAD] != FORMAT:
        raise InputError(
            f"{path} is of format {str(head[_HEAD])[:20]}, and this loopwright reads {FORMAT}: use "
            "the version that made the kit"
        )
    banner = lines[1] if len(lines) > 1 else None
    try:
        if banner is None:
            raise KeyError("banner")
        run = Run(
            uid=_text(head, "uid"),
            machine=_text(banner, "fingerprint"),
            started=_integer(banner, "time", 0, _END_OF_TIME),
            protocol=_integer(head, "protocol", 1, 1 << 31),
            origin=f"kit {_text(head, 'version')} ({_text(head, 'kit')[:12]})",
            banner=banner,
        )
        hosts.of_banner(banner)
    except (KeyError, ValueError):
        where = f", run {number}," if number > 1 else ""
        raise InputError(
            f"{path}{where} ends before it says what machine it is from, or says what cannot be: "
            "nothing in it can be used"
        ) from None
    return Results(path, number, run)


def _add(results: Results, line: Mapping[str, Any] | None) -> None:
    """Take in one line of a run."""
    kind = line.get("id") if line else None
    try:
        if line is None:
            raise ValueError
        if "end" in line:
            results.declared = _integer(line, "readings", 0, 1 << 31)
            results.nothing = str(line["nothing_measured"])
            results.ended = True
        elif kind == "plan":
            points = _integer(line, "points", 0, 1 << 31)
            results.planned = points * _integer(line, "processes", 0, 1 << 31)
        elif kind == "clock":
            _begin_process(results, line)
        elif "passed" in line:
            if not line["passed"]:
                results.broken[str(kind)] = str(line["failure"])
        elif results.ended:  # whose reading it is nothing says
            raise ValueError
        else:
            results.records.append(_record(line, len(results.processes)))
    except (KeyError, TypeError, ValueError):
        results.damaged += 1


def _begin_process(results: Results, line: Mapping[str, Any]) -> None:
    """Take in what a process says of its clock; InputError where it ran on another machine."""
    run = results.run
    said = line.get("fingerprint", run.machine if run.protocol < _FINGERPRINT_SINCE else None)
    if said != run.machine:
        raise InputError(
            f"{results.path} holds readings of two machines under one head: {run.machine} and "
            f"{said or 'one that it does not name'}; nothing in it can be used"
        )
    tests = line["self_test"]
    if not isinstance(tests, list) or not all(map(_is_test, tests)):
        raise ValueError
    results.processes[len(results.processes) + 1] = dict(line)
    results.ended = False


def _is_test(test: object) -> bool:
    if not isinstance(test, dict) or not isinstance(test.get("name"), str):
        return False
    cycles = test.get("cycles")
    return cycles is None or (_is_number(cycles) and cycles >= 0)


def _record(line: Mapping[str, Any], process: int) -> Record:
    """Return the record that a line is; ValueError where it is none."""
    kernel, slash, variant = str(line["id"]).rpartition("/")
    for key, (least, most) in _INTEGERS.items():
        _integer(line, key, least, most)
    if not slash or process < 1 or not all(isinstance(line[key], str) for key in _TEXTS):
        raise ValueError
    if line["cache"] not in ("hot", "cold"):
        raise ValueError
    _positive(line["milliseconds"], 1e12, least=0)
    if not line["refused"]:
        _check_figures(line)
    return Record(process, kernel, variant, line["object"], line)


def _check_figures(line: Mapping[str, Any]) -> None:
    """Raise ValueError where figures are none, or not those of the samples that they come with."""
    cycles, low, high = (_positive(line[key], _MOST_CYCLES) for key in ("cycles", "p10", "p90"))
    samples = line["samples"]
    if not isinstance(samples, list) or not 0 < len(samples) <= _MOST_SAMPLES:
        raise ValueError
    middle = median(_positive(sample, _MOST_CYCLES) for sample in samples)
    # Samples and figures are rounded by themselves.
    if not low <= cycles <= high or abs(middle - cycles) > 2e-6 + 1e-6 * cycles:
        raise ValueError
    if "accepted" not in line and "two_speeds" not in line:  # of an earlier protocol
        return
    for key, (least, most) in _LEFT_OUT.items():
        _integer(line, key, least, most)
    if not isinstance(line["two_speeds"], str) or line["slow"] > line["accepted"]:
        raise ValueError
    _positive(line["slow_from"], _MOST_CYCLES, least=0)
    _positive(line["slow_to"], _MOST_CYCLES, least=0)


def current(results: Results) -> bool:
    """Say whether a run was measured by the protocol of today, whose results are used."""
    return results.run.protocol == harness.protocol()


def notes(results: Results, core: str | None, doubt: str) -> Iterator[str]:
    """Yield what is to be known of a run besides its numbers."""
    if results.number > 1:
        yield f"the file holds several runs; this is number {results.number}"
    if results.declared is None:
        yield (
            f"no end: interrupted or cut off, {results.missing} of {results.planned} readings are "
            "missing"
        )
    elif results.missing:
        yield f"{results.missing} of {results.declared} readings are lost"
    elif len(results.records) > results.declared:
        yield f"{len(results.records) - results.declared} readings more than it declares"
    if results.damaged:
        yield f"{results.damaged} lines are damaged and left out"
    if results.nothing:
        yield f"nothing was measured there: {results.nothing}"
    for variant, failure in results.broken.items():
        yield f"{variant} was not measured there: it breaks its contract: {failure}"
    if not current(results):
        yield (
            f"measured by protocol {results.run.protocol}, which is not today's "
            f"({harness.protocol()}): its results are listed and used for nothing"
        )
    if doubt:
        yield doubt
    if core is None:
        yield "no core.toml describes this machine: its results are listed and used for nothing"


def _text(line: Mapping[str, Any], key: str) -> str:
    if not isinstance(line[key], str) or not 0 < len(line[key]) <= 256:
        raise ValueError
    return str(line[key])


def _integer(line: Mapping[str, Any], key: str, least: int, most: int) -> int:
    value = line[key]
    if type(value) is not int or not least <= value <= most:
        raise ValueError
    return value


def _positive(value: object, most: float, *, least: float | None = None) -> float:
    if not _is_number(value):
        raise ValueError
    number = float(value)  # type: ignore[arg-type]
    if not (number > 0 if least is None else number >= least) or number > most:
        raise ValueError
    return number


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
