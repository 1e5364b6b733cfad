"""Judging: from made-up evidence on real kernels to a winner, or none and why."""

import pandas as pd
import pytest

from loopwright import kernels
from loopwright.compare import table
from loopwright.histogram import Bucket, Histogram
from loopwright.recommend import judge
from loopwright.study import Study

CORES = ("sandybridge", "zen2")
BYTES = {
    "movsq_aligned": 8,
    "movsq": 8,
    "movsb": 1,
    "overlapped": 8,
    "unrolled64": 64,
    "loop32": 32,
    "negative_index": 16,
}


def predictions(cycles, models=("llvm-mca", "osaca"), cores=CORES, least=0.0):
    """cycles: {variant: cycles an iteration} or {(variant, core, model): cycles}."""
    rows = []
    for core in cores:
        for model in models:
            for variant, moved in BYTES.items():
                value = cycles.get((variant, core, model), cycles.get(variant))
                rows.append(
                    {
                        "kernel": "x86_64/copy_user",
                        "routine": "copy_user",
                        "variant": variant,
                        "microarch": core,
                        "model": model,
                        "notion": "loop",
                        "offset": 0,
                        "cycles": value,
                        "bottleneck": "",
                        "error": "" if value else "no answer",
                        "bytes_per_iteration": moved,
                        "startup_cycles": 0.0,
                        "least_cycles": least,
                    }
                )
    return pd.DataFrame(rows).astype({"cycles": "float64"})


def calls(cycles_by_variant, core):
    """Measured calls: {variant: {size: cycles}}."""
    rows = [
        {
            "kernel": "x86_64/copy_user",
            "variant": variant,
            "quantity": "call",
            "unit": "cycles/call",
            "size_bytes": size,
            "dst_align": 0,
            "src_align": 0,
            "skew_bytes": 2048,
            "cache": "hot",
            "offset": 0,
            "cycles": float(cycles),
            "uncertainty": 0.01 * cycles,
            "raw": [[[spread * cycles for spread in (0.99, 1.0, 1.01)] * 10]] * 3,
            "clock": "tsc-calibrated",
            "status": "ok",
            "reason": "",
            "microarch": core,
            "machine": "a machine",
            "note": "",
        }
        for variant, sizes in cycles_by_variant.items()
        for size, cycles in sizes.items()
    ]
    return pd.DataFrame(rows)


def study(predicted, measured=None, host="", broken=()):
    kernel = kernels.load("x86_64/copy_user")
    checks = pd.DataFrame(
        [
            {
                "kernel": kernel.id,
                "variant": v,
                "passed": v not in broken,
                "cases": 1,
                "failure": "",
                "over_report_bytes": 0,
            }
            for v in kernel.variants
        ]
    )
    return Study(
        kernel,
        predicted,
        checks,
        pd.DataFrame() if measured is None else measured,
        host,
        "" if measured is not None else "not measured",
    )


def row(*arguments, **more):
    return judge(study(*arguments, **more)).iloc[0]


def test_the_variant_that_moves_most_a_cycle_wins_whatever_its_stride():
    # 8 B in 2 cycles against 32 B in 4 and 64 B in 10: 4, 8 and 6.4 bytes a cycle.
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 4.0, "unrolled64": 10.0}))
    assert found["winner"] == "loop32"
    assert found["margin_percent"] == pytest.approx(100)
    assert found["confidence"] == "models agree"
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
    assert found["winner"] == "loop32"
    assert found["confidence"] == "models disagree: measure on zen2"


def test_a_core_on_which_the_winner_is_slower_is_named():
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
    assert found["winner"] == "loop32"
    assert found["slower_on"] == "sandybridge (-20.0 %, models)"


def test_a_difference_inside_the_threshold_is_no_winner():
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 7.95}))
    assert found["winner"] == ""
    assert "loop32" in found["reason"]


def test_no_figure_for_the_baseline_is_no_winner():
    found = row(predictions({"loop32": 4.0}))
    assert found["winner"] == ""
    assert found["confidence"] == "no model answers on sandybridge and zen2: measure there"


def test_a_variant_that_breaks_its_contract_never_wins():
    evidence = predictions({"movsq_aligned": 2.0, "loop32": 4.0, "unrolled64": 10.0})
    assert row(evidence, broken=("loop32",))["winner"] == "unrolled64"


def test_a_variant_that_needs_a_feature_the_targets_lack_is_named_apart():
    found = row(predictions({"movsq_aligned": 2.0, "movsb": 0.1}))
    assert found["winner"] == ""
    assert found["only_where"] == "movsb +150.0 % where there is erms"


def test_a_figure_below_what_the_core_can_do_counts_for_nothing():
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 4.0}, least=8.0))
    assert found["winner"] == ""


def test_mended_settings_replace_the_stock_model():
    models = ("llvm-mca", "llvm-mca-corrected")
    cycles = {"movsq_aligned": 2.0}
    for core in CORES:
        cycles["loop32", core, "llvm-mca"] = 9.0
        cycles["loop32", core, "llvm-mca-corrected"] = 4.0
    found = row(predictions(cycles, models))
    assert (found["winner"], found["confidence"]) == (
        "loop32",
        "models agree (one model alone on sandybridge and zen2)",
    )


MEASURED = {
    "movsq_aligned": {8: 10, 64: 20, 4096: 100},
    "loop32": {8: 5, 64: 10, 4096: 400},
    "overlapped": {8: 12, 64: 24, 4096: 90},
}


def test_a_measurement_on_a_target_core_goes_before_models():
    predicted = predictions({"movsq_aligned": 2.0, "loop32": 4.0})
    measured = calls({"movsq_aligned": {64: 20, 4096: 100}, "loop32": {64: 25, 4096: 125}}, "zen2")
    found = row(predicted, measured, "zen2")
    assert found["winner"] == "loop32"
    assert found["slower_on"] == "zen2 (-20.0 %, measured)"
    assert found["confidence"].startswith("measured on zen2, models agree")


@pytest.mark.parametrize(("low", "high", "winner"), [(0, 16, "loop32"), (4000, 4096, "overlapped")])
def test_a_histogram_decides_which_sizes_count(low, high, winner):
    sizes = Histogram("@sizes", (Bucket(low, high, 100),))
    both = pd.concat([calls(MEASURED, "zen2")])
    alike = {"movsq_aligned": 2.0, "loop32": 8.0, "overlapped": 2.0}
    found = judge(study(predictions(alike), both, "zen2"), sizes).iloc[0]
    assert found["winner"] == winner


def test_a_target_of_which_nothing_is_known_leaves_no_winner():
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 4.0}, cores=("zen2",)))
    assert found["winner"] == ""
    assert found["confidence"] == "no model answers on sandybridge: measure there"
    assert "loop32 leads (zen2: +100.0 %" in found["reason"]


def test_the_table_has_errors_for_the_core_that_this_host_is():
    measured = calls(MEASURED, "zen2")
    loop = measured[measured["size_bytes"] == 64].assign(
        quantity="loop", unit="cycles/iteration", size_bytes=32
    )
    rows = table(study(predictions({"loop32": 12.0}), pd.concat([measured, loop]), "zen2"))
    mine = rows[(rows["variant"] == "loop32") & (rows["source"] == "osaca")].set_index("microarch")
    assert mine.loc["zen2", "error_percent"] == pytest.approx(20)
    assert pd.isna(mine.loc["sandybridge", "error_percent"])
