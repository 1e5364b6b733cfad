"""Find registers and memory with which a loop stays on its path and ends after n iterations."""

from dataclasses import dataclass
from functools import cache

from loopwright.errors import InputError
from loopwright.measuring.blocks import ends, guesses, image
from loopwright.measuring.blocks.emulated import Emulated, Outcome, Seen, Start
from loopwright.measuring.blocks.ends import End
from loopwright.measuring.blocks.guesses import State
from loopwright.measuring.blocks.image import Image
from loopwright.measuring.blocks.path import Path

MOST_ITERATIONS = 4096  # that are measured
_TRIES = 160  # of one way to end it
_FEW = 24  # iterations of a try


@dataclass(frozen=True)
class Settled:
    """A loop that runs as it is to: its image, what it starts with, and what was replaced."""

    path: Path
    image: Image
    start: Start
    said: str

    def lines(self) -> list[str]:
        """Return what a job says of registers and memory."""
        values = {
            n: v for n, v in self.start.values.items() if n not in ("rsp", self.start.counter)
        }
        return [
            f"counter {self.start.counter} {self.start.base} {self.start.step % (1 << 64)}",
            *(f"set {name} {value}" for name, value in values.items()),
            *self.start.memory.lines(),
        ]

    def left(self, step: int) -> str:
        """Say which exit was taken."""
        return f"exit at +{self.path.steps[step].at:#x} taken"


def find(path: Path) -> Settled:
    """Return how to run a loop; InputError with the reason where no way was found.

    Every try is made in an emulated core; which of them are made is the same each time.
    """
    found = _found(path)
    if isinstance(found, str):
        raise InputError(found)
    return found


@cache
def _found(path: Path) -> Settled | str:
    reasons = []
    for end in ends.of_path(path):
        try:
            made = image.of_path(path, end.code, end.step_of_path)
        except InputError as error:
            reasons.append(str(error))
            continue
        search = _Search(path, end, made)
        if start := search.run():
            return Settled(path, made, start, end.said)
        reasons.append(search.reason)
    return reasons[0] if reasons else "nothing in it can count its iterations"


class _Search:
    """Tries from one way to end a loop."""

    def __init__(self, path: Path, end: End, made: Image) -> None:
        self._path, self._end, self._made = path, end, made
        self._guess = guesses.Guess(path)
        self.reason = ""

    def run(self) -> Start | None:
        """Return a start that holds for as many iterations as are measured."""
        state = kept = self._guess.first()
        best = (-1, -1)
        tried = 0
        for _ in range(_TRIES):
            start = self._start(state)
            found = self._outcome(start)
            if found is None:
                return start
            if found.unknown:
                self.reason = self._said(found)
                return None
            if (reached := (found.iterations, max(found.left, found.faulted))) > best:
                best, kept, failed, tried = reached, state, found, 0
                self.reason = self._said(found)
                seen = self._look(self._start(kept), found)
            at = failed.faulted if failed.faulted >= 0 else failed.left
            state = self._guess.next(kept, at, seen, tried)
            tried += 1
        return None

    def _start(self, state: State) -> Start:
        end = self._end
        base = end.start(state.values, state.memory.word)
        return Start(state.values, state.memory, end.counter, base, end.step)

    def _core(self, start: Start) -> Emulated:
        return Emulated(self._path, self._made, self._end.step_of_path, start.memory)

    def _outcome(self, start: Start) -> Outcome | None:
        """Return how a start fails, None where it holds."""
        core = self._core(start)
        begun = []
        for iterations in (_FEW, 2 * _FEW, MOST_ITERATIONS, _FEW):
            found = core.run(start, iterations)
            if not found.ended:
                return found
            begun.append(found.iterations)
            if begun[-1] - begun[0] != iterations - _FEW:
                return Outcome(found.iterations, left=self._end.step_of_path)
        return None

    def _look(self, start: Start, found: Outcome) -> Seen:
        """Return what the first of the tries read, where it is that which failed."""
        if found.iterations > 2 * _FEW:
            return Seen({}, {})
        return self._core(start).look(start, _FEW)

    def _said(self, found: Outcome) -> str:
        if found.unknown:
            return (
                "the emulator that counts its iterations lacks an instruction of it (AVX, for one)"
            )
        if found.faulted >= 0:
            step = self._path.steps[found.faulted]
            return f"an access that cannot be, at +{step.at:#x}: {step.text}"
        step = self._path.steps[found.left]
        if found.left == self._end.step_of_path:
            return f"what ends it cannot be set: +{step.at:#x} {step.text}"
        kind = "exit" if self._path.index_of(step.other) < 0 else "branch off its path"
        return f"{kind} at +{step.at:#x} taken"
