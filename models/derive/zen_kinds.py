"""One form of an x86 instruction with what was measured of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from inputs import Record, Summary
from table import Form

VECTORS = ("x", "y", "z", "mm", "k")
GENERAL = ("r8", "r8h", "r16", "r32", "r64")


@dataclass
class Kind:
    """A form, its record with operands and latencies of pairs, and summaries.

    The record may be that of an earlier core, whose summary is `pairs`.
    """

    mnemonic: str
    operands: list[str]
    record: Record
    summary: Summary
    pairs: Summary
    # {k} where a mask keeps elements of the result, {kz} where it clears them.
    mask: str = ""

    @property
    def form(self) -> Form:
        """Return the name of the form."""
        first, *rest = self.operands or [""]
        return Form(self.mnemonic, ",".join([first + self.mask, *rest]))

    @cached_property
    def base(self) -> str:
        """Return the mnemonic without lock and parts of an address."""
        return self.mnemonic.split(".")[0]

    @property
    def locked(self) -> bool:
        """Say whether it is a locked operation; exchanges with memory always are."""
        exchanges = self.base == "xchg" and self.writes
        return self.mnemonic.endswith(".lock") or exchanges

    @cached_property
    def uops(self) -> int:
        """Return the counted uops."""
        counted = self.summary.uops or self.record["uops"] or 1
        return int(float(counted))

    @cached_property
    def vector(self) -> bool:
        """Say whether a vector register takes part."""
        return any(o in VECTORS for o in self.operands)

    @cached_property
    def wide(self) -> bool:
        """Say whether it computes with 512 bits or masks."""
        return any(o in ("z", "k", "m512") for o in self.operands)

    @cached_property
    def from_general(self) -> bool:
        """Say whether a vector is made from a general-purpose register."""
        first, *rest = self.operands or [""]
        return first in VECTORS and any(o in GENERAL for o in rest)

    def _memory(self, *roles: str) -> bool:
        if self.base in ("lea", "nop"):
            return False
        return any(o.get("mem_role") in roles for o in self.record["operands"])

    @cached_property
    def reads(self) -> bool:
        """Say whether it loads."""
        return self._memory("read", "read_write")

    @cached_property
    def writes(self) -> bool:
        """Say whether it stores."""
        return self._memory("write", "read_write")

    @property
    def memory(self) -> bool:
        """Say whether it accesses memory."""
        return self.reads or self.writes
