"""The heat map of cycles over code offsets."""

import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from loopwright.machine import hosts
from loopwright.reporting.alignment import SLOW
from loopwright.reporting.plots import canvas

_COLOURS = LinearSegmentedColormap.from_list("slow", ["#e9edf2", "#f3c79b", "#d55e00"])


@canvas.drawn
def heat_map(rows: pd.DataFrame, microarch: str) -> Figure:
    """Draw the variants of a sweep over code offsets on one core.

    rows is what alignment.sweep returns. Colour is the slowdown over the variant's best offset; a
    dot marks each offset that is slower by more than 2 %. Boundaries of 32 bytes are dashed lines,
    of 16 dotted; the map's edges are those of 64.
    """
    mine = rows[(rows["microarch"] == microarch) & rows["cycles_per_iteration"].notna()]
    if mine.empty:
        return canvas.nothing(f"{microarch}: no prediction at any offset")
    order = list(mine["variant"].unique())
    grid = mine.pivot_table(
        index="variant", columns="offset_bytes", values="slowdown_percent", sort=False
    ).reindex(order)
    cycles = mine.groupby("variant")["cycles_per_iteration"]
    low, high = cycles.min()[order], cycles.max()[order]
    spans = [f"{a:.2f}" if b <= a * (1 + SLOW) else f"{a:.2f} to {b:.2f}"
             for a, b in zip(low, high, strict=True)]  # fmt: skip
    step = 64 // grid.shape[1]
    figure, axes = canvas.axes(7.4, 1.1 + 0.3 * len(order))
    image = axes.imshow(
        grid.to_numpy(),
        aspect="auto",
        interpolation="none",
        cmap=_COLOURS,
        vmin=0,
        vmax=max(10.0, float(grid.max().max())),
        extent=(0, 64, len(order) - 0.5, -0.5),
    )
    for row, name in enumerate(order):
        slow = [o + step / 2 for o in grid.columns[grid.loc[name] > 100 * SLOW]]
        axes.plot(slow, [row] * len(slow), ".", markersize=3, color="black")
    for at in range(16, 64, 16):
        axes.axvline(at, color="#5a6472", linewidth=0.8, linestyle="--" if at % 32 == 0 else ":")
    for at in range(1, len(order)):
        axes.axhline(at - 0.5, color="white", linewidth=1.5)
    axes.set_yticks(range(len(order)), order)
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(order)), spans, fontsize=7)
    for side in (axes, right):
        side.tick_params(axis="y", length=0)
        side.spines[:].set_visible(False)
    axes.set_xticks(range(0, 65, 8))
    axes.set_xlabel("code offset, bytes mod 64")
    axes.set_title(f"{hosts.marked(microarch)}: cycles an iteration over code offsets")
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.04)
    bar.set_label("% above the best")
    bar.outline.set_visible(False)
    return figure
