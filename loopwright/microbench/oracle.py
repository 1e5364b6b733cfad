"""Interface of a machine to microbenchmarks: code in, cycles or a refusal out."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

COUNTER = {"x86_64": "r15", "arm64": "x28"}  # register that counts the iterations of all loops


@dataclass(frozen=True)
class Run:
    """Behaviour of a loop's iterations that its code does not determine, for simulated machines.

    ways has for each iteration whether its forward branches are taken, in their order; predictors
    cannot know it. repeats is the count of its string instruction. load and store are the addresses
    from which memory is read and written. inner_iterations are those of an inner loop; where that
    is not 1, the exit is predicted as far as the history reaches.
    """

    ways: tuple[tuple[bool, ...], ...] = ((),)
    repeats: int = 1
    load: int = 0
    store: int = 0
    inner_iterations: int = 1


@dataclass(frozen=True)
class Trial:
    """Code to time: one iteration of a loop with its branch, or straight code to be copied.

    notion is "loop" or "unrolled". offset is the code offset. look tells another measurement of the
    same code from the first. run is for simulated machines and no part of a trial's identity. x87
    says that the code uses the x87 stack, which is then set up.
    """

    code: bytes
    notion: str = "loop"
    offset: int = 0
    run: Run | None = field(default=None, compare=False)
    look: int = 0
    x87: bool = field(default=False, compare=False)

    @property
    def key(self) -> str:
        """Return a hash that identifies the trial."""
        text = f"{self.notion}@{self.offset}:{self.code.hex()}"
        text += f"#{self.look}" if self.look else ""
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Timing:
    """Cycles of a trial and their uncertainty, or the reason for a refusal.

    transient says that the refusal is due to a temporary disturbance: another try may succeed.
    """

    cycles: float | None
    uncertainty: float = 0.0
    refused: str = ""
    transient: bool = False


def by_notion(trials: Sequence[Trial]) -> Iterator[tuple[str, list[int]]]:
    """Yield each prediction kind with the numbers of its trials."""
    for notion in sorted({trial.notion for trial in trials}):
        yield notion, [n for n, trial in enumerate(trials) if trial.notion == notion]


class Known(Protocol):
    """Identity of a machine, present or known by its answers alone."""

    @property
    def isa(self) -> str:
        """Name of the instruction set."""
        ...

    @property
    def name(self) -> str:
        """Name of the machine."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash that identifies the machine: answers of two machines are never mixed."""
        ...

    @property
    def features(self) -> frozenset[str]:
        """Extensions of the machine, as /proc/cpuinfo names them."""
        ...

    @property
    def host(self) -> Mapping[str, Any]:
        """Table [host] of its core.toml, by which machines are recognised."""
        ...


@dataclass(frozen=True)
class Elsewhere:
    """A machine that is not present, as described by a file or folder from it."""

    isa: str
    name: str
    fingerprint: str
    features: frozenset[str]
    host: Mapping[str, Any]


class Oracle(Known, Protocol):
    """A machine that answers trials."""

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial, in order."""
        ...
