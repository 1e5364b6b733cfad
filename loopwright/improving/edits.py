"""Common parts of the transformations: conditions, labels, and edits of a listing."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from loopwright.code.instructions import Flow
from loopwright.improving.listing import (
    CARRY,
    FLAGS,
    MEMORY,
    Line,
    Listing,
    address,
    code,
    full,
    label,
    part,
)
from loopwright.improving.transformable_loops import Counted, Update, counted_loops

REPEATABLE = ("copy", "clear", "set", "store_fields")  # effects whose stores may be repeated


PREHEADER = ".Lpreheader"  # the label at which outside code enters a bare loop
EVERY_FLAG = frozenset({CARRY, FLAGS})


class Transformation(Protocol):
    """A change of a listing that preserves its contract.

    name appears in tables and comments. A transformation's docstring states its condition.
    """

    @property
    def name(self) -> str:
        """The name in tables and comments."""

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield one changed listing for each possible use."""


class Stretch(Protocol):
    """A loop of a listing: the label of its head, and the position of the statement after it."""

    @property
    def listing(self) -> Listing:
        """The listing that has the loop."""

    @property
    def head(self) -> str:
        """The label of its head."""

    @property
    def exit(self) -> int:
        """The position of the statement after it."""


class CountedTransformation(ABC):
    """A transformation of one counted loop at a time."""

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield one listing for each loop that can be changed."""
        for loop in counted_loops(listing):
            if changed := self.changed(loop):
                yield changed

    @abstractmethod
    def changed(self, loop: Counted) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""


def after_transfer(listing: Listing, at: int, count: int) -> int:
    """Return the first position from `at` on that control cannot fall into, count if none."""
    for n in range(at, count):
        effects = listing.effects[n]
        if effects and effects.flow in (Flow.JUMP, Flow.RETURN):
            return n + 1
    return count


def operation(kind: str, amount: int, update: Update) -> str:
    """Return an add or sub of a constant to a counter, at the width of its own update."""
    return f"{kind}{update.suffix} ${amount},{update.written}"


@dataclass(frozen=True)
class Exit:
    """The label after a loop, and the line to insert if the loop had none."""

    name: str
    new: tuple[Line, ...]


_JUMP = re.compile(r"(?:jmp|b) (\.L\S+)")


def exit_label(loop: Stretch, stem: str) -> Exit:
    """Return the label after a loop, a new one from a stem where it has none."""
    listing = loop.listing
    at = loop.exit
    while at < len(listing.lines) and listing.lines[at].kind == "text":
        at += 1
    if at < len(listing.lines) and listing.lines[at].kind == "label":
        return Exit(listing.lines[at].text, ())
    if at < len(listing.lines) and (jump := _JUMP.fullmatch(listing.lines[at].text)):
        return Exit(jump[1], ())
    name = listing.fresh(stem)
    return Exit(name, (label(name),))


def shifted(loop: Stretch, at: int, ahead: Mapping[str, int]) -> str | None:
    """Return a statement whose addresses allow for registers that were not yet updated.

    ahead is the missing amount by register. None if another use of such a register remains.
    """
    line = loop.listing.lines[at]
    operands = []
    direct: set[str] = set()
    for operand in line.operands:
        memory = address(operand)
        if memory is None:
            direct.update(named(operand))
            operands.append(operand)
            continue
        missing = ahead.get(whole(memory.base), 0) + memory.scale * ahead.get(
            whole(memory.indexed), 0
        )
        operands.append(str(memory._replace(disp=memory.disp + missing)))
    if any(ahead.get(register) for register in direct):
        return None
    if any(ahead.get(register) for register in implicit(loop.listing, at)):
        return None
    return f"{line.mnemonic} {','.join(operands)}" if operands else line.mnemonic


def implicit(listing: Listing, at: int) -> frozenset[str]:
    """Return the registers that a statement reads without naming them."""
    effects = listing.effects[at]
    return (effects.reads if effects else frozenset()).difference(named(listing.lines[at].text))


def named(text: str) -> list[str]:
    """Return the full register of each register name in a text, with repetitions."""
    return [whole(r) for r in re.findall(r"%\w+", text)]


def whole(register: str) -> str:
    """Return the full register of an operand, "" for no register."""
    return full("x86_64", register) if register else ""


def half(register: str) -> str:
    """Return the operand for the lower half of a register."""
    return part(register, 4)


def next_code(listing: Listing, at: int, *, labels: bool = False) -> int | None:
    """Return the position of the next instruction, None if a jump target comes before it.

    With labels, jump targets are passed over.
    """
    for n in range(at + 1, len(listing.lines)):
        line = listing.lines[n]
        if line.kind == "code":
            return n
        if line.kind == "label" and line.text in listing.jumped_to and not labels:
            return None
    return None


def flags_pass(loop: Counted) -> bool:
    """True if flags are live at a loop's head or after the loop."""
    live = loop.listing.live
    return bool(EVERY_FLAG & (live[loop.first] | live[min(loop.exit, len(live) - 1)]))


def repeatable(loop: Counted) -> bool:
    """True if an iteration can be repeated after a part of its accesses.

    That requires that the next iteration needs no result of the body, that no access both loads and
    stores, and that the contract's effect is one whose stores may be repeated.
    """
    listing = loop.listing
    carried = loop.written() & listing.live[loop.first] - {MEMORY}
    both = any(
        {MEMORY} <= (listing.effects[n].reads & listing.effects[n].writes)  # type: ignore[union-attr]
        for n in loop.accesses
    )
    contract = listing.contract
    return not carried and not both and contract is not None and contract.effect in REPEATABLE


def may_fault(loop: Counted) -> bool:
    """True if accesses of a loop have entries in the exception table."""
    return any(loop.listing.entries_at(n) for n in loop.accesses)


def access_label(listing: Listing, stem: str) -> str:
    """Return a new label for an access; it is printed as a numeric label."""
    name, n = f".Lnumber_u{stem}", 1
    while name in listing.position:
        n += 1
        name = f".Lnumber_u{stem}_{n}"
    return name


def stepped(line: Line, update: Update, factor: int) -> str:
    """Return an update with its step multiplied by a factor."""
    amount = update.step * factor
    if line.mnemonic.startswith("lea"):
        return f"{line.mnemonic} {amount}({update.written}),{update.written}"
    kind = "add" if amount > 0 else "sub"
    return f"{kind}{update.suffix} ${abs(amount)},{update.written}"


def spliced(
    loop: Stretch,
    before: Sequence[Line],
    behind: Exit,
    apart: Sequence[Line],
    step: str,
    *,
    moved: bool = False,
) -> Listing:
    """Return a listing with code before a loop, a label after it, and code out of line.

    With moved the loop itself moves out of line, too, and continues at the label after it.
    """
    listing = loop.listing
    start = before_directives(listing.lines[: listing.position[loop.head]])
    out_of_line = after_transfer(listing, loop.exit, len(listing.lines))
    while out_of_line < len(listing.lines) and listing.lines[out_of_line].kind == "entry":
        out_of_line += 1
    own = listing.lines[start : loop.exit]
    lines = [
        *listing.lines[:start],
        *before,
        *(() if moved else own),
        *behind.new,
        *listing.lines[loop.exit : out_of_line],
        *((*own, code(f"jmp {behind.name}")) if moved else ()),
        *apart,
        *listing.lines[out_of_line:],
    ]
    return listing.with_lines(lines, step)


def before_directives(lines: Sequence[Line]) -> int:
    """Return the position before the labels and alignment directives at the end of lines.

    PREHEADER, the label for entries at a loop's head, stays before it.
    """
    at = len(lines)
    while at > 0 and (
        (lines[at - 1].kind == "label" and lines[at - 1].text != PREHEADER) or aligns(lines[at - 1])
    ):
        at -= 1
    return at


def aligns(line: Line) -> bool:
    """True for a directive that aligns the following code."""
    return line.kind == "text" and line.text.strip().startswith((".p2align", ".balign"))


def entered(loop: Counted) -> bool:
    """True if a loop's head is reached other than by its own branch and by falling into it."""
    listing = loop.listing
    if loop.head in listing.fixups_targets():
        return True
    head = listing.position[loop.head]
    jumps = [n for n, x in enumerate(listing.lines) if x.kind == "code" and loop.head in x.text]
    above = next((e for n in reversed(range(head)) if (e := listing.effects[n])), None)
    falls = above is None or above.flow in (Flow.NEXT, Flow.BRANCH)
    return jumps != [loop.last] or not falls
