"""Addressing: the registers in the addresses and the counter of a loop."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from loopwright.improving.counted import Counted
from loopwright.improving.edits import (
    EVERY_FLAG,
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
from loopwright.improving.listing import Line, Listing, address, code, label


class PointersForIndex(CountedTransformation):
    """Stepped pointers instead of an index that several bases share.

    Condition: the index is only added to bases that nothing else changes, the loop is entered only
    by falling into its head, and no flags are live at its entry or exit.
    """

    name = "pointers for the index"

    def changed(self, loop: Counted) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""
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
                lines[at:at] = [code(f"{add} {counter.written},{base}") for base in bases]
            if n == counter.at:
                lines += [
                    code(stepped(line, counter, 1).replace(counter.written, b)) for b in bases
                ]
            if n in loop.body:
                operands = [_without_index(o, index) for o in line.operands]
                line = replace(line, text=f"{line.mnemonic} {','.join(operands)}")
            lines.append(line)
        sub = f"sub{counter.suffix} {counter.written},"
        back = [code(f"{sub}{base}") for base in bases]
        return _with_fixups(loop, loop.body, lines, "bases", back, self.name)


class FuseUpdate(CountedTransformation):
    """The flag-setting update moved next to the loop's branch, so that the two macro-fuse.

    Condition: the instructions that the update moves past use the register in addresses only, and
    neither read nor write flags. Fixups get a repair of the register first.
    """

    name = "update beside its branch"

    def changed(self, loop: Counted) -> Listing | None:
        """Return the listing with a loop changed, None if the condition does not hold."""
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
    """Return the listing of lines with repair code before the fixups of some accesses.

    Each fixup gets an out-of-line label, at which the registers are restored to the values that the
    fixup expects. None if a fixup needs flags, which the repair changes.
    """
    listing = loop.listing
    entries = [entry for n in accesses for entry in listing.entries_at(n)]
    texts = {entry.text for entry in entries}
    fixups = dict.fromkeys(entry.target for entry in entries)
    if any(EVERY_FLAG & listing.live[listing.position[fixup]] for fixup in fixups):
        return None
    names = {old: listing.fresh(f"{stem}_for_{old.removeprefix('.L')}") for old in fixups}
    redirected = [
        replace(line, target=names[line.target])
        if line.kind == "entry" and line.text in texts
        else line
        for line in lines
    ]
    changed = listing.with_lines(redirected, step)
    branch = next(n for n, line in enumerate(redirected) if line is listing.lines[loop.last])
    out_of_line = after_transfer(changed, branch, len(redirected))
    repairs = [
        line for old, new in names.items() for line in (label(new), *repair, code(f"jmp {old}"))
    ]
    return replace(changed, lines=(*redirected[:out_of_line], *repairs, *redirected[out_of_line:]))


def _indexed(loop: Counted, index: str) -> list[str]:
    """Return the bases that an index is added to, [] where the index has another use."""
    bases: list[str] = []
    for at in loop.body:
        line = loop.listing.lines[at]
        for operand in line.operands:
            place = address(operand)
            if place and place.base and whole(place.indexed) == index and place.scale == 1:
                bases += [place.base] if place.base not in bases else []
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
