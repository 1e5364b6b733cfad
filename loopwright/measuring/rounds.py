"""Measure points with the harness: interleaved in random order, in several processes."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from loopwright import harness
from loopwright.code.instructions import Code
from loopwright.code.loops import Placement
from loopwright.harness import jobs
from loopwright.harness.jobs import Point
from loopwright.kernels import Contract, Variant
from loopwright.measuring.readings import Reading, Result
from loopwright.measuring.sweeps import Goal
from loopwright.store.recorder import Recorder

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
    """What the processes read: the results of each subject, and each process's self-test.

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
    text = jobs.clock(_CLOCK)
    for n, (subject, point) in enumerate(order):
        s = subjects[subject]
        text += jobs.measure(str(n), s.code, s.contract, [point], s.place.shift)
    for record in harness.run(subjects[0].code.isa, text):
        yield None if record["id"] == _CLOCK else order[int(record["id"])], record
