"""Bars: the cycles of each variant by source, for one core."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopwright.judging.study import MEASURED
from loopwright.machine import hosts
from loopwright.predicting.models import MODELS
from loopwright.reporting import palette
from loopwright.reporting.plots import canvas

_SOURCES = (*(m.id for m in MODELS), MEASURED)


@canvas.drawn
def cycles(table: pd.DataFrame, microarch: str) -> Figure:
    """Draw the cycles of each variant on one core, a bar for each source that answers.

    table is what compare returns: cycles are for the unit that its variants are compared by, with
    a panel for each unit. Error bars are the measurement's uncertainty. Figures that are excluded,
    and measurements of a part of a routine, are not drawn.
    """
    rows = table[(table["microarch"] == microarch) & table["cycles"].notna()]
    rows = rows[rows["excluded"].eq("") & rows["note"].eq("")]
    sources = [s for s in _SOURCES if s in set(rows["source"])]
    if not sources:
        return canvas.nothing(f"{microarch}: no source has an answer that counts")
    units = list(rows["unit"].unique())
    counts = [rows.loc[rows["unit"] == unit, "variant"].nunique() for unit in units]
    tall = 0.6 + 0.5 * len(units) + 0.14 * sum(counts) * (len(sources) + 1)
    figure, every = canvas.apart(5.8, tall, tuple(counts))
    for axes, unit in zip(every, units, strict=True):
        _panel(axes, rows[rows["unit"] == unit], sources)
        axes.set_xlabel(f"cycles for {unit} (less is faster)")
    every[0].set_title(hosts.marked(microarch))
    drawn = {
        label: handle
        for axes in every
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    order = [s for s in sources if s in drawn]
    figure.legend([drawn[s] for s in order], order, loc="outside lower center", ncols=3)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, sources: list[str]) -> None:
    """Draw the bars of the variants that one unit compares, a group for each variant."""
    variants = list(rows["variant"].unique())
    height = 1 / (len(sources) + 1)
    for number, source in enumerate(sources):
        mine = rows[rows["source"] == source].drop_duplicates("variant").set_index("variant")
        if mine.empty:
            continue
        style = palette.source(source)
        bars = axes.barh(
            [variants.index(v) + (number + 0.5) * height for v in mine.index],
            mine["cycles_per_unit"],
            height,
            label=source,
            color=style.colour,
            hatch=style.hatch,
            edgecolor="white",
            linewidth=0.4,
            xerr=mine["uncertainty"] * mine["cycles_per_unit"] / mine["cycles"],
            error_kw={"ecolor": palette.FAINT},
        )
        axes.bar_label(bars, [f"{v:.2f}" for v in mine["cycles_per_unit"]], padding=2, fontsize=7)
    axes.set_yticks([n + 0.5 - height / 2 for n in range(len(variants))], variants)
    axes.set_ylim(len(variants), 0)  # every name is in sight, whatever bars it has
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.14)
    axes.grid(axis="x")
