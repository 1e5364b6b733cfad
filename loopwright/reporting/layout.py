"""Lay out plain text of 72 columns: sections, paragraphs, tables."""

import io
import textwrap
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH = 72
_BETWEEN = 3  # blanks between the columns of a table


def section(title: str) -> str:
    """Return a heading, underlined, with empty lines around it."""
    lines = wrapped(title)
    return "\n".join(["", *lines, "-" * min(WIDTH, max(map(len, lines))), ""])


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return text as lines, hanging by two columns."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    )


def fits(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Say whether a table fits without breaking a cell."""
    widest = (max(map(len, cells)) for cells in zip(columns, *rows, strict=True))
    return sum(widest) + _BETWEEN * (len(columns) - 1) <= WIDTH


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table; the first columns (left of them) are text, the others numbers.

    Columns stand closer where it would not fit else.
    """
    sides = 1 if fits(columns, rows) else 0
    padding = (0, 1, 0, sides)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, show_edge=False)
    for number, name in enumerate(columns):
        drawn.add_column(name, justify="left" if number < left else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, legacy_windows=False).print(drawn)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
