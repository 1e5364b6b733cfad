"""A strip of sizes for each core, coloured by the variant that is best there."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from loopwright.judging.verdicts import CONTESTED, KEEPS, OPEN
from loopwright.machine import hosts
from loopwright.reporting import palette
from loopwright.reporting.plots import canvas

_HALF = 0.36


@canvas.drawn
def strip(bands: pd.DataFrame, kernel: str | None = None) -> Figure:
    """Draw which variant is best over sizes, a strip for each core and condition.

    bands has the rows of one routine as recommend.Judgement has them. The baseline has no colour;
    hatched in the colour of a variant is where that one may win, or where its win is contested.
    """
    if bands.empty:
        return canvas.nothing("no size of a call is known on any core")
    places = list(bands.groupby(["microarch", "condition"], sort=False))
    figure, axes = canvas.axes(6.4, 0.9 + 0.32 * len(places))
    drawn: dict[str, Patch] = {}
    for number, (_, mine) in enumerate(places):
        for row in mine.to_dict("records"):
            style = palette.variant(str(row["variant"]), kernel)
            keeps, open_ = row["status"] == KEEPS, row["status"] in (OPEN, CONTESTED)
            low, high = float(row["from_bytes"]), float(row["to_bytes"])
            if low == high:  # one size alone is a mark, not a line
                low, high = low / 2**0.25, high * 2**0.25
            box = axes.barh(
                number,
                high - low,
                2 * _HALF,
                left=low,
                facecolor="none" if keeps or open_ else style.colour,
                edgecolor=palette.FAINT if keeps else style.colour,
                hatch="////" if open_ else "",
                linewidth=0.8,
            )
            label = f"{row['variant']}{' may win' if open_ else ' (baseline)' if keeps else ''}"
            drawn.setdefault(label, box.patches[0])
    cores = [(hosts.marked(str(core)), condition) for (core, condition), _ in places]
    names = [f"{core}, {condition}" if condition else core for core, condition in cores]
    axes.set_yticks(range(len(places)), names)
    axes.invert_yaxis()
    axes.set_xscale("log", base=2)
    ends = bands["from_bytes"].min(), bands["to_bytes"].max()
    ticks = 2.0 ** np.arange(np.floor(np.log2(max(ends[0], 1))), np.ceil(np.log2(ends[1])) + 1)
    axes.set_xticks(ticks, [f"{int(t)}" for t in ticks], fontsize=7)
    axes.set_xlabel("size of a call, bytes")
    axes.tick_params(axis="y", length=0)
    figure.legend([*drawn.values()], [*drawn], loc="outside lower center", ncols=3)
    return figure
