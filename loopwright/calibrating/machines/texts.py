"""What was learned of a machine, in its place."""

from collections.abc import Mapping, Sequence

from loopwright.calibrating.machines.iterations import Iterations
from loopwright.calibrating.machines.machine import Machine, Timing, Trial
from loopwright.calibrating.machines.simulated import answers
from loopwright.code import binding


class Texts:
    """A core by the texts of its files; the simulator answers, without noise."""

    def __init__(
        self,
        machine: Machine,
        toml: str,
        table: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Take the texts of what was learned of a machine, and parameters that replace its own."""
        self.isa, self.name, self.features = machine.isa, machine.name, machine.features
        self.host = machine.host
        self.fingerprint = machine.fingerprint
        given = dict(settings or {})
        self._core = binding.core(toml, table, given)
        self._iterations = Iterations(self.isa, toml, table, given)

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Simulate each trial."""
        return answers(self._core, trials, self._iterations)
