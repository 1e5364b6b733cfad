"""Output of rows on a terminal or in a pipe: tables, paragraphs, JSON, CSV, progress bars."""

import csv
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from loopwright.machine import hosts
from loopwright.rows import Rows, statements

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table


_UNBROKEN_WIDTH = 10_000  # columns of a console without a terminal
_BEFORE_UNIT = re.compile(r"(\d) (?=%|cycles?\b|B\b|KiB\b)")
_LEAST_TEXT_WIDTHS = (24, 14, 10, 8, 6, 4)  # least columns of a text in a narrow window
_LEAST_WORD_WIDTHS = (32, 18, 12, 0)  # least columns of an unbroken word, and of figures' heads

# Columns that describe the subject of a table: with one value in all rows they stand above it.
_SUBJECT_COLUMNS = frozenset(
    {"kernel", "routine", "model", "notion", "offset", "unit", "clock", "machine", "isa"}
)


# The piece of code that cycles are of, by prediction kind.
CYCLES_OF = {"loop": "an iteration", "unrolled": "a copy, copies back to back"}


class Figure(str):
    """A number in the form in which it is shown."""

    __slots__ = ()


def console() -> "Console":
    """Return the console of standard output; its lines are not broken without a terminal."""
    from rich.console import Console

    terminal = Console(highlight=False, soft_wrap=False)
    if terminal.is_terminal:
        return terminal
    return Console(highlight=False, width=_UNBROKEN_WIDTH)


def draw(rows: Rows, spare: Sequence[str] = ()) -> None:
    """Print rows as a table, without empty columns.

    In a window that is too narrow, spare columns are left out in their order, and named below.
    Where that is not enough, columns that describe the subject stand above the table where all rows
    agree, and the rest is broken; where even that does not fit, each row is a paragraph.
    """
    shown = rows.only(c for c in rows.columns if not all(map(blank, rows.column(c))))
    head, *body = _lines(shown)
    if not on_terminal():
        sys.stdout.writelines(f"{line}\n" for line in (head, *body))
        return
    window = console()
    left_out = []
    for column in spare:
        if max(map(len, (head, *body))) <= window.width:
            break
        if column in shown.columns:
            left_out.append(column)
            shown = shown.only(c for c in shown.columns if c != column)
            head, *body = _lines(shown)
    if max(map(len, (head, *body))) > window.width:
        _draw_broken(shown, window)
    else:
        window.print(head, style="bold", markup=False)
        sys.stdout.writelines(f"{line}\n" for line in body)
    if left_out:
        say(f"left out in a window of {window.width} columns: {', '.join(left_out)}", "dim")


def on_terminal() -> bool:
    """True if standard output is shown to a user."""
    # A program that shows the output itself, such as a pager, forces colour.
    return bool(sys.stdout.isatty() or os.environ.get("FORCE_COLOR"))


def say(text: str, style: str | None = None) -> None:
    """Print a sentence, broken at the width of the terminal."""
    console().print(text, style=style, markup=False, highlight=False)


def show_table(rows: Rows, hide: tuple[str, ...] = (), spare: tuple[str, ...] = ()) -> None:
    """Print rows as a table without the columns in hide, then each note once."""
    draw(rows.only(c for c in rows.columns if c not in (*hide, "note")), spare)
    say_notes(rows.column("note") if "note" in rows.columns else ())


def say_notes(notes: Iterable[object]) -> None:
    """Print each note once."""
    for note in dict.fromkeys(n for n in notes if not blank(n)):
        say(f"note: {note}")


def paragraph(row: Mapping[str, Any]) -> None:
    """Print a row, a line for each column with a value.

    On a terminal each statement of a value begins a line, and is broken at the window's width.
    """
    shown = {key: text(value) for key, value in row.items() if not blank(value)}
    width = max(map(len, shown), default=0)
    least = width + 2 + _LEAST_TEXT_WIDTHS[0]
    columns = max(console().width, least) if on_terminal() else _UNBROKEN_WIDTH
    for key, value in shown.items():
        parts = statements(value) if on_terminal() else [value]
        for n, line in enumerate(_wrapped(parts, columns - width - 2)):
            print(f"{'' if n else key:<{width}}  {line}".rstrip())


def _wrapped(parts: Sequence[str], columns: int) -> Iterator[str]:
    """Yield lines of at most that width: each statement begins one, figures keep their unit."""
    indent = "  " if len(parts) > 1 else ""
    for statement in parts:
        unbroken = _BEFORE_UNIT.sub("\\1\N{NO-BREAK SPACE}", statement)
        for line in textwrap.wrap(
            unbroken, columns, subsequent_indent=indent, break_on_hyphens=False
        ) or [""]:
            yield line.replace("\N{NO-BREAK SPACE}", " ")


def blank(value: object) -> bool:
    """True if a value has nothing to show."""
    return value is None or value == "" or value != value


def text(value: Any) -> str:
    """Return a value as the text of a cell."""
    if blank(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"
    return str(value)


def _lines(rows: Rows) -> list[str]:
    """Return the head, a rule and one line for each row, of any length; numbers at the right."""
    columns = []
    for name in rows.columns:
        values = rows.column(name)
        cells = [name, *map(text, values)]
        width = max(map(len, cells))
        right = _numeric(values)
        columns.append([c.rjust(width) if right else c.ljust(width) for c in cells])
    head, *body = ("  ".join(cells) for cells in zip(*columns, strict=True)) if columns else ("",)
    return [line.rstrip() for line in (head, "─" * len(head), *body)]


def _draw_broken(rows: Rows, window: "Console") -> None:
    """Print rows in a window that is too narrow for them."""
    from rich.markup import escape

    several = len(rows.values) > 1
    cells = {c: list(map(text, rows.column(c))) for c in rows.columns}
    common = [
        c for c in rows.columns if several and c in _SUBJECT_COLUMNS and len(set(cells[c])) == 1
    ]
    if common:
        window.print(escape("; ".join(f"{c}: {cells[c][0]}" for c in common)), style="dim")
    remaining = rows.only(c for c in rows.columns if c not in common)
    narrow = _narrow_table(remaining, window.width)
    if narrow is not None:
        window.print(narrow)
        return
    for row in remaining.records():
        paragraph(row)
        window.print()


def _narrow_table(rows: Rows, width: int) -> "Table | None":
    """Return rows as a table for a narrow window: heads and texts broken, numbers whole.

    None if its columns do not fit side by side.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    heads = {c: c.replace("_", " ") for c in rows.columns}
    cells = {c: list(map(text, rows.column(c))) for c in rows.columns}
    numeric = {c: _numeric(rows.column(c)) for c in rows.columns}
    widest = {c: max(map(len, cells[c]), default=0) for c in rows.columns}
    words = {
        c: max(map(len, " ".join([heads[c], *cells[c]]).split()), default=0) for c in rows.columns
    }
    for word_width, text_width in product(_LEAST_WORD_WIDTHS, _LEAST_TEXT_WIDTHS):
        widths = {
            c: max(widest[c], min(word_width or text_width, max(map(len, heads[c].split()))))
            if numeric[c]
            else min(max(widest[c], words[c]), max(text_width, min(words[c], word_width)))
            for c in rows.columns
        }
        if sum(widths.values()) + len(widths) <= width:
            break
    else:
        return None
    # The remaining width goes first to the texts that lack least, so that most are whole.
    spare = width - sum(widths.values()) - len(widths)
    for column in sorted(widths, key=lambda c: widest[c] - widths[c]):
        extra = max(min(widest[column] - widths[column], spare), 0)
        widths[column] += extra
        spare -= extra
    for column, head in heads.items():
        extra = max(map(len, head.split())) - widths[column]
        if 0 < extra <= spare:
            widths[column] += extra
            spare -= extra
    grid = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, header_style="bold")
    for column, head in heads.items():
        if numeric[column]:
            grid.add_column(head, justify="right", overflow="fold", width=widths[column])
        else:
            grid.add_column(head, overflow="fold", width=widths[column])
    for row in rows.values:
        grid.add_row(*(escape(text(v)) for v in row))
    return grid


def _numeric(values: list[Any]) -> bool:
    kinds = {type(v) for v in values if not blank(v)}
    return bool(kinds) and kinds <= {int, float, Figure}


F = TypeVar("F", bound=Callable[..., Any])


_FORMAT_KEY = "loopwright.cli.format"  # key of the output format in click's context


def formats(function: F) -> F:
    """Add --json and --csv to a verb; emit then prints its rows in that format."""
    verb: Any = function
    for name in ("csv", "json"):
        help_text = f"Print rows as {name.upper()}."
        verb = click.option(
            f"--{name}", is_flag=True, expose_value=False, callback=_choose, help=help_text
        )(verb)
    return cast(F, verb)


def _choose(context: click.Context, option: click.Parameter, given: bool) -> None:
    if given and context.meta.setdefault(_FORMAT_KEY, option.name) != option.name:
        raise click.UsageError("--json and --csv exclude each other")


def row_format() -> str:
    """Return the requested format of rows: "json", "csv", or "" for a table."""
    context = click.get_current_context(silent=True)
    return str(context.meta.get(_FORMAT_KEY, "")) if context else ""


def emit(
    table: "Rows | pd.DataFrame",
    view: Callable[[Rows], object] | None = None,
    *,
    hide: tuple[str, ...] = (),
    spare: tuple[str, ...] = (),
    on_terminal_alone: bool = False,
    then: str = "",
) -> None:
    """Print rows as JSON or CSV where requested, else by view or as a table.

    The table leaves out columns in hide, and in a narrow window those in spare. With
    on_terminal_alone view is for a terminal, and a pipe gets the table. then is printed below it.
    """
    rows = table if isinstance(table, Rows) else Rows.of_frame(table)
    if row_format() == "json":
        print(json.dumps(rows.records(), indent=1))
        return
    if row_format() == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(rows.columns)
        writer.writerows(rows.values)
        return
    if view is None or (on_terminal_alone and not on_terminal()):
        show_table(rows, hide, spare)
    else:
        view(rows)
    if then:
        print(then)


def describe(rows: Rows) -> None:
    """Print each row as a paragraph: a line for each column with a value."""
    for number, row in enumerate(rows.records()):
        if number:
            print()
        paragraph(row)


def folded(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines with cores of equal values merged; this machine's core is marked."""
    by_values: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in lines:
        values = tuple(value for key, value in line.items() if key != "microarch")
        core = hosts.marked(line["microarch"])
        if values in by_values:
            by_values[values]["microarch"] += f", {core}"
        else:
            by_values[values] = dict(line) | {"microarch": core}
    return list(by_values.values())


def write_page(page: str, out: Path) -> None:
    """Write an HTML page and print its path; InputError if it cannot be written."""
    from loopwright.reporting.html import write

    write(page, out)
    print(f"written: {out}", file=sys.stderr)


def exit_code(answered: bool, what: str) -> int:
    """Return the exit code of a verb whose rows have figures; print a message if none has."""
    if not answered:
        print(f"loopwright: {what} has a number; each row says why", file=sys.stderr)
    return 0 if answered else 1


def say_check(row: Mapping[str, object]) -> None:
    """Print on stderr the result of a check of a tier, and how to repeat a failure."""
    failed = row["status"] == "fail"
    status = "FAIL" if failed else row["status"]
    lines = [f"{row['tier']}: {row['check']}: {status} in {row['seconds']:.1f} s: {row['what']}"]
    if failed:
        lines += [f"  repeat it: {row['command']}", f"  all of it: {row['log']}"]
    for line in lines:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def progress(label: str, *, timed: bool = True) -> Iterator[Callable[..., None]]:
    """Yield a function that draws a bar from the number of steps done and of all, on a terminal.

    A third argument is a new label. timed shows the remaining time; False where the labels have it.
    """
    from rich.console import Console
    from rich.progress import Progress

    terminal = Console(stderr=True)
    columns = Progress.get_default_columns()
    columns = columns if timed else columns[:-1]
    with Progress(
        *columns, console=terminal, transient=True, disable=not terminal.is_terminal
    ) as bar:
        task = bar.add_task(label, total=None)

        def step(done: int, total: int | None, label: str | None = None) -> None:
            bar.update(task, completed=done, total=total, description=label)

        yield step
