"""Machines that answer microbenchmarks: code in, cycles or a refusal out.

Answers are kept in a file, from which an interrupted run goes on and another machine replays them.
"""

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopwright import files
from loopwright.errors import InputError

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


@dataclass(eq=False)
class Machine:
    """A machine, here or known by its answers alone.

    fingerprint identifies it: answers of two machines are never mixed. features are its extensions
    as /proc/cpuinfo names them; host is the table [host] of its core.toml, by which machines are
    recognised.
    """

    isa: str
    name: str
    fingerprint: str
    features: frozenset[str]
    host: Mapping[str, Any]

    @property
    def identity(self) -> tuple[str, str, str, frozenset[str], Mapping[str, Any]]:
        """All of these facts."""
        return self.isa, self.name, self.fingerprint, self.features, self.host


class Oracle(Machine, ABC):
    """A machine that answers trials."""

    @abstractmethod
    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial, in order."""


_KEPT = 200  # trials, seconds on hardware, after which answers are written
FORMAT = 2  # of the file; it counts changes of the format


class Recorded(Oracle):
    """A machine whose answers are kept in a file and reused."""

    def __init__(
        self,
        machine: Oracle,
        path: Path,
        progress: Callable[[int, float, int], None] | None = None,
    ) -> None:
        """Read the file's answers; InputError if they are another machine's.

        progress is called with the number of trials the machine has answered since, and of the last
        batch the seconds and the number of disturbed trials.
        """
        super().__init__(*machine.identity)
        self._machine = machine
        self._known: dict[str, Timing] = {}
        self._progress = progress
        self.asked = 0
        if path.exists():
            content = read_answers(path)
            self._known = content.known
            if content.head["fingerprint"] != self.fingerprint:
                raise InputError(
                    f"{path} holds answers of {content.head['fingerprint']}, and this is "
                    f"{self.fingerprint}; take another folder or remove it"
                )
            with path.open("r+b") as file:
                file.truncate(content.whole)
        else:
            files.written(path, json.dumps(head(machine)) + "\n")
        self.kept = len(self._known)  # answers of an earlier run
        self._path = path
        self._file = path.open("a")

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial; the machine measures those without an answer."""
        missing = list({t.key: t for t in trials if t.key not in self._known}.values())
        before = self.asked
        for start in range(0, len(missing), _KEPT):
            part = missing[start : start + _KEPT]
            began = time.monotonic()
            timings = self._machine.measure(part)
            seconds = time.monotonic() - began
            self._keep(part, timings)
            self.asked = before + start + len(part)
            if self._progress:
                self._progress(self.asked, seconds, sum(one.transient for one in timings))
        out = [self._known[t.key] for t in trials]
        for trial in missing:
            if self._known[trial.key].transient:
                del self._known[trial.key]
        return out

    def _keep(self, trials: Sequence[Trial], timings: Sequence[Timing]) -> None:
        with files.writing(self._path):
            for trial, timing in zip(trials, timings, strict=True):
                self._known[trial.key] = timing
                if not timing.transient:
                    self._line(**answer(trial.key, timing))
            self._file.flush()

    def close(self) -> None:
        """Mark the file as complete."""
        with files.writing(self._path):
            self._line(end=len(self._known))
            self._file.close()

    def _line(self, **said: Any) -> None:
        self._file.write(json.dumps(said) + "\n")


def head(machine: Machine) -> dict[str, Any]:
    """Return the first line of a file of answers, the identity of the machine."""
    return {
        "format": FORMAT,
        "isa": machine.isa,
        "machine": machine.name,
        "fingerprint": machine.fingerprint,
        "features": sorted(machine.features),
        "host": dict(machine.host),
    }


def answer(key: str, timing: Timing) -> dict[str, Any]:
    """Return the line with the answer to a trial, by its key."""
    return {
        "trial": key,
        "cycles": timing.cycles,
        "uncertainty": timing.uncertainty,
        "refused": timing.refused,
    }


@dataclass(frozen=True)
class Content:
    """Content of a file of answers: head, answers, and the number of valid bytes.

    complete says that the run that wrote it finished.
    """

    head: dict[str, Any]
    known: dict[str, Timing]
    whole: int
    complete: bool


def read_answers(path: Path) -> Content:
    """Read a file of answers, without a last line that was cut short.

    InputError if the file has other content, or mixes two machines.
    """
    known: dict[str, Timing] = {}
    head: dict[str, Any] = {}
    whole, end = 0, None
    lines = files.content(path).splitlines(keepends=True)
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
        except ValueError:
            if number and number == len(lines) - 1:
                break
            raise InputError(f"{path}: line {number + 1} is not an answer of a machine") from None
        if not isinstance(record, dict) or end is not None:
            raise InputError(f"{path}: line {number + 1} is not an answer of a machine")
        if "end" in record:
            end = record["end"]
            continue
        if "fingerprint" in record:
            if head and record != head:
                raise InputError(f"{path} mixes two machines: line {number + 1} begins another")
            head = record
            if head.get("format") != FORMAT:
                raise InputError(f"{path} has another format than this version writes: {FORMAT}")
        elif "trial" in record and head:
            known[record["trial"]] = Timing(
                record["cycles"], record["uncertainty"], record["refused"]
            )
        else:
            raise InputError(f"{path}: line {number + 1} is not an answer of a machine")
        whole += len(line)
    if not head:
        raise InputError(f"{path} does not say whose answers it holds")
    return Content(head, known, whole, end == len(known))


_UNKNOWN = Timing(None, refused="the file has no answer for it")


class Replay(Oracle):
    """Answers of another machine; trials without an answer are refused and kept in missing."""

    def __init__(self, path: Path) -> None:
        """Read a file that a run wrote; InputError if that run did not finish."""
        content = read_answers(path)
        if not content.complete:
            raise InputError(
                f"{path} was cut short; let `calibrate` end on the machine that it comes from"
            )
        head = content.head
        super().__init__(
            head["isa"],
            head["machine"],
            head["fingerprint"],
            frozenset(head["features"]),
            head["host"],
        )
        self.known = content.known
        self.missing: set[str] = set()

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return the answer of each trial from the file."""
        self.missing |= {trial.key for trial in trials} - self.known.keys()
        return [self.known.get(trial.key, _UNKNOWN) for trial in trials]
