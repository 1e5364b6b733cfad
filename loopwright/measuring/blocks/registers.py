"""Which general-purpose registers code uses: iced-x86 for x86-64, capstone for AArch64."""

from functools import cache

import capstone
import iced_x86 as iced

_OLD = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi")
EVERY_X86 = (*_OLD, *(f"r{n}" for n in range(8, 16)))  # in the order of their numbers
_ARM64_NAMES = {"fp": "x29", "lr": "x30"}


def number(name: str) -> int:
    """Return the number by which instructions name a 64-bit register."""
    return EVERY_X86.index(name) if name in EVERY_X86 else int(name[1:])


def counters(isa: str) -> tuple[str, ...]:
    """Return the registers that may count iterations, first those that blocks use least."""
    if isa == "x86_64":
        return tuple(name for name in reversed(EVERY_X86) if name != "rsp")
    # x18 belongs to the platform, x29 and x30 are frame and return address.
    return tuple(f"x{n}" for n in range(28, -1, -1) if n != 18)


def used(isa: str, code: bytes) -> frozenset[str]:
    """Return the 64-bit names of the registers that code reads or writes, implied ones included."""
    return _used_x86(code) if isa == "x86_64" else _used_arm64(code)


@cache
def _full_names() -> dict[int, str]:
    return {getattr(iced.Register, name.upper()): name for name in EVERY_X86}


def full_name(register: "iced.Register_") -> str:
    """Return the 64-bit name of a register of iced, nothing where it is no general-purpose one."""
    return _full_names().get(iced.RegisterExt.full_register(register), "")


def _used_x86(code: bytes) -> frozenset[str]:
    info = iced.InstructionInfoFactory()
    found = set()
    for ins in iced.Decoder(64, code):
        for use in info.info(ins).used_registers():
            found.add(full_name(use.register))
    return frozenset(found - {""})


def _used_arm64(code: bytes) -> frozenset[str]:
    disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    disassembler.detail = True
    found = set()
    for ins in disassembler.disasm(code, 0):
        for register in (r for side in ins.regs_access() for r in side):
            name = ins.reg_name(register)
            name = _ARM64_NAMES.get(name, name)
            if name[0] in "wx" and name[1:].isdigit():
                found.add(f"x{name[1:]}")
    return frozenset(found)
