"""Transformations: each keeps the contract where its condition holds, and needs its condition."""

import pytest
from test_listing import assembled

from loopwright import kernels
from loopwright.checking import coverage, emulated
from loopwright.improving.addressing import PointersForIndex
from loopwright.improving.listing import parse
from loopwright.improving.strings import StringInstruction
from loopwright.improving.transformations import TRANSFORMATIONS, Align
from loopwright.improving.unrolling import Unroll

CLEAR, COPY, INDEX = (
    f"x86_64/{n}" for n in ("clear_user/plain", "copy_user/loop32", "copy_user/negative_index")
)
USED = {
    CLEAR: (Unroll(2), Unroll(8), Align(5), StringInstruction(256)),
    COPY: (Unroll(2), StringInstruction(256)),
    INDEX: (Unroll(2), PointersForIndex()),
}


@pytest.fixture
def few(monkeypatch):
    """Make the calls of an emulated core few: all small sizes, and each position of a fault."""
    for name, value in (
        ("_SMALL", 96), ("_FULL_FAULTS", 40), ("_RANDOM", 100), ("_LARGE", (257, 513)),
        ("_ROUNDS", 1), ("_INJECTED", 8), ("_POWERS", range(16, 18)), ("_CROSSED", 1),
    ):  # fmt: skip
        monkeypatch.setattr(emulated, name, value)


def listing_of(spec):
    _, [variant] = kernels.select(spec)
    return variant, parse(variant.source.read_text(), kernels.contract_of(variant))


def failure(variant, listing, folder):
    """Return the first emulated call that breaks the contract."""
    code = assembled(listing, variant, folder)
    access = coverage.access(code, frozenset(), frozenset(), switches_pan=False)
    return emulated.run(code, listing.contract, access).failure


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("spec", "transformation"), [(s, t) for s, used in USED.items() for t in used]
)
def test_a_transformation_keeps_the_contract(spec, transformation, tmp_path):
    variant, listing = listing_of(spec)
    made = list(transformation.apply(listing))
    assert made
    assert all(one.steps == (transformation.name,) for one in made)
    assert failure(variant, made[0], tmp_path) == ""


def test_names_are_unique_and_conditions_are_said():
    names = [one.name for one in TRANSFORMATIONS]
    assert len(set(names)) == len(names)
    assert all(one.condition for one in TRANSFORMATIONS)
