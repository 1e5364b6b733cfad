"""Forms of x86-64, from iced-x86's tables: of registers, and with an operand in memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import iced_x86 as iced

from loopwright.calibrating.forms import x86_kit
from loopwright.calibrating.forms.form import BASE, DISPLACEMENT, INDEX, Form
from loopwright.calibrating.forms.x86_encode import (
    NO_BASE,
    SCALE,
    Part,
    accessed,
    encoded,
    instruction,
    operands,
    plan,
)
from loopwright.code import binding
from loopwright.code.outline import Outline, outlines

# Addresses that lea is learned for: base alone, with displacement, with index, scaled, with both,
# and those two without base.
_ADDRESSES: Sequence[Mapping[str, int]] = (
    {},
    {DISPLACEMENT: 5},
    {INDEX: 7},
    {INDEX: 7, DISPLACEMENT: 5},
    {INDEX: 7, SCALE: 4},
    {INDEX: 7, SCALE: 4, DISPLACEMENT: 5},
    {BASE: NO_BASE, INDEX: 7, SCALE: 4, DISPLACEMENT: 5},
)
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
# What computes in registers that it does not name.
_IMPLIED = {
    iced.Mnemonic.CBW, iced.Mnemonic.CWDE, iced.Mnemonic.CDQE,
    iced.Mnemonic.CWD, iced.Mnemonic.CDQ, iced.Mnemonic.CQO,
    iced.Mnemonic.CLC, iced.Mnemonic.STC, iced.Mnemonic.CMC,
}  # fmt: skip
_ORDERS = {iced.Mnemonic.SFENCE, iced.Mnemonic.LFENCE, iced.Mnemonic.MFENCE}
_SEGMENTS = {iced.Mnemonic.LSS, iced.Mnemonic.LFS, iced.Mnemonic.LGS}
_PAST_CACHE = ("MOVNT", "PREFETCH", "CLFLUSH", "CLWB", "CLDEMOTE", "MASKMOV", "MOVDIR")
_STEP = (iced.EncodingKind.LEGACY, iced.EncodingKind.VEX)


def forms(features: frozenset[str] | None) -> tuple[list[Form], dict[str, str]]:
    """Return the forms that a core of these features has (None: any), and why others are not.

    Of those with one name, the first encoding is taken; each opcode has a form of registers, one
    with memory, or both. Left out are, by their opcodes: what branches, serialises, needs
    privilege, repeats, uses the stack or goes past the cache; x87, MMX and AVX-512; gathers.
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
        found = list(_forms(code, info))
        if not found:
            left[info.instruction_string] = "operands that cannot be chosen"
        for form in found:
            if features is None or not form.needs - features:
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
    if info.mnemonic in _SEGMENTS:
        return "loads a segment"
    if info.mnemonic in _ORDERS:
        return "orders memory accesses"
    if _name(info).startswith(_PAST_CACHE):
        return "goes past the cache"
    return "reserved" if info.is_reserved_nop else ""


def _name(info: iced.OpCodeInfo) -> str:
    return info.instruction_string.partition(" ")[0].removeprefix("V")


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
    """Return the form of an opcode with such operands, None where it has no name in the tables."""
    at = dict(address or {})

    def encode(registers: Mapping[str, int]) -> bytes:
        return encoded(instruction(code, parts, {**at, **registers}))

    registers = {str(n): 8 + n for n, part in enumerate(parts) if part.what == "register"}
    registers |= {BASE: 6, **at}
    try:
        text = encode(registers)
    except ValueError:
        return None
    (names,) = binding.forms("x86_64", [text])
    (seen,) = outlines("x86_64", [text])
    if not names or len(names) != 1 or not isinstance(seen, Outline):
        return None
    sample = instruction(code, parts, registers)
    found = tuple(operands(sample, parts, registers))
    memory = accessed(sample)
    return Form(names[0], found, encode, x86_kit, seen.needs, memory)
