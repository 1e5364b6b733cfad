"""What was learned of a machine, in its place."""

from collections.abc import Sequence

from loopwright.calibrating.machines.machine import Machine, Timing, Trial
from loopwright.calibrating.machines.simulated import answers
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
        return answers(self._core, trials)
