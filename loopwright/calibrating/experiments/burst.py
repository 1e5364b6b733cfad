"""Bursts: how many instructions are dispatched in a cycle, whatever delivers or retires them.

Asked: the same as the width, where copies of what does nothing show no more than the slowest of
fetch, dispatch and retirement. Kernel: the iteration of a loop is n instructions that do nothing, a
slow chain that waits for none of them, and a fence. While the fence waits, the queue in front of
dispatch fills; while the chain runs, the n retire. So an iteration is longer by what dispatching
them takes before the chain. Answer: the width of the steps that iterations make by n; none where no
steps are seen, or where steps of other widths fit nearly as well. A form among the n shifts the
steps by the places that it takes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from loopwright.calibrating.experiments.shadow import Chain
from loopwright.calibrating.experiments.width import Width
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.laboratory import Laboratory

_MOST = 27  # instructions: what queues hold
_WIDTHS = range(1, 17)
_KNOWN = 0.75  # of the iterations
_ROUGH = 0.5  # cycles that iterations may lie from steps, root mean square
_CLEAR = 1.25  # times as far that steps of any other width lie: of 28 iterations nearly four errors
_RETIRED = 2  # instructions a cycle that any core retires
_PLACES = 16  # of a form: what looks like as many, or more, is not told
_GROUPS = 3  # of fillers before the chain that are tried
_SHIFTED = 0.5  # cycles, squared: by how much steps of other places have to be further off

Iterations = Sequence[tuple[int, float]]  # fillers and cycles


@dataclass(frozen=True)
class Steps:
    """Cycles of iterations over fillers: a step each `width`, the first step, cycles without any.

    off is how far iterations lie from them, cycles, root mean square.
    """

    width: int
    first: int
    level: float
    off: float


def idle(kit: Kit, width: Width) -> bytes:
    """Return the shortest instruction that does nothing and takes a place."""
    return kit.SHORT if width.nops else kit.MOVE


def measure(laboratory: Laboratory, chain: Chain, filler: bytes) -> Steps | None:
    """Return what fillers are dispatched in; None where that is not seen."""
    if not laboratory.kit.FENCE:
        return None
    behind = _behind(laboratory, chain)
    figures = laboratory.turns([filler * n + behind for n in range(_MOST + 1)])
    known = [(n, one.cycles) for n, one in enumerate(figures) if one]
    if len(known) < _KNOWN * len(figures):
        return None
    best, second = sorted((_steps(known, w) for w in _WIDTHS), key=lambda one: one.off)[:2]
    return best if best.off <= _ROUGH and second.off >= _CLEAR * best.off else None


def places(
    laboratory: Laboratory, chain: Chain, filler: bytes, steps: Steps, tested: Mapping[str, bytes]
) -> dict[str, int]:
    """Return how many places instructions take at dispatch, those that steps tell, by their names.

    None of them may use for long what the chain needs. One that keeps the chain waiting for a cycle
    does so behind some numbers of fillers alone: two groups of these have to show the same.
    """
    behind = _behind(laboratory, chain)
    most = max(_MOST // steps.width - 1, 1)
    votes: dict[str, Counter[int]] = {name: Counter() for name in tested}
    for before in range(most, max(most - _GROUPS, -1), -1):
        left = {name: tested[name] for name, some in votes.items() if _told(some) is None}
        numbers = range(before * steps.width, (before + 1) * steps.width)
        bodies = [one + filler * n + behind for one in left.values() for n in numbers]
        figures = iter(laboratory.turns(bodies))
        for name in left:
            iterations = [(n, one.cycles) for n in numbers if (one := next(figures))]
            found = _shift(iterations, steps) if len(iterations) == len(numbers) else None
            if found is not None:
                votes[name][found] += 1
    shown = {name: _told(some) for name, some in votes.items()}
    return {name: some for name, some in shown.items() if some is not None and some < _PLACES}


def _told(votes: Counter[int]) -> int | None:
    """Return the places that two groups of fillers show."""
    return next((places for places, times in votes.items() if times > 1), None)


def _behind(laboratory: Laboratory, chain: Chain) -> bytes:
    links = max(round(_MOST / _RETIRED / chain.cycles), 1)
    return chain.start + chain.link * links + chain.last + laboratory.kit.FENCE


def _steps(iterations: Iterations, width: int) -> Steps:
    """Return the steps of a width that lie nearest to iterations."""
    some = []
    for first in range(width):
        rest = [cycles - (n + first) // width for n, cycles in iterations]
        level = fmean(rest)
        off = fmean((one - level) ** 2 for one in rest) ** 0.5
        some.append(Steps(width, first, level, off))
    return min(some, key=lambda one: one.off)


def _shift(iterations: Iterations, steps: Steps) -> int | None:
    """Return the places by which iterations lie behind steps; None where others are as likely."""

    def off(more: int) -> float:
        said = ((n, steps.level + (n + steps.first + more) // steps.width) for n, _ in iterations)
        return sum(
            (cycles - one) ** 2 for (_, one), (_, cycles) in zip(said, iterations, strict=True)
        )

    (least, found), (second, _) = sorted((off(more), more) for more in range(_PLACES + 1))[:2]
    clear = least <= _ROUGH**2 * len(iterations) and second >= least + _SHIFTED
    return found if clear else None
