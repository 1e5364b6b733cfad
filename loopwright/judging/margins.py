"""Margins: the speed of a variant's calls against another's, over unmeasured parameters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from loopwright.histogram import Histogram
from loopwright.judging.call_costs import (
    ALIGNMENTS,
    OCTAVES,
    Alignments,
    CallPoint,
    CallSimulator,
    CostQuestion,
    Costs,
    Setting,
    code_offsets,
    mean,
    weights,
)
from loopwright.kernels import Variant
from loopwright.microarchs import Microarch, Range
from loopwright.predicting import calls

Margin = Callable[[float], float]
"""A margin, ln(speed), by the position in a parameter's range: 0 (cheap end) to 1 (dear end)."""

SAMPLES = 5  # values of a numeric range that are simulated, its ends included
_HALVINGS = 10
_RISE = 1e-6  # smaller differences of a margin count as 0


@dataclass(frozen=True)
class Unmeasured:
    """The parameters of a core whose values are assumptions or of low confidence.

    varied are those whose other values are tried; fixed gives for each of the others the reason.
    """

    varied: tuple[Range, ...]
    fixed: Mapping[str, str]

    @classmethod
    def of(cls, core: Microarch, overrides: Mapping[str, str]) -> "Unmeasured":
        """Return the unmeasured parameters of a core, without those that overrides set."""
        varied, fixed = [], {}
        for parameter in core.ranges:
            if parameter.name in overrides:
                continue
            why = _refusal(core, parameter, overrides) if parameter.varied else parameter.reason
            if why:
                fixed[parameter.name] = why
            else:
                varied.append(parameter)
        return cls(tuple(varied), fixed)

    @property
    def text(self) -> str:
        """The varied parameters, then the fixed ones: "5 of 6 varied: uop_cache (reads), ..."."""
        count = len(self.varied) + len(self.fixed)
        names = grouped([parameter.name for parameter in self.varied])
        text = f"{len(self.varied)} of {count} varied" + (f": {names}" if names else "")
        return f"{text}; not varied: {grouped([*self.fixed])}" if self.fixed else text


def _refusal(core: Microarch, parameter: Range, overrides: Mapping[str, str]) -> str:
    """Return the reason why the simulator takes no other value of a parameter, or ""."""
    others = [value for value in parameter.values if value != parameter.value]
    refused = [calls.refusal(core, {**overrides, parameter.name: value}) for value in others]
    return refused[-1] if all(refused) else ""


def grouped(names: Sequence[str]) -> str:
    """Return dotted names, grouped by table: "decode (width, queue), rename (queue)"."""
    tables: dict[str, list[str]] = {}
    for name in names:
        table, _, key = name.partition(".")
        tables.setdefault(table, []).append(key)
    return ", ".join(f"{table} ({', '.join(keys)})" for table, keys in tables.items())


def combinations(ranges: Sequence[Range]) -> list[dict[str, str]]:
    """Return all combinations of the ends of all parameters."""
    values = product(*(parameter.values for parameter in ranges))
    return [dict(zip((r.name for r in ranges), chosen, strict=True)) for chosen in values]


def sample_points(parameter: Range) -> list[float]:
    """Return the positions in a range that are simulated: samples of numbers, all alternatives."""
    count = SAMPLES if parameter.numeric else len(parameter.values)
    return [n / (count - 1) for n in range(count)]


@dataclass(frozen=True)
class Course:
    """A margin as a function of one parameter: its values at samples, and its zeros.

    zeros are positions from 0 to 1, ascending.
    """

    margins: tuple[float, ...]
    zeros: tuple[float, ...]

    @property
    def monotone(self) -> bool:
        """True if the samples only rise or only fall."""
        steps = [b - a for a, b in pairwise(self.margins)]
        return all(s >= -_RISE for s in steps) or all(s <= _RISE for s in steps)

    @property
    def effect(self) -> float:
        """The range of the margin over the parameter."""
        return max(self.margins) - min(self.margins)


def course_of(margin: Margin, along: Sequence[float]) -> Course:
    """Return the course of a margin along positions of a parameter, zeros found by bisection."""
    margins = [margin(share) for share in along]
    zeros = []
    for (low, before), (high, after) in pairwise(zip(along, margins, strict=True)):
        if (before > 0) != (after > 0):
            zeros.append(_zero(margin, low, high, before > 0))
    return Course(tuple(margins), tuple(zeros))


def _zero(margin: Margin, low: float, high: float, better: bool) -> float:
    """Return the zero of a margin between low and high; better is its sign at low."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if (margin(middle) > 0) == better:
            low = middle
        else:
            high = middle
    return (low + high) / 2


Values = Mapping[str, str]
"""Values of parameters by name; those left out have their base value."""
_Change = tuple[str, Values, Values]
"""A variant, values of parameters, and a change of some of these values."""

# Sizes of bands, in bytes.
SIZES = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_SHORT = 512  # largest call, in bytes, of the search for the parameters that a cost depends on
_CORNERS = 32  # combinations of ends that are all simulated, at most
_OFFSETS = 8  # code offsets at which parameters are varied, at most
_COST_TABLES = ("string", "serial")  # tables of costs, which are first varied together


@dataclass(frozen=True)
class Speed:
    """The speed of a variant relative to another: low to high, and the likely ratio."""

    low: float
    ratio: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> "Speed":
        """Return the range of ratios, with its geometric mean as the likely one."""
        low, high = min(ratios), max(ratios)
        return cls(low, float(np.sqrt(low * high)), high)


class Margins:
    """Simulated calls of a routine's variants on one core.

    A cost is an array of cycles by code offset, exits of loops (predicted, mispredicted) and size.
    """

    def __init__(
        self,
        calls: CallSimulator,
        core: Microarch,
        variants: Sequence[Variant],
        points: tuple[CallPoint, ...],
        record_bytes: int = 1,
        alignments: Alignments = ALIGNMENTS,
    ) -> None:
        """Simulate what is needed to find the parameters that each variant's cost depends on.

        record_bytes is the size of a record (1 where the contract counts bytes); alignments weighs
        the calls of a size.
        """
        self.calls, self.core, self.points, self.record_bytes = calls, core, points, record_bytes
        self.alignments = alignments
        self.variants = {v.name: v for v in variants}
        self.unmeasured = Unmeasured.of(core, calls.given)
        self.unknown = {parameter.name: parameter for parameter in self.unmeasured.varied}
        self.sizes = sorted({point.size for point in points})
        self.unanswered: dict[str, str] = {}
        self.depends_on: dict[str, tuple[str, ...]] = {}
        self.offsets = {v.name: code_offsets(v, core) for v in variants}
        self._short = tuple(p for p in points if p.size <= _SHORT) or points
        self._base = {name: r.likely or r.text(0.0) for name, r in self.unknown.items()}
        self._costs: dict[tuple[str, Setting], NDArray[np.float64]] = {}
        self._search_points: dict[tuple[str, str, Histogram | None], list[Values]] = {}
        self._worst_and_best: dict[tuple[object, ...], list[Values]] = {}
        # For each code offset the first one with the same costs, which alone is simulated.
        self._same_cost = {name: [*range(len(offsets))] for name, offsets in self.offsets.items()}
        self._short_costs: dict[str, list[list[Costs | str]]] = {
            name: [[] for _ in offsets] for name, offsets in self.offsets.items()
        }
        self._find_unanswered()
        self._find_dependence()
        self._join_offsets()

    # Parameters that a cost depends on

    def _find_unanswered(self) -> None:
        """Find the variants without an answer, and the code offsets at which to vary parameters.

        Of many offsets they are the first of each group with equal costs by the values of
        core.toml, and four at equal distances.
        """
        self._fetch([(name, {}) for name in self.variants])
        for name, offsets in self.offsets.items():
            if name not in self.unanswered and len(offsets) > _OFFSETS:
                rows = [row.tobytes() for row in self.cost(name, {})]
                step = len(rows) // 4
                self._same_cost[name] = [
                    n if n % step == 0 else rows.index(row) for n, row in enumerate(rows)
                ]

    def _join_offsets(self) -> None:
        """Merge the code offsets that had equal costs under every change of a parameter."""
        for name in self.depends_on:
            rows = [row.tobytes() for row in self.cost(name, {})]
            costs = [(rows[n], self._short_costs[name][n]) for n in self._same_cost[name]]
            self._same_cost[name] = [costs.index(offset_costs) for offset_costs in costs]
        self._short_costs.clear()

    def _find_dependence(self) -> None:
        """Find the parameters that each variant's cost depends on.

        Each is varied over the ends of its range with the others at their base values, in short
        calls. Those without an effect are then varied together, with those that have one at either
        end: one parameter may hide the effect of another.
        """
        costs = [n for n in self.unknown if n.partition(".")[0] in _COST_TABLES]
        dear_costs = {name: self.unknown[name].text(1.0) for name in costs}
        answering = [name for name in self.variants if name not in self.unanswered]
        costs_move = self._moved([(name, {}, dear_costs) for name in answering])
        tried = {
            name: [n for n in self.unknown if n not in dear_costs or costs_matter]
            for name, costs_matter in zip(answering, costs_move, strict=True)
        }
        single_changes: list[_Change] = [
            (name, {}, {parameter: value})
            for name in answering
            for parameter in tried[name]
            for value in self.unknown[parameter].values
            if value != self._base[parameter]
        ]
        moving = self._moving(single_changes)
        ends = [
            (
                name,
                {n: r.text(end) for n, r in self.unknown.items() if (name, n) in moving},
                {n: self.unknown[n].text(end) for n in tried[name] if (name, n) not in moving},
            )
            for name in answering
            for end in (0.0, 1.0)
        ]
        hidden = [
            (name, at, {parameter: value})
            for name, at, change in compress(ends, self._moved(ends))
            for parameter, value in change.items()
        ]
        moving |= self._moving(hidden)
        for name in answering:
            self.depends_on[name] = tuple(n for n in self.unknown if (name, n) in moving)

    def _moving(self, changes: Sequence[_Change]) -> set[tuple[str, str]]:
        """Return the pairs of variant and parameter whose change moves a cost."""
        moved = compress(changes, self._moved(changes))
        return {(name, parameter) for name, _, change in moved for parameter in change}

    def _moved(self, changes: Sequence[_Change]) -> list[bool]:
        """Return True for each change that alters the cost of short calls."""
        settings = [
            (name, self._setting(name, values))
            for name, at, change in changes
            for values in (at, {**at, **change})
        ]
        costs = self._ask(self._short, settings)
        for (name, _), of_offsets in zip(settings, costs, strict=True):
            for n, cost in of_offsets.items():
                self._short_costs[name][n].append(cost)
        # A combination of values that the simulator refuses counts as no change.
        return [
            any(before[n] != cost and not isinstance(cost, str) for n, cost in after.items())
            for before, after in zip(costs[::2], costs[1::2], strict=True)
        ]

    def _ask(
        self, points: tuple[CallPoint, ...], settings: Sequence[tuple[str, Setting]]
    ) -> list[dict[int, Costs | str]]:
        """Return for each variant and setting the costs by code offset, or the reasons for none."""
        offsets = [sorted({*self._same_cost[name]}) for name, _ in settings]
        questions = [
            CostQuestion(self.variants[name], self.offsets[name][n], setting)
            for (name, setting), numbers in zip(settings, offsets, strict=True)
            for n in numbers
        ]
        answers = iter(self.calls.ask(self.core, points, self.record_bytes, questions))
        return [{n: next(answers) for n in numbers} for numbers in offsets]

    def _setting(self, name: str, at: Values) -> Setting:
        """Return the values to set: of the parameters that a cost depends on, those that differ."""
        parameters = self.depends_on.get(name, self.unknown)
        values = self._base | {n: value for n, value in at.items() if n in parameters}
        return tuple((n, v) for n, v in values.items() if v != self.unknown[n].value)

    # Costs

    def _fetch(self, wanted: Iterable[tuple[str, Values]]) -> None:
        """Simulate costs, many at a time."""
        new = {(name, self._setting(name, at)): None for name, at in wanted}
        missing = [key for key in new if key not in self._costs and key[0] not in self.unanswered]
        answers = self._ask(self.points, missing)
        for (name, setting), of_offset in zip(missing, answers, strict=True):
            errors = [answer for answer in of_offset.values() if isinstance(answer, str)]
            if not errors:
                costs = [cost for cost in of_offset.values() if not isinstance(cost, str)]
                by_point = {point: [cost[point] for cost in costs] for point in self.points}
                by_size = np.stack([*mean(by_point, self.alignments).values()], axis=-1)
                rows = [[*of_offset].index(n) for n in self._same_cost[name]]
                self._costs[name, setting] = by_size[rows]
            elif setting == self._setting(name, {}):
                self.unanswered[name] = errors[0]
            else:  # a combination of values that the simulator refuses costs the same as the base
                self._costs[name, setting] = self._costs[name, self._setting(name, {})]

    def cost(self, name: str, at: Values) -> NDArray[np.float64]:
        """Return the cycles of a variant's calls, by code offset, exit and size."""
        key = name, self._setting(name, at)
        if key not in self._costs:
            self._fetch([(name, at)])
        return self._costs[key]

    def has_costs(self, *names: str) -> bool:
        """True if the calls of all of these variants have costs."""
        return all(name in self.depends_on for name in names)

    def parameters(self, name: str, against: str) -> list[str]:
        """Return the parameters that the speed of one variant against another depends on."""
        of_either = {*self.depends_on[name], *self.depends_on[against]}
        return [parameter for parameter in self.unknown if parameter in of_either]

    def effects(self, name: str, against: str, sizes: Histogram | None) -> dict[str, float]:
        """Return the change of the speed by each of these parameters alone, as a logarithm.

        The largest comes first.
        """
        changes = {}
        for parameter in self.parameters(name, against):
            values = self.unknown[parameter].values
            ends = [self._ends(name, against, {parameter: value}, sizes) for value in values]
            sides = [np.log(e.low[-1]) for e in ends], [np.log(e.high[-1]) for e in ends]
            changes[parameter] = max(float(np.ptp(side)) for side in sides)
        return dict(sorted(changes.items(), key=lambda pair: -pair[1]))

    def more_dependent(self, name: str, against: str, parameter: str) -> str:
        """Return the one of two variants whose cost depends more on a parameter."""

        def spread(variant: str) -> float:
            values = self.unknown[parameter].values
            costs = [self.cost(variant, {parameter: value}).mean(axis=0) for value in values]
            return float(np.ptp(np.log(costs), axis=0).max())

        return max((name, against), key=spread)

    # Speeds

    def _mean(self, cost: NDArray[np.float64], sizes: Histogram | None) -> NDArray[np.float64]:
        """Return the mean over sizes: weighted by a histogram, else geometric over OCTAVES."""
        if sizes:
            weighed: NDArray[np.float64] = cost @ np.array(weights(self.sizes, sizes))
            return weighed
        octaves = [n for n, size in enumerate(self.sizes) if size in OCTAVES]
        chosen = cost[..., octaves] if octaves else cost
        geometric: NDArray[np.float64] = np.exp(np.log(chosen).mean(axis=-1))
        return geometric

    def _ends(self, name: str, against: str, at: Values, sizes: Histogram | None) -> "_Ends":
        """Return the range of speeds over offsets and exits, by size; last, over all."""
        mine, theirs = (
            np.concatenate([cost, self._mean(cost, sizes)[..., None]], axis=-1)
            for cost in (self.cost(n, at) for n in (name, against))
        )
        low = (theirs.min(axis=0) / mine.max(axis=0)).min(axis=0)
        high = (theirs.max(axis=0) / mine.min(axis=0)).max(axis=0)
        logs = [np.log(cost[:, 0]).mean(axis=0) for cost in (mine, theirs)]
        return _Ends(low, np.exp(logs[1] - logs[0]), high)

    def _all_ends(self, name: str, against: str, sizes: Histogram | None) -> list["_Ends"]:
        """Return the ranges of a speed over values of parameters, the base values first.

        The values are each parameter alone along its range, and all combinations of ends; where
        there are more than _CORNERS, only the worst and the best combination for each size.
        """
        key = name, against, sizes
        if key not in self._search_points:
            ranges = [self.unknown[parameter] for parameter in self.parameters(name, against)]
            points: list[Values] = [{}]
            points += [{r.name: r.text(p)} for r in ranges for p in sample_points(r)]
            if prod(len(r.values) for r in ranges) <= _CORNERS:
                points += combinations(ranges)
            else:
                self._fetch([(n, at) for n in (name, against) for at in points])
                points += self._extremes(name, against, sizes, ranges)
            self._fetch([(n, at) for n in (name, against) for at in points])
            self._search_points[key] = points
        return [self._ends(name, against, at, sizes) for at in self._search_points[key]]

    def _extremes(
        self, name: str, against: str, sizes: Histogram | None, ranges: Sequence[Range]
    ) -> list[Values]:
        """Return the worst values of all parameters over all sizes, the best, and those by size."""
        key = name, against, sizes, tuple(ranges)
        if key in self._worst_and_best:
            return self._worst_and_best[key]
        worst: list[dict[str, str]] = [{} for _ in (*self.sizes, None)]
        best: list[dict[str, str]] = [{} for _ in worst]
        for parameter in ranges:
            tried = [{}, *({parameter.name: value} for value in parameter.values)]
            ends = [self._ends(name, against, at, sizes) for at in tried]
            low, high = np.array([e.low for e in ends]), np.array([e.high for e in ends])
            for n in range(len(worst)):
                worst[n] |= tried[int(low[:, n].argmin())]
                best[n] |= tried[int(high[:, n].argmax())]
        for at, side in ((worst[-1], "low"), (best[-1], "high")):
            self._refine(at, side, name, against, sizes, ranges)
        unique = {tuple(at.items()): at for at in (*worst, *best)}
        self._worst_and_best[key] = [worst[-1], best[-1], *unique.values()]
        return self._worst_and_best[key]

    def _refine(
        self, at: dict[str, str], side: str, name: str, against: str, sizes: Histogram | None,
        ranges: Sequence[Range],
    ) -> None:  # fmt: skip
        """Vary each parameter once more with the others at their new values."""

        def speed(tried: Values) -> float:
            ends = self._ends(name, against, tried, sizes)
            return -float(ends.low[-1]) if side == "low" else float(ends.high[-1])

        for parameter in ranges:
            changed = [{**at, parameter.name: value} for value in parameter.values]
            self._fetch([(n, tried) for n in (name, against) for tried in changed])
            best = max((at, *changed), key=speed)
            at.update(best)

    def over(self, name: str, against: str, sizes: Histogram | None) -> Speed:
        """Return the speed over all sizes, with its range over all unknowns."""
        return self._speed(self._all_ends(name, against, sizes), name, against, -1)

    def at_sizes(self, name: str, against: str) -> dict[int, Speed]:
        """Return the speed at each size, with its range over all unknowns."""
        ends = self._all_ends(name, against, None)
        return {size: self._speed(ends, name, against, n) for n, size in enumerate(self.sizes)}

    def _speed(self, ends: Sequence["_Ends"], name: str, against: str, n: int) -> Speed:
        """Return a speed: its likely ratio is that of core.toml, else the middle of the range."""
        low, high = float(min(e.low[n] for e in ends)), float(max(e.high[n] for e in ends))
        if any(self.unknown[n].likely is None for n in self.parameters(name, against)):
            return Speed.of([low, high])
        return Speed(low, float(ends[0].likely[n]), high)

    def course(
        self, name: str, against: str, parameter: str, sizes: Histogram | None, *, worst: bool,
        least: float = 1.0,
    ) -> Course:  # fmt: skip
        """Return the course of the speed along one parameter; 0 is where it equals least.

        worst takes all else (other parameters, code offsets, exits of loops) at its worst for the
        variant, otherwise at its best.
        """
        ranges = [self.unknown[n] for n in self.parameters(name, against) if n != parameter]
        others = self._extremes(name, against, sizes, ranges)[0 if worst else 1]

        def margin(share: float) -> float:
            at = {**others, parameter: self.unknown[parameter].text(share)}
            ends = self._ends(name, against, at, sizes)
            return float(np.log((ends.low if worst else ends.high)[-1] / least))

        along = sample_points(self.unknown[parameter])
        settings = [{**others, parameter: self.unknown[parameter].text(share)} for share in along]
        self._fetch([(n, at) for n in (name, against) for at in settings])
        return course_of(margin, along)

    def by_offset(self, name: str, against: str, sizes: Histogram | None) -> dict[int, float]:
        """Return the least speed at each code offset of a variant, by core.toml's values."""
        mine, theirs = (self._mean(self.cost(n, {}), sizes) for n in (name, against))
        least = (theirs.min(axis=0) / mine).min(axis=-1)
        pairs = zip(self.offsets[name], least, strict=True)
        return {offset: float(speed) for offset, speed in pairs if offset is not None}


@dataclass(frozen=True)
class _Ends:
    """Ranges of speeds and the mean over code offsets, by size; the last is over all sizes."""

    low: NDArray[np.float64]
    likely: NDArray[np.float64]
    high: NDArray[np.float64]
