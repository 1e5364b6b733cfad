"""Points taken away from a full study leave its verdict as it is, or no verdict: never another."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up import calls, predictions, study
from quick import some

from loopwright import kernels
from loopwright.histogram import Bucket, Histogram
from loopwright.judging import call_costs
from loopwright.judging.recommend import conclude
from loopwright.judging.study import HERE, REFUSED
from loopwright.measuring import readings

pytestmark = pytest.mark.usefixtures("models_held")
SHORT = "not enough measured"
NAMES = ["movsq_aligned", "movsq", "movsb", "overlapped", "unrolled64", "loop32", "negative_index"]
SIZES = (16, 64, 128, 256, 512, 1024, 2048, 4096)
MODELS = {"movsq_aligned": 2.0, "loop32": 4.0, "unrolled64": 9.0}
TAKEN = (0, 1, 2, 3, 4, 7, 20, 60, 120, 180, 209, 210)  # points, of 210


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr(readings, "RESAMPLES", 40)


def full(seed, core):
    """Return a study in which every variant was measured everywhere, each point as it likes."""
    random = np.random.default_rng(seed)
    shape = {name: random.uniform(0.7, 1.4) for name in NAMES}
    costs = {
        name: {s: (10 + s / 16) * shape[name] * random.uniform(0.6, 1.6) for s in (0, 8, *SIZES)}
        for name in NAMES
    }
    return study(predictions(MODELS), calls(costs, core), core)


def without(found, random, count):
    """Return a study with so many points taken away: dropped, or refused."""
    rows = found.measurements
    gone = np.isin(np.arange(len(rows)), random.choice(len(rows), count, replace=False))
    if random.random() < 0.5:
        return replace(found, measurements=rows[~gone])
    kept = rows.copy()
    kept.loc[gone, "cycles"] = np.nan
    kept.loc[gone, ["status", "reason"]] = ["refused", "disturbed"]
    return replace(found, measurements=kept)


def concluded(row):
    """Return what a judgement concludes: the winner, by how much, and what is best where."""
    best = re.findall(r"on [^;]* the fastest measured [^;]*", str(row["reason"]))
    margin = None if pd.isna(row["margin_percent"]) else round(row["margin_percent"], 6)
    return row["winner"], margin, row["slower_on"], tuple(best)


def judged(found, sizes=None):
    """Return the row of the one routine."""
    return conclude(found, sizes).rows.iloc[0]


def holds(before, after):
    """Return True if a part's row says that points are missing; else it must be the whole's."""
    said = " ".join(str(after[name]) for name in ("confidence", "reason", "only_where"))
    if SHORT in said:
        assert SHORT not in after["confidence"] or after["winner"] == ""
        assert after["winner"] in ("", before["winner"])
        assert not re.search(r"the fastest measured", after["reason"])
    else:
        assert concluded(after) == concluded(before)
        assert (after["confidence"], after["only_where"]) == (
            before["confidence"],
            before["only_where"],
        )
    return SHORT in said


@pytest.mark.parametrize(
    ("seed", "taken"), some(enumerate(TAKEN), {(1, 1), (2, 2), (6, 20), (9, 180)})
)
def test_any_subset_of_points_gives_the_same_verdict_or_none(seed, taken):
    core = ["zen2", "zen4", "sandybridge"][seed % 3]
    random = np.random.default_rng(seed)
    whole = full(seed, core)
    holds(judged(whole), judged(without(whole, random, taken)))


@pytest.mark.parametrize(
    ("seed", "taken", "low", "width"),
    some(
        [(0, 2, 0, 1), (1, 40, 300, 9000), (2, 5, 4096, 17), (3, 150, 1, 4096), (4, 3, 2000, 100)],
        {(0, 2, 0, 1), (1, 40, 300, 9000)},
    ),
)
def test_so_it_does_with_a_histogram(seed, taken, low, width):
    sizes = Histogram("@sizes", (Bucket(low, low + width, 10), Bucket(0, 64, 1)))
    whole = full(seed, "zen2")
    part = without(whole, np.random.default_rng(seed), taken)
    holds(judged(whole, sizes), judged(part, sizes))


@pytest.mark.parametrize("core", some(["zen2", "zen4"], {"zen2"}))
def test_a_single_point_that_counts_is_missed_and_named(core):
    whole = full(1, core)
    before = judged(whole)
    assert SHORT not in " ".join(map(str, before))
    rows = whole.measurements
    for size in (8, 256, 4096):
        point = (rows["variant"] == "loop32") & (rows["size_bytes"] == size)
        point &= rows["dst_align"] == 1
        after = judged(replace(whole, measurements=rows[~point]))
        assert holds(before, after)
        said = f"1 of 27 points of loop32 are missing ({size} B at 1:0)"
        assert said in after["reason"]
    point = rows["size_bytes"] == 0
    assert not holds(before, judged(replace(whole, measurements=rows[~point])))


def test_nothing_left_is_not_the_same_as_nothing_asked_for():
    whole = full(2, "zen2")
    none = replace(whole, measurements=whole.measurements.iloc[:0])
    before = judged(whole)
    assert holds(before, judged(none))
    assert holds(before, judged(replace(none, unmeasured=f"{REFUSED}disturbed")))
    asked = judged(replace(none, unmeasured="measuring was left out"))
    assert asked["winner"] == "loop32"  # what the models say, who were asked alone
    assert SHORT not in asked["reason"]


def test_points_of_two_clocks_or_machines_do_not_meet():
    whole = full(3, "zen2")
    before, rows = judged(whole), whole.measurements
    for column, value in (("clock", "perf-rdpmc"), ("machine", "another"), ("skew_bytes", 0)):
        changed = rows.copy()
        mine = (changed["variant"] == "loop32") & (changed["size_bytes"] == 256)
        changed.loc[mine, column] = value
        after = judged(replace(whole, measurements=changed))
        assert holds(before, after)
        assert "3 of 27 points of loop32 beside movsq_aligned" in after["reason"]


def test_a_machine_that_no_core_describes_has_its_best_named_or_not():
    whole = full(4, "")
    whole = replace(whole, host="")
    before, rows = judged(whole), whole.measurements
    assert f"{HERE}: " in before["reason"]
    assert holds(before, judged(replace(whole, measurements=rows[rows["size_bytes"] != 256])))


def test_few_points_of_one_variant_never_meet_others_of_another():
    # Sizes of which one variant is measured at the small, and the baseline at the large.
    whole = full(5, "zen2")
    rows = whole.measurements
    large = rows["size_bytes"] >= 1024
    mine = rows["variant"] == "unrolled64"
    part = replace(whole, measurements=rows[(mine & ~large) | (~mine & large)])
    assert holds(judged(whole), judged(part))


def record_study(share, random):
    """Return a study of arm64 with two routines, measured on Neoverse N1."""
    kernel = kernels.load("arm64/copy_user")
    costs = {name: {s: 10 + s / 8 for s in call_costs.SIZES} for name in kernel.variants}
    costs["to_user_batched"] = {s: 5 + s / 12 for s in call_costs.SIZES}
    rows = calls(costs, "neoverse-n1").assign(kernel=kernel.id)
    rows = rows[random.random(len(rows)) <= share]
    base = study(predictions(MODELS), rows, "neoverse-n1")
    checks = pd.DataFrame(
        [
            {"kernel": kernel.id, "variant": v, "passed": True, "cases": 1, "failure": "",
             "over_report_bytes": 0}
            for v in kernel.variants
        ]
    )  # fmt: skip
    return replace(base, kernel=kernel, checks=checks, predictions=base.predictions.iloc[:0])


def test_routines_of_a_family_are_judged_apart():
    random = np.random.default_rng(0)
    whole = conclude(record_study(1.0, random)).rows.set_index("routine")
    assert "nothing is known of any variant on tsv110" in whole.loc["copy_to_user", "reason"]
    found = record_study(1.0, random)
    rows = found.measurements
    part = replace(found, measurements=rows[~rows["variant"].str.startswith("from_user_batched")])
    after = conclude(part).rows.set_index("routine")
    assert after.loc["copy_from_user", "confidence"] == "not enough measured on neoverse-n1"
    assert after.loc["copy_to_user", "reason"] == whole.loc["copy_to_user", "reason"]
