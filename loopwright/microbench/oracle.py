"""The interface of a machine to experiments: code in, cycles or a refusal out."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

COUNTER = {"x86_64": "r15", "arm64": "x28"}  # counts the iterations of all loops


@dataclass(frozen=True)
class Run:
    """Behaviour of a loop's iterations that its code alone does not say; hardware needs none of it.

    ways has for each iteration whether its branches forwards are taken, in their order, as what
    predicts them cannot know; repeats are of its string instruction, which reads and writes memory
    from the addresses load and store on, as all of the iteration does. turns are the
    iterations of a loop inside of it; where that is not 1, its end is predicted if history allows.
    """

    ways: tuple[tuple[bool, ...], ...] = ((),)
    repeats: int = 1
    load: int = 0
    store: int = 0
    turns: int = 1


@dataclass(frozen=True)
class Trial:
    """Code to time: one iteration of a loop with its branch, or copies that stand back to back.

    notion is "loop" or "unrolled"; offset is the address of its first byte mod 64. look tells a
    further try at the same code from the first. run is for those that simulate, and no part of
    what tells a trial from others. x87 says that the code uses that stack, which is set up then.
    """

    code: bytes
    notion: str = "loop"
    offset: int = 0
    run: Run | None = field(default=None, compare=False)
    look: int = 0
    x87: bool = field(default=False, compare=False)

    @property
    def key(self) -> str:
        """Return a hash that tells it from any other trial."""
        said = f"{self.notion}@{self.offset}:{self.code.hex()}"
        said += f"#{self.look}" if self.look else ""
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


def by_notion(trials: Sequence[Trial]) -> Iterator[tuple[str, list[int]]]:
    """Yield each notion that is asked for, with the numbers of its trials."""
    for notion in sorted({trial.notion for trial in trials}):
        yield notion, [n for n, trial in enumerate(trials) if trial.notion == notion]


class Known(Protocol):
    """Identity of a machine that is here, or of which only answers are."""

    @property
    def isa(self) -> str:
        """The name of its instruction set."""
        ...

    @property
    def name(self) -> str:
        """Name of the machine."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash that tells the machine from any other: answers of two are never mixed."""
        ...

    @property
    def features(self) -> frozenset[str]:
        """The extensions that it has, as /proc/cpuinfo names them."""
        ...

    @property
    def host(self) -> Mapping[str, Any]:
        """The [host] table of its core.toml, by which machines are recognised."""
        ...


@dataclass(frozen=True)
class Elsewhere:
    """A machine that is not here, as a file or a folder from it describes it."""

    isa: str
    name: str
    fingerprint: str
    features: frozenset[str]
    host: Mapping[str, Any]


class Oracle(Known, Protocol):
    """A machine that can be experimented on."""

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial, in order."""
        ...
