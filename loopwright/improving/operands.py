"""Memory operands of a loop's instructions: loads and read-modify-writes, joined and split."""

import re
from typing import NamedTuple

from loopwright.improving.counted import immediate
from loopwright.improving.edits import EVERY_FLAG, named, next_code, whole
from loopwright.improving.listing import LETTERS, Line, Listing, part, size_of
from loopwright.improving.rewriting import (
    Change,
    Rewrite,
    dead,
    free_register,
    known,
    reader,
)

_SIZES = {letter: size for size, letter in LETTERS.items()}
_LOADS = {1: "movzbl", 2: "movzwl", 4: "movl", 8: "movq"}
_OPERATION = re.compile(r"(add|sub|and|or|xor|adc|sbb|imul|cmp|test)([bwlq]?)")
_UPDATE = re.compile(r"(add|sub|and|or|xor|inc|dec|neg|not)([bwlq]?)")
_COMPARING = ("cmp", "test")
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
        """The full register."""
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
        """Return no instruction for the load, and the operation with the memory operand."""
        load = _load(listing.lines[at])
        n = reader(listing, at) if load else None
        if load is None or n is None or not dead(listing, n, load.register):
            return None
        new = self.within(listing.lines[n], load)
        effects, load_effects = known(new) if new else None, listing.effects[at]
        if effects is None or load_effects is None or effects.loads != load_effects.loads:
            return None
        return {at: [], n: [new]}

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
        if not match or (at == len(operands) - 1 and match[1] not in _COMPARING):
            return ""
        return f"{match[1]}{match[2] or LETTERS[load.size]} {','.join(operands)}"


class UnfoldLoads(Rewrite):
    """A load and an operation on its register instead of an operation with a memory operand.

    Condition: a register is free; fixups find all others unchanged.
    """

    name = "loads apart from operations"

    def change(self, listing: Listing, at: int) -> Change | None:
        """Return the load and the operation."""
        line = listing.lines[at]
        match, operands = _OPERATION.fullmatch(line.mnemonic), list(line.operands)
        places = [n for n, operand in enumerate(operands) if operand.endswith(")")]
        free = free_register(listing)
        if not match or len(places) != 1 or len(operands) < 2 or free is None:
            return None
        [n] = places
        if n == len(operands) - 1 and match[1] not in _COMPARING:
            return None
        size = _SIZES.get(match[2], 0) or max(map(size_of, operands))
        operands[n] = part(free, size)
        return {
            at: [_loading(line.operands[n], free, size), f"{line.mnemonic} {','.join(operands)}"]
        }


def _loading(memory: str, register: str, size: int) -> str:
    return f"{_LOADS[size]} {memory},{part(register, max(4, size))}"


class SplitUpdates(Rewrite):
    """A load, an operation and a store instead of a read-modify-write of memory.

    Condition: a register is free, and the update may not fault.
    """

    name = "updates of memory split"

    def change(self, listing: Listing, at: int) -> Change | None:
        """Return the load, the operation and the store."""
        line = listing.lines[at]
        match = _UPDATE.fullmatch(line.mnemonic)
        *sources, memory = line.operands or ("",)
        free = free_register(listing)
        if not match or not memory.endswith(")") or free is None or listing.entries_at(at):
            return None
        size = _SIZES.get(match[2], 0) or size_of(sources[0])
        operation, result = f"{match[1]}{LETTERS[size]}", part(free, size)
        return {
            at: [
                _loading(memory, free, size),
                f"{operation} {','.join([*sources, result])}",
                f"mov{LETTERS[size]} {result},{memory}",
            ]
        }


class JoinUpdates(Rewrite):
    """A read-modify-write of memory instead of an adjacent load, operation and store.

    Condition: all three are on the same bytes, the register is dead after them and is neither
    source nor address, and none may fault. The flags are dead if the operation was wider than the
    memory operand.
    """

    name = "updates of memory joined"

    def change(self, listing: Listing, at: int) -> Change | None:
        """Return the read-modify-write in the store's place."""
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
        if not self.spared(listing, last, load, sources):
            return None
        wide = size_of(target) != load.size
        if wide and (size_of(target) < load.size or EVERY_FLAG & listing.live[last + 1]):
            return None
        if any(listing.entries_at(x) for x in (at, n, last)):
            return None
        new = [*(_narrowed(s, load.size) for s in sources), load.memory]
        text = f"{match[1]}{LETTERS[load.size]} {','.join(new)}"
        return {at: [], n: [], last: [text]} if known(text) else None

    def spared(self, listing: Listing, last: int, load: _Load, sources: list[str]) -> bool:
        """True if the register is dead after the store and has no other use."""
        used = named(",".join([*sources, load.memory]))
        return dead(listing, last, load.register) and load.register not in used


def _narrowed(source: str, size: int) -> str:
    """Return the lowest bytes of a register or constant."""
    if source.startswith("%"):
        return part(whole(source), size)
    value = immediate(source)
    return source if value is None or size > 2 else f"${value & (1 << 8 * size) - 1}"
