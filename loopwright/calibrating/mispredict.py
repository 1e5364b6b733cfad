"""The cycles of a misprediction: those with which what was learned takes as long as the machine.

What experiments.gone timed holds also what stands between a branch and the next one: the core that
would be written has that in it, too. Where it has no figures for these kernels the difference of
the two is taken as it is, and that is an assumption.
"""

from dataclasses import replace

from loopwright.calibrating import parameters, tried
from loopwright.calibrating.experiments import gone
from loopwright.calibrating.experiments.gone import Gone
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.parameters import SOURCE

_CYCLES = "mispredict.cycles"
_AROUND = 12  # cycles more or less than the difference that are tried
_NEAR = 1.5  # cycles of one misprediction by which what was learned may be off


def choose(laboratory: Laboratory, learned: Learned) -> Learned:
    """Return what was learned with the cycles of a misprediction, where they are known."""
    found = learned.special.gone if learned.special else None
    if found is None or not found.cost:
        return learned
    measured = f"{found.cost.cycles:.1f} +- {found.cost.uncertainty:.1f} cycles more for each of "
    measured += "half of the branches that go by random bits"
    cycles, off = _fitted(laboratory, learned, found)
    said = parameters.fitted(f"{measured}, with what stands between them")
    if off > _NEAR:
        cycles = round(found.cost.cycles)
        said = f"assumption: nothing stands between them; {measured} [{SOURCE}]"
    return replace(learned, rules={**learned.rules, _CYCLES: (cycles, said)})


def _fitted(laboratory: Laboratory, learned: Learned, found: Gone) -> tuple[int, float]:
    """Return the cycles that explain the difference best, and by how many they do not."""
    code = laboratory.kit.gone(True, gone.BRANCHES)
    middle = round(found.cost.cycles)
    best = middle, float("inf")
    for cycles in range(max(middle - _AROUND, 1), middle + _AROUND + 1):
        settings = {_CYCLES: str(cycles)}
        said = gone.measure(tried.laboratory(learned, laboratory.machine, [code], settings))
        if said.cost:
            best = min(
                best,
                (cycles, abs(said.cost.cycles - found.cost.cycles)),
                key=lambda one: one[1],
            )
    return best
