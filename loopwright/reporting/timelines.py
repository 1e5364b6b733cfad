"""The timelines that a report holds: of each variant and core, at the offsets that tell something.

Those are the variant's own offset, and its best and its worst where they differ from it.
"""

from dataclasses import dataclass

import pandas as pd

from loopwright.predicting.explain import timeline
from loopwright.predicting.models import SIMULATOR

ITERATIONS = 4
_MOST = 160  # uops of one timeline
_APART = 1.02  # cycles whose ratio is below are alike


@dataclass(frozen=True)
class Moment:
    """The timeline of a variant on a core at a code offset (bytes mod 64).

    why says what is special about the offset; cycles is the prediction for it, an iteration; rows
    is what loopwright.timeline returns, cut after 160 uops.
    """

    variant: str
    microarch: str
    offset: int
    why: str
    cycles: float
    rows: pd.DataFrame


def moments(kernel_id: str, sweep: pd.DataFrame, table: pd.DataFrame) -> tuple[Moment, ...]:
    """Return the timelines of a kernel's variants.

    sweep is what alignment.sweep returns, table what compare does.
    """
    found = []
    own = table[(table["source"] == SIMULATOR) & table["cycles"].notna()]
    for row in own.to_dict("records"):
        variant, core = str(row["variant"]), str(row["microarch"])
        mine = sweep[(sweep["variant"] == variant) & (sweep["microarch"] == core)]
        cycles = mine.set_index("offset_bytes")["cycles_per_iteration"].dropna()
        for offset, why in _offsets(int(row["offset"]), cycles).items():
            rows = timeline(
                f"{kernel_id}/{variant}", microarch=core, offset=offset, iterations=ITERATIONS
            )
            if rows["error"].eq("").all() and rows["uop"].notna().any():
                at = float(cycles.get(offset, row["cycles"]))
                found.append(Moment(variant, core, offset, why, at, rows.head(_MOST)))
    return tuple(found)


def _offsets(own: int, cycles: pd.Series) -> dict[int, str]:
    """Return the offsets that tell something, with what they are."""
    out = {own: "where it stands by itself"}
    if cycles.empty or own not in cycles.index:
        return out
    at: dict[int, float] = dict(zip(cycles.index.to_list(), cycles.to_list(), strict=True))
    best, worst = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
    if at[own] > at[best] * _APART:
        out[best] = "best"
    if at[worst] > at[own] * _APART:
        out[worst] = "worst"
    return out
