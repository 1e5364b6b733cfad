"""What is known of a variant against its routine's baseline, core by core."""

from dataclasses import dataclass, field

import numpy as np

from loopwright.cores.microarchs import Microarch
from loopwright.judging.basis import Gap
from loopwright.judging.opinions import Opinion
from loopwright.judging.ranks import Rank
from loopwright.judging.simulated import Simulated
from loopwright.kernels import Variant

# Measurements differ by this much from placement to placement, whatever the variant.
THRESHOLD = 0.02


@dataclass(frozen=True)
class Verdict:
    """A variant against the baseline on one core, by evidence of one rank.

    ratio is its speed relative to the baseline, between low and high; sources name who says so.
    gain and loss say whether it is faster or slower by more than the source can be wrong by.
    contested: models that count differ on whether there is a gain, or what is not known of the core
    decides it. opinion is that of models of the main loop, simulated what whole calls are between.
    """

    core: str
    ratio: float
    low: float
    high: float
    sources: tuple[str, ...]
    gain: bool
    loss: bool
    contested: bool = False
    opinion: Opinion | None = None
    rank: Rank = Rank.MEASURED
    simulated: Simulated | None = None

    @property
    def measured(self) -> bool:
        """Say whether this is a measurement on that very core."""
        return self.rank is Rank.MEASURED

    @property
    def settled_either_way(self) -> bool:
        """Say whether it is a gain or a loss."""
        return self.gain or self.loss

    @property
    def alike(self) -> bool:
        """Say whether this is a measurement that shows no difference."""
        return self.measured and self.low <= 1 <= self.high

    @property
    def settled(self) -> float:
        """Return the ratio, or 1 where it is neither a gain nor a loss.

        A gain that was not measured counts as far as it goes whatever is not known.
        """
        if not self.settled_either_way:
            return 1.0
        return self.low if self.gain and self.simulated else self.ratio


@dataclass
class Case:
    """A sound variant other than the baseline, with what is known of it by core.

    verdicts are those that stand; short has the cores that were to be measured, and what is missing
    there; lacking says what a core has not that the variant needs. partial is empty, or says what
    of the variant or its baseline cannot run in user space: such measurements are in aside, and
    are no verdict on the routine, whole or short. simulated has the whole calls of each core that
    the simulator answers for, whatever counts there.
    """

    variant: Variant
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    short: dict[str, tuple[Gap, ...]] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    partial: str = ""
    aside: dict[str, Verdict] = field(default_factory=dict)
    simulated: dict[str, Simulated] = field(default_factory=dict)

    def score(self, cores: list[Microarch]) -> float:
        """Return the geometric mean of its settled ratios on those cores, nan where none is known.

        So a difference that its source cannot tell counts as none.
        """
        known = [self.verdicts[c.id] for c in cores if c.id in self.verdicts]
        return float(np.exp(np.mean(np.log([v.settled for v in known])))) if known else np.nan

    def likely(self, cores: list[Microarch]) -> float:
        """Return the geometric mean of its ratios on those cores, whether they are sure or not."""
        known = [self.verdicts[c.id].ratio for c in cores if c.id in self.verdicts]
        return float(np.exp(np.mean(np.log(known)))) if known else np.nan

    def unmeasured(self, cores: list[Microarch]) -> list[Microarch]:
        """Return the cores on which it lacks points that a verdict would rest on."""
        return [c for c in cores if c.id in self.short and not self.partial]

    def contested(self, cores: list[Microarch]) -> list[Microarch]:
        """Return the cores on which models, or the unknown, leave open whether it is a gain."""
        return [c for c in cores if c.id in self.verdicts and self.verdicts[c.id].contested]

    def silent(self, cores: list[Microarch]) -> list[Microarch]:
        """Return the cores on which nothing is known of it."""
        return [c for c in cores if c.id not in self.verdicts]
