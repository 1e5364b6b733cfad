"""Cost of a call over its size: curves, which variant is cheapest where, and crossover points."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from loopwright.histogram import Histogram
from loopwright.judging.call_costs import curve
from loopwright.judging.compare import MEASURED
from loopwright.predicting.predict import predict

SIZES = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)

COLUMNS = [
    "variant", "microarch", "source", "size_bytes", "cost_cycles", "uncertainty_cycles", "clock",
    "machine", "note",
]  # fmt: skip
_CURVE = {"cost_cycles": "cycles"}  # what costs.curve calls it


def measured(
    measurements: pd.DataFrame, *, dst_align: int = 0, src_align: int = 0, cache: str = "hot"
) -> pd.DataFrame:
    """Return measured costs of a call, at one pair of alignments (bytes from a page's start).

    cache is "hot" or "cold"; measurements is what measure returns. One row a variant and size:
    size_bytes, cost_cycles a call, uncertainty_cycles, and where they come from: source,
    microarch, clock, machine; note says what was left out of what was measured.
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
    below 64 bytes. Variants without a figure for either that counts are left out.
    """
    wanted = (table["microarch"] == microarch) & (table["source"] == source)
    known = table["cycles"].notna() & table["startup_cycles"].notna()
    rows = table[wanted & known & table["notion"].eq("loop") & table["excluded"].eq("")]
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
            "note": "",
        }
        for row in rows.to_dict("records")
        for size in sizes
    ]
    return pd.DataFrame(out, columns=COLUMNS)


def called(
    spec: str,
    microarch: str,
    sizes: Sequence[int] = SIZES,
    *,
    dst_align: int = 0,
    src_align: int = 0,
) -> pd.DataFrame:
    """Return what whole calls are predicted to cost on one core, in the columns of measured.

    Calls that are not predicted are left out; `loopwright predict --sizes` says why.
    """
    rows = predict(spec, microarch=microarch, sizes=sizes, align=[(dst_align, src_align)])
    rows = rows.rename(columns={"cycles": "cost_cycles", "model": "source"})
    known = rows[rows["cost_cycles"].notna()]
    return known.assign(uncertainty_cycles=np.nan, clock="", machine="")[COLUMNS]


def crossovers(costs: pd.DataFrame) -> pd.DataFrame:
    """Return where the cheapest variant changes: one row for each stretch of sizes.

    costs is what measured or predicted returns, of one routine, core and source. from_bytes and
    to_bytes bound the stretch (the crossover points, between the sizes that are known, by straight
    lines); cheapest is the variant, or those that differ in it by no more than their uncertainty.
    Sizes of which a variant has no cost are stretches of their own, without a cheapest: lacking
    names who it is.
    """
    columns = ["from_bytes", "to_bytes", "cheapest", "lacking"]
    grid = costs.pivot_table(index="size_bytes", columns="variant", values="cost_cycles")
    grid = grid.sort_index()
    if grid.empty:
        return pd.DataFrame(columns=columns)
    error = costs.pivot_table(index="size_bytes", columns="variant", values="uncertainty_cycles")
    error = error.reindex(index=grid.index, columns=grid.columns).fillna(0.0)
    stretches: list[_Stretch] = []
    for (label, row), (_, spread) in zip(grid.iterrows(), error.iterrows(), strict=True):
        size = float(str(label))
        lacking = [str(name) for name in row.index[row.isna()]]
        last = stretches[-1] if stretches else None
        names: list[str] = []
        if not lacking:
            gap, doubt = row - row.min(), spread + spread.iloc[int(row.argmin())]
            names = [str(name) for name in row.index[gap <= doubt]]
        kept = [name for name in last.names if name in names] if last else []
        if last and last.lacking == lacking and (kept or lacking):
            stretches[-1] = _Stretch(last.low, size, kept, lacking)
        else:
            stretches.append(_Stretch(size, size, names, lacking))
    rows = []
    low = stretches[0].low
    for one, following in zip(stretches, [*stretches[1:], None], strict=True):
        high = one.high
        if following and one.names and following.names:
            high = _crossing(grid[one.names[0]] - grid[following.names[0]], high, following.low)
        rows.append([low, high, " = ".join(one.names), ", ".join(one.lacking)])
        between = following is not None and one.names and following.names
        low = high if between else following.low if following else high
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class _Stretch:
    """Sizes from low to high over which the same variants are cheapest, or the same are lacking."""

    low: float
    high: float
    names: list[str]
    lacking: list[str]


def _crossing(gap: pd.Series, low: float, high: float) -> float:
    """Return where a difference of costs, known at two sizes, is nought (or the larger size)."""
    before, after = float(gap[low]), float(gap[high])
    if before * after >= 0:
        return high
    return low - before * (high - low) / (after - before)


def weighted(costs: pd.DataFrame, histogram: Histogram) -> pd.DataFrame:
    """Return the mean cost of a call under a histogram of sizes, by variant, cheapest first.

    Columns: variant, mean_cost_cycles, sizes_known_percent (the share of calls whose size lies
    within the sizes of costs; beyond them the cost goes on as between the last two), lacking: the
    sizes of others that a variant has no cost for, so that it has no mean to compare with theirs.
    """
    sizes = costs["size_bytes"]
    known = sum(
        b.count
        for b in histogram.buckets
        if b.high is not None and b.low >= sizes.min() and b.high <= sizes.max() + 1
    )
    rows = []
    for name, mine in costs.groupby("variant", sort=False):
        lacking = sorted({*sizes} - {*mine["size_bytes"]})
        mean = histogram.mean(curve(mine.rename(columns=_CURVE)))
        rows.append(
            {
                "variant": name,
                "mean_cost_cycles": np.nan if lacking else mean,
                "sizes_known_percent": 100 * known / histogram.total,
                "lacking": ", ".join(f"{size:.0f} B" for size in lacking),
            }
        )
    columns = ["variant", "mean_cost_cycles", "sizes_known_percent", "lacking"]
    return pd.DataFrame(rows, columns=columns).sort_values("mean_cost_cycles", ignore_index=True)


def _as_they_come(column: pd.Series) -> pd.Series:
    """Return a sort key that keeps variants in the order in which they appear."""
    if column.name != "variant":
        return column
    return column.map({name: n for n, name in enumerate(column.unique())})
