"""A core of the simulator in the place of hardware, with noise as the harness has it."""

import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopwright import paths
from loopwright.calibrating.machines.iterations import Iterations
from loopwright.calibrating.machines.machine import Timing, Trial, by_notion
from loopwright.code import binding
from loopwright.cores import microarchs
from loopwright.errors import InputError, unknown
from loopwright.predicting.forms import TABLE

if TYPE_CHECKING:
    from loopwright_pipeline import Core

NOISE = 0.003  # relative, one standard deviation: two runs of the harness differ by as much
REFUSED = 0.01  # share of tries that the harness gives up, for interrupts
_DISTURBED = "disturbed: too few samples were accepted"


class Simulated:
    """A known core behind the interface that hardware has.

    Noise is drawn from the seed, the trial and how often it was tried, so that the order of
    trials changes nothing.
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
        self.isa = known.isa
        self.name = f"simulated:{core}"
        self.features = known.features
        self.host: Mapping[str, Any] = {}
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
            self._core = binding.core(toml, table, settings)
            self._iterations = Iterations(self.isa, toml, table, settings)
        except FileNotFoundError:
            raise InputError(f"simulated:{core}: the simulator has no figures for it") from None
        except ValueError as error:
            raise InputError(f"simulated:{core}: {error}") from None
        said = repr((binding.version(), toml, table, sorted(settings.items()), noise, seed))
        self.fingerprint = f"{self.name} {hashlib.sha256(said.encode()).hexdigest()[:16]}"

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Simulate each trial; one that the core has no figures for is refused for good."""
        exact = answers(self._core, trials, self._iterations)
        return [self._timing(*pair) for pair in zip(trials, exact, strict=True)]

    def _timing(self, trial: Trial, exact: Timing) -> Timing:
        cycles = exact.cycles
        if cycles is None:
            return exact
        if not self._noise:
            return Timing(cycles, 1e-4 * cycles)
        self._tries[trial.key] += 1
        said = f"{self._seed} {trial.key} {self._tries[trial.key]}"
        draw = random.Random(hashlib.sha256(said.encode()).digest())
        if draw.random() < REFUSED:
            return Timing(None, refused=_DISTURBED, passing=True)
        return Timing(cycles * (1 + draw.gauss(0, self._noise)), self._noise * cycles)


def answers(
    core: "Core", trials: Sequence[Trial], iterations: Iterations | None = None
) -> list[Timing]:
    """Return what a core of the simulator takes for each trial, or why it has no figure.

    iterations has the same core, for trials that say what their iterations do.
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
