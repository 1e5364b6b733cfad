"""Time left of a run of calibrate: the answers that its steps need, at the paces seen so far."""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence

# Steps by the beginning of their names: answers per form, further answers, and seconds per form of
# fits on idle CPUs. The figures lie between those of runs on Zen 4 and Redwood Cove guests.
STEPS: Sequence[tuple[str, float, int, float]] = (
    ("throughput", 1.0, 0, 0.0),
    ("latencies", 2.7, 0, 0.0),
    ("slots", 1.4, 0, 0.0),
    ("classes", 0.0, 1480, 0.0),
    ("ports", 0.0, 120, 0.0),
    ("uops of each", 2.1, 0, 0.0016),
    ("uops of forms", 3.7, 0, 0.0047),
    ("front end", 0.0, 490, 0.0),
    ("loads", 0.0, 950, 0.0),
    ("serialising", 0.0, 610, 0.0),
    ("windows", 0.0, 950, 0.0),
    ("front end that", 0.0, 230, 0.0120),
    ("rules of rename", 0.0, 1710, 0.0055),
    ("mixtures", 1.2, 0, 0.0029),
    ("forms whose", 1.0, 0, 0.0057),
    ("calls", 0.0, 30, 0.0023),
    ("held-out", 0.0, 330, 0.0),
)
_TELLING = 400  # answers after which the pace is known
_STEADY = 2000  # answers of the pace, at least, as the last few of a step are often repeats
_LONG = 600  # seconds from which the time left is given in whole minutes
_ALIKE = 4 / 3  # ratio of two estimates that are told as one
_RECENT = 60.0  # seconds of the recent pace
_LOUD = 0.1  # share of disturbed measurements from which other load is named


class TimeLeft:
    """Estimate of the time that a run still takes."""

    def __init__(self, forms: int, progress: Callable[[int, int, str], None] | None = None) -> None:
        """Take the number of forms to learn; progress is called as calibrate has it."""
        self._forms, self._progress = forms, progress
        self._kept = self._asked = 0
        self._timed = 0.0  # seconds in which the machine answered
        self._disturbed = 0  # measurements, which are asked for again
        self._marks = deque([(time.monotonic(), 0, 0.0, 0)])
        self._doing = ""
        self._step, self._before = 0, 0  # number of the step, and answers of this run before it

    def kept(self, answers: int) -> None:
        """Set the number of answers that an earlier run left."""
        self._kept = answers

    def step(self, what: str) -> None:
        """Set what is learned next."""
        self._doing = what
        names = [n for n, (name, *_) in enumerate(STEPS) if what.startswith(name)]
        if names:
            self._step, self._before = names[-1], self._asked

    def answered(self, asked: int, seconds: float, disturbed: int) -> None:
        """Count the trials answered by this run; of the last ones, seconds and the disturbed."""
        self._asked = asked
        self._timed += seconds
        self._disturbed += disturbed
        now = time.monotonic()
        self._marks.append((now, asked, self._timed, self._disturbed))
        while len(self._marks) > 2 and self._is_telling(self._marks[1]):
            self._marks.popleft()
        if self._progress:
            done = self._kept + asked
            self._progress(done, done + self._left(), f"{self._doing}{self}")

    def _is_telling(self, mark: tuple[float, int, float, int]) -> bool:
        """True if the answers since a mark tell the pace."""
        now, asked, *_ = self._marks[-1]
        return now - mark[0] >= _RECENT and asked - mark[1] >= _STEADY

    def _left(self) -> int:
        """Return the number of answers still needed.

        Answers of an earlier run belong to the first steps.
        """
        needs = [round(each * self._forms) + more for _, each, more, _ in STEPS]
        left = max(needs[self._step] - (self._asked - self._before), 0)
        left += sum(needs[self._step + 1 :])
        return max(left - max(self._kept - sum(needs[: self._step]), 0), 0)

    def seconds(self) -> tuple[float, float] | None:
        """Return the least and the most seconds left; None while the pace is unknown.

        One is by the recent pace and one by that of the whole run, as other load may last or not.
        """
        if self._asked < _TELLING:
            return None
        (_, before, timed, _), (_, asked, now, _) = self._marks[0], self._marks[-1]
        fits = sum(fit for *_, fit in STEPS[self._step :]) * self._forms * _slowdown()
        paces = (now - timed) / max(asked - before, 1), self._timed / self._asked
        return self._left() * min(paces) + fits, self._left() * max(paces) + fits

    def __str__(self) -> str:
        seconds = self.seconds()
        if seconds is None:
            return self._other_load()
        least, most = seconds
        if most <= _ALIKE * least:
            return f", about {_length((least + most) / 2)} left{self._other_load()}"
        return f", {_length(least)} to {_length(most)} left{self._other_load()}"

    def _other_load(self) -> str:
        """Say how many measurements other load disturbed lately, where these are many."""
        (then, before, _, earlier), (now, asked, _, disturbed) = self._marks[0], self._marks[-1]
        share = (disturbed - earlier) / max(asked - before, 1)
        if now - then < _RECENT or share < _LOUD:
            return ""
        return (
            f"; other load disturbs {100 * share:.0f} % of the measurements (a run may be ended; "
            "the same command goes on from its answers)"
        )


def _length(seconds: float) -> str:
    """Return a time in words."""
    if seconds >= _LONG:
        return f"{round(seconds / 60)} min"
    minutes, rest = divmod(max(round(seconds / 10) * 10, 10), 60)
    return " ".join([f"{minutes} min"] * (minutes > 0) + [f"{rest} s"] * (rest > 0))


def _slowdown() -> float:
    """Return the slowdown of computations by other load, by the load average of the last minute.

    A process with real-time priority waits for no other.
    """
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        return 1.0
    return max(os.getloadavg()[0] / len(os.sched_getaffinity(0)), 1.0)
