"""Measurements of a part of a routine are said to be that, and decide nothing."""

from dataclasses import replace

import pandas as pd
import pytest
from made_up import CALL

from loopwright import kernels
from loopwright.checking.check import user_space_note
from loopwright.histogram import Bucket, Histogram
from loopwright.judging import call_costs
from loopwright.judging.recommend import conclude
from loopwright.judging.study import MEASURED, comparison, gather
from loopwright.kernels import contract_of
from loopwright.linux import message
from loopwright.linux.message import Evidence
from loopwright.linux.patch import evidence
from loopwright.measuring.readings import RESULT_COLUMNS
from loopwright.reporting import cross_validation, cycle_curves, kernel_section, notebook, text
from loopwright.reporting.findings import Arguments, Finding

pytestmark = pytest.mark.usefixtures("models_held")
KERNEL = "x86_64/put_event"
WORDS = "without stac/clac"
COSTS = {"put_user_twice": 10, "write_begin": 22, "masked": 3, "masked_outside": 2}
STAT = {"stat_buffer": 44, "stat_buffer_fsrm": 46, "stat_direct": 34}


def measured(core):
    """Measured calls and loops of all variants, as user space can run them."""
    rows = []
    for variant in kernels.load(KERNEL).variants.values():
        contract = contract_of(variant)
        cost = {**COSTS, **STAT}[variant.name]
        shared = {**CALL, "kernel": KERNEL, "variant": variant.name, "microarch": core}
        shared |= {"uncertainty": 0.01, "note": user_space_note(variant)}
        for point in call_costs.judged_points(contract, None):
            cycles = cost * max(point.size / contract.dst_record, 1)
            raw = [[[cycles] * 5]] * 3
            rows.append(
                {**shared, "size_bytes": point.size, "dst_align": point.dst,
                 "src_align": point.src, "cycles": cycles, "raw": raw}
            )  # fmt: skip
        if contract.counted:
            rows.append(
                {**shared, "quantity": "loop", "unit": "cycles/iteration", "size_bytes": 12,
                 "dst_align": 0, "src_align": 0, "cycles": float(cost), "raw": [[[cost] * 5]] * 3}
            )  # fmt: skip
    return pd.DataFrame(rows).reindex(columns=RESULT_COLUMNS)


@pytest.fixture(scope="module")
def study():
    found = gather(KERNEL, quick=True)
    return replace(found, measurements=measured("zen2"), host="zen2", unmeasured="")


@pytest.mark.slow
def test_a_part_that_is_much_faster_makes_no_winner(study):
    rows = conclude(study).rows
    for row in rows.to_dict("records"):
        assert row["winner"] == ""
        assert "measured" not in row["confidence"]
        assert WORDS in row["reason"]
        assert "not a verdict on the routine" in row["reason"]
    [event] = rows.query("routine == 'put_event'").to_dict("records")
    assert "+400.0 % (measured), but without stac/clac" in event["reason"]


@pytest.mark.slow
def test_nor_does_it_with_a_histogram(study):
    sizes_ = Histogram("@events", (Bucket(12, 120, 5),))
    assert set(conclude(study, sizes_).rows["winner"]) == {""}


@pytest.mark.slow
def test_points_taken_away_name_no_other_best(study):
    rows = study.measurements
    part = replace(study, measurements=rows[rows["variant"] != "masked_outside"])
    reason = conclude(part).rows.set_index("routine").loc["put_event", "reason"]
    assert "the best is" not in reason
    assert "all 21 points of masked_outside are missing" in reason


@pytest.mark.slow
def test_no_model_and_no_baseline_is_compared_with_a_part(study):
    rows = comparison(study)
    mine = rows[rows["source"] == MEASURED]
    assert len(mine)
    assert mine["note"].str.startswith(WORDS).all()
    assert mine["vs_baseline"].isna().all()
    assert rows["error_percent"].isna().all()
    assert cross_validation.pairs(rows).empty
    wide = notebook.side_by_side(rows)
    assert "measured_cycles" not in wide
    said = notebook.unanswered(rows)
    assert said["why"].str.startswith(f"measured {WORDS}").any()


def finding(study):
    rows = comparison(study)
    nothing = pd.DataFrame(columns=["slow_offsets", "microarch", "variant"])
    return Finding(study, rows, conclude(study).rows, pd.DataFrame(), nothing, (), Evidence())


@pytest.mark.slow
def test_the_text_says_it_at_the_figures_and_no_table_is_empty(study):
    said = text.plain_report([finding(study)], {"cpu": "a CPU"}, None)
    assert "* measured without stac/clac" in " ".join(said.split())
    lines = [line for line in said.splitlines() if line.startswith("masked_outside ")]
    assert any("2.00*" in line for line in lines)
    heads = [line for line in said.splitlines() if line.startswith("variant ")]
    assert all(len(head.split()) > 2 for head in heads)
    assert any("96 B" in head for head in heads)
    assert max(map(len, said.splitlines())) <= 72


@pytest.mark.slow
def test_the_page_says_it_at_every_figure_and_curve(study):
    found, asked = finding(study), Arguments((KERNEL,), None, False, None, "", None)
    for grid in (
        kernel_section.throughput_table(found, asked, "x"),
        kernel_section.calls(found, asked, "x"),
        kernel_section.cheapest(found, kernel_section.costs(found), "x"),
    ):
        where = [column.head for column in grid.columns].index("remark")
        mine = [row for row in grid.rows if any("measured" in cell.text for cell in row.cells)]
        assert mine
        assert all(WORDS in row.cells[where].text for row in mine)
    curves = list(kernel_section.curves(found, kernel_section.costs(found), None, "x"))
    measured_ones = [c.caption for c in curves if "measured" in c.caption]
    assert measured_ones
    assert all(WORDS in caption for caption in measured_ones)


def test_the_curves_carry_the_note():
    rows = cycle_curves.measured(measured("zen2"))
    assert rows["note"].str.startswith(WORDS).all()


@pytest.mark.slow
def test_a_patch_says_it_where_it_gives_the_figures_and_in_its_first_lines_what_it_is_worth(study):
    variant = kernels.load(KERNEL).variants["masked"]
    names = {"put_event": "epoll_put_uevent", "put_stat": "cp_new_stat"}
    body = message.Writer(variant, names, evidence(study, conclude(study))).body([])
    words = " ".join(body.split())
    at = words.index("Measured on a machine")
    assert WORDS in words[at : at + 100]
    assert "no measure of the patch" in words
    first = body.split("\n\n")[0]
    assert first.startswith("Nothing shows that this is faster on sandybridge and zen2")
