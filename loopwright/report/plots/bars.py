"""Bars: cycles an iteration and bytes a cycle, by variant and source, for one core."""

import pandas as pd
from matplotlib.figure import Figure

from loopwright.compare import MEASURED
from loopwright.predict import MODELS
from loopwright.report import palette
from loopwright.report.plots import canvas

_SOURCES = (*(m.id for m in MODELS), MEASURED)


def cycles(table: pd.DataFrame, microarch: str) -> Figure:
    """Draw cycles an iteration of each variant on one core, a bar for each source that answers.

    table is what compare returns. Error bars are the measurement's uncertainty.
    """
    return _bars(table, microarch, "cycles", "cycles an iteration (less is faster)")


def bytes_per_cycle(table: pd.DataFrame, microarch: str) -> Figure:
    """Draw the bytes that each variant moves a cycle on one core (higher is faster)."""
    return _bars(table, microarch, "bytes_per_cycle", "bytes a cycle (more is faster)")


@canvas.drawn
def _bars(table: pd.DataFrame, microarch: str, column: str, label: str) -> Figure:
    of_core = table[table["microarch"] == microarch]
    rows = of_core[of_core[column].notna()]
    variants = list(rows["variant"].unique())
    sources = [s for s in _SOURCES if s in set(rows["source"])]
    if not sources:
        return canvas.nothing(f"{microarch}: no source has an answer")
    figure, axes = canvas.axes(8, 0.9 + 0.16 * (len(variants) * (len(sources) + 1)))
    height = 1 / (len(sources) + 1)
    for number, source in enumerate(sources):
        mine = rows[rows["source"] == source].drop_duplicates("variant").set_index("variant")
        style = palette.source(source)
        bars = axes.barh(
            [variants.index(v) + (number + 0.5) * height for v in mine.index],
            mine[column],
            height,
            label=source,
            color=style.colour,
            hatch=style.hatch,
            edgecolor="white",
            linewidth=0.4,
            xerr=mine["uncertainty"] if column == "cycles" else None,
            error_kw={"ecolor": palette.FAINT},
        )
        axes.bar_label(bars, [f"{v:.2f}" for v in mine[column]], padding=2, fontsize=7)
    axes.set_yticks([n + 0.5 - height / 2 for n in range(len(variants))], variants)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.grid(axis="x")
    axes.set_xlabel(label)
    axes.set_title(microarch)
    canvas.beside(axes)
    return figure
