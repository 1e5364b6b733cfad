"""What experiments know of a machine: code in, cycles or a refusal out."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


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
        """Return a hash that tells it from any other trial."""
        said = f"{self.notion}@{self.offset}:{self.code.hex()}"
        return hashlib.sha256(said.encode()).hexdigest()[:24]


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
    /proc/cpuinfo. host is the [host] table of its core.toml, by which machines are recognised.
    """

    isa: str
    name: str
    fingerprint: str
    features: frozenset[str]
    host: Mapping[str, Any]

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial, in order."""
        ...
