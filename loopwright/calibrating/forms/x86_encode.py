"""Instructions of x86-64 forms: encoded with chosen registers, and what they read and write."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import iced_x86 as iced

from loopwright.calibrating.forms.form import BASE, DISPLACEMENT, INDEX, Memory, Operand
from loopwright.code.decode import READS, WRITES

_GPR = ("RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", *(f"R{n}" for n in range(8, 16)))
_NAMES = {
    64: _GPR,
    32: ("EAX", "ECX", "EDX", "EBX", "ESP", "EBP", "ESI", "EDI", *(f"R{n}D" for n in range(8, 16))),
    16: ("AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", *(f"R{n}W" for n in range(8, 16))),
    8: ("AL", "CL", "DL", "BL", "SPL", "BPL", "SIL", "DIL", *(f"R{n}L" for n in range(8, 16))),
    128: tuple(f"XMM{n}" for n in range(16)),
    256: tuple(f"YMM{n}" for n in range(16)),
}
_BITS = {"R8": 8, "R16": 16, "R32": 32, "R64": 64, "XMM": 128, "YMM": 256}
_FIXED = {"AL": (8, 0), "AX": (16, 0), "EAX": (32, 0), "RAX": (64, 0), "CL": (8, 1), "DX": (16, 2)}
_CL = 1
_IMMEDIATE = {
    "IMM8": (iced.OpKind.IMMEDIATE8, 5),
    "IMM8_CONST_1": (iced.OpKind.IMMEDIATE8, 1),
    "IMM8SEX16": (iced.OpKind.IMMEDIATE8TO16, 5),
    "IMM8SEX32": (iced.OpKind.IMMEDIATE8TO32, 5),
    "IMM8SEX64": (iced.OpKind.IMMEDIATE8TO64, 5),
    "IMM16": (iced.OpKind.IMMEDIATE16, 0x1235),
    "IMM32": (iced.OpKind.IMMEDIATE32, 0x12345675),
    "IMM32SEX64": (iced.OpKind.IMMEDIATE32TO64, 0x12345675),
    "IMM64": (iced.OpKind.IMMEDIATE64, 0x123456789ABCDE5),
}
_MEMORY = {f"R{bits}_OR_MEM" for bits in (8, 16, 32, 64)} | {"XMM_OR_MEM", "YMM_OR_MEM", "MEM"}
NO_BASE = -1  # the number of a base that there is not
SCALE = "scale"  # of the index
CONSTANT = "i"  # the value of a constant
_ADDRESS = 14  # register where none is given
_SHORT = range(-128, 128)
_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class Part:
    """An operand of an opcode: "register", "fixed", "immediate" or "memory".

    size is its bits, or the kind of an immediate; value the number of a fixed register, or that of
    an immediate.
    """

    what: str
    size: Any = 0
    value: int = 0


@cache
def _kinds() -> dict[int, str]:
    found = vars(iced.OpCodeOperandKind).items()
    return {value: name for name, value in found if name.isupper()}


def plan(info: iced.OpCodeInfo, *, memory: bool) -> list[Part] | None:
    """Return the operands of an opcode, with memory where it can have it or without any.

    None where it has no such form.
    """
    out: list[Part] = []
    for kind in (_kinds()[info.op_kind(n)] for n in range(info.op_count)):
        stem = kind.partition("_")[0]
        if memory and kind in _MEMORY:
            out.append(Part("memory"))
        elif kind in _IMMEDIATE:
            out.append(Part("immediate", *_IMMEDIATE[kind]))
        elif kind in _FIXED:
            out.append(Part("fixed", *_FIXED[kind]))
        elif stem in _BITS:
            out.append(Part("register", _BITS[stem]))
        else:
            return None
    return out if memory == any(part.what == "memory" for part in out) else None


def instruction(
    code: "iced.Code_", parts: Sequence[Part], registers: Mapping[str, int]
) -> iced.Instruction:
    """Return an instruction; registers has the number of each by its operand's label."""
    ins = iced.Instruction()
    ins.code = code
    for n, part in enumerate(parts):
        if part.what == "immediate":
            ins.set_op_kind(n, part.size)
            ins.set_immediate_u64(n, registers.get(CONSTANT, part.value) & _WORD)
        elif part.what == "memory":
            ins.set_op_kind(n, iced.OpKind.MEMORY)
            _address(ins, registers)
        else:
            number = part.value if part.what == "fixed" else registers[str(n)]
            ins.set_op_kind(n, iced.OpKind.REGISTER)
            ins.set_op_register(n, getattr(iced.Register, _NAMES[part.size][number]))
    return ins


def _address(ins: iced.Instruction, registers: Mapping[str, int]) -> None:
    base = registers.get(BASE, _ADDRESS)
    displacement = registers.get(DISPLACEMENT, 0)
    if base != NO_BASE:
        ins.memory_base = getattr(iced.Register, _GPR[base])
    if INDEX in registers:
        ins.memory_index = getattr(iced.Register, _GPR[registers[INDEX]])
        ins.memory_index_scale = registers.get(SCALE, 1)
    ins.memory_displacement = displacement & _WORD
    short = displacement in _SHORT and base != NO_BASE
    ins.memory_displ_size = (1 if short else 8) if displacement else 0


def encoded(ins: iced.Instruction) -> bytes:
    """Return the bytes of an instruction; ValueError where it has none."""
    encoder = iced.Encoder(64)
    encoder.encode(ins, 0)
    return bytes(encoder.take_buffer())


def operands(
    ins: iced.Instruction, parts: Sequence[Part], registers: Mapping[str, int]
) -> Iterator[Operand]:
    """Yield what it reads and writes: operands, an address, other registers, the flags."""
    info = iced.InstructionInfoFactory().info(ins)
    seen = set()
    for n, part in enumerate(parts):
        if part.what in ("immediate", "memory"):
            continue
        access = info.op_access(n)
        kind = "vector" if part.size >= 128 else "gpr"
        fixed = part.value if part.what == "fixed" else None
        seen.add((kind, registers[str(n)] if fixed is None else fixed))
        # What may not be written, or not in all bits, is left as it was.
        part_alone = access in WRITES and (part.size < 32 or access == iced.OpAccess.COND_WRITE)
        yield Operand(
            str(n), kind, part.size, access in READS or part_alone, access in WRITES, fixed
        )
    if any(part.what == "memory" for part in parts):
        if registers[BASE] != NO_BASE:
            seen.add(("gpr", registers[BASE]))
            yield Operand(BASE, "gpr", 64, read=True, written=False)
        if INDEX in registers:
            seen.add(("gpr", registers[INDEX]))
            yield Operand(INDEX, "gpr", 64, read=True, written=False)
    implied: dict[tuple[str, int], tuple[bool, bool]] = {}
    for use in info.used_registers():
        number = _number(use.register)
        kind = "vector" if iced.RegisterExt.is_vector_register(use.register) else "gpr"
        if number is None or (kind, number) in seen:
            continue
        reads, writes = implied.get((kind, number), (False, False))
        implied[kind, number] = reads or use.access in READS, writes or use.access in WRITES
    for (kind, number), (reads, writes) in implied.items():
        label = _GPR[number].lower() if kind == "gpr" else f"xmm{number}"
        yield Operand(label, kind, 64 if kind == "gpr" else 128, reads, writes, number)
    if ins.rflags_read or ins.rflags_modified:
        # A shift by cl leaves the flags as they were where cl is 0.
        by_cl = any(part.what == "fixed" and part.value == _CL for part in parts)
        yield Operand("f", "flags", 0, bool(ins.rflags_read) or by_cl, bool(ins.rflags_modified))


def accessed(ins: iced.Instruction) -> Memory | None:
    """Return what an instruction accesses in memory; None where it computes an address alone."""
    used = iced.InstructionInfoFactory().info(ins).used_memory()
    bits = max((8 * iced.MemorySizeExt.size(one.memory_size) for one in used), default=0)
    reads = any(one.access in READS for one in used)
    writes = any(one.access in WRITES for one in used)
    return Memory(bits, reads, writes) if reads or writes else None


def _number(register: "iced.Register_") -> int | None:
    full = iced.RegisterExt.full_register(register)
    if iced.RegisterExt.is_gpr(full) or iced.RegisterExt.is_vector_register(full):
        return int(iced.RegisterExt.number(full))
    return None
