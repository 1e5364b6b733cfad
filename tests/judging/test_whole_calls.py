"""Verdicts by simulated calls: over the whole of what is not known, or the number that decides."""

import re

import numpy as np
import pandas as pd
import pytest
from made_up import calls, held_to, predictions, simulated

from loopwright import microarchs
from loopwright.histogram import Bucket, Histogram
from loopwright.judging import model_accuracy, published
from loopwright.judging.recommend import conclude
from loopwright.predicting import core_figures

RATE = "string.movs_rate_unaligned"
SLOW = 500  # what is out of question


def loop(cycles, bytes_moved, start=10):
    return lambda size, _dst, _of: start + cycles * size / bytes_moved


def string(size, dst, of):
    return 40 + size / (of(RATE) if dst else 32)


BASE = {"movsq_aligned": loop(2, 8)}


@pytest.fixture(autouse=True)
def records(monkeypatch):
    """Return what sets how the simulator was held; at first only to instructions of both cores."""

    def use(new, *kinds):
        known = [held_to(new, what) for what in kinds or ("instructions",)]
        monkeypatch.setattr(model_accuracy, "records", lambda: pd.concat(known))

    monkeypatch.setattr(published, "figures", lambda *_: [])
    use({("pipeline", "zen2"): (4.0, 500), ("pipeline", "sandybridge"): (4.0, 500)})
    return use


def row(*arguments, sizes=None, **more):
    return conclude(simulated(*arguments, **more), sizes).rows.iloc[0]


def test_a_loop_with_a_nop_more_that_costs_nothing_is_no_winner():
    found = row({**BASE, "loop32": loop(2, 8)})
    assert found["winner"] == ""
    assert "sandybridge: all sizes movsq_aligned (the baseline)" in found["bands"]
    assert "zen2: all sizes movsq_aligned (the baseline)" in found["bands"]


def test_a_loop_over_bytes_loses_against_one_over_words_on_every_core():
    found = row({"movsq_aligned": loop(1, 1), "loop32": loop(4, 32)})
    assert found["winner"] == "loop32"
    assert (
        found["confidence"]
        == "simulated on sandybridge and zen2 (fewer than 30 loops validated there)"
    )
    assert found["slower_on"] == ""


def test_a_clear_difference_is_a_verdict_and_one_within_the_error_is_not(records):
    twice, little = {**BASE, "loop32": loop(4, 32)}, {**BASE, "loop32": loop(7, 32)}
    assert row(twice)["winner"] == "loop32"
    found = row(little)
    assert found["winner"] == ""
    assert "off by up to 20 %" in found["reason"]
    # The baseline moves its data by a string instruction, which has an error of its own.
    records({("pipeline", c): (3.0, 400) for c in ("zen2", "sandybridge")}, "loops")
    assert row(little)["winner"] == ""
    records({("pipeline", c): (3.0, 400) for c in ("zen2", "sandybridge")}, "strings", "loops")
    found = row(little)
    assert found["winner"] == "loop32"
    assert found["confidence"] == "simulated on sandybridge and zen2"


def test_the_error_is_the_largest_that_is_known():
    known = pd.concat(
        [
            held_to({("pipeline", "zen2"): (4.0, 500)}, "instructions"),
            held_to({("pipeline", "zen2"): (35.0, 4)}, "speed-ups"),
            held_to({("pipeline", "zen4"): (8.0, 700)}),
        ]
    )
    assert model_accuracy.bounded_accuracy(
        "pipeline", "zen2", known
    ).error_percent == pytest.approx(35)
    known = known[known["what"] != "speed-ups"]
    found = model_accuracy.bounded_accuracy("pipeline", "zen2", known)
    assert found.error_percent == model_accuracy.UNVALIDATED_PERCENT
    assert "4 % over 500 single instructions there, but no loops" in found.described
    few = pd.concat([known, held_to({("pipeline", "zen2"): (1.0, 27)})])
    found = model_accuracy.bounded_accuracy("pipeline", "zen2", few)
    assert "but only 27 loops, where 30 are asked" in found.described
    assert model_accuracy.bounded_accuracy("pipeline", "sandybridge", known) is None


def test_a_simulator_that_nothing_was_held_to_makes_no_verdict(records):
    records({})
    found = row({**BASE, "loop32": loop(4, 32)})
    assert found["winner"] == ""
    assert found["bands"] == ""


def test_the_unknown_decides_and_its_break_even_is_where_the_verdict_turns():
    costs = {"movsq_aligned": loop(0, 8, 80), "movsq": string}
    asked = {"cores": ("zen2",)}
    found = row(costs, **asked)
    assert found["winner"] == ""
    assert found["confidence"] == f"open on zen2: measure {RATE} there"
    rate = float(re.search(rf"{RATE}=([\d.]+)", found["break_even"]).group(1))
    assert found["measure_first"].startswith(f"{RATE} on zen2")

    def speed(rate):
        octaves = np.array([64, 128, 256, 512, 1024, 2048, 4096])
        mean = 40 + 0.6 * octaves / 32 + 0.4 * octaves / rate
        return np.exp(np.mean(np.log(80 / mean)))

    assert speed(rate) == pytest.approx(1, abs=0.01)
    ends = (row(costs, given={RATE: f"{rate * turn}"}, **asked) for turn in (0.5, 2))
    known = [re.search(r"zen2: (?:open, )?(\S+) %", r["reason"]).group(1) for r in ends]
    assert float(known[0]) < 0 < float(known[1])


def test_a_gain_over_the_whole_of_the_unknown_wins_by_the_least_of_it():
    costs = {"movsq_aligned": loop(16, 8, 60), "movsq": string}
    found = row(costs, cores=("zen2",))
    assert found["winner"] == "movsq"
    _, dear = core_figures.cost_ranges(microarchs.load("zen2"), {})[RATE]
    worst = conclude(simulated(costs, given={RATE: dear}, cores=("zen2",))).rows.iloc[0]
    assert found["margin_percent"] == pytest.approx(worst["margin_percent"], rel=1e-3)


def test_what_was_set_by_hand_is_said_of_the_evidence():
    costs = {"movsq_aligned": lambda _s, _d, p: 300 - p(RATE), "movsq": 300, "movsb": 400}
    free = conclude(simulated(costs, cores=("zen2",))).rows.iloc[0]
    given = conclude(simulated(costs, given={RATE: "16"}, cores=("zen2",))).rows.iloc[0]
    assert "by hand" not in free["evidence"]
    assert f"simulated with {RATE} = 16, as set by hand" in given["evidence"]


def test_mispredicted_exits_can_keep_a_verdict_open():
    costs = {**BASE, "loop32": loop(4, 32)}
    assert row(costs, missed={"loop32": 0.5})["winner"] == "loop32"
    found = row(costs, missed={"loop32": 400.0})
    assert found["winner"] == ""


def test_a_measurement_goes_before_the_simulator():
    names = ("movsq_aligned", "movsq", "overlapped", "unrolled64", "negative_index")
    costs = dict.fromkeys(names, 20)
    measured = calls({**costs, "loop32": 25}, "zen2")
    found = row({**BASE, "loop32": loop(4, 32)}, predictions({}), measured, host="zen2")
    assert (found["answer"], found["winner"]) == ("split", "")
    assert found["slower_on"] == "zen2, this machine (-20.0 %, measured)"
    assert "zen2, this machine: whole calls measured" in found["evidence"]
    assert "zen2: all sizes movsq_aligned (the baseline)" in found["bands"]


OTHERS = {
    "movsq_aligned": 20,
    "movsq": 20,
    "overlapped": 20,
    "unrolled64": 20,
    "negative_index": 20,
}


def test_a_measured_core_that_was_not_asked_for_vetoes_a_winner_and_never_makes_one():
    asked = {"host": "zen4", "cores": ("zen2",)}
    sure, unsure = {**BASE, "loop32": loop(4, 32)}, {**BASE, "loop32": loop(7, 32)}
    slower, faster = (calls({**OTHERS, "loop32": c}, "zen4") for c in (25, 10))
    assert row(sure, cores=("zen2",))["winner"] == "loop32"
    found = row(sure, predictions({}), slower, **asked)
    assert (found["answer"], found["winner"]) == ("split", "")
    assert found["slower_on"] == "zen4, this machine (-20.0 %, measured)"
    assert row(sure, predictions({}), faster, **asked)["winner"] == "loop32"
    # What is open on the core asked for stays open.
    assert row(unsure, cores=("zen2",))["answer"] == "open"
    assert row(unsure, predictions({}), faster, **asked)["winner"] == ""


def test_a_loss_at_one_size_takes_a_win_away():
    costs = {
        "movsq_aligned": lambda size, _dst, _of: 20 + size / 2,
        "loop32": lambda size, _dst, _of: 30 + size / 8,
    }
    found = row(costs, cores=("zen2",))
    assert (found["answer"], found["winner"]) == ("split", "")
    assert "zen2 within 8 to 16 B" in found["slower_on"]
    assert "B loop32 +" in found["summary"]


def test_speeds_of_two_cores_are_never_averaged():
    assert row({**BASE, "loop32": loop(4, 32)})["winner"] == "loop32"
    costs = {**BASE, "loop32": loop(8.6, 32)}  # 7 % slower
    found = row(costs)
    assert (found["answer"], found["winner"]) == ("baseline", "")


def test_bands_have_the_crossover_between_two_that_win():
    costs = {
        "movsq_aligned": lambda size, _dst, _of: 1000 + size,
        "loop32": lambda size, _dst, _of: 10 + size / 4,
        "unrolled64": lambda size, _dst, _of: 110 + size / 8,
    }
    found = row(costs, cores=("sandybridge",))
    # 10 + s / 4 = 110 + s / 8 where s = 800; within 2 % the one from below stays.
    match = re.search(r"8 to (\d+) B loop32 .*, (\d+) to 4096 B unrolled64", found["bands"])
    assert match
    assert match.group(1) == match.group(2)
    assert 768 <= int(match.group(1)) <= 1024


def test_a_histogram_weighs_all_sizes_of_calls_small_ones_too():
    costs = {
        "movsq_aligned": lambda size, _dst, _of: 20 + size / 2,
        "loop32": lambda size, _dst, _of: 60 + size / 8,
    }
    small = Histogram("@sizes", (Bucket(0, 32, 100),))
    large = Histogram("@sizes", (Bucket(1024, 4096, 100),))
    assert row(costs, sizes=small)["winner"] == ""
    assert row(costs, sizes=large)["winner"] == "loop32"


def test_a_core_without_an_answer_leaves_no_winner_over_all_but_its_bands_elsewhere(records):
    records({("pipeline", "zen2"): (4.0, 500)})
    found = row({**BASE, "loop32": loop(4, 32)})
    assert found["winner"] == ""
    assert "nothing" in found["evidence"]
    assert "zen2: all sizes loop32" in found["bands"] or "B loop32" in found["bands"]
    assert row({**BASE, "loop32": loop(4, 32)}, cores=("zen2",))["winner"] == "loop32"


def test_lost_points_never_make_another_verdict_of_a_simulated_core():
    costs = {**BASE, "loop32": loop(4, 32)}
    whole = calls(dict.fromkeys((*OTHERS, "loop32"), 20), "zen2")
    kept = row(costs, predictions({}), whole, host="zen2", cores=("zen2",))
    assert kept["winner"] == ""
    for place in range(0, len(whole), 17):
        less = whole.drop(index=whole.index[place])
        found = row(costs, predictions({}), less, host="zen2", cores=("zen2",))
        assert found["winner"] == ""
        weighs = whole["size_bytes"].iloc[place] > 0
        said = "not enough measured" if weighs else "measured on zen2, this machine"
        assert found["confidence"].startswith(said)
