"""Loops of a listing that can be transformed, and the common parts of their transformations."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

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

REPEATABLE = ("copy", "clear", "set", "store_fields")  # effects whose stores may be repeated
PREHEADER = ".Lpreheader"  # the label at which outside code enters a bare loop
EVERY_FLAG = frozenset({CARRY, FLAGS})
_IMMEDIATE_OPERAND = re.compile(r"^\$(-?(?:0x[0-9a-f]+|\d+))$")
_UPDATE_MNEMONIC = re.compile(r"^(add|sub|inc|dec|lea)([bwlq]?)$")
_NOT_BELOW = frozenset({"jae", "jnb", "jnc"})
_NOT_ZERO = frozenset({"jnz", "jne"})


class Update(NamedTuple):
    """An instruction that adds a constant to a register, and its position.

    register is the full register, operand the one that the instruction names, suffix that of the
    mnemonic.
    """

    at: int
    register: str
    operand: str
    step: int
    suffix: str


@dataclass(frozen=True)
class Loop:
    """A loop: its first statement, and the branch back to its head, as positions."""

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


@dataclass(frozen=True)
class Counted(Loop):
    """A single-block loop that ends by a counter.

    form is the exit condition: "borrow" (the counter went below zero), "zero" (it is zero),
    "limit" (a cmp finds it below one iteration's step) or "index" (it counted up to zero).
    updates has the constant that an iteration adds to each register, the counter among them. test
    is the position of the instruction that sets the flags of the branch.
    """

    form: str
    counter: Update
    updates: Mapping[str, Update]
    test: int

    @property
    def step(self) -> int:
        """The decrement of the counter in an iteration, above zero."""
        return abs(self.counter.step)

    @property
    def body(self) -> Sequence[int]:
        """The positions of the instructions that are neither updates nor part of the test."""
        apart = {u.at for u in self.updates.values()} | {self.test}
        return [n for n in self.inside if n not in apart]

    @property
    def accesses(self) -> list[int]:
        """The positions of the loads and stores of the body."""
        return [n for n in self.body if MEMORY in self.touched(n)]

    def touched(self, at: int) -> frozenset[str]:
        """Return the registers, flags and memory that a statement reads or writes."""
        return self.listing.effects[at].reads | self.listing.effects[at].writes

    def written(self) -> frozenset[str]:
        """Return the registers, flags and memory that the body writes, without its updates."""
        return frozenset().union(*(self.listing.effects[n].writes for n in self.body))


def steps_ahead(updates: Mapping[str, Update], copy: int, at: int) -> dict[str, int]:
    """Return the constant added to each register before a statement of a copy of the iteration."""
    return {r: u.step * (copy + (u.at < at)) for r, u in updates.items()}


def update_of(line: Line, at: int) -> Update | None:
    """Return an instruction's addition of a constant, None for another instruction."""
    match = _UPDATE_MNEMONIC.match(line.mnemonic)
    *sources, register = line.operands or ("",)
    if not match or not register.startswith("%"):
        return None
    kind, suffix = match.groups()
    step: int | None = None
    if kind in ("inc", "dec") and not sources:
        step = 1 if kind == "inc" else -1
    elif kind == "lea" and len(sources) == 1:
        memory = address(sources[0])
        if memory and memory.base == register and not memory.indexed:
            step = memory.disp
    elif kind in ("add", "sub") and len(sources) == 1:
        constant = immediate(sources[0])
        step = constant if kind == "add" or constant is None else -constant
    return None if step is None else Update(at, whole(register), register, step, suffix)


def immediate(operand: str) -> int | None:
    """Return the value of an immediate operand of x86-64."""
    match = _IMMEDIATE_OPERAND.match(operand)
    return int(match[1], 0) if match else None


def backward_branches(listing: Listing) -> Iterator[tuple[int, int]]:
    """Yield the position of the target of each backward branch or jump, and its own position."""
    for n, effects in enumerate(listing.effects):
        target = listing.branch_target(n)
        if effects.flow in (Flow.BRANCH, Flow.JUMP) and target is not None and target < n:
            yield target, n


def counted_loops(listing: Listing) -> Iterator[Counted]:
    """Yield the counted loops of a listing, by the position of their branch."""
    if listing.isa != "x86_64":
        return
    for head, last in backward_branches(listing):
        if listing.effects[last].flow is Flow.BRANCH and (loop := _counted(listing, head, last)):
            yield loop


def _counted(listing: Listing, head: int, last: int) -> Counted | None:
    lines, effects = listing.lines, listing.effects
    first = next(n for n in range(head, last + 1) if lines[n].kind == "code")
    inside = [n for n in range(first, last) if lines[n].kind == "code"]
    if any(listing.is_target(n) for n in range(first, last)):
        return None
    if any(effects[n].flow is not Flow.NEXT or effects[n].string for n in inside):
        return None
    updates = {u.register: u for n in inside if (u := update_of(lines[n], n))}
    written = [r for n in inside for r in effects[n].writes if r in updates]
    updates = {r: u for r, u in updates.items() if written.count(r) == 1}
    flag = CARRY if lines[last].mnemonic in _NOT_BELOW else FLAGS
    setters = [n for n in inside if flag in effects[n].writes]
    if not setters:
        return None
    form, counter = _exit_condition(lines, setters[-1], lines[last].mnemonic, updates)
    if counter is None:
        return None
    return Counted(listing, lines[head].text, first, last, form, counter, updates, setters[-1])


def _exit_condition(
    lines: Sequence[Line], test: int, branch: str, updates: Mapping[str, Update]
) -> tuple[str, Update | None]:
    """Return the form of a loop's exit condition, and its counter; None without one.

    test is the position of the instruction that sets the flags of the branch.
    """
    tested = next((u for u in updates.values() if u.at == test), None)
    mnemonic = lines[test].mnemonic
    if tested and branch in _NOT_BELOW and tested.step < 0 and mnemonic.startswith("sub"):
        return "borrow", tested
    if tested and branch in _NOT_ZERO and tested.step:
        return ("zero" if tested.step < 0 else "index"), tested
    if mnemonic.startswith("cmp") and branch in _NOT_BELOW:
        limit, *rest = lines[test].operands
        counter = updates.get(full("x86_64", rest[0])) if rest else None
        if counter and counter.at < test and immediate(limit) == -counter.step:
            return "limit", counter
    return "", None


_BELOW = frozenset({"jb", "jnae", "jc"})


def least_before(listing: Listing, at: int, register: str, *, negated: bool = False) -> int:
    """Return the least possible value of a register at a statement that control falls into.

    It follows from comparisons with constants on the single path there. It is 0 where there are
    several paths, or where the register is written other than by a subtraction of a constant or an
    `and` that rounds down to a power of two. If negated, it is the least value of the negation.
    """
    taken = False
    changes: list[tuple[str, int]] = []  # changes of the value on the path, the last one first
    for _ in range(len(listing.lines)):
        at -= 1
        if at < 0:
            return 0
        line, effects = listing.lines[at], listing.effects[at]
        if listing.is_target(at):
            sources = _sources(listing, at)
            if len(sources) != 1:
                return 0
            at, taken = sources[0] + 1, line.text in listing.lines[sources[0]].words
            continue
        if line.kind != "code":
            continue
        unconditional = effects.flow is Flow.JUMP or line.mnemonic == "ALTERNATIVE"
        if effects.flow is Flow.RETURN or (unconditional and not taken):
            return 0
        if effects.flow is Flow.BRANCH and line.mnemonic in (_NOT_BELOW if taken else _BELOW):
            limit = _compared_constant(listing, at, register)
            if limit is not None and not negated:
                return _least_after(limit, reversed(changes))
        if register in effects.writes:
            if negated:
                if line.mnemonic not in ("neg", "negq") or line.operands != (f"%{register}",):
                    return 0
                negated = False
            elif (change := _largest_decrease(line, at, register)) is not None:
                changes.append(change)
            else:
                return 0
        taken = False
    return 0


def _largest_decrease(line: Line, at: int, register: str) -> tuple[str, int] | None:
    """Return how much an instruction lowers a 64-bit register at most, None if not known.

    It is ("sub", an amount), or ("round", a power of two) for rounding down to its multiples.
    """
    if not line.operands or line.operands[-1] != f"%{register}":  # a part of it may wrap
        return None
    if (update := update_of(line, at)) is not None:
        return ("sub", -update.step) if update.step <= 0 else None
    if line.mnemonic not in ("and", "andq"):
        return None
    unit = -(immediate(line.operands[0]) or 0)
    return ("round", unit) if unit > 0 and unit & (unit - 1) == 0 else None


def _least_after(limit: int, changes: Iterable[tuple[str, int]]) -> int:
    """Return the least value after changes of a value of at least limit; 0 where it may wrap."""
    for kind, amount in changes:
        limit = limit - limit % amount if kind == "round" else limit - amount
        if limit < 0:
            return 0
    return limit


def _sources(listing: Listing, at: int) -> list[int]:
    """Return the positions from which control comes to a label; none for that of a fixup."""
    lines, name = listing.lines, listing.lines[at].text
    if name in listing.fixup_targets:
        return []
    sources = [n for n, line in enumerate(lines) if line.kind == "code" and name in line.words]
    previous = _code_above(listing, at)
    falls = previous is not None and listing.effects[previous].flow in (Flow.NEXT, Flow.BRANCH)
    return [*sources, previous] if previous is not None and falls else sources


def _code_above(listing: Listing, at: int) -> int | None:
    return next((n for n in range(at - 1, -1, -1) if listing.lines[n].kind == "code"), None)


def _compared_constant(listing: Listing, branch: int, register: str) -> int | None:
    """Return the constant that a branch's cmp compares all of a register with."""
    at = next((n for n in range(branch - 1, -1, -1) if listing.lines[n].kind != "text"), -1)
    line = listing.lines[at]
    if line.kind != "code" or line.mnemonic not in ("cmpq", "cmp") or len(line.operands) != 2:
        return None
    return immediate(line.operands[0]) if line.operands[1] == f"%{register}" else None


_OPPOSITE = {
    "je": "jne", "jz": "jnz", "jb": "jae", "jc": "jnc", "jnae": "jae", "jbe": "ja", "jna": "ja",
    "jl": "jge", "jnge": "jge", "jle": "jg", "jng": "jg", "js": "jns", "jo": "jno", "jp": "jnp",
    "b.eq": "b.ne", "b.lo": "b.hs", "b.cc": "b.cs", "b.ls": "b.hi", "b.lt": "b.ge",
    "b.le": "b.gt", "b.mi": "b.pl", "b.vs": "b.vc", "cbz": "cbnz", "tbz": "tbnz",
}  # fmt: skip
_OPPOSITE |= {inverted: mnemonic for mnemonic, inverted in _OPPOSITE.items()}


@dataclass(frozen=True)
class SinglePathLoop(Loop):
    """A single-path loop: every branch in it, except the last, is an exit."""

    @property
    def exits(self) -> list[int]:
        """The positions of its exits, without the branch back."""
        return [n for n in self.inside if self.listing.effects[n].flow is Flow.BRANCH]


def single_path_loops(
    listing: Listing, entered: frozenset[str] = frozenset()
) -> Iterator[SinglePathLoop]:
    """Yield the single-path loops of a listing, by the position of their branch.

    entered are labels at which outside code may enter.
    """
    for head, last in backward_branches(listing):
        if listing.effects[last].flow is Flow.BRANCH and (
            loop := _single_path(listing, head, last, entered)
        ):
            yield loop


def _single_path(
    listing: Listing, head: int, last: int, entered: frozenset[str]
) -> SinglePathLoop | None:
    lines = listing.lines
    first = next(n for n in range(head, last + 1) if lines[n].kind == "code")
    for n in range(head + 1, last):
        line, effects = lines[n], listing.effects[n]
        if n > first and listing.is_target(n) and line.text not in entered:
            return None
        if line.kind != "code":
            continue
        allowed = effects.flow is Flow.NEXT or (
            effects.flow is Flow.BRANCH and line.mnemonic in _OPPOSITE
        )
        if not allowed or effects.string or lines[head].text in line.operands:
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


class Transformation(Protocol):
    """A change of a listing that preserves its contract.

    name appears in tables and comments. A transformation's docstring states its condition.
    """

    @property
    def name(self) -> str:
        """The name in tables and comments."""

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield one changed listing for each possible use."""


class CountedTransformation(ABC):
    """A transformation of one counted loop at a time."""

    def apply(self, listing: Listing) -> Iterator[Listing]:
        for loop in counted_loops(listing):
            if changed := self.changed(loop):
                yield changed

    @abstractmethod
    def changed(self, loop: Counted) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""


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


def after_transfer(listing: Listing, at: int, count: int) -> int:
    """Return the first position from `at` on that control cannot fall into, count if none."""
    leaves = (n for n in range(at, count) if listing.effects[n].flow in (Flow.JUMP, Flow.RETURN))
    return next(leaves, count - 1) + 1


def operation(kind: str, amount: int, update: Update) -> str:
    """Return an add or sub of a constant to a counter, at the width of its own update."""
    return f"{kind}{update.suffix} ${amount},{update.operand}"


class Exit(NamedTuple):
    """The label after a loop, and the line to insert if the loop had none."""

    name: str
    new: tuple[Line, ...]


_JUMP = re.compile(r"(?:jmp|b) (\.L\S+)")


def exit_label(loop: Loop, stem: str) -> Exit:
    """Return the label after a loop, a new one from a stem where it has none."""
    listing = loop.listing
    after = next((line for line in listing.lines[loop.exit :] if line.kind != "text"), None)
    if after and after.kind == "label":
        return Exit(after.text, ())
    if after and (jump := _JUMP.fullmatch(after.text)):
        return Exit(jump[1], ())
    name = listing.fresh(stem)
    return Exit(name, (label(name),))


def shifted(loop: Loop, at: int, ahead: Mapping[str, int]) -> str | None:
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
    return listing.effects[at].reads.difference(named(listing.lines[at].text))


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
        if listing.lines[n].kind == "code":
            return n
        if listing.is_target(n) and not labels:
            return None
    return None


def flags_live(loop: Counted) -> bool:
    """True if flags are live at a loop's head or after the loop."""
    live = loop.listing.live
    return bool(EVERY_FLAG & (live[loop.first] | live[min(loop.exit, len(live) - 1)]))


def repeatable(loop: Counted) -> bool:
    """True if an iteration can be repeated after a part of its accesses.

    That requires that the next iteration needs no result of the body, that no access both loads and
    stores, and that the contract's effect is one whose stores may be repeated.
    """
    listing = loop.listing
    contract = listing.contract
    if contract is None or contract.effect not in REPEATABLE:
        return False
    carried = loop.written() & listing.live[loop.first] - {MEMORY}
    accesses = (listing.effects[n] for n in loop.accesses)
    updates_memory = any(MEMORY in effects.reads & effects.writes for effects in accesses)
    return not carried and not updates_memory


def may_fault(loop: Counted) -> bool:
    """True if accesses of a loop have entries in the exception table."""
    return any(loop.listing.entries_at(n) for n in loop.accesses)


def access_label(listing: Listing, stem: str) -> str:
    """Return a new label for an access; it is printed as a numeric label."""
    return listing.fresh(f"number_u{stem}")


def stepped(line: Line, update: Update, factor: int) -> str:
    """Return an update with its step multiplied by a factor."""
    amount = update.step * factor
    if line.mnemonic.startswith("lea"):
        return f"{line.mnemonic} {amount}({update.operand}),{update.operand}"
    kind = "add" if amount > 0 else "sub"
    return f"{kind}{update.suffix} ${abs(amount)},{update.operand}"


def spliced(
    loop: Loop,
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
    if loop.head in listing.fixup_targets:
        return True
    jumps = [n for n, x in enumerate(listing.lines) if x.kind == "code" and loop.head in x.text]
    previous = _code_above(listing, listing.position[loop.head])
    falls = previous is None or listing.effects[previous].flow in (Flow.NEXT, Flow.BRANCH)
    return jumps != [loop.last] or not falls
