"""What was measured on a core: whole calls of two variants at the same places, all or none."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from loopwright.histogram import Histogram
from loopwright.judging import basis, call_costs
from loopwright.judging.basis import Gap
from loopwright.judging.call_costs import Place, Row
from loopwright.judging.compare import HERE, MEASURED
from loopwright.judging.margins import Speed
from loopwright.judging.study import Study
from loopwright.judging.verdicts import THRESHOLD, Verdict


@dataclass
class Measured:
    """The measured rows of a core, and the calls of each variant among them."""

    core: str
    rows: pd.DataFrame
    _calls: dict[str, dict[Place, list[Row]]] = field(default_factory=dict)

    def calls(self, variant: str) -> dict[Place, list[Row]]:
        """Return the calls of a variant by place."""
        if variant not in self._calls:
            self._calls[variant] = basis.calls(self.rows, variant)
        return self._calls[variant]

    def pairs(self, base: str, other: str) -> dict[Place, tuple[Row, Row]]:
        """Return the places at which both were measured alike."""
        return basis.pairs(self.calls(base), self.calls(other))

    def verdict(
        self, base: str, other: str, asked: Sequence[Place], sizes: Histogram | None
    ) -> Verdict | tuple[Gap, ...]:
        """Return how fast other is against base by the places asked for, or what is missing."""
        both = self.pairs(base, other)
        if all(place in both for place in asked):
            return _of_calls(self.core, {place: both[place] for place in asked}, sizes)
        lacks = [basis.gap(self.rows, name, self.calls(name), asked) for name in (base, other)]
        # Each has its points, but they are not of one clock, machine and skew.
        apart = basis.gap(self.rows, f"{other} beside {base}", both, asked)
        return tuple(g for g in lacks if g) or tuple(g for g in (apart,) if g)

    def at_sizes(self, base: str, other: str, asked: Sequence[Place]) -> dict[int, Speed] | None:
        """Return the speed of other against base by size; None where a place is missing."""
        both = self.pairs(base, other)
        if not all(place in both for place in asked):
            return None
        out = {}
        alignments = len({(place.dst, place.src) for place in asked})
        for size in sorted({place.size for place in both}):
            here = {p: pair for p, pair in both.items() if p.size == size}
            if len(here) < alignments:  # of a size without weight
                continue
            ratio, low, high = call_costs.speedup(here, None)
            out[size] = Speed(low, ratio, high)
        return out


def of_cores(found: Study) -> list[Measured]:
    """Return what was, or was to be, measured, by core."""
    cores = [
        str(core) or HERE for core in found.measurements.get("microarch", pd.Series()).unique()
    ]
    cores += [found.host or HERE] if found.tried else []
    every = dict.fromkeys([*cores, *(source.core for source in found.sources)])
    return [Measured(core, _on(found.measurements, core)) for core in every]


def _on(rows: pd.DataFrame, core: str) -> pd.DataFrame:
    return rows if rows.empty else rows[rows["microarch"].replace("", HERE) == core]


def _of_calls(core: str, pairs: dict[Place, tuple[Row, Row]], sizes: Histogram | None) -> Verdict:
    ratio, low, high = call_costs.speedup(pairs, sizes)
    gain, loss = low > 1 and ratio > 1 + THRESHOLD, high < 1 and ratio < 1 - THRESHOLD
    return Verdict(core, ratio, low, high, (MEASURED,), gain, loss)
