"""The scatter of predictions over measurements."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from loopwright.machine import hosts
from loopwright.predicting.models import MODELS
from loopwright.reporting import palette
from loopwright.reporting.cross_validation import summary, worst
from loopwright.reporting.plots import canvas

_NAMED = 3  # loops farthest off that are named in the figure
_APART = 10.0  # per cent from which on a loop is far off
_OF = {"loops": "cycles an iteration", "calls": "cycles a call"}


@canvas.drawn
def scatter(pairs: pd.DataFrame, of: str = "loops") -> Figure:
    """Draw predicted over measured cycles of one core, a colour and a marker for each model.

    pairs is what cross_validation.pairs returns of loops, or call_pairs.paired of calls; of says
    which. The line is where both are the same, the band 10 % to either side; the legend has each
    model's MAPE and Kendall's tau; the variants that the first model misses most are named.
    """
    pairs = pairs[pairs["predicted_cycles"].notna()]
    if pairs.empty:
        return canvas.nothing(f"no {of} have both a prediction and a measurement here")
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
            label=f"{model.id}: {row['loops']} {of}, MAPE {row['mape_percent']:.1f} %{tau}",
            color=style.colour,
            marker=style.marker,
            linestyle="none",
            markersize=5,
            markerfacecolor="none",
        )
    first = pairs[pairs["source"] == pairs["source"].iloc[0]]
    farthest = worst(first, len(first)).drop_duplicates("variant")
    for row in farthest.head(_NAMED).to_dict("records"):
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
    axes.set_xlabel(f"measured {_OF[of]}")
    axes.set_ylabel(f"predicted {_OF[of]}")
    axes.set_title(", ".join(map(hosts.marked, pairs["microarch"].unique())))
    axes.legend(loc="upper left")
    return figure
