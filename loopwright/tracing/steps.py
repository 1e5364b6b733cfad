"""Steps of one call of a routine: instructions in order, with branches and memory accesses."""

from dataclasses import dataclass

from loopwright.code.instructions import Instruction


@dataclass(frozen=True)
class Access:
    """One access to memory: of which buffer ("dst", "src", "stack"), from which byte of it on.

    Of a loop without a contract a buffer is named by the register that begins there, and is empty
    for memory elsewhere.

    address is where it lies; bytes is how much it moves: all of a repeated string instruction.
    """

    buffer: str
    offset: int
    address: int
    bytes: int

    def __str__(self) -> str:
        """Return it as a table shows it: "src+8"."""
        return f"{self.buffer}{self.offset:+d}" if self.buffer else f"{self.address:#x}"


@dataclass(frozen=True)
class Step:
    """One instruction as it was executed.

    taken is None for an instruction that always goes on. repeats is the count of a repeated string
    instruction, else 1. fault names the buffer that could not be accessed; the fixup comes next.
    """

    instruction: Instruction
    taken: bool | None = None
    repeats: int = 1
    load: Access | None = None
    store: Access | None = None
    fault: str = ""


@dataclass(frozen=True)
class Trace:
    """The steps of one call, from the routine's entry to its return.

    base is where the code's address 0 lies. returned has the contract's results by role.
    """

    base: int
    steps: tuple[Step, ...]
    returned: dict[str, int]
