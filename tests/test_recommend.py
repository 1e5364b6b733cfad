"""Judging: from made-up evidence on real kernels to a winner, or none and why."""

import numpy as np
import pandas as pd
import pytest

from loopwright import kernels
from loopwright.judging import basis, standing
from loopwright.judging.compare import table
from loopwright.judging.histogram import Bucket, Histogram
from loopwright.judging.recommend import judge
from loopwright.judging.study import Study

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


RECORDS = {  # of models on cores: error in percent over how many loops, held out
    ("llvm-mca", "zen2"): (6.0, 400),
    ("osaca", "zen2"): (8.0, 400),
    ("llvm-mca", "sandybridge"): (6.0, 400),
    ("osaca", "sandybridge"): (8.0, 400),
}


def held_to(records):
    """Return models/accuracy.csv as it would be with these records."""
    rows = [
        [core, model, "loops", standing.MEASUREMENT, count, error, 0.9, True, "made up"]
        for (model, core), (error, count) in records.items()
    ]
    return pd.DataFrame(rows, columns=standing.COLUMNS).astype({"rows": "Int64"})


@pytest.fixture(autouse=True)
def records(monkeypatch):
    """Return what sets the records of models; at first all of them were right on both cores."""

    def use(new):
        monkeypatch.setattr(standing, "records", lambda: held_to(new))

    use(RECORDS)
    return use


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


def calls(cycles_by_variant, core, alignments=basis.ALIGNMENTS):
    """Measured calls: {variant: {size: cycles}}, or a number of cycles for every size."""
    rows = [
        {
            "kernel": "x86_64/copy_user",
            "variant": variant,
            "quantity": "call",
            "unit": "cycles/call",
            "size_bytes": size,
            "dst_align": dst,
            "src_align": src,
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
        for size, cycles in (
            sizes if isinstance(sizes, dict) else dict.fromkeys(basis.SIZES, sizes)
        ).items()
        for dst, src in alignments
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
    assert found["winner"] == ""
    assert found["confidence"] == "models disagree: measure on zen2"
    assert "models differ on whether loop32 is faster than movsq_aligned on zen2" in found["reason"]


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


def test_mended_settings_replace_the_stock_model(records):
    models = ("llvm-mca", "llvm-mca-corrected")
    records({("llvm-mca-corrected", core): (5.0, 100) for core in CORES})
    cycles = {"movsq_aligned": 2.0}
    for core in CORES:
        cycles["loop32", core, "llvm-mca"] = 9.0
        cycles["loop32", core, "llvm-mca-corrected"] = 4.0
    found = row(predictions(cycles, models))
    assert (found["winner"], found["confidence"]) == (
        "loop32",
        "models agree (one model alone on sandybridge and zen2)",
    )
    assert "not counted llvm-mca (llvm-mca-corrected answers instead)" in found["models"]


FASTER = {"movsq_aligned": 2.0, "loop32": 4.0}  # +100 %
A_LITTLE = {"movsq_aligned": 2.0, "loop32": 7.2}  # +11 %


def by_models(cycles, core_cycles):
    """Return predictions of both models, with cycles of loop32 by (core, model)."""
    return predictions({**cycles, **{("loop32", *at): c for at, c in core_cycles.items()}})


def test_a_model_that_was_wrong_on_a_core_is_not_asked_where_another_was_right(records):
    records({**RECORDS, ("osaca", "zen2"): (120.0, 400)})
    found = row(by_models(FASTER, {("zen2", "osaca"): 9.0}))
    assert found["winner"] == "loop32"
    assert "not counted osaca (off by 120 % over 400 loops there)" in found["models"]
    records(RECORDS)
    assert row(by_models(FASTER, {("zen2", "osaca"): 9.0}))["winner"] == ""


def test_a_model_that_nobody_validated_is_not_asked_where_one_was_right(records):
    records({k: v for k, v in RECORDS.items() if k != ("osaca", "zen2")})
    found = row(by_models(FASTER, {("zen2", "osaca"): 9.0}))
    assert found["winner"] == "loop32"
    assert "not counted osaca (not validated there)" in found["models"]


def test_models_that_nobody_validated_win_by_a_wide_margin_alone_and_it_is_said(records):
    records({})
    found = row(predictions(FASTER))
    assert found["winner"] == "loop32"
    assert found["confidence"] == "models agree (none validated on sandybridge and zen2)"
    found = row(predictions(A_LITTLE))
    assert found["winner"] == ""
    assert "models may be off by 20 % there" in found["reason"]
    records(RECORDS)
    assert row(predictions(A_LITTLE))["winner"] == "loop32"


def test_one_model_alone_that_nobody_validated_makes_no_winner(records):
    records({})
    found = row(predictions(FASTER, models=("osaca",)))
    assert found["winner"] == ""
    assert "one model alone, and not validated there" in found["reason"]
    records(RECORDS)
    assert row(predictions(FASTER, models=("osaca",)))["winner"] == "loop32"


def test_a_gain_smaller_than_what_a_model_is_off_by_is_none(records):
    records(dict.fromkeys(RECORDS, (13.0, 400)))
    found = row(predictions(A_LITTLE))
    assert found["winner"] == ""
    assert "models may be off by 13 % there" in found["reason"]


def test_too_few_rows_or_instructions_alone_validate_nothing(records, monkeypatch):
    records(dict.fromkeys(RECORDS, (1.0, standing.LEAST_ROWS - 1)))
    assert row(predictions(A_LITTLE))["winner"] == ""
    instructions = held_to(RECORDS).assign(what="instructions")
    monkeypatch.setattr(standing, "records", lambda: instructions)
    found = row(predictions(A_LITTLE))
    assert found["winner"] == ""
    assert "instructions alone" in found["models"]


def test_the_median_of_nothing_and_something_is_no_gain():
    # What one model sees no gain in at all, and the other 12.5 %.
    nothing = {("zen2", "llvm-mca"): 8.0, ("sandybridge", "llvm-mca"): 8.0}
    found = row(by_models({"movsq_aligned": 2.0, "loop32": 7.11}, nothing))
    assert found["winner"] == ""
    assert found["confidence"] == "models disagree: measure on sandybridge and zen2"


def test_a_variant_that_models_agree_on_wins_beside_one_that_they_differ_on():
    contested = {("unrolled64", "zen2", "osaca"): 17.0}
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 6.0, "unrolled64": 8.0, **contested}))
    assert found["winner"] == "loop32"
    assert "unrolled64 may do better: models differ on zen2" in found["reason"]


def test_a_loss_counts_without_proof(records):
    records({})
    slow = {("sandybridge", model): 9.0 for model in ("llvm-mca", "osaca")}
    found = row(by_models(FASTER, slow))
    assert found["slower_on"] == "sandybridge (-11.1 %, models)"
    assert found["margin_percent"] == pytest.approx(100 * ((2 * 8 / 9) ** 0.5 - 1))


MEASURED = {
    "movsq_aligned": dict(zip(basis.SIZES, (6, 10, 12, 20, 25, 30, 40, 60, 80, 100), strict=True)),
    "loop32": dict(zip(basis.SIZES, (3, 5, 6, 10, 20, 40, 60, 120, 200, 400), strict=True)),
    "overlapped": dict(zip(basis.SIZES, (8, 12, 16, 24, 27, 30, 40, 55, 75, 90), strict=True)),
}
REST = dict.fromkeys(("movsq", "unrolled64", "negative_index"), 500)


def test_a_measurement_on_a_target_core_goes_before_models():
    measured = calls({"movsq_aligned": 20, "loop32": 25, **REST}, "zen2")
    measured = pd.concat([measured, calls({"overlapped": 50}, "zen2")])
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 4.0}), measured, "zen2")
    assert found["winner"] == "loop32"
    assert found["slower_on"] == "zen2 (-20.0 %, measured)"
    assert found["confidence"] == "measured on zen2, models agree"


@pytest.mark.parametrize(("low", "high", "winner"), [(0, 16, "loop32"), (4000, 4096, "overlapped")])
def test_a_histogram_decides_which_sizes_count(low, high, winner):
    sizes = Histogram("@sizes", (Bucket(low, high, 100),))
    both = calls({**MEASURED, **REST}, "zen2")
    alike = {"movsq_aligned": 2.0, "loop32": 8.0, "overlapped": 2.0}
    found = judge(study(predictions(alike), both, "zen2"), sizes).iloc[0]
    assert found["winner"] == winner


def test_with_a_histogram_points_without_weight_may_be_missing():
    sizes = Histogram("@sizes", (Bucket(0, 16, 100),))
    both = calls({**MEASURED, **REST}, "zen2")
    few = both[both["size_bytes"] <= 64]
    alike = predictions({"movsq_aligned": 2.0, "loop32": 8.0, "overlapped": 2.0})
    assert judge(study(alike, few, "zen2"), sizes).iloc[0]["winner"] == "loop32"
    fewer = both[(both["size_bytes"] <= 64) & (both["size_bytes"] != 8)]
    found = judge(study(alike, fewer, "zen2"), sizes).iloc[0]
    assert found["confidence"] == "not enough measured on zen2"


def test_a_target_of_which_nothing_is_known_leaves_no_winner():
    found = row(predictions({"movsq_aligned": 2.0, "loop32": 4.0}, cores=("zen2",)))
    assert found["winner"] == ""
    assert found["confidence"] == "no model answers on sandybridge: measure there"
    assert "loop32 leads (zen2: +100.0 %" in found["reason"]


def test_the_table_has_errors_for_the_core_that_this_host_is():
    measured = calls(MEASURED, "zen2", alignments=((0, 0),))
    loop = measured[measured["size_bytes"] == 64].assign(
        quantity="loop", unit="cycles/iteration", size_bytes=32
    )
    rows = table(study(predictions({"loop32": 12.0}), pd.concat([measured, loop]), "zen2"))
    mine = rows[(rows["variant"] == "loop32") & (rows["source"] == "osaca")].set_index("microarch")
    assert mine.loc["zen2", "error_percent"] == pytest.approx(20)
    assert pd.isna(mine.loc["sandybridge", "error_percent"])


def test_loops_of_different_strides_meet_by_64_bytes():
    rows = table(study(predictions({"movsq_aligned": 1.0, "loop32": 4.0, "unrolled64": 8.0})))
    mine = rows[(rows["microarch"] == "zen2") & (rows["source"] == "osaca")].set_index("variant")
    assert set(mine["unit"]) == {"64 bytes"}
    assert mine["cycles_per_unit"].dropna().to_dict() == {
        "unrolled64": 8.0,
        "movsq_aligned": 8.0,
        "loop32": 8.0,
    }


def test_what_cannot_be_is_excluded_everywhere():
    rows = table(study(predictions({"movsq_aligned": 2.0, "loop32": 4.0}, least=3.0)))
    low = rows[rows["variant"] == "movsq_aligned"]
    assert (low["excluded"] == "below the 3 cycles that the core's loads and stores take").all()
    assert low["vs_baseline"].isna().all()
    other = rows[rows["variant"] == "loop32"]
    assert (other["excluded"] == "").all()
    assert other["vs_baseline"].isna().all()  # its baseline is none
    assert np.isnan(other["spread_percent"]).sum() == 0
