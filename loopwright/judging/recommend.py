"""Judge a kernel's variants: a winner for each routine, or none and why."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from loopwright.cores import microarchs
from loopwright.cores.microarchs import Microarch
from loopwright.judging import reasons
from loopwright.judging.compare import table
from loopwright.judging.histogram import Histogram, read
from loopwright.judging.study import Study, gather
from loopwright.judging.verdicts import THRESHOLD, Case, cases, sound
from loopwright.kernels import Routine

COLUMNS = [
    "kernel",
    "routine",
    "baseline",
    "winner",
    "margin_percent",
    "confidence",
    "slower_on",
    "only_where",
    "basis",
    "models",
    "reason",
]


def recommend(
    kernel_id: str,
    *,
    sizes: str | None = None,
    quick: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Gather a kernel's evidence and recommend a variant for each of its routines.

    sizes names a file with a bpftrace histogram (FILE or FILE:MAP) that weighs the measured costs.
    quick leaves this host's measurement out.
    """
    histogram = read(sizes) if sizes else None
    found = gather(kernel_id, sizes=histogram, quick=quick, progress=progress)
    return judge(found, histogram)


def judge(found: Study, sizes: Histogram | None = None) -> pd.DataFrame:
    """Return one row a routine.

    winner is empty where there is none. margin_percent is the winner's speed over the baseline's
    (geometric mean over the target cores). confidence is "measured", "models agree", "models
    disagree: measure on X", "no model answers on X: measure there" or "not enough measured on X".
    slower_on names cores on which the winner would be slower, only_where variants that win under a
    condition alone. basis says what sizes the judgement is about, models which models count, and
    how right they have been.

    A variant wins where nothing that is missing could change it: every point that was to be
    measured on a target core is there, of all that can win; models that count agree on whether
    there is a gain, and show more than they are off by.
    """
    rows = table(found)
    judged = [_routine(found, r, rows, sizes) for r in found.kernel.routines.values()]
    return pd.DataFrame(judged, columns=COLUMNS)


def _routine(
    found: Study, routine: Routine, rows: pd.DataFrame, sizes: Histogram | None
) -> dict[str, object]:
    targets = microarchs.targets(found.kernel.isa)
    known = cases(found, routine, rows, sizes)
    answer: dict[str, object] = {
        "kernel": found.kernel.id,
        "routine": routine.name,
        "baseline": routine.baseline,
        "winner": "",
        "margin_percent": np.nan,
        "confidence": "",
        "slower_on": "",
        "only_where": _conditional(known, targets),
        "basis": reasons.basis(found, sizes),
        "models": "",
    }
    if not sound(found, routine.baseline):
        failure = str(found.checks.set_index("variant").loc[routine.baseline, "failure"])
        why = f"the baseline {routine.baseline} breaks its contract: {failure}"
        return {**answer, "reason": why}
    general = [c for c in known if not c.lacking]
    if short := [c for c in general if c.unmeasured(targets)]:
        return {
            **answer,
            "confidence": f"{reasons.NOT_ENOUGH} on {reasons.names(_short_on(short, targets))}",
            "reason": reasons.not_enough(short, targets),
        }
    scored = sorted(
        ((score, c) for c in general if (score := c.score(targets)) == score),
        key=lambda pair: pair[0],
        reverse=True,
    )
    if not scored:
        return {
            **answer,
            "confidence": f"no model answers on {reasons.names(targets)}: measure there",
            "reason": f"no model has a figure for both {routine.baseline} and another variant; "
            f"{reasons.elsewhere(known, found)}",
        }
    won = [
        (score, case)
        for score, case in scored
        if score > 1 + THRESHOLD and not case.silent(targets) and not case.contested(targets)
    ]
    score, case = (won or scored)[0]
    answer |= {
        "confidence": reasons.confidence(case, targets),
        "models": reasons.opinions(case, targets),
    }
    if not won:
        reason = _no_winner(routine, scored, targets)
        return {**answer, "reason": f"{reason}; {reasons.elsewhere(known, found)}"}
    doubtful = [c for s, c in scored if s > score]
    return {
        **answer,
        "winner": case.variant.name,
        "margin_percent": 100 * (score - 1),
        "slower_on": ", ".join(reasons.slower(case)),
        "reason": reasons.all_of(case)
        + reasons.missing(case, found)
        + "".join(reasons.undecided(c, targets) for c in doubtful),
    }


def _no_winner(routine: Routine, scored: list[tuple[float, Case]], targets: list[Microarch]) -> str:
    """Say why none of the variants wins; the one that does best by what is known comes first."""
    score, case = scored[0]
    name = case.variant.name
    if contested := case.contested(targets):
        return (
            f"models differ on whether {name} is faster than {routine.baseline} on "
            f"{reasons.names(contested)} ({reasons.all_of(case)})"
        )
    if score > 1 + THRESHOLD:
        return (
            f"{name} leads ({reasons.all_of(case)}), but nothing is known of it and "
            f"{routine.baseline} on {reasons.names(case.silent(targets))}"
        )
    unproven = [v for v in case.verdicts.values() if v.opinion and v.opinion.unproven]
    why = "".join(f"; on {v.core} {v.opinion.unproven}" for v in unproven if v.opinion)
    return (
        f"none is shown to beat {routine.baseline}: the best, {name}, is at "
        f"{reasons.all_of(case)}{why}"
    )


def _short_on(short: list[Case], targets: list[Microarch]) -> list[Microarch]:
    return [t for t in targets if any(t in c.unmeasured(targets) for c in short)]


def _conditional(known: list[Case], targets: list[Microarch]) -> str:
    """Name the variants that beat the baseline, but not on every target core as it is."""
    out = []
    for case in known:
        where = ", ".join(sorted(set(case.lacking.values())))
        score = case.score(targets)
        if not case.lacking or case.contested(targets):
            continue
        if case.unmeasured(targets):
            out.append(f"{case.variant.name} where {where}: {reasons.NOT_ENOUGH}")
        elif score > 1 + THRESHOLD:
            out.append(f"{case.variant.name} {reasons.percent(score)} where {where}")
    return "; ".join(out)
