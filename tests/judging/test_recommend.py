"""Judging: from made-up evidence on real kernels to a winner, or none and why."""

import pandas as pd
import pytest
from made_up import calls, predictions, study

from loopwright.histogram import Bucket, Histogram
from loopwright.judging import call_costs
from loopwright.judging.recommend import conclude

pytestmark = pytest.mark.usefixtures("models_held")


def row(*arguments, **more):
    return conclude(study(*arguments, **more)).rows.iloc[0]


def test_the_variant_that_moves_most_a_cycle_wins_whatever_its_stride():
    # 8 B in 2 cycles against 32 B in 4 and 64 B in 10: 4, 8 and 6.4 bytes a cycle.
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 4.0, "unrolled64": 10.0}))
    assert (found["answer"], found["winner"]) == ("winner", "loop32")
    assert found["margin_percent"] == pytest.approx(100)
    assert found["confidence"] == "models of the main loop on sandybridge and zen2"
    assert found["slower_on"] == ""


def test_models_that_differ_in_direction_disagree_and_name_the_core():
    found = row(
        predictions(
            {
                "movsq_aligned": 2.0,
                ("loop32", "zen2", "llvm-mca"): 4.0,
                ("loop32", "zen2", "osaca"): 9.0,
                ("loop32", "sandybridge", "llvm-mca"): 4.0,
                ("loop32", "sandybridge", "osaca"): 4.0,
            }
        )
    )
    assert (found["answer"], found["winner"]) == ("split", "")
    assert found["confidence"] == "models disagree: measure on zen2"
    assert "zen2: open, -11.1 % to +100.0 %" in found["reason"]


def test_a_variant_that_is_slower_on_a_core_never_wins_and_the_core_is_named():
    found = row(
        predictions(
            {
                "movsq_aligned": 2.0,
                ("loop32", "zen2", "llvm-mca"): 2.0,
                ("loop32", "zen2", "osaca"): 2.0,
                ("loop32", "sandybridge", "llvm-mca"): 10.0,
                ("loop32", "sandybridge", "osaca"): 10.0,
            }
        )
    )
    assert (found["answer"], found["winner"]) == ("split", "")
    assert found["slower_on"] == "sandybridge (-20.0 %, models of the main loop)"


def test_a_difference_inside_the_threshold_is_no_winner():
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 7.95}))
    assert found["winner"] == ""
    assert "loop32" in found["reason"]


def test_no_figure_for_the_baseline_is_no_winner():
    found = row(predictions({"loop32": 4.0}))
    assert found["winner"] == ""
    assert found["answer"] == "nothing known"
    assert "no model has a figure for both movsq_aligned and another" in found["summary"]


def test_a_variant_that_breaks_its_contract_never_wins():
    evidence = predictions({"movsq_aligned": 2.0, "loop32": 4.0, "unrolled64": 10.0})
    assert row(evidence, broken=("loop32",))["winner"] == "unrolled64"


def test_a_variant_that_needs_a_feature_the_targets_lack_is_named_apart():
    found = row(predictions({"movsq_aligned": 2.0, "movsb": 0.1}))
    assert found["winner"] == ""
    assert found["only_where"] == ("movsb where there is erms: sandybridge +150.0 %; zen2 +150.0 %")


def test_a_figure_below_what_the_core_can_do_counts_for_nothing():
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 4.0}, least=8.0))
    assert found["winner"] == ""


MEASURED = {
    "movsq_aligned": dict(
        zip(call_costs.SIZES, (6, 10, 12, 20, 25, 30, 40, 60, 80, 100), strict=True)
    ),
    "loop32": dict(zip(call_costs.SIZES, (3, 5, 6, 10, 20, 40, 60, 120, 200, 400), strict=True)),
    "overlapped": dict(zip(call_costs.SIZES, (8, 12, 16, 24, 27, 30, 40, 55, 75, 90), strict=True)),
}
REST = dict.fromkeys(("movsq", "unrolled64", "negative_index"), 500)


def test_a_measurement_on_a_target_core_goes_before_models():
    measured = calls({"movsq_aligned": 20, "loop32": 25, **REST}, "zen2")
    measured = pd.concat([measured, calls({"overlapped": 50}, "zen2")])
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 4.0}), measured, "zen2")
    assert (found["answer"], found["winner"]) == ("split", "")
    assert found["slower_on"] == "zen2, this machine (-20.0 %, measured)"
    assert found["confidence"] == (
        "measured on zen2, this machine, models of the main loop on sandybridge"
    )


@pytest.mark.parametrize(("low", "high", "winner"), [(0, 16, "loop32"), (4000, 4096, "overlapped")])
def test_a_histogram_decides_which_sizes_count(low, high, winner):
    sizes = Histogram("@sizes", (Bucket(low, high, 100),))
    both = calls({**MEASURED, **REST}, "zen2")
    alike = {"movsq_aligned": 2.0, "loop32": 8.0, "overlapped": 2.0}
    found = conclude(study(predictions(alike), both, "zen2"), sizes).rows.iloc[0]
    assert found["winner"] == winner


def test_with_a_histogram_points_without_weight_may_be_missing():
    sizes = Histogram("@sizes", (Bucket(0, 16, 100),))
    both = calls({**MEASURED, **REST}, "zen2")
    few = both[both["size_bytes"] <= 64]
    alike = predictions({"movsq_aligned": 2.0, "loop32": 8.0, "overlapped": 2.0})
    assert conclude(study(alike, few, "zen2"), sizes).rows.iloc[0]["winner"] == "loop32"
    fewer = both[(both["size_bytes"] <= 64) & (both["size_bytes"] != 8)]
    found = conclude(study(alike, fewer, "zen2"), sizes).rows.iloc[0]
    assert found["confidence"] == "not enough measured on zen2"


def test_a_target_of_which_nothing_is_known_leaves_no_winner():
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 4.0}, cores=("zen2",)))
    assert found["winner"] == ""
    assert found["confidence"] == "no model answers on sandybridge: measure there"
    assert found["summary"].startswith("nothing is known of any variant on sandybridge")
    assert "loop32 leads elsewhere (zen2: +100.0 %" in found["summary"]
