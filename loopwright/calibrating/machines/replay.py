"""A file of answers in the place of the machine that gave them."""

from collections.abc import Sequence
from pathlib import Path

from loopwright.calibrating.machines.machine import Timing, Trial
from loopwright.calibrating.machines.record import read
from loopwright.errors import InputError

_UNKNOWN = Timing(None, refused="the file has no answer for it")


class Replay:
    """What a machine answered elsewhere; what it was not asked is refused, and is in missing."""

    def __init__(self, path: Path) -> None:
        """Take a file that a run wrote; InputError where that run did not come to its end."""
        content = read(path)
        if not content.complete:
            raise InputError(
                f"{path} was cut short; let `calibrate` end on the machine that it comes from"
            )
        self.isa = str(content.head["isa"])
        self.name = str(content.head["machine"])
        self.fingerprint = str(content.head["fingerprint"])
        self.features = frozenset(content.head["features"])
        self.host = content.head["host"]
        self.known = content.known
        self.missing: set[str] = set()

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return what the file has of each trial."""
        self.missing |= {trial.key for trial in trials} - self.known.keys()
        return [self.known.get(trial.key, _UNKNOWN) for trial in trials]
