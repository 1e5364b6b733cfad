"""Operations that absorb moves and loads are those of the core; others have none."""

import dataclasses
from types import SimpleNamespace

import pytest

from loopwright import microarchs
from loopwright.calibrating import absorbed_moves
from loopwright.microbench import kits
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated


@dataclasses.dataclass(frozen=True)
class Learned:
    """A learned core of nothing but rules, and whether nops take dispatch slots."""

    rules: dict[str, object]
    width: SimpleNamespace


@pytest.mark.parametrize("core", ["redwoodcove", "zen4", "goldencove"])
def test_operations_that_absorb_moves_are_those_of_the_core(core):
    width = SimpleNamespace(nops=core != "zen4")
    learned = absorbed_moves.choose_absorbed(Laboratory(Simulated(core)), Learned({}, width))
    fusion = microarchs.load(core).parameters["macro_fusion"]
    asked = {name for _, operations in kits.of("x86_64").ABSORBING for name in operations}
    for rule in ("move_ops", "load_ops"):
        known = set(fusion.get(rule, {"value": ""})["value"].split()) & asked
        value, _ = learned.rules.get(f"macro_fusion.{rule}", ("", None))
        # Rotations by one have their own form, which takes two places.
        assert set(value.split()) == known - {"rol", "ror"}
