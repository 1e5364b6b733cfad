"""Ways to end a loop after n iterations, by a register that counts them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import iced_x86 as iced

from loopwright.measuring import block_path
from loopwright.measuring.block_path import Path, Step, signed

_STEPS = {iced.Mnemonic.INC: 1, iced.Mnemonic.DEC: -1}
_ADDS = {iced.Mnemonic.ADD: 1, iced.Mnemonic.SUB: -1}
_COMPARES = {iced.Mnemonic.CMP, iced.Mnemonic.TEST}
_EQUAL, _UNEQUAL = 0x4, 0x5  # condition codes of jumps


@dataclass(frozen=True)
class End:
    """A step of the path that ends the loop, by a register that counts.

    The counter starts with the value of the register base ("": 0) plus constant plus so many bits
    of memory, plus step for each iteration. code is the loop's code; replaced names the replaced
    instructions, or is "".
    """

    step_of_path: int
    code: bytes
    counter: str
    step: int
    base: str = ""
    constant: int = 0
    memory_bits: int = 0
    replaced: str = ""

    def start(self, values: Mapping[str, int], word: int) -> int:
        """Return the counter's start value for a run without an iteration."""
        held = word & (1 << self.memory_bits) - 1
        return (values.get(self.base, 0) + self.constant + held) % (1 << 64)


def own_ends(path: Path) -> Iterator[End]:
    """Yield the ways to end a loop that leave its code as it is."""
    for n, at in deciding(path):
        yield from _own(path, n, path.steps[at])


def replaced_ends(path: Path) -> Iterator[End]:
    """Yield the ways to end a loop by a count in the place of a comparison."""
    for n, at in deciding(path):
        if end := _replaced(path, n, path.steps[at]):
            yield end


def deciding(path: Path) -> list[tuple[int, int]]:
    """Return a loop's branches, the back edge first, each with the step that sets its flags."""
    branches = [n for n, step in enumerate(path.steps) if step.branches]
    branches.sort(key=lambda n: n != len(path.steps) - 1)
    return [(n, flag_setter) for n in branches if (flag_setter := setter(path, n)) is not None]


def setter(path: Path, branch: int) -> int | None:
    """Return the step that sets the flags which a branch tests."""
    wanted = path.steps[branch].ins.rflags_read
    if not wanted:
        return None
    for n in range(branch - 1, -1, -1):
        if path.steps[n].ins.rflags_modified & wanted:
            return n
    return None


@cache
def change_of(path: Path, name: str, before: int = -1) -> int | None:
    """Return the constant change of a register by an iteration; None if it is no constant.

    With before it is the change by the steps before that one.
    """
    steps = path.steps if before < 0 else path.steps[:before]
    changes = [_constant(step.ins, name) for step in steps if name in step.written]
    return None if None in changes else sum(change for change in changes if change is not None)


def _constant(ins: iced.Instruction, name: str) -> int | None:
    """Return the constant that an instruction adds to a register, None of any other one."""
    if (
        iced.RegisterExt.size(ins.op0_register) < 4
        or block_path.full_name(ins.op0_register) != name
    ):
        return None
    if ins.mnemonic in _STEPS and ins.op0_kind == iced.OpKind.REGISTER:
        return _STEPS[ins.mnemonic]
    if ins.mnemonic in _ADDS and ins.op_count == 2 and _is_immediate(ins.op1_kind):
        return _ADDS[ins.mnemonic] * signed(ins.immediate(1))
    if ins.mnemonic == iced.Mnemonic.LEA and ins.memory_index == iced.Register.NONE:
        same = block_path.full_name(ins.memory_base) == name
        return signed(ins.memory_displacement) if same else None
    return None


def _is_immediate(kind: int) -> bool:
    return kind not in (iced.OpKind.REGISTER, iced.OpKind.MEMORY)


@dataclass(frozen=True)
class _Side:
    """An operand of a comparison: a register, a constant, or some bits of memory."""

    name: str = ""
    constant: int = 0
    bits: int = 0


def _own(path: Path, branch: int, setter: Step) -> Iterator[End]:
    """Yield the start values with which a loop's own comparison ends it after n iterations."""
    ins = setter.ins
    sides = _sides(setter)
    if sides is None:
        return
    changes = []
    for side in sides:
        change = change_of(path, side.name) if side.name else 0
        if change is None:
            return
        changes.append(change)
    relative = changes[0] - changes[1]
    if relative == 0:
        return
    for mine, other in ((1, 0), (0, 1)):
        counter, against = sides[mine], sides[other]
        if not counter.name:
            continue
        if changes[mine] and against.name and not changes[other]:
            continue  # the bound is set, not the register that runs up to it
        step = changes[other] - changes[mine]
        if ins.mnemonic == iced.Mnemonic.TEST or ins.mnemonic in _STEPS or ins.mnemonic in _ADDS:
            yield End(branch, path.code, counter.name, step)
        else:
            yield End(
                branch, path.code, counter.name, step, against.name, against.constant, against.bits
            )


def _sides(setter: Step) -> tuple[_Side, _Side] | None:
    """Return the operands of a comparison, None for another step."""
    ins = setter.ins
    if ins.mnemonic == iced.Mnemonic.TEST:
        if ins.op0_kind != iced.OpKind.REGISTER or ins.op0_register != ins.op1_register:
            return None
        return _Side(block_path.full_name(ins.op0_register)), _Side()
    if ins.mnemonic in _STEPS or (ins.mnemonic in _ADDS and _is_immediate(ins.op1_kind)):
        if ins.op0_kind != iced.OpKind.REGISTER:
            return None
        return _Side(block_path.full_name(ins.op0_register)), _Side()
    if ins.mnemonic != iced.Mnemonic.CMP:
        return None
    sides = []
    for n, kind in enumerate((ins.op0_kind, ins.op1_kind)):
        if kind == iced.OpKind.REGISTER:
            sides.append(_Side(block_path.full_name(ins.op_register(n))))
        elif kind == iced.OpKind.MEMORY:
            sides.append(_Side(bits=8 * iced.MemorySizeExt.size(ins.memory_size)))
        else:
            sides.append(_Side(constant=signed(ins.immediate(n))))
    return sides[0], sides[1]


def _replaced(path: Path, branch: int, setter: Step) -> End | None:
    """Return the loop with a count in the place of a comparison, of the same length."""
    if setter.ins.mnemonic not in _COMPARES or setter.memory:
        return None
    step = path.steps[branch]
    if step.ins.is_loop or step.ins.is_loopcc or step.ins.is_jcx_short:
        return None
    free = [name for name in block_path.counters("x86_64") if name not in path.used]
    length = len(setter.ins)
    moving = [name for name in sorted(path.used - {"rsp"}) if change_of(path, name)]
    # A comparison carries nothing to the next iteration; a count makes it take a cycle at least.
    options = [
        (name, base_name, _compare(name, base_name, length))
        for base_name in moving
        for name in free
    ]
    options += [(name, "", _count(name, length)) for name in free]
    name, base, replacement = next((way for way in options if way[2]), ("", "", b""))
    if not replacement:
        return None
    code = bytearray(path.code)
    code[setter.at : setter.end] = replacement
    condition = _UNEQUAL if step.taken else _EQUAL
    at = step.at + len(step.ins) - (1 if len(step.ins) == 2 else 4) - 1
    code[at] = code[at] & 0xF0 | condition
    decoded = next(iter(iced.Decoder(64, bytes(code[setter.at : setter.end]))))
    shown = iced.Formatter(iced.FormatterSyntax.GAS).format(decoded)
    jump = "jne" if step.taken else "je"
    text = (
        f"+{setter.at:#x} {setter.text} and +{step.at:#x} {step.text.split()[0]} are replaced by "
        f"{' '.join(shown.split())} and {jump}"
    )
    change = change_of(path, base) if base else 1
    return End(branch, bytes(code), name, change or 1, base, replaced=text)


def _compare(name: str, moving: str, length: int) -> bytes:
    """Return a comparison of two registers of a length in bytes, or b""."""
    new, old = block_path.number(name), block_path.number(moving)
    operands = bytes([0x39, 0xC0 | (new & 7) << 3 | old & 7])
    if length == len(operands):
        return operands if new < 8 and old < 8 else b""
    wide = bytes([0x48 | new >> 3 << 2 | old >> 3]) + operands
    return b"\x3e" * (length - len(wide)) + wide if length >= len(wide) else b""


def _count(name: str, length: int) -> bytes:
    """Return an instruction of a length in bytes that counts down in a register, or b""."""
    number = block_path.number(name)
    low = number & 7
    wide = bytes([0x48 | number >> 3])
    legacy = number < 8
    shapes = {
        2: bytes([0xFF, 0xC8 | low]) if legacy else b"",
        3: wide + bytes([0xFF, 0xC8 | low]),
        4: wide + bytes([0x83, 0xE8 | low, 1]),
        5: b"\x3e" + wide + bytes([0x83, 0xE8 | low, 1]),
        6: bytes([0x81, 0xE8 | low, 1, 0, 0, 0]) if legacy else b"",
        7: wide + bytes([0x81, 0xE8 | low, 1, 0, 0, 0]),
    }
    return shapes.get(length, b"")
