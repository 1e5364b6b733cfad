"""What improve found for loops of libraries, held to what was measured of it."""

from collections.abc import Callable
from types import ModuleType

import pandas as pd
import pytest
from checkout import ROOT

from loopwright import microarchs

KEPT = ROOT / "validation" / "improved"


@pytest.fixture(scope="module")
def script(validation: Callable[[str], ModuleType]) -> ModuleType:
    return validation("improved")


def test_kept_pairs_are_faster_by_the_model_and_few_are_slower_here(script: ModuleType) -> None:
    core = microarchs.load("zen3")
    rows = script.predicted(pd.read_csv(KEPT / "zen3.csv"), core)
    assert len(rows) == 20
    assert rows["file"].value_counts().tolist() == [5] * 4
    known = rows[rows["measured"].notna()]
    refuted = known.index[known["measured"] < 1 + script.SLOWER]
    assert (rows.drop(refuted)["gain"] > 1).mean() >= 0.9  # by today's model
    assert len(known) >= 9
    assert (known["measured"] < 1 - script.SLOWER).sum() <= 1


def test_a_table_says_what_was_measured_and_what_was_not(script: ModuleType) -> None:
    core = microarchs.load("zen3")
    rows = pd.read_csv(KEPT / "zen3.csv").head(2)
    rows.loc[0, ["cycles", "uncertainty", "new_cycles", "new_uncertainty"]] = [2.0, 0.01, 1.0, 0.01]
    rows.loc[1, ["cycles", "new_cycles"]] = float("nan")
    rows["reason"] = rows["reason"].astype(object)
    rows.loc[1, "reason"] = "nothing can count"
    looked_at = pd.DataFrame({"file": ["a"], "loop": ["b"], "outcome": ["no candidate"]})
    lines = list(script.report(script.predicted(rows, core), looked_at, core))
    assert any("2.00 to 1.00, 2.00" in line for line in lines)
    assert any("not: nothing can count" in line for line in lines)
    assert "- measured: 1 of 2" in lines
    assert "| no candidate | 1 |" in lines
