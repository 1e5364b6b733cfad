"""Two-operand, destructive forms of an operation, and three-operand forms."""

import re

from loopwright.improving.counted import immediate, update_of
from loopwright.improving.edits import EVERY_FLAG, whole
from loopwright.improving.listing import LETTERS, Address, Line, Listing, address, part, size_of
from loopwright.improving.rewriting import Change, Rewrite, known, reader

_COPY = re.compile(r"mov[lq]?|vmov(aps|apd|dqa|ups|upd|dqu)")
_THREE = re.compile(r"v(?!mov)\w+|(andn|bextr|bzhi|pdep|pext|rorx|s[ah][lr]x)[lq]?")
_SHIFT = re.compile(r"(shl|sal|shr|sar)([lq]?)")
_ROTATION = re.compile(r"(ror|rol)([lq]?)")
_BMI1, _BMI2 = "bmi1", "bmi2"


def _flags_die(listing: Listing, at: int) -> bool:
    """True if the flags that an instruction sets are dead."""
    effects = listing.effects[at]
    return effects is not None and not EVERY_FLAG & effects.writes & listing.live[at + 1]


class ThreeOperands(Rewrite):
    """A three-operand operation instead of a copy and an operation that overwrites the copy.

    Condition: the operation writes all of the copy, and nothing in between changes the original.
    For lea, shlx and rorx the flags of the operation are dead; shlx and rorx need BMI2 on every
    core.
    """

    name = "copies within operations"

    def change(self, listing: Listing, at: int) -> Change | None:
        """Return no instruction for the copy, and the operation on the original."""
        line = listing.lines[at]
        source, copy = line.operands if len(line.operands) == 2 else ("", "")
        size = size_of(copy)
        if not _COPY.fullmatch(line.mnemonic) or size < 4 or size_of(source) != size:
            return None
        n = reader(listing, at)
        if n is None or {"rsp", whole(copy)} & {whole(source)} or whole(copy) == "rsp":
            return None
        operation = listing.lines[n]
        if not operation.operands or operation.operands[-1] != copy:
            return None
        new = self._three(operation, source, copy)
        if not new and _flags_die(listing, n) and size <= 8:
            new = self._sum(operation, source, copy)
            if not new and _BMI2 in listing.features:
                new = _shifted(operation, source, copy)
        effects = known(new) if new else None
        if effects is None or whole(copy) not in effects.writes - effects.reads:
            return None
        return {at: [], n: [new]}

    def _three(self, line: Line, source: str, copy: str) -> str:
        """Return a three-operand operation with the original instead of its copy, "" if none."""
        *operands, target = line.operands
        if not _THREE.fullmatch(line.mnemonic):
            return ""
        exact = [source if operand == copy else operand for operand in operands]
        return "" if exact == operands else f"{line.mnemonic} {','.join([*exact, target])}"

    def _sum(self, line: Line, source: str, copy: str) -> str:
        """Return a lea that computes an addition or a left shift by up to three, "" if none."""
        base, size = part(whole(source), 8), size_of(copy)
        update, shift = update_of(line, 0), _SHIFT.fullmatch(line.mnemonic)
        place = None
        if update and not line.mnemonic.startswith("lea"):
            place = Address(update.step, base)
        elif re.fullmatch(r"add[lq]?", line.mnemonic) and size_of(line.operands[0]) == size:
            other = line.operands[0]
            index = base if other == copy else part(whole(other), 8)
            place = Address(0, index, base) if index == "%rsp" else Address(0, base, index)
        elif shift and shift[1] in ("shl", "sal"):
            count = immediate(line.operands[0]) if len(line.operands) == 2 else 1
            if count in (1, 2, 3):
                place = Address(0, "", base, 1 << count) if count > 1 else Address(0, base, base)
        return f"lea{LETTERS[size]} {place},{copy}" if place else ""


def _shifted(line: Line, source: str, target: str) -> str:
    """Return the BMI2 form of a two-operand shift or rotation, "" for another operation."""
    size = size_of(target)
    count, shift = line.operands[0], _SHIFT.fullmatch(line.mnemonic)
    if shift and count == "%cl" and len(line.operands) == 2:
        kind = shift[1].replace("sal", "shl")
        return f"{kind}x{LETTERS[size]} {part('rcx', size)},{source},{target}"
    rotation, count_ = _ROTATION.fullmatch(line.mnemonic), immediate(count)
    if rotation and count_ is not None and len(line.operands) == 2:
        right = count_ if rotation[1] == "ror" else -count_
        return f"rorx{LETTERS[size]} ${right % (8 * size)},{source},{target}"
    return ""


class NewerForms(Rewrite):
    """Shifts by a register as shlx, sarx or shrx; a not and an and as andn.

    Condition: every core has BMI1 or BMI2, the flags of the instructions are dead, and nothing
    between not and and uses the register.
    """

    name = "shifts and complements of BMI"

    def change(self, listing: Listing, at: int) -> Change | None:
        """Return a three-operand shift, or one instruction for two."""
        line = listing.lines[at]
        target = line.operands[-1] if line.operands else ""
        if listing.contract is not None or size_of(target) not in (4, 8):
            return None
        if _SHIFT.fullmatch(line.mnemonic) and _BMI2 in listing.features:
            new = _shifted(line, target, target)
            return {at: [new]} if new and _flags_die(listing, at) else None
        if not re.fullmatch(r"not[lq]?", line.mnemonic) or _BMI1 not in listing.features:
            return None
        n = reader(listing, at)
        if n is None or not re.fullmatch(r"and[lq]?", listing.lines[n].mnemonic):
            return None
        other, result = listing.lines[n].operands
        if result != target or size_of(other) != size_of(target) or other == target:
            return None
        new = f"andn{LETTERS[size_of(target)]} {other},{target},{target}"
        return {at: [], n: [new]} if _flags_die(listing, n) else None


class TwoOperands(Rewrite):
    """Additions instead of lea, as three-part addresses are slow on some cores.

    Condition: no flags are live after the lea.
    """

    name = "lea as additions"

    def change(self, listing: Listing, at: int) -> Change | None:
        """Return additions, with a move or the rest of the lea before them."""
        line = listing.lines[at]
        if not re.fullmatch(r"lea[lq]?", line.mnemonic) or EVERY_FLAG & listing.live[at + 1]:
            return None
        place, target = address(line.operands[0]), line.operands[1]
        size = size_of(target)
        if place is None or size not in (4, 8) or not place.base:
            return None
        letter, base_ = LETTERS[size], part(whole(target), 8)
        more = [f"add{letter} ${place.disp},{target}"] if place.disp else []
        if not place.indexed:
            base = part(whole(place.base), size)
            move = [] if place.base == base_ else [f"mov{letter} {base},{target}"]
            return {at: [*move, *more]} if more else None
        if more:
            return {at: [f"{line.mnemonic} {place._replace(disp=0)},{target}", *more]}
        registers = [place.base, place.indexed]
        if place.scale > 1 or base_ not in registers:
            return None
        registers.remove(base_)
        return {at: [f"add{letter} {part(whole(registers[0]), size)},{target}"]}
