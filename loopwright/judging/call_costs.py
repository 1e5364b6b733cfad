"""Costs of calls as a function of size: measured points, simulated calls, weights of sizes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loopwright import kernels, microarchs
from loopwright.code import assemble, loops
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.kernels import Variant
from loopwright.kernels.contracts import Contract
from loopwright.measuring import readings
from loopwright.measuring.readings import FLOOR, Sweep
from loopwright.microarchs import Microarch
from loopwright.predicting.calls import CallCost, CallQuestion

# Without a histogram, sizes in this range (bytes) have equal weight; of simulated calls, OCTAVES.
UNWEIGHTED = (64, 4096)
OCTAVES = (64, 128, 256, 512, 1024, 2048, 4096)

Row = Mapping[Any, Any]
"""A row of measure.run, or of the comparison table."""

Alignments = Mapping[tuple[int, int], float]
"""Weights of calls by alignment: bytes of destination and source behind a page start."""

# Assumed, nobody has published a histogram: page-aligned, word-aligned and odd destinations.
ALIGNMENTS: Alignments = {(0, 0): 0.6, (8, 0): 0.3, (1, 0): 0.1}


@dataclass(frozen=True, order=True)
class CallPoint:
    """One call of a routine: its size in bytes, and the page offsets of destination and source."""

    size: int
    dst: int
    src: int

    def __str__(self) -> str:
        """Return it as users give it: "64 B at 1:0"."""
        return f"{self.size} B at {self.dst}:{self.src}"


def curve(calls: pd.DataFrame) -> Callable[[float], float]:
    """Return the cost over size in bytes: linear between points, mean over alignments.

    Past the last point it goes on with the slope of the last two.
    """
    points = calls.groupby("size_bytes")["cycles"].mean().sort_index()
    return _linear(points.index.to_numpy(float), points.to_numpy(float))


def _linear(sizes: NDArray[np.float64], cycles: NDArray[np.float64]) -> Callable[[float], float]:
    slope = (cycles[-1] - cycles[-2]) / (sizes[-1] - sizes[-2]) if len(sizes) > 1 else 0.0

    def cost(size: float) -> float:
        if size > sizes[-1]:
            return float(cycles[-1] + slope * (size - sizes[-1]))
        return float(np.interp(size, sizes, cycles))

    return cost


def weights(sizes: Sequence[float], histogram: Histogram) -> list[float]:
    """Return the weight of each size, in ascending order, in the mean cost over a histogram.

    Costs are interpolated linearly between sizes, so that the mean is linear in the costs.
    """
    points = np.array(sizes, float)
    return [histogram.mean(_linear(points, (points == size).astype(float))) for size in sizes]


def mean(costs: Mapping[CallPoint, Any], alignments: Alignments) -> dict[int, Any]:
    """Return the mean cost by size, weighted by alignment.

    Where no alignment of a size has a weight, all have the same.
    """
    of_size: dict[int, list[tuple[float, Any]]] = {}
    for point, cost in costs.items():
        weight = alignments.get((point.dst, point.src), 0.0)
        of_size.setdefault(point.size, []).append((weight, cost))
    out = {}
    for size, weighted in sorted(of_size.items()):
        shares, figures = zip(*weighted, strict=True)
        out[size] = np.average(figures, axis=0, weights=shares if any(shares) else None)
    return out


def speedup(
    pairs: Mapping[CallPoint, tuple[Row, Row]],
    sizes: Histogram | None,
    alignments: Alignments = ALIGNMENTS,
) -> tuple[float, float, float]:
    """Return the speed of other relative to base, and the ends of its interval.

    pairs has for each point a row of measure.run of base and one of other; the interval is that of
    readings.add_ratios. With a histogram: the ratio of mean costs of a call. Without: the geometric
    mean of the ratios at each size. Both are of means over the alignments of a size.
    """
    of_base, of_other = (_figures(pairs, side, alignments) for side in (0, 1))
    order = sorted(of_base)
    if sizes:
        shares = weights(order, sizes)
        base, other = (
            np.dot(shares, [figures[s] for s in order]) for figures in (of_base, of_other)
        )
        ratios = base / other
    else:
        chosen = [s for s in order if UNWEIGHTED[0] <= s <= UNWEIGHTED[1]] or order
        ratios = np.exp(np.mean([np.log(of_base[s] / of_other[s]) for s in chosen], axis=0))
    ratio, resampled = float(ratios[0]), ratios[1:]
    least, most = readings.interval(resampled)
    return ratio, min(least, ratio) * (1 - FLOOR), max(most, ratio) * (1 + FLOOR)


def _figures(
    pairs: Mapping[CallPoint, tuple[Row, Row]], side: int, alignments: Alignments
) -> dict[int, NDArray[np.float64]]:
    """Return cycles a call by size in bytes: the measured figure, then the bootstrap's."""
    cycles = {}
    for point, pair in pairs.items():
        row = pair[side]
        key = [row[name] for name in ("variant", "size_bytes", "dst_align", "src_align")]
        cycles[point] = np.append(row["cycles"], readings.draws(row["raw"], *key))
    return mean(cycles, alignments)


def predicted_speedup(base: Row, other: Row, sizes: Histogram | None, fixed: int = 0) -> float:
    """Return the speed of other relative to base by a model of the main loop.

    The rows are those of the comparison table: a call costs its start-up and its share of the main
    loop. A model of the main loop does not cover calls below 64 bytes, so that the buckets below
    are left out. fixed is the size of a call in bytes where a routine has only one.
    """
    base_cost, other_cost = (_cost_over_size(row) for row in (base, other))
    if fixed:
        return base_cost(fixed) / other_cost(fixed)
    buckets = tuple(b for b in sizes.buckets if b.low >= UNWEIGHTED[0]) if sizes else ()
    if sizes and any(bucket.count for bucket in buckets):
        covered = Histogram(sizes.name, buckets)
        return covered.mean(base_cost) / covered.mean(other_cost)
    return float(np.exp(np.mean([np.log(base_cost(s) / other_cost(s)) for s in OCTAVES])))


def _cost_over_size(row: Row) -> Callable[[float], float]:
    startup, slope = row["startup_cycles"], row["cycles"] / row["bytes_per_iteration"]
    return lambda size: float(startup + slope * size)


# Sizes of the calls, in bytes, that a judgement uses.
SIZES = (0, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096)
LARGE = 8192  # added where a histogram has larger sizes
_LISTED = 8  # missing points that a message names, at most


def sizes_of_calls(
    contract: Contract, histogram: Histogram | None, sizes: Sequence[int] = SIZES
) -> list[int] | None:
    """Return sizes, and LARGE where a histogram has larger ones.

    None, for the sizes of its records, where a contract counts records.
    """
    if contract.fields:
        return None
    top = max((b.high or b.low for b in histogram.buckets), default=0) if histogram else 0
    return [*sizes, *((LARGE,) if top > sizes[-1] else ())]


def points_of(
    contract: Contract, sizes: Iterable[int], alignments: Alignments
) -> tuple[CallPoint, ...]:
    """Return the calls of these sizes, each at all alignments that a contract allows."""
    allowed = Sweep(alignments=[*alignments]).allowed(contract)
    return tuple(CallPoint(size, dst, src) for size in sizes for dst, src, _ in allowed)


def judged_points(
    contract: Contract, sizes: Histogram | None, alignments: Alignments = ALIGNMENTS
) -> tuple[CallPoint, ...]:
    """Return the calls that a judgement of a routine uses.

    With a histogram they are the sizes with a weight in it, else all sizes but 0. A winner may not
    be slower at any of them.
    """
    all_sizes = sorted(set(readings.call_bytes(contract, sizes_of_calls(contract, sizes))))
    if sizes:
        used = [s for s, weight in zip(all_sizes, weights(all_sizes, sizes), strict=True) if weight]
    else:
        used = [s for s in all_sizes if s] or all_sizes
    return points_of(contract, used, alignments)


def measured_calls(rows: pd.DataFrame, variant: str) -> dict[CallPoint, list[Row]]:
    """Return the measured calls of a variant with hot caches by point, without refused ones."""
    if rows.empty:
        return {}
    mine = rows[(rows["variant"] == variant) & (rows["quantity"] == "call")]
    by_point: dict[CallPoint, list[Row]] = {}
    for row in mine[(mine["cache"] == "hot") & (mine["status"] != "refused")].to_dict("records"):
        if row["cycles"] > 0:
            by_point.setdefault(_point(row), []).append(row)
    return by_point


def _point(row: Row) -> CallPoint:
    return CallPoint(int(row["size_bytes"]), int(row["dst_align"]), int(row["src_align"]))


_SAME = ("microarch", "machine", "clock", "skew_bytes")


def paired_calls(
    base: Mapping[CallPoint, Sequence[Row]], other: Mapping[CallPoint, Sequence[Row]]
) -> dict[CallPoint, tuple[Row, Row]]:
    """Return the points that both have by the same machine, clock and skew, once each."""
    out = {}
    for point, rows in base.items():
        matching = [
            (b, o)
            for b in rows
            for o in other.get(point, ())
            if all(b[k] == o[k] or (pd.isna(b[k]) and pd.isna(o[k])) for k in _SAME)
        ]
        if len(matching) == 1:
            out[point] = matching[0]
    return out


@dataclass(frozen=True)
class Gap:
    """Calls without a cost for a variant, and the reason where it is known."""

    variant: str
    missing: tuple[CallPoint, ...]
    asked: int
    why: str = ""

    def __str__(self) -> str:
        """Return it in words: "2 of 12 points of movsq are missing (64 B at 0:0, 256 B at 1:0)"."""
        if len(self.missing) == self.asked:
            why = f" ({self.why})" if self.why else ""
            return f"all {self.asked} points of {self.variant} are missing{why}"
        named = ", ".join(map(str, self.missing[:_LISTED]))
        unnamed = len(self.missing) - _LISTED
        named += f" and {unnamed} more" if unnamed > 0 else ""
        named += f"; {self.why}" if self.why else ""
        return f"{len(self.missing)} of {self.asked} points of {self.variant} are missing ({named})"


def gap(
    rows: pd.DataFrame, variant: str, priced: Iterable[CallPoint], asked: Sequence[CallPoint]
) -> Gap | None:
    """Return the points without a cost for a variant, or None."""
    present = set(priced)
    missing = tuple(point for point in asked if point not in present)
    return Gap(variant, missing, len(asked), _why(rows, variant, set(missing))) if missing else None


def _why(rows: pd.DataFrame, variant: str, missing: set[CallPoint]) -> str:
    """Return the reason that most of the missing points were refused for."""
    if rows.empty:
        return ""
    mine = rows[(rows["variant"] == variant) & (rows["quantity"] == "call")]
    refused = [
        str(row["reason"])
        for row in mine[mine["status"] == "refused"].to_dict("records")
        if row["reason"] and _point(row) in missing
    ]
    return max(refused, key=refused.count) if refused else ""


def measured_coverage(rows: pd.DataFrame, contracts: Mapping[str, Contract]) -> int:
    """Return the number of measured points that judgements use, over all variants."""
    return sum(
        len(set(judged_points(contract, None)) & measured_calls(rows, variant).keys())
        for variant, contract in contracts.items()
    )


Setting = tuple[tuple[str, str], ...]
"""Values of parameters that differ from those of core.toml, by name."""


class CostQuestion(NamedTuple):
    """A question to the simulator: a variant, its code offset, and values of parameters."""

    variant: Variant
    offset: int | None
    setting: Setting


Answers = Sequence[Sequence[CallCost | InputError]]


Costs = Mapping[CallPoint, tuple[float, float]]
"""Cycles of a variant's calls by point: exits predicted, and mispredicted."""


@dataclass
class CallSimulator:
    """Simulated calls of variants on cores; each answer is kept.

    given are values of parameters that the user set, which are therefore no longer unknown.
    """

    simulator: Callable[[Sequence[CallQuestion]], Answers]
    given: Mapping[str, str] = field(default_factory=dict)
    _costs: dict[tuple[str, str, int | None, tuple[CallPoint, ...], Setting], Costs | str] = field(
        default_factory=dict
    )

    def ask(
        self,
        core: Microarch,
        points: tuple[CallPoint, ...],
        record_bytes: int,
        questions: Sequence[CostQuestion],
    ) -> list[Costs | str]:
        """Return the costs of calls for each question, or the reason why there are none.

        record_bytes is the size of a record where the contract counts records, else 1.
        """
        keys = [(a.variant.id, core.id, a.offset, points, a.setting) for a in questions]
        new = {k: a for k, a in zip(keys, questions, strict=True) if k not in self._costs}
        counted = tuple((p.size // record_bytes, p.dst, p.src) for p in points)
        call_questions = [
            CallQuestion(a.variant, core, counted, {**self.given, **dict(a.setting)}, a.offset)
            for a in new.values()
        ]
        for key, answers in zip(new, self._answers(call_questions), strict=True):
            self._costs[key] = _costs(points, answers)
        return [self._costs[key] for key in keys]

    def _answers(self, questions: Sequence[CallQuestion]) -> Answers:
        """Return the answers; a value that the simulator refuses fails its own question alone."""
        try:
            return self.simulator(questions) if questions else []
        except InputError as error:
            if len(questions) == 1:
                return [[error for _ in questions[0].points]]
        return [self._answers([question])[0] for question in questions]


def code_offsets(variant: Variant, core: Microarch) -> tuple[int | None, ...]:
    """Return the code offsets that a linker may give a variant's main loop; (None,) without code.

    A routine that Linux has in a header is inlined, and can have any offset.
    """
    try:
        code = assemble.variant_code(variant, microarchs.alternatives_left(variant, core))
    except InputError:
        return (None,)
    upstream = kernels.load(variant.kernel).routines[variant.routine].upstream
    inlined = upstream is not None and upstream.file.endswith(".h")
    return loops.offsets(code, kernels.contract_of(variant), inlined=inlined)


def _costs(points: Sequence[CallPoint], answers: Sequence[CallCost | InputError]) -> Costs | str:
    """Return the costs by point, or the reason for the first one that is missing."""
    costs: dict[CallPoint, tuple[float, float]] = {}
    for point, answer in zip(points, answers, strict=True):
        if isinstance(answer, InputError):
            return str(answer)
        costs[point] = (answer.cycles, max(answer.cycles, answer.mispredicted))
    return costs


def percent(ratio: float) -> str:
    """Return a ratio of speeds as its excess over 1, in percent: 1.2 is "+20.0 %"."""
    return signed_percent(100 * (ratio - 1))


def signed_percent(difference: float) -> str:
    """Return a difference in percent, to a tenth, with its sign: "+0.0 %" for none."""
    return f"{round(difference, 1) + 0.0:+.1f} %"
