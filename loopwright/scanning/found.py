"""What a scan finds in a binary: its innermost loops, and how many it leaves out and why."""

import re
from collections import Counter
from dataclasses import dataclass, field

# Such names may come and go with any change of the source.
_ADDED = re.compile(r"(\.(constprop|isra|part|cold|llvm|lto_priv)(\.\d+)*)+$")

_APART = 1 << 16  # bytes: no routine as compilers lay them out is as long


@dataclass(frozen=True, slots=True)
class ScannedLoop:
    """A loop that holds no other, as its likely path runs.

    file is the member of an archive, else "". address is that of its first byte, the lowest of its
    path, which lies at the offset first of text: bytes that many loops share. path are the
    stretches that an iteration executes, in order, as (start, end) in code: the first begins at 0,
    the last ends in the branch that goes back there; a loop without jumps in it has one, all of
    code. function is the routine that it lies in ("" where none is known) and into how many bytes
    behind its start. line is "file:line" of its first byte, or "". exits are the addresses of the
    conditional branches on the path, but for the last, that leave the path when they go the other
    way: forward ones are taken to fall through. kind is "block" (no other branch), "exits" (one
    stretch with exits) or "path" (several stretches).
    """

    file: str
    section: str
    isa: str
    address: int
    text: bytes = field(repr=False)
    path: tuple[tuple[int, int], ...]
    function: str = ""
    into: int = 0
    line: str = ""
    exits: tuple[int, ...] = ()
    kind: str = "block"
    first: int = 0

    @property
    def length(self) -> int:
        """Return its bytes from the first to the end of the path's last stretch in memory."""
        return max(end for _, end in self.path)

    @property
    def code(self) -> bytes:
        """Return all of these bytes."""
        return self.text[self.first : self.first + self.length]

    @property
    def split(self) -> bool:
        """Say whether its parts lie in regions of the binary that a linker places on their own."""
        return self.length > _APART

    @property
    def offset(self) -> int:
        """Return its code offset: the address of its first byte, mod 64."""
        return self.address % 64

    @property
    def executed(self) -> bytes:
        """Return the instructions of an iteration, one behind another, without what lies between.

        Branches in it keep their distances: of several stretches it shows what runs, not where.
        """
        at = self.first
        return b"".join(self.text[at + start : at + end] for start, end in self.path)

    @property
    def end(self) -> int:
        """Return the address behind its last byte."""
        return self.address + self.length

    @property
    def written(self) -> str:
        """Return its function as the source names it, without what a compiler adds to copies."""
        return _ADDED.sub("", self.function)

    @property
    def where(self) -> str:
        """Return function and offset in it, or else the address."""
        if not self.function:
            return f"{self.address:#x}"
        return f"{self.function}+{self.into:#x}" if self.into else self.function


@dataclass
class Found:
    """The loops of a file, and counts of what was left out.

    outer are loops that hold others, calling those whose likely path calls. refused counts the
    others that no block can be made of, by the reason. lost are bytes of code that are no
    instructions.
    """

    loops: list[ScannedLoop] = field(default_factory=list)
    outer: int = 0
    calling: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    @property
    def innermost(self) -> int:
        """Return how many loops hold no other."""
        return len(self.loops) + self.calling + self.refused.total()
