"""Time that a run of calibrate still takes: what its steps need, at the last minute's pace."""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence

# Steps by how their names begin: answers a form, answers besides, and seconds a form for fits on
# idle CPUs. Figures are between those of runs on Zen 4 and Redwood Cove guests.
STEPS: Sequence[tuple[str, float, int, float]] = (
    ("throughput", 1.0, 0, 0.0),
    ("latencies", 2.7, 0, 0.0),
    ("places", 1.4, 0, 0.0),
    ("classes", 0.0, 1480, 0.0),
    ("ports", 0.0, 120, 0.0),
    ("uops of each", 2.1, 0, 0.0016),
    ("uops of forms", 3.7, 0, 0.0047),
    ("front end", 0.0, 490, 0.0),
    ("loads", 0.0, 950, 0.0),
    ("serialising", 0.0, 610, 0.0),
    ("windows", 0.0, 950, 0.0),
    ("front end that", 0.0, 230, 0.0120),
    ("mixtures", 1.2, 0, 0.0029),
    ("forms whose", 1.0, 0, 0.0057),
    ("calls", 0.0, 30, 0.0023),
    ("held-out", 0.0, 330, 0.0),
)
_TELLING = 400  # answers by which their rate is known
_STEADY = 2000  # answers by which the last few of a step, which are repeated often, do not tell
_RECENT = 60.0  # seconds whose pace is taken to last: other work comes and goes


class TimeLeft:
    """The time that a run still takes, by the answers and the fits that its steps need."""

    def __init__(self, forms: int, progress: Callable[[int, int, str], None] | None = None) -> None:
        """Take the number of forms to learn; progress is called as calibrate has it."""
        self._forms, self._progress = forms, progress
        self._kept = self._asked = 0
        self._timed = 0.0  # seconds in which the machine answered
        self._marks = deque([(time.monotonic(), 0, 0.0)])
        self._doing = ""
        self._step, self._before = 0, 0  # number of the step, and answers of this run before it

    def kept(self, answers: int) -> None:
        """Take how many answers an earlier run left."""
        self._kept = answers

    def step(self, what: str) -> None:
        """Take what is learned next."""
        self._doing = what
        names = [n for n, (name, *_) in enumerate(STEPS) if what.startswith(name)]
        if names:
            self._step, self._before = names[-1], self._asked

    def answered(self, asked: int, seconds: float) -> None:
        """Take how many trials this run has had answered, and the seconds that the last took."""
        self._asked = asked
        self._timed += seconds
        now = time.monotonic()
        self._marks.append((now, asked, self._timed))
        while len(self._marks) > 2 and self._tells(self._marks[1]):
            self._marks.popleft()
        if self._progress:
            done = self._kept + asked
            self._progress(done, done + self._left(), f"{self._doing}{self}")

    def _tells(self, mark: tuple[float, int, float]) -> bool:
        """Return whether the pace is known by what came since."""
        now, asked, _ = self._marks[-1]
        return now - mark[0] >= _RECENT and asked - mark[1] >= _STEADY

    def _left(self) -> int:
        """Return the answers that are still needed.

        Those that an earlier run left are of the first steps.
        """
        needs = [round(each * self._forms) + more for _, each, more, _ in STEPS]
        left = max(needs[self._step] - (self._asked - self._before), 0)
        left += sum(needs[self._step + 1 :])
        return max(left - max(self._kept - sum(needs[: self._step]), 0), 0)

    def seconds(self) -> float | None:
        """Return the seconds left; None while the pace is not known."""
        if self._asked < _TELLING:
            return None
        (_, before, timed), (_, asked, now) = self._marks[0], self._marks[-1]
        fits = sum(fit for *_, fit in STEPS[self._step :]) * self._forms
        return self._left() * (now - timed) / max(asked - before, 1) + fits * _crowd()

    def __str__(self) -> str:
        seconds = self.seconds()
        if seconds is None:
            return ""
        if seconds < 60:
            return ", less than a minute left"
        return f", about {round(seconds / 60)} min left"


def _crowd() -> float:
    """Return how many times as long a computation takes as on idle CPUs, by the last minute.

    What has real-time priority waits for nothing else.
    """
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        return 1.0
    return max(os.getloadavg()[0] / len(os.sched_getaffinity(0)), 1.0)
