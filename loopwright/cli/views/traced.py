"""Terminal view of a trace: a line an instruction, with what it loads and stores."""

import re
from itertools import groupby
from typing import Any

from loopwright.cli.views import table
from loopwright.rows import Rows

_LONG_ADDRESS = re.compile(r"\b0x0+(?=[0-9a-f])")

Row = dict[str, Any]


def show(rows: Rows) -> None:
    """Print a call as one table, and of loops a table an iteration."""
    for title, group in groupby(rows.records(), key=_title):
        if title:
            table.say(title, style="bold")
        table.draw(Rows.of(_line(row) for row in group))
        print()
    if "iteration" in rows.columns:
        table.say(
            "A register that addresses memory starts in a buffer named like it, all others at "
            "zero; memory holds zeros; exits are not taken."
        )


def _title(row: Row) -> str:
    return f"{row['id']}, iteration {row['iteration']}" if "iteration" in row else ""


def _line(row: Row) -> Row:
    text = _LONG_ADDRESS.sub("0x", " ".join(str(row["text"]).split()))
    repeats = row["repeats"]
    return {
        "address": row["address"],
        "offset": row["offset"],
        "text": text if repeats == 1 else f"{text}, {repeats} times",
        "taken": row["taken"],
        "load": _access(row, "load"),
        "store": _access(row, "store"),
        "fault": row["fault"],
    }


def _access(row: Row, kind: str) -> str:
    return f"{row[kind]}, {row[f'{kind}_bytes']} B" if row[kind] else ""
