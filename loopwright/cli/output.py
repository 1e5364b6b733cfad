"""Print what a verb found: as a table, as JSON, as CSV, as paragraphs."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from loopwright.cli.views import table
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

F = TypeVar("F", bound=Callable[..., Any])


def formats(function: F) -> F:
    """Add --json and --csv to a verb; they reach it as as_json and as_csv, never both."""

    @wraps(function)
    def checked(*given: Any, as_json: bool, as_csv: bool, **more: Any) -> Any:
        if as_json and as_csv:
            raise click.UsageError("--json and --csv exclude each other")
        return function(*given, as_json=as_json, as_csv=as_csv, **more)

    csv_option = click.option("--csv", "as_csv", is_flag=True, help="Print rows as CSV.")
    json_option = click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
    return cast(F, json_option(csv_option(checked)))


def emit(
    found: "Rows | pd.DataFrame",
    *,
    as_json: bool,
    as_csv: bool,
    hide: tuple[str, ...] = (),
    spare: tuple[str, ...] = (),
) -> None:
    """Print rows. The table leaves out columns in hide, and in a narrow window those in spare."""
    rows = found if isinstance(found, Rows) else Rows.of_frame(found)
    if as_json:
        print(json.dumps(rows.records(), indent=1))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(rows.columns)
        writer.writerows(rows.values)
    else:
        table.show(rows, hide, spare)


def describe(found: "pd.DataFrame") -> None:
    """Print each row as a paragraph: a line a column that says something."""
    for number, row in enumerate(Rows.of_frame(found).records()):
        if number:
            print()
        table.paragraph(row)


def verdict(answered: bool, what: str) -> int:
    """Return the exit code of a verb that looked for numbers, and say where it found none."""
    if not answered:
        print(f"loopwright: {what} has a number; each row says why", file=sys.stderr)
    return 0 if answered else 1


def said_check(row: Mapping[str, object]) -> None:
    """Say on stderr what a check of a tier did, and how a failure is repeated."""
    failed = row["status"] == "fail"
    status = "FAIL" if failed else row["status"]
    said = [f"{row['tier']}: {row['check']}: {status} in {row['seconds']:.1f} s: {row['what']}"]
    if failed:
        said += [f"  repeat it: {row['command']}", f"  all of it: {row['log']}"]
    for line in said:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def progress(label: str) -> Iterator[Callable[..., None]]:
    """Yield a function of steps done and steps in all that draws a bar, on a terminal alone.

    A third argument is another label, from there on.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=None)

        def step(done: int, total: int | None, label: str | None = None) -> None:
            bar.update(task, completed=done, total=total, description=label)

        yield step
