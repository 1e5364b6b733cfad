"""The learned core in the place of the machine, some parameters replaced, for a few kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from loopwright.calibrating import core_files
from loopwright.calibrating.core_model import CoreModel
from loopwright.code import binding
from loopwright.measuring import block
from loopwright.microbench import kits
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.oracle import COUNTER, Oracle
from loopwright.microbench.simulated import CandidateCore


def candidate_laboratory(
    learned: CoreModel, machine: Oracle, codes: Sequence[bytes], settings: Mapping[str, str]
) -> Laboratory:
    """Return what times loops of these codes on the core that would be written.

    The core holds no other forms, as it is made for each set of parameters that is tried. Branches
    of which nothing is known use any port here: of the loops of these kernels they are no great
    part.
    """
    every = (
        name for branch in kits.of(machine.isa).BRANCHES for name in (branch.name, branch.opposite)
    )
    ports = {**dict.fromkeys(every, learned.core.wide), **learned.branches.ports}
    small = replace(
        within(learned, machine.isa, codes), branches=replace(learned.branches, ports=ports)
    )
    return Laboratory(CandidateCore(machine, *core_files.core_texts(small, machine), settings))


def mean_error(said: Sequence[Figure], took: Sequence[Figure]) -> float:
    """Return the mean relative error of predictions, each 1 at most; 1 where there is none."""
    return fmean(
        min(abs(a.cycles - b.cycles) / b.cycles, 1.0) if a else 1.0
        for a, b in zip(said, took, strict=True)
    )


def within(learned: CoreModel, isa: str, codes: Sequence[bytes]) -> CoreModel:
    """Return what was learned of the forms of codes and of the end of a loop alone."""
    closing = block.closing(isa, COUNTER[isa], 0)
    some = {name for names in binding.forms(isa, [closing, *codes]) for name in names or ()}
    return replace(learned, uops={n: one for n, one in learned.uops.items() if n in some})
