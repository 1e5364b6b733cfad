"""Published gains over the size of a call, beside what is predicted of the loop."""

import pandas as pd
from matplotlib.figure import Figure

from loopwright.reporting import palette
from loopwright.reporting.plots import canvas


@canvas.drawn
def published_over_size(rows: pd.DataFrame) -> Figure:
    """Draw published gains of variants over size_bytes as points, predicted ones as lines.

    rows are those of loopwright.published for one model.
    """
    rows = rows[rows["size_bytes"].notna() & rows["percent"].notna()]
    if rows.empty:
        return canvas.nothing("no published gains over the size of a call")
    figure, axes = canvas.axes(8, 3.8)
    for (kernel, variant), mine in rows.groupby(["kernel", "variant"], sort=False):
        style = palette.variant(str(variant), str(kernel))
        mine = mine.sort_values("size_bytes")
        sizes = mine["size_bytes"].astype(float)
        axes.plot(
            sizes,
            mine["percent"],
            label=f"{variant}, published",
            color=style.colour,
            marker=style.marker,
            linestyle="none",
        )
        axes.plot(
            sizes,
            mine["predicted"],
            label=f"{variant}, predicted",
            color=style.colour,
            linestyle=style.line,
        )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel("size of the call, bytes")
    axes.set_ylabel("% faster than the baseline")
    axes.set_title(", ".join(rows["machine"].unique()))
    axes.grid(axis="y")
    canvas.beside(axes)
    return figure
