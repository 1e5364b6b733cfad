"""User-access sections: fewer stac and clac, and cleanup after inlined accessors."""

import re
from collections.abc import Iterator
from dataclasses import replace

from loopwright.code.instructions import Flow
from loopwright.improving.edits import EVERY_FLAG, next_code, whole
from loopwright.improving.listing import MEMORY, Line, Listing, address

_CONSTANT = re.compile(r"movl?q? \$(-?\w+),\s*(%\w+)$")
_ZERO = re.compile(r"xorl? (%\w+),\s*\1$")
_WIDE = re.compile(r"%r(?:[a-ds][xip]|[bs]p|\d+)$")
_TEST = re.compile(r"test[lq]? (%\w+),\s*\1$")


def _gate(line: Line) -> str:
    """Return "stac" or "clac" for an ALTERNATIVE of one of them, else ""."""
    match = re.match(r'ALTERNATIVE "", "(stac|clac)", X86_FEATURE_SMAP$', line.text)
    return match[1] if match and line.kind == "code" else ""


class JoinSections:
    """One user-access section instead of two consecutive ones.

    Condition: between clac and stac there is no memory access, jump or jump target.
    """

    name = "sections of user access joined"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing without all such pairs of clac and stac."""
        removed: set[int] = set()
        closed = None
        for n, line in enumerate(listing.lines):
            effects = listing.effects[n]
            gate = _gate(line)
            if gate == "clac":
                closed = n
            elif gate == "stac" and closed is not None:
                removed |= {closed, n}
                closed = None
            elif (line.kind == "label" and line.text in listing.jumped_to) or (
                effects
                and (effects.flow is not Flow.NEXT or MEMORY in effects.reads | effects.writes)
            ):
                closed = None
        if removed:
            lines = [line for n, line in enumerate(listing.lines) if n not in removed]
            yield listing.with_lines(lines, self.name)


class ConstantBranches:
    """Branches on constants resolved, and dead writes removed.

    Condition: the register has the constant on every path to the test, and the flags are dead after
    it.
    """

    name = "branches on constants resolved"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with all such branches resolved."""
        result = listing
        while (changed := self._threaded(result) or self._simplified(result)) is not None:
            result = changed
        if result is not listing:
            yield listing.with_lines(result.lines, self.name)

    def _threaded(self, listing: Listing) -> Listing | None:
        """Return the listing with one jump threaded past a test whose result is known."""
        lines = listing.lines
        for n, line in enumerate(lines):
            set_to = _CONSTANT.match(line.text) if line.kind == "code" else None
            if not set_to or int(set_to[1], 0) == 0:
                continue
            jump = next_code(listing, n)
            if jump is None or not lines[jump].text.startswith("jmp "):
                continue
            goal = self._known(listing, lines[jump].operands[0], set_to[2])
            if goal and goal != lines[jump].operands[0]:
                new = Line("code", f"jmp {goal}")
                return listing.with_lines([*lines[:jump], new, *lines[jump + 1 :]], self.name)
        return None

    def _known(self, listing: Listing, target: str, register: str) -> str:
        """Return the label that control reaches from a label if a register is not zero, or ""."""
        lines = listing.lines
        if target not in listing.position:
            return ""
        test = next_code(listing, listing.position[target], labels=True)
        match = _TEST.match(lines[test].text) if test is not None else None
        branch = next_code(listing, test) if test is not None else None
        if not match or match[1] != register or branch is None:
            return ""
        goal = lines[branch].operands[-1] if lines[branch].operands else ""
        known = lines[branch].mnemonic in ("jne", "jnz") and goal in listing.position
        return goal if known and not EVERY_FLAG & listing.live[listing.position[goal]] else ""

    def _simplified(self, listing: Listing) -> Listing | None:
        """Return the listing without one test of zero and its branch, or without one dead write."""
        lines = listing.lines
        for n, line in enumerate(lines):
            effects = listing.effects[n]
            if effects is None:
                continue
            match = _TEST.match(line.text)
            branch = next_code(listing, n) if match else None
            if match and branch is not None and lines[branch].mnemonic in ("jne", "jnz"):
                flags = EVERY_FLAG & listing.live[branch + 1]
                if not flags and _zero_before(listing, n, match[1]):
                    return _without(listing, {n, branch}, self.name)
        return _without_dead(listing, self.name)


class Copies:
    """Copy propagation: the source instead of a copy, which is removed once it is dead.

    Condition: neither register is written between copy and use, and there is no jump target between
    them.
    """

    name = "copies propagated"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with all copies propagated."""
        lines = list(listing.lines)
        for n in range(len(lines)):
            current = Listing(tuple(lines), listing.contract, listing.isa)
            copy = _copy(lines[n]) if lines[n].kind == "code" else None
            if copy:
                self._propagate(current, lines, n, *copy)
        result = listing.with_lines(lines, self.name)
        while (changed := _without_dead(result, self.name)) is not None:
            result = changed
        if len(result.lines) < len(listing.lines):
            yield listing.with_lines(result.lines, self.name)

    def _propagate(
        self, listing: Listing, lines: list[Line], at: int, source: str, constant: int, copy: str
    ) -> None:
        """Replace the uses of a copy (source plus a constant) after a statement."""
        both = {whole(source), whole(copy)}
        for n in range(at + 1, len(lines)):
            effects = listing.effects[n]
            if lines[n].kind == "label" and lines[n].text in listing.jumped_to:
                return
            if effects is None:
                continue
            if whole(copy) in effects.reads:
                lines[n] = replace(lines[n], text=_used(lines[n], source, constant, copy))
            if both & effects.writes or effects.flow is not Flow.NEXT:
                return


def _copy(line: Line) -> tuple[str, int, str] | None:
    """Return the source, the constant and the target of a copy: target = source + constant."""
    if line.mnemonic not in ("mov", "movq", "lea", "leaq") or len(line.operands) != 2:
        return None
    source, copy = line.operands
    if not _WIDE.match(copy) or copy == source:
        return None
    if line.mnemonic.startswith("mov"):
        return (source, 0, copy) if _WIDE.match(source) else None
    memory = address(source)
    if memory and _WIDE.match(memory.base) and not memory.indexed and memory.base != copy:
        return memory.base, memory.disp, copy
    return None


def _used(line: Line, source: str, constant: int, copy: str) -> str:
    """Return an instruction that reads a copy's source instead of the copy."""
    operands = list(line.operands)
    for n, operand in enumerate(operands):
        memory = address(operand)
        if memory and memory.base == copy and memory.indexed != copy:
            operands[n] = str(memory._replace(disp=memory.disp + constant, base=source))
        elif operand == copy and not constant and n == 0 and line.mnemonic in ("mov", "movq"):
            operands[n] = source
    return f"{line.mnemonic} {','.join(operands)}"


def _without_dead(listing: Listing, step: str) -> Listing | None:
    """Return a listing without one instruction whose results are dead, None if there is none."""
    for n, line in enumerate(listing.lines):
        effects = listing.effects[n]
        if effects is None or n + 1 == len(listing.lines):
            continue
        dead = effects.writes and not effects.writes & (listing.live[n + 1] | {MEMORY})
        removable = effects.flow is Flow.NEXT and not _gate(line) and not listing.entries_at(n)
        if dead and removable and MEMORY not in effects.reads:
            return _without(listing, {n}, step)
    return None


def _without(listing: Listing, removed: set[int], step: str) -> Listing:
    return listing.with_lines(
        [line for n, line in enumerate(listing.lines) if n not in removed], step
    )


def _zero_before(listing: Listing, at: int, register: str) -> bool:
    """True if a register was zeroed on the only path to a statement."""
    for n in range(at - 1, -1, -1):
        line, effects = listing.lines[n], listing.effects[n]
        if line.kind == "label" and line.text in listing.jumped_to:
            return False
        if effects is None:
            continue
        zero = _ZERO.match(line.text)
        if zero and zero[1] == register:
            return True
        test = listing.effects[at]
        if effects.flow is not Flow.NEXT or (test and effects.writes & test.reads):
            return False
    return False
