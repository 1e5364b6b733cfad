"""Figures of blocks: made of slopes that agree, or there is none."""

import math
from dataclasses import replace

import pytest
from test_host import READ

from loopwright.measuring.measure_blocks import mark_two_speeds, result, wants_more


def _reading(cycles, refused="", disturbed=False, spread=0.001, two_speeds="", copies=10_000):
    samples = {"samples": 40, "accepted": 50, "slow": 10, "slow_to": 2.5, "copies": copies}
    why = {"disturbed": disturbed, "refused": refused, "two_speeds": two_speeds}
    ends = {"p10": cycles * (1 - spread), "p90": cycles * (1 + spread)}
    return replace(READ, cycles=cycles, **ends, **samples, **why)


def test_slopes_that_differ_give_no_number():
    row = result([_reading(1.0), _reading(1.3)], turns=2)
    assert row["status"] == "refused"
    assert row["reason"] == "slopes are inconsistent: 1.00, 1.30 cycles in 2 runs"
    assert math.isnan(row["cycles"])


def test_the_odd_one_out_is_left_out_and_said():
    row = result([_reading(1.0), _reading(1.7), _reading(1.001)], turns=2)
    assert row["cycles"] == pytest.approx(1.0005)
    assert (row["status"], row["processes"]) == ("bimodal", 2)
    assert row["reason"] == "processes differ: 1.00, 1.70, 1.00 cycles"


def test_noise_is_no_second_speed():
    row = result([_reading(1.0), _reading(1.012), _reading(1.006)])
    assert (row["status"], row["reason"]) == ("ok", "")
    assert row["cycles"] + row["uncertainty"] >= 1.012
    one = _reading(1.0, two_speeds="9 of 24 samples took 2.60 times as long")
    row = result([one, _reading(1.0), _reading(1.0)])
    assert (row["status"], row["reason"]) == ("bimodal", one.two_speeds)


def test_equal_code_with_two_figures_has_two_speeds():
    def row(name, cycles, code="0f31", offset=0):
        found = result([_reading(cycles)] * 3)
        return {"id": name, "notion": "loop", "offset": offset, "code": code, **found}

    rows = [row("a", 35.0), row("b", 60.99), row("c", 60.99, offset=1), row("d", 70.0, code="90")]
    mark_two_speeds(rows)
    assert [one["status"] for one in rows] == ["bimodal", "bimodal", "ok", "ok"]
    assert rows[0]["reason"] == "the same code took 35.00 and 60.99 cycles (rows a and b)"
    near = [row("a", 35.0), row("b", 35.3)]
    mark_two_speeds(near)
    assert [one["status"] for one in near] == ["ok", "ok"]


def test_what_was_dropped_is_said():
    row = result([_reading(1.0)] * 3)
    assert (row["dropped"], row["dropped_from"], row["dropped_to"]) == (0.2, 1.1, 2.5)


def test_codes_end_early_or_late_by_their_length():
    short = [_reading(c, copies=100) for c in (1.72, 1.66, 1.60)]
    row = result(short)
    assert (row["status"], row["processes"]) == ("ok", 3)
    assert row["uncertainty"] > 0.06
    assert result([_reading(c) for c in (1.72, 1.66, 1.60)])["status"] == "refused"
    assert result([_reading(1.0, copies=100)] * 3)["uncertainty"] == pytest.approx(0.02)


def test_disturbed_runs_do_not_count():
    disturbed = _reading(0, "disturbed: 3 of 20", True)
    row = result([_reading(1.0), disturbed, _reading(1.0)], turns=2)
    assert (row["status"], row["cycles"]) == ("ok", 1.0)
    row = result([disturbed] * 5)
    assert row["reason"] == "disturbed: 3 of 20 (in 5 of 5 processes)"


def test_noisy_runs_give_way_to_quiet_ones():
    noisy = _reading(1.015, spread=0.035)
    assert wants_more([noisy, _reading(1.0)], turns=2)
    assert not wants_more([_reading(1.0)], turns=1)
    assert not wants_more([noisy], turns=1)
    alone = result([_reading(1.0)], turns=1)
    assert (alone["status"], alone["note"]) == ("ok", "one process alone")
    assert result([_reading(1.0)] * 2, turns=2)["note"] == ""
    disturbed = _reading(0, "disturbed: 3 of 20", True)
    assert result([disturbed], turns=1)["status"] == "refused"
    both = result([noisy, _reading(1.0)], turns=2)
    assert (both["status"], both["uncertainty"] > 0.04) == ("ok", True)
    row = result([noisy, _reading(1.0), _reading(1.001)], turns=2)
    assert (row["status"], row["cycles"]) == ("ok", pytest.approx(1.0005))
    assert row["uncertainty"] < 0.002
