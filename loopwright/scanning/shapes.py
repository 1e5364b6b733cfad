"""What a loop is, wherever it lies: its instructions without distances and addresses."""

from collections.abc import Iterator

import iced_x86 as iced

from loopwright.scanning.found import ScannedLoop

_ADDRESS = 1 << 20  # from here on a number may be an address, which a linker chooses
_BRANCHES = (iced.OpKind.NEAR_BRANCH16, iced.OpKind.NEAR_BRANCH32, iced.OpKind.NEAR_BRANCH64)
_RELATIVE = (iced.Register.RIP, iced.Register.EIP)
_OF_THREADS = (iced.Register.FS, iced.Register.GS)
_ARM64_NOP = 0xD503201F
# Of AArch64's instructions that name an address (Arm ARM, C4.1): the bits by which they are known,
# those bits, and the bits of the address.
_ARM64 = (
    (0x7C000000, 0x14000000, 0x03FFFFFF),  # b, bl
    (0xFF000000, 0x54000000, 0x00FFFFE0),  # b.cond, bc.cond
    (0x7E000000, 0x34000000, 0x00FFFFE0),  # cbz, cbnz
    (0x7E000000, 0x36000000, 0x0007FFE0),  # tbz, tbnz
    (0x1F000000, 0x10000000, 0x60FFFFE0),  # adr, adrp
    (0x3B000000, 0x18000000, 0x00FFFFE0),  # ldr of a literal
)
_ARM64_OPCODE = 22  # the bit from which on an instruction says what it does, not with what


def shape(loop: ScannedLoop) -> tuple[object, ...]:
    """Return what two builds of a loop have in common: instructions with registers and numbers."""
    return of_code(loop.isa, loop.executed)


def of_code(isa: str, code: bytes) -> tuple[object, ...]:
    """Return the same of any code."""
    return tuple(_x86(code) if isa == "x86_64" else _arm64(code))


def loose(loop: ScannedLoop) -> tuple[object, ...]:
    """Return what a loop's instructions do, which stays where a compiler chose registers anew."""
    if loop.isa == "x86_64":
        return tuple(ins.mnemonic for ins in _instructions(loop.executed))
    return tuple(word >> _ARM64_OPCODE for word in _arm64(loop.executed))


def _instructions(code: bytes) -> Iterator[iced.Instruction]:
    for ins in iced.Decoder(64, code):
        if ins.mnemonic != iced.Mnemonic.NOP:
            yield ins


def _x86(code: bytes) -> Iterator[object]:
    for ins in _instructions(code):
        yield ins.mnemonic, tuple(_operand(ins, n) for n in range(ins.op_count))


def _operand(ins: iced.Instruction, n: int) -> object:
    kind = ins.op_kind(n)
    if kind in _BRANCHES:
        return "to"
    if kind == iced.OpKind.REGISTER:
        return ins.op_register(n)
    if kind == iced.OpKind.MEMORY:
        base, index = ins.memory_base, ins.memory_index
        named = base in _RELATIVE or (base == 0 and ins.memory_segment in _OF_THREADS)
        at = 0 if named else _number(ins.memory_displacement)
        return base, index, ins.memory_index_scale, ins.memory_size, at
    try:
        return _number(ins.immediate(n))
    except ValueError:
        return kind


def _number(value: int) -> int | str:
    signed = value - (1 << 64) if value >> 63 else value
    return signed if -_ADDRESS < signed < _ADDRESS else "far"


def _arm64(code: bytes) -> Iterator[int]:
    for at in range(0, len(code) - 3, 4):
        word = int.from_bytes(code[at : at + 4], "little")
        if word == _ARM64_NOP:
            continue
        address = next((bits for known, value, bits in _ARM64 if word & known == value), 0)
        yield word & ~address
