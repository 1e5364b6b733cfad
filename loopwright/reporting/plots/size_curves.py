"""Curves of the cost of a call over its size."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopwright.histogram import Histogram
from loopwright.machine import hosts
from loopwright.reporting import palette
from loopwright.reporting.plots import canvas
from loopwright.reporting.sizes import between, crossovers

_LINEAR = 8  # bytes below which the axis is linear: a call may be of 0
_SAME = 0.1  # relative
_ABREAST = 2  # panels in a row, at most


@canvas.drawn
def size_curves(
    costs: pd.DataFrame,
    *,
    kernel: str | None = None,
    histogram: Histogram | None = None,
    most: float | None = None,
) -> Figure:
    """Draw the cost of a call over its size, a line for each variant.

    costs is what sizes.measured or sizes.called returns, or several of them one below the other:
    each core and source has a panel, with the same axes. kernel gives the variants the colours that
    they have elsewhere, most is where the axis of cycles ends (the highest cost, if not said).
    Variants of the same cost share a line. A line has a band where what nobody has measured of a
    core can move it. Grey lines mark the crossover points, where the cheapest variant changes; bars
    beneath show how many calls of a histogram fall on each size.
    """
    if costs.empty:
        return canvas.nothing("no costs of calls: nothing was measured, or no model has a figure")
    groups = list(costs.groupby(["microarch", "source"], sort=False))
    figure, tops, feet = canvas.panels(len(groups), _ABREAST, feet=histogram is not None)
    for axes, ((core, source), mine) in zip(tops, groups, strict=True):
        _curves(axes, mine, kernel)
        axes.set_title(f"{hosts.marked(str(core))}, {source}")
        axes.set_ylabel("cycles a call")
        axes.set_yscale("symlog", base=2, linthresh=16)
        axes.yaxis.set_major_formatter("{x:.0f}")
        axes.set_ylim(bottom=0, top=None if most is None else 1.05 * most)
        axes.grid(axis="y")
    canvas.beneath(figure, *tops)
    for axes in feet:
        if histogram:
            _weights(axes, histogram)
    for axes in feet or tops:
        axes.set_xscale("symlog", base=2, linthresh=_LINEAR)
        axes.set_xlim(left=-1)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_xlabel("size of the call, bytes")
    return figure


def _curves(axes: Axes, costs: pd.DataFrame, kernel: str | None) -> None:
    """Draw the lines of one core and source, and where they cross."""
    curves = _alike(costs)
    for number, names in enumerate(curves):
        mine = costs[costs["variant"] == names[0]]
        style = palette.variant(names[0], kernel)
        # Where curves meet, those drawn first are broader and show at both sides of the others.
        under = min(len(curves) - 1 - number, 3)
        axes.errorbar(
            mine["size_bytes"],
            mine["cost_cycles"],
            yerr=mine["uncertainty_cycles"],
            label=" \N{ALMOST EQUAL TO} ".join(names),
            color=style.colour,
            marker=style.marker,
            linestyle=style.line,
            markersize=3.5 + 0.6 * under,
            linewidth=1.2 + 0.9 * under,
        )
        if "low_cycles" in mine and mine["low_cycles"].notna().any():
            ends = between(mine).sort_values("size_bytes")
            axes.fill_between(
                ends["size_bytes"], ends["low_cycles"], ends["high_cycles"], color=style.colour,
                alpha=0.15, lw=0,
            )  # fmt: skip
            for end in ("low_cycles", "high_cycles"):  # a band under another one has edges
                axes.plot(ends["size_bytes"], ends[end], color=style.colour, lw=0.7, ls=":")
    stretches = crossovers(costs)
    changes = stretches["cheapest"].ne("") & stretches["cheapest"].shift().fillna("").ne("")
    for at in sorted(set(stretches.loc[changes, "from_bytes"])):
        axes.axvline(at, color=palette.FAINT, linewidth=1, zorder=0)
        axes.annotate(
            f"{at:.0f} B", (at, 1), xycoords=("data", "axes fraction"), fontsize=7, rotation=90,
            ha="right", va="top",
        )  # fmt: skip


def _alike(costs: pd.DataFrame) -> list[list[str]]:
    """Return the variants in groups whose costs nobody could tell apart in the figure.

    Each costs the same as the first of its group to 10 % at all sizes: two pixels of the axis.
    """
    figures = [c for c in ("cost_cycles", "low_cycles", "high_cycles") if c in costs]
    groups: list[tuple[pd.DataFrame, list[str]]] = []
    for name, mine in costs.groupby("variant", sort=False):
        here = mine.set_index("size_bytes")[figures].sort_index().astype(float)
        for first, names in groups:
            same = first.index.equals(here.index)
            if same and np.allclose(here, first, rtol=_SAME, atol=0, equal_nan=True):
                names.append(str(name))
                break
        else:
            groups.append((here, [str(name)]))
    return [names for _, names in groups]


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
