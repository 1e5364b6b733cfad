"""Margins: how much faster a variant's calls are than another's, over unmeasured parameters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from loopwright.histogram import Histogram
from loopwright.judging.call_costs import (
    ALIGNMENTS,
    OCTAVES,
    Alignments,
    Asked,
    Calls,
    Costs,
    Place,
    Setting,
    code_offsets,
    mean,
    weights,
)
from loopwright.kernels import Variant
from loopwright.microarchs import Microarch, Range
from loopwright.predicting import calls

Margin = Callable[[float], float]
"""A margin (above 0: better) by the place of a parameter, from 0 (cheap end) to 1 (dear end)."""

SAMPLES = 5  # of a range of numbers, its ends among them
_HALVINGS = 10
_RISE = 1e-6  # differences of a margin below this are none


@dataclass(frozen=True)
class Unmeasured:
    """The parameters of a core whose values are assumptions or of low confidence.

    varied are those whose other values are tried; fixed gives for each of the others the reason.
    """

    varied: tuple[Range, ...]
    fixed: Mapping[str, str]

    @classmethod
    def of(cls, core: Microarch, given: Mapping[str, str]) -> "Unmeasured":
        """Return those of a core, but for what is given a value."""
        varied, fixed = [], {}
        for one in core.ranges:
            if one.name in given:
                continue
            if why := (one.reason if not one.varied else _refusal(core, one, given)):
                fixed[one.name] = why
            else:
                varied.append(one)
        return cls(tuple(varied), fixed)

    @property
    def text(self) -> str:
        """Name what is varied and what is not: "5 of 6 varied: uop_cache (reads), ..."."""
        count = len(self.varied) + len(self.fixed)
        names = grouped([one.name for one in self.varied])
        said = f"{len(self.varied)} of {count} varied" + (f": {names}" if names else "")
        return f"{said}; not varied: {grouped([*self.fixed])}" if self.fixed else said


def _refusal(core: Microarch, one: Range, given: Mapping[str, str]) -> str:
    """Return why the simulator takes no other value of a parameter, or nothing."""
    others = [value for value in one.values if value != one.value]
    refused = [calls.refusal(core, {**given, one.name: value}) for value in others]
    return refused[-1] if all(refused) else ""


def grouped(names: Sequence[str]) -> str:
    """Return dotted names, those of a table together: "decode (width, queue), rename (queue)"."""
    tables: dict[str, list[str]] = {}
    for name in names:
        table, _, key = name.partition(".")
        tables.setdefault(table, []).append(key)
    return ", ".join(f"{table} ({', '.join(keys)})" for table, keys in tables.items())


def combinations(ranges: Sequence[Range]) -> list[dict[str, str]]:
    """Return all ends of all parameters with each other."""
    names = [one.name for one in ranges]
    return [dict(zip(names, c, strict=True)) for c in product(*(one.values for one in ranges))]


def sample_points(one: Range) -> list[float]:
    """Return the places of a range that are looked at: samples of numbers, all alternatives."""
    count = SAMPLES if one.numeric else len(one.values)
    return [n / (count - 1) for n in range(count)]


@dataclass(frozen=True)
class Course:
    """A margin along one parameter: its values at samples, and its zeros.

    zeros are places from 0 to 1, ascending; monotone says whether it only rises or only falls.
    """

    margins: tuple[float, ...]
    zeros: tuple[float, ...]

    @property
    def monotone(self) -> bool:
        """Say whether the samples only rise or only fall."""
        steps = [b - a for a, b in pairwise(self.margins)]
        return all(s >= -_RISE for s in steps) or all(s <= _RISE for s in steps)

    @property
    def moves(self) -> float:
        """Return how far the parameter moves the margin."""
        return max(self.margins) - min(self.margins)


def course_of(margin: Margin, along: Sequence[float]) -> Course:
    """Follow a margin along places of a parameter, with each change of its sign between them."""
    margins = [margin(place) for place in along]
    zeros = []
    for (low, before), (high, after) in pairwise(zip(along, margins, strict=True)):
        if (before > 0) != (after > 0):
            zeros.append(_zero(margin, low, high, before > 0))
    return Course(tuple(margins), tuple(zeros))


def _zero(margin: Margin, low: float, high: float, better: bool) -> float:
    """Narrow down where a margin turns, which is better at low or not."""
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
"""A variant, values of parameters, and those of them that are changed then."""

# Sizes that bands are drawn at, in bytes.
SIZES = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_SHORT = 512  # bytes of calls by which the parameters are found that move a cost
_CORNERS = 32  # combinations of ends that are all looked at
_OFFSETS = 8  # code offsets of a variant that parameters are varied at, at most
_FIRST = ("string", "serial")  # tables of costs, which are tried together first


@dataclass(frozen=True)
class Speed:
    """The speed ratio of two variants: between low and high, likely ratio."""

    low: float
    ratio: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> "Speed":
        """Return what ratios span; in the middle of it, as ratios go, the likely one."""
        low, high = min(ratios), max(ratios)
        return cls(low, float(np.sqrt(low * high)), high)


class Margins:
    """Simulated calls of a routine's variants on one core.

    A cost is an array of cycles by code offset, exits of loops (predicted, mispredicted) and size.
    """

    def __init__(
        self,
        calls: Calls,
        core: Microarch,
        variants: Sequence[Variant],
        places: tuple[Place, ...],
        record: int = 1,
        alignments: Alignments = ALIGNMENTS,
    ) -> None:
        """Take what answers, the core, its variants, and the calls to compare them by.

        alignments weighs the calls of a size.
        """
        self.calls, self.core, self.places, self.record = calls, core, places, record
        self.alignments = alignments
        self.variants = {v.name: v for v in variants}
        self.unmeasured = Unmeasured.of(core, calls.given)
        self.unknown = {one.name: one for one in self.unmeasured.varied}
        self.sizes = sorted({place.size for place in places})
        self.silent: dict[str, str] = {}
        self.rests: dict[str, tuple[str, ...]] = {}
        self.offsets = {v.name: code_offsets(v, core) for v in variants}
        self._short = tuple(p for p in places if p.size <= _SHORT) or places
        self._base = {one.name: one.likely or one.text(0.0) for one in self.unknown.values()}
        self._known: dict[tuple[str, Setting], NDArray[np.float64]] = {}
        self._searched: dict[tuple[str, str, Histogram | None], list[Values]] = {}
        self._found: dict[tuple[object, ...], list[Values]] = {}
        # Of each code offset the first one that is alike, of which the costs are simulated.
        self._first = {name: [*range(len(offsets))] for name, offsets in self.offsets.items()}
        self._seen: dict[str, list[list[Costs | str]]] = {
            name: [[] for _ in offsets] for name, offsets in self.offsets.items()
        }
        self._find_silent()
        self._find_rests()
        self._join_offsets()

    # What a cost rests on

    def _find_silent(self) -> None:
        """Find the variants without an answer, and which of many code offsets to go on with.

        Of those that are alike by the values of core.toml they are the first, and every 16th byte.
        """
        self._fetch([(name, {}) for name in self.variants])
        for name, offsets in self.offsets.items():
            if name not in self.silent and len(offsets) > _OFFSETS:
                rows = [row.tobytes() for row in self.cost(name, {})]
                step = len(rows) // 4
                self._first[name] = [
                    n if n % step == 0 else rows.index(row) for n, row in enumerate(rows)
                ]

    def _join_offsets(self) -> None:
        """Take code offsets as one that were alike with every change of a parameter."""
        for name in self.rests:
            rows = [row.tobytes() for row in self.cost(name, {})]
            told = [(rows[n], self._seen[name][n]) for n in self._first[name]]
            self._first[name] = [told.index(one) for one in told]
        self._seen.clear()

    def _find_rests(self) -> None:
        """Find the parameters that each variant's cost rests on.

        Each is tried at all ends of its range with the others at their base values, by short calls.
        Those that move nothing are then tried together with those that do, at both ends of all.
        """
        costs = [n for n in self.unknown if n.partition(".")[0] in _FIRST]
        dear = {name: self.unknown[name].text(1.0) for name in costs}
        answering = [name for name in self.variants if name not in self.silent]
        moved = self._moved([(name, {}, dear) for name in answering])
        tried = {
            name: [n for n in self.unknown if n not in dear or by_costs]
            for name, by_costs in zip(answering, moved, strict=True)
        }
        alone: list[_Change] = [
            (name, {}, {one: value})
            for name in answering
            for one in tried[name]
            for value in self.unknown[one].values
            if value != self._base[one]
        ]
        found = self._moving(alone)
        ends = [
            (
                name,
                {n: one.text(end) for n, one in self.unknown.items() if (name, n) in found},
                {n: self.unknown[n].text(end) for n in tried[name] if (name, n) not in found},
            )
            for name in answering
            for end in (0.0, 1.0)
        ]
        hidden = [one for one, moves in zip(ends, self._moved(ends), strict=True) if moves]
        singly = [(name, at, {one: v}) for name, at, rest in hidden for one, v in rest.items()]
        found |= self._moving(singly)
        for name in answering:
            self.rests[name] = tuple(one for one in self.unknown if (name, one) in found)

    def _moving(self, changes: Sequence[_Change]) -> set[tuple[str, str]]:
        """Return the variants and parameters of those changes that move a cost."""
        moved = zip(changes, self._moved(changes), strict=True)
        return {(name, one) for (name, _, change), moves in moved if moves for one in change}

    def _moved(self, changes: Sequence[_Change]) -> list[bool]:
        """Say of variants, values and a change of them whether short calls cost anything else."""
        both = [(name, v) for name, at, change in changes for v in (at, {**at, **change})]
        asked = [
            Asked(self.variants[name], self.offsets[name][n], self._setting(name, at))
            for name, at in both
            for n in sorted({*self._first[name]})
        ]
        answers = iter(self.calls.ask(self.core, self._short, self.record, asked))
        found: list[list[Costs | str]] = []
        for name, _ in both:
            found.append([])
            for n in sorted({*self._first[name]}):
                found[-1].append(next(answers))
                self._seen[name][n].append(found[-1][-1])
        pairs = zip(found[::2], found[1::2], strict=True)
        # A value that the simulator refuses with others moves nothing.
        return [
            any(a != b and not isinstance(b, str) for a, b in zip(before, after, strict=True))
            for before, after in pairs
        ]

    def _setting(self, name: str, at: Values) -> Setting:
        """Return what is to be set: of the parameters that a cost rests on, those that differ."""
        rests = self.rests.get(name, self.unknown)
        values = {**self._base, **{one: v for one, v in at.items() if one in rests}}
        return tuple((n, v) for n, v in values.items() if v != self.unknown[n].value)

    # Costs

    def _fetch(self, wanted: Iterable[tuple[str, Values]]) -> None:
        """Have costs simulated, many at a time."""
        new = {(name, self._setting(name, at)): None for name, at in wanted}
        missing = [key for key in new if key not in self._known and key[0] not in self.silent]
        asked = [
            Asked(self.variants[name], self.offsets[name][n], setting)
            for name, setting in missing
            for n in sorted({*self._first[name]})
        ]
        answers = iter(self.calls.ask(self.core, self.places, self.record, asked))
        for name, setting in missing:
            found = {n: next(answers) for n in sorted({*self._first[name]})}
            errors = [one for one in found.values() if isinstance(one, str)]
            if not errors:
                costs = self._by_size([c for c in found.values() if not isinstance(c, str)])
                rows = [[*found].index(n) for n in self._first[name]]
                self._known[name, setting] = costs[rows]
            elif setting == self._setting(name, {}):
                self.silent[name] = errors[0]
            else:  # a value that the simulator refuses with others: as the base
                self._known[name, setting] = self._known[name, self._setting(name, {})]

    def _by_size(self, found: Sequence[Costs]) -> NDArray[np.float64]:
        """Return the mean over alignments of each cost, by exits predicted and not, and size."""
        every = {place: [cost[place] for cost in found] for place in self.places}
        return np.stack([*mean(every, self.alignments).values()], axis=-1)

    def cost(self, name: str, at: Values) -> NDArray[np.float64]:
        """Return the cycles of a variant's calls."""
        key = name, self._setting(name, at)
        if key not in self._known:
            self._fetch([(name, at)])
        return self._known[key]

    def answers(self, *names: str) -> bool:
        """Say whether calls of all of these variants are known."""
        return all(name in self.rests for name in names)

    def between(self, name: str, against: str) -> list[str]:
        """Return the parameters that the speed of one against the other rests on."""
        both = {*self.rests[name], *self.rests[against]}
        return [one for one in self.unknown if one in both]

    def moves(self, name: str, against: str, sizes: Histogram | None) -> dict[str, float]:
        """Return by how much each of these parameters alone moves the speed, as a logarithm.

        The one that moves it most comes first.
        """
        found = {}
        for one in self.between(name, against):
            ends = [
                self._ends(name, against, {one: value}, sizes) for value in self.unknown[one].values
            ]
            low, high = (
                [float(np.log(side[-1])) for side in sides]
                for sides in ([e.low for e in ends], [e.high for e in ends])
            )
            found[one] = max(max(low) - min(low), max(high) - min(high))
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def teller(self, name: str, against: str, one: str) -> str:
        """Return which of two variants costs the more different with a parameter."""

        def spread(of: str) -> float:
            costs = [self.cost(of, {one: value}).mean(axis=0) for value in self.unknown[one].values]
            return float(np.ptp(np.log(costs), axis=0).max())

        return max((name, against), key=spread)

    # Speeds

    def _mean(self, cost: NDArray[np.float64], sizes: Histogram | None) -> NDArray[np.float64]:
        """Return the mean over sizes: by a histogram, else the geometric one of octaves."""
        if sizes:
            weighed: NDArray[np.float64] = cost @ np.array(weights(self.sizes, sizes))
            return weighed
        some = [n for n, size in enumerate(self.sizes) if size in OCTAVES]
        chosen = cost[..., some] if some else cost
        geometric: NDArray[np.float64] = np.exp(np.log(chosen).mean(axis=-1))
        return geometric

    def _ends(self, name: str, against: str, at: Values, sizes: Histogram | None) -> "_Ends":
        """Return the speeds that code offsets and exits span: by size, and over sizes the last."""
        mine, theirs = (
            np.concatenate([cost, self._mean(cost, sizes)[..., None]], axis=-1)
            for cost in (self.cost(n, at) for n in (name, against))
        )
        low = (theirs.min(axis=0) / mine.max(axis=0)).min(axis=0)
        high = (theirs.max(axis=0) / mine.min(axis=0)).max(axis=0)
        logs = [np.log(cost[:, 0]).mean(axis=0) for cost in (mine, theirs)]
        return _Ends(low, np.exp(logs[1] - logs[0]), high)

    def _all_ends(self, name: str, against: str, sizes: Histogram | None) -> list["_Ends"]:
        """Return the ends of a speed over values of parameters, the base first.

        They are each parameter alone along its range, and all ends of all; of many the ends that
        are worst and best for each size together.
        """
        key = name, against, sizes
        if key not in self._searched:
            ranges = [self.unknown[one] for one in self.between(name, against)]
            points: list[Values] = [{}]
            points += [{r.name: r.text(p)} for r in ranges for p in sample_points(r)]
            if prod(len(r.values) for r in ranges) <= _CORNERS:
                points += combinations(ranges)
            else:
                self._fetch([(n, at) for n in (name, against) for at in points])
                points += self._extremes(name, against, sizes, ranges)
            self._fetch([(n, at) for n in (name, against) for at in points])
            self._searched[key] = points
        return [self._ends(name, against, at, sizes) for at in self._searched[key]]

    def _extremes(
        self, name: str, against: str, sizes: Histogram | None, ranges: Sequence[Range]
    ) -> list[Values]:
        """Return the worst values of all parameters for all sizes, the best, and those by size."""
        key = name, against, sizes, tuple(ranges)
        if key in self._found:
            return self._found[key]
        worst: list[dict[str, str]] = [{} for _ in (*self.sizes, None)]
        best: list[dict[str, str]] = [{} for _ in worst]
        for one in ranges:
            tried = [{}, *({one.name: value} for value in one.values)]
            ends = [self._ends(name, against, at, sizes) for at in tried]
            low, high = np.array([e.low for e in ends]), np.array([e.high for e in ends])
            for n in range(len(worst)):
                worst[n] |= tried[int(low[:, n].argmin())]
                best[n] |= tried[int(high[:, n].argmax())]
        for at, side in ((worst[-1], "low"), (best[-1], "high")):
            self._refine(at, side, name, against, sizes, ranges)
        unique = {tuple(at.items()): at for at in (*worst, *best)}
        self._found[key] = [worst[-1], best[-1], *unique.values()]
        return self._found[key]

    def _refine(
        self, at: dict[str, str], side: str, name: str, against: str, sizes: Histogram | None,
        ranges: Sequence[Range],
    ) -> None:  # fmt: skip
        """Try each parameter again with the others as they are, as one may hide another."""

        def speed(tried: Values) -> float:
            ends = self._ends(name, against, tried, sizes)
            return -float(ends.low[-1]) if side == "low" else float(ends.high[-1])

        for one in ranges:
            others = [{**at, one.name: value} for value in one.values]
            self._fetch([(n, tried) for n in (name, against) for tried in others])
            found = max((at, *others), key=speed)
            at.update(found)

    def over(self, name: str, against: str, sizes: Histogram | None) -> Speed:
        """Return the speed over sizes, between its ends over all that is not known."""
        return self._speed(self._all_ends(name, against, sizes), name, against, -1)

    def at_sizes(self, name: str, against: str) -> dict[int, Speed]:
        """Return the same for each size."""
        ends = self._all_ends(name, against, None)
        return {size: self._speed(ends, name, against, n) for n, size in enumerate(self.sizes)}

    def _speed(self, ends: Sequence["_Ends"], name: str, against: str, n: int) -> Speed:
        """Return a speed; likely is the one by core.toml, else the middle of its ends."""
        low, high = float(min(e.low[n] for e in ends)), float(max(e.high[n] for e in ends))
        if any(self.unknown[one].likely is None for one in self.between(name, against)):
            return Speed.of([low, high])
        return Speed(low, float(ends[0].likely[n]), high)

    def course(
        self, name: str, against: str, one: str, sizes: Histogram | None, *, worst: bool,
        least: float = 1.0,
    ) -> Course:  # fmt: skip
        """Follow the speed along one parameter; 0 is where it is least.

        worst takes all else (the other parameters, code offsets, exits of loops) as it is worst for
        the variant, otherwise as it is best.
        """
        ranges = [self.unknown[n] for n in self.between(name, against) if n != one]
        others = self._extremes(name, against, sizes, ranges)[0 if worst else 1]

        def margin(place: float) -> float:
            at = {**others, one: self.unknown[one].text(place)}
            ends = self._ends(name, against, at, sizes)
            return float(np.log((ends.low if worst else ends.high)[-1] / least))

        along = sample_points(self.unknown[one])
        points = [{**others, one: self.unknown[one].text(place)} for place in along]
        self._fetch([(n, at) for n in (name, against) for at in points])
        return course_of(margin, along)

    def by_offset(self, name: str, against: str, sizes: Histogram | None) -> dict[int, float]:
        """Return the least speed at each code offset of a variant, by the values of core.toml."""
        mine, theirs = (self._mean(self.cost(n, {}), sizes) for n in (name, against))
        offsets = (offset for offset in self.offsets[name])
        least = (theirs.min(axis=0) / mine).min(axis=-1)
        return {o: float(s) for o, s in zip(offsets, least, strict=True) if o is not None}


@dataclass(frozen=True)
class _Ends:
    """Ends of speeds, and the mean over code offsets, by size; the last is that over sizes."""

    low: NDArray[np.float64]
    likely: NDArray[np.float64]
    high: NDArray[np.float64]
