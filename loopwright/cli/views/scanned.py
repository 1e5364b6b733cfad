"""Show what a scan found as a table."""

from loopwright.cli.views import table
from loopwright.machine import hosts
from loopwright.rows import Rows

_SHOWN = ("file", "function", "line", "offset", "microarch", "cycles", "best", "worst", "lost")
_SPARE = ("lost", "limit", "boundary", "worst", "line", "address")  # in a narrow window
_AT_LENGTH = 3  # rows of which the fix is said at length


def show(rows: Rows) -> None:
    """Print rows: where each loop is in one column, what hurts it in another.

    Below the table stands at length how the first loops are fixed.
    """
    records = [
        {
            "address": row["address"],
            **{name: row[name] for name in _SHOWN},
            "function": _where(row["function"], row["into"]),
            "microarch": hosts.marked(row["microarch"]),
            "times": None if row["times"] is None else f"{row['times']:.2f}",
            "share %": row["share"],
            "saved %": row["saved"],
            "share of": row["share_of"],
            "limit": row["limit"].partition(" through ")[0],
            "boundary": _boundary(row["boundary"], row["crossed"]),
            "fix": row["fix"],
            "error": row["error"],
        }
        for row in rows.records()
    ]
    if records:
        table.draw(Rows.of(records), _SPARE if all(r["function"] for r in records) else _SPARE[:-1])
        print()
    said = dict.fromkeys(
        (row["address"], _where(row["function"], row["into"]), row["how"])
        for row in rows.records()
        if row["how"]
    )
    for address, where, how in list(said)[:_AT_LENGTH]:
        table.say(f"{where or address}: {how}\n")


def _where(function: str, into: int) -> str:
    return f"{function}+{into:#x}" if function and into else function


def _boundary(size: int | None, crossed: str) -> str:
    return "" if size is None else f"{size} {crossed}".strip()
