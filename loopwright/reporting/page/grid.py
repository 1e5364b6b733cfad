"""Tables of the page: cells that sort, rows that filters find."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from loopwright.machine import hosts

NONE = "\N{EM DASH}"


@dataclass(frozen=True)
class Cell:
    """A cell: what it shows, what it sorts by, and whether it is a command to be copied."""

    text: str
    order: float | None = None
    command: bool = False


@dataclass(frozen=True)
class Column:
    """A column: its head (with the unit), and whether it holds numbers, or sentences."""

    head: str
    number: bool = False
    wide: bool = False


@dataclass(frozen=True)
class GridRow:
    """A row; facets are what filters know it by: core, model, variant, notion."""

    cells: Sequence[Cell]
    facets: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """A table with a caption; name is an id within the page."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[GridRow]


def filled(
    columns: Sequence[Column], rows: Sequence[GridRow]
) -> tuple[list[Column], list[GridRow]]:
    """Return columns and rows without the columns that are empty in every row."""
    kept = [
        n
        for n in range(len(columns))
        if not rows or any(row.cells[n].text not in ("", NONE) for row in rows)
    ]
    return [columns[n] for n in kept], [
        GridRow([row.cells[n] for n in kept], row.facets) for row in rows
    ]


def text(value: Any) -> Cell:
    """Return a cell of text, empty where the value is missing."""
    return Cell("" if value is None or value is pd.NA or value != value else str(value))


def marked(name: Any) -> Cell:
    """Return a cell of a core's id, marked where it is this machine's."""
    return text(hosts.marked(str(name)))


def number(
    value: Any, digits: int = 2, *, sign: bool = False, doubt: Any = None, mark: str = ""
) -> Cell:
    """Return a cell of a number, a dash where it is missing.

    doubt is its uncertainty; mark is put behind a figure of which a remark says more.
    """
    if value is None or pd.isna(value):
        return Cell(NONE)
    known = doubt is not None and pd.notna(doubt)
    if known and 0 < doubt < 0.5 * 10**-digits:
        digits += 1
    shown = f"{value:{'+' if sign else ''},.{digits}f}"
    if known:
        shown += f" \N{PLUS-MINUS SIGN} {doubt:,.{digits}f}"
    return Cell(shown + mark, float(value))


def command(line: str) -> Cell:
    """Return a cell of a command."""
    return Cell(line, command=True)


def variant_facet(kernel: str, variant: Any) -> str:
    """Return what a filter knows a variant by: variants of two kernels may share a name."""
    return f"{kernel}/{variant}"
