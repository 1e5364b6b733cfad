"""Shared parts of transformations: conditions, and edits of a listing."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from loopwright.code.instructions import Flow
from loopwright.improving.counted import Counted, Update, counted_loops
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

RESTARTED = ("copy", "clear", "set", "store_fields")  # effects whose stores may be repeated


PREHEADER = ".Lpreheader"  # entry of a bare loop from code outside of it
EVERY_FLAG = frozenset({CARRY, FLAGS})


class Transformation(Protocol):
    """A change of a listing that keeps its contract.

    name is its name in tables and comments; condition says where it applies.
    """

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def condition(self) -> str:
        """Return its condition in words."""

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield each listing that one use of it makes."""


class Stretch(Protocol):
    """A loop of a listing: its label, and the position of the statement behind it."""

    @property
    def listing(self) -> Listing:
        """Return the listing of the loop."""

    @property
    def head(self) -> str:
        """Return its label."""

    @property
    def exit(self) -> int:
        """Return the position of the statement behind it."""


class OfLoop(ABC):
    """A transformation of one counted loop at a time."""

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with each possible loop changed."""
        for loop in counted_loops(listing):
            if made := self.changed(loop):
                yield made

    @abstractmethod
    def changed(self, loop: Counted) -> Listing | None:
        """Return the listing with a loop changed, None where the condition does not hold."""


def behind_transfer(listing: Listing, at: int, count: int) -> int:
    """Return the first position from `at` on that control does not fall through to."""
    for n in range(at, count):
        effects = listing.effects[n]
        if effects and effects.flow in (Flow.JUMP, Flow.RETURN):
            return n + 1
    return count


def operation(kind: str, amount: int, update: Update) -> str:
    """Return a `sub` or `add` of a constant to a counter, in the counter's width."""
    return f"{kind}{update.suffix} ${amount},{update.written}"


@dataclass(frozen=True)
class Exit:
    """The label behind a loop, and its line if the loop had none."""

    name: str
    new: tuple[Line, ...]


_JUMP = re.compile(r"(?:jmp|b) (\.L\S+)")


def exit_label(loop: Stretch, stem: str) -> Exit:
    """Return the label behind a loop, a new one named after stem if it has none."""
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
    """Return a statement with its addresses adjusted for missing updates, None if impossible.

    ahead is, by register, what has to be added to its value.
    """
    line = loop.listing.lines[at]
    operands = []
    direct: set[str] = set()
    for operand in line.operands:
        place = address(operand)
        if place is None:
            direct.update(named(operand))
            operands.append(operand)
            continue
        more = ahead.get(whole(place.base), 0) + place.scale * ahead.get(whole(place.indexed), 0)
        operands.append(str(place._replace(disp=place.disp + more)))
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
    """Return the whole registers that a text names, with repetitions."""
    return [whole(r) for r in re.findall(r"%\w+", text)]


def whole(register: str) -> str:
    """Return the name of an operand's whole register, "" for other operands."""
    return full("x86_64", register) if register else ""


def half(register: str) -> str:
    """Return the operand of the lower half of a register."""
    return part(register, 4)


def next_code(listing: Listing, at: int, *, labels: bool = False) -> int | None:
    """Return the position of the next instruction, None behind a label that is jumped to.

    With labels such labels are passed.
    """
    for n in range(at + 1, len(listing.lines)):
        line = listing.lines[n]
        if line.kind == "code":
            return n
        if line.kind == "label" and line.text in listing.jumped_to and not labels:
            return None
    return None


def flags_pass(loop: Counted) -> bool:
    """Return whether flags are live at a loop's head, or behind it."""
    live = loop.listing.live
    return bool(EVERY_FLAG & (live[loop.first] | live[min(loop.exit, len(live) - 1)]))


def restartable(loop: Counted) -> bool:
    """Return whether an iteration may restart after some of its accesses are done.

    Nothing that the body writes may be needed by the next iteration, no access may both load and
    store, and the contract's effect has to allow repeated stores.
    """
    listing = loop.listing
    carried = loop.written() & listing.live[loop.first] - {MEMORY}
    both = any(
        {MEMORY} <= (listing.effects[n].reads & listing.effects[n].writes)  # type: ignore[union-attr]
        for n in loop.accesses
    )
    contract = listing.contract
    return not carried and not both and contract is not None and contract.effect in RESTARTED


def may_fault(loop: Counted) -> bool:
    """Return whether accesses of a loop have entries in the exception table."""
    return any(loop.listing.entries_at(n) for n in loop.accesses)


def access_label(listing: Listing, stem: str) -> str:
    """Return a label of an access, which is printed as a number."""
    name, n = f".Lnumber_u{stem}", 1
    while name in listing.position:
        n += 1
        name = f".Lnumber_u{stem}_{n}"
    return name


def stepped(line: Line, update: Update, factor: int) -> str:
    """Return an update that steps factor times as far."""
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
    """Return the listing with lines before a loop, a label behind it, and lines out of the way.

    With moved the loop itself is out of the way as well, and continues at the label behind it.
    """
    listing = loop.listing
    start = before_directives(listing.lines[: listing.position[loop.head]])
    quiet = behind_transfer(listing, loop.exit, len(listing.lines))
    while quiet < len(listing.lines) and listing.lines[quiet].kind == "entry":
        quiet += 1
    own = listing.lines[start : loop.exit]
    lines = [
        *listing.lines[:start],
        *before,
        *(() if moved else own),
        *behind.new,
        *listing.lines[loop.exit : quiet],
        *((*own, code(f"jmp {behind.name}")) if moved else ()),
        *apart,
        *listing.lines[quiet:],
    ]
    return listing.with_lines(lines, step)


def before_directives(lines: Sequence[Line]) -> int:
    """Return the position before the labels and alignment directives at the end of lines.

    A label of what enters at a loop's head stays before it.
    """
    at = len(lines)
    while at > 0 and (
        (lines[at - 1].kind == "label" and lines[at - 1].text != PREHEADER) or aligns(lines[at - 1])
    ):
        at -= 1
    return at


def aligns(line: Line) -> bool:
    """Return whether a line is an alignment directive."""
    return line.kind == "text" and line.text.strip().startswith((".p2align", ".balign"))


def entered(loop: Counted) -> bool:
    """Return whether anything but its own branch goes to the head of a loop."""
    listing = loop.listing
    if loop.head in listing.fixups_targets():
        return True
    head = listing.position[loop.head]
    jumps = [n for n, x in enumerate(listing.lines) if x.kind == "code" and loop.head in x.text]
    above = next((e for n in reversed(range(head)) if (e := listing.effects[n])), None)
    falls = above is None or above.flow in (Flow.NEXT, Flow.BRANCH)
    return jumps != [loop.last] or not falls
