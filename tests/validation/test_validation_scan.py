"""What scan says of loops and their places, held to what was measured of them."""

from collections.abc import Callable
from types import ModuleType

import pandas as pd
import pytest
from checkout import ROOT

from loopwright import microarchs

FOLDER = ROOT / "validation"
KEPT = FOLDER / "scan_measured"


@pytest.fixture(scope="module")
def script(validation: Callable[[str], ModuleType]) -> ModuleType:
    return validation("scan_measured")


@pytest.mark.parametrize("asked", ["aside", pytest.param("all", marks=pytest.mark.slow)])
def test_nine_in_ten_loops_are_what_they_are_called(script: ModuleType, asked: str) -> None:
    kept = pd.read_csv(KEPT / "goldencove.csv")
    aside = [script.host_blocks.kept_aside(bytes.fromhex(code)) for code in kept["hex"].ffill()]
    some = kept if asked == "all" else kept[aside]
    rows = script.judged(some, microarchs.load("goldencove"))
    known = rows[rows["times"].notna()]
    assert len(known) >= (400 if asked == "all" else 200)
    assert known["binary"].nunique() >= 10
    for called in ("hurt", "indifferent"):
        mine = known[known["called"] == called]
        assert len(mine) >= 90
        assert script.right(mine).mean() >= 0.9


def _rows(own: float, other: float, status: str = "ok") -> pd.DataFrame:
    """A loop of 12 bytes that Golden Cove runs at half its speed from 53 on, at 0 not."""
    common = {"binary": "b", "address": "0x35", "chosen": "hurt", "own": 53, "reason": None}
    text = {"function": "f", "hex": "488b074883c0014839d875f4", "path": "0-12"}
    return pd.DataFrame(
        [
            {**common, **text, "place": 53, "cycles": own, "status": "ok"},
            {**common, **dict.fromkeys(text, ""), "place": 0, "cycles": other, "status": status},
        ]
    )


@pytest.mark.parametrize(("own", "right"), [(2.0, True), (1.1, False), (0.5, False)])
def test_a_loop_is_hurt_where_its_own_place_is_the_slow_one(
    script: ModuleType, own: float, right: bool
) -> None:
    (row,) = script.judged(_rows(own, 1.0), microarchs.load("goldencove")).itertuples()
    assert row.called == "hurt"
    assert row.times == max(own, own / min(own, 1.0))
    assert bool(script.right(pd.DataFrame([row._asdict()]))[0]) is right


def test_a_place_that_was_refused_is_no_figure(script: ModuleType) -> None:
    rows = _rows(2.0, float("nan"), "refused")
    rows.loc[1, "reason"] = "exit at +0x3 taken"
    (row,) = script.judged(rows, microarchs.load("goldencove")).itertuples()
    assert pd.isna(row.times)
    assert row.reason == "exit at +0x3 taken"
    assert "- 1: exit" in script.page(
        pd.DataFrame([row._asdict()]), microarchs.load("goldencove"), {"machine": "one"}
    )
