"""The bands of one kernel on the page: a strip of sizes for each routine, and the table of it."""

from collections.abc import Iterator

from loopwright.reporting import plots
from loopwright.reporting.findings import Finding
from loopwright.reporting.page.figures import Drawing, drawing
from loopwright.reporting.page.grid import Column, Grid, GridRow, filled, marked, number, text


def strips(found: Finding, name: str) -> Iterator[Drawing]:
    """Yield the strips of each routine, a row of each for a core."""
    if found.bands.empty:
        return
    for routine, mine in found.bands.groupby("routine", sort=False):
        yield drawing(
            plots.strip(mine, found.kernel.id),
            f"{name}-{routine}-strip",
            f"{routine}: the best variant by size of a call. Filled: it beats the baseline "
            "whatever is not known; hatched: it may; empty: the baseline as it is",
            "the table below has the same bands",
            {},
        )


def bands(found: Finding, name: str) -> Grid | None:
    """Return the bands with their speeds, None where there are none."""
    if found.bands.empty:
        return None
    columns = (
        Column("routine"), Column("core"), Column("where", wide=True), Column("from, B", True),
        Column("to, B", True), Column("best"), Column("verdict"),
        Column("against baseline at least, %", True), Column("at most, %", True),
        Column("evidence", wide=True),
    )  # fmt: skip
    rows = [
        GridRow(
            [text(row["routine"]), marked(row["microarch"]), text(row["condition"]),
             number(row["from_bytes"], 0), number(row["to_bytes"], 0), text(row["variant"]),
             text(row["status"]), number(100 * (row["speed_low"] - 1), 1, sign=True),
             number(100 * (row["speed_high"] - 1), 1, sign=True), text(row["evidence"])],
            {"core": str(row["microarch"])},
        )
        for row in found.bands.to_dict("records")
    ]  # fmt: skip
    caption = (
        f"{found.kernel.id}: which variant is best from which size to which. wins: whatever is not "
        "known; open: what is not known, or the error of the evidence, decides; keeps: none beats "
        "the baseline"
    )
    return Grid(f"{name}-bands", caption, *filled(columns, rows))
