"""Views for notebooks: what is drawn by choice, and where and why models disagree."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from loopwright.errors import InputError
from loopwright.reporting import notebook
from loopwright.reporting.notebook import Choices, Page, Several, disagreements


@pytest.fixture
def screen(monkeypatch):
    """Return what is displayed, in place of a notebook: a list that updates grow."""
    seen: list[object] = []

    class Handle:
        def update(self, what: object) -> None:
            seen.append(what)

    def display(what: object, **_: object) -> Handle:
        seen.append(what)
        return Handle()

    monkeypatch.setattr(notebook, "display", display)
    return seen


def test_a_choice_draws_again(screen):
    pick = Choices(kernel=["b", "a", "b"], cores=Several(["x", "y", "z"]))
    pick.show(lambda kernel, cores: f"{kernel} on {', '.join(cores)}")
    assert repr(screen[-1]) == "b on x, y"
    pick["kernel"] = "a"
    assert repr(screen[-1]) == "a on x, y"
    pick["cores"] = ["z"]
    assert repr(screen[-1]) == "a on z"
    assert pick["cores"] == ["z"]


def test_bad_input_is_shown_in_place_and_cleared_by_another_choice(screen):
    def draw(kernel):
        if kernel == "bad":
            raise InputError("no such kernel")
        return "drawn"

    pick = Choices(kernel=["bad", "good"])
    pick.show(draw)
    assert repr(screen[-1]) == "no such kernel"
    pick["kernel"] = "good"
    assert repr(screen[-1]) == "drawn"


def test_a_page_shows_tables_and_figures_with_what_they_say_in_words():
    figure, axes = plt.subplots()
    axes.set_title("zen2")
    plt.close(figure)
    rows = pd.DataFrame({"why": ["a < b", ""], "cycles": [1.0, None], "bytes": [8, 16]})
    html = Page(["words", rows, figure])._repr_html_()
    assert '<img alt="figure: zen2"' in html
    assert "a &lt; b" in html
    assert '<td style="text-align:right">1.00</td>' in html
    assert ">nan<" not in html
    assert '<td style="text-align:right">16</td>' in html


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
