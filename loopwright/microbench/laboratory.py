"""Laboratory: kernels timed on a machine, as cycles of a copy in a loop or in straight code."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.measuring import block
from loopwright.microbench import kits
from loopwright.microbench.oracle import COUNTER, Oracle, Run, Timing, Trial

MOST_BYTES = 960  # of a loop's body, as the harness takes 1024
_LEAST_INSTRUCTIONS = 80  # of the longest body, where they fit
_LOOKS = 3  # measurements of a kernel whose least figure is taken
_TRIES = 8  # tries of what is refused for a temporary reason
_WINDOW = 32  # bytes: the closing branch of a longer loop is aligned behind such a boundary


@dataclass(frozen=True)
class Figure:
    """Cycles of one copy of a kernel and their uncertainty, or the reason for a refusal."""

    cycles: float
    uncertainty: float
    refused: str = ""

    def __bool__(self) -> bool:
        return not self.refused


class Laboratory:
    """Timing of kernels on a machine.

    A kernel is a list of instructions as bytes, which is repeated. notion names the cycles of a
    copy that a figure has: those in a long loop, with a share of the closing branch ("loop"); the
    slope between a loop of half the copies and the long one, which excludes the branch ("slope");
    or those of copies without any branch ("unrolled").
    """

    def __init__(self, machine: Oracle) -> None:
        self.machine = machine
        self.isa = machine.isa
        self.kit = kits.of(machine.isa)
        self._figures: dict[tuple[str, int, tuple[bytes, ...]], Figure] = {}

    def time(
        self, kernels: Sequence[Sequence[bytes]], notion: str = "loop", look: int = 0
    ) -> list[Figure]:
        """Return a figure for each kernel, in order; another look measures it anew."""
        keys = [(notion, look, tuple(kernel)) for kernel in kernels]
        missing = list(dict.fromkeys(k for k in keys if k not in self._figures))
        plans = [
            _Plan((Trial(b"".join(kernel), "unrolled", look=look),), 1)
            if notion == "unrolled"
            else _plan(self.isa, kernel, notion, look)
            for _, _, kernel in missing
        ]
        trials = [trial for plan in plans if not isinstance(plan, str) for trial in plan.trials]
        timings = dict(zip((t.key for t in trials), self.timings(trials), strict=True))
        for kernel, plan in zip(missing, plans, strict=True):
            self._figures[kernel] = (
                Figure(math.nan, 0.0, plan) if isinstance(plan, str) else _slope(plan, timings)
            )
        return [self._figures[kernel] for kernel in keys]

    def time_least(self, kernels: Sequence[Sequence[bytes]], notion: str = "loop") -> list[Figure]:
        """Return the least of several measurements of each kernel, in order.

        Other load makes a kernel slower, and so may early binding, differently each time; nothing
        makes it faster. A kernel that most looks refuse is refused.
        """
        looks = [self.time(kernels, notion, look) for look in range(_LOOKS)]
        out = []
        for figures in zip(*looks, strict=True):
            answered = [figure for figure in figures if figure]
            refusal = next((figure for figure in figures if not figure), figures[0])
            least = min(answered, key=lambda figure: figure.cycles, default=refusal)
            out.append(least if 2 * len(answered) > _LOOKS else refusal)
        return out

    def iteration(self, body: bytes = b"") -> Figure:
        """Return the cycles of an iteration of a loop, its counting branch included."""
        (figure,) = self.iterations([body])
        return figure

    def iterations(self, bodies: Sequence[bytes], runs: Sequence[Run | None] = ()) -> list[Figure]:
        """Return the cycles of an iteration of each loop; runs describe their iterations."""
        described = zip(bodies, runs or [None] * len(bodies), strict=True)
        return self.figures([_loop(self.isa, body, run) for body, run in described])

    def tested_iterations(self, bodies: Sequence[bytes]) -> list[Figure]:
        """Return the cycles of an iteration of loops that count first and test the count last."""
        return self.figures([_tested(self.isa, body) for body in bodies])

    def figures(self, trials: Sequence[Trial]) -> list[Figure]:
        """Return a figure for each trial as it is, in order."""
        timings = self.timings(trials)
        return [
            Figure(math.nan, 0.0, timing.refused)
            if timing.cycles is None
            else Figure(timing.cycles, timing.uncertainty)
            for timing in timings
        ]

    def timings(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial as it is, in order.

        Those refused for a temporary reason are repeated.
        """
        timings = self.machine.measure(trials)
        for _ in range(_TRIES - 1):
            disturbed = [n for n, timing in enumerate(timings) if timing.transient]
            if not disturbed:
                break
            answers = self.machine.measure([trials[n] for n in disturbed])
            for n, timing in zip(disturbed, answers, strict=True):
                timings[n] = timing
        return timings


def copies(kernel: Sequence[bytes]) -> int:
    """Return the copies of a kernel in a long loop: an even number, or 1; 0 where none fits."""
    size = sum(map(len, kernel))
    half = -(-_LEAST_INSTRUCTIONS // (2 * len(kernel))) if kernel else 0
    return 2 * min(half, MOST_BYTES // size // 2) or MOST_BYTES // size if size else 0


@dataclass(frozen=True)
class _Plan:
    """Trials of a kernel: one loop, two loops that differ by so many copies, or straight code."""

    trials: tuple[Trial, ...]
    copies: int


def _plan(isa: str, kernel: tuple[bytes, ...], notion: str, look: int) -> _Plan | str:
    """Return the loops to time for a kernel, or a refusal."""
    body = b"".join(kernel)
    most_copies = copies(kernel)
    if most_copies < (2 if notion == "slope" else 1):
        fitting = "two copies" if most_copies else "a copy"
        refusal = f"{len(body)} bytes are too long for {fitting} in a loop"
        return refusal if body else "an empty kernel takes no time"
    long = _loop(isa, body * most_copies, look=look)
    if notion == "loop":
        return _Plan((long,), most_copies)
    return _Plan((_loop(isa, body * (most_copies // 2), look=look), long), most_copies // 2)


def closed(isa: str, body: bytes) -> bytes:
    """Return a loop of a body, with the count and the branch back at its end."""
    return body + block.closing(isa, COUNTER[isa], len(body))


def _loop(isa: str, body: bytes, run: Run | None = None, look: int = 0) -> Trial:
    code = closed(isa, body)
    return Trial(code, "loop", _offset(code, len(body)), run, look)


def _tested(isa: str, body: bytes) -> Trial:
    """Return a loop that counts first and tests the count last."""
    before = len(block.count_down(isa, COUNTER[isa])) + len(body)
    code = block.tested(isa, COUNTER[isa], body)
    return Trial(code, "loop", _offset(code, before))


def _offset(code: bytes, before: int) -> int:
    """Return the code offset of a loop with the cheapest fetch of the branch at `before`."""
    return 0 if len(code) <= _WINDOW else -before % _WINDOW


def _slope(plan: _Plan, timings: dict[str, Timing]) -> Figure:
    """Return the cycles of a copy that the timings of a plan's trials show."""
    answers = [timings[trial.key] for trial in plan.trials]
    cycles = [timing.cycles for timing in answers if timing.cycles is not None]
    if len(cycles) < len(answers):
        return Figure(math.nan, 0.0, next(timing.refused for timing in answers if timing.refused))
    error = sum(timing.uncertainty**2 for timing in answers) ** 0.5
    short = cycles[0] if len(cycles) > 1 else 0.0
    return Figure((cycles[-1] - short) / plan.copies, error / plan.copies)
