"""Forms of x86-64, from iced-x86's tables: those that compute in registers."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import iced_x86 as iced

from loopwright.calibrating.forms import x86_kit
from loopwright.calibrating.forms.form import Form, Operand
from loopwright.code import binding
from loopwright.code.decode import READS, WRITES
from loopwright.code.outline import Outline, outlines

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
_OLD = {
    iced.CpuidFeature.FPU,
    iced.CpuidFeature.FPU287,
    iced.CpuidFeature.FPU387,
    iced.CpuidFeature.FPU387SL_ONLY,
    iced.CpuidFeature.MMX,
    iced.CpuidFeature.RTM,
    iced.CpuidFeature.HLE_OR_RTM,
    iced.CpuidFeature.FSGSBASE,
    iced.CpuidFeature.CET_SS,
    iced.CpuidFeature.CET_IBT,
    iced.CpuidFeature.MONITORX,
    iced.CpuidFeature.MONITOR,
    iced.CpuidFeature.RDPRU,
    iced.CpuidFeature.RDPID,
    iced.CpuidFeature.RDRAND,
    iced.CpuidFeature.RDSEED,
    iced.CpuidFeature.RDTSCP,
    iced.CpuidFeature.TSC,
    iced.CpuidFeature.RDPMC,
    iced.CpuidFeature.SMX,
    iced.CpuidFeature.XSAVE,
    iced.CpuidFeature.PAUSE,
}
_ORDERS = {iced.Mnemonic.SFENCE, iced.Mnemonic.LFENCE, iced.Mnemonic.MFENCE}
_STEP = (iced.EncodingKind.LEGACY, iced.EncodingKind.VEX)


# "register", "fixed" or "immediate"; bits, or the kind of the immediate; the number or the value.
_Part = tuple[str, Any, int]


@cache
def _kinds() -> dict[int, str]:
    found = vars(iced.OpCodeOperandKind).items()
    return {value: name for name, value in found if name.isupper()}


def _number(register: "iced.Register_") -> int | None:
    full = iced.RegisterExt.full_register(register)
    if iced.RegisterExt.is_gpr(full) or iced.RegisterExt.is_vector_register(full):
        return int(iced.RegisterExt.number(full))
    return None


def forms(features: frozenset[str]) -> tuple[list[Form], dict[str, str]]:
    """Return the forms that a core of these features has, and why others are left out.

    Of those with one name, the first encoding is taken. Left out are, by their opcodes: what
    branches, serialises, needs privilege, repeats or uses the stack; x87, MMX and AVX-512; and
    memory operands.
    """
    chosen: dict[str, Form] = {}
    left: dict[str, str] = {}
    codes = sorted({v for n, v in vars(iced.Code).items() if n.isupper()})
    for code in codes:
        info = iced.OpCodeInfo(code)
        if not info.is_instruction or not info.mode64 or info.encoding not in _STEP:
            continue
        if why := _unfit(info):
            left[info.instruction_string] = why
            continue
        form = _form(code, info)
        if form is None:
            left[info.instruction_string] = "operands that cannot be chosen"
        elif form.name and not form.needs - features:
            chosen.setdefault(form.name, form)
    return list(chosen.values()), left


def _unfit(info: iced.OpCodeInfo) -> str:
    """Say why no experiment is done with an opcode, or nothing."""
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
    if _OLD & set(sample.cpuid_features()):
        return "x87, MMX or system state"
    if info.mnemonic in _ORDERS:
        return "orders memory accesses"
    return "reserved" if info.is_reserved_nop else ""


def _form(code: "iced.Code_", info: iced.OpCodeInfo) -> Form | None:
    """Return the form of an opcode with registers alone, None where it cannot have them."""
    kinds = [_kinds()[info.op_kind(n)] for n in range(info.op_count)]
    plan: list[_Part] = []
    for kind in kinds:
        stem = kind.partition("_")[0]
        if kind in _IMMEDIATE:
            plan.append(("immediate", *_IMMEDIATE[kind]))
        elif kind in _FIXED:
            plan.append(("fixed", *_FIXED[kind]))
        elif stem in _BITS:
            plan.append(("register", _BITS[stem], 0))
        else:
            return None

    def encode(registers: Mapping[str, int]) -> bytes:
        encoder = iced.Encoder(64)
        encoder.encode(_instruction(code, plan, registers), 0)
        return bytes(encoder.take_buffer())

    registers = {str(n): 8 + n for n, part in enumerate(plan) if part[0] == "register"}
    try:
        text = encode(registers)
    except ValueError:
        return None
    (names,) = binding.forms("x86_64", [text])
    (seen,) = outlines("x86_64", [text])
    if not names or len(names) != 1 or not isinstance(seen, Outline):
        return None
    operands = tuple(_operands(code, plan, registers))
    return Form(names[0], operands, encode, x86_kit, seen.needs)


def _instruction(
    code: "iced.Code_", plan: Sequence[_Part], registers: Mapping[str, int]
) -> iced.Instruction:
    ins = iced.Instruction()
    ins.code = code
    for n, (what, bits, value) in enumerate(plan):
        if what == "immediate":
            ins.set_op_kind(n, bits)
            ins.set_immediate_u64(n, value)
            continue
        number = value if what == "fixed" else registers[str(n)]
        ins.set_op_kind(n, iced.OpKind.REGISTER)
        ins.set_op_register(n, getattr(iced.Register, _NAMES[bits][number]))
    return ins


def _operands(
    code: "iced.Code_", plan: Sequence[_Part], registers: Mapping[str, int]
) -> Iterator[Operand]:
    """Yield what an instruction reads and writes: its operands, its other registers, the flags."""
    ins = _instruction(code, plan, registers)
    info = iced.InstructionInfoFactory().info(ins)
    seen = set()
    for n, (what, bits, value) in enumerate(plan):
        if what == "immediate":
            continue
        access = info.op_access(n)
        kind = "vector" if bits >= 128 else "gpr"
        seen.add((kind, value if what == "fixed" else registers[str(n)]))
        # A write of 8 or 16 bits leaves the others as they were.
        reads = access in READS or (access in WRITES and bits < 32)
        fixed = value if what == "fixed" else None
        yield Operand(str(n), kind, bits, reads, access in WRITES, fixed)
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
        by_cl = any(what == "fixed" and value == _CL for what, _, value in plan)
        yield Operand("f", "flags", 0, bool(ins.rflags_read) or by_cl, bool(ins.rflags_modified))
