"""Misprediction cost: microbenchmark and fit.

Branches go by bits of a generator, and the same branches by bits that never change. The generator
goes on from iteration to iteration through memory, as a predictor learns all branches of a loop
that begins anew with the same bits. Any predictor mispredicts half of the branches by random bits.
Their extra cycles over half their number are the cost, with the instructions between branch and
branch included.

The fit takes the cycles of `mispredict.cycles` with which the learned core repeats that figure.
Where the core lacks figures for the microbenchmark, the difference itself is an assumption.
"""

from dataclasses import dataclass, replace
from itertools import product

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import SOURCE, CoreModel, assumed, fitted
from loopwright.microbench import forms
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import Run

BRANCHES = 6
_WRONG = 0.5  # share of random branches
_SURE = 3.0  # standard deviations


@dataclass(frozen=True)
class Mispredicted:
    """The cycles of an iteration by random bits and by others, and of a misprediction.

    cost is refused where nothing is lost, or where that is not known.
    """

    random: Figure
    known: Figure
    cost: Figure


def measure_mispredictions(laboratory: Laboratory) -> Mispredicted:
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
    return Mispredicted(one, other, Figure(cost, error, refused))


def _run(ways: tuple[tuple[bool, ...], ...]) -> Run:
    return Run(ways, load=forms.GENERATOR_PLACE, store=forms.GENERATOR_PLACE)


_CYCLES = "mispredict.cycles"
_AROUND = 12  # cycles more or less than the difference that are tried
_NEAR_CYCLES = 1.5  # cycles of one misprediction by which what was learned may be off


def fit_mispredictions(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with the cycles of a misprediction, where they are known."""
    found = learned.special.gone if learned.special else None
    if found is None or not found.cost:
        return learned
    measured = f"{found.cost.cycles:.1f} +- {found.cost.uncertainty:.1f} cycles more for each of "
    measured += "half of the branches that go by random bits"
    cycles, off = _fitted(laboratory, learned, found)
    said = fitted(f"{measured}, with what stands between them")
    if off > _NEAR_CYCLES:
        cycles = round(found.cost.cycles)
        said = assumed(f"nothing stands between them; {measured} [{SOURCE}]")
    return replace(learned, rules={**learned.rules, _CYCLES: (cycles, said)})


def _fitted(laboratory: Laboratory, learned: CoreModel, found: Mispredicted) -> tuple[int, float]:
    """Return the cycles that explain the difference best, and by how many they do not."""
    code = laboratory.kit.gone(True, BRANCHES)
    middle = round(found.cost.cycles)
    best = middle, float("inf")
    for cycles in range(max(middle - _AROUND, 1), middle + _AROUND + 1):
        settings = {_CYCLES: cycles}
        said = measure_mispredictions(
            fit.candidate_laboratory(learned, laboratory.machine, [code], settings)
        )
        if said.cost:
            best = min(
                best,
                (cycles, abs(said.cost.cycles - found.cost.cycles)),
                key=lambda one: one[1],
            )
    return best
