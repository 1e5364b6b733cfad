"""Measured calls on a core: two variants at the same points, all of them or none."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from loopwright.histogram import Histogram
from loopwright.judging import basis, call_costs
from loopwright.judging.basis import Gap
from loopwright.judging.call_costs import ALIGNMENTS, Alignments, Place, Row
from loopwright.judging.margins import Speed
from loopwright.judging.study import HERE, Study


@dataclass
class Measured:
    """The measured rows of a core, and the calls of each variant among them."""

    core: str
    rows: pd.DataFrame
    alignments: Alignments = field(default_factory=lambda: ALIGNMENTS)
    _calls: dict[str, dict[Place, list[Row]]] = field(default_factory=dict)

    def calls(self, variant: str) -> dict[Place, list[Row]]:
        """Return the calls of a variant by place."""
        if variant not in self._calls:
            self._calls[variant] = basis.calls(self.rows, variant)
        return self._calls[variant]

    def pairs(self, base: str, other: str) -> dict[Place, tuple[Row, Row]]:
        """Return the places at which both were measured alike."""
        return basis.pairs(self.calls(base), self.calls(other))

    def speed(
        self, base: str, other: str, asked: Sequence[Place], sizes: Histogram | None
    ) -> Speed | tuple[Gap, ...]:
        """Return the speed of other against base over the calls asked for, or what is missing."""
        both = self.pairs(base, other)
        if all(place in both for place in asked):
            return self._of({place: both[place] for place in asked}, sizes)
        lacks = [basis.gap(self.rows, name, self.calls(name), asked) for name in (base, other)]
        # Each has its points, but they are not of one clock, machine and skew.
        apart = basis.gap(self.rows, f"{other} beside {base}", both, asked)
        return tuple(g for g in lacks if g) or tuple(g for g in (apart,) if g)

    def at_sizes(self, base: str, other: str, asked: Sequence[Place]) -> dict[int, Speed]:
        """Return the speed of other against base at each size asked for of which all is known."""
        both = self.pairs(base, other)
        alignments = len({(place.dst, place.src) for place in asked})
        out = {}
        for size in sorted({place.size for place in asked if place.size}):
            here = {p: pair for p, pair in both.items() if p.size == size}
            if len(here) >= alignments:
                out[size] = self._of(here, None)
        return out

    def _of(self, pairs: dict[Place, tuple[Row, Row]], sizes: Histogram | None) -> Speed:
        ratio, low, high = call_costs.speedup(pairs, sizes, self.alignments)
        return Speed(low, ratio, high)


def of_cores(found: Study) -> list[Measured]:
    """Return what was, or was to be, measured, by core."""
    cores = [
        str(core) or HERE for core in found.measurements.get("microarch", pd.Series()).unique()
    ]
    cores += [found.host or HERE] if found.tried else []
    every = dict.fromkeys([*cores, *(source.core for source in found.sources)])
    return [Measured(core, _on(found.measurements, core), found.alignments) for core in every]


def _on(rows: pd.DataFrame, core: str) -> pd.DataFrame:
    return rows if rows.empty else rows[rows["microarch"].replace("", HERE) == core]
