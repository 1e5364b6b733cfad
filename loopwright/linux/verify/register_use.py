"""Registers that code writes, on paths that no run may take, too."""

import re
from collections.abc import Iterator

import capstone
import iced_x86 as iced

_X86_GPR = re.compile(r"r(?:[abcd]x|[sd]i|[bs]p|\d+)$")
_X86_VECTOR = re.compile(r"(?:[xyz]?mm|st|k)\d+$")
_READS = (iced.OpAccess.NONE, iced.OpAccess.READ, iced.OpAccess.COND_READ)


def written(isa: str, code: bytes, address: int = 0) -> set[str]:
    """Return the general registers that code writes, as 64-bit names; saved ones left out.

    A register counts as saved where it is pushed (stored below the frame) and popped again; the
    stack pointer where only pushes, pops, calls and returns move it.
    """
    return set(_x86(code, address)) if isa == "x86_64" else set(_arm64(code, address))


def vector(isa: str, code: bytes, address: int = 0) -> set[str]:
    """Return the vector, floating-point and mask registers that code names at all."""
    if isa == "arm64":
        return {
            name for ins in _arm64_decoded(code, address) for name in _named(ins)
            if re.fullmatch(r"[bhsdqv]\d+(?:\..*)?", name)
        }  # fmt: skip
    info = iced.InstructionInfoFactory()
    used = (
        _name(u.register) for i in iced.Decoder(64, code, ip=address)
        for u in info.info(i).used_registers()
    )  # fmt: skip
    return {name for name in used if _X86_VECTOR.match(name)}


def direction_flag(code: bytes) -> int:
    """Return how many instructions set the direction flag beyond those that clear it (x86)."""
    names = [i.mnemonic for i in iced.Decoder(64, code)]
    return names.count(iced.Mnemonic.STD) - names.count(iced.Mnemonic.CLD)


def branches(code: bytes, address: int = 0) -> list[str]:
    """Return the branches through registers that are no returns (arm64; objtool sees x86's)."""
    found = _arm64_decoded(code, address)
    return [f"{i.mnemonic} {i.op_str}" for i in found if i.mnemonic in ("br", "braa", "brab")]


def wide(register: str) -> str:
    """Return the 64-bit name of a register that may be called by its 32-bit name."""
    if re.fullmatch(r"e\w\w", register):
        return f"r{register[1:]}"
    return f"x{register[1:]}" if re.fullmatch(r"w\d+", register) else register.removesuffix("d")


def _name(register: iced.Register_) -> str:
    return iced.Formatter(iced.FormatterSyntax.INTEL).format_register(
        iced.RegisterExt.full_register(register)
    )


def _x86(code: bytes, address: int) -> Iterator[str]:
    info = iced.InstructionInfoFactory()
    pushed: set[str] = set()
    popped: set[str] = set()
    out: set[str] = set()
    for ins in iced.Decoder(64, code, ip=address):
        if ins.mnemonic in (iced.Mnemonic.PUSH, iced.Mnemonic.POP):
            name = _name(ins.op0_register)
            (pushed if ins.mnemonic == iced.Mnemonic.PUSH else popped).add(name)
            continue
        if ins.flow_control in (iced.FlowControl.CALL, iced.FlowControl.RETURN):
            continue
        for used in info.info(ins).used_registers():
            if used.access not in _READS:
                name = _name(used.register)
                out |= {name} if _X86_GPR.match(name) else set()
    yield from (out | popped) - (pushed & popped)


def _arm64_decoded(code: bytes, address: int) -> Iterator[capstone.CsInsn]:
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    decoder.detail = True
    decoder.skipdata = True
    return (i for i in decoder.disasm(code, address) if i.id)


def _named(ins: capstone.CsInsn) -> list[str]:
    reads, writes = ins.regs_access()
    return [str(ins.reg_name(r)) for r in (*reads, *writes)]


def _arm64(code: bytes, address: int) -> Iterator[str]:
    stored: set[str] = set()
    restored: set[str] = set()
    out: set[str] = set()
    for ins in _arm64_decoded(code, address):
        reads, writes = ([_wide(str(ins.reg_name(r))) for r in rs] for rs in ins.regs_access())
        if ins.mnemonic in ("bl", "blr", "ret"):
            continue
        if "sp" in reads and ins.mnemonic in ("stp", "str"):
            stored |= set(reads)
        elif "sp" in reads and ins.mnemonic in ("ldp", "ldr"):
            restored |= set(writes)
        else:
            out |= set(writes)
    saved = stored & restored
    yield from (n for n in (out | restored) - saved - {"xzr", "sp"} if re.fullmatch(r"x\d+", n))


def _wide(name: str) -> str:
    known = {"fp": "x29", "lr": "x30", "wzr": "xzr", "wsp": "sp"}
    return known.get(name, f"x{name[1:]}" if re.fullmatch(r"w\d+", name) else name)
