"""Rewrites of single instructions of a loop: common parts, and breaking of false dependencies."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence

from loopwright.code.instructions import Flow
from loopwright.errors import InputError
from loopwright.improving.counted import immediate
from loopwright.improving.edits import EVERY_FLAG, half, implicit, named, whole
from loopwright.improving.listing import (
    GENERAL,
    LETTERS,
    MEMORY,
    Effects,
    Line,
    Listing,
    code,
    effects_of,
    live_at_return,
    part,
    size_of,
)
from loopwright.improving.single_path import single_path_loops

_VECTORS = frozenset(f"zmm{n}" for n in range(16))
_MOST_ALONE = 4  # single-site variants, at most; unrolled loops have many alike sites
Change = Mapping[int, Sequence[str]]
"""By the position of a statement, the instructions that replace it."""


class Rewrite(ABC):
    """A transformation that replaces a few instructions by others, wherever its condition holds."""

    name: str

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with all sites of its loops changed, and a few with one changed."""
        if listing.isa != "x86_64":
            return
        loops = [x for x in single_path_loops(listing) if listing.head in ("", x.head)]
        all_changed, single = listing, []
        for at in reversed([n for loop in loops for n in loop.inside]):
            if change := self.change(listing, at):
                single.append(edited(listing, change))
            if change := self.change(all_changed, at):
                all_changed = edited(all_changed, change)
        for changed in [
            *([all_changed] if len(single) > 1 else []),
            *single[: -_MOST_ALONE - 1 : -1],
        ]:
            yield listing.with_lines(changed.lines, self.name)

    @abstractmethod
    def change(self, listing: Listing, at: int) -> Change | None:
        """Return the replacements for a statement, None if the condition does not hold."""


def edited(listing: Listing, change: Change) -> Listing:
    """Return a listing with instructions replaced; labels of an access stay with the access."""
    lines: list[Line] = []
    for n, line in enumerate(listing.lines):
        if n not in change:
            lines.append(line)
            continue
        start = len(lines)
        while (
            start and lines[start - 1].kind == "label" and lines[start - 1].text in listing.fixups
        ):
            start -= 1
        labels, lines = lines[start:], lines[:start]
        access = next((k for k, text in enumerate(change[n]) if "(" in text), 0)
        new = [code(text, "" if k else line.note) for k, text in enumerate(change[n])]
        lines += [*new[:access], *labels, *new[access:]]
    return listing.with_lines(lines, "")


def known(text: str) -> Effects | None:
    """Return the effects of an instruction, None if it does not assemble."""
    try:
        return effects_of("x86_64", [text])[text]
    except InputError:
        return None


def fixups_spare(listing: Listing, at: int, registers: Collection[str]) -> bool:
    """True if no fixup of a statement needs the given registers or MEMORY."""
    targets = [listing.position[entry.target] for entry in listing.entries_at(at)]
    return not any({*listing.live[n], MEMORY} & set(registers) for n in targets)


def dead(listing: Listing, at: int, register: str) -> bool:
    """True if a register is dead after a statement."""
    return register not in listing.live[at + 1]


def unread_above(listing: Listing, at: int, register: str, size: int) -> bool:
    """True if no code after a statement reads a register beyond its `size` low bytes."""
    pending, seen = listing.successors(at), set()
    while pending:
        n = pending.pop()
        effects = listing.effects[n]
        if n in seen:
            continue
        seen.add(n)
        if effects is not None:
            if register in listing.outside(n) or effects.flow is Flow.CALL:
                return False
            if effects.parts.get(register, 0) > size:
                return False
            if register in effects.writes - effects.kept:
                continue
        pending += listing.successors(n)
    return True


def free_register(listing: Listing, *, vector: bool = False) -> str | None:
    """Return a register that the listing does not use and that is dead after it, None if none."""
    pool = _VECTORS if vector else GENERAL["x86_64"] - {"rsp"}
    if listing.contract is not None:
        pool -= live_at_return(listing.isa, listing.contract) | _VECTORS
    else:
        pool &= listing.scratch
    used = (e.reads | e.writes for e in listing.effects if e)
    free = pool.difference(*used, *listing.leaving.values())
    return min(free, key=lambda r: (len(r), r), default=None)


def straight(listing: Listing, at: int) -> Iterator[int]:
    """Yield the instructions after a statement up to the next branch or jump target."""
    for n in range(at + 1, len(listing.lines)):
        line, effects = listing.lines[n], listing.effects[n]
        if line.kind == "label" and line.text in listing.jumped_to:
            return
        if effects is not None:
            yield n
            if effects.flow is not Flow.NEXT:
                return


def reader(listing: Listing, at: int) -> int | None:
    """Return the first instruction that reads a result, if the computation can move down to it.

    None if control may leave before, or where an instruction in between uses the result or
    changes its sources.
    """
    own = listing.effects[at]
    if own is None or listing.entries_at(at):
        return None
    for n in straight(listing, at):
        effects = listing.effects[n]
        assert effects is not None
        if effects.flow is not Flow.NEXT or not fixups_spare(listing, n, own.writes):
            return None
        if own.writes & effects.reads:
            return n
        if own.writes & effects.writes or effects.writes & own.reads:
            return None
    return None


_COUNTS = re.compile(r"(popcnt|lzcnt|tzcnt)[lq]?")
_LOWEST = re.compile(r"(cvt(si|sd|ss)2s[sd][lq]?|sqrts[sd]|rcpss|rsqrtss|rounds[sd])")
_MERGED = re.compile(r"movs[sd]")


class BreakDependencies(Rewrite):
    """Zeroing or full-width writes that break the dependency on a register's old value.

    Condition: the register is no source, and its old value apart from the result is not read, by
    code or a fixup, before all of it is written. Flags that a zeroing overwrites are not needed by
    a fixup.
    """

    name = "false dependencies broken"

    def change(self, listing: Listing, at: int) -> Change | None:
        """Return a zeroing before an instruction, or one that writes the full register."""
        line = listing.lines[at]
        *sources, target = line.operands or ("",)
        register, size = whole(target) if size_of(target) else "", size_of(target)
        effects = listing.effects[at]
        if effects is None or not register or register in named(",".join(sources)):
            return None
        if not fixups_spare(listing, at, {register, *EVERY_FLAG}):
            return None
        replacement = self._independent(listing, at, register, size)
        if replacement is None or replacement[0] in (
            x.text for x in listing.lines[max(0, at - 3) : at]
        ):
            return None
        return {at: replacement}

    def _independent(self, listing: Listing, at: int, register: str, size: int) -> list[str] | None:
        line, mnemonic = listing.lines[at], listing.lines[at].mnemonic
        *sources, target = line.operands
        if _COUNTS.fullmatch(mnemonic) and size > 2:
            zero = half(register)
            return [f"xorl {zero},{zero}", line.text]  # the count overwrites the flags as well
        if _LOWEST.fullmatch(mnemonic):
            lowest = 4 if mnemonic.rstrip("lq").endswith("s") else 8
            if unread_above(listing, at, register, lowest):
                return [f"xorps {target},{target}", line.text]
        lowest = 4 if mnemonic == "movss" else 8
        merged = _MERGED.fullmatch(mnemonic) and size_of(sources[0]) == 16
        if merged and unread_above(listing, at, register, lowest):
            return [f"movaps {sources[0]},{target}"]
        if size > 2 or target != part(register, size):
            return None  # not a part of a register, or its second byte
        if not unread_above(listing, at, register, size):
            return None
        if mnemonic.startswith("set"):
            return [f"movl $0,{half(register)}", line.text]
        if mnemonic in ("mov", f"mov{LETTERS[size]}"):
            [source] = sources
            if source.startswith("$"):
                value = immediate(source)
                return (
                    None
                    if value is None
                    else [f"movl ${value & (1 << 8 * size) - 1},{half(register)}"]
                )
            return [f"movz{LETTERS[size]}l {source},{half(register)}"]
        return None


class Rename(Rewrite):
    """Another register for one result and all its readers.

    Condition: all readers follow the result without a branch or label between, name the register,
    and no fixup there needs it. The other register is unused, or the source of the result and dead
    afterwards.
    """

    name = "registers renamed"

    def change(self, listing: Listing, at: int) -> Change | None:
        """Return the instruction and its readers with another register."""
        line, effects = listing.lines[at], listing.effects[at]
        target = line.operands[-1] if line.operands else ""
        register = whole(target) if size_of(target) > 2 else ""
        if effects is None or register not in effects.writes - effects.reads - {"rsp"}:
            return None
        counts = _COUNTS.fullmatch(line.mnemonic)
        others = (e for n, e in enumerate(listing.effects) if e and n != at)
        if not counts and not any(register in e.writes - e.reads for e in others):
            return None
        uses = self.uses(listing, at, register)
        if uses is None:
            return None
        other = free_register(listing, vector=register.startswith("zmm"))
        source = whole(line.operands[0]) if counts else ""
        if source in GENERAL["x86_64"] and self.unused(listing, (at, *uses), source):
            other = source
        if other is None or other == register:
            return None
        change = {}
        for n in (at, *uses):
            operands = list(listing.lines[n].operands)
            for k, operand in enumerate(operands):
                if n > at or k == len(operands) - 1:
                    operands[k] = renamed(operand, register, other)
            change[n] = [f"{listing.lines[n].mnemonic} {','.join(operands)}"]
        return change

    def uses(self, listing: Listing, at: int, register: str) -> list[int] | None:
        """Return the readers of a result, None if one is out of reach or cannot be changed."""
        readers: list[int] = []
        for n in straight(listing, at):
            effects = listing.effects[n]
            assert effects is not None
            if register in effects.reads:
                text = listing.lines[n].text
                high = any(size_of(r) == 1 and r[-1] == "h" for r in re.findall(r"%\w+", text))
                if high or register in implicit(listing, n):
                    return None
                readers.append(n)
            if not fixups_spare(listing, n, {register}):
                return None
            if register in effects.writes - effects.reads:
                return readers
            live_after = [listing.live[m] for m in listing.successors(n)]
            if register not in listing.outside(n).union(*live_after):
                return readers
            if effects.flow is not Flow.NEXT:
                return None
        return None

    def unused(self, listing: Listing, uses: Sequence[int], source: str) -> bool:
        """True if a source is dead from its reader up to the last use of the result."""
        between = [listing.effects[n] for n in straight(listing, uses[0]) if n <= uses[-1]]
        if any(source in e.reads | e.writes for e in between if e):
            return False
        return dead(listing, uses[-1], source) and all(
            fixups_spare(listing, n, {source}) for n in range(uses[0], uses[-1] + 1)
        )


def renamed(text: str, register: str, other: str) -> str:
    """Return a text in which another full register replaces a register."""
    return re.sub(
        r"%\w+",
        lambda m: part(other, size_of(m[0])) if whole(m[0]) == register else m[0],
        text,
    )
