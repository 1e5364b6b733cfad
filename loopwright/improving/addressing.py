"""Addressing: the registers that a loop's accesses and its counter use."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopwright.improving.counted import Counted, counted_loops
from loopwright.improving.edits import (
    EVERY_FLAG,
    before_directives,
    behind_transfer,
    entered,
    implicit,
    shifted,
    stepped,
    whole,
)
from loopwright.improving.listing import Line, Listing, address, code, label


class PointersForIndex:
    """Pointers that are stepped, in the place of an index that several bases share."""

    name = "pointers for the index"
    condition = (
        "the index is added to bases alone that nothing else changes, the loop is entered at its "
        "head by falling into it, and flags pass neither its entry nor its exit"
    )

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with each loop changed that can be."""
        for loop in counted_loops(listing):
            if made := self._changed(loop):
                yield made

    def _changed(self, loop: Counted) -> Listing | None:
        listing, counter = loop.listing, loop.counter
        index = counter.register
        bases = _indexed(loop, index)
        leaves_zero = loop.form in ("index", "zero")
        if not bases or not leaves_zero or entered(loop):
            return None
        if EVERY_FLAG & (listing.live[loop.first] | listing.live[counter.at]):
            return None
        lines: list[Line] = []
        stubs: dict[str, tuple[str, list[Line]]] = {}
        add = f"add{counter.suffix}"
        for n, line in enumerate(listing.lines):
            if n == listing.position[loop.head]:
                at = before_directives(lines)
                lines[at:at] = [code(f"{add} {counter.written},{base}") for base in bases]
            if n == counter.at:
                lines += [
                    code(stepped(line, counter, 1).replace(counter.written, b)) for b in bases
                ]
            if n in loop.body:
                operands = [_without_index(o, index) for o in line.operands]
                line = replace(line, text=f"{line.mnemonic} {','.join(operands)}")
            lines.append(line)
        by_text = {e.text for n in loop.body for e in listing.entries_at(n)}
        for n, line in enumerate(lines):
            if line.kind == "entry" and line.text in by_text:
                if EVERY_FLAG & listing.live[listing.position[line.target]]:
                    return None
                lines[n] = replace(
                    line, target=self._stub(listing, line.target, loop, bases, stubs)
                )
        apart = [one for _, stub in stubs.values() for one in stub]
        made = listing.with_lines(lines, self.name)
        branch = next(n for n, x in enumerate(lines) if x is listing.lines[loop.last])
        quiet = behind_transfer(made, branch, len(lines))
        return replace(made, lines=(*lines[:quiet], *apart, *lines[quiet:]))

    def _stub(
        self,
        listing: Listing,
        fixup: str,
        loop: Counted,
        bases: Sequence[str],
        stubs: dict[str, tuple[str, list[Line]]],
    ) -> str:
        """Return the label where bases become what the fixup takes them for."""
        if fixup not in stubs:
            name = listing.fresh(f"bases_for_{fixup.removeprefix('.L')}")
            sub = f"sub{loop.counter.suffix} {loop.counter.written},"
            back = [code(f"{sub}{base}") for base in bases]
            stubs[fixup] = name, [label(name), *back, code(f"jmp {fixup}")]
        return stubs[fixup][0]


class FuseUpdate:
    """The update that sets the flags of a loop's branch, moved beside it, where they fuse."""

    name = "update beside its branch"
    condition = (
        "what it moves past uses the register in addresses alone and neither reads nor writes "
        "flags; where a fault there went on, the register is made what it would have been"
    )

    def apply(self, listing: Listing) -> Iterator[Listing]:
        """Yield the listing with each loop so changed that can be."""
        for loop in counted_loops(listing):
            if made := self._changed(loop):
                yield made

    def _changed(self, loop: Counted) -> Listing | None:
        listing, counter = loop.listing, loop.counter
        passed = [n for n in loop.body if n > counter.at]
        if loop.test != counter.at or not passed or EVERY_FLAG & listing.live[counter.at]:
            return None
        if any(n > counter.at for u in loop.updates.values() for n in [u.at] if u is not counter):
            return None
        texts: dict[int, str] = {}
        for n in passed:
            text = shifted(loop, n, {counter.register: counter.step})
            if text is None or EVERY_FLAG & loop.touched(n):
                return None
            texts[n] = text
        stubs: dict[str, tuple[str, list[Line]]] = {}
        moved = {
            e.text: self._stub(loop, e.target, stubs) for n in passed for e in listing.entries_at(n)
        }
        if any(EVERY_FLAG & listing.live[listing.position[fixup]] for fixup in stubs):
            return None
        lines: list[Line] = []
        for n, line in enumerate(listing.lines):
            if n == loop.last:
                lines.append(listing.lines[counter.at])
            if n == counter.at:
                continue
            if line.kind == "entry" and line.text in moved:
                line = replace(line, target=moved[line.text])
            lines.append(replace(line, text=texts[n]) if n in texts else line)
        made = listing.with_lines(lines, self.name)
        quiet = behind_transfer(made, loop.last + 1, len(lines))
        apart = [one for _, stub in stubs.values() for one in stub]
        return replace(made, lines=(*lines[:quiet], *apart, *lines[quiet:]))

    def _stub(self, loop: Counted, fixup: str, stubs: dict[str, tuple[str, list[Line]]]) -> str:
        """Return the label where the update is made up for before a fixup."""
        if fixup not in stubs:
            listing = loop.listing
            name = listing.fresh(f"updated_for_{fixup.removeprefix('.L')}")
            update = listing.lines[loop.counter.at]
            stubs[fixup] = name, [label(name), update, code(f"jmp {fixup}")]
        return stubs[fixup][0]


def _indexed(loop: Counted, index: str) -> list[str]:
    """Return the bases that an index is added to, none where it serves for more than that."""
    bases: list[str] = []
    for at in loop.body:
        line = loop.listing.lines[at]
        for operand in line.operands:
            place = address(operand)
            if place and place.base and whole(place.indexed) == index and place.scale == 1:
                bases += [place.base] if place.base not in bases else []
            elif index in {whole(r) for r in re.findall(r"%\w+", operand)}:
                return []
        if index in implicit(loop, at):
            return []
    changed = loop.written() | loop.updates.keys()
    if any(whole(base) in changed for base in bases):
        return []
    for at in loop.body:  # a base without the index would need its old value
        for operand in loop.listing.lines[at].operands:
            place = address(operand)
            used = {whole(r) for r in re.findall(r"%\w+", operand)}
            if used & {whole(b) for b in bases} and not (place and place.indexed):
                return []
    return bases


def _without_index(operand: str, index: str) -> str:
    place = address(operand)
    if place and whole(place.indexed) == index:
        return str(place._replace(indexed=""))
    return operand
