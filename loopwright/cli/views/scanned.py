"""Show what a scan found as a table."""

from loopwright.cli.views import table
from loopwright.rows import Rows

_SHOWN = ("file", "function", "line", "offset", "microarch", "cycles", "best", "worst", "lost")


def show(rows: Rows) -> None:
    """Print rows: where each loop is in one column, what hurts it in another."""
    records = [
        {
            "address": row["address"],
            **{name: row[name] for name in _SHOWN},
            "function": _where(row["function"], row["into"]),
            "times": None if row["times"] is None else f"{row['times']:.2f}",
            "limit": row["limit"].partition(" through ")[0],
            "boundary": _boundary(row["boundary"], row["crossed"]),
            "error": row["error"],
        }
        for row in rows.records()
    ]
    if records:
        table.draw(Rows.of(records))
        print()


def _where(function: str, into: int) -> str:
    return f"{function}+{into:#x}" if function and into else function


def _boundary(size: int | None, crossed: str) -> str:
    return "" if size is None else f"{size} {crossed}".strip()
