"""Rows that guests of a core measured, and what the simulator is told to be worth on them."""

import pandas as pd
import pytest

from loopwright import microarchs

STORE_LOOP = "4889074883c70849ffcf75f4"


@pytest.fixture
def guest_rows(validation, monkeypatch, tmp_path):
    module = validation("guest_rows")
    monkeypatch.setattr(module, "FOLDERS", tmp_path)
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    (tmp_path / "zen4-guest").mkdir()
    return module


def _told(module, half="all"):
    core = microarchs.load("zen4")
    return "\n".join(
        line for folder in module.folders()["zen4"] for line in module.report(core, folder, half, 5)
    )


def test_kinds_that_a_folder_lacks_are_named(guest_rows, tmp_path):
    told = _told(guest_rows)
    for kind in guest_rows.KINDS:
        assert f"{kind.what}: skipped, {tmp_path / 'zen4-guest' / kind.file} is missing" in told


def test_rows_of_all_folders_of_a_core_are_told(guest_rows, tmp_path):
    (tmp_path / "kept" / "zen4").mkdir(parents=True)
    for folder in (tmp_path / "zen4-guest", tmp_path / "kept" / "zen4"):
        table = pd.DataFrame([[STORE_LOOP, 0, 1.0]], columns=["hex", "offset", "cycles"])
        table.to_csv(folder / "offsets.csv", index=False)
    assert _told(guest_rows).count("loops at code offsets: 1 rows, 100.0 % answered") == 2


def test_slow_offsets_that_are_predicted_fast_are_counted(guest_rows, tmp_path):
    rows = [[STORE_LOOP, 0, 1.0], [STORE_LOOP, 8, 2.0], [STORE_LOOP, 60, 2.0]]
    table = pd.DataFrame(rows, columns=["hex", "offset", "cycles"])
    table.to_csv(tmp_path / "zen4-guest" / "offsets.csv", index=False)
    told = _told(guest_rows)
    assert "1 of 2 slow offsets predicted fast" in told
    assert "within 5 %: 66.7 %" in told


def test_rows_slowed_by_one_frame_are_told_apart(guest_rows, tmp_path):
    copy = guest_rows.ONE_FRAME[0]
    table = pd.DataFrame(
        [[STORE_LOOP, 0, 1.0], [copy, 0, 4.4]], columns=["hex", "offset", "cycles"]
    )
    table.to_csv(tmp_path / "zen4-guest" / "offsets.csv", index=False)
    told = _told(guest_rows)
    assert "mean error 27.3 %, within 5 %: 50.0 %" in told
    assert "without 1 rows slowed by pages of one frame: mean error 0.0 %" in told


def test_rows_that_the_harness_doubts_are_left_out(guest_rows, tmp_path):
    rows = [["a", STORE_LOOP, 1.0, 0.01, "ok"], ["b", STORE_LOOP, 9.0, 3.0, "bimodal"]]
    table = pd.DataFrame(rows, columns=["name", "hex", "cycles", "uncertainty", "status"])
    table.to_csv(tmp_path / "zen4-guest" / "microbenchmarks.csv", index=False)
    assert "blocks: 1 rows, 100.0 % answered; mean error 0.0 %" in _told(guest_rows)


def test_each_row_is_of_one_half(guest_rows):
    rows = pd.DataFrame({"hex": [STORE_LOOP] * 64, "offset": range(64)})
    halves = [guest_rows.half(rows, ("hex", "offset"), which) for which in ("tune", "aside")]
    assert sorted(offset for part in halves for offset in part["offset"]) == list(range(64))
    assert min(map(len, halves)) > 16
