"""Single-path loops with exits: copies of an iteration, each with its tests."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from loopwright.code.instructions import Flow
from loopwright.improving.edits import PREHEADER, access_label, exit_label
from loopwright.improving.listing import Line, Listing, code, label

APART = ".Lentries"  # the label of the code that EntriesApart adds
MOST_CODE = 96  # instructions of a transformed loop body, at most
_OPPOSITE = {
    "je": "jne", "jz": "jnz", "jb": "jae", "jc": "jnc", "jnae": "jae", "jbe": "ja", "jna": "ja",
    "jl": "jge", "jnge": "jge", "jle": "jg", "jng": "jg", "js": "jns", "jo": "jno", "jp": "jnp",
    "b.eq": "b.ne", "b.lo": "b.hs", "b.cc": "b.cs", "b.ls": "b.hi", "b.lt": "b.ge",
    "b.le": "b.gt", "b.mi": "b.pl", "b.vs": "b.vc", "cbz": "cbnz", "tbz": "tbnz",
}  # fmt: skip
_OPPOSITE |= {inverted: mnemonic for mnemonic, inverted in _OPPOSITE.items()}


@dataclass(frozen=True)
class SinglePathLoop:
    """A single-path loop: every branch in it, except the last, is an exit.

    first and last are the positions of its first statement and of the branch back to its head.
    """

    listing: Listing
    head: str
    first: int
    last: int

    @property
    def exit(self) -> int:
        """The position of the statement after the loop."""
        return self.last + 1

    @property
    def inside(self) -> list[int]:
        """The positions of its instructions, without the branch back."""
        lines = self.listing.lines
        return [n for n in range(self.first, self.last) if lines[n].kind == "code"]

    @property
    def exits(self) -> list[int]:
        """The positions of its exits, without the branch back."""
        return [n for n in self.inside if _flow(self.listing, n) is Flow.BRANCH]


def _flow(listing: Listing, at: int) -> Flow:
    effects = listing.effects[at]
    return effects.flow if effects else Flow.NEXT


def single_path_loops(
    listing: Listing, entered: frozenset[str] = frozenset()
) -> Iterator[SinglePathLoop]:
    """Yield the single-path loops of a listing, by the position of their branch.

    entered are labels at which outside code may enter.
    """
    for last, line in enumerate(listing.lines):
        if line.kind != "code" or _flow(listing, last) is not Flow.BRANCH:
            continue
        target = listing.position.get(line.operands[-1] if line.operands else "", last)
        if target < last and (loop := _loop(listing, target, last, entered)):
            yield loop


def _loop(listing: Listing, head: int, last: int, entered: frozenset[str]) -> SinglePathLoop | None:
    lines = listing.lines
    first = next(n for n in range(head, last + 1) if lines[n].kind == "code")
    for n in range(head + 1, last):
        line = lines[n]
        if line.kind == "label" and line.text in listing.jumped_to - entered and n > first:
            return None
        effects = listing.effects[n]
        if effects is None:
            continue
        plain = effects.flow is Flow.NEXT or (
            effects.flow is Flow.BRANCH and line.mnemonic in _OPPOSITE
        )
        if not plain or effects.string or lines[head].text in line.operands:
            return None
    return SinglePathLoop(listing, lines[head].text, first, last)


def opposite(text: str, target: str) -> str | None:
    """Return the branch with the inverted condition and a new target, None if there is none."""
    mnemonic, rest = text.split(None, 1)
    inverted = _OPPOSITE.get(mnemonic)
    if inverted is None:
        return None
    *operands, _ = (part.strip() for part in rest.split(","))
    return f"{inverted} {', '.join([*operands, target])}"


def copied(listing: Listing, at: int, copy: int) -> tuple[list[Line], list[Line]]:
    """Return a copy of a statement with labels of its own, and its exception-table entries."""
    lines: list[Line] = []
    entries: list[Line] = []
    for entry in listing.entries_at(at):
        name = access_label(listing, f"copy{copy}_{at}_{len(lines)}")
        lines.append(label(name))
        entries.append(replace(entry, text=name))
    return [*lines, listing.lines[at]], entries


class SinglePathTransformation(ABC):
    """A transformation of one single-path loop at a time."""

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield one listing for each loop that can be changed, only the main one of a bare loop."""
        for loop in single_path_loops(listing):
            if listing.head in ("", loop.head) and (changed := self.changed(loop)):
                yield changed

    @abstractmethod
    def changed(self, loop: SinglePathLoop) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""


@dataclass(frozen=True)
class CopyIterations(SinglePathTransformation):
    """Several iterations one after another, each with its tests.

    Condition: the loop has a single path, and its branch back has an inverse: every copy computes
    what the iteration did, and leaves by the same exits.
    """

    factor: int

    @property
    def name(self) -> str:
        """The name with the factor."""
        return f"{self.factor} iterations with their tests for one jump back"

    def changed(self, loop: SinglePathLoop) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""
        listing = loop.listing
        body = [*loop.inside, loop.last]
        if len(body) * self.factor > MOST_CODE or any(
            "with their tests" in s for s in listing.steps
        ):
            return None
        behind = exit_label(loop, "done")
        back = opposite(listing.lines[loop.last].text, behind.name)
        if back is None:
            return None
        entries: list[Line] = []
        body_lines = [*listing.lines[loop.first : loop.last], code(back)]
        for copy in range(1, self.factor):
            for at in loop.inside:
                copy_lines, copy_entries = copied(listing, at, copy)
                body_lines += copy_lines
                entries += copy_entries
            body_lines.append(code(back) if copy < self.factor - 1 else listing.lines[loop.last])
        lines = [
            *listing.lines[: loop.first],
            *body_lines,
            *behind.new,
            *listing.lines[loop.exit :],
            *entries,
        ]
        changed = listing.with_lines(lines, self.name)
        iterations = (
            listing.iterations * self.factor if listing.head == loop.head else listing.iterations
        )
        return replace(changed, iterations=iterations)


class EntriesApart:
    """Entries that are not at a loop's head, moved to a separate copy of the iteration's rest.

    Condition: the loop has a single path: the copy completes the iteration, leaves by the same
    exits, and continues at the head.
    """

    name = "entries behind the loop"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with its main loop entered only at its head."""
        lines, entered = listing.lines, listing.entered
        if not entered or APART in listing.position:
            return
        targets = {word for line in lines if line.kind == "code" for word in line.operands}
        for loop in single_path_loops(listing, entered - targets):
            if loop.head != listing.head:
                continue
            first = min(listing.position[name] for name in entered)
            jump = "jmp" if listing.isa == "x86_64" else "b"
            *operands, _ = lines[loop.last].operands
            back = f"{lines[loop.last].mnemonic} {','.join([*operands, PREHEADER])}"
            changed = [
                *lines[: listing.position[loop.head]],
                label(PREHEADER),
                *(x for x in lines[listing.position[loop.head] :] if x.text not in entered),
                label(APART),
                *(replace(x, note="") for x in lines[first : loop.last]),
                code(back),
                code(f"{jump} {exit_label(loop, 'done').name}"),
            ]
            yield listing.with_lines(changed, self.name)
