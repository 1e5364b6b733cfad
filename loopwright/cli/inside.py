"""Terminal views of what happens inside a core: a chart of the timeline, a table of ports."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from loopwright.cli import output
from loopwright.predict.inside import STEPS

# Letters of the steps in the chart; of two in one cycle the later is shown.
LETTERS = dict(zip(STEPS, "FDIrXER", strict=True))
LEGEND = (
    "F fetched, D decoded (in the queue in front of rename), I issued, r operands ready, "
    "X dispatched to the port, E executed, R retired"
)
_WIDE_ENOUGH_FOR_REASONS = 120
_WHERE = ["kernel", "routine", "variant", "id", "microarch", "notion", "offset"]


def timeline(rows: pd.DataFrame) -> None:
    """Print one line an uop and one column a cycle, as many cycles as the window holds."""
    console = output.console()
    reasons = console.width >= _WIDE_ENOUGH_FOR_REASONS
    for title, part in _by_block(rows):
        console.print(title, style="bold")
        cut = _chart(console, part, reasons=reasons)
        console.print(LEGEND, style="dim")
        if cut:
            console.print(cut)
        console.print()


def ports(rows: pd.DataFrame) -> None:
    """Print a table of uops an iteration: a line an instruction, a column a port that is used."""
    console = output.console()
    for title, part in _by_block(rows):
        console.print(f"{title}: uops an iteration by port", style="bold")
        wide = part.pivot_table(
            index=["instruction", "text"],
            columns="port",
            values="uops_per_iteration",
            sort=False,
        )
        wide.loc[("", "all"), :] = wide.sum()
        output.table(wide.where(wide > 0).reset_index())


def _by_block(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return each block's rows with a title; a block without an answer has its error printed."""
    keys = [k for k in _WHERE if k in rows]
    found = []
    for values, part in rows.groupby(keys, sort=False):
        named = dict(zip(keys, values, strict=True))
        subject = "/".join(str(named[k]) for k in ("kernel", "variant", "id") if named.get(k))
        title = f"{subject} on {named['microarch']}, {named['notion']}, offset {named['offset']}"
        error = part["error"].iloc[0]
        if error:
            output.console().print(f"{title}: {error}\n")
        else:
            found.append((title, part))
    return found


def _chart(console: Console, rows: pd.DataFrame, *, reasons: bool) -> str:
    """Print the lines; return what is cut off and how to see it, or nothing."""
    labels = [_label(row) for row in rows.to_dict("records")]
    label_width = min(max(len(label) for label in labels), max(console.width // 2, 20))
    waits = rows["waited_for"] if reasons else pd.Series("", index=rows.index)
    room = console.width - label_width - 2 - (waits.str.len().max() + 1 if reasons else 0)
    last = int(rows["retired_cycle"].max())
    shown = min(last + 1, max(int(room), 10))
    console.print(Text(" " * (label_width + 1) + _ruler(shown)))
    for label, wait, row in zip(labels, waits, rows.to_dict("records"), strict=True):
        line = f"{label[:label_width]:<{label_width}} {_track(row, shown)} {wait}"
        console.print(Text(line.rstrip()), no_wrap=True, overflow="crop")
    if shown > last:
        return ""
    return (
        f"cycles 0-{shown - 1} of 0-{last} are shown: give fewer iterations or a wider window, "
        "or --csv for all"
    )


def _label(row: dict[Hashable, Any]) -> str:
    port = f"p{row['port']}" if row["port"] else ""
    what = row["how"] if not port and row["how"] else row["role"]
    return f"{row['iteration']}.{row['instruction']:<2} {row['text']!s:<28.28} {port:<3} {what!s}"


def _ruler(cycles: int) -> str:
    """Return the tens of cycles, each where its cycle stands."""
    return "".join(f"{cycle:<10}" for cycle in range(0, cycles, 10))[:cycles].rstrip()


def _track(row: dict[Hashable, Any], cycles: int) -> str:
    """Return an uop's letters, dots in between."""
    steps = ((letter, row[f"{step}_cycle"]) for step, letter in LETTERS.items())
    at = {cycle: letter for letter, cycle in steps if isinstance(cycle, int)}
    if not at:
        return " " * cycles
    first, last = min(at), max(at)
    return "".join(at.get(c, "." if first < c < last else " ") for c in range(cycles))
