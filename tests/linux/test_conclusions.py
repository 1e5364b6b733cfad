"""What a patch says in its first lines: the worst that is known of it."""

import pandas as pd
import pytest
from made_up import CORES, calls, predictions, study

from loopwright.judging import call_costs
from loopwright.judging.recommend import conclude
from loopwright.linux import patch

pytestmark = pytest.mark.usefixtures("models_held")


def of(name, *arguments):
    judged = study(*arguments)
    return patch.conclusions_of(judged, conclude(judged))[name]


def test_a_winner_has_its_figures_and_no_doubt():
    judged = of("loop32", predictions({"movsq_aligned": 2.0, "loop32": 4.0}))
    assert judged.doubt == ""
    assert judged.proof == (
        "Against what is there: sandybridge: +100.0 % (llvm-mca, osaca, off by up to 8 %); "
        "zen2: +100.0 % (llvm-mca, osaca, off by up to 8 %) "
        "(confidence: models of the main loop on sandybridge and zen2)."
    )
    assert judged.off_by["zen2", "osaca"] == pytest.approx(8.0)


def test_one_that_is_slower_says_so_first():
    slower = {"movsq_aligned": 2.0, "loop32": 10.0}
    assert of("loop32", predictions(slower)).doubt.startswith(
        "This is slower on sandybridge (-20.0 %, models of the main loop) and zen2 "
        "(-20.0 %, models of the main loop). Speed against what is there: "
    )


def test_a_measured_loss_outranks_models_that_predict_a_gain():
    costs = dict.fromkeys(
        ("movsq_aligned", "movsq", "movsb", "overlapped", "unrolled64", "negative_index"), 20
    )
    measured = calls({**costs, "loop32": 25}, "zen4")
    judged = of("loop32", predictions({"movsq_aligned": 2.0, "loop32": 4.0}), measured, "zen4")
    assert judged.proof == ""
    assert judged.doubt.startswith("This is slower on zen4, this machine (-20.0 %, measured).")
    assert "zen2: +100.0 % (llvm-mca, osaca, off by up to 8 %)" in judged.doubt


def test_models_that_differ_are_told_with_both_ends():
    apart = {("loop32", "zen2", "osaca"): 10.0}
    judged = of("loop32", predictions({"movsq_aligned": 2.0, "loop32": 4.0, **apart}))
    assert judged.doubt.startswith(
        "This may be slower on zen2 (-20.0 % to +100.0 %, models of the main loop)."
    )
    assert "zen2: open, -20.0 % to +100.0 %" in judged.doubt


def test_points_that_are_missing_are_a_doubt():
    measured = calls(dict.fromkeys(("movsq_aligned", "loop32"), 20), "zen2")
    part = measured[measured["size_bytes"] != call_costs.SIZES[-1]]
    judged = of("loop32", predictions({"movsq_aligned": 2.0, "loop32": 4.0}), part, "zen2")
    assert judged.doubt.startswith("Not enough was measured on zen2 to say that this is faster.")


def test_what_nobody_knows_of_is_said_to_be_so():
    judged = of("loop32", predictions({"loop32": 4.0}))
    assert judged.doubt == (
        "Nothing shows that this is faster on sandybridge and zen2: no model has a figure for "
        "both, and none of them was measured."
    )


def test_no_difference_is_no_gain():
    judged = of("loop32", predictions({"movsq_aligned": 2.0, "loop32": 8.0}))
    assert judged.doubt.startswith("This is not shown to be faster.")


def test_what_is_faster_but_not_fastest_says_so():
    judged = of("loop32", predictions({"movsq_aligned": 2.0, "loop32": 4.0, "unrolled64": 4.0}))
    assert judged.doubt.startswith("This is faster, but another way is faster still: ")
    assert "zen2: +100.0 % (llvm-mca, osaca, off by up to 8 %)" in judged.doubt


def test_a_variant_for_some_cpus_says_for_which():
    judged = of("movsb", predictions({"movsq_aligned": 2.0, "movsb": 0.1}))
    assert judged.doubt.startswith("This is faster only where there is erms.")
    judged = of("movsb", predictions({"movsq_aligned": 2.0}, cores=CORES))
    assert judged.doubt == "This is not shown to be faster. It applies only where there is erms."


def test_no_evidence_at_all_is_no_error():
    nothing = predictions({})
    assert isinstance(nothing, pd.DataFrame)
    assert of("loop32", nothing).doubt
