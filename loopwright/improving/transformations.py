"""The transformations, and those that only move code."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
    known,
)
from loopwright.improving.sections import ConstantBranches, Copies, JoinSections
from loopwright.improving.strings import StringInstruction
from loopwright.improving.turning import CopyIterations, EntriesApart, turning_loops
from loopwright.improving.unrolling import Unroll


@dataclass(frozen=True)
class Align:
    """Align a loop to a power of two by a directive."""

    power: int

    @property
    def name(self) -> str:
        """Return its name with the alignment in bytes."""
        return f"align the loop to {1 << self.power}"

    condition = (
        "always: before a loop that is fallen into, longer encodings of the same instructions take "
        "the place of nops where they reach, so that nothing more is executed"
    )

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with each unaligned loop aligned."""
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
            made = listing.with_lines([*rest, directive, *listing.lines[start:]], self.name)
            longer = longer_encodings(made, len(rest))
            yield replace(made, lines=tuple(longer.get(n, x) for n, x in enumerate(made.lines)))


_ENCODINGS = ("{rex}", "{disp8}", "{disp32}", "{vex3}", "ds")


def longer_encodings(listing: Listing, at: int) -> dict[int, Line]:
    """Return statements before an alignment directive, lengthened by the bytes that it would fill.

    Empty where control does not fall through the directive, or no encodings make up for its bytes.
    """
    lines, inside = listing.lines, {n for head, n in _loops(listing) for n in range(head, n + 1)}
    found: dict[int, dict[int, Line]] = {0: {}}
    addresses = _addresses(listing) if listing.isa == "x86_64" else ()
    wanted = addresses[at + 1] - addresses[at] if addresses else 0
    for n in reversed(range(at)):
        line, effects = lines[n], listing.effects[n]
        if wanted in found or aligns(line) or n in inside:
            break
        if effects is None or effects.flow is Flow.BRANCH or "ALTERNATIVE" in line.text:
            continue
        if effects.flow is not Flow.NEXT:
            break
        for encoding in _ENCODINGS:
            text = f"{encoding} {line.text}"
            more = (longer.size if (longer := known(text)) else 0) - effects.size
            if more > 0 and line.mnemonic == line.text.split()[0]:
                for total, chosen in list(found.items()):
                    if n not in chosen:
                        new = {**chosen, n: replace(line, text=text)}
                        found.setdefault(total + more, new)
    return found.get(wanted, {})


def _addresses(listing: Listing) -> list[int]:
    """Return the addresses of x86-64 statements, with branches as short as possible."""
    far: set[int] = set()
    while True:
        at, out = listing.offset, []
        targets: dict[int, int | None] = {}
        for n, line in enumerate(listing.lines):
            out.append(at)
            effects = listing.effects[n]
            if aligns(line):
                unit = int(line.text.split()[-1])
                unit = 1 << unit if "p2" in line.text else unit
                at = -(-at // unit) * unit
            elif effects is not None:
                branch = effects.flow in (Flow.BRANCH, Flow.JUMP) and effects.size == _SHORT
                if branch:
                    targets[n] = listing.position.get(line.operands[-1] if line.operands else "")
                at += effects.size + (0 if n not in far else 3 if line.mnemonic == "jmp" else 4)
        new = {
            n
            for n, to in targets.items()
            if to is None or not -128 <= out[to] - out[n] - _SHORT < 128
        }
        if new <= far:
            return out
        far |= new


_SHORT = 2  # bytes of a branch over less than 128 bytes


def _heads(listing: Listing) -> list[int]:
    """Return the positions of the targets of backward branches."""
    return sorted({head for head, _ in _loops(listing)})


def _loops(listing: Listing) -> Iterator[tuple[int, int]]:
    """Yield the position of each backward branch, behind that of its target."""
    for n, line in enumerate(listing.lines):
        effects = listing.effects[n]
        if line.kind == "code" and effects and effects.flow in (Flow.BRANCH, Flow.JUMP):
            target = listing.position.get(line.operands[-1] if line.operands else "")
            if target is not None and target < n:
                yield target, n


class Reorder:
    """Swap two neighbours of a loop's body."""

    name = "instruction order"
    condition = (
        "neither writes what the other reads or writes, but for flags that nothing reads; memory "
        "counts as one place, at most one may fault, and its fixup needs nothing that the other "
        "writes"
    )

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with each possible pair of neighbours swapped."""
        for loop in turning_loops(listing):
            if listing.head not in ("", loop.head):
                continue
            for one, two in pairwise(loop.inside):
                if self.holds(listing, one, two):
                    yield _swapped(listing, one, two, self.name)

    def holds(self, listing: Listing, one: int, two: int) -> bool:
        """Return whether two neighbours may be swapped."""
        a, b = listing.effects[one], listing.effects[two]
        if a is None or b is None or {a.flow, b.flow} != {Flow.NEXT}:
            return False
        dead = EVERY_FLAG - listing.live[min(two + 1, len(listing.live) - 1)]
        if a.writes & (b.reads | b.writes - dead) or b.writes & a.reads:
            return False
        return self.fixups_hold(listing, one, two)

    def fixups_hold(self, listing: Listing, one: int, two: int) -> bool:
        """Return whether the fixups of two neighbours find their registers in either order."""
        if listing.entries_at(one) and listing.entries_at(two):
            return False
        pairs = ((one, listing.effects[two]), (two, listing.effects[one]))
        return all(e and fixups_spare(listing, at, e.writes) for at, e in pairs)


def _swapped(listing: Listing, one: int, two: int, step: str) -> Listing:
    """Return the listing with two statements exchanged, with their access labels."""
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
    PairAccesses(),
    SplitPairs(),
    *(Align(n) for n in (4, 5, 6)),
    Reorder(),
)
"""Those of a loop without a contract."""
