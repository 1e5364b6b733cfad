"""The unmeasured parameters of a core, and where along one of them a margin turns.

A margin is a function of the value of a parameter. It is known at the ends of the range and at
samples between them; a change of its sign is narrowed down by halving. So each figure given can be
repeated by setting the parameter to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

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


def places(one: Range) -> list[float]:
    """Return the places of a range that are looked at: samples of numbers, all alternatives."""
    count = SAMPLES if one.numeric else len(one.values)
    return [n / (count - 1) for n in range(count)]


@dataclass(frozen=True)
class Course:
    """How a margin runs along one parameter: its values at samples, and where it is 0.

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

    @property
    def better_at_dear(self) -> bool:
        """Say whether the margin is above 0 at the dear end."""
        return self.margins[-1] > 0


def course(margin: Margin, along: Sequence[float]) -> Course:
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
