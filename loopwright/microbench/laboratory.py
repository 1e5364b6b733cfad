"""Kernels of instructions timed on a machine: what a copy takes, the loop around it apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.measuring import block
from loopwright.microbench import kits
from loopwright.microbench.oracle import COUNTER, Oracle, Run, Timing, Trial

MOST_BYTES = 960  # of a loop's body: the harness takes 1024
_LEAST_INSTRUCTIONS = 80  # of the longest body, where they fit
_LOOKS = 3  # at what all else rests on
_TRIES = 8  # of what is refused for a reason of the moment
_WINDOW = 32  # bytes: a loop that does not fit has its closing branch behind a boundary of as many


@dataclass(frozen=True)
class Figure:
    """Cycles of one copy of a kernel and their uncertainty, or why there are none."""

    cycles: float
    uncertainty: float
    refused: str = ""

    def __bool__(self) -> bool:
        return not self.refused


class Laboratory:
    """Times kernels on a machine.

    A kernel is instructions that are repeated, each as its bytes. Its cycles are those of a copy in
    a long loop ("loop"), a share of the branch that closes it included; or the slope between a loop
    of half the copies and the long one, so that the branch is in neither ("slope"); or those of
    copies without any branch ("unrolled").
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
            _straight(kernel, look)
            if notion == "unrolled"
            else _plan(self.isa, kernel, notion, look)
            for _, _, kernel in missing
        ]
        trials = [trial for plan in plans if not isinstance(plan, str) for trial in plan.trials]
        timings = dict(zip((t.key for t in trials), self._measure(trials), strict=True))
        for kernel, plan in zip(missing, plans, strict=True):
            self._figures[kernel] = (
                Figure(float("nan"), 0.0, plan) if isinstance(plan, str) else _slope(plan, timings)
            )
        return [self._figures[kernel] for kernel in wanted]

    def time_least(self, kernels: Sequence[Sequence[bytes]]) -> list[Figure]:
        """Return the least of three looks at each kernel in a loop, in order.

        A neighbour's moment makes it slower, and so does a core that binds ports early, from
        one look to the next; nothing makes it faster. What most looks have no figure for has none.
        """
        looks = [self.time(kernels, look=look) for look in range(_LOOKS)]
        out = []
        for some in zip(*looks, strict=True):
            known = [one for one in some if one]
            none = next((one for one in some if not one), some[0])
            least = min(known, key=lambda one: one.cycles, default=none)
            out.append(least if 2 * len(known) > _LOOKS else none)
        return out

    def turn(self, body: bytes = b"") -> Figure:
        """Return the cycles of an iteration of a loop, its counting branch included."""
        (figure,) = self.turns([body])
        return figure

    def turns(self, bodies: Sequence[bytes], runs: Sequence[Run | None] = ()) -> list[Figure]:
        """Return the same of each of several loops, in order; runs say what their iterations do."""
        every = zip(bodies, runs or [None] * len(bodies), strict=True)
        return self.figures([_loop(self.isa, body, run) for body, run in every])

    def tested_turns(self, bodies: Sequence[bytes]) -> list[Figure]:
        """Return the same of loops that count before their bodies and test the count behind."""
        return self.figures([_tested(self.isa, body) for body in bodies])

    def figures(self, trials: Sequence[Trial]) -> list[Figure]:
        """Return a figure for each trial as it is, in order."""
        found = self._measure(trials)
        return [
            Figure(float("nan"), 0.0, one.refused)
            if one.cycles is None
            else Figure(one.cycles, one.uncertainty)
            for one in found
        ]

    def trials(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial as it is, in order."""
        return self._measure(trials)

    def _measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Try again what was refused for a reason of the moment."""
        found = self.machine.measure(trials)
        for _ in range(_TRIES - 1):
            again = [n for n, timing in enumerate(found) if timing.passing]
            if not again:
                break
            answers = self.machine.measure([trials[n] for n in again])
            for n, timing in zip(again, answers, strict=True):
                found[n] = timing
        return found


def copies(kernel: Sequence[bytes]) -> int:
    """Return the copies of a kernel in a long loop: an even number, or one; 0 where none fits."""
    size = sum(map(len, kernel))
    half = -(-_LEAST_INSTRUCTIONS // (2 * len(kernel))) if kernel else 0
    return 2 * min(half, MOST_BYTES // size // 2) or MOST_BYTES // size if size else 0


@dataclass(frozen=True)
class _Plan:
    """A loop of copies of a kernel, two that differ by so many copies, or one copy without any."""

    trials: tuple[Trial, ...]
    copies: int


def _straight(kernel: tuple[bytes, ...], look: int) -> _Plan:
    """Return the copies to time that stand back to back."""
    return _Plan((Trial(b"".join(kernel), "unrolled", look=look),), 1)


def _plan(isa: str, kernel: tuple[bytes, ...], notion: str, look: int) -> _Plan | str:
    """Return the loops to time for a kernel, or why there are none."""
    body = b"".join(kernel)
    most = copies(kernel)
    if most < (2 if notion == "slope" else 1):
        many = f"{len(body)} bytes are too long for {'two copies' if most else 'a copy'} in a loop"
        return many if body else "an empty kernel takes no time"
    long = _loop(isa, body * most, look=look)
    if notion == "loop":
        return _Plan((long,), most)
    return _Plan((_loop(isa, body * (most // 2), look=look), long), most // 2)


def closed(isa: str, body: bytes) -> bytes:
    """Return a loop of a body: behind it stand its count and the branch back."""
    return body + block.closing(isa, COUNTER[isa], len(body))


def _loop(isa: str, body: bytes, run: Run | None = None, look: int = 0) -> Trial:
    code = closed(isa, body)
    return Trial(code, "loop", _offset(code, len(body)), run, look)


def _tested(isa: str, body: bytes) -> Trial:
    before = len(block.count_down(isa, COUNTER[isa])) + len(body)
    code = block.tested(isa, COUNTER[isa], body)
    return Trial(code, "loop", _offset(code, before))


def _offset(code: bytes, before: int) -> int:
    """Return where a loop with so many bytes before its branch lies, so that fetch costs least."""
    return 0 if len(code) <= _WINDOW else -before % _WINDOW


def _slope(plan: _Plan, timings: dict[str, Timing]) -> Figure:
    found = [timings[trial.key] for trial in plan.trials]
    cycles = [one.cycles for one in found if one.cycles is not None]
    if len(cycles) < len(found):
        return Figure(float("nan"), 0.0, next(one.refused for one in found if one.refused))
    error = sum(one.uncertainty**2 for one in found) ** 0.5
    short = cycles[0] if len(cycles) > 1 else 0.0
    return Figure((cycles[-1] - short) / plan.copies, error / plan.copies)
