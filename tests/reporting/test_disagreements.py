"""Where models disagree: by the same bytes, without what cannot be, and why."""

import pytest

from loopwright.reporting.notebook import disagreements


@pytest.fixture(scope="module")
def rows():
    return disagreements("x86_64/clear_user", ["zen2", "neoverse-n1"]).set_index("variant")


def test_variants_of_any_stride_are_on_one_scale(rows):
    assert set(rows["unit"]) == {"64 bytes"}
    assert rows.loc["immediates", "pipeline_cycles"] == pytest.approx(16)
    assert rows.loc["immediates", "osaca_cycles"] == pytest.approx(8)
    assert "front end: 8.00 of pipeline's 16.00" in rows.loc["immediates", "why"]


def test_what_cannot_be_is_named_and_no_figure(rows):
    row = rows.loc["unrolled64"]
    assert row[["llvm-mca_cycles", "llvm-mca-corrected_cycles"]].isna().all()
    assert "llvm-mca: 3.00 is below the 8 cycles" in row["why"]
    assert row["pipeline_cycles"] == pytest.approx(8)
    assert row["spread_percent"] == pytest.approx(0)


def test_where_all_agree_there_is_no_row(rows):
    assert "plain" not in rows.index
