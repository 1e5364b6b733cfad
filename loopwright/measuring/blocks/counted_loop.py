"""Make a loop of a block: count its iterations in a register that it leaves alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.code import instructions
from loopwright.code.instructions import Flow, Instruction
from loopwright.errors import InputError
from loopwright.measuring.blocks import registers

_COUNTS_DOWN = {
    "x86_64": re.compile(r"(?:dec|sub)q?\s+(?:\$(?:0x)?1,\s*)?%(r\w+)"),
    "arm64": re.compile(r"subs?\s+(x\d+), \1, #(?:0x)?1"),
}
_UNTIL_ZERO = {"x86_64": re.compile("j(ne|nz)"), "arm64": re.compile(r"b\.ne|cbnz")}


@dataclass(frozen=True)
class CountedLoop:
    """One iteration of a loop, its branch included, and the register that counts the iterations."""

    code: bytes
    counter: str


def of_block(isa: str, code: bytes) -> CountedLoop:
    """Return a block as a loop.

    One that ends in `dec` and `jnz` of a register (arm64: `sub` and `cbnz`, or `subs` and `b.ne`)
    back to its start is one already; the pair is put behind any other. InputError where the block
    uses every register, or that one, or branches by something else.
    """
    body = instructions.decode(isa, code)
    own = _own_counter(isa, body)
    if own:
        if own in registers.used(isa, b"".join(i.code for i in body[:-2])):
            raise InputError(f"its own loop counts in {own}, which the block uses besides")
        return CountedLoop(code, own)
    if body[-1].flow in (Flow.BRANCH, Flow.JUMP) and body[-1].target == 0:
        raise InputError("it branches back for a number of iterations that is not known")
    used = registers.used(isa, code)
    free = [name for name in registers.counters(isa) if name not in used]
    if not free:
        raise InputError("it leaves no register to count the iterations of a loop in")
    return CountedLoop(code + closing(isa, free[0], len(code)), free[0])


def counts(isa: str, body: Sequence[Instruction]) -> bool:
    """Say whether a loop counts its iterations down in a register that it uses for nothing else."""
    own = _own_counter(isa, body)
    return own is not None and own not in registers.used(isa, b"".join(i.code for i in body[:-2]))


def _own_counter(isa: str, body: Sequence[Instruction]) -> str | None:
    """Return the register that a block counts its own iterations in, if that is how it ends."""
    if len(body) < 2 or body[-1].target != 0:
        return None
    found = _COUNTS_DOWN[isa].fullmatch(body[-2].text)
    return found[1] if found and _UNTIL_ZERO[isa].fullmatch(body[-1].mnemonic) else None


def closing(isa: str, register: str, length: int) -> bytes:
    """Return the code that counts down in a register and branches back over length bytes."""
    number = registers.number(register)
    if isa == "arm64":
        back = -(length + 4) // 4 & 0x7FFFF
        words = (0xD1000400 | number << 5 | number, 0xB5000000 | back << 5 | number)
        return b"".join(w.to_bytes(4, "little") for w in words)
    count = bytes([0x48 | number >> 3, 0xFF, 0xC8 | number & 7])
    short = -(length + len(count) + 2)
    if short >= -128:
        return count + b"\x75" + short.to_bytes(1, "little", signed=True)
    return count + b"\x0f\x85" + (short - 4).to_bytes(4, "little", signed=True)
