"""Pairs of loads and stores on AArch64: two adjacent accesses as one ldp or stp, and back."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from loopwright.code.instructions import Flow
from loopwright.improving.listing import Line, Listing, code, full

_SINGLE = re.compile(
    r"(?P<kind>ldu?r|stu?r) (?P<one>[wxq]\d+|[wx]zr), \[(?P<base>x\d+|sp)(?:, #(?P<disp>-?\w+))?\]"
    r"(?:, #(?P<step>-?\w+))?"
)
_DOUBLE = re.compile(
    r"(?P<kind>ldp|stp) (?P<one>[wxq]\d+|[wx]zr), (?P<two>[wxq]\d+|[wx]zr), "
    r"\[(?P<base>x\d+|sp)(?:, #(?P<disp>-?\w+))?\](?:, #(?P<step>-?\w+))?"
)
_BYTES = {"w": 4, "x": 8, "q": 16}
_REACH = range(-64, 64)  # displacements of a pair, in units of its register size


class _Access(NamedTuple):
    """A load or store at a base register; step is the amount added to the base afterwards."""

    load: bool
    registers: tuple[str, ...]
    base: str
    disp: int
    step: int

    @property
    def size(self) -> int:
        """The size of each register in bytes."""
        return _BYTES[self.registers[0][0]]


def _access(line: Line, pattern: re.Pattern[str]) -> _Access | None:
    match = pattern.fullmatch(" ".join(line.text.split())) if line.kind == "code" else None
    if not match:
        return None
    registers = tuple(match[name] for name in ("one", "two") if name in match.groupdict())
    disp, step = (int(match[name] or "0", 0) for name in ("disp", "step"))
    return _Access(match["kind"].startswith("ld"), registers, match["base"], disp, step)


def _text(access: _Access) -> str:
    kind = ("ld" if access.load else "st") + ("p" if len(access.registers) > 1 else "r")
    operand = f"[{access.base}, #{access.disp}]" if access.disp else f"[{access.base}]"
    step = f", #{access.step}" if access.step else ""
    return f"{kind} {', '.join(access.registers)}, {operand}{step}"


class PairAccesses:
    """One access of two registers instead of two accesses of adjacent memory.

    Condition: both have the same kind, size and base and are adjacent in memory. Between them there
    is no jump, no jump target, and no use of the second one's registers or memory. Neither may
    fault, and loads do not change the base.
    """

    name = "accesses paired"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with all adjacent accesses paired, each with the next of its kind."""
        if listing.isa != "arm64":
            return
        changed = listing
        while (paired := self._first_paired(changed)) is not None:
            changed = paired
        if changed is not listing:
            yield listing.with_lines(changed.lines, self.name)

    def _first_paired(self, listing: Listing) -> Listing | None:
        for first, line in enumerate(listing.lines):
            access = _access(line, _SINGLE)
            if access is None or listing.entries_at(first):
                continue
            for second in self.reached(listing, first):
                other = _access(listing.lines[second], _SINGLE)
                pair = _joined(access, other) if other else None
                if pair is not None and not listing.entries_at(second):
                    lines = list(listing.lines)
                    lines[first] = replace(line, text=_text(pair))
                    del lines[second]
                    return listing.with_lines(lines, self.name)
        return None

    def reached(self, listing: Listing, first: int) -> Iterator[int]:
        """Yield the statements after an access that can move up to it."""
        reads: frozenset[str] = frozenset()
        writes: frozenset[str] = frozenset()
        for n in range(first + 1, len(listing.lines)):
            effects = listing.effects[n]
            if listing.lines[n].kind == "label" and listing.lines[n].text in listing.jumped_to:
                return
            if effects is None:
                continue
            if effects.flow is not Flow.NEXT:
                return
            if not (effects.writes & (reads | writes) or effects.reads & writes):
                yield n
            reads |= effects.reads
            writes |= effects.writes


def _joined(first: _Access, second: _Access) -> _Access | None:
    """Return two accesses as one pair, None if they do not fit."""
    size = first.size
    registers = (*first.registers, *second.registers)
    alike = (first.load, first.base, size) == (second.load, second.base, second.size)
    if not alike or (first.load and len(set(registers)) < len(registers)):
        return None
    if any(full("arm64", r) == first.base for r in registers) and (first.load or first.step):
        return None
    if first.step or second.step:
        post_indexed = not first.disp and not second.disp and first.step == second.step == size
        return first._replace(registers=registers, step=2 * size) if post_indexed else None
    if second.disp - first.disp not in (size, -size):
        return None
    disp = min(first.disp, second.disp)
    if disp % size or disp // size not in _REACH:
        return None
    return first._replace(registers=registers if disp == first.disp else registers[::-1], disp=disp)


class SplitPairs:
    """Two accesses instead of one of two registers.

    Condition: neither may fault, and a load does not change its base before the second one uses it.
    """

    name = "pairs split"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with all pairs split."""
        if listing.isa != "arm64":
            return
        lines: list[Line] = []
        for n, line in enumerate(listing.lines):
            pair = _access(line, _DOUBLE)
            if pair is None or listing.entries_at(n):
                lines.append(line)
            else:
                lines += split(line, pair)
        if len(lines) > len(listing.lines):
            yield listing.with_lines(lines, self.name)


def split(line: Line, pair: _Access) -> list[Line]:
    """Return the two accesses of a pair, the one that overwrites its base last."""
    parts = [
        pair._replace(registers=(register,), disp=pair.disp + n * pair.size, step=0)
        for n, register in enumerate(pair.registers)
    ]
    if pair.load and full("arm64", parts[0].registers[0]) == pair.base:
        parts.reverse()
    update = [code(f"add {pair.base}, {pair.base}, #{pair.step}")] if pair.step > 0 else []
    update += [code(f"sub {pair.base}, {pair.base}, #{-pair.step}")] if pair.step < 0 else []
    return [replace(line, text=_text(parts[0])), code(_text(parts[1])), *update]
