"""The verbs results, withdraw and import_results: files of results, and what the store holds."""

import hashlib
import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from loopwright import files, kernels
from loopwright.code.assemble import code_hash
from loopwright.errors import InputError
from loopwright.machine import harness, hosts
from loopwright.machine.harness import Point
from loopwright.measuring.store import Record, Run, Store

COLUMNS = [
    "started", "machine", "microarch", "clock", "kernel", "variant", "code", "points", "records",
    "refused", "processes", "protocol", "origin", "fingerprint", "run", "withdrawn",
]  # fmt: skip
_UNREADABLE = "not to be read from the store"


def results(kernel: str | None = None) -> pd.DataFrame:
    """Return the contents of the results store (of KERNEL[/VARIANT]): a row a run and variant.

    Newest first. code is "today's" where the variant still has the measured code, else "other", or
    the reason why it is unknown, with a remark for measurements in the kernel. points are sizes and
    alignments, records single points in single processes, refused those without a number. protocol
    is that of the measurement; only today's is used. withdrawn is empty, or the reason why the run
    is kept but not used.
    """
    ids = {v.id for v in kernels.select(kernel)[1]} if kernel else None
    with closing(Store.open()) as store:
        reasons = store.withdrawn()
        rows = [
            {**row, "withdrawn": reasons.get(run.uid, "")}
            for run in store.every_run()
            for row in _rows_of_run(store, run, ids)
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def withdraw(run: str, reason: str = "") -> pd.DataFrame:
    """Mark a run as withdrawn, so that it is not used any more, and return its rows of results.

    run is its name in results, or the beginning of it. It is kept and listed; importing its file
    again does not bring it back. InputError if no run, or several, have that name.
    """
    with closing(Store.open()) as store:
        matching = [r for r in store.every_run() if run and r.uid.startswith(run)]
        if len(matching) != 1:
            text = f"{len(matching)} runs begin with" if matching else "there is no run"
            raise InputError(f"{text} {run!r}; `loopwright results --csv` lists them as run")
        store.withdraw(matching[0], reason or "withdrawn")
    rows = results()
    return rows[rows["run"] == matching[0].uid]


def _rows_of_run(store: Store, run: Run, ids: set[str] | None) -> Iterator[dict[str, object]]:
    try:
        facts, recognised = hosts.of_banner(run.banner)
        machine, microarch = hosts.machine(facts), recognised.core or ""
    except ValueError:
        machine, microarch = _UNREADABLE, ""
    groups: dict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
    for record in store.records(run):
        if ids is None or f"{record.kernel}/{record.variant}" in ids:
            key = record.kernel, record.variant, record.object, record.answer["clock"]
            groups[key].append(record)
    for (kernel, variant, code, clock), records in sorted(groups.items()):
        yield {
            "started": f"{datetime.fromtimestamp(run.started, UTC):%Y-%m-%dT%H:%M:%SZ}",
            "machine": machine,
            "microarch": microarch,
            "clock": clock,
            "kernel": kernel,
            "variant": variant,
            "code": _age(kernel, variant, code),
            "points": len({(r.answer["offset"], Point.of(r.answer)) for r in records}),
            "records": len(records),
            "refused": sum(bool(r.answer["refused"]) for r in records),
            "processes": len({r.process for r in records}),
            "protocol": run.protocol,
            "origin": run.origin,
            "fingerprint": run.machine,
            "run": run.uid,
        }


def _age(kernel: str, variant: str, code: str) -> str:
    """Return whether the measured code is the variant's of today, or why that is unknown."""
    if kernel not in kernels.ids() or variant not in kernels.load(kernel).variants:
        return "not here"
    place, _, measured = code.rpartition(":")
    try:
        now = code_hash(kernels.load(kernel).variants[variant])
    except InputError:
        return "cannot be assembled here"
    age = "today's" if now == measured else "other"
    return f"{age}, in the kernel" if place else age


MOST_SAMPLES = 4096
_MOST_CPUS = 1 << 20
_HZ = (50_000_000, 20_000_000_000)  # least and largest clock of a core
_MOST_HZ = 1 << 40  # largest rate of a timer
_SAMPLE_COUNTS = ("taken", "accepted", "slow")
_DISTINCT = 8  # distinct samples that identify a reading
_QUANTILES = {"p10": 10, "cycles": 50, "p90": 90}
# Lower bounds, which _MARGIN relaxes: no code takes less, whatever the core.
_LEAST_CALL = 1.5  # cycles: three taken branches, two a cycle
_MOST_RATE = 64  # bytes or records a cycle
_LEAST_BLOCK = 0.125  # cycles: one instruction, eight a cycle
_MARGIN = 8


# Checks of a file's lines: each raises KeyError, TypeError or ValueError for an invalid one.


def check_process(line: Mapping[str, Any]) -> None:
    """Check that a process's statements on its clock are consistent."""
    name, refused = line["clock"], line["refused"]
    if not isinstance(name, str) or not isinstance(refused, str):
        raise ValueError
    integer(line, "cpu", -1 if refused else 0, _MOST_CPUS)
    if refused:  # there is no clock, or no CPU to stay on
        return
    ticks = integer(line, "ticks_a_second", 0, _MOST_HZ)
    if (name == hosts.PMU) != (ticks == 0):  # a counter of cycles needs no calibration
        raise ValueError


def check_clock(line: Mapping[str, Any], of_process: Mapping[str, Any]) -> None:
    """Check that a reading agrees with its process on the clock and the CPU."""
    if any(line[key] != of_process[key] for key in ("clock", "cpu")):
        raise ValueError
    core_hz = integer(line, "core_hz", 0, _HZ[1])
    if line["refused"]:
        return
    if line["clock"] == hosts.PMU:
        if core_hz:
            raise ValueError
    elif core_hz < _HZ[0]:
        raise ValueError


def check_call(line: Mapping[str, Any], most: float) -> None:
    """Check the figures of calls against their samples and physical bounds."""
    least = max(_LEAST_CALL, line["count"] / _MOST_RATE) / _MARGIN
    samples = line["samples"]
    if not isinstance(samples, list) or not 0 < len(samples) <= MOST_SAMPLES:
        raise ValueError
    ordered = sorted(number(sample, least, most) for sample in samples)
    for key, percent in _QUANTILES.items():
        figure = number(line[key], least, most)
        # Samples and figures are rounded separately.
        if abs(_quantile(ordered, percent) - figure) > 2e-6 + 1e-6 * figure:
            raise ValueError


def check_block(line: Mapping[str, Any], most: float) -> None:
    """Check the figures of a block against each other and physical bounds."""
    low, middle, high = (
        number(line[key], _LEAST_BLOCK / _MARGIN, most) for key in ("p10", "cycles", "p90")
    )
    if not low <= middle <= high or not 0 < line["short"] < line["long"]:
        raise ValueError


def check_samples(line: Mapping[str, Any], samples: int) -> None:
    """Check the numbers of taken, accepted and slow samples against the number of those kept."""
    taken, accepted, slow = (integer(line, key, 0, MOST_SAMPLES) for key in _SAMPLE_COUNTS)
    if samples + slow != accepted or accepted > taken or not isinstance(line["two_speeds"], str):
        raise ValueError
    low, high = (number(line[key], 0, 1e12) for key in ("slow_from", "slow_to"))
    if low > high:
        raise ValueError


def content_hash(line: Mapping[str, Any]) -> str:
    """Return a hash of the values that two readings share only if one is a copy.

    These are the samples in order; the whole line, where they are too few or too similar to
    identify a reading.
    """
    samples = line.get("samples")
    distinct = isinstance(samples, list) and len(set(map(str, samples))) >= _DISTINCT
    text = json.dumps(samples if distinct else line, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def number(value: object, least: float, most: float) -> float:
    """Return a finite number within bounds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError
    if not math.isfinite(value) or not least <= value <= most:
        raise ValueError
    return float(value)


def integer(line: Mapping[str, Any], key: str, least: int, most: int) -> int:
    """Return the integer that a line has under a key, within bounds."""
    value = line[key]
    if type(value) is not int or not least <= value <= most:
        raise ValueError
    return value


def _quantile(ordered: Sequence[float], percent: int) -> float:
    """Return a quantile as the harness interpolates it (harness/common/integers.c)."""
    low, hundredths = divmod(percent * (len(ordered) - 1), 100)
    if low + 1 >= len(ordered):
        return ordered[-1]
    return ordered[low] + (ordered[low + 1] - ordered[low]) * hundredths / 100


FORMAT = 1  # file format: harness/kit/results.c
_HEAD = "loopwright_results"
_LONGEST = 1 << 20  # characters of a line, at most
_DEEPEST = 8  # nesting of arrays and objects, at most
_FINGERPRINT = re.compile("[0-9a-f]{16}")
_MOST_BYTES = 1 << 40  # largest size of a call
_MOST_CYCLES = 1e15  # largest cost of a call
_END_OF_TIME = 253402300799  # s: the last second of the year 9999
_FINGERPRINT_SINCE = 6  # the first protocol in which processes name their machine
_INTEGERS = {  # fields of a reading: least and largest value
    "count": (0, _MOST_BYTES),
    "dst_align": (0, 4095),
    "src_align": (0, 4095),
    "skew": (0, 4095),
    "offset": (0, 63),
    "point": (0, 1 << 31),
}
_PLACED = ("id", "object", "cache", *_INTEGERS)
_TEXTS = ("id", "object", "cache", "clock", "refused")


@dataclass
class Results:
    """One run of a file, from its whole lines; number counts the runs of the file from 1.

    seen has the points of processes, and the hashes of readings.
    """

    path: Path
    number: int
    run: Run
    records: list[Record] = field(default_factory=list)
    processes: dict[int, dict[str, Any]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)  # failure by variant
    planned: int = 0
    declared: int | None = None  # the trailer's number of readings
    nothing: str = ""  # the reason why nothing was measured
    damaged: int = 0
    copies: int = 0  # damaged lines that repeat a reading
    ended: bool = False  # the trailer was read, and no process after it
    seen: set[object] = field(default_factory=set, repr=False)

    @property
    def missing(self) -> int:
        """The number of missing readings: of those declared, else of those planned."""
        expected = self.planned if self.declared is None else self.declared
        return max(0, expected - len(self.records))


def read_results(path: Path) -> list[Results]:
    """Return the runs of a file, in order; InputError if it is no file of results.

    InputError also where a run ends before it names its machine, or names two.
    """
    try:
        text = files.finite(path).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    lines = text.split("\n")
    if _HEAD not in (_parse_line(lines[0]) or {}):
        raise InputError(f"{path} is not a file of results; give one that the kit's ./run wrote")
    if "calibration" in (_parse_line(lines[0]) or {}):
        raise InputError(f"{path} holds a calibration; give it to import_calibration")
    whole, cut = lines[:-1] or lines, lines[-1]
    parsed = [_parse_line(line) for line in whole]
    heads = [n for n, line in enumerate(parsed) if line and _HEAD in line]
    runs = []
    for number, (begin, end) in enumerate(zip(heads, [*heads[1:], len(parsed)], strict=True), 1):
        results = _begin_run(path, number, parsed[begin:end])
        for line in parsed[begin + 2 : end]:
            _add_line(results, line)
        runs.append(results)
    runs[-1].damaged += bool(cut)
    return runs


def _parse_line(line: str) -> dict[str, Any] | None:
    """Return the object of a line, None if it is invalid."""
    if len(line) > _LONGEST:
        return None
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) and _is_sane(parsed) else None


def _is_sane(value: object, depth: int = 0) -> bool:
    """True if a value can be stored: finite numbers, valid text, limited nesting."""
    if isinstance(value, dict | list):
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        return depth < _DEEPEST and all(_is_sane(v, depth + 1) for v in inside)
    if isinstance(value, str):
        return not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < 1 << 63


def _begin_run(path: Path, number: int, lines: list[dict[str, Any] | None]) -> Results:
    """Return a run from its head and its machine's banner."""
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
            uid=_text_of(head, "uid"),
            machine=_fingerprint(banner),
            started=integer(banner, "time", 0, _END_OF_TIME),
            protocol=integer(head, "protocol", 1, 1 << 31),
            origin=f"kit {_text_of(head, 'version')} ({_text_of(head, 'kit')[:12]})",
            banner=banner,
        )
        hosts.of_banner(banner)
        integer(banner, "cpu", -1, 1 << 20)
    except (KeyError, ValueError):
        place = f", run {number}," if number > 1 else ""
        raise InputError(
            f"{path}{place} ends before it says what machine it is from, or says what cannot be: "
            "nothing in it can be used"
        ) from None
    return Results(path, number, run)


def _add_line(results: Results, line: Mapping[str, Any] | None) -> None:
    """Add one line to a run."""
    kind = line.get("id") if line else None
    try:
        if line is None:
            raise ValueError
        if "end" in line:
            results.declared = integer(line, "readings", 0, 1 << 31)
            results.nothing = str(line["nothing_measured"])
            results.ended = True
        elif kind == "plan":
            points = integer(line, "points", 0, 1 << 31)
            results.planned = points * integer(line, "processes", 0, 1 << 31)
        elif kind == "clock":
            _begin_process(results, line)
        elif "passed" in line:
            if not line["passed"]:
                results.broken[str(kind)] = str(line["failure"])
        elif results.ended:  # a reading without a process
            raise ValueError
        else:
            record = _record(results, line)
            if not _is_first(results, record):
                results.copies += 1
                raise ValueError
            results.records.append(record)
    except (KeyError, TypeError, ValueError):
        results.damaged += 1


def _begin_process(results: Results, line: Mapping[str, Any]) -> None:
    """Add a process and its clock; InputError if it ran on another machine."""
    run = results.run
    fingerprint = line.get(
        "fingerprint", run.machine if run.protocol < _FINGERPRINT_SINCE else None
    )
    if fingerprint != run.machine:
        raise InputError(
            f"{results.path} holds readings of two machines under one head: {run.machine} and "
            f"{fingerprint or 'one that it does not name'}; nothing in it can be used"
        )
    results.ended = True  # until it is valid: later readings are not the earlier process's
    tests = line["self_test"]
    if not isinstance(tests, list) or not all(isinstance(test["name"], str) for test in tests):
        raise ValueError
    for test in tests:
        if test.get("cycles") is not None:
            number(test["cycles"], 0, math.inf)
    if is_current(results):
        check_process(line)
    results.processes[len(results.processes) + 1] = dict(line)
    results.ended = False


def _record(results: Results, line: Mapping[str, Any]) -> Record:
    """Return the record of a line; ValueError if it is invalid."""
    process = len(results.processes)
    kernel, slash, variant = str(line["id"]).rpartition("/")
    for key, (least, most) in _INTEGERS.items():
        integer(line, key, least, most)
    if not slash or process < 1 or not all(isinstance(line[key], str) for key in _TEXTS):
        raise ValueError
    if line["cache"] not in ("hot", "cold"):
        raise ValueError
    number(line["milliseconds"], 0, 1e12)
    if is_current(results):
        check_clock(line, results.processes[process])
    if not line["refused"]:
        check_call(line, _MOST_CYCLES)
        if is_current(results):
            check_samples(line, len(line["samples"]))
    return Record(process, kernel, variant, line["object"], line)


def record_place(record: Record) -> tuple[object, ...]:
    """Return the key of a reading: a point of a variant in a process of a run."""
    return (record.process, *(record.answer[key] for key in _PLACED))


def _is_first(results: Results, record: Record) -> bool:
    """True if no earlier line of the run had the same point or the same samples."""
    keys: set[object] = {record_place(record)}
    if not record.answer["refused"]:
        keys.add(content_hash(record.answer))
    if keys & results.seen:
        return False
    results.seen |= keys
    return True


def is_current(results: Results) -> bool:
    """True if a run was measured by today's protocol, and is used."""
    return results.run.protocol == harness.protocol()


def run_notes(results: Results, core: str | None, doubt: str) -> Iterator[str]:
    """Yield the notes on a run beside its numbers."""
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
    if results.copies:
        yield f"{results.copies} of them have the point or the samples of a line before"
    if results.nothing:
        yield f"nothing was measured there: {results.nothing}"
    for variant, failure in results.broken.items():
        yield f"{variant} was not measured there: it breaks its contract: {failure}"
    if not is_current(results):
        yield (
            f"measured by protocol {results.run.protocol}, which is not today's "
            f"({harness.protocol()}): its results are listed and used for nothing"
        )
    if doubt:
        yield doubt
    if core is None:
        yield "no core.toml describes this machine: its results are listed and used for nothing"


def _text_of(line: Mapping[str, Any], key: str) -> str:
    if not isinstance(line[key], str) or not 0 < len(line[key]) <= 256:
        raise ValueError
    return str(line[key])


def _fingerprint(banner: Mapping[str, Any]) -> str:
    text = _text_of(banner, "fingerprint")
    if not _FINGERPRINT.fullmatch(text):
        raise ValueError
    return text


IMPORT_COLUMNS = [
    "file", "machine", "microarch", "clock", "new", "there", "refused", "missing", "damaged",
    "note",
]  # fmt: skip


def import_results(files: Sequence[Path]) -> pd.DataFrame:
    """Add files of results to the store; one row a run, of which a file has one or several.

    new and there count readings: importing a file again adds none, even under another name of the
    run. missing are the readings that the run planned and the file lacks, damaged the lines that
    are cut, invalid, or contradict the run so far. All files are read before anything is written;
    InputError if one is no file of results, or if its head contradicts the store.
    """
    runs = [results for path in files for results in read_results(path)]
    with closing(Store.open()) as store:
        rows = []
        for results in runs:
            store.agree(results.run)
        for results in runs:
            added, copied_from, contradicting = _records_to_add(store, results)
            new = store.add(results.run, added, results.processes)
            present = len(results.records) - contradicting - new
            rows.append(_row(results, new, present, copied_from, contradicting))
    return pd.DataFrame(rows, columns=IMPORT_COLUMNS)


def _records_to_add(store: Store, results: Results) -> tuple[list[Record], list[str], int]:
    """Return the records to add, the runs that hold the others, and the number of contradictions.

    A reading with the samples of another run is a copy of it.
    """
    stored = {record_place(r): r.answer for r in store.records(results.run)}
    consistent = [stored.get(record_place(r), r.answer) == r.answer for r in results.records]
    kept = list(itertools.compress(results.records, consistent))
    measured = [r for r in kept if not r.answer["refused"]]
    contents = {content_hash(r.answer) for r in measured}
    copies = {
        key: uid
        for uid, answer in store.alike(results.run.uid, (r.answer["cycles"] for r in measured))
        if (key := content_hash(answer)) in contents
    }
    added = [r for r in kept if r.answer["refused"] or content_hash(r.answer) not in copies]
    return added, sorted(set(copies.values())), consistent.count(False)


def _row(
    results: Results, new: int, present: int, copied_from: list[str], contradicting: int
) -> dict[str, object]:
    facts, recognised = hosts.of_banner(results.run.banner)
    clocks = sorted({str(r.answer["clock"]) for r in results.records} - {""})
    notes = list(run_notes(results, recognised.core, recognised.doubt))
    if copied_from:
        names = ", ".join(uid[:12] for uid in copied_from)
        notes.append(f"readings that are in the store already, as run {names}, are left out")
    if contradicting:
        notes.append(
            f"{contradicting} readings contradict what the store has of this run: left out"
        )
    return {
        "file": str(results.path),
        "machine": hosts.machine(facts),
        "microarch": recognised.core or "",
        "clock": ", ".join(clocks),
        "new": new,
        "there": present,
        "refused": sum(bool(r.answer["refused"]) for r in results.records),
        "missing": results.missing,
        "damaged": results.damaged + contradicting,
        "note": "; ".join(notes),
    }
