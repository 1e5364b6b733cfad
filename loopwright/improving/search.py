"""Beam search over transformations, by the costs of calls on all given cores."""

import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from loopwright.errors import InputError
from loopwright.improving.costs import Cost
from loopwright.improving.edits import Transformation
from loopwright.improving.journal import Journal
from loopwright.improving.listing import Listing
from loopwright.microarchs import Microarch

ALIKE = 0.025
"""Gains that differ by less are one: half of the least difference that a verdict takes for one."""

_SAME = ALIKE / 4  # by which a group's representative may differ from its best candidate
_LEAST = 0.005  # gains of a round below it do not count
_IDLE = 2  # rounds without a gain after which a search ends
_WORSE = 0.02  # loss of a step that is allowed for the sake of the next one


@dataclass(frozen=True)
class Settings:
    """Width and depth of a search; tried is the limit of simulated candidates."""

    beam: int = 6
    depth: int = 5
    tried: int = 600
    seed: int = 0


class Candidate(Protocol):
    """A listing with its costs by the id of a core."""

    @property
    def listing(self) -> Listing:
        """Return its statements."""

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Return its costs by core."""

    @property
    def bytes(self) -> int:
        """Return the length of its code."""

    @property
    def digest(self) -> str:
        """Return a digest of its code."""


C = TypeVar("C", bound=Candidate)


class Question(Protocol[C]):
    """The comparison of candidates."""

    @property
    def cores(self) -> Sequence[Microarch]:
        """Return the cores."""

    def candidates(
        self, listings: Sequence[Listing], known: Mapping[str, Mapping[str, Cost] | InputError]
    ) -> list[C | InputError]:
        """Return the candidate of each listing, or the refusal; known has costs by text."""


@dataclass
class Search(Generic[C]):
    """Result of a search: candidates by code, the path to each, and reasons for dropping others."""

    base: C
    found: dict[str, C] = field(default_factory=dict)
    parents: dict[str, C] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    interrupted: bool = False

    def rank(self, one: C) -> tuple[float, float, int]:
        """Return the sort key of a candidate, whose first part is its least gain over the cores.

        The worst code offset counts as much as the mean over offsets.
        """
        gains = [*self.robust(one).values()]
        return min(gains), math.prod(gains) ** (1 / len(gains)), -one.bytes

    def robust(self, one: C) -> dict[str, float]:
        """Return the gain over the base by core: the geometric mean of mean and worst offset."""
        return {
            core: math.sqrt(
                self.base.costs[core].mean / cost.mean * self.base.costs[core].worst / cost.worst
            )
            for core, cost in one.costs.items()
        }

    def ordered(self, without: Collection[str] = ()) -> list[C]:
        """Return the candidates, the best first; the shortest represents those alike."""
        left = (one for one in self.found.values() if one.digest not in without)
        return _spoken(sorted(left, key=self.rank, reverse=True), self.robust)

    def pareto(self, without: Collection[str] = ()) -> list[C]:
        """Return the candidates that no other one beats on every core and in code bytes.

        without has the digests of excluded candidates.
        """
        ordered = self.ordered(without)
        return [one for one in ordered if not any(self._beats(other, one) for other in ordered)]

    def _beats(self, one: C, other: C) -> bool:
        mine, its = self.robust(one), self.robust(other)
        no_worse = all(mine[core] >= its[core] for core in mine)
        better = any(mine[core] > its[core] * (1 + ALIKE) for core in mine)
        return one is not other and no_worse and (better or one.bytes < other.bytes)

    def gains(self, one: C) -> dict[str, float]:
        """Return the speed-up over the base by core, as a mean over offsets."""
        return {core: self.base.costs[core].mean / c.mean for core, c in one.costs.items()}

    def path(self, one: C) -> list[C]:
        """Return the candidates from the base to one, each a transformation of the previous."""
        out = [one]
        while (parent := self.parents.get(out[0].digest)) is not None:
            out.insert(0, parent)
        return out


def _spoken(ordered: Sequence[C], gains: Callable[[C], Mapping[str, float]]) -> list[C]:
    """Return a representative of each group of candidates alike on every core.

    It is the shortest one that is about as fast as the group's first, which is its best.
    """
    groups: list[list[C]] = []
    for one in ordered:
        mine = gains(one)
        for group in groups:
            first = gains(group[0])
            apart = max(abs(mine[core] / first[core] - 1) for core in mine)
            if apart < _SAME:
                group.append(one)
            if apart < ALIKE:
                break
        else:
            groups.append([one])
    return [min(group, key=lambda c: c.bytes) for group in groups]


Progress = Callable[[int, int, str], None]


def search(
    question: Question[C],
    base: C,
    transformations: Sequence[Transformation],
    settings: Settings,
    progress: Progress | None = None,
    journal: Journal | None = None,
) -> Search[C]:
    """Search from a base; an interrupt ends it with the best so far.

    Simulated costs are kept in the journal and not simulated again.
    """
    found = Search(base)
    found.found[base.digest] = base
    chance = random.Random(settings.seed)
    beam = [base]
    reached, idle = found.rank(base), 0
    try:
        for _ in range(settings.depth):
            made = _expanded(beam, transformations)
            chance.shuffle(made)
            # Further results of a transformation come after the first ones of all others.
            made.sort(key=lambda one: one.number)
            new = _tried(question, made, found, settings, progress, journal)
            # The best on each core stays as well, as a mean over cores may hide the gain on one.
            kept = sorted(new, key=found.rank, reverse=True)
            best = [
                max(new, key=lambda c: found.robust(c)[core.id]) for core in question.cores if new
            ]
            beam = list(dict.fromkeys([*kept[: settings.beam], *best]))
            top = max(map(found.rank, found.found.values()))
            idle = idle + 1 if top[0] < reached[0] * (1 + _LEAST) else 0
            reached = max(top, reached)
            if not beam or found.tried >= settings.tried or idle == _IDLE:
                break
    except KeyboardInterrupt:
        found.interrupted = True
    return found


class _Made(NamedTuple, Generic[C]):
    """A listing, the candidate it was made of, and its number among a transformation's results."""

    parent: C
    listing: Listing
    number: int


def _expanded(beam: Iterable[C], transformations: Sequence[Transformation]) -> list[_Made[C]]:
    out: list[_Made[C]] = []
    known: set[str] = set()
    for parent in beam:
        for transformation in transformations:
            for number, listing in enumerate(transformation.apply(parent.listing)):
                text = listing.render()
                if text not in known:
                    known.add(text)
                    out.append(_Made(parent, listing, number))
    return out


_BATCH = 8


def _tried(
    question: Question[C],
    made: Sequence[_Made[C]],
    found: Search[C],
    settings: Settings,
    progress: Progress | None,
    journal: Journal | None,
) -> list[C]:
    """Simulate listings; return the new ones that are worth continuing from."""
    out = []
    made = made[: max(0, settings.tried - found.tried)]
    for start in range(0, len(made), _BATCH):
        batch = made[start : start + _BATCH]
        texts = [one.listing.render() for one in batch]
        answers = question.candidates(
            [one.listing for one in batch], journal.known(texts) if journal else {}
        )
        if journal:
            costs = (one if isinstance(one, InputError) else one.costs for one in answers)
            journal.add(dict(zip(texts, costs, strict=True)))
        for (parent, _, _), one in zip(batch, answers, strict=True):
            found.tried += 1
            if isinstance(one, InputError):
                found.dropped[str(one)] = found.dropped.get(str(one), 0) + 1
            elif one.digest not in found.found:
                found.found[one.digest] = one
                found.parents[one.digest] = parent
                gain = max(found.robust(one)[c] / found.robust(parent)[c] for c in one.costs)
                if gain > 1 - _WORSE:
                    out.append(one)
        if progress:
            progress(found.tried, settings.tried, _best(found))
    return out


def _best(found: Search[C]) -> str:
    one = max(found.found.values(), key=found.rank)
    gains = found.gains(one)
    return "best so far " + ", ".join(f"{core} {gain:.2f}x" for core, gain in gains.items())
