"""What experiments need of an ISA besides forms: registers by their parts, known instructions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Pool:
    """Registers of a kind: which the instruction under test writes, which those beside it write.

    Nothing writes the constant ones. back are two that chains are closed through.
    """

    own: tuple[int, ...]
    others: tuple[int, ...]
    constant: tuple[int, ...]
    back: tuple[int, int]


class Kit(Protocol):
    """The registers that experiments of an ISA use, and instructions whose part is known.

    DISPATCHED is how copies that dispatch bounds are repeated, "loop" or "unrolled".
    """

    POOLS: Mapping[str, Pool]
    DISPATCHED: str

    def nop(self) -> bytes:
        """Return an instruction that does nothing."""
        ...

    def set_anew(self, kind: str, number: int) -> bytes:
        """Return what gives a register, or the flags, a value that depends on nothing written."""
        ...

    def carry(self, source: str, target: str, read: int, write: int) -> bytes:
        """Return an instruction that makes a value of one kind of a value of another.

        Numbers are of registers; those of flags do not count. What writes a register from flags
        reads that register, too.
        """
        ...
