"""Measure what a scan suspects: the loops that this machine's core loses most cycles in."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from loopwright import microarchs, toolchain
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.measuring import measure_blocks
from loopwright.measuring.rounds import Progress
from loopwright.scanning import rank
from loopwright.scanning.costs import CoreCosts, cost
from loopwright.scanning.measured import measure
from loopwright.scanning.scan import Scan
from loopwright.scanning.words import counted

CONFIRMED = (
    1.2  # times as long as at the best code offset, from which on a measurement calls a loop hurt
)

COLUMNS = [
    "address",
    "function",
    "offset",
    "best_offset",
    "microarch",
    "cycles",
    "best",
    "times",
    "measured",
    "measured_best",
    "measured_times",
    "uncertainty",
    "status",
    "reason",
    "note",
]


def suspects(
    scan: Scan,
    count: int,
    *,
    processes: int = measure_blocks.TURNS,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Measure the loops of a scan that lose most on this host, where they lie and at their best.

    A row each, in the order of the rank: cycles, best and times as predicted for this host's core;
    measured and measured_best (cycles an iteration), measured_times with its uncertainty; status
    "ok", "bimodal" or "refused" with a reason; note says what was replaced so that the loop ends.
    InputError where this host cannot run the code, or its core is none that is known.
    """
    if scan.image.isa != toolchain.host_isa():
        host = toolchain.host_isa()
        raise InputError(
            f"{scan.image.path} is code of {scan.image.isa}, and this machine runs {host}: measure "
            "it there"
        )
    costs = _costs(scan)
    hurt = [place.loop for place in rank.ranked([costs]) if costs.hurt[place.loop]][:count]
    loops = [scan.found.loops[n] for n in hurt]
    best = [int(np.nanargmin(costs.table[n])) for n in hurt]
    places = [[loop.offset, at] for loop, at in zip(loops, best, strict=True)]
    table = measure(loops, places, processes=processes, progress=progress)
    rows = []
    for n, (number, loop, at) in enumerate(zip(hurt, loops, best, strict=True)):
        here, there = table[table["loop"] == n].to_dict("records")
        cycles, least = float(costs.cycles[number]), float(costs.best[number])
        rows.append(
            {
                "address": f"{loop.address:#x}",
                "function": loop.where,
                "offset": loop.offset,
                "best_offset": at,
                "microarch": costs.core.id,
                "cycles": cycles,
                "best": least,
                "times": cycles / least,
                **_both(here, there),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def summary(rows: pd.DataFrame) -> Iterator[str]:
    """Yield what measuring came to: how many are hurt, and why others have no figures."""
    figures = rows[rows["measured_times"].notna()]
    confirmed = int((figures["measured_times"] >= CONFIRMED).sum())
    yield (
        f"measured here: {len(figures)} of {counted(len(rows), 'suspect')}, of which "
        f"{counted(confirmed, 'takes', 'take')} {CONFIRMED} times as long as at the best "
        "code offset, or more"
    )
    refused = rows[rows["status"] == "refused"]["reason"]
    for why, count in refused.str.split(r": | at \+").str[0].value_counts().items():
        yield f"  {count} not measured: {why}"


def _costs(scan: Scan) -> CoreCosts:
    """Return what loops cost on this host's core, which the scan may not have been asked about."""
    host = hosts.microarch()
    if host is None:
        raise InputError("this machine's core is none of `loopwright list microarchs`")
    for costs in scan.costs:
        if costs.core.id == host:
            return costs
    return cost(scan.found.loops, [microarchs.load(host)])[0]


def _both(here: Mapping[Any, Any], there: Mapping[Any, Any]) -> dict[str, Any]:
    """Join what was measured at both places."""
    both = (here, there)
    times = here["cycles"] / there["cycles"]
    share = sum(one["uncertainty"] / one["cycles"] for one in both)
    states = [one["status"] for one in both]
    return {
        "measured": here["cycles"],
        "measured_best": there["cycles"],
        "measured_times": times,
        "uncertainty": times * share,
        "status": next((s for s in ("refused", "bimodal") if s in states), "ok"),
        "reason": here["reason"] or there["reason"],
        "note": here["note"] or there["note"],
    }
