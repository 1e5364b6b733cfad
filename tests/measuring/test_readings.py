"""Figures made of readings: their uncertainty, what was dropped, and when there is none."""

import math

import pytest

from loopwright import kernels
from loopwright.code import assemble
from loopwright.machine.harness import Point
from loopwright.measuring.readings import Goal, Reading, Result, Sweep, goals


def _reading(cycles, spread=0.0, refused="", clock="clock", slow=0, two_speeds=""):
    return Reading(
        cycles=cycles,
        p10=cycles - spread,
        p90=cycles + spread,
        samples=(cycles,) * 64,
        accepted=64 + slow,
        slow=slow,
        slow_from=1.1,
        slow_to=2.5,
        two_speeds=two_speeds,
        skew=2048,
        clock=clock,
        refused=refused,
        milliseconds=10.0,
    )


SLOPE = Goal("loop", "cycles/iteration", (Point(1, 0, 0, 0), Point(2, 0, 0, 0)), 8, 100.0, True)
CALL = Goal("call", "cycles/call", (Point(1, 0, 0, 0),), 8, 1.0, True)


def _loop_alignments(variant, *alignments):
    """Return the alignments at which a variant's loop is to be measured."""
    contract = kernels.contract_of(variant)
    of_variant = goals(
        variant, assemble.user_code(variant), contract, Sweep(alignments=alignments or None)
    )
    loops = [goal for goal in of_variant if goal.quantity == "loop"]
    return [(p.dst_align, p.src_align) for goal in loops for p in goal.points]


def test_a_loop_is_measured_where_calls_run_in_it():
    """movsq680 moves sides that are aligned alike by rep movsq, whatever its loop takes."""
    variants = kernels.load("x86_64/memmove").variants
    assert _loop_alignments(variants["loop32"]) == [(0, 0)] * 2
    assert _loop_alignments(variants["movsq680"]) == [(8, 0)] * 2
    assert _loop_alignments(variants["movsq680"], (0, 0)) == []
    copies = kernels.load("x86_64/copy_user").variants
    assert _loop_alignments(copies["movsq"]) == [(0, 0)] * 2


def test_slope_and_its_uncertainty():
    short, long = _reading(500.0, 0.5), _reading(900.0, 0.5)
    result = Result.of(SLOPE, [[short] * 3, [long] * 3], 3)
    assert result.cycles == pytest.approx(4.0)
    assert result.status == "ok"
    # Each point is good for 0.5 cycles, or 0.05 %; a hundred iterations lie between them.
    assert result.uncertainty == pytest.approx(math.hypot(0.5, 0.5) / 100)
    assert result.samples == 6 * 64


def test_uncertainty_includes_the_spread_between_processes():
    result = Result.of(CALL, [[_reading(10.0), _reading(10.01), _reading(10.02)]], 3)
    assert result.cycles == pytest.approx(10.01)
    assert result.status == "ok"
    assert result.uncertainty == pytest.approx(10.02 * 5e-4 + 0.01)


def test_noise_is_no_second_speed():
    apart = Result.of(CALL, [[_reading(10.0), _reading(10.0), _reading(10.03)]], 3)
    assert (apart.status, apart.reason) == ("ok", "")
    assert apart.cycles + apart.uncertainty >= 10.03
    wide = Result.of(CALL, [[_reading(10.0, 0.1), _reading(10.0, 0.1), _reading(10.12, 0.1)]], 3)
    assert wide.status == "ok"
    assert wide.uncertainty >= 0.1


def test_two_speeds_are_named():
    apart = Result.of(CALL, [[_reading(10.0), _reading(10.0), _reading(10.2)]], 3)
    assert (apart.status, apart.reason) == (
        "bimodal",
        "processes differ: 10.00, 10.00, 10.20 cycles",
    )
    assert apart.cycles + apart.uncertainty >= 10.2
    seen = _reading(10.0, two_speeds="9 of 48 samples took 2.60 times as long")
    within = Result.of(CALL, [[_reading(10.0), seen, _reading(10.0)]], 3)
    assert (within.status, within.reason) == ("bimodal", seen.two_speeds)


def test_what_was_dropped_is_said():
    few = Result.of(CALL, [[_reading(10.0, slow=8), _reading(10.0), _reading(10.0)]], 3)
    assert few.columns()["dropped"] == 8 / (3 * 64 + 8)
    assert (few.columns()["dropped_from"], few.columns()["dropped_to"]) == (1.1, 2.5)
    assert "dropped" not in few.note
    many = Result.of(CALL, [[_reading(10.0, slow=32)] * 3], 3)
    assert "more than a fifth of the samples was dropped" in many.note
    none = Result.of(CALL, [[_reading(10.0)] * 3], 3)
    assert none.columns()["dropped"] == 0
    assert math.isnan(none.columns()["dropped_from"])


def test_too_few_processes_give_no_number():
    refused = _reading(0.0, refused="disturbed: 3 of 64 samples acceptable")
    result = Result.of(CALL, [[_reading(10.0), refused, refused]], 3)
    assert result.status == "refused"
    assert math.isnan(result.cycles)
    assert result.reason.endswith("(in 2 of 3 processes)")
    enough = Result.of(CALL, [[_reading(10.0), refused, _reading(10.0), _reading(10.0)]], 3)
    assert enough.cycles == 10.0


def test_readings_of_different_clocks_make_no_figure():
    tsc, pmu = _reading(10.0, clock="tsc-calibrated"), _reading(10.0, clock="perf-rdpmc")
    refused = Result.of(CALL, [[tsc, tsc, pmu]], 3)
    assert refused.status == "refused"
    assert refused.reason == "the clocks differ: perf-rdpmc and tsc-calibrated"
    assert math.isnan(refused.cycles)
