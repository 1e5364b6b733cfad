"""Published figures beside predictions: what the threads say, and what a model can say of it."""

import pandas as pd
import pytest

import loopwright as lw
from loopwright import kernels
from loopwright.judging.published import TABLE


@pytest.fixture(scope="module")
def rows():
    return lw.published()


def test_every_figure_has_a_source_and_is_of_a_variant_here():
    table = pd.read_csv(TABLE, keep_default_na=False)
    assert (table["source"].str.len() > 20).all()
    for kernel, mine in table.groupby("kernel"):
        known = kernels.load(str(kernel)).variants
        assert set(mine["variant"]) | set(mine["baseline"]) - {""} <= set(known)


def test_large_copies_without_pan_lie_in_the_range_of_the_prediction(rows):
    large = rows[(rows["microarch"] == "tsv110") & rows["size_bytes"].between(16384, 65536)]
    assert len(large) == 6
    # Nothing is fitted to them: port limits alone say twice, and half again as fast.
    assert set(large["predicted"]) == {100, 50}
    assert (large["fitted"] == "").all()
    said = lw.predict("arm64/copy_user", microarch="tsv110").set_index("variant")
    for row in large.to_dict("records"):
        old, new = said.loc[row["baseline"]], said.loc[row["variant"]]
        least, most = (100 * (old[end] / new[end] - 1) for end in ("high", "low"))
        assert least < row["published"] < most


def test_the_loop_that_straddles_a_line_is_slower_on_zen_and_not_on_haswell(rows):
    clear = rows[rows["kernel"] == "x86_64/clear_user"].groupby("predicted_on")["predicted"]
    assert clear.min()["zen2"] == pytest.approx(100)
    assert clear.max()["haswell"] == pytest.approx(0)


def test_where_nothing_is_predicted_the_row_says_why(rows):
    silent = rows[rows["predicted"].isna()]
    assert (silent["error"] != "").all()
    assert (rows.loc[rows["predicted"].notna(), "error"] == "").all()
    assert silent["error"].str.contains("stac").any()
