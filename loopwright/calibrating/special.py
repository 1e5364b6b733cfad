"""What instructions do that is no matter of ports: waits, wrong branches, strings, aliasing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopwright.calibrating.experiments import aliasing, gone, serialising, strings
from loopwright.calibrating.experiments.aliasing import Aliased
from loopwright.calibrating.experiments.gone import Gone
from loopwright.calibrating.experiments.serialising import Serialising
from loopwright.calibrating.experiments.strings import Timed
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory

MISPREDICTION = "a misprediction"
ALIASING = "a load 4 KiB on from a store"


@dataclass(frozen=True)
class Special:
    """What was measured, and why the rest is left out."""

    serialising: Serialising
    gone: Gone
    strings: Sequence[Timed]
    aliased: Mapping[str, Aliased]
    left: Mapping[str, str]

    def rows(self) -> Iterator[tuple[str, str, Figure, str]]:
        """Yield what was measured: a mnemonic or none, what of it, the cycles, a note."""
        for name, beside in self.serialising.figures.items():
            for said, figure in beside.items():
                yield name, said, figure, "a copy, by slope"
        iteration = f"an iteration of {gone.BRANCHES} branches and their bits"
        yield "", "branches by random bits", self.gone.random, iteration
        yield "", "branches by bits that never change", self.gone.known, iteration
        half = "of half of the random branches"
        yield "", MISPREDICTION, self.gone.cost, self.gone.cost.refused or half
        for said, one in self.aliased.items():
            yield "", f"{ALIASING}, {said}", one.same, f"{one.cost:.1f} cycles for looking alike"
            yield "", f"{ALIASING}, and a line, {said}", one.other, ""


def measure(laboratory: Laboratory, forms: Mapping[str, Form]) -> Special:
    """Do these experiments; forms are those that are learned, by name."""
    serial, branches = serialising.measure(laboratory, forms), gone.measure(laboratory)
    left = dict(serial.left)
    if branches.cost.refused:
        left[MISPREDICTION] = branches.cost.refused
    repeated = strings.measure(laboratory, list(strings.every(laboratory.kit)))
    aliased = aliasing.measure(laboratory, forms)
    costs = [f"{one.cost:.1f} cycles {said}" for said, one in aliased.items() if one.cost]
    if costs:
        left[ALIASING] = f"it costs {' and '.join(costs)}; the simulator has no rule for it"
    return Special(serial, branches, repeated, aliased, left)
