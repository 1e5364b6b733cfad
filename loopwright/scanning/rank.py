"""Rows of a scan: each loop on each core, ranked by what its place costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from loopwright.predicting.pipeline import Pipeline
from loopwright.rows import Rows
from loopwright.scanning.boundary import boundary
from loopwright.scanning.costs import CoreCosts
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.weights import Weights

COLUMNS = (
    "file",
    "section",
    "address",
    "function",
    "into",
    "line",
    "offset",
    "microarch",
    "cycles",
    "best",
    "worst",
    "lost",
    "times",
    "share",
    "saved",
    "share_of",
    "limit",
    "boundary",
    "crossed",
    "fix",
    "how",
    "bytes",
    "path",
    "exits",
    "error",
)
TYPES = dict.fromkeys(("cycles", "best", "worst", "lost", "times", "share", "saved"), "float64") | {
    "boundary": "Int64"
}


@dataclass(frozen=True)
class Place:
    """One loop on one core, by the numbers of both."""

    loop: int
    core: int


def ranked(
    costs: Sequence[CoreCosts], weights: Weights | None = None, *, hurt_first: bool = True
) -> list[Place]:
    """Return all loops on all cores, those first that lose most cycles an iteration.

    With hurt_first those that their place hurts go before all others. With weights, the order is by
    what the best place would save of all cycles, then by share. Of those that lose as much, the
    ones that lose the larger share are first; loops without a figure are last.
    """
    places = []
    for number, core in enumerate(costs):
        lost, best, cycles = core.cycles - core.best, core.best, core.cycles
        for n in range(len(lost)):
            share = weights.shares[n] if weights else 0.0
            saved = share * lost[n] / cycles[n]
            after = hurt_first and not weights and not core.hurt[n]
            places.append((after, -saved, -share, -lost[n], -lost[n] / best[n], n, number))
    key = [tuple(np.inf if np.isnan(v) else v for v in place) for place in places]
    order = sorted(range(len(places)), key=lambda at: key[at])
    return [Place(*places[at][-2:]) for at in order]


def rows(
    loops: Sequence[ScannedLoop],
    costs: Sequence[CoreCosts],
    places: Sequence[Place],
    *,
    limited: Callable[[Place], bool],
    lines: Callable[[ScannedLoop], str],
    mend: Callable[[int], tuple[str, str]],
    weights: Weights | None = None,
) -> Rows:
    """Return the rows of some places in their order.

    limited says which of them have it named what limits them, lines where in the source they are,
    mend what is to be done about the loop of a number, in few words and in many.
    """
    best = [(core.best, core.worst, core.cycles) for core in costs]
    limited_by = limits(loops, costs, [p for p in places if limited(p)])
    out = []
    for place in places:
        loop, core = loops[place.loop], costs[place.core]
        least, most, here = (_figure(figures[place.loop]) for figures in best[place.core])
        found = boundary(loop, core.table[place.loop]) if here is not None else None
        lost = None if here is None or least is None else round(here - least, 3)
        share = weights.shares[place.loop] if weights else None
        saved = None if share is None or lost is None or not here else share * lost / here
        out.append(
            (
                loop.file,
                loop.section,
                f"{loop.address:#x}",
                loop.function,
                loop.into,
                lines(loop),
                loop.offset,
                core.core.id,
                here,
                least,
                most,
                lost,
                None if here is None or not least else round(here / least, 3),
                None if share is None else round(share, 4),
                None if saved is None else round(saved, 4),
                weights.of(place.loop) if weights else "",
                limited_by.get((place.loop, place.core), ""),
                found.size if found else None,
                found.crossed if found else "",
                *mend(place.loop),
                loop.length,
                " ".join(f"{start:#x}-{end:#x}" for start, end in loop.path),
                " ".join(f"{at:#x}" for at in loop.exits),
                core.errors.get(place.loop, ""),
            )
        )
    return Rows(COLUMNS, out, TYPES)


def _figure(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 3)


def limits(
    loops: Sequence[ScannedLoop], costs: Sequence[CoreCosts], places: Sequence[Place]
) -> dict[tuple[int, int], str]:
    """Return what limits loops where they lie, by the numbers of loop and core.

    A dependency chain names instructions by their number in what an iteration executes.
    """
    out = {}
    for number, core in enumerate(costs):
        chosen = [p.loop for p in places if p.core == number and p.loop not in core.errors]
        asked = [(loops[n].code, loops[n].offset, loops[n].path) for n in chosen]
        for n, row in zip(chosen, Pipeline().along(asked, core.core), strict=True):
            out[n, number] = str(row["bottleneck"])
    return out


def summary(costs: Sequence[CoreCosts]) -> list[dict[str, int]]:
    """Return of each core how many loops it has figures for, how many depend on place, are hurt."""
    return [
        {
            "loops": int(np.count_nonzero(~np.isnan(core.best))),
            "depends": int(np.count_nonzero(core.depends)),
            "hurt": int(np.count_nonzero(core.hurt)),
        }
        for core in costs
    ]
