"""Show what became of loops between two builds as a table."""

from loopwright.cli.views import table
from loopwright.machine import hosts
from loopwright.rows import Rows

_SHOWN = ("file", "function", "line", "change", "microarch", "offset_a", "cycles_a", "offset_b")


def show(rows: Rows) -> None:
    """Print rows: what is the same in both builds is left out."""
    records = [
        {
            **{name: row[name] for name in _SHOWN},
            "microarch": hosts.marked(row["microarch"]),
            "cycles_b": row["cycles_b"],
            "slower": None if row["percent"] is None else f"{row['percent']:+.0f} %",
            "best": row["best_a"] if row["best_b"] is None else row["best_b"],
            "error": row["error"],
        }
        for row in rows.records()
    ]
    if records:
        table.draw(Rows.of(records), ("best", "line", "offset_a", "offset_b"))
        print()
