"""What the simulator says of whole calls on a core, as far as it can be believed there."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from loopwright.cores.microarchs import Microarch
from loopwright.histogram import Histogram
from loopwright.judging import standing
from loopwright.judging.margins import Margins, Speed
from loopwright.judging.opinions import LEAST
from loopwright.judging.ranks import Rank
from loopwright.judging.standing import Standing
from loopwright.predicting.models import SIMULATOR


@dataclass(frozen=True)
class Trust:
    """How far the simulator's whole calls are to be believed on a core."""

    rank: Rank
    standing: Standing

    @property
    def doubt(self) -> float:
        """Return the difference, relative, up to which a speed tells nothing."""
        return max(LEAST, (self.standing.error_percent or 0.0) / 100)


def trust(core: Microarch, known: pd.DataFrame) -> Trust | None:
    """Return how far the simulator is to be believed on a core; None: not at all."""
    held = standing.of(SIMULATOR, core.id, "call", known)
    if held.validated:
        return Trust(Rank.SIMULATED, held)
    bound = None if held.wrong else standing.bounded(SIMULATOR, core.id, known)
    return Trust(Rank.BOUNDED, bound) if bound else None


@dataclass(frozen=True)
class Simulated:
    """Whole calls of a variant against another on a core, simulated over all that is not known.

    low to high is what the speed is between by that alone; what the simulator may be off by comes
    on top of it.
    """

    margins: Margins
    trust: Trust
    variant: str
    against: str
    sizes: Histogram | None

    @cached_property
    def speed(self) -> Speed:
        """Return the speed over all sizes."""
        return self.margins.over(self.variant, self.against, self.sizes)

    @property
    def gain(self) -> bool:
        """Say whether it is faster whatever the unknown is, by more than the error."""
        return self.speed.low > 1 + self.trust.doubt

    @property
    def loss(self) -> bool:
        """Say whether it may be slower and can be no faster; it takes no proof to be careful."""
        return self.speed.low < 1 - LEAST and self.speed.high <= 1 + LEAST

    @property
    def open(self) -> bool:
        """Say whether the unknown decides if it is faster or slower."""
        return self.speed.low < 1 - LEAST and self.speed.high > 1 + LEAST

    @property
    def unknown(self) -> list[str]:
        """Return the parameters that the speed rests on."""
        return self.margins.between(self.variant, self.against)
