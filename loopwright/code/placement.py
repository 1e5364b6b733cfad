"""Where code stands, so that its main loop starts at a code offset."""

from dataclasses import dataclass
from typing import Self

from loopwright.code import loops
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Contract


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
            return cls(0, start % 64)
        if not 0 <= offset < 64:
            raise InputError(f"offset {offset} is not from 0 to 63")
        if code.isa == "arm64" and offset % 4:
            raise InputError(f"offset {offset}: arm64 code stands at multiples of 4")
        return cls((offset - start) % 64, offset)
