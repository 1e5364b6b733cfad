"""Choices in a notebook: what is drawn from them, and drawn again."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from loopwright.errors import InputError
from loopwright.reporting import notebook
from loopwright.reporting.notebook import Choices, Page, Several


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
