"""A strip of sizes with the winner of each band, core by core, as text."""

from collections.abc import Iterator

import pandas as pd

from loopwright.judging.verdicts import CONTESTED, KEEPS, OPEN
from loopwright.machine import hosts
from loopwright.reporting.layout import table, wrapped

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MOST = 10  # sizes that there is room for


def lines(bands: pd.DataFrame) -> list[str]:
    """Return for each routine a table of cores over sizes, and what its letters mean.

    bands is what recommend.Judgement has. A letter is the variant that wins there; with a question
    mark it may win, with an exclamation mark a published figure says otherwise; a dot is the
    baseline.
    """
    out: list[str] = []
    for routine, mine in bands.groupby("routine", sort=False):
        out += wrapped(f"{routine}: the best variant by size of a call")
        out += ["", *_strip(mine)]
    return out


def _strip(bands: pd.DataFrame) -> Iterator[str]:
    known = bands.loc[bands["status"] != KEEPS, "variant"].unique()
    letters = {str(name): _LETTERS[n % len(_LETTERS)] for n, name in enumerate(known)}
    sizes = _sizes(bands)
    rows = []
    for (core, condition), mine in bands.groupby(["microarch", "condition"], sort=False):
        name = hosts.marked(str(core))
        where = f"{name}, {condition}" if condition else name
        rows.append([where, *(_cell(mine, size, letters) for size in sizes)])
    yield table(["core", *(_size(s) for s in sizes)], rows)
    words = [f"{letter} {name}" for name, letter in letters.items()]
    if OPEN in set(bands["status"]):
        words.append("? open: an unmeasured parameter or the simulator's error decides")
    if CONTESTED in set(bands["status"]):
        words.append("! contested: a published figure of the pair has the other sign")
    kept = bands.loc[bands["status"] == KEEPS, "variant"].unique()
    words += [f". {name}, the baseline" for name in kept[:1]]
    yield from wrapped("; ".join(words))
    yield ""


def _sizes(bands: pd.DataFrame) -> list[int]:
    """Return sizes to show: doubled from the least to the largest, as many as there is room for."""
    low, high = int(bands["from_bytes"].min()), int(bands["to_bytes"].max())
    out = [max(low, 1)]
    while out[-1] * 2 <= high:
        out.append(out[-1] * 2)
    return out[-_MOST:]


def _cell(mine: pd.DataFrame, size: int, letters: dict[str, str]) -> str:
    there = mine[(mine["from_bytes"] <= size) & (size <= mine["to_bytes"])]
    if there.empty:
        return ""
    # Where two bands meet the upper one begins.
    row = there.iloc[-1]
    if row["status"] == KEEPS:
        return "."
    return letters[str(row["variant"])] + {OPEN: "?", CONTESTED: "!"}.get(str(row["status"]), "")


def _size(size: int) -> str:
    return f"{size // 1024}K" if size >= 1024 and size % 1024 == 0 else str(size)
