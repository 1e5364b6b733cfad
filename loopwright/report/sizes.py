"""Cost of a call over its size: curves, which variant is cheapest where, and crossover points."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from loopwright.compare import MEASURED
from loopwright.costs import curve
from loopwright.histogram import Histogram

SIZES = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)

COLUMNS = [
    "variant", "microarch", "source", "size_bytes", "cost_cycles", "uncertainty_cycles", "clock",
    "machine",
]  # fmt: skip
_CURVE = {"cost_cycles": "cycles"}  # what costs.curve calls it


def measured(
    measurements: pd.DataFrame, *, dst_align: int = 0, src_align: int = 0, cache: str = "hot"
) -> pd.DataFrame:
    """Return measured costs of a call, at one pair of alignments (bytes from a page's start).

    cache is "hot" or "cold"; measurements is what measure returns. One row a variant and size:
    size_bytes, cost_cycles a call, uncertainty_cycles, and where they come from: source,
    microarch, clock, machine.
    """
    if measurements.empty:
        return pd.DataFrame(columns=COLUMNS)
    rows = measurements[
        (measurements["quantity"] == "call")
        & (measurements["dst_align"] == dst_align)
        & (measurements["src_align"] == src_align)
        & (measurements["cache"] == cache)
        & (measurements["status"] != "refused")
    ]
    rows = rows.rename(columns={"cycles": "cost_cycles", "uncertainty": "uncertainty_cycles"})
    rows = rows.assign(source=MEASURED, microarch=rows["microarch"].replace("", "this host"))
    return rows[COLUMNS].sort_values(["variant", "size_bytes"], kind="stable", key=_as_they_come)


def predicted(
    table: pd.DataFrame, microarch: str, source: str, sizes: Sequence[int] = SIZES
) -> pd.DataFrame:
    """Return a model's costs of a call on one core, in the columns of measured.

    table is what compare returns. The cost is the start-up and the main loop, which is all that a
    model of the main loop knows: call, entry and tail are not in it, so nothing is said of sizes
    below 64 bytes. Variants without a figure for either are left out.
    """
    wanted = (table["microarch"] == microarch) & (table["source"] == source)
    known = table["cycles"].notna() & table["startup_cycles"].notna()
    rows = table[wanted & known & table["notion"].eq("loop")]
    out = [
        {
            "variant": row["variant"],
            "microarch": microarch,
            "source": source,
            "size_bytes": size,
            "cost_cycles": row["startup_cycles"]
            + row["cycles"] * size / row["bytes_per_iteration"],
            "uncertainty_cycles": np.nan,
            "clock": "",
            "machine": "",
        }
        for row in rows.to_dict("records")
        for size in sizes
    ]
    return pd.DataFrame(out, columns=COLUMNS)


def crossovers(costs: pd.DataFrame) -> pd.DataFrame:
    """Return where the cheapest variant changes: one row for each stretch of sizes.

    costs is what measured or predicted returns, of one routine, core and source; variants that
    lack one of its sizes are left out. from_bytes and to_bytes bound the stretch (the crossover
    points, between the sizes that are known, by straight lines); cheapest is the variant, or those
    that differ in it by no more than their uncertainty.
    """
    grid = costs.pivot_table(index="size_bytes", columns="variant", values="cost_cycles")
    grid = grid.dropna(axis=1).sort_index()
    if grid.empty:
        return pd.DataFrame(columns=["from_bytes", "to_bytes", "cheapest"])
    error = costs.pivot_table(index="size_bytes", columns="variant", values="uncertainty_cycles")
    error = error.reindex(index=grid.index, columns=grid.columns).fillna(0.0)
    stretches: list[tuple[float, float, list[str]]] = []
    for (size, row), (_, spread) in zip(grid.iterrows(), error.iterrows(), strict=True):
        gap, doubt = row - row.min(), spread + spread.iloc[int(row.argmin())]
        names = [str(name) for name in row.index[gap <= doubt]]
        first, _, before = stretches[-1] if stretches else (0.0, 0.0, list[str]())
        if kept := [name for name in before if name in names]:
            stretches[-1] = (first, float(str(size)), kept)
        else:
            stretches.append((float(str(size)), float(str(size)), names))
    points = [
        _crossing(grid[old[0]] - grid[new[0]], low, high)
        for (_, low, old), (high, _, new) in pairwise(stretches)
    ]
    ends = [s[0] for s in stretches[:1]] + points + [s[1] for s in stretches[-1:]]
    return pd.DataFrame(
        [
            {"from_bytes": low, "to_bytes": high, "cheapest": " = ".join(names)}
            for (low, high), (_, _, names) in zip(pairwise(ends), stretches, strict=True)
        ],
        columns=["from_bytes", "to_bytes", "cheapest"],
    )


def _crossing(gap: pd.Series, low: float, high: float) -> float:
    """Return where a difference of costs, known at two sizes, is nought (or the larger size)."""
    before, after = float(gap[low]), float(gap[high])
    if before * after >= 0:
        return high
    return low - before * (high - low) / (after - before)


def weighted(costs: pd.DataFrame, histogram: Histogram) -> pd.DataFrame:
    """Return the mean cost of a call under a histogram of sizes, by variant, cheapest first.

    Columns: variant, mean_cost_cycles, sizes_known_percent (the share of calls whose size lies
    within the sizes of costs; beyond them the cost goes on as between the last two).
    """
    sizes = costs["size_bytes"]
    known = sum(
        b.count
        for b in histogram.buckets
        if b.high is not None and b.low >= sizes.min() and b.high <= sizes.max() + 1
    )
    rows = [
        {
            "variant": name,
            "mean_cost_cycles": histogram.mean(curve(mine.rename(columns=_CURVE))),
            "sizes_known_percent": 100 * known / histogram.total,
        }
        for name, mine in costs.groupby("variant", sort=False)
    ]
    columns = ["variant", "mean_cost_cycles", "sizes_known_percent"]
    return pd.DataFrame(rows, columns=columns).sort_values("mean_cost_cycles", ignore_index=True)


def _as_they_come(column: pd.Series) -> pd.Series:
    """Return a sort key that keeps variants in the order in which they appear."""
    if column.name != "variant":
        return column
    return column.map({name: n for n, name in enumerate(column.unique())})
