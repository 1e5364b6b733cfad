"""The first rows of a scan as a table that is there without scripts."""

from loopwright.reporting.page.grid import Column, Grid, GridRow, filled, number, text
from loopwright.rows import Rows

# Columns of rows, with their heads; of which some are numbers.
_HEADS = {
    "address": "address", "function": "function", "into": "bytes into it", "change": "change",
    "microarch": "core", "offset": "code offset, B", "offset_a": "A: code offset, B",
    "offset_b": "B: code offset, B", "cycles": "cycles/iteration", "best": "at best",
    "worst": "at worst", "cycles_a": "A: cycles/iteration", "cycles_b": "B: cycles/iteration",
    "percent": "slower by, %", "share": "share of all cycles, %", "saved": "would save, %",
    "limit": "limit", "fix": "fix", "error": "error",
}  # fmt: skip
_NUMBERS = {
    "into": 0, "offset": 0, "offset_a": 0, "offset_b": 0, "cycles": 2, "best": 2, "worst": 2,
    "cycles_a": 2, "cycles_b": 2, "percent": 1, "share": 2, "saved": 2,
}  # fmt: skip


def grid(rows: Rows, caption: str) -> Grid:
    """Return rows as a table, without columns that say nothing in any of them."""
    names = [name for name in _HEADS if name in rows.columns]
    columns = [Column(_HEADS[name], name in _NUMBERS) for name in names]
    shown = [
        GridRow([number(r[n], _NUMBERS[n]) if n in _NUMBERS else text(r[n]) for n in names])
        for r in rows.records()
    ]
    return Grid("first", caption, *filled(columns, shown))
