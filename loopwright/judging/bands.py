"""Bands of sizes: which variant is best from which size to which, on each core and on all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from loopwright.judging.margins import Speed
from loopwright.judging.opinions import LEAST
from loopwright.judging.ranks import Rank
from loopwright.judging.study import Study
from loopwright.judging.verdicts import THRESHOLD, Case, Status, judged
from loopwright.kernels import Routine

EVERY = "every core"
WINS, KEEPS, OPEN, CONTESTED = "wins", "keeps", "open", "contested"


@dataclass(frozen=True)
class Band:
    """A range of sizes, in bytes, over which the same variant is best on a core.

    status is WINS where a variant is faster than the baseline; OPEN where one may be (variant names
    the likeliest); CONTESTED where one is predicted to be and a published figure of the pair has
    the other sign; KEEPS where none is: variant is the baseline. speed is that of the variant
    against the baseline over the band. condition is what the variant needs and the core lacks.
    """

    core: str
    condition: str
    low: int
    high: int
    variant: str
    status: str
    speed: Speed
    rank: Rank | None


_Sizes = Mapping[int, tuple[Status, Speed]]
"""Status and speed of a variant by size in bytes."""


def of(found: Study, routine: Routine, cases: Sequence[Case]) -> list[Band]:
    """Return the bands of each judged core, then those that hold on every core, ascending.

    Variants that need what a core lacks have bands of their own, under that condition, where they
    change anything. A core on which points of a measurement are missing has none.
    """
    out: list[Band] = []
    asked = [core.id for core in found.targets]
    cores = judged(found.judged_ids, cases)
    conditions = ["", *dict.fromkeys(w for case in cases for w in case.lacking.values())]
    for condition in conditions:
        mine = [c for c in cases if not c.lacking or condition in c.lacking.values()]
        known = {core: speeds for core in cores if (speeds := _on(core, mine))}
        if condition and not any(
            c.variant.name in speeds for c in mine if c.lacking for speeds in known.values()
        ):
            continue
        for core, speeds in known.items():
            rank = min(c.verdicts[core].rank for c in mine if core in c.verdicts)
            out += _stretches(speeds, routine.baseline, core, condition, rank)
        if len(known) > 1 and all(core in known for core in asked):
            every = _every(known, asked)
            out += _stretches(every, routine.baseline, EVERY, condition, None)
    return told_apart(out)


def _on(core: str, cases: Sequence[Case]) -> dict[str, _Sizes]:
    """Return what is known by size of the variants on a core."""
    if any(case.unmeasured([core]) for case in cases):
        return {}
    verdicts = {c.variant.name: v for c in cases if (v := c.verdicts.get(core)) and v.sizes}
    shared = set.intersection(*(set(v.sizes) for v in verdicts.values())) if verdicts else set()
    return {
        name: {size: (verdict.at(size), verdict.sizes[size]) for size in sorted(shared)}
        for name, verdict in verdicts.items()
    }


def _every(known: Mapping[str, Mapping[str, _Sizes]], asked: Sequence[str]) -> dict[str, _Sizes]:
    """Return by size the worst over cores: faster where it is on one and slower on none.

    The speed spans those of all cores; none is a mean over cores. A variant that a core asked for
    does not know is left out.
    """
    of_asked = [known[core] for core in known if core in asked] or [*known.values()]
    names = [n for n in of_asked[0] if all(n in speeds for speeds in of_asked)]
    there = {n: [speeds[n] for speeds in known.values() if n in speeds] for n in names}
    every = [set(of) for speeds in there.values() for of in speeds]
    sizes = sorted(set.intersection(*every)) if every else []
    return {
        name: {size: _worst([of[size] for of in speeds]) for size in sizes}
        for name, speeds in there.items()
    }


def _worst(of_cores: Sequence[tuple[Status, Speed]]) -> tuple[Status, Speed]:
    known = {status for status, _ in of_cores}
    speed = Speed.of([end for _, s in of_cores for end in (s.low, s.high)])
    for status in (Status.SLOWER, Status.CONTESTED):
        if status in known:
            return status, speed
    if Status.FASTER in known and all(
        status is not Status.OPEN or s.low >= 1 - LEAST for status, s in of_cores
    ):
        return Status.FASTER, speed
    return (Status.OPEN if known - {Status.ALIKE} else Status.ALIKE), speed


def _best(speeds: Mapping[str, _Sizes], size: int, baseline: str, last: str) -> tuple[str, str]:
    """Return the best variant at a size and its status; last is the best at the size below."""
    here = {name: of[size] for name, of in speeds.items() if size in of}
    for wanted, status in (
        (Status.FASTER, WINS),
        (Status.CONTESTED, CONTESTED),
        (Status.OPEN, OPEN),
    ):
        ratios = {name: s.ratio for name, (found, s) in here.items() if found is wanted}
        if ratios:
            first = max(ratios, key=lambda name: ratios[name])
            if last in ratios and ratios[last] > ratios[first] * (1 - THRESHOLD):
                first = last
            return first, status
    return baseline, KEEPS


def _stretches(
    speeds: Mapping[str, _Sizes], baseline: str, core: str, condition: str, rank: Rank | None
) -> list[Band]:
    """Join neighbouring sizes at which the same is best."""
    out: list[Band] = []
    last = baseline
    for size in sorted({size for of in speeds.values() for size in of}):
        name, status = _best(speeds, size, baseline, last)
        speed = speeds[name][size][1] if name != baseline else Speed(1, 1, 1)
        previous = out[-1] if out else None
        if previous and (previous.variant, previous.status) == (name, status):
            out[-1] = replace(previous, high=size, speed=_hull(previous.speed, speed))
        else:
            out.append(Band(core, condition, size, size, name, status, speed, rank))
        last = name
    return _joined(speeds, out)


def _hull(one: Speed, two: Speed) -> Speed:
    return Speed.of([one.low, two.low, one.high, two.high])


def _joined(speeds: Mapping[str, _Sizes], bands: list[Band]) -> list[Band]:
    """Let bands meet: where two winners cost the same by interpolation, else at the larger size."""
    out = list(bands)
    for n, (below, above) in enumerate(pairwise(bands)):
        edge = above.low
        if below.status == above.status == WINS:
            gaps = [
                float(np.log(speeds[above.variant][s][1].ratio / speeds[below.variant][s][1].ratio))
                for s in (below.high, above.low)
            ]
            if gaps[0] < 0 < gaps[1]:
                share = gaps[0] / (gaps[0] - gaps[1])
                edge = round(below.high + share * (above.low - below.high))
        out[n] = replace(out[n], high=edge)
        out[n + 1] = replace(out[n + 1], low=edge)
    return out


def told_apart(bands: Sequence[Band]) -> list[Band]:
    """Leave out the bands of a core under a condition where they are those without it."""
    of: dict[tuple[str, str], list[Band]] = {}
    for one in bands:
        of.setdefault((one.core, one.condition), []).append(replace(one, condition=""))
    return [
        one
        for one in bands
        if not one.condition or of[one.core, one.condition] != of.get((one.core, ""))
    ]


def won(bands: Sequence[Band]) -> list[Band]:
    """Return the bands in which a variant wins on a core."""
    return [b for b in bands if b.status == WINS and b.core != EVERY]
