"""What a machine will be asked: what is known of it, and for all else another core's guess."""

from collections.abc import Mapping, Sequence

from loopwright.calibrating.machines.machine import Machine, Timing, Trial


class Foreseen:
    """A machine that answers as one does whose answers are known in part, and notes what it lacks.

    Where no answer is known, that of guess is given: experiments that go by answers then ask on.
    missing holds the trials that were asked for and are not known, in the order of the asking.
    """

    def __init__(
        self, known: Mapping[str, Timing], guess: Machine, features: frozenset[str]
    ) -> None:
        """Take answers by the keys of their trials."""
        self.isa, self.name = guess.isa, guess.name
        self.features, self.host = features, guess.host
        self.fingerprint = f"foreseen by {guess.fingerprint}"
        self.missing: dict[str, Trial] = {}
        self._known, self._guess = known, guess

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial, in order."""
        found = {t.key: self._known[t.key] for t in trials if t.key in self._known}
        lacking = [trial for trial in trials if trial.key not in found]
        self.missing |= {trial.key: trial for trial in lacking}
        guessed = zip(lacking, self._guess.measure(lacking), strict=True)
        found |= {trial.key: timing for trial, timing in guessed}
        return [found[trial.key] for trial in trials]
