"""Where code stands, so that its main loop starts at a code offset."""

from dataclasses import dataclass
from typing import Self

from loopwright.code import loops
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Contract

LINE = 64  # bytes of a cache line, which code offsets are counted in


@dataclass(frozen=True)
class Placement:
    """Where code stands: its text shift bytes behind a 64-byte boundary, its loop at offset."""

    shift: int
    offset: int

    @classmethod
    def of(cls, code: Code, contract: Contract, offset: int | None) -> Self:
        """Return the placement that brings the main loop, or else the entry, to an offset."""
        choice = loops.choose(code.loops, contract, code.symbols)
        call = choice is None or contract.unit == "call"
        start = code.entry if call or choice is None else choice.loop.start
        if offset is None:
            return cls(0, start % LINE)
        if not 0 <= offset < LINE:
            raise InputError(f"offset {offset} is not from 0 to 63")
        if code.isa == "arm64" and offset % 4:
            raise InputError(f"offset {offset}: arm64 code stands at multiples of 4")
        return cls((offset - start) % LINE, offset)


def offsets(code: Code, contract: Contract, *, inlined: bool = False) -> tuple[int, ...]:
    """Return the offsets of the main loop, or else of the entry, that a linker may give code.

    A function starts at any multiple of its section's alignment; inlined code at any instruction.
    """
    step = (4 if code.isa == "arm64" else 1) if inlined else min(code.align, LINE)
    start = Placement.of(code, contract, None).offset
    return tuple(sorted((start + shift) % LINE for shift in range(0, LINE, step)))
