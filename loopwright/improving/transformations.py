"""The transformations, and those that move code or its neighbours alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from loopwright.code.instructions import Flow
from loopwright.improving.addressing import FuseUpdate, PointersForIndex
from loopwright.improving.carry import CarryChains
from loopwright.improving.distance import UnrollByDistance
from loopwright.improving.edits import EVERY_FLAG, Transformation, aligns
from loopwright.improving.forms import NewerForms, ThreeOperands, TwoOperands
from loopwright.improving.listing import Line, Listing
from loopwright.improving.operands import FoldLoads, JoinUpdates, SplitUpdates, UnfoldLoads
from loopwright.improving.pairing import PairAccesses, SplitPairs
from loopwright.improving.pipelining import PipelineLoads
from loopwright.improving.rewriting import (
    BreakDependencies,
    Rename,
    Rewrite,
    fixups_spare,
)
from loopwright.improving.sections import ConstantBranches, Copies, JoinSections
from loopwright.improving.strings import StringInstruction
from loopwright.improving.turning import CopyIterations, EntriesApart, turning_loops
from loopwright.improving.unrolling import Unroll


@dataclass(frozen=True)
class Align:
    """A directive that begins a loop at a multiple of a power of two."""

    power: int

    @property
    def name(self) -> str:
        """Return its name with the alignment in bytes."""
        return f"align the loop to {1 << self.power}"

    condition = "always: the padding is nops"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with each loop aligned that is not yet."""
        directive = Line("text", f"\t.p2align {self.power}")
        for head in _heads(listing):
            start = head
            while start > 0 and listing.lines[start - 1].kind == "label":
                start -= 1
            if start and aligns(listing.lines[start - 1]):
                if listing.lines[start - 1].text.split()[-1] == str(self.power):
                    continue
                rest = listing.lines[: start - 1]
            else:
                rest = listing.lines[:start]
            lines = [*rest, directive, *listing.lines[start:]]
            yield listing.with_lines(lines, self.name)


def _heads(listing: Listing) -> list[int]:
    """Return the positions of the labels that branches lead back to."""
    found = set()
    for n, line in enumerate(listing.lines):
        effects = listing.effects[n]
        if line.kind == "code" and effects and effects.flow in (Flow.BRANCH, Flow.JUMP):
            target = listing.position.get(line.operands[-1] if line.operands else "")
            if target is not None and target < n:
                found.add(target)
    return sorted(found)


class Reorder:
    """Two neighbours of a loop's body in the other order."""

    name = "instruction order"
    condition = (
        "neither writes what the other reads or writes, but for flags that nothing reads; memory "
        "counts as one place, at most one may fault, and its fixup needs nothing that the other "
        "writes"
    )

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with each pair of neighbours swapped that can be."""
        for loop in turning_loops(listing):
            if listing.head not in ("", loop.head):
                continue
            for one, two in pairwise(loop.inside):
                if self.holds(listing, one, two):
                    yield _swapped(listing, one, two, self.name)

    def holds(self, listing: Listing, one: int, two: int) -> bool:
        """Say whether two neighbours may change places."""
        a, b = listing.effects[one], listing.effects[two]
        if a is None or b is None or {a.flow, b.flow} != {Flow.NEXT}:
            return False
        dead = EVERY_FLAG - listing.live[min(two + 1, len(listing.live) - 1)]
        if a.writes & (b.reads | b.writes - dead) or b.writes & a.reads:
            return False
        return self.fixups_hold(listing, one, two)

    def fixups_hold(self, listing: Listing, one: int, two: int) -> bool:
        """Say whether the fixups of two neighbours find what they need in either order."""
        if listing.entries_at(one) and listing.entries_at(two):
            return False
        pairs = ((one, listing.effects[two]), (two, listing.effects[one]))
        return all(e and fixups_spare(listing, at, e.writes) for at, e in pairs)


def _swapped(listing: Listing, one: int, two: int, step: str) -> Listing:
    """Return the listing with two statements exchanged, their access labels with them."""
    lines = listing.lines
    start = one
    while (
        start > 0 and lines[start - 1].kind == "label" and lines[start - 1].text in listing.fixups
    ):
        start -= 1
    between = lines[one + 1 : two]
    labels = [x for x in between if x.kind == "label"]
    other = [x for x in between if x.kind != "label"]
    new = [*labels, lines[two], *other, *lines[start : one + 1]]
    return listing.with_lines([*lines[:start], *new, *lines[two + 1 :]], step)


REWRITES: tuple[Rewrite, ...] = (
    BreakDependencies(),
    Rename(),
    FoldLoads(),
    UnfoldLoads(),
    JoinUpdates(),
    SplitUpdates(),
    ThreeOperands(),
    TwoOperands(),
    NewerForms(),
)

TRANSFORMATIONS: tuple[Transformation, ...] = (
    ConstantBranches(),
    JoinSections(),
    Copies(),
    PointersForIndex(),
    FuseUpdate(),
    *(Unroll(n, apart) for n in (2, 4, 8) for apart in (False, True)),
    PipelineLoads(),
    *(CopyIterations(n) for n in (2, 4)),
    PairAccesses(),
    SplitPairs(),
    *REWRITES,
    *(Align(n) for n in (4, 5, 6)),
    *(StringInstruction(n) for n in (256, 512, 1024, 2048)),
    *(
        CarryChains(words, chains)
        for words, chains in ((4, 1), (8, 1), (8, 2), (10, 2), (16, 2), (16, 4), (24, 3), (32, 4))
    ),
    Reorder(),
)

OF_LOOPS: tuple[Transformation, ...] = (
    EntriesApart(),
    PointersForIndex(),
    FuseUpdate(),
    *(UnrollByDistance(n) for n in (2, 4, 8)),
    *(Unroll(n) for n in (2, 4, 8)),
    PipelineLoads(),
    *(CopyIterations(n) for n in (2, 4)),
    *REWRITES,
    *(Align(n) for n in (4, 5, 6)),
    Reorder(),
)
"""Those of a loop without a contract."""
