"""The list of transformations, and those that move code: alignment and instruction order."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from loopwright.code.instructions import Flow
from loopwright.improving.accesses import FuseUpdate, PairAccesses, PointersForIndex, SplitPairs
from loopwright.improving.edits import EVERY_FLAG, Transformation, aligns
from loopwright.improving.listing import Line, Listing
from loopwright.improving.rewriting import (
    BreakDependencies,
    FoldLoads,
    JoinUpdates,
    NewerForms,
    Rename,
    Rewrite,
    SplitUpdates,
    ThreeOperands,
    TwoOperands,
    UnfoldLoads,
    fixups_spare,
    known,
)
from loopwright.improving.sections import ConstantBranches, Copies, JoinSections
from loopwright.improving.transformable_loops import single_path_loops
from loopwright.improving.unrolling import (
    CopyIterations,
    EntriesApart,
    PipelineLoads,
    Unroll,
    UnrollByDistance,
)
from loopwright.improving.whole_loops import CarryChains, StringInstruction


@dataclass(frozen=True)
class Align:
    """An alignment directive before a loop, for a power of two.

    Condition: none. Before a loop that control falls into, longer encodings of the same
    instructions replace nops where they suffice, so that no instruction is added.
    """

    power: int

    @property
    def name(self) -> str:
        """The name with the alignment in bytes."""
        return f"align the loop to {1 << self.power}"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield one listing for each loop that is not yet so aligned."""
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
            aligned = listing.with_lines([*rest, directive, *listing.lines[start:]], self.name)
            longer = longer_encodings(aligned, len(rest))
            yield replace(
                aligned, lines=tuple(longer.get(n, x) for n, x in enumerate(aligned.lines))
            )


_ENCODINGS = ("{rex}", "{disp8}", "{disp32}", "{vex3}", "ds")


def longer_encodings(listing: Listing, at: int) -> dict[int, Line]:
    """Return longer encodings for statements before a directive, which replace its padding.

    Empty if control does not fall through the directive, or where no encodings have the length.
    """
    lines, inside = listing.lines, {n for head, n in _loops(listing) for n in range(head, n + 1)}
    by_length: dict[int, dict[int, Line]] = {0: {}}
    addresses = _addresses(listing) if listing.isa == "x86_64" else ()
    padding = addresses[at + 1] - addresses[at] if addresses else 0
    for n in reversed(range(at)):
        line, effects = lines[n], listing.effects[n]
        if padding in by_length or aligns(line) or n in inside:
            break
        if effects is None or effects.flow is Flow.BRANCH or "ALTERNATIVE" in line.text:
            continue
        if effects.flow is not Flow.NEXT:
            break
        for encoding in _ENCODINGS:
            text = f"{encoding} {line.text}"
            extra = (longer.size if (longer := known(text)) else 0) - effects.size
            if extra > 0 and line.mnemonic == line.text.split()[0]:
                for total, chosen in list(by_length.items()):
                    if n not in chosen:
                        new = {**chosen, n: replace(line, text=text)}
                        by_length.setdefault(total + extra, new)
    return by_length.get(padding, {})


def _addresses(listing: Listing) -> list[int]:
    """Return the addresses of statements of x86-64, with branches as short as possible."""
    long_branches: set[int] = set()
    while True:
        at, addresses = listing.offset, []
        targets: dict[int, int | None] = {}
        for n, line in enumerate(listing.lines):
            addresses.append(at)
            effects = listing.effects[n]
            if aligns(line):
                unit = int(line.text.split()[-1])
                unit = 1 << unit if "p2" in line.text else unit
                at = -(-at // unit) * unit
            elif effects is not None:
                branch = effects.flow in (Flow.BRANCH, Flow.JUMP) and effects.size == _SHORT
                if branch:
                    targets[n] = listing.position.get(line.operands[-1] if line.operands else "")
                at += effects.size + (
                    0 if n not in long_branches else 3 if line.mnemonic == "jmp" else 4
                )
        too_far = {
            n
            for n, to in targets.items()
            if to is None or not -128 <= addresses[to] - addresses[n] - _SHORT < 128
        }
        if too_far <= long_branches:
            return addresses
        long_branches |= too_far


_SHORT = 2  # length of a branch with an 8-bit displacement, in bytes


def _heads(listing: Listing) -> list[int]:
    """Return the positions of the labels that are targets of backward branches."""
    return sorted({head for head, _ in _loops(listing)})


def _loops(listing: Listing) -> Iterator[tuple[int, int]]:
    """Yield the positions of each backward branch's target and of the branch."""
    for n, line in enumerate(listing.lines):
        effects = listing.effects[n]
        if line.kind == "code" and effects and effects.flow in (Flow.BRANCH, Flow.JUMP):
            target = listing.position.get(line.operands[-1] if line.operands else "")
            if target is not None and target < n:
                yield target, n


class Reorder:
    """Two adjacent instructions of a loop's body in the other order.

    Condition: neither writes what the other reads or writes, apart from dead flags. Memory counts
    as one location; at most one may fault, and its fixup needs no result of the other.
    """

    name = "instruction order"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield one listing for each pair of adjacent instructions that can be swapped."""
        for loop in single_path_loops(listing):
            if listing.head not in ("", loop.head):
                continue
            for first, second in pairwise(loop.inside):
                if self.holds(listing, first, second):
                    yield _swapped(listing, first, second, self.name)

    def holds(self, listing: Listing, first: int, second: int) -> bool:
        """True if two adjacent instructions can be swapped."""
        a, b = listing.effects[first], listing.effects[second]
        if a is None or b is None or {a.flow, b.flow} != {Flow.NEXT}:
            return False
        dead = EVERY_FLAG - listing.live[min(second + 1, len(listing.live) - 1)]
        if a.writes & (b.reads | b.writes - dead) or b.writes & a.reads:
            return False
        return self.fixups_hold(listing, first, second)

    def fixups_hold(self, listing: Listing, first: int, second: int) -> bool:
        """True if the fixups of two adjacent instructions are correct in either order."""
        if listing.entries_at(first) and listing.entries_at(second):
            return False
        pairs = ((first, listing.effects[second]), (second, listing.effects[first]))
        return all(e and fixups_spare(listing, at, e.writes) for at, e in pairs)


def _swapped(listing: Listing, first: int, second: int, step: str) -> Listing:
    """Return the listing with two statements swapped, their access labels with them."""
    lines = listing.lines
    start = first
    while (
        start > 0 and lines[start - 1].kind == "label" and lines[start - 1].text in listing.fixups
    ):
        start -= 1
    between = lines[first + 1 : second]
    labels = [x for x in between if x.kind == "label"]
    other = [x for x in between if x.kind != "label"]
    new = [*labels, lines[second], *other, *lines[start : first + 1]]
    return listing.with_lines([*lines[:start], *new, *lines[second + 1 :]], step)


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

LOOP_TRANSFORMATIONS: tuple[Transformation, ...] = (
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
"""The transformations of a loop without a contract."""
