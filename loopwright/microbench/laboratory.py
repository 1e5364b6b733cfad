"""Laboratory: kernels timed on a machine as cycles of a copy, without the loop around it."""

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.measuring import block
from loopwright.microbench import kits
from loopwright.microbench.oracle import COUNTER, Oracle, Run, Timing, Trial

MOST_BYTES = 960  # of a loop's body, as the harness takes 1024
_LEAST_INSTRUCTIONS = 80  # of the longest body, where they fit
_LOOKS = 3  # measurements of the most important kernels
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

    A kernel is a list of instructions as bytes, which is repeated. Its cycles are those of a copy
    in a long loop with a share of the closing branch ("loop"); the slope between a loop of half the
    copies and the long one, which excludes the branch ("slope"); or those of copies without any
    branch ("unrolled").
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
        wanted = [(notion, look, tuple(kernel)) for kernel in kernels]
        missing = list(dict.fromkeys(k for k in wanted if k not in self._figures))
        plans = [
            _Plan((Trial(b"".join(kernel), "unrolled", look=look),), 1)
            if notion == "unrolled"
            else _plan(self.isa, kernel, notion, look)
            for _, _, kernel in missing
        ]
        trials = [trial for plan in plans if not isinstance(plan, str) for trial in plan.trials]
        timings = dict(zip((t.key for t in trials), self.trials(trials), strict=True))
        for kernel, plan in zip(missing, plans, strict=True):
            self._figures[kernel] = (
                Figure(float("nan"), 0.0, plan) if isinstance(plan, str) else _slope(plan, timings)
            )
        return [self._figures[kernel] for kernel in wanted]

    def time_least(self, kernels: Sequence[Sequence[bytes]]) -> list[Figure]:
        """Return the least of three measurements of each kernel in a loop, in order.

        Other load makes a kernel slower, and so may early binding, differently each time; nothing
        makes it faster. A kernel that most looks refuse is refused.
        """
        looks = [self.time(kernels, look=look) for look in range(_LOOKS)]
        out = []
        for figures in zip(*looks, strict=True):
            answered = [one for one in figures if one]
            refusal = next((one for one in figures if not one), figures[0])
            least = min(answered, key=lambda one: one.cycles, default=refusal)
            out.append(least if 2 * len(answered) > _LOOKS else refusal)
        return out

    def iteration(self, body: bytes = b"") -> Figure:
        """Return the cycles of an iteration of a loop, its counting branch included."""
        (figure,) = self.iterations([body])
        return figure

    def iterations(self, bodies: Sequence[bytes], runs: Sequence[Run | None] = ()) -> list[Figure]:
        """Return the cycles of an iteration of each loop; runs describe their iterations."""
        every = zip(bodies, runs or [None] * len(bodies), strict=True)
        return self.figures([_loop(self.isa, body, run) for body, run in every])

    def tested_iterations(self, bodies: Sequence[bytes]) -> list[Figure]:
        """Return the cycles of an iteration of loops that count first and test the count last."""
        return self.figures([_tested(self.isa, body) for body in bodies])

    def figures(self, trials: Sequence[Trial]) -> list[Figure]:
        """Return a figure for each trial as it is, in order."""
        found = self.trials(trials)
        return [
            Figure(float("nan"), 0.0, one.refused)
            if one.cycles is None
            else Figure(one.cycles, one.uncertainty)
            for one in found
        ]

    def trials(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial as it is, in order.

        Those refused for a temporary reason are repeated.
        """
        found = self.machine.measure(trials)
        for _ in range(_TRIES - 1):
            again = [n for n, timing in enumerate(found) if timing.transient]
            if not again:
                break
            answers = self.machine.measure([trials[n] for n in again])
            for n, timing in zip(again, answers, strict=True):
                found[n] = timing
        return found


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
        many = f"{len(body)} bytes are too long for {fitting} in a loop"
        return many if body else "an empty kernel takes no time"
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
    before = len(block.count_down(isa, COUNTER[isa])) + len(body)
    code = block.tested(isa, COUNTER[isa], body)
    return Trial(code, "loop", _offset(code, before))


def _offset(code: bytes, before: int) -> int:
    """Return the code offset of a loop with the cheapest fetch of the branch at `before`."""
    return 0 if len(code) <= _WINDOW else -before % _WINDOW


def _slope(plan: _Plan, timings: dict[str, Timing]) -> Figure:
    found = [timings[trial.key] for trial in plan.trials]
    cycles = [one.cycles for one in found if one.cycles is not None]
    if len(cycles) < len(found):
        return Figure(float("nan"), 0.0, next(one.refused for one in found if one.refused))
    error = sum(one.uncertainty**2 for one in found) ** 0.5
    short = cycles[0] if len(cycles) > 1 else 0.0
    return Figure((cycles[-1] - short) / plan.copies, error / plan.copies)
