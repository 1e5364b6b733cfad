"""Models count as right as they have been on a core, and only where they are sure enough."""

import pytest
from made_up import CORES, RECORDS, held_to, predictions, study

from loopwright.judging import model_accuracy
from loopwright.judging.recommend import conclude


@pytest.fixture(autouse=True)
def records(monkeypatch):
    """Return what sets the records of models; at first all of them were right on both cores."""

    def use(new):
        monkeypatch.setattr(model_accuracy, "records", lambda: held_to(new))

    use(RECORDS)
    return use


def row(*arguments, **more):
    return conclude(study(*arguments, **more)).rows.iloc[0]


def test_corrected_settings_replace_the_stock_model(records):
    models = ("llvm-mca", "llvm-mca-corrected")
    records({("llvm-mca-corrected", core): (5.0, 100) for core in CORES})
    cycles = {"movsq_aligned": 2.0}
    for core in CORES:
        cycles["loop32", core, "llvm-mca"] = 9.0
        cycles["loop32", core, "llvm-mca-corrected"] = 4.0
    found = row(predictions(cycles, models))
    assert (found["winner"], found["confidence"]) == (
        "loop32",
        "models of the main loop on sandybridge and zen2, one model alone on sandybridge and zen2",
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
    assert found["confidence"].endswith("none validated on sandybridge and zen2")
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
    records(dict.fromkeys(RECORDS, (1.0, model_accuracy.LEAST_ROWS - 1)))
    assert row(predictions(A_LITTLE))["winner"] == ""
    instructions = held_to(RECORDS).assign(what="instructions")
    monkeypatch.setattr(model_accuracy, "records", lambda: instructions)
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


def test_a_loss_counts_without_proof_and_outweighs_any_gain(records):
    records({})
    slow = {("sandybridge", model): 9.0 for model in ("llvm-mca", "osaca")}
    found = row(by_models(FASTER, slow))
    assert (found["answer"], found["winner"]) == ("split", "")
    assert found["slower_on"] == "sandybridge (-11.1 %, models of the main loop)"
