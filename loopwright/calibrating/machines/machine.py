"""What experiments know of a machine: code in, cycles or a refusal out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Trial:
    """Code to time: one trip of a loop with its branch, or copies that stand back to back.

    notion is "loop" or "unrolled"; offset is the address of its first byte mod 64.
    """

    code: bytes
    notion: str = "loop"
    offset: int = 0

    @property
    def key(self) -> str:
        """Return what tells it from any other trial."""
        return f"{self.notion}@{self.offset}:{self.code.hex()}"


@dataclass(frozen=True)
class Timing:
    """Cycles of a trial and their uncertainty, or why there are none.

    passing says that the refusal is of the moment: another try may be answered.
    """

    cycles: float | None
    uncertainty: float = 0.0
    refused: str = ""
    passing: bool = False


class Machine(Protocol):
    """A machine that can be experimented on.

    fingerprint tells it from any other: answers of two are never mixed. features are named as in
    /proc/cpuinfo.
    """

    isa: str
    name: str
    fingerprint: str
    features: frozenset[str]

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial, in order."""
        ...
