"""Machine code as the rest of loopwright sees it."""

import hashlib
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property


class Flow(Enum):
    """Where an instruction sends control."""

    NEXT = "next"
    JUMP = "jump"
    BRANCH = "branch"
    CALL = "call"
    RETURN = "return"
    INDIRECT = "indirect"


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction.

    address counts from the start of its code; text is GNU syntax (AT&T on x86); target is the
    address a direct branch goes to; read_bytes and written_bytes are what one execution moves
    (one element of a string instruction).
    """

    address: int
    code: bytes
    mnemonic: str
    text: str
    flow: Flow
    target: int | None
    read_bytes: int
    written_bytes: int
    string: bool

    @property
    def end(self) -> int:
        """Return the address behind the instruction."""
        return self.address + len(self.code)


@dataclass(frozen=True)
class Loop:
    """A loop that holds no other: from its head to the end of its backward branch.

    kind is "branch", or "string" for one repeated string instruction, whose bytes are those of
    one element. nested says that it stands in another loop.
    """

    kind: str
    instructions: tuple[Instruction, ...]
    nested: bool = False

    @property
    def start(self) -> int:
        """Return the address of the head."""
        return self.instructions[0].address

    @property
    def end(self) -> int:
        """Return the address behind the last instruction."""
        return self.instructions[-1].end

    @property
    def code(self) -> bytes:
        """Return the bytes of the loop."""
        return b"".join(i.code for i in self.instructions)

    @property
    def read_bytes(self) -> int:
        """Return the bytes loaded by one iteration."""
        return sum(i.read_bytes for i in self.instructions)

    @property
    def written_bytes(self) -> int:
        """Return the bytes stored by one iteration."""
        return sum(i.written_bytes for i in self.instructions)


@dataclass(frozen=True)
class ExceptionEntry:
    """One entry of an exception table: a fault at insn goes on at fixup (addresses).

    type is the kernel's name of how it handles the fault ("EX_TYPE_UACCESS"). It is no part of
    what is executed, and so of no hash that measurements are kept by.
    """

    insn: int
    fixup: int
    type: str = field(default="", repr=False)


@dataclass(frozen=True)
class Code:
    """A variant's linked code: text starts at address 0, nothing in it needs relocation.

    align is the alignment of its section in bytes: a linker puts text at any multiple of it.
    """

    isa: str
    text: bytes
    entry: int
    size: int
    instructions: tuple[Instruction, ...]
    symbols: dict[str, int]
    exceptions: tuple[ExceptionEntry, ...]
    loops: tuple[Loop, ...]
    align: int = 1

    @cached_property
    def sha256(self) -> str:
        """Return what tells this code from any other: text, entry and exception table, in hex."""
        return hashlib.sha256(self.text + repr((self.entry, self.exceptions)).encode()).hexdigest()
