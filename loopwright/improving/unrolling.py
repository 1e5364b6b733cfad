"""Unrolling of loops: counted, single-path, or ended by the distance of two registers."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple

from loopwright.improving.listing import GENERAL, MEMORY, Line, Listing, address, code, label
from loopwright.improving.rewriting import free_register
from loopwright.improving.transformable_loops import (
    EVERY_FLAG,
    PREHEADER,
    Counted,
    CountedTransformation,
    SinglePathLoop,
    SinglePathTransformation,
    Update,
    access_label,
    exit_label,
    flags_live,
    half,
    immediate,
    least_before,
    may_fault,
    named,
    operation,
    opposite,
    repeatable,
    shifted,
    single_path_loops,
    spliced,
    stepped,
    steps_ahead,
    update_of,
    whole,
)

_MOST_ACCESSES = 32  # in an unrolled body
AHEAD = "unrolled"  # part of the labels of loops that transformations put before others


class CopiedStatements(NamedTuple):
    """The statements of copies of a loop, each as the number of a copy and a position.

    first is executed once before the loop, inside in each iteration.
    """

    first: Sequence[tuple[int, int]]
    inside: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class AheadOfLoop(CountedTransformation):
    """A loop before the original loop, for as long as `factor` iterations are left.

    The original does the remainder. stride is the number of original iterations in one iteration of
    the new loop. With apart the original moves out of line.
    """

    factor: int
    apart: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in tables and comments."""

    @property
    @abstractmethod
    def stem(self) -> str:
        """The beginning of its labels."""

    @property
    def stride(self) -> int:
        """The number of original iterations in one of its own."""
        return self.factor

    @abstractmethod
    def copies(self, loop: Counted) -> CopiedStatements | None:
        """Return the statements of the new loop, None if the condition does not hold."""

    def changed(self, loop: Counted) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""
        listing, factor = loop.listing, self.factor
        if not 0 < len(loop.accesses) * factor <= _MOST_ACCESSES:
            return None
        if AHEAD in loop.head or flags_live(loop):
            return None
        if may_fault(loop) and not repeatable(loop):
            return None
        if any(EVERY_FLAG & loop.touched(n) for n in loop.body):
            return None
        copies = self.copies(loop)
        if copies is None:
            return None
        counter, step = loop.counter, loop.step
        # In the new loop the counter is ahead by this amount: its test ends it early enough.
        bias = -factor * step if loop.form == "index" else factor * step
        bias -= step if loop.form == "borrow" else 0
        head, rest_label = listing.fresh(self.stem), listing.fresh(f"{self.stem}_rest")
        fault, behind = listing.fresh(f"{self.stem}_fault"), exit_label(loop, "done")
        down = loop.form != "index"
        forwards, backwards = ("sub", "add") if down else ("add", "sub")
        amount = abs(bias)
        first, inside = (
            self._shifted(loop, which, bias, fault) for which in (copies.first, copies.inside)
        )
        if first is None or inside is None:
            return None
        others = [u for u in loop.updates.values() if u.register != counter.register]
        steps = [code(stepped(listing.lines[u.at], u, self.stride)) for u in others]
        done, continues = {"borrow": ("jnc", "jc"), "limit": ("jb", "jae")}.get(
            loop.form, ("jz", "jnz")
        )
        ends = [code(operation(backwards, amount, counter))]
        if loop.form == "limit":
            ends.append(code(f"cmp{counter.suffix} ${step},{counter.operand}"))
        ends.append(code(f"{continues} {loop.head}" if self.apart else f"{done} {behind.name}"))
        entry = listing.position[loop.head]
        least = least_before(listing, entry, counter.register, negated=not down)
        enough, own_step = 0 < amount <= least, self.stride * step
        note = f"Less than {factor} iterations are left to the loop behind this one."
        unrolled = [
            code(operation(forwards, amount, counter), "" if enough else note),
            *([] if enough else [code(f"{'jb' if down else 'jg'} {rest_label}")]),
            *first.lines,
            label(head, f"{self.name.capitalize()}: {own_step} of the counter an iteration."),
            *inside.lines,
            *steps,
            code(operation(forwards, own_step, counter)),
            code(f"{'jae' if down else 'jle'} {head}"),
            label(rest_label),
            *ends,
        ]
        stub = []
        if entries := [*first.entries, *inside.entries]:
            stub = [
                label(fault, "The loop behind this one finds the fault again, and its place."),
                code(operation(backwards, amount, counter)),
                code(f"jmp {loop.head}"),
                *entries,
            ]
        changed = spliced(loop, unrolled, behind, stub, self.name, moved=self.apart)
        if listing.head != loop.head:
            return changed
        return replace(changed, head=head, iterations=listing.iterations * self.stride)

    def _shifted(
        self, loop: Counted, statements: Sequence[tuple[int, int]], bias: int, fault_label: str
    ) -> "_CopiedCode | None":
        """Return copies of statements with adjusted addresses, and exception-table entries."""
        listing = loop.listing
        lines: list[Line] = []
        entries: list[Line] = []
        for number, (copy, at) in enumerate(statements):
            ahead = steps_ahead(loop.updates, copy, at)
            ahead[loop.counter.register] += bias
            text = shifted(loop, at, ahead)
            if text is None:
                return None
            for entry in listing.entries_at(at)[:1]:
                name = access_label(listing, f"{self.stem}_{copy}_{at}_{number}")
                lines.append(label(name))
                entries.append(replace(entry, text=name, target=fault_label))
            lines.append(code(text))
        return _CopiedCode(lines, entries)


class _CopiedCode(NamedTuple):
    """The statements of copies, and the exception-table entries of their accesses."""

    lines: Sequence[Line]
    entries: Sequence[Line]


@dataclass(frozen=True)
class Unroll(AheadOfLoop):
    """An unrolled loop before the original loop, which does the remainder.

    Condition: the counter's step is constant, stepped registers are used in addresses only, no
    flags are live at the entry, within or at the exit of the loop, and an iteration can be repeated
    after a fault.
    """

    @property
    def name(self) -> str:
        return f"unroll by {self.factor}" + (", remainder out of the way" if self.apart else "")

    @property
    def stem(self) -> str:
        return f"{AHEAD}{self.factor}"

    def copies(self, loop: Counted) -> CopiedStatements:
        return CopiedStatements((), [(copy, at) for copy in range(self.factor) for at in loop.body])


@dataclass(frozen=True)
class PipelineLoads(AheadOfLoop):
    """A loop whose loads belong to the next iteration; the original does the last iteration.

    Condition: the body begins with loads, and the conditions of unrolling hold.
    """

    factor: int = 2

    @property
    def name(self) -> str:
        return "loads one iteration ahead"

    @property
    def stem(self) -> str:
        return f"{AHEAD}_ahead"

    @property
    def stride(self) -> int:
        return 1

    def copies(self, loop: Counted) -> CopiedStatements | None:
        loads = first_loads(loop)
        others = [at for at in loop.body if at not in loads]
        if not loads or not others:
            return None
        inside = [*((0, at) for at in others), *((1, at) for at in loads)]
        return CopiedStatements([(0, at) for at in loads], inside)


def first_loads(loop: Counted) -> list[int]:
    """Return the positions of the loads at the beginning of a body."""
    effects = loop.listing.effects
    loads = takewhile(
        lambda at: MEMORY in effects[at].reads and MEMORY not in effects[at].writes, loop.body
    )
    return list(loads)


APART = ".Lentries"  # the label of the code that EntriesApart adds
MOST_CODE = 96  # instructions of a transformed loop body, at most


def copied(listing: Listing, at: int, copy: int) -> tuple[list[Line], list[Line]]:
    """Return a copy of a statement with labels of its own, and its exception-table entries."""
    lines: list[Line] = []
    entries: list[Line] = []
    for entry in listing.entries_at(at):
        name = access_label(listing, f"copy{copy}_{at}_{len(lines)}")
        lines.append(label(name))
        entries.append(replace(entry, text=name))
    return [*lines, listing.lines[at]], entries


@dataclass(frozen=True)
class CopyIterations(SinglePathTransformation):
    """Several iterations one after another, each with its tests.

    Condition: the loop has a single path, and its branch back has an inverse: every copy computes
    what the iteration did, and leaves by the same exits.
    """

    factor: int

    @property
    def name(self) -> str:
        return f"{self.factor} iterations with their tests for one jump back"

    def changed(self, loop: SinglePathLoop) -> Listing | None:
        listing = loop.listing
        done = any("with their tests" in step for step in listing.steps)
        if done or (len(loop.inside) + 1) * self.factor > MOST_CODE:
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
        before, after = listing.lines[: loop.first], listing.lines[loop.exit :]
        lines = [*before, *body_lines, *behind.new, *after, *entries]
        copies = self.factor if listing.head == loop.head else 1
        changed = listing.with_lines(lines, self.name)
        return replace(changed, iterations=listing.iterations * copies)


class EntriesApart:
    """Entries that are not at a loop's head, moved to a separate copy of the iteration's rest.

    Condition: the loop has a single path: the copy completes the iteration, leaves by the same
    exits, and continues at the head.
    """

    name = "entries behind the loop"

    def apply(self, listing: Listing) -> Iterator[Listing]:
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


# The relation of P to E for which a branch after "cmp E,P" is taken, and whether it is signed.
_RELATIONS = {
    "jne": ("!=", False), "jnz": ("!=", False),
    "jb": ("<", False), "jc": ("<", False), "jnae": ("<", False),
    "ja": (">", False), "jnbe": (">", False),
    "jbe": ("<=", False), "jna": ("<=", False),
    "jae": (">=", False), "jnb": (">=", False), "jnc": (">=", False),
    "jl": ("<", True), "jnge": ("<", True), "jg": (">", True), "jnle": (">", True),
    "jle": ("<=", True), "jng": ("<=", True), "jge": (">=", True), "jnl": (">=", True),
}  # fmt: skip
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}
_WIDE = GENERAL["x86_64"] - {"rsp"}


@dataclass(frozen=True)
class _DistanceLoop(SinglePathLoop):
    """A loop that continues while a moving register has a relation to its end.

    test is the position of the comparison; end is the operand that the register is compared with;
    wide means that all 64 bits are compared. joined are the updates that one instruction can do for
    all unrolled iterations; updates has these and all others.
    """

    test: int
    moving: Update
    end: str
    relation: str
    signed: bool
    wide: bool
    updates: Mapping[str, Update]
    joined: Mapping[str, Update] = field(default_factory=dict)


@dataclass(frozen=True)
class UnrollByDistance(SinglePathTransformation):
    """Unrolling while enough distance to the end is left; the original loop does the remainder.

    Condition: the loop ends by comparing a register that moves by a constant with an invariant
    register or a constant, no flags are live at its head, a register is free for the distance, and
    other exits find all registers unchanged.
    """

    factor: int

    @property
    def name(self) -> str:
        return f"unroll by {self.factor} by the distance to the end"

    def changed(self, original: SinglePathLoop) -> Listing | None:
        loop = _distance_loop(original)
        listing = original.listing
        if loop is None or "unrolled" in original.head or (listing.iterations > 1):
            return None
        apart = {loop.test, *(u.at for u in loop.joined.values())}
        kept = [n for n in loop.inside if n not in apart]
        if len(kept) * self.factor > MOST_CODE:
            return None
        scratch = free_register(listing)
        if scratch is None:
            return None
        head = listing.fresh(f"unrolled{self.factor}")
        copies, stubs = self._copies(loop, kept, head)
        if copies is None:
            return None
        suffix = "q" if loop.wide else "l"
        distance = f"%{scratch}" if loop.wide else half(scratch)
        step = abs(loop.moving.step)
        near = (self.factor - 1) * step  # distance that has to be left before the last iteration
        at_least = loop.relation in ("<=", ">=")  # the loop also continues at the end itself
        exact = loop.relation == "!="
        register = loop.moving.register
        moving = f"%{register}" if loop.wide else half(register)
        ends = (loop.end, moving) if loop.moving.step > 0 else (moving, loop.end)
        past_end = ("jl" if loop.signed else "jb") + ("" if at_least else "e")
        before = [
            code(
                f"mov{suffix} {ends[0]},{distance}",
                f"What is left up to the end; less than {self.factor} iterations are for the loop "
                "behind this one.",
            ),
            code(f"sub{suffix} {ends[1]},{distance}"),
            *([] if exact else [code(f"{past_end} {loop.head}")]),
            code(f"sub{suffix} ${self.factor * step if exact else near},{distance}"),
            code(f"{'jb' if exact or at_least else 'jbe'} {loop.head}"),
            label(head, f"{self.name[0].upper()}{self.name[1:]}."),
            *copies,
            *(code(stepped(listing.lines[u.at], u, self.factor)) for u in loop.joined.values()),
            code(f"sub{suffix} ${self.factor * step},{distance}"),
            code(f"{'jae' if exact or at_least else 'ja'} {head}"),
            listing.lines[loop.test],
        ]
        behind = exit_label(loop, "done")
        back = opposite(listing.lines[loop.last].text, behind.name)
        if back is None:
            return None
        changed = spliced(loop, [*before, code(back)], behind, stubs, self.name)
        main = listing.head == loop.head
        return replace(
            changed,
            head=head if main else changed.head,
            iterations=self.factor if main else changed.iterations,
        )

    def _copies(
        self, loop: _DistanceLoop, kept: Sequence[int], head: str
    ) -> tuple[list[Line] | None, list[Line]]:
        """Return the unrolled body, and stubs that update registers before the body's exits."""
        listing = loop.listing
        lines: list[Line] = []
        stubs: list[Line] = []
        exits = set(loop.exits)
        for copy in range(self.factor):
            for at in kept:
                ahead = steps_ahead(loop.joined, copy, at)
                pending = {r: n for r, n in ahead.items() if n}
                if at in exits and not pending:
                    lines.append(listing.lines[at])
                elif at in exits:
                    name = f"{head}_leaves{copy}_{at}"
                    *operands, target = listing.lines[at].operands
                    branch = f"{listing.lines[at].mnemonic} {','.join([*operands, name])}"
                    lines.append(code(branch))
                    stubs += [
                        label(name),
                        *(code(_added(loop.joined[r], n)) for r, n in pending.items()),
                        code(f"jmp {target}"),
                    ]
                elif (text := shifted(loop, at, ahead)) is not None:
                    lines.append(code(text))
                else:
                    return None, []
        return lines, stubs


def _distance_loop(original: SinglePathLoop) -> _DistanceLoop | None:
    """Return a loop whose last test is a comparison of two registers, None for another loop."""
    listing = original.listing
    lines, live = listing.lines, listing.live
    when_taken = _RELATIONS.get(lines[original.last].mnemonic)
    if listing.isa != "x86_64" or when_taken is None or EVERY_FLAG & live[original.first]:
        return None
    if any(listing.entries_at(n) for n in original.inside):
        return None
    effects = listing.effects
    setters = [n for n in original.inside if EVERY_FLAG & effects[n].writes]
    if not setters or not re.fullmatch(r"cmp[ql]?", lines[setters[-1]].mnemonic):
        return None
    test = setters[-1]
    after_test = [n for n in original.inside if n > test]
    if any(EVERY_FLAG & effects[n].reads or n in original.exits for n in after_test):
        return None
    written = [r for n in original.inside for r in effects[n].writes]
    updates = {
        u.register: u
        for n in original.inside
        if (u := update_of(lines[n], n)) and written.count(u.register) == 1 and u.step
    }
    comparison = _compared_registers(lines[test], updates, set(written))
    if comparison is None:
        return None
    moving, end, moving_first, wide = comparison
    clears = moving.operand == half(moving.register)  # the upper half of the register
    if moving.at > test or (wide and clears):
        return None
    if any(whole(r) in effects[n].writes for n in after_test for r in (moving.operand, end)):
        return None
    relation, signed = when_taken
    relation = relation if moving_first else _MIRRORED[relation]
    if (relation[0] == "<" and moving.step < 0) or (relation[0] == ">" and moving.step > 0):
        return None  # it moves away from its end
    loop = _DistanceLoop(**vars(original), test=test, moving=moving, end=end, relation=relation,
                 signed=signed, wide=wide, updates=updates)  # fmt: skip
    joined = {
        r: u
        for r, u in updates.items()
        if not EVERY_FLAG & live[u.at + 1] & effects[u.at].writes and _only_addresses(loop, u)
    }
    return replace(loop, joined=joined)


def _compared_registers(
    test: Line, updates: Mapping[str, Update], written: set[str]
) -> tuple[Update, str, bool, bool] | None:
    """Return the moving register's update, its end, whether it is operand P, whether 64-bit."""
    if len(test.operands) != 2:
        return None
    source, destination = test.operands  # the flags are those of destination - source
    for moving, end, moving_first in ((destination, source, True), (source, destination, False)):
        update = updates.get(whole(moving)) if moving.startswith("%") else None
        constant = immediate(end)
        invariant = end.startswith("%") and whole(end) not in written
        if update is None or not (invariant or constant is not None):
            continue
        wide = whole(moving) == moving.lstrip("%")
        is_half = moving == half(whole(moving))
        if (wide or is_half) and whole(moving) in _WIDE:
            return update, end, moving_first, wide
    return None


def _only_addresses(loop: _DistanceLoop, update: Update) -> bool:
    """True if an update's register is used in addresses only, apart from the comparison."""
    if update.register not in _WIDE or update.operand != f"%{update.register}":
        return False
    listing, register = loop.listing, update.register
    for n in loop.inside:
        if n in (update.at, loop.test) or register not in listing.effects[n].reads:
            continue
        line = listing.lines[n]
        direct = any(register in named(o) for o in line.operands if address(o) is None)
        if direct or register not in named(line.text) or n in loop.exits:
            return False
    return True


def _added(update: Update, amount: int) -> str:
    """Return an addition that preserves the flags."""
    return f"leaq {amount}({update.operand}),{update.operand}"
