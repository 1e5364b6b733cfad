"""What is not known of a core, as ranges: where along one a margin turns."""

import pytest

from loopwright.cores import microarchs
from loopwright.judging import unknowns
from loopwright.judging.unknowns import Unknown


def test_a_margin_that_rises_turns_where_it_is_nought():
    found = unknowns.course(lambda place: place - 0.37)
    assert found.zeros == pytest.approx((0.37,), abs=1e-3)
    assert found.monotone
    assert found.better_at_dear
    assert found.moves == pytest.approx(1.0)


def test_a_margin_of_one_sign_turns_nowhere():
    assert unknowns.course(lambda place: 0.1 + place).zeros == ()
    assert unknowns.course(lambda place: -0.1 - place).zeros == ()


def test_a_margin_with_a_hump_is_said_to_be_none_that_runs_one_way_and_turns_twice():
    found = unknowns.course(lambda place: 0.1 - (place - 0.5) ** 2)
    assert not found.monotone
    assert found.zeros == pytest.approx((0.5 - 0.1**0.5, 0.5 + 0.1**0.5), abs=1e-3)


def test_a_rate_goes_evenly_by_what_bytes_cost():
    rate = Unknown("string.movs_rate_unaligned", 32.0, 2.0, whole=False)
    assert [64 / rate.at(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([2, 17, 32])


def test_cycles_that_are_counted_stay_whole():
    gate = Unknown("serial.stac_clac", 1.0, 225.0, whole=True)
    assert gate.text(0.5) == "113"
    assert gate.text(0.001) == "1"


def test_few_parameters_are_looked_at_in_all_corners_many_one_by_one():
    assert len(unknowns.corners(3)) == 8
    many = unknowns.corners(6)
    assert len(many) == 2 * (1 + 6)
    assert {sum(c) for c in many} == {0, 1, 5, 6}


def test_what_is_given_a_value_is_unknown_no_more():
    zen2 = microarchs.load("zen2")
    names = {u.name for u in unknowns.of(zen2, {})}
    assert "serial.stac_clac" in names
    left = {u.name for u in unknowns.of(zen2, {"serial.stac_clac": "20"})}
    assert left == names - {"serial.stac_clac"}
