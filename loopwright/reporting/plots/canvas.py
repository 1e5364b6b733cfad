"""The look that all figures share, and how they are handed out."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopwright.reporting.palette import FAINT, INK

P = ParamSpec("P")

_LOOK = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "hatch.linewidth": 0.5,
    "figure.facecolor": "white",
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    ),
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
}


def drawn(function: Callable[P, Figure]) -> Callable[P, Figure]:
    """Give a function that draws the shared look.

    Its figure is no longer pyplot's when it is returned: a notebook shows it once, where it is
    displayed or the last value of a cell, and many figures do not pile up.
    """

    @wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with plt.rc_context(_LOOK):  # type: ignore[arg-type]
            figure = function(*args, **kwargs)
        plt.close(figure)
        return figure

    return draw


def axes(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of so many inches and its only axes."""
    return plt.subplots(figsize=(width, height), layout="constrained")


def panels(count: int, abreast: int, *, feet: bool) -> tuple[Figure, list[Axes], list[Axes]]:
    """Return a figure of count panels with the same axes, so many abreast, and the panels.

    With feet each has a lower one below it, which shares its horizontal axis: the last list.
    """
    columns = min(count, abreast)
    lines = -(-count // columns)
    heights = (4.0, 1.0) if feet else (4.0,)
    figure, grid = plt.subplots(
        lines * len(heights),
        columns,
        figsize=(6.4 if columns == 1 else 5.0 * columns, (sum(heights) + 0.2) * lines),
        sharex="all",
        squeeze=False,
        height_ratios=heights * lines,
        layout="constrained",
    )
    every = [
        [grid[len(heights) * line + part][column] for part in range(len(heights))]
        for line in range(lines)
        for column in range(columns)
    ]
    for unused in every[count:]:
        for axes in unused:
            axes.remove()
    tops, lower = ([parts[n] for parts in every[:count]] for n in (0, -1))
    for alike in (tops, lower):
        for axes in alike[1:]:
            axes.sharey(alike[0])
    for axes in lower:
        axes.tick_params(labelbottom=True)
    return figure, tops, lower if feet else []


def apart(width: float, height: float, ratios: tuple[int, ...]) -> tuple[Figure, list[Axes]]:
    """Return a figure whose axes stand on top of each other, each with a horizontal one."""
    figure, rows = plt.subplots(
        len(ratios),
        1,
        figsize=(width, height),
        squeeze=False,
        height_ratios=ratios,
        layout="constrained",
    )
    return figure, [row[0] for row in rows]


def beside(axes: Axes) -> None:
    """Put the legend at the right of the axes."""
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def beneath(figure: Figure, *every: Axes) -> None:
    """Put the legend of axes below the figure, what several of them have once."""
    shown: dict[str, Artist] = {}
    for axes in every:
        handles, labels = axes.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    figure.legend([*shown.values()], [*shown], loc="outside lower center", ncols=3)


def nothing(why: str) -> Figure:
    """Return a figure that says why there is nothing to see."""
    figure, axes = plt.subplots(figsize=(8, 1.2), layout="constrained")
    axes.axis("off")
    axes.text(0, 0.5, why, wrap=True, va="center")
    return figure
