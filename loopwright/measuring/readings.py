"""The calls of a measurement, and readings of them in several processes: figures, result rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import Any, Self
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loopwright import kernels
from loopwright.checking.check import user_space_note
from loopwright.code import loops
from loopwright.code.instructions import Code, Loop
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant
from loopwright.machine.emulator import Call
from loopwright.machine.harness import Point
from loopwright.machine.trace import RECORD, Tracer

SIZES = (0, 1, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RECORDS = (0, 1, 2, 4, 8, 16, 32, 64)
ALIGNMENTS = ((0, 0), (8, 0), (1, 0), (0, 1))  # destination and source, bytes from a page start
CACHES = ("hot", "cold")
MOST_BYTES = 1 << 20
_PAGE = 4096
_LINE = 64
_HALF_PAGE = _PAGE // 2  # bytes between source and destination, without 4 KiB aliasing
_SHORT = 4096  # least bytes of the smaller of a loop's two calls; the other is three times it


def both_sides(contract: Contract) -> bool:
    """True if a routine has a destination and a source, which have a skew."""
    return contract.inputs.keys() >= {"dst", "src"}


@dataclass(frozen=True)
class Sweep:
    """The calls that are measured of every variant.

    sizes in bytes (records, where the effect is store_fields; None: defaults), alignments as pairs
    of destination and source offsets (None: ALIGNMENTS), skews as (dst - src) mod 4096 (None: half
    a page, but for the alignments), caches "hot" or "cold". Without calls only loops are measured.
    InputError for invalid values.
    """

    sizes: Sequence[int] | None = None
    alignments: Sequence[tuple[int, int]] | None = None
    skews: Sequence[int] | None = None
    caches: Sequence[str] = ("hot",)
    calls: bool = True

    def __post_init__(self) -> None:
        for size in self.sizes or ():
            if not 0 <= size <= MOST_BYTES:
                raise InputError(f"size {size} is not from 0 to {MOST_BYTES}")
        if self.alignments is not None and not self.alignments:
            raise InputError("no alignment given; give pairs of destination and source, as (0, 0)")
        for pair in self.alignments or ():
            if any(not 0 <= a < _PAGE for a in pair):
                raise InputError(f"alignment {pair} is not from 0 to 4095")
        for skew in self.skews or ():
            if not 0 <= skew < _PAGE:
                raise InputError(f"skew {skew} is not from 0 to 4095")
        for cache in self.caches:
            if cache not in CACHES:
                raise InputError(f"cache {cache!r} is not {' or '.join(CACHES)}")
        for skew in self.skews or ():
            for dst, src in self.alignments or ():
                if (dst - src - skew) % _LINE:
                    raise InputError(
                        f"alignment {dst}:{src} and skew {skew} contradict each other: "
                        f"destination minus source is {(dst - src) % _LINE} mod {_LINE}; "
                        "leave the alignments out, or the skew"
                    )

    def allowed(self, contract: Contract) -> list[tuple[int, int, int]]:
        """Return the alignments that a contract allows, of destination and source, with skews.

        InputError if none remains. A requested skew moves the source, whose alignment follows from
        it where none is requested.
        """
        if self.skews and both_sides(contract):
            dsts = [d for d, _ in self.alignments or ALIGNMENTS]
            aligned = [(d, (d - k) % _LINE, k) for k in self.skews for d in dsts]
            return list(dict.fromkeys(aligned))
        allowed = contract.allowed(self.alignments or ALIGNMENTS)
        distance = _HALF_PAGE if contract.align <= _HALF_PAGE else 0
        return [(d, s, (d - s - distance) % _PAGE) for d, s in allowed]


@dataclass(frozen=True)
class Goal:
    """A wanted figure: of one point, a call; of two, the slope between them.

    size_bytes is the size of a call, or of the unit of a loop; divisor is the number of units
    between the points.
    """

    quantity: str
    unit: str
    points: tuple[Point, ...]
    size_bytes: int
    divisor: float
    both_sides: bool

    @property
    def cache(self) -> str:
        """The state of the buffers: "hot" or "cold"."""
        return "cold" if self.points[0].cold else "hot"


def goals(variant: Variant, code: Code, contract: Contract, sweep: Sweep) -> tuple[Goal, ...]:
    """Return the points to measure of a variant.

    Loops are measured hot, at the first alignment of each skew at which a call runs in the loop.
    InputError if its contract counts iterations and it has no loop.
    """
    choice = loops.choose(code.loops, contract, code.symbols)
    if choice is None and contract.unit == "iteration":
        raise InputError(
            f"{variant.source}: no loop that moves data; a routine without one says "
            'unit = "call" in its contract'
        )
    alignments = sweep.allowed(contract)
    slopes = []
    # The iterations of a loop inside the one over records do not follow from the count of records.
    nested = choice is not None and choice.loop.nested and bool(contract.fields)
    if choice is not None and contract.unit == "iteration" and contract.counted and not nested:
        slopes = _slopes(code, contract, choice.loop, sweep, alignments)
    if not sweep.calls and slopes:
        return tuple(slopes)
    calls = [
        _call(contract, Point(count, *alignment, cold=cache == "cold"))
        for count in _counts(contract, sweep.sizes)
        for alignment in alignments
        for cache in sweep.caches
    ]
    return (*calls, *slopes)


def _slopes(
    code: Code,
    contract: Contract,
    loop: Loop,
    sweep: Sweep,
    alignments: Sequence[tuple[int, int, int]],
) -> list[Goal]:
    """Return the goal of a loop for each requested skew, or one for all alignments."""
    several_skews = bool(sweep.skews) and both_sides(contract)
    moved = _moved(contract, loop)
    by_skew: dict[int | None, Goal] = {}
    for alignment in alignments:
        skew = alignment[2] if several_skews else None
        goal = _slope(contract, moved, loop.kind == "string", alignment)
        if skew not in by_skew and _runs_in(loop, moved, code, contract, goal.points[0]):
            by_skew[skew] = goal
    return list(by_skew.values())


def _moved(contract: Contract, loop: Loop) -> int:
    """Return the bytes of a call's size that one iteration of its loop moves, in whole records."""
    moved = loops.moved_bytes(loop, contract)
    if contract.effect == "store_fields":
        return moved // sum(f.size for f in contract.fields) * contract.dst_record
    return moved


def _runs_in(loop: Loop, moved: int, code: Code, contract: Contract, point: Point) -> bool:
    """True if a call moves at least half of its bytes in a loop, or cannot be traced."""
    # A traced source lies half a page further than its alignment.
    src_align = (point.dst_align - point.skew - _HALF_PAGE) % _PAGE
    call = Call(point.count, point.dst_align, src_align)
    [traced] = Tracer(code, contract, 0).calls([call])
    if isinstance(traced, InputError):
        return True
    steps = np.frombuffer(traced.steps, RECORD)
    iterations = steps["repeats"][steps["position"] == loop.instructions[-1].address].sum()
    return bool(2 * moved * iterations >= point.count * contract.count_bytes)


def _counts(contract: Contract, sizes: Sequence[int] | None) -> Sequence[int]:
    if not contract.counted:
        return (1,)
    return sizes or (RECORDS if contract.effect == "store_fields" else SIZES)


def call_bytes(contract: Contract, sizes: Sequence[int] | None) -> list[int]:
    """Return the sizes in bytes of the measured calls for requested sizes."""
    return [count * contract.count_bytes for count in _counts(contract, sizes)]


def _call(contract: Contract, point: Point) -> Goal:
    size = point.count * contract.count_bytes
    return Goal("call", "cycles/call", (point,), size, 1.0, both_sides(contract))


def _slope(contract: Contract, moved: int, string: bool, alignment: tuple[int, int, int]) -> Goal:
    """Return the goal for a loop that moves so many bytes an iteration.

    Both calls are whole numbers of iterations and of lines, so that their tails are equal.
    """
    count_bytes = contract.count_bytes
    step = math.lcm(moved, _LINE * count_bytes) // count_bytes
    short = math.ceil(_SHORT / count_bytes / step) * step
    counts = (short, 3 * short)
    unit_bytes = loops.STRING_BYTES if string else moved
    return Goal(
        "loop",
        f"cycles/{loops.STRING_BYTES} B" if string else "cycles/iteration",
        tuple(Point(count, *alignment) for count in counts),
        unit_bytes,
        (counts[1] - counts[0]) * count_bytes / unit_bytes,
        both_sides(contract),
    )


RESAMPLES = 1000
SEED = 20250  # arbitrary; recorded with the figures derived from it
CONFIDENCE = 0.95

Raw = Sequence[Sequence[Sequence[float]]]
"""By process, the samples of each point, in the unit of the figure that they make up.

One point: the figure is their median. Two: the median of the second less that of the first.
"""


def draws(raw: Raw, *key: object) -> NDArray[np.float64]:
    """Return RESAMPLES bootstrap figures, over processes and samples.

    Each is the median over processes drawn with replacement, of the figure that samples drawn with
    replacement from a process give. key names what raw is of: figures of different keys are drawn
    independently, and those of one key alike in every run.
    """
    samples = tuple(tuple(tuple(point) for point in points) for points in raw)
    return _drawn(samples, repr(key), RESAMPLES)


# A variant's calls are resampled for each other variant, and again for each size alone.
@lru_cache(maxsize=4096)
def _drawn(raw: Raw, key: str, count: int) -> NDArray[np.float64]:
    random = np.random.default_rng([SEED, crc32(key.encode())])
    chosen = random.integers(len(raw), size=(count, len(raw)))
    figures = np.empty(chosen.shape)
    for number, points in enumerate(raw):
        drawn = chosen == number
        medians = [_medians(random, samples, int(drawn.sum())) for samples in points]
        figures[drawn] = medians[-1] - (medians[0] if len(medians) > 1 else 0)
    drawn_figures = np.asarray(np.median(figures, axis=1))
    drawn_figures.setflags(write=False)
    return drawn_figures


def _medians(
    random: np.random.Generator, samples: Sequence[float], count: int
) -> NDArray[np.float64]:
    array = np.asarray(samples)
    return np.asarray(np.median(random.choice(array, size=(count, len(array))), axis=1))


def interval(figures: NDArray[np.float64]) -> tuple[float, float]:
    """Return the percentiles between which CONFIDENCE of the figures lie."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(figures, [tail, 1 - tail])
    return float(low), float(high)


CALIBRATION_ERROR = 5e-4  # relative error of the calibration, from loops of known speed
# Relative differences between processes, above which, and above the spread of samples, they have
# two speeds. Memory varies more.
_SPEEDS_APART = {"hot": 1e-2, "cold": 0.1}
_COLD = "cold: each call has buffers of its own, in no cache, and a fence before it"
_MANY_DROPPED = 0.2  # share of dropped samples that a note mentions
_DROPPED = "more than a fifth of the samples was dropped for being slow: see the columns dropped"
_LOOP_EXIT = "a loop's exit may mispredict: trust differences from 3 % on, or at several offsets"


@dataclass(frozen=True, kw_only=True)
class ProcessReading:
    """Figures of one process, in cycles, or the reason why there are none.

    cycles is the median of samples, p10 and p90 are percentiles. accepted counts the samples whose
    calibrations agree, slow those of them that were left out for taking slow_from to slow_to times
    as long as the fast ones. two_speeds describes two speeds that noise does not explain, or is "".
    """

    cycles: float
    p10: float
    p90: float
    accepted: int
    slow: int
    slow_from: float
    slow_to: float
    two_speeds: str
    clock: str
    refused: str


def dropped_columns(readings: Sequence[ProcessReading]) -> dict[str, float]:
    """Return the share of the samples that were left out for being slow, and their slowness."""
    slow = [r for r in readings if r.slow]
    return {
        "dropped": sum(r.slow for r in readings) / sum(r.accepted for r in readings),
        "dropped_from": min((r.slow_from for r in slow), default=math.nan),
        "dropped_to": max((r.slow_to for r in slow), default=math.nan),
    }


@dataclass(frozen=True, kw_only=True)
class Reading(ProcessReading):
    """One point in one process: cycles a call.

    samples are those that were kept, in the order in which they were taken. milliseconds is the
    duration of the reading.
    """

    samples: tuple[float, ...]
    skew: int
    milliseconds: float

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the reading of a line of the harness's output."""
        values = {f.name: record[f.name] for f in fields(cls)}
        return cls(**values | {"samples": tuple(record["samples"])})

    @property
    def error(self) -> float:
        """The uncertainty within the process, in cycles."""
        return max((self.p90 - self.p10) / 2, CALIBRATION_ERROR * self.cycles)


@dataclass(frozen=True)
class Result:
    """The result of a goal over all processes; raw has the samples (see Raw).

    dropped is the share of samples that were left out for being slow, dropped_from and dropped_to
    the factors by which they took longer than the others, from the fastest to the slowest tenth.
    """

    goal: Goal
    cycles: float
    p10: float
    p90: float
    uncertainty: float
    samples: int
    dropped: float
    dropped_from: float
    dropped_to: float
    processes: int
    skew: int | None
    clock: str
    status: str
    reason: str
    milliseconds: float
    raw: Raw

    @classmethod
    def refusal(cls, goal: Goal, reason: str, clock: str = "", milliseconds: float = 0.0) -> Self:
        """Return a result without a number."""
        nan = math.nan
        return cls(
            *(goal, nan, nan, nan, nan, 0, nan, nan, nan, 0, None),
            *(clock, "refused", reason, milliseconds, ()),
        )

    @classmethod
    def of(cls, goal: Goal, readings: Sequence[Sequence[Reading]], processes: int) -> Self:
        """Join the readings of each point of a goal, process by process.

        The result is refused if fewer processes than asked for accepted a point, or their clocks
        differ.
        """
        accepted = [[r for r in point if not r.refused] for point in readings]
        duration = sum(r.milliseconds for point in readings for r in point)
        for point, kept in zip(readings, accepted, strict=True):
            if len(kept) < processes:
                last = [r for r in point if r.refused][-1]
                count = f"in {len(point) - len(kept)} of {len(point)} processes"
                reason = f"{last.refused} ({count})"
                return cls.refusal(goal, reason, last.clock, duration)
        all_readings = [r for point in accepted for r in point]
        clocks = sorted({r.clock for r in all_readings})
        if len(clocks) > 1:
            return cls.refusal(goal, f"the clocks differ: {' and '.join(clocks)}", "", duration)
        figures = [_ProcessFigure.of(goal, turn) for turn in zip(*accepted, strict=False)]
        cycles = median(figure.cycles for figure in figures)
        spread = max(abs(figure.cycles - cycles) for figure in figures)
        speeds = next((r.two_speeds for r in all_readings if r.two_speeds), "")
        speeds = speeds or _differing_processes(accepted, _SPEEDS_APART[goal.cache])
        return cls(
            goal=goal,
            cycles=cycles,
            p10=median(figure.p10 for figure in figures),
            p90=median(figure.p90 for figure in figures),
            uncertainty=max(figure.error for figure in figures) + spread,
            samples=sum(len(r.samples) for r in all_readings),
            **dropped_columns(all_readings),
            processes=len(figures),
            skew=all_readings[0].skew if goal.both_sides else None,
            clock=all_readings[0].clock,
            status="bimodal" if speeds else "ok",
            reason=speeds,
            milliseconds=duration,
            raw=[
                [[sample / goal.divisor for sample in reading.samples] for reading in turn]
                for turn in zip(*accepted, strict=False)
            ],
        )

    @property
    def note(self) -> str:
        """The caveats of the figure."""
        notes = [_COLD] if self.goal.cache == "cold" else []
        notes += [_LOOP_EXIT] if self.goal.unit == "cycles/iteration" else []
        notes += [_DROPPED] if self.dropped > _MANY_DROPPED else []
        return "; ".join(notes)

    def columns(self) -> dict[str, Any]:
        """Return the columns of measure.run for the result."""
        point = self.goal.points[0]
        return {
            "quantity": self.goal.quantity,
            "unit": self.goal.unit,
            "size_bytes": self.goal.size_bytes,
            "dst_align": point.dst_align,
            "src_align": point.src_align,
            "skew_bytes": self.skew,
            "cache": self.goal.cache,
            **{name: getattr(self, name) for name in (*_FIGURES, "milliseconds", "raw")},
        }


@dataclass(frozen=True)
class _ProcessFigure:
    """A goal's figure in one process, with the uncertainty error."""

    cycles: float
    p10: float
    p90: float
    error: float

    @classmethod
    def of(cls, goal: Goal, readings: Sequence[Reading]) -> Self:
        if len(readings) == 1:
            [only] = readings
            return cls(only.cycles, only.p10, only.p90, only.error)
        short, long = readings
        cycles = (long.cycles - short.cycles) / goal.divisor
        # The two points are measured separately: their errors are independent.
        low = ((long.cycles - long.p10) ** 2 + (short.p90 - short.cycles) ** 2) ** 0.5
        high = ((long.p90 - long.cycles) ** 2 + (short.cycles - short.p10) ** 2) ** 0.5
        error = (long.error**2 + short.error**2) ** 0.5
        return cls(
            cycles, cycles - low / goal.divisor, cycles + high / goal.divisor, error / goal.divisor
        )


def _differing_processes(points: Sequence[Sequence[Reading]], least: float) -> str:
    """Return a message if processes differ by more than least (relative) and than their samples."""
    for readings in points:
        cycles = sorted(r.cycles for r in readings)
        gap = max((b - a for a, b in pairwise(cycles)), default=0.0)
        if gap > least * cycles[0] and gap > max(r.p90 - r.p10 for r in readings):
            return "processes differ: " + ", ".join(f"{r.cycles:.2f}" for r in readings) + " cycles"
    return ""


RATIO_COLUMNS = ["against", "ratio", "ratio_low", "ratio_high", "verdict"]

# Relative: each side is measured against a calibration with an error of LEAST.
FLOOR = 2 * CALIBRATION_ERROR
# The cost of a loop's exit alternates between two values: from one placement to another loops
# differ by this much, whatever the variant.
LOOP_FLOOR = 0.02

FASTER, SLOWER, SAME = "faster", "slower", "no difference"

# Rows that differ in one of these are not compared.
_ALIKE = [
    "kernel", "quantity", "dst_align", "src_align", "skew_bytes", "cache", "microarch", "machine"
]  # fmt: skip


def bases(variants: Sequence[Variant], against: str | None = None) -> dict[str, str]:
    """Return the name of the variant to compare each one with, by name.

    That is the baseline of its routine, or the variant named by against; "" if that one is of
    another routine.
    """
    if against is None:
        return {v.name: kernels.load(v.kernel).routines[v.routine].baseline for v in variants}
    routines = [v.routine for v in variants if v.name == against]
    return {v.name: against if v.routine in routines else "" for v in variants}


def add_ratios(rows: pd.DataFrame, against: Mapping[str, str], *, placed: bool) -> pd.DataFrame:
    """Return measured rows with RATIO_COLUMNS filled in.

    against names for each variant the one to compare with; of others, and of itself, the columns
    stay empty. ratio is the speed by bytes moved (above 1: faster), ratio_low to ratio_high its
    interval at CONFIDENCE, widened by FLOOR. verdict is FASTER, SLOWER, SAME where the interval
    contains 1 (or, of a loop, where the ratio is within LOOP_FLOOR of it), or the reason for no
    ratio. placed is True if variants stand at requested offsets; then only figures of the same
    offset are compared.
    """
    records = rows.to_dict("records")
    keys = [_key(row, placed) for row in records]
    by_key = {(row["variant"], *key): row for row, key in zip(records, keys, strict=True)}
    compared = []
    for row, key in zip(records, keys, strict=True):
        base = by_key.get((against.get(row["variant"], ""), *key))
        alone = base is None or base is row or row["status"] == "refused"
        compared.append(_NO_RATIO if alone or base is None else _ratio_columns(row, base, key))
    ratios = pd.DataFrame(compared, columns=RATIO_COLUMNS, index=rows.index)
    return rows.assign(**{name: ratios[name] for name in RATIO_COLUMNS})


_NO_RATIO: dict[str, Any] = {
    "against": "", "ratio": math.nan, "ratio_low": math.nan, "ratio_high": math.nan, "verdict": ""
}  # fmt: skip


def _key(row: Mapping[Any, Any], placed: bool) -> tuple[object, ...]:
    """Return the values that comparable rows share; None for missing ones."""
    is_loop = row["quantity"] == "loop"
    size = None if is_loop else row["size_bytes"]
    key = (*(row[name] for name in _ALIKE), size, row["offset"] if placed else None)
    return tuple(None if value != value else value for value in key)


def _ratio_columns(row: Mapping[Any, Any], base: Mapping[Any, Any], key: object) -> dict[str, Any]:
    columns = {**_NO_RATIO, "against": base["variant"]}
    if base["status"] == "refused":
        return {**columns, "verdict": f"no ratio: {base['variant']} was refused"}
    if row["clock"] != base["clock"]:
        clocks = f"{base['clock']} and {row['clock']}"
        return {**columns, "verdict": f"no ratio: the clocks differ, {clocks}"}
    if min(row["cycles"], base["cycles"]) <= 0:
        return {**columns, "verdict": "no ratio: a slope that is not above 0"}
    is_loop = row["quantity"] == "loop"
    scale = row["size_bytes"] / base["size_bytes"] if is_loop else 1.0
    ratio = scale * base["cycles"] / row["cycles"]
    resampled = (draws(r["raw"], r["variant"], key) for r in (base, row))
    low, high = interval(scale * next(resampled) / next(resampled))
    low, high = min(low, ratio) * (1 - FLOOR), max(high, ratio) * (1 + FLOOR)
    least = LOOP_FLOOR if is_loop else 0.0
    faster, slower = low > 1 and ratio > 1 + least, high < 1 and ratio < 1 - least
    verdict = FASTER if faster else SLOWER if slower else SAME
    return {**columns, "ratio": ratio, "ratio_low": low, "ratio_high": high, "verdict": verdict}


PROCESSES = 3

_FIGURES = (
    "cycles", "p10", "p90", "uncertainty", "samples", "dropped", "dropped_from", "dropped_to",
    "processes", "clock", "status", "reason",
)  # fmt: skip
FIGURE_COLUMNS = [*_FIGURES, "microarch", "machine"]
"""The columns of a measured figure, of a variant or of a block."""
RESULT_COLUMNS = [
    "kernel", "variant", "quantity", "unit", "size_bytes", "dst_align", "src_align", "skew_bytes",
    "cache", "offset", *FIGURE_COLUMNS, "self_test", "milliseconds", *RATIO_COLUMNS, "note", "raw",
]  # fmt: skip


def result_row(
    variant: Variant, offset: int, result: Result, microarch: str, machine: str, self_test: str
) -> dict[str, Any]:
    """Return the columns of a variant's result on a machine; tested is its self-test."""
    user_space = user_space_note(variant)
    return {
        "kernel": variant.kernel,
        "variant": variant.name,
        "offset": offset,
        "microarch": microarch,
        "machine": machine,
        "self_test": self_test,
        **result.columns(),
        "note": "; ".join(note for note in (user_space, result.note) if note),
    }


def self_test_span(processes: Sequence[Sequence[dict[str, Any]]]) -> str:
    """Return in one line the measured range of each loop of known speed, over processes.

    A loop that was refused in all of them has "refused".
    """
    by_name: dict[str, list[float]] = {}
    for tests in processes:
        for test in tests:
            cycles = by_name.setdefault(test["name"], [])
            cycles += [] if test["cycles"] is None else [test["cycles"]]
    return ", ".join(f"{name} {_span(cycles)}" for name, cycles in by_name.items())


def _span(values: Sequence[float]) -> str:
    if not values:
        return "refused"
    low, high = (f"{v:.4f}" for v in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
