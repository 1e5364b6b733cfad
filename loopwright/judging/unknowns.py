"""What nobody has measured of a core, as ranges, and where along one of them a margin turns.

A margin is a function of where the unknown parameters stand. It is known at their ends and at
samples between them; a change of its sign is narrowed down by halving. So each figure given can be
repeated by setting the parameter to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise, product

from loopwright.cores.microarchs import Microarch
from loopwright.predicting import ranges

Margin = Callable[[float], float]
"""A margin (above 0: better) by where a parameter stands, from 0 (cheap end) to 1 (dear end)."""

SAMPLES = 5  # of a range, its ends among them
_HALVINGS = 10
_MANY = 4  # parameters; of more only the ends of each alone are looked at
_RISE = 1e-6  # differences of a margin below this are none


@dataclass(frozen=True)
class Unknown:
    """A parameter of a core between a cheap end and a dear one; whole: it counts cycles."""

    name: str
    cheap: float
    dear: float
    whole: bool

    @property
    def rate(self) -> bool:
        """Say whether it is bytes a cycle: what it costs goes by its inverse."""
        return "_rate" in self.name

    def at(self, place: float) -> float:
        """Return its value at a place from 0 (cheap) to 1 (dear), evenly by what it costs."""
        if self.rate and self.cheap > 0 and self.dear > 0:
            return 1 / (1 / self.cheap + place * (1 / self.dear - 1 / self.cheap))
        value = self.cheap + place * (self.dear - self.cheap)
        return round(value) if self.whole else value

    def text(self, place: float) -> str:
        """Return that value as an override takes it."""
        return f"{self.at(place):.6g}"


def of(core: Microarch, given: Mapping[str, str]) -> list[Unknown]:
    """Return what is not known of a core, but for what is given a value."""
    out = []
    for name, ends in ranges.of(core, given).items():
        whole = "_rate" not in name and not any("." in end for end in ends)
        out.append(Unknown(name, float(ends[0]), float(ends[1]), whole))
    return out


def corners(count: int) -> list[tuple[float, ...]]:
    """Return where so many parameters are looked at: all ends of all of them.

    Of more than a few: all cheap, all dear, and each alone at the other end.
    """
    if count <= _MANY:
        return [tuple(map(float, ends)) for ends in product((0, 1), repeat=count)]
    out = []
    for end in (0.0, 1.0):
        row = [end] * count
        out.append(tuple(row))
        out += [tuple(1 - end if n == m else end for n in range(count)) for m in range(count)]
    return out


def samples() -> list[float]:
    """Return the places of a range that are looked at."""
    return [n / (SAMPLES - 1) for n in range(SAMPLES)]


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


def course(margin: Margin) -> Course:
    """Follow a margin along a parameter, with each change of its sign between samples."""
    places = samples()
    margins = [margin(place) for place in places]
    zeros = []
    for (low, before), (high, after) in pairwise(zip(places, margins, strict=True)):
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
