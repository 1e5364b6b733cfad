"""Notebooks run from top to bottom, redraw by choice, and their two halves say the same."""

import re
import sys

import pytest
from checkout import ROOT
from scanned import built

from loopwright import toolchain

sys.path.insert(0, str(ROOT / "notebooks"))
from execute import NOTEBOOKS, execute

# A last cell, as if somebody had chosen something else.
CHOICE = {"your_own_loop": 'pick["microarch"] = "sandybridge"'}
MEASURES = [pytest.mark.slow, pytest.mark.measures]
RUNS = [
    pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in CHOICE else MEASURES)
    for path in NOTEBOOKS
]
PAIRS = [pytest.param(path, id=path.stem) for path in NOTEBOOKS]
MACHINE = re.compile(r"/(?:root|home|work|tmp|usr/local|var)/[\w.-]+")


@pytest.fixture(autouse=True)
def own_results(monkeypatch, tmp_path):
    """Keep what notebooks measure out of the user's store."""
    monkeypatch.setenv("LOOPWRIGHT_RESULTS", str(tmp_path / "results.sqlite"))


def outputs(book):
    return [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]


def shown(book):
    """Return the text of all that a notebook shows."""
    parts = []
    for out in outputs(book):
        data = out.get("data", {})
        parts += [data.get("text/html", ""), data.get("text/plain", ""), out.get("text", "")]
    return "\n".join(parts)


@pytest.mark.parametrize("path", RUNS)
def test_the_notebook_runs(path, tmp_path):
    book = execute(path, tmp_path, extra=CHOICE.get(path.stem, ""))
    assert not [out for out in outputs(book) if out.output_type == "error"]
    assert "<table" in shown(book)
    if path.stem in CHOICE:  # the cells above were drawn anew
        assert 'alt="figure: sandybridge' in shown(book)
        assert 'alt="figure: zen2' not in shown(book)


@pytest.mark.parametrize("path", PAIRS)
def test_both_halves_of_the_pair_have_the_same_cells(path):
    import jupytext
    import nbformat

    pair = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    assert [c.source for c in pair.cells] == [c.source for c in jupytext.read(path).cells]


@pytest.mark.parametrize("path", PAIRS)
def test_what_is_kept_shows_everything_and_names_no_place_of_a_machine(path):
    import nbformat

    pair = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    assert not [out for out in outputs(pair) if out.output_type == "error"]
    drawn = [c for c in pair.cells if "pick.show(" in c.source or "plots." in c.source]
    assert all(cell.outputs for cell in drawn if cell.cell_type == "code")
    assert not MACHINE.findall(re.sub(r"base64,[^\"]*", "", shown(pair)))


@pytest.mark.parametrize("path", PAIRS)
def test_it_opens_with_its_question_and_ends_with_what_to_change(path):
    import jupytext

    first, *_, last = (c for c in jupytext.read(path).cells if c.cell_type == "markdown")
    assert "**What this answers:**" in first.source
    assert "## What to change" in last.source


@pytest.mark.slow
def test_text_that_does_not_assemble_is_one_clear_line(tmp_path):
    (path,) = (p for p in NOTEBOOKS if p.stem == "your_own_loop")
    text = path.read_text().replace("movq    %rax, (%rdi)", "movq    %rax, (%foo)")
    wrong = tmp_path / path.name
    wrong.write_text(text)
    with pytest.raises(Exception, match=r"assembly line 5: .*foo"):
        execute(wrong, tmp_path)


def test_loops_of_another_machine_are_scanned_and_not_measured(tmp_path):
    isa, text = {
        "x86_64": ("arm64", "f: sub x0, x0, #1\n cbnz x0, f\n ret\n"),
        "arm64": ("x86_64", "f: dec %rax\n jnz f\n ret\n"),
    }[toolchain.host_isa()]
    (path,) = (p for p in NOTEBOOKS if p.stem == "hurt_loops")
    source = tmp_path / path.name
    source.write_text(
        path.read_text().replace('FILE = ""', f'FILE = "{built(tmp_path, text, isa)}"')
    )
    seen = shown(execute(source, tmp_path))
    assert "1 innermost loop: 1 without calls" in seen
    assert f"is code of {isa}, and this machine runs {toolchain.host_isa()}" in seen
    assert "Skipped: no suspect was measured here." in seen
