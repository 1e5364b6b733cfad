"""Ratios of measurements: their intervals hold what is true, and what they cannot tell is said."""

import numpy as np
import pandas as pd
import pytest
from made_up import CALL

from loopwright import kernels
from loopwright.histogram import Bucket, Histogram
from loopwright.judging import call_costs
from loopwright.measuring import readings

PROCESSES = 3
SAMPLES = 40


def raw(cycles, within=0.002, between=0.0, seed=0, divisor=1.0, ends=False):
    """Samples of three processes around cycles, each process off by up to between."""
    random = np.random.default_rng(seed)
    out = []
    for process in range(PROCESSES):
        shift = 1 + between * (process - 1)
        points = [cycles * shift * divisor * n for n in ((1, 3) if ends else (1,))]
        out.append([list(random.normal(p, within * p, SAMPLES) / divisor) for p in points])
    return out


def row(variant, cycles, size=64, quantity="call", clock="tsc-calibrated", **noise):
    return {
        **CALL, "variant": variant, "quantity": quantity, "size_bytes": size, "dst_align": 0,
        "src_align": 0, "skew_bytes": float("nan"), "cycles": cycles, "clock": clock,
        "microarch": "zen4", "raw": raw(cycles, **noise),
    }  # fmt: skip


def compared(base, other, **settings):
    rows = pd.DataFrame([base, other])
    return readings.add_ratios(
        rows, {other["variant"]: base["variant"]}, placed=False, **settings
    ).iloc[1]


def test_a_clear_difference_has_a_side():
    faster = compared(row("a", 20.0), row("b", 10.0, seed=1))
    assert (faster["against"], faster["verdict"]) == ("a", readings.FASTER)
    assert faster["ratio_low"] < 2 < faster["ratio_high"]
    assert faster["ratio_high"] - faster["ratio_low"] < 0.02
    slower = compared(row("a", 10.0), row("b", 20.0, seed=1))
    assert slower["verdict"] == readings.SLOWER


def test_a_difference_within_the_interval_is_none():
    same = compared(row("a", 10.0, between=0.02), row("b", 10.1, between=0.02, seed=1))
    assert same["verdict"] == readings.SAME
    assert same["ratio_low"] < 1 < same["ratio_high"]


def test_processes_that_disagree_widen_it_however_many_samples_there_are():
    quiet = compared(row("a", 10.0), row("b", 9.9, seed=1))
    loud = compared(row("a", 10.0, between=0.05), row("b", 9.9, between=0.05, seed=1))
    assert quiet["verdict"] == readings.FASTER
    assert loud["verdict"] == readings.SAME


def test_intervals_hold_the_true_ratio_as_often_as_they_say():
    held = 0
    for seed in range(0, 120, 2):
        base = row("a", 10.0, within=0.02, seed=seed)
        other = row("b", 10.0, within=0.02, seed=seed + 1)
        base["cycles"], other["cycles"] = (
            float(np.median([np.median(p[0]) for p in r["raw"]])) for r in (base, other)
        )
        got = compared(base, other)
        held += got["ratio_low"] <= 1 <= got["ratio_high"]
    assert held >= 0.9 * 60


def test_loops_count_bytes_and_need_more_than_their_exits():
    base = row("a", 2.0, size=8, quantity="loop", divisor=100, ends=True)
    base["raw"] = [[short, [s + 2.0 for s in short]] for [short, _] in base["raw"]]
    twice = {**base, "variant": "b", "size_bytes": 16}
    assert compared(base, twice)["ratio"] == pytest.approx(2)
    near = {**base, "variant": "b", "cycles": 1.98}
    near["raw"] = [[short, [s - 0.02 for s in long]] for short, long in base["raw"]]
    assert compared(base, near)["ratio"] == pytest.approx(1.01, abs=1e-3)
    assert compared(base, near)["verdict"] == readings.SAME


def test_the_same_samples_give_the_same_interval():
    drawn = readings.draws(raw(10.0), "key")
    assert (drawn == readings.draws(raw(10.0), "key")).all()
    assert (drawn != readings.draws(raw(10.0), "another")).any()
    assert len(drawn) == readings.RESAMPLES


def test_different_clocks_make_no_ratio():
    base, other = row("a", 10.0), row("b", 5.0, clock="perf-rdpmc")
    got = compared(base, other)
    assert np.isnan(got["ratio"])
    assert got["verdict"] == "no ratio: the clocks differ, tsc-calibrated and perf-rdpmc"
    assert met([base], [other]) == {}
    assert list(met([base], [row("b", 5.0)])) == [call_costs.CallPoint(64, 0, 0)]


def met(base, other):
    """Return the places at which rows of two variants meet."""
    rows = pd.DataFrame([*base, *other])
    names = (base[0]["variant"], other[0]["variant"])
    return call_costs.paired_calls(*(call_costs.measured_calls(rows, name) for name in names))


def test_what_was_refused_is_not_compared():
    refused = {**row("a", float("nan")), "status": "refused", "raw": ()}
    assert compared(refused, row("b", 5.0))["verdict"] == "no ratio: a was refused"
    assert compared(row("b", 5.0), refused)["verdict"] == ""


def test_a_slope_lost_in_noise_makes_no_ratio():
    assert compared(row("a", 5.0), row("b", 0.0))["verdict"].startswith("no ratio: a slope")


def test_only_the_same_point_is_compared():
    assert compared(row("a", 10.0), row("b", 5.0, size=128))["against"] == ""
    assert compared(row("a", 10.0), {**row("b", 5.0), "cache": "cold"})["against"] == ""


def test_a_variant_is_compared_within_its_routine():
    variants = list(kernels.load("arm64/copy_user").variants.values())
    names = readings.bases(variants, "to_user_pairs")
    assert names["to_user_batched"] == "to_user_pairs"
    assert names["from_user_pairs"] == ""
    assert readings.bases(variants)["from_user_batched"] == "from_user_pairs"


def test_a_histogram_weighs_the_draws_as_it_weighs_the_figures():
    base = [row("a", 10.0, 64), row("a", 110.0, 1064, seed=1)]
    other = [row("b", 5.0, 64, seed=2), row("b", 105.0, 1064, seed=3)]
    sizes = Histogram("@calls", (Bucket(64, 65, 1), Bucket(1064, 1065, 1)))
    ratio, low, high = call_costs.speedup(met(base, other), sizes)
    curves = (call_costs.curve(pd.DataFrame(rows)) for rows in (base, other))
    mean = sizes.mean(next(curves)) / sizes.mean(next(curves))
    assert ratio == pytest.approx(mean)
    assert low < ratio < high
    assert high - low < 0.01
