"""Which variant is best from which size to which, on each core and over all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from loopwright.judging import basis
from loopwright.judging.margins import Speed
from loopwright.judging.measured import Measured
from loopwright.judging.opinions import LEAST
from loopwright.judging.ranks import Rank
from loopwright.judging.study import Study
from loopwright.judging.verdicts import THRESHOLD, Case
from loopwright.kernels import Routine

EVERY = "all targets"
WINS, KEEPS, OPEN = "wins", "keeps", "open"


@dataclass(frozen=True)
class Band:
    """A stretch of sizes, in bytes, over which the same is best on a core.

    status is WINS where a variant beats the baseline whatever is not known, by more than the
    evidence may be off by; OPEN where one may (variant names the likeliest); KEEPS where none does:
    variant is the baseline. speed is that of the variant against the baseline over the band.
    condition is what the variant needs that the core as it is has not, or nothing.
    """

    core: str
    condition: str
    low: int
    high: int
    variant: str
    status: str
    speed: Speed
    rank: Rank | None


@dataclass(frozen=True)
class AtSizes:
    """The speeds of variants against their baseline by size, and from what on one is a gain.

    floor is the ratio that a gain has to be above with its low end; likely the one that its ratio
    has to be above besides.
    """

    speeds: Mapping[str, Mapping[int, Speed]]
    floor: float
    likely: float
    rank: Rank | None

    def best(self, size: int, baseline: str, last: str) -> tuple[str, str]:
        """Return the best at a size and its status; last is the one that was best below."""
        here = {name: of[size] for name, of in self.speeds.items() if size in of}
        won = {n: s for n, s in here.items() if s.low > self.floor and s.ratio > self.likely}
        if won:
            top = max(won.values(), key=lambda s: s.ratio).ratio
            if last in won and won[last].ratio > top * (1 - THRESHOLD):
                return last, WINS
            return next(n for n, s in won.items() if s.ratio == top), WINS
        may = {n: s for n, s in here.items() if s.high > max(self.floor, self.likely)}
        if may:
            likeliest = max(may, key=lambda n: may[n].ratio)
            if last in may and may[last].ratio > may[likeliest].ratio * (1 - THRESHOLD):
                likeliest = last
            return likeliest, OPEN
        return baseline, KEEPS


def of(
    found: Study, routine: Routine, cases: Sequence[Case], there: Sequence[Measured]
) -> list[Band]:
    """Return the bands of each target core, then those over all of them, ascending.

    there is what was measured.

    Conditions come apart: with what a variant needs that the cores as they are have not.
    """
    out: list[Band] = []
    conditions = ["", *dict.fromkeys(w for case in cases for w in case.lacking.values())]
    for condition in conditions:
        mine = [c for c in cases if not c.lacking or condition in c.lacking.values()]
        of_core = {core.id: at_sizes(routine, mine, core.id, there) for core in found.targets}
        known = {core: at for core, at in of_core.items() if at.speeds}
        if condition and not any(
            case.variant.name in at.speeds for at in known.values() for case in mine if case.lacking
        ):
            continue
        for core, at in known.items():
            out += _stretches(at, routine.baseline, core, condition)
        if len(known) == len(found.targets) > 1:
            out += _stretches(_together([*known.values()]), routine.baseline, EVERY, condition)
    return out


def at_sizes(
    routine: Routine, cases: Sequence[Case], core: str, there: Sequence[Measured]
) -> AtSizes:
    """Return what is known by size on a core, by evidence of the first rank that has it."""
    baseline = routine.baseline
    whole = [c for c in cases if not c.partial]
    for one in there if whole else ():
        if one.core == core:
            asked = basis.places(routine.contract, None)
            known = {c.variant.name: one.at_sizes(baseline, c.variant.name, asked) for c in whole}
            shown = {name: speeds for name, speeds in known.items() if speeds}
            # What was to be measured there is not replaced by what is not.
            if not shown or len(shown) < len(known):
                return AtSizes({}, 1, 1 + THRESHOLD, Rank.MEASURED)
            shared = set.intersection(*map(set, shown.values()))
            every = {name: {s: of[s] for s in of if s in shared} for name, of in shown.items()}
            return AtSizes(every, 1, 1 + THRESHOLD, Rank.MEASURED)
    calls = {c.variant.name: c.simulated[core] for c in cases if core in c.simulated}
    if not calls:
        return AtSizes({}, 1, 1, None)
    trust = next(iter(calls.values())).trust
    speeds = {name: one.margins.at_sizes(name, baseline) for name, one in calls.items()}
    return AtSizes(speeds, 1 + trust.doubt, 1 + trust.doubt, trust.rank)


def _together(of_cores: Sequence[AtSizes]) -> AtSizes:
    """Return the geometric mean over cores by size; a speed that is no gain or loss counts as 1."""
    sizes = set.intersection(*({s for of in at.speeds.values() for s in of} for at in of_cores))
    names = set.intersection(*(set(at.speeds) for at in of_cores))
    order = [name for name in next(iter(of_cores)).speeds if name in names]
    speeds: dict[str, dict[int, Speed]] = {}
    for name in order:
        for size in sorted(sizes):
            settled = [_settled(at, at.speeds[name][size]) for at in of_cores]
            ends = [float(np.exp(np.mean(np.log(column)))) for column in zip(*settled, strict=True)]
            speeds.setdefault(name, {})[size] = Speed(*ends)
    return AtSizes(speeds, 1, 1 + THRESHOLD, None)


def _settled(at: AtSizes, speed: Speed) -> tuple[float, float, float]:
    """Return a speed as it counts over cores: a gain or a loss its ratio, open ones their ends."""
    if speed.low > at.floor and speed.ratio > at.likely:
        return (speed.ratio if at.rank is Rank.MEASURED else speed.low,) * 3
    if speed.high <= 1 + LEAST:
        value = speed.ratio if speed.low < 1 - LEAST else 1.0
        return (value,) * 3
    return min(speed.low, 1.0), 1.0, speed.high if speed.high > at.floor else 1.0


def _stretches(at: AtSizes, baseline: str, core: str, condition: str) -> list[Band]:
    """Join sizes at which the same is best."""
    sizes = sorted({size for of in at.speeds.values() for size in of})
    out: list[Band] = []
    last = baseline
    for size in sizes:
        name, status = at.best(size, baseline, last)
        speed = at.speeds[name][size] if name != baseline else Speed(1, 1, 1)
        previous = out[-1] if out else None
        if previous and (previous.variant, previous.status) == (name, status):
            out[-1] = replace(previous, high=size, speed=_hull(previous.speed, speed))
        else:
            out.append(Band(core, condition, size, size, name, status, speed, at.rank))
        last = name
    return _joined(at, out)


def _hull(one: Speed, two: Speed) -> Speed:
    ratio = float(np.sqrt(min(one.low, two.low) * max(one.high, two.high)))
    return Speed(min(one.low, two.low), ratio, max(one.high, two.high))


def _joined(at: AtSizes, bands: list[Band]) -> list[Band]:
    """Let bands meet: where two that win cost the same by straight lines, else at the larger."""
    out = list(bands)
    for n, (below, above) in enumerate(pairwise(bands)):
        edge = above.low
        if below.status == above.status == WINS:
            gaps = [
                float(np.log(at.speeds[above.variant][s].ratio / at.speeds[below.variant][s].ratio))
                for s in (below.high, above.low)
            ]
            if gaps[0] < 0 < gaps[1]:
                share = gaps[0] / (gaps[0] - gaps[1])
                edge = round(below.high + share * (above.low - below.high))
        out[n] = replace(out[n], high=edge)
        out[n + 1] = replace(out[n + 1], low=edge)
    return out
