"""Simulated oracles: a core of models/ with noise, or the texts of a candidate core.

Noise has the distribution of the harness. Loops whose branches the code does not determine are
simulated as calls, step by step.
"""

import hashlib
import random
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from loopwright import microarchs, paths
from loopwright.code import binding, instructions
from loopwright.code.instructions import Flow, Instruction
from loopwright.errors import InputError, unknown
from loopwright.microbench.oracle import Machine, Oracle, Run, Timing, Trial, by_notion
from loopwright.predicting.core_figures import TABLE

if TYPE_CHECKING:
    from loopwright_pipeline import Core


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
        asked = [
            (one.code, one.offset, b"".join(_steps(self._isa, one.code, run)))
            for one, run in trials
        ]
        for (_, run), row in zip(trials, core.calls(asked), strict=True):
            cycles = row.get("mispredicted")
            if isinstance(cycles, float):
                yield Timing(cycles / len(run.ways))
            else:
                yield Timing(None, refused=str(row["error"]))


def _steps(isa: str, code: bytes, run: Run) -> Iterator[bytes]:
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
        """Simulate each trial."""
        return answers(self._core, trials, self._iterations)
