"""Say bands and ranks of evidence in words and as rows."""

from collections.abc import Sequence

import pandas as pd

from loopwright.judging.bands import KEEPS, WINS, Band
from loopwright.judging.cases import Simulations
from loopwright.judging.ranks import WORDS, Rank
from loopwright.judging.reasons import percent
from loopwright.judging.study import Study
from loopwright.judging.verdicts import Case

COLUMNS = [
    "kernel", "routine", "microarch", "condition", "from_bytes", "to_bytes", "variant", "status",
    "speed_low", "speed_high", "evidence",
]  # fmt: skip


def rows(kernel: str, routine: str, bands: Sequence[Band]) -> pd.DataFrame:
    """Return bands as a table; speeds are those against the baseline."""
    found = [
        [kernel, routine, b.core, b.condition, b.low, b.high, b.variant, b.status,
         b.speed.low, b.speed.high, WORDS[b.rank] if b.rank else ""]
        for b in bands
    ]  # fmt: skip
    return pd.DataFrame(found, columns=COLUMNS)


def in_words(bands: Sequence[Band]) -> str:
    """Return bands in words, core by core."""
    of_place: dict[tuple[str, str], list[Band]] = {}
    for band in bands:
        of_place.setdefault((band.core, band.condition), []).append(band)
    out = []
    for (core, condition), mine in of_place.items():
        where = f"{core} where {condition}" if condition else core
        out.append(f"{where}: {', '.join(_band(b, alone=len(mine) == 1) for b in mine)}")
    return "; ".join(out)


def _band(band: Band, *, alone: bool) -> str:
    sizes = f"{band.low} B" if band.low == band.high else f"{band.low} to {band.high} B"
    if alone:
        sizes = sizes if band.low == band.high else "all sizes"
    if band.status == KEEPS:
        return f"{sizes} {band.variant} as it is"
    speed = _speed(band)
    if band.status == WINS:
        return f"{sizes} {band.variant} {speed}"
    return f"{sizes} open ({band.variant} {speed})"


def _speed(band: Band) -> str:
    ends = list(dict.fromkeys(percent(end) for end in (band.speed.low, band.speed.high)))
    return " to ".join(ends)


def _by_hand(found: Study) -> str:
    """Name the parameters that were set for this judgement, or nothing."""
    given = found.calls.given if found.calls else {}
    values = ", ".join(f"{name} = {value}" for name, value in given.items())
    return f" with {values}, as set by hand" if values else ""


def evidence(found: Study, cases: Sequence[Case], calls: Simulations) -> str:
    """Say for each target core what the verdicts there rest on."""
    out = []
    for core in found.targets:
        general = [c for c in cases if core.id not in c.lacking]
        verdicts = [v for c in general if (v := c.verdicts.get(core.id))]
        if any(c.unmeasured([core]) for c in general):
            out.append(f"{core.id}: not enough measured")
        elif verdicts:
            first = min(verdicts, key=lambda v: v.rank)
            said = first.sources[0] if first.rank is Rank.KIN else WORDS[first.rank]
            if first.simulated:
                trust = first.simulated.trust.standing.described
                said = f"whole calls {said}{_by_hand(found)} ({trust})"
            out.append(f"{core.id}: {said}")
        else:
            why = ""
            if core.id in calls:
                why = next(iter(calls[core.id][0].silent.values()), "")
            out.append(f"{core.id}: nothing{f' ({why})' if why else ''}")
    return "; ".join(out)
