"""Rewrites of single instructions: false dependencies, registers, operands and forms."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from loopwright.code.instructions import Flow
from loopwright.errors import InputError
from loopwright.improving.listing import (
    GENERAL,
    LETTERS,
    MEMORY,
    Address,
    Effects,
    Line,
    Listing,
    address,
    code,
    effects_of,
    live_at_return,
    part,
    size_of,
)
from loopwright.improving.transformable_loops import (
    EVERY_FLAG,
    half,
    immediate,
    implicit,
    named,
    next_code,
    single_path_loops,
    update_of,
    whole,
)

_VECTORS = frozenset(f"zmm{n}" for n in range(16))
_MOST_SINGLE = 4  # listings with one site changed, at most; unrolled loops have many alike sites
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
        combined = [all_changed] if len(single) > 1 else []
        for changed in [*combined, *single[: -_MOST_SINGLE - 1 : -1]]:
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
        labels: list[Line] = []
        while lines and lines[-1].kind == "label" and lines[-1].text in listing.fixups:
            labels.insert(0, lines.pop())
        access = next((k for k, text in enumerate(change[n]) if "(" in text), 0)
        new = [code(text, "" if k else line.note) for k, text in enumerate(change[n])]
        lines += [*new[:access], *labels, *new[access:]]
    return listing.with_lines(lines, "")


def effects_if_valid(text: str) -> Effects | None:
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
    used = (effects.reads | effects.writes for effects in listing.effects)
    free = pool.difference(*used, *listing.leaving.values())
    return min(free, key=lambda r: (len(r), r), default=None)


def straight(listing: Listing, at: int) -> Iterator[int]:
    """Yield the instructions after a statement up to the next branch or jump target."""
    for n in range(at + 1, len(listing.lines)):
        if listing.is_target(n):
            return
        if listing.lines[n].kind == "code":
            yield n
        if listing.effects[n].flow is not Flow.NEXT:
            return


def reader(listing: Listing, at: int) -> int | None:
    """Return the first instruction that reads a result, if the computation can move down to it.

    None if control may leave before, or where an instruction in between uses the result or
    changes its sources.
    """
    own = listing.effects[at]
    if listing.entries_at(at):
        return None
    for n in straight(listing, at):
        effects = listing.effects[n]
        if effects.flow is not Flow.NEXT or not fixups_spare(listing, n, own.writes):
            return None
        if own.writes & effects.reads:
            return n
        if own.writes & effects.writes or effects.writes & own.reads:
            return None
    return None


# Counts of bits, operations that write the lowest element of a vector register, and moves of it.
_BIT_COUNTS = re.compile(r"(popcnt|lzcnt|tzcnt)[lq]?")
_LOWEST_ELEMENT = re.compile(r"(cvt(si|sd|ss)2s[sd][lq]?|sqrts[sd]|rcpss|rsqrtss|rounds[sd])")
_MERGING_MOVES = re.compile(r"movs[sd]")


class BreakDependencies(Rewrite):
    """Zeroing or full-width writes that break the dependency on a register's old value.

    Condition: the register is no source, and its old value apart from the result is not read, by
    code or a fixup, before all of it is written. Flags that a zeroing overwrites are not needed by
    a fixup.
    """

    name = "false dependencies broken"

    def change(self, listing: Listing, at: int) -> Change | None:
        line = listing.lines[at]
        *sources, target = line.operands or ("",)
        register, size = whole(target) if size_of(target) else "", size_of(target)
        if not register or register in named(",".join(sources)):
            return None
        if not fixups_spare(listing, at, {register, *EVERY_FLAG}):
            return None
        replacement = self._independent(listing, at, register, size)
        above = [line.text for line in listing.lines[max(0, at - 3) : at]]
        return {at: replacement} if replacement and replacement[0] not in above else None

    def _independent(self, listing: Listing, at: int, register: str, size: int) -> list[str] | None:
        line, mnemonic = listing.lines[at], listing.lines[at].mnemonic
        *sources, target = line.operands
        if _BIT_COUNTS.fullmatch(mnemonic) and size > 2:
            zero = half(register)
            return [f"xorl {zero},{zero}", line.text]  # the count overwrites the flags as well
        if _LOWEST_ELEMENT.fullmatch(mnemonic):
            written_size = 4 if mnemonic.rstrip("lq").endswith("s") else 8
            if unread_above(listing, at, register, written_size):
                return [f"xorps {target},{target}", line.text]
        written_size = 4 if mnemonic == "movss" else 8
        merging_move = _MERGING_MOVES.fullmatch(mnemonic) and size_of(sources[0]) == 16
        if merging_move and unread_above(listing, at, register, written_size):
            return [f"movaps {sources[0]},{target}"]
        if size > 2 or target != part(register, size):
            return None  # not a part of a register, or its second byte
        if not unread_above(listing, at, register, size):
            return None
        if mnemonic.startswith("set"):
            return [f"movl $0,{half(register)}", line.text]
        if mnemonic in ("mov", f"mov{LETTERS[size]}"):
            [source] = sources
            if not source.startswith("$"):
                return [f"movz{LETTERS[size]}l {source},{half(register)}"]
            if (value := immediate(source)) is not None:
                return [f"movl ${value & (1 << 8 * size) - 1},{half(register)}"]
        return None


class Rename(Rewrite):
    """Another register for one result and all its readers.

    Condition: all readers follow the result without a branch or label between, name the register,
    and no fixup there needs it. The other register is unused, or the source of the result and dead
    afterwards.
    """

    name = "registers renamed"

    def change(self, listing: Listing, at: int) -> Change | None:
        line, effects = listing.lines[at], listing.effects[at]
        target = line.operands[-1] if line.operands else ""
        register = whole(target) if size_of(target) > 2 else ""
        if register not in effects.writes - effects.reads - {"rsp"}:
            return None
        bit_count = _BIT_COUNTS.fullmatch(line.mnemonic)
        other_effects = (e for n, e in enumerate(listing.effects) if n != at)
        if not bit_count and not any(register in e.writes - e.reads for e in other_effects):
            return None
        uses = self.uses(listing, at, register)
        if uses is None:
            return None
        replacement = free_register(listing, vector=register.startswith("zmm"))
        source = whole(line.operands[0]) if bit_count else ""
        if source in GENERAL["x86_64"] and self.unused(listing, (at, *uses), source):
            replacement = source
        if replacement is None or replacement == register:
            return None
        change = {}
        for n in (at, *uses):
            operands = list(listing.lines[n].operands)
            for k, operand in enumerate(operands):
                if n > at or k == len(operands) - 1:
                    operands[k] = renamed(operand, register, replacement)
            change[n] = [f"{listing.lines[n].mnemonic} {','.join(operands)}"]
        return change

    def uses(self, listing: Listing, at: int, register: str) -> list[int] | None:
        """Return the readers of a result, None if one is out of reach or cannot be changed."""
        readers: list[int] = []
        for n in straight(listing, at):
            effects = listing.effects[n]
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
        if any(source in e.reads | e.writes for e in between):
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


_SIZES = {letter: size for size, letter in LETTERS.items()}
_LOADS = {1: "movzbl", 2: "movzwl", 4: "movl", 8: "movq"}
_OPERATION = re.compile(r"(add|sub|and|or|xor|adc|sbb|imul|cmp|test)([bwlq]?)")
_UPDATE = re.compile(r"(add|sub|and|or|xor|inc|dec|neg|not)([bwlq]?)")
_ONLY_FLAGS = ("cmp", "test")
# A memory operand of an SSE operation has to be aligned like its load; VEX has no such demand.
_VECTOR_LOAD = re.compile(r"mov(aps|apd|dqa|ss|sd)|vmov(ups|upd|dqu|ss|sd)")
_VECTOR_OPERATION = re.compile(
    r"v?(add|sub|mul|div|min|max|sqrt)[ps][sd]|v?(and|or|xor)p[sd]|vf[mn]\w+[ps][sd]"
    r"|v?p(add|sub|mul|min|max|cmp(eq|gt)|avg|sad)\w+|v?p(and|or|xor)"
)


class _Load(NamedTuple):
    """A plain load: the memory operand, the fully written register, and the size in bytes."""

    memory: str
    target: str
    size: int

    @property
    def register(self) -> str:
        return whole(self.target)

    @property
    def loaded(self) -> str:
        """The operand that holds exactly the loaded bytes."""
        return part(self.register, self.size) if size_of(self.target) <= 8 else self.target


def _load(line: Line) -> _Load | None:
    match = re.fullmatch(r"movz([bw])[lq]|mov[lq]?", line.mnemonic)
    memory, target = line.operands if len(line.operands) == 2 else ("", "")
    size = size_of(target)
    if not memory.endswith(")") or size < 4:
        return None
    if match and size <= 8:
        return _Load(memory, target, _SIZES[match[1]] if match[1] else size)
    return _Load(memory, target, size) if _VECTOR_LOAD.fullmatch(line.mnemonic) else None


class FoldLoads(Rewrite):
    """Operations with a memory operand instead of a load and an operation on its register.

    Condition: the operation is the only reader of the register, control goes straight from load to
    operation, nothing in between changes the address or memory, and neither may fault.
    """

    name = "loads within operations"

    def change(self, listing: Listing, at: int) -> Change | None:
        load = _load(listing.lines[at])
        n = reader(listing, at) if load else None
        if load is None or n is None or not dead(listing, n, load.register):
            return None
        new = self.within(listing.lines[n], load)
        effects = effects_if_valid(new) if new else None
        fits = effects is not None and effects.loads == listing.effects[at].loads
        return {at: [], n: [new]} if fits else None

    def within(self, line: Line, load: _Load) -> str:
        """Return the operation with the load as its memory operand, "" where there is none."""
        operands = list(line.operands)
        count, exact = named(line.text).count(load.register), operands.count(load.loaded)
        if line.mnemonic.startswith("test") and count == exact == 2:
            return f"cmp{LETTERS[load.size]} $0,{load.memory}"
        if count != 1 or exact != 1:
            return ""
        at = operands.index(load.loaded)
        operands[at] = load.memory
        if size_of(load.target) > 8:
            fits = not at and _VECTOR_OPERATION.fullmatch(line.mnemonic)
            return f"{line.mnemonic} {','.join(operands)}" if fits else ""
        match = _OPERATION.fullmatch(line.mnemonic)
        if not match or (at == len(operands) - 1 and match[1] not in _ONLY_FLAGS):
            return ""
        return f"{match[1]}{match[2] or LETTERS[load.size]} {','.join(operands)}"


class UnfoldLoads(Rewrite):
    """A load and an operation on its register instead of an operation with a memory operand.

    Condition: a register is free; fixups find all others unchanged.
    """

    name = "loads apart from operations"

    def change(self, listing: Listing, at: int) -> Change | None:
        line = listing.lines[at]
        match, operands = _OPERATION.fullmatch(line.mnemonic), list(line.operands)
        indices = [n for n, operand in enumerate(operands) if operand.endswith(")")]
        free = free_register(listing)
        if not match or len(indices) != 1 or len(operands) < 2 or free is None:
            return None
        [n] = indices
        if n == len(operands) - 1 and match[1] not in _ONLY_FLAGS:
            return None
        size = _SIZES.get(match[2], 0) or max(map(size_of, operands))
        operands[n] = part(free, size)
        operation = f"{line.mnemonic} {','.join(operands)}"
        return {at: [_load_text(line.operands[n], free, size), operation]}


def _load_text(memory: str, register: str, size: int) -> str:
    return f"{_LOADS[size]} {memory},{part(register, max(4, size))}"


class SplitUpdates(Rewrite):
    """A load, an operation and a store instead of a read-modify-write of memory.

    Condition: a register is free, and the update may not fault.
    """

    name = "updates of memory split"

    def change(self, listing: Listing, at: int) -> Change | None:
        line = listing.lines[at]
        match = _UPDATE.fullmatch(line.mnemonic)
        *sources, memory = line.operands or ("",)
        free = free_register(listing)
        if not match or not memory.endswith(")") or free is None or listing.entries_at(at):
            return None
        size = _SIZES.get(match[2], 0) or size_of(sources[0])
        operation, result = f"{match[1]}{LETTERS[size]}", part(free, size)
        load, store = _load_text(memory, free, size), f"mov{LETTERS[size]} {result},{memory}"
        return {at: [load, f"{operation} {','.join([*sources, result])}", store]}


class JoinUpdates(Rewrite):
    """A read-modify-write of memory instead of an adjacent load, operation and store.

    Condition: all three are on the same bytes, the register is dead after them and is neither
    source nor address, and none may fault. The flags are dead if the operation was wider than the
    memory operand.
    """

    name = "updates of memory joined"

    def change(self, listing: Listing, at: int) -> Change | None:
        load = _load(listing.lines[at])
        n = next_code(listing, at) if load and size_of(load.target) <= 8 else None
        last = next_code(listing, n) if n is not None else None
        if load is None or n is None or last is None:
            return None
        line, store = listing.lines[n], listing.lines[last]
        match = _UPDATE.fullmatch(line.mnemonic)
        *sources, target = line.operands or ("",)
        moves = store.mnemonic in ("mov", f"mov{LETTERS[load.size]}")
        if not match or not moves or whole(target) != load.register or not size_of(target):
            return None
        if store.operands != (load.loaded, load.memory) or any(s.endswith(")") for s in sources):
            return None
        used = named(",".join([*sources, load.memory]))
        if load.register in used or not dead(listing, last, load.register):
            return None
        wide = size_of(target) != load.size
        if wide and (size_of(target) < load.size or EVERY_FLAG & listing.live[last + 1]):
            return None
        if any(listing.entries_at(x) for x in (at, n, last)):
            return None
        new = [*(_narrowed(s, load.size) for s in sources), load.memory]
        text = f"{match[1]}{LETTERS[load.size]} {','.join(new)}"
        return {at: [], n: [], last: [text]} if effects_if_valid(text) else None


def _narrowed(source: str, size: int) -> str:
    """Return the lowest bytes of a register or constant."""
    if source.startswith("%"):
        return part(whole(source), size)
    value = immediate(source)
    return source if value is None or size > 2 else f"${value & (1 << 8 * size) - 1}"


_COPY = re.compile(r"mov[lq]?|vmov(aps|apd|dqa|ups|upd|dqu)")
_THREE_OPERANDS = re.compile(r"v(?!mov)\w+|(andn|bextr|bzhi|pdep|pext|rorx|s[ah][lr]x)[lq]?")
_SHIFT = re.compile(r"(shl|sal|shr|sar)([lq]?)")
_ROTATION = re.compile(r"(ror|rol)([lq]?)")
_BMI1, _BMI2 = "bmi1", "bmi2"


def _flags_die(listing: Listing, at: int) -> bool:
    """True if the flags that an instruction sets are dead."""
    return not EVERY_FLAG & listing.effects[at].writes & listing.live[at + 1]


class ThreeOperands(Rewrite):
    """A three-operand operation instead of a copy and an operation that overwrites the copy.

    Condition: the operation writes all of the copy, and nothing in between changes the original.
    For lea, shlx and rorx the flags of the operation are dead; shlx and rorx need BMI2 on every
    core.
    """

    name = "copies within operations"

    def change(self, listing: Listing, at: int) -> Change | None:
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
        effects = effects_if_valid(new) if new else None
        if effects is None or whole(copy) not in effects.writes - effects.reads:
            return None
        return {at: [], n: [new]}

    def _three(self, line: Line, source: str, copy: str) -> str:
        """Return a three-operand operation with the original instead of its copy, "" if none."""
        *operands, target = line.operands
        if not _THREE_OPERANDS.fullmatch(line.mnemonic):
            return ""
        replaced = [source if operand == copy else operand for operand in operands]
        return "" if replaced == operands else f"{line.mnemonic} {','.join([*replaced, target])}"

    def _sum(self, line: Line, source: str, copy: str) -> str:
        """Return a lea that computes an addition or a left shift by up to three, "" if none."""
        base, size = part(whole(source), 8), size_of(copy)
        update, shift = update_of(line, 0), _SHIFT.fullmatch(line.mnemonic)
        place = None
        if update and not line.mnemonic.startswith("lea"):
            place = Address(update.step, base)
        elif re.fullmatch(r"add[lq]?", line.mnemonic) and size_of(line.operands[0]) == size:
            addend = line.operands[0]
            index = base if addend == copy else part(whole(addend), 8)
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
    rotation, constant = _ROTATION.fullmatch(line.mnemonic), immediate(count)
    if rotation and constant is not None and len(line.operands) == 2:
        right = constant if rotation[1] == "ror" else -constant
        return f"rorx{LETTERS[size]} ${right % (8 * size)},{source},{target}"
    return ""


class NewerForms(Rewrite):
    """Shifts by a register as shlx, sarx or shrx; a not and an and as andn.

    Condition: every core has BMI1 or BMI2, the flags of the instructions are dead, and nothing
    between not and and uses the register.
    """

    name = "shifts and complements of BMI"

    def change(self, listing: Listing, at: int) -> Change | None:
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
        source, result = listing.lines[n].operands
        if result != target or size_of(source) != size_of(target) or source == target:
            return None
        new = f"andn{LETTERS[size_of(target)]} {source},{target},{target}"
        return {at: [], n: [new]} if _flags_die(listing, n) else None


class TwoOperands(Rewrite):
    """Additions instead of lea, as three-part addresses are slow on some cores.

    Condition: no flags are live after the lea.
    """

    name = "lea as additions"

    def change(self, listing: Listing, at: int) -> Change | None:
        line = listing.lines[at]
        if not re.fullmatch(r"lea[lq]?", line.mnemonic) or EVERY_FLAG & listing.live[at + 1]:
            return None
        place, target = address(line.operands[0]), line.operands[1]
        size = size_of(target)
        if place is None or size not in (4, 8) or not place.base:
            return None
        letter, result = LETTERS[size], part(whole(target), 8)
        addition = [f"add{letter} ${place.disp},{target}"] if place.disp else []
        if not place.indexed:
            base = part(whole(place.base), size)
            move = [] if place.base == result else [f"mov{letter} {base},{target}"]
            return {at: [*move, *addition]} if addition else None
        if addition:
            return {at: [f"{line.mnemonic} {place._replace(disp=0)},{target}", *addition]}
        registers = [place.base, place.indexed]
        if place.scale > 1 or result not in registers:
            return None
        registers.remove(result)
        return {at: [f"add{letter} {part(whole(registers[0]), size)},{target}"]}
