"""The smallest mend of each loop that its place hurts, tried on the model before it is named."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from loopwright.scanning import candidates
from loopwright.scanning.candidates import Candidate
from loopwright.scanning.costs import HURT, INDIFFERENT, CoreCosts
from loopwright.scanning.encodings import encodings
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.places import places
from loopwright.scanning.starts import Alignments, alignment

LOSS = 1.01  # times what a core takes now: what a mend or a patch may cost it
_GAIN = 1.1  # times faster on each core that is hurt: what a mend has to bring that is not good
_NEAR = 1e-9  # cycles are sums of whole ones over iterations

NEVER_MIND, NONE = "not needed", "none"


@dataclass(frozen=True)
class Effect:
    """What a mend does on a core: cycles an iteration now, at the best place, and after it.

    after is the worst of the places where the loop may then lie.
    """

    now: float
    best: float
    after: float

    @property
    def hurt(self) -> bool:
        """Say whether its place hurts the loop on this core."""
        return self.now >= HURT * self.best - _NEAR

    @property
    def harmless(self) -> bool:
        """Say whether the mend leaves the core as it is, or better."""
        return not costs_more(self.after, self.now)

    @property
    def good(self) -> bool:
        """Say whether every place is as good as the best, where the loop is hurt now."""
        return self.harmless and (not self.hurt or self.after <= INDIFFERENT * self.best + _NEAR)


@dataclass(frozen=True)
class Mend:
    """What to do about a loop: in few words, and what it costs and brings.

    candidate is None where there is nothing to do ("not needed"), nothing that helps ("none") or no
    core with a figure (""). effects are by core; note says what the mend leaves open, or which core
    stands in the way. aligned is what the start of the routine is known to be a multiple of.
    """

    words: str
    candidate: Candidate | None = None
    effects: Mapping[str, Effect] = field(default_factory=dict)
    note: str = ""
    aligned: int = 1


def costs_more(after: float, before: float) -> bool:
    """Say whether cycles after a change are more than it may cost."""
    return after > LOSS * before + _NEAR


_SPLIT = "its parts lie more than 64 KiB apart, and a linker positions each on its own"

# By core, the cycles at each place.
_Table = Mapping[str, np.ndarray]


def mends(
    loops: Sequence[ScannedLoop],
    costs: Sequence[CoreCosts],
    starts: Alignments,
    line: Callable[[ScannedLoop], str] | None = None,
    kinds: Collection[str] = candidates.KINDS,
    only: Collection[int] | None = None,
    least: int = 0,
) -> list[Mend]:
    """Return for each loop the mend that adds fewest bytes and serves all cores of its costs.

    A mend serves if at every place that it leaves possible the loop is as good as at its best on
    each core that is hurt now, and no core gets slower by more than 1 %. Where there is none, it is
    the one that brings the hurt ones nearest to that. Every mend is predicted: moved code at its
    new places, encoded code as it is then. starts says what routines' starts are aligned to, line
    where in the source a loop is: what a compiler made is mended only by what one can tell it.
    kinds are those of candidates that may be named, and least an alignment that they need to have;
    only has the numbers of the loops asked about.
    """
    hurt = np.zeros(len(loops), bool)
    known = np.zeros(len(loops), bool)
    for one in costs:
        hurt |= one.hurt
        known |= ~np.isnan(one.cycles)
    numbers = [int(n) for n in np.flatnonzero(hurt) if only is None or n in only]
    of_code = set(kinds) & {"shorter", "longer"}
    bad = [replace(loops[n], line=line(loops[n])) if line else loops[n] for n in numbers]
    out = [Mend(NEVER_MIND if answered else "") for answered in known]
    encoded = _encoded(bad, costs, starts) if of_code else [[] for _ in bad]
    for n, loop, own in zip(numbers, bad, encoded, strict=True):
        if loop.split:
            out[n] = Mend(NONE, note=_SPLIT)
            continue
        table = {one.core.id: one.table[n] for one in costs if not np.isnan(one.cycles[n])}
        aligned = alignment(loop, starts)
        moves = [(one, table) for one in candidates.moves(loop, aligned)]
        every = [pair for pair in [*moves, *own] if pair[0].kind in kinds]
        tried = [pair for pair in every if pair[0].alignment >= least]
        out[n] = _mend(loop, table, aligned, tried)
    return out


def _encoded(
    loops: Sequence[ScannedLoop], costs: Sequence[CoreCosts], starts: Alignments
) -> list[list[tuple[Candidate, _Table]]]:
    """Return for each loop its other encodings, and what they take at each place."""
    found = [
        (n, candidates.encoded(loop, alignment(loop, starts), one))
        for n, loop in enumerate(loops)
        if candidates.by_hand(loop) and loop.isa == "x86_64" and not loop.split
        for one in encodings(loop.code, loop.path)
    ]
    shapes = [(c.encoded.code, c.encoded.path) for _, c in found if c.encoded]
    tables = {one.core.id: places(shapes, one.core)[0] for one in costs} if shapes else {}
    out: list[list[tuple[Candidate, _Table]]] = [[] for _ in loops]
    for row, (n, candidate) in enumerate(found):
        out[n].append((candidate, {core: table[row] for core, table in tables.items()}))
    return out


def _mend(
    loop: ScannedLoop, now: _Table, aligned: int, what: Sequence[tuple[Candidate, _Table]]
) -> Mend:
    tried = [(one, _effects(loop, now, one, after)) for one, after in what]
    tried.sort(key=lambda pair: (pair[0].expected, candidates.KINDS.index(pair[0].kind)))
    for one, effects in tried:
        if all(effect.good for effect in effects.values()):
            return Mend(one.words, one, effects, aligned=aligned)
    harmless = [pair for pair in tried if all(e.harmless for e in pair[1].values())]
    nearest = min(harmless, key=lambda pair: _distance(pair[1]), default=None)
    if nearest and all(e.now >= _GAIN * e.after for e in _hurt(nearest[1])):
        left = f"nearest to its best offset that all cores allow: {_distance(nearest[1]):.2f} times"
        return Mend(nearest[0].words, *nearest, left, aligned)
    return Mend(NONE, None, {}, _why_none(tried), aligned)


def _effects(
    loop: ScannedLoop, now: _Table, candidate: Candidate, after: _Table
) -> dict[str, Effect]:
    where = list(candidate.places)
    return {
        core: Effect(
            float(row[loop.offset]), float(np.nanmin(row)), float(after[core][where].max())
        )
        for core, row in now.items()
    }


def _hurt(effects: Mapping[str, Effect]) -> Iterator[Effect]:
    return (effect for effect in effects.values() if effect.hurt)


def _distance(effects: Mapping[str, Effect]) -> float:
    """Return how many times its best place a core that is hurt takes at worst."""
    return max(effect.after / effect.best for effect in _hurt(effects))


def _why_none(tried: Sequence[tuple[Candidate, Mapping[str, Effect]]]) -> str:
    """Name the smallest mend that would do, but for the cores that it makes worse."""
    for one, effects in tried:
        if all(effect.after <= INDIFFERENT * effect.best + _NEAR for effect in _hurt(effects)):
            worse = {c: e.after / e.now for c, e in effects.items() if not e.harmless}
            said = ", ".join(f"{core} {100 * (by - 1):+.0f} %" for core, by in worse.items())
            return f"{one.words} would do, but for {said}"
    return "no code offset that it can be moved to is good"
