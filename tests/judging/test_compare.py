"""The comparison table: loops of any stride side by side, errors, and figures that cannot be."""

import numpy as np
import pandas as pd
import pytest
from made_up import calls, predictions, study

from loopwright.judging.study import comparison

pytestmark = pytest.mark.usefixtures("models_held")


def test_the_table_has_errors_for_the_core_that_this_host_is():
    measured = calls({"loop32": {64: 10}}, "zen2", alignments=((0, 0),))
    loop = measured[measured["size_bytes"] == 64].assign(
        quantity="loop", unit="cycles/iteration", size_bytes=32
    )
    rows = comparison(study(predictions({"loop32": 12.0}), pd.concat([measured, loop]), "zen2"))
    mine = rows[(rows["variant"] == "loop32") & (rows["source"] == "osaca")].set_index("microarch")
    assert mine.loc["zen2", "error_percent"] == pytest.approx(20)
    assert pd.isna(mine.loc["sandybridge", "error_percent"])


def test_loops_of_different_strides_meet_by_64_bytes():
    rows = comparison(study(predictions({"movsq_aligned": 1.0, "loop32": 4.0, "unrolled64": 8.0})))
    mine = rows[(rows["microarch"] == "zen2") & (rows["source"] == "osaca")].set_index("variant")
    assert set(mine["unit"]) == {"64 bytes"}
    assert mine["cycles_per_unit"].dropna().to_dict() == {
        "unrolled64": 8.0,
        "movsq_aligned": 8.0,
        "loop32": 8.0,
    }


def test_what_cannot_be_is_excluded_everywhere():
    rows = comparison(study(predictions({"movsq_aligned": 2.0, "loop32": 4.0}, least=3.0)))
    low = rows[rows["variant"] == "movsq_aligned"]
    assert (low["excluded"] == "below the 3 cycles that the core's loads and stores take").all()
    assert low["vs_baseline"].isna().all()
    other = rows[rows["variant"] == "loop32"]
    assert (other["excluded"] == "").all()
    assert other["vs_baseline"].isna().all()  # its baseline is none
    assert np.isnan(other["spread_percent"]).sum() == 0
