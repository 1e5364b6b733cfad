"""Curves of the cost of a call over its size."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopwright.histogram import Histogram
from loopwright.reporting import palette
from loopwright.reporting.plots import canvas
from loopwright.reporting.sizes import crossovers

_LINEAR = 8  # bytes below which the axis is linear, since it starts at a size of 0


@canvas.drawn
def size_curves(
    costs: pd.DataFrame, *, kernel: str | None = None, histogram: Histogram | None = None
) -> Figure:
    """Draw the cost of a call over its size, a line for each variant, of one core and source.

    costs is what sizes.measured or sizes.predicted returns; kernel gives the variants the colours
    that they have elsewhere. Grey lines mark the crossover points, where the cheapest variant
    changes; bars beneath show how many calls of a histogram fall on each size.
    """
    if costs.empty:
        return canvas.nothing("no costs of calls: nothing was measured, or no model has a figure")
    if histogram:
        figure, rows = canvas.stacked(6.4, 5.2, (4, 1))
    else:
        figure, only = canvas.axes(6.4, 4.2)
        rows = [only]
    axes = rows[0]
    for name, mine in costs.groupby("variant", sort=False):
        style = palette.variant(str(name), kernel)
        axes.errorbar(
            mine["size_bytes"],
            mine["cost_cycles"],
            yerr=mine["uncertainty_cycles"],
            label=str(name),
            color=style.colour,
            marker=style.marker,
            linestyle=style.line,
            markersize=4,
            linewidth=1.2,
        )
    stretches = crossovers(costs)
    changes = stretches["cheapest"].ne("") & stretches["cheapest"].shift().fillna("").ne("")
    for at in sorted(set(stretches.loc[changes, "from_bytes"])):
        axes.axvline(at, color=palette.FAINT, linewidth=1, zorder=0)
        axes.annotate(
            f"{at:.0f} B", (at, 1), xycoords=("data", "axes fraction"), fontsize=7, rotation=90,
            ha="right", va="top",
        )  # fmt: skip
    where = costs[["microarch", "source"]].drop_duplicates().agg(", ".join, axis=1)
    axes.set_title("; ".join(where))
    axes.set_ylabel("cycles a call")
    axes.set_yscale("symlog", base=2, linthresh=16)
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    canvas.beneath(figure, axes)
    if histogram:
        _weights(rows[1], histogram)
    bottom = rows[-1]
    if costs["size_bytes"].min() > 0 and not histogram:
        bottom.set_xscale("log", base=2)
    else:
        bottom.set_xscale("symlog", base=2, linthresh=_LINEAR)
        bottom.set_xlim(left=-1)
    bottom.xaxis.set_major_formatter("{x:.0f}")
    bottom.set_xlabel("size of the call, bytes")
    return figure


def _weights(axes: Axes, histogram: Histogram) -> None:
    """Draw the share of calls in each bucket, beneath the curves."""
    for bucket in histogram.buckets:
        high = 2 * bucket.low if bucket.high is None else bucket.high
        share = 100 * bucket.count / histogram.total
        axes.bar(
            bucket.low, share, high - bucket.low, align="edge", color=palette.FAINT,
            edgecolor="white",
        )  # fmt: skip
    axes.set_ylabel("% of calls")
