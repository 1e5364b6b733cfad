"""The chart of which instruction keeps which port busy."""

import pandas as pd
from matplotlib.figure import Figure

from loopwright.machine import hosts
from loopwright.reporting import palette
from loopwright.reporting.plots import canvas


@canvas.drawn
def ports(rows: pd.DataFrame) -> Figure:
    """Draw the uops an iteration on each port that is used, an instruction a colour and a hatch.

    rows is what loopwright.ports returns for one block at one offset.
    """
    if rows["error"].ne("").any():
        return canvas.nothing(f"no use of ports: {rows['error'].iloc[0]}")
    used = rows[rows["uops_per_iteration"] > 0]
    if used.empty:
        return canvas.nothing("no instruction uses a port")
    busy = set(used["port"])
    names = [str(p) for p in rows["port"].unique() if p in busy]
    grid = used.pivot_table(
        index=["instruction", "text"], columns="port", values="uops_per_iteration", sort=False
    ).fillna(0.0)[names]
    figure, axes = canvas.axes(8, max(1.1 + 0.3 * len(names), 0.8 + 0.17 * len(grid)))
    left = pd.Series(0.0, index=names)
    for number, ((instruction, text), uses) in enumerate(
        (key, grid.loc[key]) for key in grid.index
    ):
        style = palette.numbered(number)
        axes.barh(
            names, uses, left=left, color=style.colour, hatch=style.hatch, edgecolor="white",
            linewidth=0.4, label=f"{instruction} {' '.join(str(text).split()):.34}",
        )  # fmt: skip
        left += uses
    for at, total in enumerate(left):
        axes.text(total, at, f" {total:.2f}", va="center", fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.1 * left.max())
    axes.grid(axis="x")
    axes.set_ylabel("port")
    axes.set_xlabel("uops an iteration (the fullest port sets the least cycles)")
    first = rows.iloc[0]
    axes.set_title(f"{hosts.marked(first['microarch'])}, code offset {first['offset']}")
    canvas.beside(axes)
    return figure
