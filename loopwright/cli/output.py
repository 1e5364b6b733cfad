"""Print rows as a table that fits the window, as JSON or as CSV."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import pandas as pd
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

_UNBROKEN = 10_000  # columns
_LEAST_TEXTS = (14, 10, 8, 6, 4)  # columns that a text keeps in a narrow window, at the least

F = TypeVar("F", bound=Callable[..., Any])


def formats(function: F) -> F:
    """Add --json and --csv to a verb; they reach it as as_json and as_csv."""
    function = click.option("--csv", "as_csv", is_flag=True, help="Print rows as CSV.")(function)
    return click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")(function)


def emit(rows: pd.DataFrame, *, as_json: bool, as_csv: bool, hide: tuple[str, ...] = ()) -> None:
    """Print rows. hide names columns that only the table leaves out."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    if as_json:
        print(json.dumps(records(rows), indent=1))
    elif as_csv:
        rows.to_csv(sys.stdout, index=False)
    else:
        notes = [n for n in rows.get("note", pd.Series(dtype=str)).unique() if not _blank(n)]
        table(rows.drop(columns=[c for c in (*hide, "note") if c in rows.columns]))
        for note in notes:
            print(f"note: {note}")


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as plain objects, with None where there is no value."""
    return [
        {str(k): None if _absent(v) else _plain(v) for k, v in row.items()}
        for row in rows.to_dict("records")
    ]


def _absent(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def console() -> Console:
    """Return the console of standard output; without a terminal its lines are never broken."""
    found = Console(highlight=False, soft_wrap=False)
    if found.is_terminal:
        return found
    return Console(highlight=False, width=_UNBROKEN)


def table(rows: pd.DataFrame) -> None:
    """Print rows as a table, without the columns that say nothing.

    In a window that it does not fit, columns that are the same in all rows stand above it.
    """
    where = console()
    shown = rows[[c for c in rows.columns if rows[c].map(lambda v: not _blank(v)).any()]]
    grid = _grid(shown)
    unbroken = where.options.update(max_width=_UNBROKEN)
    if where.measure(grid, options=unbroken).maximum > where.width:
        same = [c for c in shown.columns if len(shown) > 1 and shown[c].map(_text).nunique() == 1]
        if same:
            said = (f"{c}: {_text(shown[c].iloc[0])}" for c in same)
            where.print(escape("; ".join(said)), style="dim")
        grid = _narrow(shown.drop(columns=same), where.width)
    where.print(grid)


def _grid(rows: pd.DataFrame) -> Table:
    """Return rows as a table: numbers at the right."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    for column in rows.columns:
        grid.add_column(str(column), justify="right" if _numeric(rows[column]) else "left")
    return _filled(grid, rows)


def _narrow(rows: pd.DataFrame, width: int) -> Table:
    """Return rows as a table for a narrow window: heads and texts broken, numbers whole."""
    heads = {c: str(c).replace("_", " ") for c in rows.columns}
    widest = {c: max((len(_text(v)) for v in rows[c]), default=0) for c in rows.columns}
    for text in _LEAST_TEXTS:
        least = {
            c: max(widest[c], min(text, max(map(len, heads[c].split()))))
            if _numeric(rows[c])
            else min(widest[c], text)
            for c in rows.columns
        }
        if sum(least.values()) + len(least) <= width:
            break
    grid = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, header_style="bold")
    for column, head in heads.items():
        if _numeric(rows[column]):
            grid.add_column(head, justify="right", overflow="fold", width=least[column])
        else:
            grid.add_column(head, overflow="fold", min_width=least[column])
    return _filled(grid, rows)


def _numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _filled(grid: Table, rows: pd.DataFrame) -> Table:
    for row in rows.itertuples(index=False):
        grid.add_row(*(escape(_text(v)) for v in row))
    return grid


def _blank(value: object) -> bool:
    return _absent(value) or value == ""


def _text(value: Any) -> str:
    if _blank(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"
    return str(value)


def describe(rows: pd.DataFrame) -> None:
    """Print each row as a paragraph: a line a column that says something."""
    for number, row in enumerate(rows.to_dict("records")):
        if number:
            print()
        width = max(len(str(k)) for k in row)
        for key, value in row.items():
            if not _blank(value):
                print(f"{key!s:<{width}}  {_text(value)}")


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of steps done and steps in all that draws a bar, on a terminal alone."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=None)

        def step(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield step
