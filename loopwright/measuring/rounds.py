"""Rounds: points measured interleaved, in random order and several processes; the self-test."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pandas as pd

from loopwright import toolchain
from loopwright.code.instructions import Code
from loopwright.code.loops import Placement
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant
from loopwright.machine import harness, hosts
from loopwright.machine.harness import Point
from loopwright.measuring.readings import Reading, Result
from loopwright.measuring.store import Recorder
from loopwright.measuring.sweeps import Goal

_SPARE = 2  # further processes for points that were refused in one
_CLOCK = "clock"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PlacedVariant:
    """A variant at one code offset, with what is wanted of it."""

    variant: Variant
    code: Code
    contract: Contract
    place: Placement
    goals: tuple[Goal, ...]


@dataclass(frozen=True)
class Rounds:
    """The readings of all processes: results of each subject, and each process's self-test.

    self_tests has a list a process: name, cycles an instruction, known ones (None where not known
    of this core), tolerance and whether it held of each loop.
    """

    results: list[list[Result]]
    self_tests: list[list[dict[str, Any]]]


_Key = tuple[int, Point]  # of a subject


def measure(
    subjects: Sequence[PlacedVariant],
    processes: int,
    progress: Progress | None,
    recorder: Recorder | None = None,
) -> Rounds:
    """Measure the goals of all subjects in so many processes, and spare ones for what is refused.

    progress is called with measured points and all points. recorder keeps what the harness says,
    and what it knows already is not measured again.
    """
    readings: dict[_Key, list[Reading]] = {
        (n, p): [] for n, s in enumerate(subjects) for g in s.goals for p in g.points
    }
    self_tests = recorder.self_tests() if recorder else []
    total = len(readings) * processes
    for n, s in enumerate(subjects if recorder else ()):
        for answer in recorder.known(s.variant, s.code, s.place.shift) if recorder else ():
            readings.get((n, Point.of(answer)), []).append(Reading.of(answer))
    done = sum(min(_accepted(got), processes) for got in readings.values())
    for turn in range(processes + _SPARE):
        missing = [key for key, got in readings.items() if _accepted(got) < processes]
        if not missing or (turn >= processes and not any(map(_accepted, readings.values()))):
            break
        for key, record in _process(subjects, missing):
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


def _process(
    subjects: Sequence[PlacedVariant], keys: Sequence[_Key]
) -> Iterable[tuple[_Key | None, dict[str, Any]]]:
    """Measure points once in one process of the harness; its clock comes first, without a key."""
    order = random.sample(keys, len(keys))
    text = harness.clock_job(_CLOCK)
    for n, (subject, point) in enumerate(order):
        s = subjects[subject]
        text += harness.measure_job(str(n), s.code, s.contract, [point], s.place.shift)
    for record in harness.run(subjects[0].code.isa, text):
        yield None if record["id"] == _CLOCK else order[int(record["id"])], record


SELF_TEST_PROCESSES = 3
SELF_TEST_COLUMNS = [
    "loop",
    "cycles",
    "low",
    "high",
    "known",
    "basis",
    "error_percent",
    "tolerance_percent",
    "held",
    "reason",
    "processes",
    "unit",
    "clock",
    "microarch",
    "machine",
]


def self_test(
    processes: int = SELF_TEST_PROCESSES, progress: Progress | None = None
) -> pd.DataFrame:
    """Measure each loop that is known in so many processes; one row a loop.

    cycles an instruction are the median over processes, low and high the extremes, error_percent
    the largest deviation of a process from known. basis says whether known is documented of this
    core, or the nearest whole number of cycles, or of instructions a cycle. held: all processes are
    within the tolerance; reason says why not. progress is called with processes done and all.
    InputError where this machine cannot measure.
    """
    read: dict[str, list[dict[str, Any]]] = {}
    clock = ""
    for done in range(processes):
        if progress:
            progress(done, processes)
        record = next(harness.run(toolchain.host_isa(), harness.self_test_job("self_test")))
        if not record["clock"]:
            raise InputError(f"nothing can be measured here: {record['refused']}")
        clock = record["clock"]
        for test in record["self_test"]:
            read.setdefault(test["name"], []).append(test)
    where = {
        "unit": "cycles/instruction",
        "clock": clock,
        "microarch": hosts.microarch() or "",
        "machine": hosts.machine(),
    }
    rows = [{"loop": name, **_row(tests), **where} for name, tests in read.items()]
    return pd.DataFrame(rows, columns=SELF_TEST_COLUMNS)


def _row(tests: list[dict[str, Any]]) -> dict[str, object]:
    read = [t for t in tests if t["cycles"] is not None]
    cycles = [t["cycles"] for t in read] or [math.nan]
    known = next((t["known"] for t in tests if t["known"] is not None), math.nan)
    errors = [100 * abs(t["cycles"] / t["known"] - 1) for t in read]
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
    """Yield why a loop did not hold: its figures, then why it has none in some processes."""
    off = [t for t in tests if t["cycles"] is not None and not t["held"]]
    refused = [t for t in tests if t["cycles"] is None]
    if off:
        worst = max(off, key=lambda t: abs(t["cycles"] / t["known"] - 1))
        yield f"{worst['cycles']:.4f} cycles in {len(off)} of {len(tests)} processes"
    if refused:
        yield f"refused in {len(refused)} of {len(tests)} processes: {refused[-1]['refused']}"
