"""Measure variants on this host: cycles per call, and per iteration of the main loop."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from loopwright import kernels, toolchain
from loopwright.checking.check import run as run_checks
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.code.loops import Placement
from loopwright.errors import InputError, unknown
from loopwright.kernels import Contract, Variant, contract_of
from loopwright.machine import harness, hosts
from loopwright.machine.harness import Point
from loopwright.measuring import readings
from loopwright.measuring.readings import (
    PROCESSES,
    RESULT_COLUMNS,
    Goal,
    Reading,
    Result,
    Sweep,
    result_row,
    self_test_span,
)
from loopwright.measuring.store import Recorder, Store

_SPARE = 2  # further processes for refused points
_CLOCK = "clock"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PlacedVariant:
    """A variant at one code offset, with its goals."""

    variant: Variant
    code: Code
    contract: Contract
    place: Placement
    goals: tuple[Goal, ...]


@dataclass(frozen=True)
class Rounds:
    """Results of each subject's goals, and each process's self-test.

    A self-test is a list of loops: name, measured and known cycles an instruction (None if unknown
    for this core), tolerance and outcome.
    """

    results: list[list[Result]]
    self_tests: list[list[dict[str, Any]]]


_Key = tuple[int, Point]  # the number of a subject, and one of its points


def measure_rounds(
    subjects: Sequence[PlacedVariant],
    processes: int,
    progress: Progress | None,
    recorder: Recorder | None = None,
) -> Rounds:
    """Measure the goals of all subjects in so many processes, with spare ones for refused points.

    progress is called with the number of measured points and of all points. recorder keeps the
    harness's answers, and points that it has already are not measured again.
    """
    readings: dict[_Key, list[Reading]] = {
        (n, p): [] for n, s in enumerate(subjects) for g in s.goals for p in g.points
    }
    self_tests = recorder.self_tests() if recorder else []
    total = len(readings) * processes
    if recorder:
        for n, s in enumerate(subjects):
            for answer in recorder.known(s.variant, s.code, s.place.shift):
                readings.get((n, Point.of(answer)), []).append(Reading.of(answer))
    done = sum(min(_accepted(of_point), processes) for of_point in readings.values())
    for turn in range(processes + _SPARE):
        missing = [key for key, of_point in readings.items() if _accepted(of_point) < processes]
        if not missing or (turn >= processes and not any(map(_accepted, readings.values()))):
            break
        for key, record in _measure_once(subjects, missing):
            if key is None:
                self_tests.append(record["self_test"])
                if recorder:
                    recorder.begin_process(record)
                continue
            if recorder:
                recorder.keep(subjects[key[0]].variant, subjects[key[0]].code, record)
            readings[key].append(Reading.of(record))
            done = min(done + 1, total)
            if progress:
                progress(done, total)
    results = [
        [Result.of(g, [readings[n, p] for p in g.points], processes) for g in s.goals]
        for n, s in enumerate(subjects)
    ]
    return Rounds(results, self_tests)


def _accepted(readings: Sequence[Reading]) -> int:
    return sum(not r.refused for r in readings)


def _measure_once(
    subjects: Sequence[PlacedVariant], keys: Sequence[_Key]
) -> Iterable[tuple[_Key | None, dict[str, Any]]]:
    """Yield the answers of one process of the harness by key; that on its clock has none."""
    order = random.sample(keys, len(keys))
    text = harness.clock_job(_CLOCK)
    for n, (subject, point) in enumerate(order):
        s = subjects[subject]
        text += harness.measure_job(str(n), s.code, s.contract, [point], s.place.shift)
    for record in harness.run(subjects[0].code.isa, text):
        yield None if record["id"] == _CLOCK else order[int(record["id"])], record


SELF_TEST_PROCESSES = 3
SELF_TEST_COLUMNS = [
    "loop", "cycles", "low", "high", "known", "basis", "error_percent", "tolerance_percent", "held",
    "reason", "processes", "unit", "clock", "microarch", "machine",
]  # fmt: skip


def self_test(
    processes: int = SELF_TEST_PROCESSES, progress: Progress | None = None
) -> pd.DataFrame:
    """Measure each loop of known speed in so many processes; one row a loop.

    cycles an instruction are the median over processes, low and high the extremes, error_percent
    the largest deviation of a process from known. basis tells whether known is documented for this
    core, or is the nearest whole number of cycles, or of instructions a cycle. held is True if all
    processes are within the tolerance; reason is the failure. progress is called with the number of
    processes done and of all. InputError if this machine cannot measure.
    """
    tests: dict[str, list[dict[str, Any]]] = {}
    clock = ""
    for done in range(processes):
        if progress:
            progress(done, processes)
        record = next(harness.run(toolchain.host_isa(), harness.self_test_job("self_test")))
        if not record["clock"]:
            raise InputError(f"nothing can be measured here: {record['refused']}")
        clock = record["clock"]
        for test in record["self_test"]:
            tests.setdefault(test["name"], []).append(test)
    machine_columns = {
        "unit": "cycles/instruction",
        "clock": clock,
        "microarch": hosts.microarch() or "",
        "machine": hosts.machine(),
    }
    rows = [{"loop": name, **_row(of_loop), **machine_columns} for name, of_loop in tests.items()]
    return pd.DataFrame(rows, columns=SELF_TEST_COLUMNS)


def _row(tests: list[dict[str, Any]]) -> dict[str, object]:
    """Return the columns of a loop of known speed, from its self-tests by process."""
    measured = [t for t in tests if t["cycles"] is not None]
    cycles = [t["cycles"] for t in measured] or [math.nan]
    known = next((t["known"] for t in tests if t["known"] is not None), math.nan)
    errors = [100 * abs(t["cycles"] / t["known"] - 1) for t in measured]
    return {
        "cycles": median(cycles),
        "low": min(cycles),
        "high": max(cycles),
        "known": known,
        "basis": tests[0]["basis"],
        "error_percent": max(errors, default=math.nan),
        "tolerance_percent": 100 * tests[0]["tolerance"],
        "held": all(t["held"] for t in tests),
        "reason": "; ".join(_reasons(tests)),
        "processes": len(tests),
    }


def _reasons(tests: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the failures of a loop: its deviation, then its refusals in some processes."""
    off = [t for t in tests if t["cycles"] is not None and not t["held"]]
    refused = [t for t in tests if t["cycles"] is None]
    if off:
        worst = max(off, key=lambda t: abs(t["cycles"] / t["known"] - 1))
        yield f"{worst['cycles']:.4f} cycles in {len(off)} of {len(tests)} processes"
    if refused:
        yield f"refused in {len(refused)} of {len(tests)} processes: {refused[-1]['refused']}"


def run(
    variants: Iterable[Variant],
    sizes: Sequence[int] | None = None,
    offset: int | str | Iterable[int] | None = None,
    alignments: Sequence[tuple[int, int]] | None = None,
    skews: Sequence[int] | None = None,
    caches: Sequence[str] = ("hot",),
    against: str | None = None,
    processes: int = PROCESSES,
    progress: Progress | None = None,
    recorder: Recorder | None = None,
) -> pd.DataFrame:
    """Measure variants; rows of quantity "loop" and "call", tidy.

    sizes are bytes a call (records, where the effect is store_fields). offset (0 to 63), or each
    of several, or "all", is where the main loop starts, mod 64; by default it stands where its own
    alignment directives put it. For a routine without a loop it is that of the entry. At several
    offsets calls are measured of the sizes given alone. alignments are pairs of destination and
    source offsets from a page start. skews are (dst - src) mod 4096, which place the source; where
    none is given it is half a page, but for the alignments, far from 4 KiB aliasing. Loops are
    measured at the first alignment of each skew. caches are "hot" or "cold": buffers flushed before
    every burst, each call with its own and behind a fence.

    size_bytes is what a call moves, or one unit of a loop: an iteration, or 64 bytes of a string
    instruction. cycles is the median: for a loop per unit, for a call in a row of independent ones,
    with call, return and the loading of arguments. p10 and p90 are of the samples; uncertainty
    (cycles) adds the spread between processes. skew_bytes is (dst - src) mod 4096. self_test says
    what the loops of known speed took in all processes; milliseconds is the duration of the row;
    raw has the samples (readings.Raw). ratio and its interval compare with the variant named by
    against, or else with the routine's baseline, where it is among the variants (see
    readings.add_ratios). A row with status "refused" has a reason and no number, as that of a
    variant that breaks its contract; "bimodal" says that there are two speeds: more samples are
    slow, or alike slow, than interruptions and what shares the core explain, or processes differ by
    more than 1 % (cold: 10 %) and than their samples. dropped is the share of samples that were
    left out for being slow, dropped_from and dropped_to how many times as long as the others they
    took.

    progress is called with measured points and all points. recorder keeps every answer of the
    harness as it comes; points that it knows already are not measured again. The table's
    attrs["host"] is the record of hosts.describe, with the ticks that a hypervisor took meanwhile.
    InputError for settings that make no sense.
    """
    assembled = _assembling(variants)
    if processes < 1:
        raise InputError(f"{processes} processes measure nothing; give at least 1")
    sweep = Sweep(sizes, alignments, skews, caches)
    offsets = {v.id: _offsets(v, offset) for v in assembled}
    if sizes is None and any(len(several) > 1 for several in offsets.values()):
        sweep = replace(sweep, calls=False)
    subjects = [_subject(v, at, sweep) for v in assembled for at in offsets[v.id]]
    if skews and not any(readings.both_sides(s.contract) for s in subjects):
        raise InputError(
            f"skew: {assembled[0].kernel} has a destination or a source alone; leave the skew out"
        )
    native = [v for v in assembled if not _emulated(v)]
    checks = run_checks(native)
    refused = {v.id: f"emulated: no timing ({_emulated(v)} runs its code here)" for v in assembled}
    refused |= {
        v.id: "" if passed else f"breaks its contract: {failure}"
        for v, passed, failure in zip(native, checks["passed"], checks["failure"], strict=True)
    }
    stolen = hosts.steal()
    sound = [s for s in subjects if not refused[s.variant.id]]
    rounds = measure_rounds(sound, processes, progress, recorder) if sound else Rounds([], [])
    measured = {id(s): r for s, r in zip(sound, rounds.results, strict=True)}
    self_tests = self_test_span(rounds.self_tests)
    machine, microarch = hosts.machine(), hosts.microarch() or ""
    cores = {v.id: "" if _emulated(v) else microarch for v in assembled}
    rows = [
        result_row(
            s.variant,
            s.place.offset,
            r,
            cores[s.variant.id],
            machine,
            "" if refused[s.variant.id] else self_tests,
        )
        for s in subjects
        for r in measured.get(id(s)) or [Result.refusal(g, refused[s.variant.id]) for g in s.goals]
    ]
    table = pd.DataFrame(rows, columns=RESULT_COLUMNS)
    bases = readings.bases(assembled, against)
    table = readings.add_ratios(table, bases, placed=offset is not None)
    stolen_now = hosts.steal()
    stolen_meanwhile = None if stolen is None or stolen_now is None else stolen_now - stolen
    table.attrs["host"] = {**hosts.describe(), "stolen_ticks_meanwhile": stolen_meanwhile}
    return table


def measure(
    spec: str,
    *,
    sizes: Sequence[int] | None = None,
    offset: int | str | Iterable[int] | None = None,
    alignments: Sequence[tuple[int, int]] | None = None,
    skews: Sequence[int] | None = None,
    caches: Sequence[str] = ("hot",),
    against: str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    store: Path | None = None,
) -> pd.DataFrame:
    """Measure KERNEL[/VARIANT] on this host; tidy rows (see run).

    against names a variant of the kernel to compare with, which is measured as well. A variant that
    breaks its contract is never measured; InputError if all do, or the code is of another ISA.
    Every point is kept in the results store, at store or its default path; resume continues the
    newest run of this machine and measures the points that it lacks.
    """
    kernel, variants = kernels.select(spec)
    if not toolchain.find(kernel.isa).native:
        raise InputError(
            f"{spec} is {kernel.isa} code and this machine runs {toolchain.host_isa()}: take "
            "`loopwright kit -o kit.tar.gz` to a machine that runs it"
        )
    if against is not None:
        if against not in kernel.variants:
            raise unknown("variant", against, kernel.variants)
        variants = [*dict.fromkeys((kernel.variants[against], *variants))]
    checks = run_checks(variants)
    sound = [v for v, passed in zip(variants, checks["passed"], strict=True) if passed]
    if not sound:
        failure = checks["failure"].iloc[0]
        raise InputError(f"{spec} breaks its contract and is not measured: {failure}")
    with closing(Store.open(store)) as opened:
        return run(
            sound,
            sizes=sizes,
            offset=offset,
            alignments=alignments,
            skews=skews,
            caches=caches,
            against=against,
            progress=progress,
            recorder=Recorder(opened, resume=resume),
        )


def _assembling(variants: Iterable[Variant]) -> list[Variant]:
    """Return the variants that assemble; InputError if none of them does."""
    assembled: list[Variant] = []
    refused: list[InputError] = []
    for variant in variants:
        try:
            assemble.user_code(variant)
            assembled.append(variant)
        except InputError as error:
            refused.append(error)
    if refused and not assembled:
        raise refused[0]
    return assembled


def _emulated(variant: Variant) -> str:
    """Return the name of the emulator that runs a variant here, or ""."""
    return harness.emulator(kernels.load(variant.kernel).isa)


def _offsets(variant: Variant, offsets: int | str | Iterable[int] | None) -> list[int | None]:
    """Return the code offsets of a variant, each once; None is by its own alignment."""
    if offsets is None or isinstance(offsets, int):
        return [offsets]
    if offsets == "all":
        return list(range(0, 64, 4 if kernels.load(variant.kernel).isa == "arm64" else 1))
    if isinstance(offsets, str):
        raise InputError(f"offset {offsets!r} is not a number from 0 to 63, and not all")
    several: list[int | None] = list(dict.fromkeys(offsets))
    if not several:
        raise InputError("no offset given; give numbers from 0 to 63, or all")
    return several


def _subject(variant: Variant, offset: int | None, sweep: Sweep) -> PlacedVariant:
    code = assemble.user_code(variant)
    contract = contract_of(variant)
    goals = readings.goals(variant, code, contract, sweep)
    return PlacedVariant(variant, code, contract, Placement.of(code, contract, offset), goals)
