"""Kernels of instructions timed on a machine: what a copy takes, the loop around it apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.calibrating.forms import kits
from loopwright.calibrating.machines.machine import COUNTER, Machine, Timing, Trial
from loopwright.measuring.blocks import trips

MOST_BYTES = 960  # of a loop's body: the harness takes 1024
_LEAST_INSTRUCTIONS = 40  # of the shorter body, where they fit
_TRIES = 3
_WINDOW = 32  # bytes: the closing branch starts behind a boundary of as many


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

    A kernel is instructions that are repeated, each as its bytes. Its cycles are the slope between
    a loop of n copies and one of 2n, so that the branch that closes them is in neither.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.isa = machine.isa
        self.kit = kits.of(machine.isa)
        self._figures: dict[tuple[str, tuple[bytes, ...]], Figure] = {}

    def time(self, kernels: Sequence[Sequence[bytes]], notion: str = "loop") -> list[Figure]:
        """Return a figure for each kernel, in order; "unrolled": without any branch."""
        wanted = [(notion, tuple(kernel)) for kernel in kernels]
        missing = list(dict.fromkeys(k for k in wanted if k not in self._figures))
        plans = [
            _plan(self.isa, kernel) if notion == "loop" else _straight(kernel)
            for _, kernel in missing
        ]
        trials = [trial for plan in plans if not isinstance(plan, str) for trial in plan.trials]
        timings = dict(zip((t.key for t in trials), self._measure(trials), strict=True))
        for kernel, plan in zip(missing, plans, strict=True):
            self._figures[kernel] = (
                Figure(float("nan"), 0.0, plan) if isinstance(plan, str) else _slope(plan, timings)
            )
        return [self._figures[kernel] for kernel in wanted]

    def turn(self, body: bytes = b"") -> Figure:
        """Return the cycles of a trip of a loop, its counting branch included."""
        (figure,) = self.turns([body])
        return figure

    def turns(self, bodies: Sequence[bytes]) -> list[Figure]:
        """Return the same of each of several loops, in order."""
        found = self._measure([_loop(self.isa, body) for body in bodies])
        return [
            Figure(float("nan"), 0.0, one.refused)
            if one.cycles is None
            else Figure(one.cycles, one.uncertainty)
            for one in found
        ]

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


@dataclass(frozen=True)
class _Plan:
    """Two loops whose difference is some copies of a kernel, or one copy without a loop."""

    trials: tuple[Trial, ...]
    copies: int


def _straight(kernel: tuple[bytes, ...]) -> _Plan:
    """Return the copies to time that stand back to back."""
    return _Plan((Trial(b"".join(kernel), "unrolled"),), 1)


def _plan(isa: str, kernel: tuple[bytes, ...]) -> _Plan | str:
    """Return the loops to time for a kernel, or why there are none."""
    size = sum(map(len, kernel))
    if not size:
        return "an empty kernel takes no time"
    copies = min(-(-_LEAST_INSTRUCTIONS // len(kernel)), MOST_BYTES // size // 2)
    if not copies:
        return f"{size} bytes are too long for two copies in a loop"
    body = b"".join(kernel)
    return _Plan((_loop(isa, body * copies), _loop(isa, body * 2 * copies)), copies)


def _loop(isa: str, body: bytes) -> Trial:
    code = body + trips.closing(isa, COUNTER[isa], len(body))
    return Trial(code, "loop", -len(body) % _WINDOW)


def _slope(plan: _Plan, timings: dict[str, Timing]) -> Figure:
    found = [timings[trial.key] for trial in plan.trials]
    cycles = [one.cycles for one in found if one.cycles is not None]
    if len(cycles) < len(found):
        return Figure(float("nan"), 0.0, next(one.refused for one in found if one.refused))
    error = sum(one.uncertainty**2 for one in found) ** 0.5
    short = cycles[0] if len(cycles) > 1 else 0.0
    return Figure((cycles[-1] - short) / plan.copies, error / plan.copies)
