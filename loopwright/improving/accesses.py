"""Accesses of a loop: their addresses and its counter, and pairs of them as ldp or stp."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from loopwright.code.instructions import Flow
from loopwright.improving.listing import Line, Listing, address, code, full, label
from loopwright.improving.transformable_loops import (
    EVERY_FLAG,
    Counted,
    CountedTransformation,
    after_transfer,
    before_directives,
    entered,
    implicit,
    named,
    shifted,
    stepped,
    whole,
)


class PointersForIndex(CountedTransformation):
    """Stepped pointers instead of an index that several bases share.

    Condition: the index is only added to bases that nothing else changes, the loop is entered only
    by falling into its head, and no flags are live at its entry or exit.
    """

    name = "pointers for the index"

    def changed(self, loop: Counted) -> Listing | None:
        listing, counter = loop.listing, loop.counter
        index = counter.register
        bases = _indexed(loop, index)
        leaves_zero = loop.form in ("index", "zero")
        if not bases or not leaves_zero or entered(loop):
            return None
        if EVERY_FLAG & (listing.live[loop.first] | listing.live[counter.at]):
            return None
        lines: list[Line] = []
        add = f"add{counter.suffix}"
        for n, line in enumerate(listing.lines):
            if n == listing.position[loop.head]:
                at = before_directives(lines)
                lines[at:at] = [code(f"{add} {counter.operand},{base}") for base in bases]
            if n == counter.at:
                lines += [
                    code(stepped(line, counter, 1).replace(counter.operand, b)) for b in bases
                ]
            if n in loop.body:
                operands = [_without_index(o, index) for o in line.operands]
                line = replace(line, text=f"{line.mnemonic} {','.join(operands)}")
            lines.append(line)
        sub = f"sub{counter.suffix} {counter.operand},"
        back = [code(f"{sub}{base}") for base in bases]
        return _with_fixups(loop, loop.body, lines, "bases", back, self.name)


class FuseUpdate(CountedTransformation):
    """The flag-setting update moved next to the loop's branch, so that the two macro-fuse.

    Condition: the instructions that the update moves past use the register in addresses only, and
    neither read nor write flags. Fixups get a repair of the register first.
    """

    name = "update beside its branch"

    def changed(self, loop: Counted) -> Listing | None:
        listing, counter = loop.listing, loop.counter
        passed = [n for n in loop.body if n > counter.at]
        if loop.test != counter.at or not passed or EVERY_FLAG & listing.live[counter.at]:
            return None
        if any(u.at > counter.at for u in loop.updates.values()):
            return None
        texts: dict[int, str] = {}
        for n in passed:
            text = shifted(loop, n, {counter.register: counter.step})
            if text is None or EVERY_FLAG & loop.touched(n):
                return None
            texts[n] = text
        lines: list[Line] = []
        for n, line in enumerate(listing.lines):
            if n == loop.last:
                lines.append(listing.lines[counter.at])
            if n == counter.at:
                continue
            lines.append(replace(line, text=texts[n]) if n in texts else line)
        update = listing.lines[counter.at]
        return _with_fixups(loop, passed, lines, "updated", [update], self.name)


def _with_fixups(
    loop: Counted,
    accesses: Iterable[int],
    lines: Sequence[Line],
    stem: str,
    repair: Sequence[Line],
    step: str,
) -> Listing | None:
    """Return a listing of changed lines, with repair code before the fixups of some accesses.

    Each fixup gets an out-of-line label, at which the registers are restored to the values that the
    fixup expects; stem begins its name. None if a fixup needs flags, which the repair changes.
    """
    listing = loop.listing
    entries = [entry for n in accesses for entry in listing.entries_at(n)]
    texts = {entry.text for entry in entries}
    fixups = dict.fromkeys(entry.target for entry in entries)
    if any(EVERY_FLAG & listing.live[listing.position[fixup]] for fixup in fixups):
        return None
    repaired = {old: listing.fresh(f"{stem}_for_{old.removeprefix('.L')}") for old in fixups}
    redirected = [
        replace(line, target=repaired[line.target])
        if line.kind == "entry" and line.text in texts
        else line
        for line in lines
    ]
    changed = listing.with_lines(redirected, step)
    branch = next(n for n, line in enumerate(redirected) if line is listing.lines[loop.last])
    out_of_line = after_transfer(changed, branch, len(redirected))
    repairs = [
        line for old, new in repaired.items() for line in (label(new), *repair, code(f"jmp {old}"))
    ]
    return replace(changed, lines=(*redirected[:out_of_line], *repairs, *redirected[out_of_line:]))


def _indexed(loop: Counted, index: str) -> list[str]:
    """Return the bases that an index is added to; [] where pointers cannot replace it."""
    bases: list[str] = []
    for at in loop.body:
        line = loop.listing.lines[at]
        for operand in line.operands:
            place = address(operand)
            if place and place.base and whole(place.indexed) == index and place.scale == 1:
                if place.base not in bases:
                    bases.append(place.base)
            elif index in named(operand):
                return []
        if index in implicit(loop.listing, at):
            return []
    changed = loop.written() | loop.updates.keys()
    if any(whole(base) in changed for base in bases):
        return []
    for at in loop.body:  # an address without the index would need the old base
        for operand in loop.listing.lines[at].operands:
            place = address(operand)
            used = {whole(b) for b in bases}.intersection(named(operand))
            if used and not (place and place.indexed):
                return []
    return bases


def _without_index(operand: str, index: str) -> str:
    place = address(operand)
    if place and whole(place.indexed) == index:
        return str(place._replace(indexed=""))
    return operand


_SINGLE_ACCESS = re.compile(
    r"(?P<kind>ldu?r|stu?r) (?P<first>[wxq]\d+|[wx]zr), "
    r"\[(?P<base>x\d+|sp)(?:, #(?P<disp>-?\w+))?\](?:, #(?P<step>-?\w+))?"
)
_PAIR_ACCESS = re.compile(
    r"(?P<kind>ldp|stp) (?P<first>[wxq]\d+|[wx]zr), (?P<second>[wxq]\d+|[wx]zr), "
    r"\[(?P<base>x\d+|sp)(?:, #(?P<disp>-?\w+))?\](?:, #(?P<step>-?\w+))?"
)
_BYTES = {"w": 4, "x": 8, "q": 16}
_PAIR_DISPLACEMENTS = range(-64, 64)  # displacements of a pair, in units of its register size


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


def _parsed(line: Line, pattern: re.Pattern[str]) -> _Access | None:
    match = pattern.fullmatch(" ".join(line.text.split())) if line.kind == "code" else None
    if not match:
        return None
    registers = tuple(match[name] for name in ("first", "second") if name in match.groupdict())
    disp, step = (int(match[name] or "0", 0) for name in ("disp", "step"))
    return _Access(match["kind"].startswith("ld"), registers, match["base"], disp, step)


def _rendered(access: _Access) -> str:
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
        if listing.isa != "arm64":
            return
        changed = listing
        while (paired := self._first_paired(changed)) is not None:
            changed = paired
        if changed is not listing:
            yield listing.with_lines(changed.lines, self.name)

    def _first_paired(self, listing: Listing) -> Listing | None:
        for first, line in enumerate(listing.lines):
            access = _parsed(line, _SINGLE_ACCESS)
            if access is None or listing.entries_at(first):
                continue
            for second in self.movable(listing, first):
                other = _parsed(listing.lines[second], _SINGLE_ACCESS)
                pair = _joined(access, other) if other else None
                if pair is not None and not listing.entries_at(second):
                    lines = list(listing.lines)
                    lines[first] = replace(line, text=_rendered(pair))
                    del lines[second]
                    return listing.with_lines(lines, self.name)
        return None

    def movable(self, listing: Listing, first: int) -> Iterator[int]:
        """Yield the positions after an access from which a statement can move up to it."""
        reads: frozenset[str] = frozenset()
        writes: frozenset[str] = frozenset()
        for n in range(first + 1, len(listing.lines)):
            effects = listing.effects[n]
            if listing.is_target(n) or effects.flow is not Flow.NEXT:
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
    if disp % size or disp // size not in _PAIR_DISPLACEMENTS:
        return None
    return first._replace(registers=registers if disp == first.disp else registers[::-1], disp=disp)


class SplitPairs:
    """Two accesses instead of one of two registers.

    Condition: neither may fault, and a load does not change its base before the second one uses it.
    """

    name = "pairs split"

    def apply(self, listing: Listing) -> Iterator[Listing]:
        if listing.isa != "arm64":
            return
        lines: list[Line] = []
        for n, line in enumerate(listing.lines):
            pair = _parsed(line, _PAIR_ACCESS)
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
    return [replace(line, text=_rendered(parts[0])), code(_rendered(parts[1])), *update]
