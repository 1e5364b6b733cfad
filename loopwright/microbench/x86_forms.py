"""x86-64 forms from the tables of iced-x86: operands, accesses and encoding."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import iced_x86 as iced

from loopwright.code import binding
from loopwright.code.binding import Outline, outlines
from loopwright.code.instructions import READS, REGISTERS, WRITES, encode_x86
from loopwright.microbench import x86_kit
from loopwright.microbench.forms import (
    BASE,
    DISPLACEMENT,
    INDEX,
    NO_BASE,
    Form,
    Memory,
    Operand,
)

_GPR = tuple(name.upper() for name in REGISTERS["x86_64"])
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
CODE_BASE = -2  # number of a base that is the instruction pointer
SCALE = "scale"  # of the index
CONSTANT = "i"  # the value of a constant
_BASE_REGISTER = 14  # where no base is given
_SHORT = range(-128, 128)
_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class Part:
    """An operand of an opcode: "register", "fixed", "immediate" or "memory".

    size is its bits, or the kind of an immediate; value is the number of a fixed register, or the
    value of an immediate.
    """

    what: str
    size: Any = 0
    value: int = 0


@cache
def _kind_names() -> dict[int, str]:
    kinds = vars(iced.OpCodeOperandKind).items()
    return {value: name for name, value in kinds if name.isupper()}


def plan(info: iced.OpCodeInfo, *, memory: bool) -> list[Part] | None:
    """Return the operands of an opcode, with or without a memory operand.

    None if the opcode has no such form.
    """
    out: list[Part] = []
    for kind in (_kind_names()[info.op_kind(n)] for n in range(info.op_count)):
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
    """Return an instruction; registers has numbers by operand label."""
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
    base = registers.get(BASE, _BASE_REGISTER)
    displacement = registers.get(DISPLACEMENT, 0)
    if base == CODE_BASE:
        ins.memory_base = iced.Register.RIP
    elif base != NO_BASE:
        ins.memory_base = getattr(iced.Register, _GPR[base])
    if INDEX in registers:
        ins.memory_index = getattr(iced.Register, _GPR[registers[INDEX]])
        ins.memory_index_scale = registers.get(SCALE, 1)
    ins.memory_displacement = displacement & _WORD
    short = displacement in _SHORT and base >= 0
    ins.memory_displ_size = (1 if short else 8) if displacement else 0


def operands_of(
    ins: iced.Instruction, parts: Sequence[Part], registers: Mapping[str, int]
) -> Iterator[Operand]:
    """Yield the operands of an instruction: explicit, address, implied registers, flags."""
    info = iced.InstructionInfoFactory().info(ins)
    explicit = set()
    for n, part in enumerate(parts):
        if part.what in ("immediate", "memory"):
            continue
        access = info.op_access(n)
        kind = "vector" if part.size >= 128 else "gpr"
        fixed = part.value if part.what == "fixed" else None
        explicit.add((kind, registers[str(n)] if fixed is None else fixed))
        # A conditional or partial write keeps the old value, and so depends on it.
        keeps_rest = access in WRITES and (part.size < 32 or access == iced.OpAccess.COND_WRITE)
        yield Operand(
            str(n), kind, part.size, access in READS or keeps_rest, access in WRITES, fixed
        )
    if any(part.what == "memory" for part in parts):
        if registers[BASE] >= 0:
            explicit.add(("gpr", registers[BASE]))
            yield Operand(BASE, "gpr", 64, read=True, written=False)
        if INDEX in registers:
            explicit.add(("gpr", registers[INDEX]))
            yield Operand(INDEX, "gpr", 64, read=True, written=False)
    implied: dict[tuple[str, int], tuple[bool, bool]] = {}
    for use in info.used_registers():
        number = _number(use.register)
        kind = "vector" if iced.RegisterExt.is_vector_register(use.register) else "gpr"
        if number is None or (kind, number) in explicit:
            continue
        reads, writes = implied.get((kind, number), (False, False))
        implied[kind, number] = reads or use.access in READS, writes or use.access in WRITES
    for (kind, number), (reads, writes) in implied.items():
        label = _GPR[number].lower() if kind == "gpr" else f"xmm{number}"
        yield Operand(label, kind, 64 if kind == "gpr" else 128, reads, writes, number)
    if ins.rflags_read or ins.rflags_modified:
        # A shift by cl keeps the flags if cl is 0.
        by_cl = any(part.what == "fixed" and part.value == _CL for part in parts)
        yield Operand("f", "flags", 0, bool(ins.rflags_read) or by_cl, bool(ins.rflags_modified))


def accessed(ins: iced.Instruction) -> Memory | None:
    """Return the memory access of an instruction; None if it only computes an address."""
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


# Addresses of lea forms: base alone, with displacement, with index, scaled, with both, those two
# without base, and relative to the instruction pointer.
_ADDRESSES: Sequence[Mapping[str, int]] = (
    {},
    {DISPLACEMENT: 5},
    {INDEX: 7},
    {INDEX: 7, DISPLACEMENT: 5},
    {INDEX: 7, SCALE: 4},
    {INDEX: 7, SCALE: 4, DISPLACEMENT: 5},
    {BASE: NO_BASE, INDEX: 7, SCALE: 4, DISPLACEMENT: 5},
    {BASE: CODE_BASE, DISPLACEMENT: 5},
)
_UNMEASURED_FEATURES = {
    getattr(iced.CpuidFeature, name)
    for name in (
        "FPU", "FPU287", "FPU387", "FPU387SL_ONLY", "MMX", "RTM", "HLE_OR_RTM", "FSGSBASE",
        "CET_SS", "CET_IBT", "MONITORX", "MONITOR", "RDPRU", "RDPID", "RDRAND", "RDSEED", "RDTSCP",
        "TSC", "RDPMC", "SMX", "XSAVE", "PAUSE",
    )
}  # fmt: skip
# What computes in registers that it does not name.
_IMPLIED = {
    iced.Mnemonic.CBW, iced.Mnemonic.CWDE, iced.Mnemonic.CDQE,
    iced.Mnemonic.CWD, iced.Mnemonic.CDQ, iced.Mnemonic.CQO,
    iced.Mnemonic.CLC, iced.Mnemonic.STC, iced.Mnemonic.CMC,
}  # fmt: skip
_ORDERS = {iced.Mnemonic.SFENCE, iced.Mnemonic.LFENCE, iced.Mnemonic.MFENCE}
_SEGMENTS = {iced.Mnemonic.LSS, iced.Mnemonic.LFS, iced.Mnemonic.LGS}
_PAST_CACHE = ("MOVNT", "PREFETCH", "CLFLUSH", "CLWB", "CLDEMOTE", "MASKMOV", "MOVDIR")
_ENCODINGS = (iced.EncodingKind.LEGACY, iced.EncodingKind.VEX)


def forms(features: frozenset[str] | None) -> tuple[list[Form], dict[str, str]]:
    """Return the forms of a core with these features (None: any), and reasons for the others.

    Of encodings with one name, the first is taken; each opcode has a form of registers, one with
    memory, or both. Left out by opcode are branches, serialising, privileged, repeated and stack
    instructions, non-temporal accesses, x87, MMX, AVX-512 and gathers.
    """
    all_forms, left_out = _all_forms()
    chosen: dict[str, Form] = {}
    for form in all_forms:
        if features is None or not form.needs - features:
            chosen.setdefault(form.name, form)
    return list(chosen.values()), dict(left_out)


@cache
def _all_forms() -> tuple[Sequence[Form], Mapping[str, str]]:
    """Return the forms of all encodings, and reasons for the opcodes left out."""
    all_forms: list[Form] = []
    left_out: dict[str, str] = {}
    codes = sorted({code for name, code in vars(iced.Code).items() if name.isupper()})
    for code in codes:
        info = iced.OpCodeInfo(code)
        if not info.is_instruction or not info.mode64 or info.encoding not in _ENCODINGS:
            continue
        if reason := _reason_left_out(info):
            left_out[info.instruction_string] = reason
            continue
        of_opcode = list(_forms(code, info))
        if not of_opcode:
            left_out[info.instruction_string] = "operands that cannot be chosen"
        all_forms += of_opcode
    return all_forms, left_out


def _reason_left_out(info: iced.OpCodeInfo) -> str:
    """Return the reason why an opcode is not measured, or ""."""
    sample = iced.Instruction()
    sample.code = info.code
    if sample.flow_control != iced.FlowControl.NEXT:
        return "branches"
    if info.is_privileged or info.must_be_cpl0 or info.may_require_cpl0 or info.is_input_output:
        return "needs privilege"
    if info.is_serializing_intel or info.is_serializing_amd or info.intel_may_vm_exit:
        return "serialises or leaves the guest"
    if info.is_stack_instruction:
        return "uses the stack"
    if info.is_save_restore or sample.is_string_instruction:
        return "saves state or repeats"
    if _UNMEASURED_FEATURES & set(sample.cpuid_features()):
        return "x87, MMX or system state"
    if info.mnemonic in _SEGMENTS:
        return "loads a segment"
    if info.mnemonic in _ORDERS:
        return "orders memory accesses"
    if info.instruction_string.removeprefix("V").startswith(_PAST_CACHE):
        return "goes past the cache"
    return "reserved" if info.is_reserved_nop else ""


def _forms(code: "iced.Code_", info: iced.OpCodeInfo) -> Iterator[Form]:
    """Yield the forms of an opcode: of registers, with memory, and of address arithmetic."""
    plain = plan(info, memory=False)
    of_registers = _form(code, plain or []) if plain or info.mnemonic in _IMPLIED else None
    if of_registers:
        yield of_registers
    parts = plan(info, memory=True)
    if not parts:
        return
    if info.mnemonic == iced.Mnemonic.LEA:
        for address in _ADDRESSES:
            if form := _form(code, parts, address):
                yield form
        return
    form = _form(code, parts)
    named = any(part.what in ("register", "fixed") for part in parts)
    if form and form.memory and (of_registers or named):
        yield replace(form, twin=of_registers.name if of_registers else "")


def _form(
    code: "iced.Code_", parts: Sequence[Part], address: Mapping[str, int] | None = None
) -> Form | None:
    """Return the form of an opcode with such operands, None if it has not one name."""
    at = dict(address or {})

    def encode(registers: Mapping[str, int]) -> bytes:
        return encode_x86(instruction(code, parts, {**at, **registers}))

    registers = {str(n): 8 + n for n, part in enumerate(parts) if part.what == "register"}
    registers |= {BASE: 6, **at}
    try:
        encoded = encode(registers)
    except ValueError:
        return None
    (names,) = binding.forms("x86_64", [encoded])
    (outline,) = outlines("x86_64", [encoded])
    if not names or len(names) != 1 or not isinstance(outline, Outline):
        return None
    sample = instruction(code, parts, registers)
    operands = tuple(operands_of(sample, parts, registers))
    memory = accessed(sample)
    return Form(names[0], operands, encode, x86_kit, outline.needs, memory)
