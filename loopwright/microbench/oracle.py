"""Machines that answer microbenchmarks: code in, cycles or a refusal out.

Answers are kept in a file, from which an interrupted run goes on and another machine replays them.
Simulated machines have noise with the distribution of the harness; loops whose branches the code
does not determine are simulated as calls, step by step.
"""

import fcntl
import hashlib
import json
import random
import struct
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopwright import files, microarchs, paths
from loopwright.code import binding, instructions
from loopwright.code.instructions import Flow, Instruction
from loopwright.errors import InputError, unknown
from loopwright.predicting.core_figures import TABLE

if TYPE_CHECKING:
    from loopwright_pipeline import Core


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


_BATCH = 200  # trials, seconds on hardware, after which answers are written
FORMAT = 2  # of the file; it counts changes of the format


class Recorded(Oracle):
    """A machine whose answers are kept in a file and reused."""

    def __init__(
        self,
        machine: Oracle,
        path: Path,
        progress: Callable[[int, float, int], None] | None = None,
    ) -> None:
        """Read the file's answers.

        InputError if they are another machine's, or another run writes them. progress is called
        after each batch: with the number of trials that the machine has answered so far, the
        seconds of the batch, and its number of disturbed trials.
        """
        super().__init__(*machine.identity)
        self._machine = machine
        self._timings: dict[str, Timing] = {}
        self._progress = progress
        self.asked = 0
        with files.writing(path):
            self._file = path.open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            advice = "let it end, or take another folder"
            raise InputError(f"another run writes {path}; {advice}") from None
        if path.stat().st_size:
            content = read_answers(path)
            self._timings = content.timings
            if content.head["fingerprint"] != self.fingerprint:
                raise InputError(
                    f"{path} holds answers of {content.head['fingerprint']}, and this is "
                    f"{self.fingerprint}; take another folder or remove it"
                )
            self._file.truncate(content.valid_bytes)
        else:
            with files.writing(path):
                self._line(**head(machine))
                self._file.flush()
        self.kept = len(self._timings)  # answers of an earlier run
        self._path = path

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial; the machine measures those without an answer."""
        missing = list({t.key: t for t in trials if t.key not in self._timings}.values())
        before = self.asked
        for start in range(0, len(missing), _BATCH):
            part = missing[start : start + _BATCH]
            began = time.monotonic()
            timings = self._machine.measure(part)
            seconds = time.monotonic() - began
            self._keep(part, timings)
            self.asked = before + start + len(part)
            if self._progress:
                self._progress(self.asked, seconds, sum(timing.transient for timing in timings))
        out = [self._timings[t.key] for t in trials]
        for trial in missing:
            if self._timings[trial.key].transient:
                del self._timings[trial.key]
        return out

    def _keep(self, trials: Sequence[Trial], timings: Sequence[Timing]) -> None:
        with files.writing(self._path):
            for trial, timing in zip(trials, timings, strict=True):
                self._timings[trial.key] = timing
                if not timing.transient:
                    self._line(**answer(trial.key, timing))
            self._file.flush()

    def close(self) -> None:
        """Mark the file as complete."""
        with files.writing(self._path):
            self._line(end=len(self._timings))
            self._file.close()

    def _line(self, **fields: Any) -> None:
        self._file.write(json.dumps(fields) + "\n")


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
    """Content of a file of answers: its head, the timings by the key of their trial, its size.

    valid_bytes are those of head and answers, without the mark of the end, or a last line that was
    cut short. complete says that the run that wrote the file finished.
    """

    head: dict[str, Any]
    timings: dict[str, Timing]
    valid_bytes: int
    complete: bool


def read_answers(path: Path) -> Content:
    """Read a file of answers, without a last line that was cut short.

    InputError if the file has other content, or mixes two machines.
    """
    timings: dict[str, Timing] = {}
    head: dict[str, Any] = {}
    valid_bytes, end = 0, None
    lines = files.content(path).splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        invalid = InputError(f"{path}: line {number} is not an answer of a machine")
        try:
            record = json.loads(line)
        except ValueError:
            if 1 < number == len(lines):
                break
            raise invalid from None
        if not isinstance(record, dict) or end is not None:
            raise invalid
        if "end" in record:
            end = record["end"]
            continue
        if "fingerprint" in record:
            if head and record != head:
                raise InputError(f"{path} mixes two machines: line {number} begins another")
            head = record
            if head.get("format") != FORMAT:
                raise InputError(f"{path} has another format than this version writes: {FORMAT}")
        elif "trial" in record and head:
            figures = (record["cycles"], record["uncertainty"], record["refused"])
            timings[record["trial"]] = Timing(*figures)
        else:
            raise invalid
        valid_bytes += len(line)
    if not head:
        raise InputError(f"{path} does not say whose answers it holds")
    return Content(head, timings, valid_bytes, end == len(timings))


_IDENTITY = ("isa", "machine", "fingerprint", "features", "host")  # fields of a file's head
_NO_ANSWER = Timing(None, refused="the file has no answer for it")


class Replay(Oracle):
    """Answers of another machine: its timings by the key of their trial.

    Trials without an answer are refused; missing has their keys.
    """

    def __init__(self, path: Path) -> None:
        """Read a file that a run wrote; InputError if that run did not finish."""
        content = read_answers(path)
        if not content.complete:
            raise InputError(
                f"{path} was cut short; let `calibrate` end on the machine that it comes from"
            )
        isa, name, fingerprint, features, host = (content.head[key] for key in _IDENTITY)
        super().__init__(isa, name, fingerprint, frozenset(features), host)
        self.timings = content.timings
        self.missing: set[str] = set()

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return the answer of each trial from the file."""
        self.missing |= {trial.key for trial in trials} - self.timings.keys()
        return [self.timings.get(trial.key, _NO_ANSWER) for trial in trials]


_NOWHERE = -1  # address of an instruction without an access
# A predictor with a history of one branch mispredicts where ways are balanced.
_FORGETS = {"mispredict.history": "1"}


class IterationSimulator:
    """Simulator of loops as calls, each of whose steps is an executed instruction."""

    def __init__(self, isa: str, toml: str, table: str, settings: Mapping[str, str]) -> None:
        """Take the texts of a core, and parameters that replace its own."""
        self._isa, self._texts, self._settings = isa, (toml, table), settings

    @cached_property
    def _predicting(self) -> "Core":
        return binding.Core(*self._texts, {**self._settings})

    @cached_property
    def _forgetful(self) -> "Core":
        return binding.Core(*self._texts, {**self._settings, **_FORGETS})

    def measure(self, trials: Sequence[tuple[Trial, Run]]) -> list[Timing]:
        """Return the cycles of an iteration of each loop, or a refusal."""
        timings: dict[int, Timing] = {}
        for inner in (False, True):
            chosen = [n for n, (_, run) in enumerate(trials) if (run.inner_iterations > 1) == inner]
            if chosen:
                core = self._predicting if inner else self._forgetful
                answered = self._timings(core, [trials[n] for n in chosen])
                timings |= dict(zip(chosen, answered, strict=True))
        return [timings[n] for n in range(len(trials))]

    def _timings(self, core: "Core", trials: Sequence[tuple[Trial, Run]]) -> Iterator[Timing]:
        calls = [(t.code, t.offset, _steps(self._isa, t.code, run)) for t, run in trials]
        for (_, run), row in zip(trials, core.calls(calls), strict=True):
            cycles = row.get("mispredicted")
            if isinstance(cycles, float):
                yield Timing(cycles / len(run.ways))
            else:
                yield Timing(None, refused=str(row["error"]))


# Many candidate cores simulate the same loops, one after the other.
@lru_cache(maxsize=512)
def _steps(isa: str, code: bytes, run: Run) -> bytes:
    """Return the steps of all iterations of a loop, as the simulator of calls takes them."""
    return b"".join(_walk(isa, code, run))


def _walk(isa: str, code: bytes, run: Run) -> Iterator[bytes]:
    """Yield the steps of all iterations."""
    by_address = {ins.address: ins for ins in instructions.decode(isa, code)}
    for ways in run.ways:
        ways_left = iter(ways)
        inner_left = run.inner_iterations
        return_addresses: list[int] = []
        at = 0
        while at in by_address:
            ins = by_address[at]
            load = run.load if ins.read_bytes else _NOWHERE
            store = run.store if ins.written_bytes else _NOWHERE
            yield struct.pack("<IIqq", at, run.repeats if ins.string else 1, load, store)
            if ins.flow is Flow.CALL:
                return_addresses.append(ins.end)
            if ins.flow is Flow.RETURN and return_addresses:
                at = return_addresses.pop()
            elif ins.target is not None and _jumps(ins, ways_left):
                at = ins.target
            elif ins.target and ins.target < ins.end and inner_left > 1:
                inner_left, at = inner_left - 1, ins.target
            else:
                at = ins.end


def _jumps(ins: Instruction, ways_left: Iterator[bool]) -> bool:
    """True if an instruction goes on to its target; ways_left has the ways of further branches."""
    if ins.flow is Flow.BRANCH:
        return ins.target is not None and ins.target >= ins.end and next(ways_left, False)
    return ins.flow in (Flow.CALL, Flow.JUMP)


NOISE = 0.003  # relative, one standard deviation, as between two runs of the harness
REFUSED = 0.01  # share of tries that the harness gives up because of interrupts
_DISTURBED = "disturbed: too few samples were accepted"


class Simulated(Oracle):
    """A known core behind the interface of hardware.

    Noise depends on the seed, the trial and the number of its tries, so the order of trials does
    not matter.
    """

    def __init__(
        self,
        core: str,
        overrides: Mapping[str, str] | None = None,
        *,
        noise: float = NOISE,
        seed: int = 1,
    ) -> None:
        """Take a core of models/ and parameters that replace its own, by dotted name."""
        microarch = microarchs.load(core)
        self._noise, self._seed = noise, seed
        self._tries: Counter[str] = Counter()
        settings = {name: str(value) for name, value in (overrides or {}).items()}
        allowed = [*binding.parameters(), "front_end"]
        for name in settings:
            if name not in allowed:
                raise unknown("parameter", name, allowed)
        folder = paths.models_root() / core
        try:
            toml, table = ((folder / name).read_text() for name in ("core.toml", TABLE))
            self._core = binding.Core(toml, table, settings)
            self._iterations = IterationSimulator(microarch.isa, toml, table, settings)
        except FileNotFoundError:
            raise InputError(f"simulated:{core}: the simulator has no figures for it") from None
        except ValueError as error:
            raise InputError(f"simulated:{core}: {error}") from None
        text = repr((binding.version(), toml, table, sorted(settings.items()), noise, seed))
        name = f"simulated:{core}"
        fingerprint = f"{name} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
        super().__init__(microarch.isa, name, fingerprint, microarch.features, {})

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Simulate each trial; a trial without figures is refused for good."""
        exact = answers(self._core, trials, self._iterations)
        return [self._timing(*pair) for pair in zip(trials, exact, strict=True)]

    def _timing(self, trial: Trial, exact: Timing) -> Timing:
        cycles = exact.cycles
        if cycles is None:
            return exact
        if not self._noise:
            return Timing(cycles, 1e-4 * cycles)
        self._tries[trial.key] += 1
        text = f"{self._seed} {trial.key} {self._tries[trial.key]}"
        draw = random.Random(hashlib.sha256(text.encode()).digest())
        if draw.random() < REFUSED:
            return Timing(None, refused=_DISTURBED, transient=True)
        return Timing(cycles * (1 + draw.gauss(0, self._noise)), self._noise * cycles)


def answers(
    core: "Core", trials: Sequence[Trial], iterations: IterationSimulator | None = None
) -> list[Timing]:
    """Return the cycles of each trial on a simulated core, or a refusal.

    iterations simulates the same core, for trials that describe their iterations.
    """
    out = [Timing(None)] * len(trials)
    described = {n: (t, t.run) for n, t in enumerate(trials) if iterations and t.run}
    for notion, chosen in by_notion(trials):
        plain = [n for n in chosen if n not in described]
        blocks = [(trials[n].code, trials[n].offset) for n in plain]
        rows = core.predict(blocks, notion=notion, bottleneck=False)
        for n, row in zip(plain, rows, strict=True):
            cycles = row["cycles"]
            answered = isinstance(cycles, float)
            out[n] = Timing(cycles) if answered else Timing(None, refused=str(row["error"]))
    if iterations and described:
        for n, timing in zip(described, iterations.measure(list(described.values())), strict=True):
            out[n] = timing
    return out


class CandidateCore(Oracle):
    """A core given by the texts of its files, simulated without noise."""

    def __init__(
        self,
        machine: Machine,
        toml: str,
        table: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Take the texts of a core learned on a machine, and parameters that replace its own."""
        super().__init__(*machine.identity)
        overrides = dict(settings or {})
        self._core = binding.Core(toml, table, overrides)
        self._iterations = IterationSimulator(self.isa, toml, table, overrides)

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        return answers(self._core, trials, self._iterations)
