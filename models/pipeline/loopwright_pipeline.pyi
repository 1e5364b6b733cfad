"""Types of the Python module that src/python.rs makes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

__all__ = [
    "SOURCES",
    "Core",
    "__version__",
    "arm64_forms",
    "forms",
    "loops",
    "mca",
    "outline",
    "parameters",
]

SOURCES: int  # CRC-32 of src/**/*.rs, in the order of their paths
__version__: str

@final
class Core:
    """A core of core.toml and instructions.csv, both given as text."""

    def __new__(
        cls,
        core_toml: str,
        instructions_csv: str,
        overrides: dict[str, str] | None = None,
    ) -> Core: ...
    @property
    def ports(self) -> str:
        """Characters that name the ports, in the order of the port lists of a result."""

    def predict(
        self,
        blocks: Sequence[tuple[bytes, int] | tuple[bytes, int, Sequence[tuple[int, int]] | None]],
        notion: str = "loop",
        bottleneck: bool = True,
        ports: bool = False,
        timeline: int = 0,
        count: int | None = None,
        destination: int | None = None,
        threads: int = 0,
    ) -> list[dict[str, Any]]:
        """Return a row for each block: code, code offset and, of a loop, the path of an iteration.

        README.md names the keys of a row.
        """

    def calls(
        self,
        requests: Sequence[tuple[bytes, int, bytes]],
        threads: int = 0,
    ) -> list[dict[str, Any]]:
        """Return a row for each call (code, its address mod 4096, steps); see README.md."""

    def at_offsets(
        self,
        loops: Sequence[tuple[bytes, Sequence[tuple[int, int]] | None]],
        threads: int = 0,
    ) -> tuple[bytes, dict[int, str]]:
        """Return the cycles an iteration of loops at every code offset; see README.md.

        These are 64 native doubles a loop, in order, for its first byte at each offset of a
        line: not a number where no code can lie, and of a loop without an answer. The dict says why
        those have none, by their number.
        """

def parameters() -> list[str]:
    """Return the dotted names of all parameters that an override may set."""

def forms(isa: str, blocks: Sequence[bytes]) -> list[list[str] | None]:
    """Return the forms of each block's instructions; None where one has no name in the tables."""

_Arm64Operand = tuple[int, bool, list[int], int, int, bool, bool]
_Arm64Field = tuple[int, int, int, bool]
_Arm64Access = tuple[int, bool, bool, bool, int, _Arm64Field | None]
_Arm64Form = tuple[str, int, bool, bool, list[_Arm64Operand], _Arm64Access | None]

def arm64_forms(allocated: Callable[[int], bool]) -> tuple[list[_Arm64Form], list[str]]:
    """Return the forms of AArch64 that compute in registers, load or store, and names of others.

    Each form is its name, a word of code, whether it reads and whether it writes the flags, its
    operands and what it accesses in memory. An operand is its label, whether it is a vector
    register, the lowest bits of the fields of five that name it, the highest register that they can
    name, how many it stands for from that on, whether it is read, and written. An access is its
    bytes, whether it is loaded, stored, whether the base is written, by how many bytes the word
    moves it on, and the displacement, if there is one: lowest bit, bits, bytes for each that it
    counts, whether it counts below zero. The word is one that allocated takes for an instruction;
    of the others it takes none.
    """

def outline(isa: str, blocks: Sequence[bytes]) -> list[int | tuple[bool, bool, list[str]]]:
    """Return for each block the first byte that starts no instruction, or what it shows.

    That is whether it ends in a direct branch, whether control stays straight in it, and the names
    of the extensions that it needs.
    """

def mca(arguments: Sequence[str], models: Path, host: str | None = None) -> tuple[int, str, str]:
    """Answer a command line of mca: exit code, text for standard output, lines for standard error.

    models is a folder with a folder for each core; host the id of this machine's core, the default
    of -mcpu.
    """

def loops(
    isa: str,
    code: bytes,
    starts: Sequence[int],
    ends: Sequence[int],
    entries: Sequence[int],
    data: Sequence[tuple[int, int]],
    address: int,
) -> tuple[list[tuple[list[tuple[int, int]], list[int], str]], int, int]:
    """Find the innermost loops of a section of code by its control flow; offsets count from it.

    All are sorted: starts are where routines begin, and parts of them that were moved elsewhere;
    ends where they end; entries where control may come in; data the stretches that hold no
    instructions. address is the section's. Returns for each loop the stretches of its likely path,
    the lowest first, the conditional branches on it that may leave it, and why it cannot be
    predicted: "" (it can), "calls", "repeats" (a string instruction), "indirect" (a jump),
    "elsewhere" (its likely path does not come back), "doubtful" (nothing leads there, beside bytes
    that are no instructions). Then how many loops hold another, and how many bytes start no
    instruction.
    """
