"""Measure variants on this host: cycles per call, and per iteration of the main loop.

The protocol, its acceptance rules and what it refuses are described in harness/README.md.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from loopwright import assemble, harness, hosts, jobs, kernels, points
from loopwright.check import contract_of, user_space_note
from loopwright.check import run as run_checks
from loopwright.code import Code
from loopwright.errors import InputError
from loopwright.jobs import Point
from loopwright.kernels import Contract, Variant
from loopwright.points import Goal, Placement
from loopwright.readings import Reading, Result

ALIGNMENTS = ((0, 0), (1, 0), (0, 1))
PROCESSES = 3
_SPARE = 2  # further processes for points that were refused in one

COLUMNS = [
    "kernel",
    "variant",
    "quantity",
    "unit",
    "size_bytes",
    "dst_align",
    "src_align",
    "skew_bytes",
    "offset",
    "cycles",
    "p10",
    "p90",
    "uncertainty",
    "samples",
    "processes",
    "clock",
    "status",
    "reason",
    "microarch",
    "machine",
    "note",
]


@dataclass(frozen=True)
class _Subject:
    """A variant that can be measured, with what is wanted of it."""

    variant: Variant
    code: Code
    contract: Contract
    place: Placement
    goals: tuple[Goal, ...]


def run(
    variants: Iterable[Variant],
    sizes: Sequence[int] | None = None,
    offset: int | None = None,
    alignments: Sequence[tuple[int, int]] = ALIGNMENTS,
    processes: int = PROCESSES,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Measure variants; rows of quantity "loop" and "call", tidy.

    sizes are bytes a call (records, where the effect is store_fields). offset (0 to 63) is where
    the main loop starts, mod 64; by default it stands where its own alignment directives put it.
    For a routine without a loop it is that of the entry. alignments are pairs of destination and
    source offsets from a page start; loops are measured at the first.

    size_bytes is what a call moves, or one unit of a loop: an iteration, or 64 bytes of a string
    instruction. cycles is the median: for a loop per unit, for a call in a row of independent
    ones, with call, return and the loading of arguments. p10 and p90 are of the samples;
    uncertainty (cycles) adds the spread between processes. skew_bytes is (dst - src) mod 4096. A
    row with status "refused" has a reason and no number, as that of a variant that breaks its
    contract; "bimodal" says that samples differ by more than 0.3 %. progress is called with
    measured points and all points. The table's attrs["host"] is the record of hosts.describe, with
    the ticks that a hypervisor took meanwhile. InputError for settings that make no sense.
    """
    wanted = list(variants)
    _validate(alignments, processes, sizes)
    native = [v for v in wanted if not _emulated(v)]
    held = run_checks(native)
    refused = {v.id: f"emulated: no timing ({_emulated(v)} runs its code here)" for v in wanted}
    refused |= {
        v.id: "" if passed else f"breaks its contract: {failure}"
        for v, passed, failure in zip(native, held["passed"], held["failure"], strict=True)
    }
    stolen = hosts.steal()
    results: dict[str, list[Result]] = {}
    offsets: dict[str, int] = {}
    subjects: list[_Subject] = []
    for variant in wanted:
        code = assemble.user_code(variant)
        contract = contract_of(variant)
        goals = points.goals(variant, code, contract, sizes, alignments)
        place = points.Placement.of(code, contract, offset)
        if refused[variant.id]:
            results[variant.id] = [Result.refusal(goal, refused[variant.id]) for goal in goals]
        else:
            subjects.append(_Subject(variant, code, contract, place, goals))
        offsets[variant.id] = place.offset
    if subjects:
        results |= _measure(subjects, processes, progress)
    rows = [_row(v, offsets[v.id], r) for v in wanted for r in results[v.id]]
    table = pd.DataFrame(rows, columns=COLUMNS)
    stolen_now = hosts.steal()
    lost = None if stolen is None or stolen_now is None else stolen_now - stolen
    table.attrs["host"] = {**hosts.describe(), "stolen_ticks_meanwhile": lost}
    return table


def _validate(
    alignments: Sequence[tuple[int, int]], processes: int, sizes: Sequence[int] | None
) -> None:
    if not alignments:
        raise InputError("no alignment given; give pairs of destination and source, as (0, 0)")
    if processes < 1:
        raise InputError(f"{processes} processes measure nothing; give at least 1")
    for size in sizes or ():
        if not 0 <= size <= points.MOST_BYTES:
            raise InputError(f"size {size} is not from 0 to {points.MOST_BYTES}")
    for pair in alignments:
        if any(not 0 <= a < 4096 for a in pair):
            raise InputError(f"alignment {pair} is not from 0 to 4095")


def _emulated(variant: Variant) -> str:
    """Return the name of the emulator that runs a variant here, or nothing."""
    return harness.emulator(kernels.load(variant.kernel).isa)


def _measure(
    subjects: Sequence[_Subject],
    processes: int,
    progress: Callable[[int, int], None] | None,
) -> dict[str, list[Result]]:
    """Measure the points of all subjects, in random order, in several processes."""
    readings: dict[tuple[str, Point], list[Reading]] = {
        (s.variant.id, p): [] for s in subjects for g in s.goals for p in g.points
    }
    total = len(readings) * processes
    done = 0
    for turn in range(processes + _SPARE):
        missing = [key for key, got in readings.items() if _accepted(got) < processes]
        if not missing or (turn >= processes and not any(map(_accepted, readings.values()))):
            break
        for key, reading in _process(subjects, missing):
            readings[key].append(reading)
            done = min(done + 1, total)
            if progress:
                progress(done, total)
    return {
        s.variant.id: [
            Result.of(goal, [readings[s.variant.id, p] for p in goal.points], processes)
            for goal in s.goals
        ]
        for s in subjects
    }


def _accepted(readings: Sequence[Reading]) -> int:
    return sum(not r.refused for r in readings)


def _process(
    subjects: Sequence[_Subject], keys: Sequence[tuple[str, Point]]
) -> Iterable[tuple[tuple[str, Point], Reading]]:
    """Measure points once, interleaved in random order, in one process of the harness."""
    by_id = {s.variant.id: s for s in subjects}
    order = random.sample(keys, len(keys))
    text = ""
    for n, (variant_id, point) in enumerate(order):
        s = by_id[variant_id]
        text += jobs.measure(str(n), s.code, s.contract, [point], s.place.shift)
    isa = by_id[order[0][0]].code.isa
    for record in harness.run(isa, text):
        yield order[int(record["id"])], Reading.of(record)


def _row(variant: Variant, offset: int, result: Result) -> dict[str, Any]:
    left_out = user_space_note(variant)
    return {
        "kernel": variant.kernel,
        "variant": variant.name,
        "offset": offset,
        "microarch": "" if _emulated(variant) else hosts.microarch() or "",
        "machine": hosts.machine(),
        **result.columns(),
        "note": "; ".join(note for note in (left_out, result.note) if note),
    }
