"""Bars: cycles an iteration and bytes a cycle, by variant and source, for one core."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopwright.compare import MEASURED
from loopwright.predict import MODELS
from loopwright.report import palette
from loopwright.report.plots import canvas

_CYCLES = ("cycles", "cycles an iteration (less is faster)")
_BYTES = ("bytes_per_cycle", "bytes a cycle (more is faster)")
_SOURCES = (*(m.id for m in MODELS), MEASURED)


def cycles(table: pd.DataFrame, microarch: str) -> Figure:
    """Draw cycles an iteration of each variant on one core, a bar for each source that answers.

    table is what compare returns. Error bars are the measurement's uncertainty.
    """
    return _bars(table, microarch, [_CYCLES])


def bytes_per_cycle(table: pd.DataFrame, microarch: str) -> Figure:
    """Draw the bytes that each variant moves a cycle on one core (higher is faster)."""
    return _bars(table, microarch, [_BYTES])


def throughput(table: pd.DataFrame, microarch: str) -> Figure:
    """Draw cycles an iteration and, beside them, bytes a cycle of each variant on one core."""
    return _bars(table, microarch, [_CYCLES, _BYTES])


@canvas.drawn
def _bars(table: pd.DataFrame, microarch: str, panels: list[tuple[str, str]]) -> Figure:
    rows = table[(table["microarch"] == microarch) & table["cycles"].notna()]
    variants = list(rows["variant"].unique())
    sources = [s for s in _SOURCES if s in set(rows["source"])]
    if not sources:
        return canvas.nothing(f"{microarch}: no source has an answer")
    tall = 1.1 + 0.14 * (len(variants) * (len(sources) + 1))
    figure, every = canvas.abreast(8 if len(panels) == 1 else 10, tall, len(panels))
    for axes, (column, label) in zip(every, panels, strict=True):
        _panel(axes, rows, column, sources)
        axes.set_xlabel(label)
    height = 1 / (len(sources) + 1)
    every[0].set_yticks([n + 0.5 - height / 2 for n in range(len(variants))], variants)
    every[0].invert_yaxis()
    every[0].set_title(microarch)
    handles, labels = every[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(sources))
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, column: str, sources: list[str]) -> None:
    """Draw the bars of one column, a group for each variant."""
    variants = list(rows["variant"].unique())
    height = 1 / (len(sources) + 1)
    for number, source in enumerate(sources):
        mine = rows[(rows["source"] == source) & rows[column].notna()]
        mine = mine.drop_duplicates("variant").set_index("variant")
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
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.1, y=0.02)
    axes.grid(axis="x")
