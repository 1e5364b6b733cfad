"""What is not measured of a core: its parameters varied, and where along one a margin turns."""

import pytest

from loopwright import kernels, microarchs
from loopwright.judging import margins as margins_module
from loopwright.judging import model_accuracy, verdicts
from loopwright.judging.call_costs import CallSimulator, code_offsets
from loopwright.judging.margins import Margins, Unmeasured
from loopwright.judging.model_accuracy import Rank
from loopwright.microarchs import Range
from loopwright.predicting.calls import of_variants

ALONG = (0.0, 0.25, 0.5, 0.75, 1.0)


def test_a_margin_that_rises_turns_where_it_is_nought():
    found = margins_module.course_of(lambda share: share - 0.37, ALONG)
    assert found.zeros == pytest.approx((0.37,), abs=1e-3)
    assert found.monotone
    assert found.margins[-1] > 0
    assert found.effect == pytest.approx(1.0)


def test_a_margin_of_one_sign_turns_nowhere():
    assert margins_module.course_of(lambda share: 0.1 + share, ALONG).zeros == ()
    assert margins_module.course_of(lambda share: -0.1 - share, ALONG).zeros == ()


def test_a_margin_with_a_hump_is_said_to_be_none_that_runs_one_way_and_turns_twice():
    found = margins_module.course_of(lambda share: 0.1 - (share - 0.5) ** 2, ALONG)
    assert not found.monotone
    assert found.zeros == pytest.approx((0.5 - 0.1**0.5, 0.5 + 0.1**0.5), abs=1e-3)


def test_a_rate_goes_evenly_by_what_bytes_cost():
    rate = Range("string.movs_rate_unaligned", "0", ("32", "2"), "made up", numeric=True)
    assert [64 / rate.at(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([2, 17, 32])
    assert rate.likely is None


def test_cycles_that_are_counted_stay_whole():
    gate = Range("serial.stac_clac", "0", ("1", "225"), "made up", numeric=True)
    assert gate.text(0.5) == "113"
    assert gate.text(0.001) == "1"


def test_each_parameter_of_low_confidence_is_varied_or_said_not_to_be():
    zen2 = microarchs.load("zen2")
    found = Unmeasured.of(zen2, {})
    names = {one.name for one in found.varied}
    assert {"serial.stac_clac", "uop_cache.reads", "string.odd_side"} <= names
    assert names | {*found.fixed} == {one.name for one in zen2.ranges}
    assert names.isdisjoint(found.fixed)
    # Nothing is fetched where the op cache holds all code: the simulator says so itself.
    assert "does nothing here" in found.fixed["fetch.queue"]
    assert f"{len(names)} of {len(zen2.ranges)} varied" in found.text
    assert "uop_cache (constants, spare_constants, branch_by_end, reads)" in found.text


def test_what_is_given_a_value_is_unmeasured_no_more():
    zen2 = microarchs.load("zen2")
    every = {one.name for one in Unmeasured.of(zen2, {}).varied}
    left = {one.name for one in Unmeasured.of(zen2, {"serial.stac_clac": "20"}).varied}
    assert left == every - {"serial.stac_clac"}


def margins(names, kernel="x86_64/clear_user", core="zen2", given=None, sizes=(64, 1024)):
    """Simulate calls of a few variants."""
    read = kernels.load(kernel)
    variants = [read.variants[name] for name in names]
    points = verdicts.simulated_points(kernels.contract_of(variants[0]), None)
    some = tuple(point for point in points if point.size in sizes)
    return Margins(CallSimulator(of_variants, given or {}), microarchs.load(core), variants, some)


def test_a_loop_across_two_lines_depends_on_how_many_entries_zen_2_reads_a_cycle():
    found = margins(("immediates", "aligned16"))
    assert "uop_cache.reads" in found.parameters("aligned16", "immediates")
    speed = found.over("aligned16", "immediates", None)
    assert speed.low < 1.05 < 1.5 < speed.high
    assert found.more_dependent("aligned16", "immediates", "uop_cache.reads") == "immediates"
    two = margins(("immediates", "aligned16"), given={"uop_cache.reads": "2"})
    set_by_hand = two.over("aligned16", "immediates", None)
    assert set_by_hand.high < 1.05
    assert speed.low <= set_by_hand.low


def test_a_variant_is_judged_at_every_code_offset_that_a_linker_may_give_it():
    zen2, clear = microarchs.load("zen2"), kernels.load("x86_64/clear_user").variants
    assert code_offsets(clear["plain"], zen2) == (6, 22, 38, 54)
    assert code_offsets(clear["immediates"], zen2) == (59,)  # its directive aligns the loop
    put = kernels.load("x86_64/put_event").variants["masked"]
    assert code_offsets(put, zen2) == tuple(range(64))  # inlined

    found = margins(("plain", "immediates"), given={"uop_cache.reads": "1"}, sizes=(1024,))
    by_offset = found.by_offset("plain", "immediates", None)
    # At 54 its 13 bytes straddle a line as those of immediates do.
    assert min(by_offset[o] for o in (6, 22, 38)) > 1.5
    assert by_offset[54] < 1.05
    speed = found.over("plain", "immediates", None)
    assert speed.low <= by_offset[54]
    assert speed.high >= by_offset[6]


@pytest.mark.parametrize(("corners", "near"), [(0, 1e-2), (32, 1e-6)])
def test_the_search_finds_the_ends_that_all_combinations_have(monkeypatch, corners, near):
    """All combinations of a few ends do; the search that many ends need comes within 1 %."""
    monkeypatch.setattr(margins_module, "_CORNERS", corners)
    kept = {"uop_cache.reads", "memory.split_store_bytes", "ports.assign", "scheduler.delay"}
    zen2 = microarchs.load("zen2")
    varied = [one for one in Unmeasured.of(zen2, {}).varied if one.name not in kept]
    given = {one.name: one.likely or one.text(0.0) for one in varied}
    speed = margins(("plain", "unrolled64"), given=given, sizes=(96,)).over(
        "plain", "unrolled64", None
    )
    ranges = [one for one in zen2.ranges if one.name in kept]
    ends = [
        margins(("plain", "unrolled64"), given=given | values, sizes=(96,)).over(
            "plain", "unrolled64", None
        )
        for values in margins_module.combinations(ranges)
    ]
    assert speed.low == pytest.approx(min(e.low for e in ends), rel=near)
    assert speed.high == pytest.approx(max(e.high for e in ends), rel=near)


def pair(found, name, against):
    """Return the calls of a variant against another, with the simulator's accuracy on zen2."""
    accuracy = model_accuracy.simulator_accuracy(found.core.id, model_accuracy.records())
    assert accuracy
    return verdicts.Simulated(found, accuracy, name, against, None)


def gains(found):
    """Say whether it is faster by more than the simulator may be off by."""
    status = verdicts.status(found.speed, Rank.SIMULATED, found.accuracy.doubt)
    return status is verdicts.Status.FASTER


def test_what_was_varied_is_named_and_what_was_not():
    found = pair(margins(("immediates", "aligned16")), "aligned16", "immediates")
    assert not gains(found)
    assert found.unknown[0] == "uop_cache.reads"
    assert set(found.unknown) <= {one.name for one in found.margins.unmeasured.varied}
    assert "it depends on uop_cache (reads" in found.assumptions
    zen2 = microarchs.load("zen2")
    every = Unmeasured.of(zen2, {})
    count = len(every.varied) + len(every.fixed)
    assert f"{len(every.varied)} of {count} varied" in found.assumptions
    assert "not varied: " in found.assumptions
    assert "aligned16 at code offsets 0, 16, 32, 48 and immediates at code offset 59" in (
        found.assumptions
    )


def test_a_speed_is_independent_of_what_was_set_by_hand():
    varied = Unmeasured.of(microarchs.load("zen2"), {}).varied
    given = {one.name: one.likely or one.text(0.0) for one in varied}
    found = pair(margins(("immediates", "aligned16"), given=given), "aligned16", "immediates")
    assert found.unknown == []
    assert gains(found)
    assert "it is independent of unmeasured parameters of zen2 (0 of " in found.assumptions


def test_a_gain_at_some_code_offsets_asks_for_an_alignment_directive():
    some = margins(("plain", "immediates", "aligned16"), given={"uop_cache.reads": "1"})
    plain = pair(some, "plain", "immediates")
    assert not gains(plain)
    assert "only with its loop at code offsets 6, 22, 38, of 6, 22, 38, 54" in plain.alignment
    aligned = pair(some, "aligned16", "immediates")
    assert gains(aligned)
    assert aligned.alignment == ""
