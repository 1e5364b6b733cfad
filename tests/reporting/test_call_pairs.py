"""Whole calls predicted beside measured: the same calls, and errors that are those of the rows."""

import pandas as pd
import pytest
from seen import measured

import loopwright as lw
from loopwright import kernels, microarchs
from loopwright.errors import InputError
from loopwright.judging import unmeasured
from loopwright.machine import hosts
from loopwright.predicting import calls
from loopwright.predicting.calls import CallCost
from loopwright.reporting import cross_validation, plots


def rows(*cycles, kernel="x86_64/clear_user", variant="plain", sizes=(64, 256, 1024)):
    return pd.DataFrame(
        {"kernel": kernel, "variant": variant, "microarch": "goldencove", "size_bytes": size,
         "dst_align": 0, "src_align": 0, "cycles": real, "uncertainty": 0.1}
        for size, real in zip(sizes, cycles, strict=True)
    )  # fmt: skip


def test_what_is_paired_is_what_is_predicted_of_that_call():
    found = cross_validation.paired_calls(rows(10.0, 40.0, 130.0), "goldencove")
    said = lw.predict("x86_64/clear_user/plain", microarch="goldencove", sizes=[64, 256, 1024])
    assert list(found["predicted_cycles"]) == list(said["cycles"])
    errors = 100 * (said["cycles"] / [10.0, 40.0, 130.0] - 1)
    assert list(found["error_percent"]) == pytest.approx(list(errors))
    [one] = cross_validation.call_errors(found).to_dict("records")
    assert one["calls"] == 3
    assert one["median_percent"] == pytest.approx(errors.abs().median())
    farthest = cross_validation.worst_calls(found, 1)["outside_percent"].iloc[0]
    assert abs(farthest) == pytest.approx(found["outside_percent"].abs().max())


def test_sizes_of_records_are_counted_in_records():
    kernel = kernels.load("x86_64/put_event")
    record = kernels.contract_of(kernel.variants["masked"]).count_bytes
    found = cross_validation.paired_calls(
        rows(20.0, kernel=kernel.id, variant="masked", sizes=(8 * record,)), "goldencove"
    )
    [place] = calls.of_variants(
        [calls.CallQuestion(kernel.variants["masked"], microarchs.load("goldencove"),
                            [(8, 0, 0)], {}, in_user_space=True)]
    )[0]  # fmt: skip
    assert found["predicted_cycles"].iloc[0] == place.cycles
    assert cross_validation.sizes_of("x86_64/put_event") == cross_validation.RECORDS
    assert cross_validation.sizes_of("x86_64/csum") == cross_validation.SIZES


def test_a_call_without_a_prediction_counts_nowhere(monkeypatch):
    answers = [[CallCost(64, 0, 0, 11.0, 12.0, 30.0), InputError("no figure for it")]]
    monkeypatch.setattr(unmeasured, "of_variants", lambda _: answers)
    found = cross_validation.paired_calls(rows(10.0, 40.0, sizes=(64, 256)), "goldencove")
    assert list(found["why"]) == ["", "no figure for it"]
    [one] = cross_validation.call_errors(found).to_dict("records")
    assert (one["calls"], one["median_percent"]) == (1, pytest.approx(10))
    assert len(cross_validation.worst_calls(found, 5)) == 1
    legend = plots.scatter(found, of="calls").axes[0].get_legend().get_texts()
    assert legend[0].get_text().startswith("pipeline: 1 calls")


def test_nothing_paired_is_drawn_as_such():
    figure = plots.scatter(cross_validation.NO_CALLS, of="calls")
    assert "no calls have both" in figure.axes[0].texts[0].get_text()
    assert cross_validation.call_errors(cross_validation.NO_CALLS).empty


@pytest.mark.measures
def test_calls_measured_here_are_paired():
    if hosts.microarch() is None:
        pytest.skip("no core.toml describes this machine")
    real = lw.measure("x86_64/clear_user/unrolled64", sizes=[1024], alignments=[(0, 0)])
    real = measured(real[real["quantity"] == "call"])
    found = cross_validation.paired_calls(real, hosts.microarch())
    assert list(found["source"]) == ["pipeline"]
    assert found["predicted_cycles"].iloc[0] > 0
