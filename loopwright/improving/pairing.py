"""Pairs of loads and stores on AArch64: joining two adjacent accesses, and splitting one."""

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
_REACH = range(-64, 64)  # distance of a pair from its base, in register lengths


class _Access(NamedTuple):
    """A load or store of registers at a base; step is what it adds to the base afterwards."""

    load: bool
    registers: tuple[str, ...]
    base: str
    disp: int
    step: int

    @property
    def size(self) -> int:
        """Return the bytes of each register."""
        return _BYTES[self.registers[0][0]]


def _access(line: Line, pattern: re.Pattern[str]) -> _Access | None:
    found = pattern.fullmatch(" ".join(line.text.split())) if line.kind == "code" else None
    if not found:
        return None
    registers = tuple(found[name] for name in ("one", "two") if name in found.groupdict())
    disp, step = (int(found[name] or "0", 0) for name in ("disp", "step"))
    return _Access(found["kind"].startswith("ld"), registers, found["base"], disp, step)


def _text(one: _Access) -> str:
    kind = ("ld" if one.load else "st") + ("p" if len(one.registers) > 1 else "r")
    place = f"[{one.base}, #{one.disp}]" if one.disp else f"[{one.base}]"
    step = f", #{one.step}" if one.step else ""
    return f"{kind} {', '.join(one.registers)}, {place}{step}"


class PairAccesses:
    """Replace two accesses of adjacent memory by one access of two registers."""

    name = "accesses paired"
    condition = (
        "both are of one kind, size and base and lie side by side; nothing between them comes in, "
        "branches, or uses what the second one uses; neither may fault; loads change no base"
    )

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with all such accesses paired, each with the next of its kind."""
        if listing.isa != "arm64":
            return
        made = listing
        while (paired := self._one(made)) is not None:
            made = paired
        if made is not listing:
            yield listing.with_lines(made.lines, self.name)

    def _one(self, listing: Listing) -> Listing | None:
        for first, line in enumerate(listing.lines):
            mine = _access(line, _SINGLE)
            if mine is None or listing.entries_at(first):
                continue
            for second in self.reached(listing, first):
                other = _access(listing.lines[second], _SINGLE)
                both = _joined(mine, other) if other else None
                if both is not None and not listing.entries_at(second):
                    lines = list(listing.lines)
                    lines[first] = replace(line, text=_text(both))
                    del lines[second]
                    return listing.with_lines(lines, self.name)
        return None

    def reached(self, listing: Listing, first: int) -> Iterator[int]:
        """Yield the later statements that may be done together with an access."""
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


def _joined(one: _Access, two: _Access) -> _Access | None:
    """Return two accesses as one, None where that is impossible."""
    size = one.size
    registers = (*one.registers, *two.registers)
    alike = (one.load, one.base, size) == (two.load, two.base, two.size)
    if not alike or (one.load and len(set(registers)) < len(registers)):
        return None
    if any(full("arm64", r) == one.base for r in registers) and (one.load or one.step):
        return None
    if one.step or two.step:
        ahead = not one.disp and not two.disp and one.step == two.step == size
        return one._replace(registers=registers, step=2 * size) if ahead else None
    if two.disp - one.disp not in (size, -size):
        return None
    disp = min(one.disp, two.disp)
    if disp % size or disp // size not in _REACH:
        return None
    return one._replace(registers=registers if disp == one.disp else registers[::-1], disp=disp)


class SplitPairs:
    """Replace an access of two registers by two accesses."""

    name = "pairs split"
    condition = "neither may fault; a load does not change its base before the second one uses it"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with all such pairs split."""
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
    """Return the two accesses of a pair; the one that changes its base comes last."""
    parts = [
        pair._replace(registers=(register,), disp=pair.disp + n * pair.size, step=0)
        for n, register in enumerate(pair.registers)
    ]
    if pair.load and full("arm64", parts[0].registers[0]) == pair.base:
        parts.reverse()
    moved = [code(f"add {pair.base}, {pair.base}, #{pair.step}")] if pair.step > 0 else []
    moved += [code(f"sub {pair.base}, {pair.base}, #{-pair.step}")] if pair.step < 0 else []
    return [replace(line, text=_text(parts[0])), code(_text(parts[1])), *moved]
