"""The chart of what every uop does in which cycle."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopwright.machine import hosts
from loopwright.reporting import palette
from loopwright.reporting.plots import canvas

_MOST = 80  # uops that one figure holds

# What a uop does from one step to the next, with its colour and the letter of its first cycle.
STRETCHES = (
    ("fetched_cycle", "decoded_cycle", "fetch and decode", "F", palette.OKABE_ITO[5]),
    (
        "decoded_cycle",
        "dispatched_cycle",
        "in the queue before rename",
        "Q",
        palette.OKABE_ITO[1],
    ),
    ("dispatched_cycle", "issued_cycle", "waits in the scheduler", "D", palette.OKABE_ITO[2]),
    ("issued_cycle", "executed_cycle", "executes", "I", palette.OKABE_ITO[3]),
    ("executed_cycle", "retired_cycle", "waits to retire", "E", palette.FAINT),
)


@canvas.drawn
def timeline(rows: pd.DataFrame) -> Figure:
    """Draw a line an uop and a column a cycle.

    rows is what loopwright.timeline returns for one block at one offset. Each stretch of a uop's
    life has a colour and begins with its letter; R is the cycle in which it retires. Of more than
    80 uops the first are drawn.
    """
    if rows["error"].ne("").any():
        return canvas.nothing(f"no timeline: {rows['error'].iloc[0]}")
    shown = rows.head(_MOST).reset_index(drop=True)
    last = int(shown["retired_cycle"].max())
    figure, axes = canvas.axes(max(6.0, min(14.0, 3.4 + 0.2 * last)), 1.2 + 0.17 * len(shown))
    for at, row in enumerate(shown.to_dict("records")):
        _life(axes, at, row)
    for name, colour in ((what, colour) for _, _, what, _, colour in STRETCHES):
        axes.barh(0, 0, color=colour, label=name)
    starts = shown.index[shown["iteration"].diff().fillna(1).ne(0)]
    for at in starts[1:]:
        axes.axhline(at - 0.5, color=palette.FAINT, linewidth=0.6)
    labels = [_label(row) for row in shown.to_dict("records")]
    axes.set_yticks(range(len(shown)), labels, fontsize=7, family="monospace")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(-0.5, last + 0.5)
    axes.set_xlabel("cycle")
    first = shown.iloc[0]
    cut = f", the first {_MOST} of {len(rows)} uops" if len(rows) > _MOST else ""
    axes.set_title(f"{hosts.marked(first['microarch'])}, code offset {first['offset']}{cut}")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _life(axes: Axes, at: int, row: dict[Hashable, Any]) -> None:
    """Draw a uop's line: a bar for each stretch, and its letters."""
    for start, end, _, letter, colour in STRETCHES:
        if pd.isna(row[start]):
            continue
        until = row[end]
        if pd.isna(until):  # an eliminated uop is not issued: it goes on to retire
            until = row["retired_cycle"]
        axes.barh(at, until - row[start], 0.8, left=row[start] - 0.5, color=colour, linewidth=0)
        if until > row[start]:
            axes.text(row[start], at, letter, ha="center", va="center", fontsize=6, color="black")
    if pd.notna(row["retired_cycle"]):
        axes.text(row["retired_cycle"], at, "R", ha="center", va="center", fontsize=6)


def _label(row: dict[Hashable, Any]) -> str:
    """Return iteration, instruction, its text, and the port or why there is none."""
    where = f"port {row['port']}" if row["port"] else row["how"]
    text = " ".join(str(row["text"]).split())
    return f"{row['iteration']}.{row['instruction']} {text:.30} {where}"
