"""Loops of a listing that can be transformed: counted loops, and single-path loops with exits."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from loopwright.code.instructions import Flow
from loopwright.improving.listing import CARRY, FLAGS, MEMORY, Line, Listing, address, full

_IMMEDIATE = re.compile(r"^\$(-?(?:0x[0-9a-f]+|\d+))$")
_SUFFIX = re.compile(r"^(add|sub|inc|dec|lea|cmp)([bwlq]?)$")
_ABOVE = frozenset({"jae", "jnb", "jnc"})
_NOT_ZERO = frozenset({"jnz", "jne"})


class Update(NamedTuple):
    """An instruction that adds a constant to a register, and its position."""

    at: int
    register: str
    written: str
    step: int
    suffix: str


@dataclass(frozen=True)
class Counted:
    """A single-block loop that ends by a counter.

    first and last are the positions of its first statement and of the branch back to its head.
    form is the exit condition: "borrow" (the counter went below zero), "zero" (it is zero),
    "limit" (a cmp finds it below one iteration's step) or "index" (it counted up to zero).
    updates has the constant that an iteration adds to each register, the counter among them. test
    is the position of the instruction that sets the flags of the branch.
    """

    listing: Listing
    head: str
    first: int
    last: int
    form: str
    counter: Update
    updates: Mapping[str, Update]
    test: int

    @property
    def exit(self) -> int:
        """The position of the statement after the loop."""
        return self.last + 1

    @property
    def step(self) -> int:
        """The decrement of the counter in an iteration, above zero."""
        return abs(self.counter.step)

    @property
    def body(self) -> Sequence[int]:
        """The positions of the instructions that are neither updates nor part of the test."""
        apart = {u.at for u in self.updates.values()} | {self.test, self.last}
        listing = self.listing
        return [
            n
            for n in range(self.first, self.last)
            if n not in apart and listing.lines[n].kind == "code"
        ]

    @property
    def accesses(self) -> list[int]:
        """The positions of the loads and stores of the body."""
        return [n for n in self.body if MEMORY in self.touched(n)]

    def touched(self, at: int) -> frozenset[str]:
        """Return the registers, flags and memory that a statement reads or writes."""
        effects = self.listing.effects[at]
        return effects.reads | effects.writes if effects else frozenset()

    def written(self) -> frozenset[str]:
        """Return the registers, flags and memory that the body writes, without its updates."""
        out: frozenset[str] = frozenset()
        for n in self.body:
            effects = self.listing.effects[n]
            out |= effects.writes if effects else frozenset()
        return out

    def added_before(self, at: int, register: str) -> int:
        """Return the constant that an iteration has added to a register before a statement."""
        update = self.updates.get(register)
        return update.step if update and update.at < at else 0


def update_of(line: Line, at: int) -> Update | None:
    """Return an instruction's addition of a constant, None for another instruction."""
    match = _SUFFIX.match(line.mnemonic)
    if not match or match[1] == "cmp":
        return None
    kind, suffix, operands = match[1], match[2], line.operands
    if kind in ("inc", "dec") and len(operands) == 1 and operands[0].startswith("%"):
        register = operands[0]
        return Update(at, full("x86_64", register), register, 1 if kind == "inc" else -1, suffix)
    if kind == "lea" and len(operands) == 2:
        memory = address(operands[0])
        if memory and memory.base == operands[1] and not memory.indexed:
            register = operands[1]
            return Update(at, full("x86_64", register), register, memory.disp, suffix)
        return None
    if kind in ("add", "sub") and len(operands) == 2 and operands[1].startswith("%"):
        constant = immediate(operands[0])
        if constant is None:
            return None
        register = operands[1]
        step = constant if kind == "add" else -constant
        return Update(at, full("x86_64", register), register, step, suffix)
    return None


def immediate(operand: str) -> int | None:
    """Return the value of an immediate operand of x86-64."""
    match = _IMMEDIATE.match(operand)
    return int(match[1], 0) if match else None


def counted_loops(listing: Listing) -> Iterator[Counted]:
    """Yield the counted loops of a listing, by the position of their branch."""
    if listing.isa != "x86_64":
        return
    for last, line in enumerate(listing.lines):
        effects = listing.effects[last]
        if line.kind == "code" and effects and effects.flow is Flow.BRANCH:
            target = listing.position.get(line.operands[-1] if line.operands else "", last)
            loop = _loop(listing, target, last) if target < last else None
            if loop:
                yield loop


def _loop(listing: Listing, head: int, last: int) -> Counted | None:
    lines = listing.lines
    first = head
    while first < last and lines[first].kind != "code":
        first += 1
    inside = range(first, last)
    if any(lines[n].kind == "label" and lines[n].text in listing.jumped_to for n in inside):
        return None
    steps: dict[str, Update] = {}
    for n in inside:
        effects = listing.effects[n]
        if effects is None:
            continue
        if effects.flow is not Flow.NEXT or effects.string:
            return None
        if update := update_of(lines[n], n):
            steps[update.register] = update
    writers = [r for n in inside for r in (listing.effects[n] or _NOTHING).writes if r in steps]
    steps = {r: u for r, u in steps.items() if writers.count(r) == 1}
    flag = CARRY if lines[last].mnemonic in _ABOVE else FLAGS
    setters = [n for n in inside if flag in (listing.effects[n] or _NOTHING).writes]
    if not setters:
        return None
    form, counter = _test(lines, setters[-1], lines[last].mnemonic, steps)
    if counter is None:
        return None
    return Counted(listing, lines[head].text, first, last, form, counter, steps, setters[-1])


class _Nothing(NamedTuple):
    writes: frozenset[str] = frozenset()


_NOTHING = _Nothing()


def _test(
    lines: Sequence[Line], test: int, branch: str, steps: Mapping[str, Update]
) -> tuple[str, Update | None]:
    """Return the form of a loop's exit condition, and its counter."""
    tested = next((u for u in steps.values() if u.at == test), None)
    if tested and branch in _ABOVE and tested.step < 0 and lines[test].mnemonic.startswith("sub"):
        return "borrow", tested
    if tested and branch in _NOT_ZERO and tested.step:
        return ("zero" if tested.step < 0 else "index"), tested
    if lines[test].mnemonic.startswith("cmp") and branch in _ABOVE:
        limit, *rest = lines[test].operands
        counter = steps.get(full("x86_64", rest[0])) if rest else None
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
    later: list[tuple[str, int]] = []  # changes of the value on the path, the last one first
    for _ in range(len(listing.lines)):
        at -= 1
        if at < 0:
            return 0
        line, effects = listing.lines[at], listing.effects[at]
        if line.kind == "label" and line.text in listing.jumped_to:
            sources = _ways(listing, at)
            if len(sources) != 1:
                return 0
            jump = listing.lines[sources[0]]
            at, taken = sources[0] + 1, line.text in _words(jump)
            continue
        if effects is None:
            continue
        passed = effects.flow is Flow.JUMP or line.mnemonic == "ALTERNATIVE"
        if effects.flow is Flow.RETURN or (passed and not taken):
            return 0
        if effects.flow is Flow.BRANCH and line.mnemonic in (_ABOVE if taken else _BELOW):
            limit = _compared(listing, at, register)
            if limit is not None and not negated:
                return _least(limit, reversed(later))
        if register in effects.writes:
            if negated:
                if line.mnemonic not in ("neg", "negq") or line.operands != (f"%{register}",):
                    return 0
                negated = False
            elif (change := _lowered(line, at, register)) is not None:
                later.append(change)
            else:
                return 0
        taken = False
    return 0


def _lowered(line: Line, at: int, register: str) -> tuple[str, int] | None:
    """Return the largest decrease of a 64-bit register by an instruction, None if not known."""
    if not line.operands or line.operands[-1] != f"%{register}":  # a part of it may wrap
        return None
    if (update := update_of(line, at)) is not None:
        return ("sub", -update.step) if update.step <= 0 else None
    if line.mnemonic not in ("and", "andq"):
        return None
    unit = -(immediate(line.operands[0]) or 0)
    return ("round", unit) if unit > 0 and unit & (unit - 1) == 0 else None


def _least(limit: int, changes: Iterable[tuple[str, int]]) -> int:
    """Return the least value after changes of a value of at least limit; 0 where it may wrap."""
    for kind, amount in changes:
        limit = limit - limit % amount if kind == "round" else limit - amount
        if limit < 0:
            return 0
    return limit


def _ways(listing: Listing, at: int) -> list[int]:
    """Return the instructions from which control comes to a label, other than by a fault."""
    name = listing.lines[at].text
    if name in listing.fixups_targets():
        return []
    sources = [
        n for n, line in enumerate(listing.lines) if line.kind == "code" and name in _words(line)
    ]
    above = next((n for n in range(at - 1, -1, -1) if listing.effects[n]), None)
    effects = listing.effects[above] if above is not None else None
    if above is not None and effects and effects.flow in (Flow.NEXT, Flow.BRANCH):
        sources.append(above)
    return sources


def _words(line: Line) -> list[str]:
    return re.findall(r"[.\w$]+", line.text)


def _compared(listing: Listing, branch: int, register: str) -> int | None:
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
        if target < last and (loop := _single_path(listing, target, last, entered)):
            yield loop


def _single_path(
    listing: Listing, head: int, last: int, entered: frozenset[str]
) -> SinglePathLoop | None:
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
