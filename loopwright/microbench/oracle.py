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
        """Read the file's answers; InputError if another machine's, or another run writes them.

        progress is called with the number of trials the machine has answered since, and of the last
        batch the seconds and the number of disturbed trials.
        """
        super().__init__(*machine.identity)
        self._machine = machine
        self._known: dict[str, Timing] = {}
        self._progress = progress
        self.asked = 0
        with files.writing(path):
            self._file = path.open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another run writes {path}; let it end, or take another folder"
            ) from None
        if path.stat().st_size:
            content = read_answers(path)
            self._known = content.known
            if content.head["fingerprint"] != self.fingerprint:
                raise InputError(
                    f"{path} holds answers of {content.head['fingerprint']}, and this is "
                    f"{self.fingerprint}; take another folder or remove it"
                )
            self._file.truncate(content.whole)
        else:
            with files.writing(path):
                self._line(**head(machine))
                self._file.flush()
        self.kept = len(self._known)  # answers of an earlier run
        self._path = path

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


_NOWHERE = -1  # address of an instruction without an access
# A predictor with a history of one branch mispredicts where ways are balanced.
_FORGETS = {"mispredict.history": "1"}


class Iterations:
    """Simulator of loops as calls, whose steps are the executed instructions."""

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
        found: dict[int, Timing] = {}
        for looping in (False, True):
            numbers = [
                n for n, (_, run) in enumerate(trials) if (run.inner_iterations > 1) == looping
            ]
            if numbers:
                core = self._predicting if looping else self._forgetful
                timings = self._timings(core, [trials[n] for n in numbers])
                found |= dict(zip(numbers, timings, strict=True))
        return [found[n] for n in range(len(trials))]

    def _timings(self, core: "Core", trials: Sequence[tuple[Trial, Run]]) -> Iterator[Timing]:
        asked = [(one.code, one.offset, _steps(self._isa, one.code, run)) for one, run in trials]
        for (_, run), row in zip(trials, core.calls(asked), strict=True):
            cycles = row.get("mispredicted")
            if isinstance(cycles, float):
                yield Timing(cycles / len(run.ways))
            else:
                yield Timing(None, refused=str(row["error"]))


# Many candidate cores simulate the same loops, one after the other.
@lru_cache(maxsize=512)
def _steps(isa: str, code: bytes, run: Run) -> bytes:
    """Return the steps of all iterations."""
    return b"".join(_walk(isa, code, run))


def _walk(isa: str, code: bytes, run: Run) -> Iterator[bytes]:
    """Yield the steps of all iterations."""
    body = {one.address: one for one in instructions.decode(isa, code)}
    for ways in run.ways:
        left = iter(ways)
        turns = run.inner_iterations
        back: list[int] = []  # return addresses
        at = 0
        while at in body:
            one = body[at]
            load = run.load if one.read_bytes else _NOWHERE
            store = run.store if one.written_bytes else _NOWHERE
            yield struct.pack("<IIqq", at, run.repeats if one.string else 1, load, store)
            if one.flow is Flow.CALL:
                back.append(one.end)
            if one.flow is Flow.RETURN and back:
                at = back.pop()
            elif one.target is not None and _goes(one, left):
                at = one.target
            elif one.target and one.target < one.end and turns > 1:
                turns, at = turns - 1, one.target
            else:
                at = one.end


def _goes(one: Instruction, left: Iterator[bool]) -> bool:
    """True if an instruction branches to its target; left has the ways of branches."""
    if one.flow is Flow.BRANCH:
        return one.target is not None and one.target >= one.end and next(left, False)
    return one.flow in (Flow.CALL, Flow.JUMP)


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
        known = microarchs.load(core)
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
            self._iterations = Iterations(known.isa, toml, table, settings)
        except FileNotFoundError:
            raise InputError(f"simulated:{core}: the simulator has no figures for it") from None
        except ValueError as error:
            raise InputError(f"simulated:{core}: {error}") from None
        text = repr((binding.version(), toml, table, sorted(settings.items()), noise, seed))
        name = f"simulated:{core}"
        fingerprint = f"{name} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
        super().__init__(known.isa, name, fingerprint, known.features, {})

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
    core: "Core", trials: Sequence[Trial], iterations: Iterations | None = None
) -> list[Timing]:
    """Return the cycles of each trial on a simulated core, or a refusal.

    iterations simulates the same core, for trials that describe their iterations.
    """
    out = [Timing(None)] * len(trials)
    runs = {n: (t, t.run) for n, t in enumerate(trials) if iterations and t.run}
    for notion, chosen in by_notion(trials):
        plain = [n for n in chosen if n not in runs]
        asked = [(trials[n].code, trials[n].offset) for n in plain]
        rows = core.predict(asked, notion=notion, bottleneck=False)
        for n, row in zip(plain, rows, strict=True):
            cycles = row["cycles"]
            known = isinstance(cycles, float)
            out[n] = Timing(cycles) if known else Timing(None, refused=str(row["error"]))
    if iterations and runs:
        for n, timing in zip(runs, iterations.measure(list(runs.values())), strict=True):
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
        given = dict(settings or {})
        self._core = binding.Core(toml, table, given)
        self._iterations = Iterations(self.isa, toml, table, given)

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        return answers(self._core, trials, self._iterations)
