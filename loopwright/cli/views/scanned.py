"""Show what a scan found as a table."""

from loopwright.cli.views import table
from loopwright.rows import Rows

_SHOWN = ("file", "function", "line", "offset", "microarch", "cycles", "best", "worst", "lost")


def show(rows: Rows, *, at_length: bool) -> None:
    """Print rows: where each loop is in one column, what hurts it in another.

    at_length has what is to be done about them said below the table.
    """
    records = [
        {
            "address": row["address"],
            **{name: row[name] for name in _SHOWN},
            "function": _where(row["function"], row["into"]),
            "times": None if row["times"] is None else f"{row['times']:.2f}",
            "share %": row["share"],
            "saved %": row["saved"],
            "share of": row["share_of"],
            "limit": row["limit"].partition(" through ")[0],
            "boundary": _boundary(row["boundary"], row["crossed"]),
            "mend": row["mend"],
            "error": row["error"],
        }
        for row in rows.records()
    ]
    if records:
        table.draw(Rows.of(records))
        print()
    for how in rows.column("how") if at_length else []:
        if how:
            print(f"{how}\n")


def _where(function: str, into: int) -> str:
    return f"{function}+{into:#x}" if function and into else function


def _boundary(size: int | None, crossed: str) -> str:
    return "" if size is None else f"{size} {crossed}".strip()
