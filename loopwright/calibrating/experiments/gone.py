"""Branches that go another way than was predicted.

Asked: how many cycles one of them costs. Kernels: branches that go by bits of a generator, and the
same ones by bits that never change. The generator goes on from one iteration to the next through
memory: a predictor learns all branches of a loop that begins anew with the same bits. Test: half of
the branches by random bits are mispredicted, whatever they are predicted by. Answer: the cycles
that the random ones take longer, over half their number.
"""

from dataclasses import dataclass
from itertools import product

from loopwright.calibrating.forms import bits
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.machines.machine import Run

BRANCHES = 6
_WRONG = 0.5  # share of random branches
_SURE = 3.0  # standard deviations


@dataclass(frozen=True)
class Gone:
    """The cycles of an iteration by random bits and by others, and of a misprediction.

    cost is refused where nothing is lost, or where that is not known.
    """

    random: Figure
    known: Figure
    cost: Figure


def measure(laboratory: Laboratory) -> Gone:
    """Return what a misprediction costs."""
    random, known = (laboratory.kit.gone(by, BRANCHES) for by in (True, False))
    every = tuple(product((False, True), repeat=BRANCHES))
    runs = [_run(every), _run((tuple(n % 2 == 1 for n in range(BRANCHES)),))]
    one, other = laboratory.turns([random, known], runs)
    wrong = BRANCHES * _WRONG
    error = (one.uncertainty**2 + other.uncertainty**2) ** 0.5 / wrong
    refused = one.refused or other.refused
    cost = (one.cycles - other.cycles) / wrong
    if not refused and cost <= _SURE * error:
        refused = f"random branches take no longer than others: {one.cycles:.2f} cycles"
    return Gone(one, other, Figure(cost, error, refused))


def _run(ways: tuple[tuple[bool, ...], ...]) -> Run:
    return Run(ways, load=bits.PLACE, store=bits.PLACE)
