"""How much faster calls of a variant are than of another, over all that is not known of a core."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loopwright.cores.microarchs import Microarch
from loopwright.histogram import Histogram
from loopwright.judging import unknowns
from loopwright.judging.call_costs import OCTAVES, Place, weights
from loopwright.judging.unknowns import Course
from loopwright.judging.whole_calls import Calls, Costs, Setting
from loopwright.kernels import Variant

Stand = tuple[Mapping[str, float], bool]
"""Where parameters stand in their ranges (0 cheap, 1 dear), and whether exits are mispredicted."""

# Sizes that bands are drawn at, in bytes.
SIZES = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)


@dataclass(frozen=True)
class Speed:
    """How many times faster one variant is than another: between low and high, likely ratio."""

    low: float
    ratio: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> "Speed":
        """Return what ratios span; in the middle of it, as ratios go, the likely one."""
        low, high = min(ratios), max(ratios)
        return cls(low, float(np.sqrt(low * high)), high)


class Margins:
    """Simulated calls of a routine's variants on one core."""

    def __init__(
        self,
        calls: Calls,
        core: Microarch,
        variants: Sequence[Variant],
        places: tuple[Place, ...],
        record: int = 1,
    ) -> None:
        """Take what answers, the core, its variants, and the calls to compare them by."""
        self.calls, self.core, self.places, self.record = calls, core, places, record
        self.variants = {v.name: v for v in variants}
        self.unknown = {u.name: u for u in calls.unknown(core)}
        self.silent: dict[str, str] = {}
        self.rests: dict[str, tuple[str, ...]] = {}
        self._ends()

    def _ends(self) -> None:
        """Find of each variant what its cost rests on: all ends first, then each alone."""
        ends = [dict.fromkeys(self.unknown, end) for end in (0.0, 1.0)]
        first = self._all([(name, end) for name in self.variants for end in ends])
        open_ = []
        for n, name in enumerate(self.variants):
            cheap, dear = first[2 * n : 2 * n + 2]
            if isinstance(cheap, str) or isinstance(dear, str):
                self.silent[name] = cheap if isinstance(cheap, str) else str(dear)
            elif cheap == dear:
                self.rests[name] = ()
            else:
                open_.append((name, cheap, dear))
        alone = [
            (name, {other: (1 - end if other == one else end) for other in self.unknown})
            for name, _, _ in open_
            for one in self.unknown
            for end in (0.0, 1.0)
        ]
        found = iter(self._all(alone))
        for name, cheap, dear in open_:
            self.rests[name] = tuple(
                one
                for one, (up, down) in [(one, (next(found), next(found))) for one in self.unknown]
                if up != cheap or down != dear
            )
        every = [(n, dict(zip(r, c, strict=True))) for n, r in self.rests.items()
                 for c in unknowns.corners(len(r))]  # fmt: skip
        self._all(every)

    def _all(self, wanted: Sequence[tuple[str, Mapping[str, float]]]) -> list[Costs | str]:
        pairs = [(self.variants[name], self._setting(name, at)) for name, at in wanted]
        return self.calls.ask(self.core, self.places, self.record, pairs)

    def _setting(self, name: str, at: Mapping[str, float]) -> Setting:
        """Return values for all unknown parameters; those that it does not rest on stay cheap."""
        kept = self.rests.get(name, tuple(self.unknown))
        return tuple(
            (one, unknown.text(at.get(one, 0.0) if one in kept else 0.0))
            for one, unknown in self.unknown.items()
        )

    def answers(self, *names: str) -> bool:
        """Say whether calls of all of these variants are known."""
        return all(name in self.rests for name in names)

    def between(self, name: str, against: str) -> list[str]:
        """Return the parameters that the speed of one against the other rests on."""
        both = {*self.rests[name], *self.rests[against]}
        return [one for one in self.unknown if one in both]

    def _cost(self, name: str, stand: Stand) -> Mapping[Place, float]:
        at, mispredicted = stand
        [found] = self._all([(name, at)])
        assert not isinstance(found, str)  # one that answers at the ends answers between them
        return found.mispredicted if mispredicted else found.predicted

    def by_size(self, name: str, against: str, stand: Stand) -> dict[int, float]:
        """Return the speed of one variant against another by size: of means over alignments."""
        mine, theirs = (self.of_size(n, stand) for n in (name, against))
        return {size: theirs[size] / mine[size] for size in mine}

    def of_size(self, name: str, stand: Stand) -> dict[int, float]:
        """Return cycles a call by size: the mean over alignments."""
        found: dict[int, list[float]] = {}
        for place, cycles in self._cost(name, stand).items():
            found.setdefault(place.size, []).append(cycles)
        return {size: sum(of) / len(of) for size, of in sorted(found.items())}

    def speed(self, name: str, against: str, stand: Stand, sizes: Histogram | None) -> float:
        """Return the speed over sizes: by a histogram's mean cost, else octaves alike."""
        mine, theirs = (self.of_size(n, stand) for n in (name, against))
        if sizes:
            of_each = weights([*mine], sizes)
            base, other = (np.dot(of_each, [*of.values()]) for of in (theirs, mine))
            return float(base / other)
        some = [s for s in mine if s in OCTAVES] or [*mine]
        return float(np.exp(np.mean([np.log(theirs[s] / mine[s]) for s in some])))

    def stands(self, name: str, against: str) -> list[Stand]:
        """Return what a speed is looked at over: every corner, and samples along each range."""
        names = self.between(name, against)
        found = [dict(zip(names, c, strict=True)) for c in unknowns.corners(len(names))]
        for one in names:
            for end in (0.0, 1.0):
                others = dict.fromkeys(names, end)
                found += [{**others, one: place} for place in unknowns.samples()]
        unique = list({tuple(at.items()): at for at in found}.values())
        self._all([(n, at) for n in (name, against) for at in unique])
        return [(at, missed) for at in unique for missed in (False, True)]

    def over(self, name: str, against: str, sizes: Histogram | None) -> Speed:
        """Return what the speed is between, over the whole of what is not known."""
        stands = self.stands(name, against)
        return Speed.of([self.speed(name, against, stand, sizes) for stand in stands])

    def at_sizes(self, name: str, against: str) -> dict[int, Speed]:
        """Return the same for each size."""
        rows = [self.by_size(name, against, s) for s in self.stands(name, against)]
        return {size: Speed.of([row[size] for row in rows]) for size in rows[0]}

    def course(
        self, name: str, against: str, one: str, sizes: Histogram | None, *, end: float,
        least: float = 1.0,
    ) -> Course:  # fmt: skip
        """Follow the speed along one parameter, with the others at an end; 0 is where it is least.

        At the dear end the exits of loops are mispredicted, too.
        """
        others = dict.fromkeys(self.between(name, against), end)

        def margin(place: float) -> float:
            stand = ({**others, one: place}, bool(end))
            return float(np.log(self.speed(name, against, stand, sizes) / least))

        return unknowns.course(margin)
