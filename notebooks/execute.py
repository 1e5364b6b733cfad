"""Run notebooks from top to bottom and keep their outputs: NAME.py into NAME.ipynb.

usage: python notebooks/execute.py [NAME ...]   (make notebooks-executed: all of them)
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent
NOTEBOOKS = sorted(p for p in FOLDER.glob("*.py") if p.name != Path(__file__).name)
LIMIT = 300  # s for one cell
AUTHOR = {"NAME": "A Developer", "EMAIL": "developer@example.org"}  # of patches in kept outputs


def execute(source: Path, folder: Path, extra: str = "") -> "NotebookNode":
    """Run a notebook's text in a folder, and extra as one more cell; return it with outputs."""
    import jupytext
    import nbformat
    from nbclient import NotebookClient

    book = jupytext.read(source)
    if extra:
        book.cells.append(nbformat.v4.new_code_cell(extra))
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        book, timeout=LIMIT, kernel_name="python3", resources=resources, record_timing=False
    )
    client.execute()
    for number, cell in enumerate(book.cells):
        cell["id"] = f"cell-{number}"  # the same each time, so that a new run changes outputs alone
    return book


def main(names: list[str]) -> None:
    """Run the named notebooks, or all, and write their .ipynb halves."""
    import nbformat

    os.environ |= {
        f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in AUTHOR.items()
    }
    for source in NOTEBOOKS:
        if not names or source.stem in names:
            print(source.stem, flush=True)
            nbformat.write(execute(source, FOLDER), source.with_suffix(".ipynb"))


if __name__ == "__main__":
    main(sys.argv[1:])
