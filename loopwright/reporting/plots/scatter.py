"""The scatter of predictions over measurements."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from loopwright.predicting.models import MODELS
from loopwright.reporting import palette
from loopwright.reporting.cross_validation import summary, worst
from loopwright.reporting.plots import canvas

_NAMED = 3  # loops farthest off that are named in the figure
_APART = 10.0  # per cent from which on a loop is far off


@canvas.drawn
def scatter(pairs: pd.DataFrame) -> Figure:
    """Draw predicted over measured cycles of one core, a colour and a marker for each model.

    pairs is what accuracy.pairs returns. The line is where both are the same, the band 10 % to
    either side; the legend has each model's MAPE and Kendall's tau; the worst loops are named.
    """
    if pairs.empty:
        return canvas.nothing("no loop has both a prediction and a measurement here")
    figure, axes = canvas.axes(5.4, 5)
    every = pairs[["predicted_cycles", "measured_cycles"]].to_numpy(float)
    edge = np.array([every.min() / 1.3, every.max() * 1.3])
    axes.fill_between(edge, edge * 0.9, edge * 1.1, color=palette.FAINT, alpha=0.5, linewidth=0)
    axes.plot(edge, edge, color=palette.FAINT, linewidth=1)
    of_model = summary(pairs).groupby("source")
    for model in MODELS:
        mine = pairs[pairs["source"] == model.id]
        if mine.empty:
            continue
        [row] = of_model.get_group(model.id).to_dict("records")
        tau = "" if pd.isna(row["kendall_tau"]) else f", tau {row['kendall_tau']:.2f}"
        style = palette.source(model.id)
        axes.errorbar(
            mine["measured_cycles"],
            mine["predicted_cycles"],
            xerr=mine["uncertainty_cycles"],
            label=f"{model.id}: {row['loops']} loops, MAPE {row['mape_percent']:.1f} %{tau}",
            color=style.colour,
            marker=style.marker,
            linestyle="none",
            markersize=5,
            markerfacecolor="none",
        )
    for row in worst(pairs.drop_duplicates("variant"), _NAMED).to_dict("records"):
        if abs(row["error_percent"]) >= _APART:
            axes.annotate(
                f"{row['variant']} ({row['error_percent']:+.0f} %)",
                (row["measured_cycles"], row["predicted_cycles"]),
                textcoords="offset points", xytext=(6, -8), fontsize=7,
            )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlim(*edge)
    axes.set_ylim(*edge)
    axes.set_aspect("equal")
    axes.set_xlabel("measured cycles an iteration")
    axes.set_ylabel("predicted cycles an iteration")
    axes.set_title(", ".join(pairs["microarch"].unique()))
    axes.legend(loc="upper left")
    return figure
