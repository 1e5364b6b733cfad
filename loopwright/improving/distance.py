"""Unrolling of loops that end by comparing two registers, by the distance between them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from loopwright.improving.counted import Update, immediate, update_of
from loopwright.improving.edits import (
    EVERY_FLAG,
    exit_label,
    half,
    named,
    shifted,
    spliced,
    stepped,
    whole,
)
from loopwright.improving.listing import Line, Listing, address, code, label
from loopwright.improving.rewriting import free_register
from loopwright.improving.single_path import (
    MOST_CODE,
    SinglePathLoop,
    SinglePathTransformation,
    opposite,
)

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
_WIDE = frozenset(
    {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", *(f"r{n}" for n in range(8, 16))}
)


@dataclass(frozen=True)
class _Loop:
    """A loop that continues while a moving register has a relation to its end.

    test is the position of the comparison; end is the operand that the register is compared with;
    wide means that all 64 bits are compared. joined are the updates that one instruction can do for
    all unrolled iterations; updates has these and all others.
    """

    original: SinglePathLoop
    test: int
    moving: Update
    end: str
    relation: str
    signed: bool
    wide: bool
    updates: Mapping[str, Update]
    joined: Mapping[str, Update] = field(default_factory=dict)

    @property
    def listing(self) -> Listing:
        """The listing that has the loop."""
        return self.original.listing

    @property
    def head(self) -> str:
        """The label of its head."""
        return self.original.head

    @property
    def exit(self) -> int:
        """The position of the statement after it."""
        return self.original.exit

    def added_before(self, at: int, register: str) -> int:
        """Return the constant that an iteration has added to a register before a statement."""
        update = self.updates.get(register)
        return update.step if update and update.at < at else 0


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
        """The name with the factor."""
        return f"unroll by {self.factor} by the distance to the end"

    def changed(self, original: SinglePathLoop) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""
        loop = _read(original)
        listing = original.listing
        if loop is None or "unrolled" in original.head or (listing.iterations > 1):
            return None
        body = [n for n in original.inside if n != loop.test]
        kept = [n for n in body if n not in {u.at for u in loop.joined.values()}]
        if len(kept) * self.factor > MOST_CODE:
            return None
        scratch = free_register(listing)
        if scratch is None:
            return None
        head = listing.fresh(f"unrolled{self.factor}")
        copies, stubs = self._copies(loop, kept, head)
        if copies is None:
            return None
        width = "q" if loop.wide else "l"
        distance = f"%{scratch}" if loop.wide else half(scratch)
        step = abs(loop.moving.step)
        near = (self.factor - 1) * step  # distance that has to be left before the last iteration
        at_least = loop.relation in ("<=", ">=")  # the loop also continues at the end itself
        exact = loop.relation == "!="
        moving = _sized(loop.moving.register, loop.wide)
        ends = (loop.end, moving) if loop.moving.step > 0 else (moving, loop.end)
        rest = original.head
        refuse = {"jle": "jl", "jbe": "jb"}
        none = "jle" if loop.signed else "jbe"
        before = [
            code(
                f"mov{width} {ends[0]},{distance}",
                f"What is left up to the end; less than {self.factor} iterations are for the loop "
                "behind this one.",
            ),
            code(f"sub{width} {ends[1]},{distance}"),
            *([] if exact else [code(f"{refuse[none] if at_least else none} {rest}")]),
            code(f"sub{width} ${self.factor * step if exact else near},{distance}"),
            code(f"{'jb' if exact or at_least else 'jbe'} {rest}"),
            label(head, f"{self.name[0].upper()}{self.name[1:]}."),
            *copies,
            *(code(stepped(listing.lines[u.at], u, self.factor)) for u in loop.joined.values()),
            code(f"sub{width} ${self.factor * step},{distance}"),
            code(f"{'jae' if exact or at_least else 'ja'} {head}"),
            listing.lines[loop.test],
        ]
        behind = exit_label(loop, "done")
        back = opposite(listing.lines[original.last].text, behind.name)
        if back is None:
            return None
        changed = spliced(loop, [*before, code(back)], behind, stubs, self.name)
        main = listing.head == original.head
        return replace(
            changed,
            head=head if main else changed.head,
            iterations=self.factor if main else changed.iterations,
        )

    def _copies(
        self, loop: _Loop, kept: Sequence[int], head: str
    ) -> tuple[list[Line] | None, list[Line]]:
        """Return the unrolled body, and stubs that update registers before the body's exits."""
        listing = loop.listing
        lines: list[Line] = []
        stubs: list[Line] = []
        exits = set(loop.original.exits)
        for copy in range(self.factor):
            for at in kept:
                ahead = {
                    r: copy * u.step + loop.added_before(at, r) for r, u in loop.joined.items()
                }
                if at in exits:
                    pending = {r: n for r, n in ahead.items() if n}
                    line = listing.lines[at]
                    if pending:
                        name = f"{head}_leaves{copy}_{at}"
                        *operands, target = line.operands
                        branch = f"{line.mnemonic} {','.join([*operands, name])}"
                        lines.append(code(branch))
                        stubs += [
                            label(name),
                            *(code(_added(loop.joined[r], n)) for r, n in pending.items()),
                            code(f"jmp {target}"),
                        ]
                    else:
                        lines.append(line)
                    continue
                text = shifted(loop, at, ahead)
                if text is None:
                    return None, []
                lines.append(code(text))
        return lines, stubs


def _read(original: SinglePathLoop) -> _Loop | None:
    """Return a loop whose last test is a comparison of two registers, None for another loop."""
    listing = original.listing
    lines, live = listing.lines, listing.live
    when_taken = _RELATIONS.get(lines[original.last].mnemonic)
    if listing.isa != "x86_64" or when_taken is None or EVERY_FLAG & live[original.first]:
        return None
    if any(listing.entries_at(n) for n in original.inside):
        return None
    effects = {n: e for n in original.inside if (e := listing.effects[n])}
    setters = [n for n in original.inside if EVERY_FLAG & effects[n].writes]
    if not setters or not re.fullmatch(r"cmp[ql]?", lines[setters[-1]].mnemonic):
        return None
    test = setters[-1]
    behind = [n for n in original.inside if n > test]
    if any(EVERY_FLAG & effects[n].reads or n in original.exits for n in behind):
        return None
    writers = [r for n in original.inside for r in effects[n].writes]
    updates = {
        u.register: u
        for n in original.inside
        if (u := update_of(lines[n], n)) and writers.count(u.register) == 1 and u.step
    }
    comparison = _compared(lines[test], updates, set(writers))
    if comparison is None:
        return None
    moving, end, first, wide = comparison
    if moving.at > test or (wide and _narrow(moving)):
        return None
    if any(whole(r) in effects[n].writes for n in behind for r in (moving.written, end)):
        return None
    relation, signed = when_taken
    relation = relation if first else _MIRRORED[relation]
    if (relation[0] == "<" and moving.step < 0) or (relation[0] == ">" and moving.step > 0):
        return None  # it moves away from its end
    loop = _Loop(original, test, moving, end, relation, signed, wide, updates)
    joined = {
        r: u
        for r, u in updates.items()
        if not EVERY_FLAG & live[u.at + 1] & effects[u.at].writes and _only_addresses(loop, u)
    }
    return replace(loop, joined=joined)


def _compared(
    test: Line, updates: Mapping[str, Update], written: set[str]
) -> tuple[Update, str, bool, bool] | None:
    """Return the moving register's update, its end, whether it is operand P, whether 64-bit."""
    if len(test.operands) != 2:
        return None
    source, destination = test.operands  # the flags are those of destination - source
    for moving, end, first in ((destination, source, True), (source, destination, False)):
        update = updates.get(whole(moving)) if moving.startswith("%") else None
        constant = immediate(end)
        stays = end.startswith("%") and whole(end) not in written
        if update is None or not (stays or constant is not None):
            continue
        wide = whole(moving) == moving.lstrip("%")
        narrow = moving == half(whole(moving))
        if (wide or narrow) and whole(moving) in _WIDE:
            return update, end, first, wide
    return None


def _narrow(update: Update) -> bool:
    """True if an update writes 32 bits, which clears the upper half."""
    return update.written == half(update.register)


def _only_addresses(loop: _Loop, update: Update) -> bool:
    """True if an update's register is used in addresses only, apart from the comparison."""
    if update.register not in _WIDE or update.written != f"%{update.register}":
        return False
    listing, register = loop.listing, update.register
    for n in loop.original.inside:
        effects = listing.effects[n]
        if n in (update.at, loop.test) or effects is None or register not in effects.reads:
            continue
        line = listing.lines[n]
        direct = any(register in named(o) for o in line.operands if address(o) is None)
        if direct or register not in named(line.text) or n in loop.original.exits:
            return False
    return True


def _sized(register: str, wide: bool) -> str:
    return f"%{register}" if wide else half(register)


def _added(update: Update, amount: int) -> str:
    """Return an addition that preserves the flags."""
    return f"leaq {amount}({update.written}),{update.written}"
