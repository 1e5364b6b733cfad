"""Verdict on a variant against its routine's baseline, core by core, and the rule of no harm."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from loopwright.judging.basis import Gap
from loopwright.judging.margins import Speed
from loopwright.judging.opinions import LEAST, Opinion
from loopwright.judging.published import PublishedFigure
from loopwright.judging.ranks import Rank
from loopwright.judging.simulated import Simulated
from loopwright.kernels import Variant

# Measurements of equal code at two code offsets differ by this much.
THRESHOLD = 0.02


class Status(StrEnum):
    """What evidence says of a variant's speed against the baseline's."""

    FASTER = "faster"
    SLOWER = "slower"
    ALIKE = "no difference"
    OPEN = "open"
    CONTESTED = "contested"


def status(speed: Speed, rank: Rank, doubt: float) -> Status:
    """Classify a speed by what its evidence can tell.

    A measured difference counts beyond its interval and THRESHOLD, a predicted gain beyond doubt,
    the model's relative error, over the whole range of unmeasured parameters. A predicted loss
    needs no such proof.
    """
    if rank is Rank.MEASURED:
        if speed.low > 1 and speed.ratio > 1 + THRESHOLD:
            return Status.FASTER
        lost = speed.high < 1 and speed.ratio < 1 - THRESHOLD
        return Status.SLOWER if lost else Status.ALIKE
    if speed.low > 1 + doubt:
        return Status.FASTER
    if speed.high <= 1 + LEAST:
        return Status.SLOWER if speed.low < 1 - LEAST else Status.ALIKE
    return Status.OPEN


@dataclass(frozen=True)
class Verdict:
    """A variant against the baseline on one core, by evidence of one rank.

    speed is over all sizes, sizes has that of each size in bytes (empty where models of the main
    loop alone answer). doubt is the relative error of the evidence, sources name it. against holds
    the published figures of the same pair that have the other sign, against_at those of a size.
    opinion is that of models of the main loop; simulated the whole calls.
    """

    core: str
    rank: Rank
    speed: Speed
    doubt: float
    sources: tuple[str, ...]
    sizes: Mapping[int, Speed] = field(default_factory=dict)
    against: tuple[PublishedFigure, ...] = ()
    against_at: Mapping[int, tuple[PublishedFigure, ...]] = field(default_factory=dict)
    opinion: Opinion | None = None
    simulated: Simulated | None = None

    @property
    def measured(self) -> bool:
        """Say whether this is a measurement on that very core."""
        return self.rank is Rank.MEASURED

    @property
    def uncontested(self) -> Status:
        """Return the status by this evidence alone."""
        if self.opinion is None:
            return status(self.speed, self.rank, self.doubt)
        if self.opinion.gain:
            return Status.FASTER
        if self.opinion.loss:
            return Status.SLOWER
        unsettled = self.opinion.contested or self.opinion.unproven
        return Status.OPEN if unsettled else Status.ALIKE

    @property
    def status(self) -> Status:
        """Return the status: contested where a published figure of the pair has the other sign."""
        settled = self.uncontested in (Status.FASTER, Status.SLOWER)
        return (
            Status.CONTESTED if self.against or (settled and self.against_at) else self.uncontested
        )

    def at(self, size: int) -> Status:
        """Return the status at a size in bytes."""
        found = status(self.sizes[size], self.rank, self.doubt)
        contested = self.against or self.against_at.get(size)
        return Status.CONTESTED if contested and found is Status.FASTER else found

    @property
    def contradictions(self) -> tuple[PublishedFigure, ...]:
        """Return all published figures that contradict it."""
        return (*self.against, *(figure for of in self.against_at.values() for figure in of))

    def is_slower(self, size: int | None = None) -> bool:
        """Say whether it is slower, over all sizes or at one, whatever was published."""
        return (self.uncontested if size is None else self.at(size)) is Status.SLOWER

    def may_lose(self, size: int | None = None) -> bool:
        """Say whether it may be slower, over all sizes or at one."""
        speed = self.speed if size is None else self.sizes[size]
        if self.measured:
            return status(speed, self.rank, self.doubt) is Status.SLOWER
        return speed.low < 1 - LEAST

    @property
    def proven(self) -> float:
        """Return the speed that is proven: that of a gain at its low end, else 1 or the loss."""
        if self.status is Status.FASTER:
            return self.speed.ratio if self.measured else self.speed.low
        return self.speed.ratio if self.status is Status.SLOWER else 1.0


@dataclass
class Case:
    """A sound variant other than the baseline, with the evidence on it by core.

    verdicts are those that stand. short has the cores that were to be measured now, with the
    missing points; stale those of which a stored run lacks points and is not used. lacking says
    which feature a core lacks that the variant needs. partial is empty, or says which part of the
    variant or its baseline cannot run in user space: its measurements are in aside, and are no
    verdict on the routine. simulated has the whole calls of each simulated core.
    """

    variant: Variant
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    short: dict[str, tuple[Gap, ...]] = field(default_factory=dict)
    stale: dict[str, tuple[Gap, ...]] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    partial: str = ""
    aside: dict[str, Verdict] = field(default_factory=dict)
    simulated: dict[str, Simulated] = field(default_factory=dict)

    @property
    def condition(self) -> str:
        """Name what the cores have to provide for the variant, or nothing."""
        return ", ".join(sorted(set(self.lacking.values())))

    def with_status(self, cores: Sequence[str], *wanted: Status) -> list[str]:
        """Return those of the cores on which it has one of the statuses."""
        known = ((core, self.verdicts.get(core)) for core in cores)
        return [core for core, verdict in known if verdict and verdict.status in wanted]

    def silent(self, cores: Sequence[str]) -> list[str]:
        """Return the cores on which nothing is known of it."""
        return [core for core in cores if core not in self.verdicts]

    def unmeasured(self, cores: Sequence[str]) -> list[str]:
        """Return the cores on which it lacks points that a verdict would rest on."""
        return [core for core in cores if core in self.short and not self.partial]

    def harm(
        self, asked: Sequence[str], judged: Sequence[str], sizes: Sequence[int]
    ) -> Iterator[tuple[Verdict, int | None]]:
        """Yield where it is slower: verdict, and size in bytes or None for all sizes together.

        On the cores asked for it takes no more than the possibility of a loss, on others judged
        besides, measured ones among them, the loss itself.
        """
        for core in judged:
            verdict = self.verdicts.get(core)
            if verdict is None:
                continue
            careful = core in asked
            for size in (None, *(s for s in verdict.sizes if s in sizes)):
                if verdict.is_slower(size) or (careful and verdict.may_lose(size)):
                    yield verdict, size

    def gain(self, cores: Sequence[str]) -> tuple[float, ...]:
        """Return the proven speeds on the cores, the least first: what winners are ordered by."""
        return tuple(sorted(self.verdicts[c].proven for c in cores if c in self.verdicts))


def judged(cores: Sequence[str], cases: Sequence[Case]) -> list[str]:
    """Return the cores that judgement is about: those given, then those that were measured."""
    measured = [
        core
        for case in cases
        for core in (*(c for c, v in case.verdicts.items() if v.measured), *case.short)
    ]
    return list(dict.fromkeys([*cores, *measured]))
