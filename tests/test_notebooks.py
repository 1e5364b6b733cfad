"""Notebooks run from top to bottom, and their two halves say the same."""

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

from loopwright.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


def test_there_is_a_notebook():
    assert [path.stem for path in NOTEBOOKS] == ["compare_loops"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, tmp_path):
    book = jupytext.read(path)
    NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert any("text/html" in out.get("data", {}) for out in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_both_halves_of_the_pair_have_the_same_cells(path):
    pair = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    assert [c.source for c in pair.cells] == [c.source for c in jupytext.read(path).cells]
    assert all(c.outputs for c in pair.cells if c.cell_type == "code" and "plots." in c.source)
