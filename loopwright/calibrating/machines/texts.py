"""What was learned of a machine, in its place."""

from collections.abc import Sequence

from loopwright.calibrating.machines.machine import Machine, Timing, Trial
from loopwright.code import binding


class Texts:
    """A core by the texts of its files; the simulator answers, without noise."""

    def __init__(self, machine: Machine, toml: str, table: str) -> None:
        """Take the texts of what was learned of a machine."""
        self.isa, self.name, self.features = machine.isa, machine.name, machine.features
        self.host = machine.host
        self.fingerprint = machine.fingerprint
        self._core = binding.core(toml, table, {})

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Simulate each trial."""
        out = [Timing(None, refused="not asked")] * len(trials)
        for notion in sorted({trial.notion for trial in trials}):
            chosen = [n for n, trial in enumerate(trials) if trial.notion == notion]
            asked = [(trials[n].code, trials[n].offset) for n in chosen]
            rows = self._core.predict(asked, notion=notion, bottleneck=False)
            for n, row in zip(chosen, rows, strict=True):
                cycles = row["cycles"]
                known = isinstance(cycles, float)
                out[n] = Timing(cycles if known else None, refused="" if known else row["error"])
        return out
