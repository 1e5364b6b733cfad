"""Judge a kernel's variants: a winner for each routine, or none and why."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from loopwright.cores.microarchs import Microarch
from loopwright.histogram import Histogram, read
from loopwright.judging import band_words, bands, deciding, measured, reasons
from loopwright.judging.bands import Band
from loopwright.judging.cases import Simulations, cases, simulations, sound
from loopwright.judging.compare import table
from loopwright.judging.study import Study, gather
from loopwright.judging.verdicts import THRESHOLD, Case
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
    "bands",
    "evidence",
    "break_even",
    "measure_first",
]


def recommend(
    kernel_id: str,
    *,
    sizes: str | None = None,
    quick: bool = False,
    microarch: str | None = None,
    parameters: Mapping[str, str] | None = None,
    against: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Gather a kernel's evidence and recommend a variant for each of its routines.

    sizes names a file with a bpftrace histogram (FILE or FILE:MAP) that weighs the costs of calls.
    quick leaves this host's measurement out. microarch ("ID[,ID]" or "all") names the cores to
    judge for; left out, they are the targets. parameters set the simulator's, by dotted name: what
    is set is no longer unknown. against names a variant to compare the others of its routine with,
    in place of the baseline.
    """
    return concluded(
        kernel_id,
        sizes=sizes,
        quick=quick,
        microarch=microarch,
        parameters=parameters,
        against=against,
        progress=progress,
    ).rows


@dataclass(frozen=True)
class Judgement:
    """What is concluded of a kernel: rows has one for each routine (see judge), bands one for each
    stretch of sizes on each core (see band_words.rows), cases by routine what is known of variants.
    """

    rows: pd.DataFrame
    bands: pd.DataFrame
    cases: Mapping[str, list[Case]]


def concluded(kernel_id: str, *, sizes: str | None = None, **asked: Any) -> Judgement:
    """Gather a kernel's evidence and judge it; the arguments are those of recommend."""
    histogram = read(sizes) if sizes else None
    return conclude(gather(kernel_id, sizes=histogram, **asked), histogram)


def judge(found: Study, sizes: Histogram | None = None) -> pd.DataFrame:
    """Return one row a routine.

    winner is empty where there is none. margin_percent is the winner's speed over the baseline's
    (geometric mean over the target cores). confidence is "measured", "models agree", "models
    disagree: measure on X", "no model answers on X: measure there" or "not enough measured on X".
    slower_on names cores on which the winner would be slower, only_where variants that win under a
    condition alone. basis says what sizes the judgement is about, models which models count, and
    how right they have been. bands says which variant is best from which size to which, evidence
    what counts on each core, break_even the numbers that would decide what is open, measure_first
    which of them moves most and what measures it.

    A variant wins where nothing that is missing could change it: every point that was to be
    measured on a target core is there, of all that can win; it is better over the whole of what is
    not known of the core; models that count agree on whether there is a gain, and show more than
    they are off by.
    """
    return conclude(found, sizes).rows


def conclude(found: Study, sizes: Histogram | None = None) -> Judgement:
    """Judge every routine of a study."""
    rows, judged, drawn = table(found), [], []
    there = measured.of_cores(found)
    of_routines: dict[str, list[Case]] = {}
    for routine in found.kernel.routines.values():
        calls = simulations(found, routine, sizes)
        known = of_routines[routine.name] = cases(found, routine, rows, sizes, there, calls)
        of_routine = bands.of(found, routine, known, there)
        judged.append(_routine(found, routine, known, of_routine, calls, sizes))
        drawn.append(band_words.rows(found.kernel.id, routine.name, of_routine))
    return Judgement(
        pd.DataFrame(judged, columns=COLUMNS),
        pd.concat([d for d in drawn if len(d)] or drawn[:1], ignore_index=True),
        of_routines,
    )


def _routine(
    found: Study, routine: Routine, known: list[Case], of_routine: list[Band],
    calls: Simulations, sizes: Histogram | None,
) -> dict[str, object]:  # fmt: skip
    targets = found.targets
    numbers = deciding.numbers(found, known, calls, sizes)
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
        "bands": band_words.in_words(of_routine),
        "evidence": band_words.evidence(found, known, calls),
        "break_even": ". ".join(
            filter(
                None,
                (deciding.in_words(found, numbers), deciding.decided(found, calls, sizes)),
            )
        ),
        "measure_first": deciding.first(found, known, numbers),
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
        key=lambda pair: (pair[0], pair[1].likely(targets)),
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
        if all(case.verdicts[c.id].simulated for c in contested):
            return (
                f"what is not known of {reasons.names(contested)} decides whether {name} is faster "
                f"than {routine.baseline} ({reasons.all_of(case)})"
            )
        return (
            f"models differ on whether {name} is faster than {routine.baseline} on "
            f"{reasons.names(contested)} ({reasons.all_of(case)})"
        )
    if score > 1 + THRESHOLD:
        return (
            f"{name} leads ({reasons.all_of(case)}), but nothing is known of it and "
            f"{routine.baseline} on {reasons.names(case.silent(targets))}"
        )
    doubts = [
        f"; on {v.core} the simulator {v.simulated.trust.standing.described}"
        for v in case.verdicts.values()
        if v.simulated and not v.settled_either_way and v.high > 1 + THRESHOLD
    ]
    unproven = [v for v in case.verdicts.values() if v.opinion and v.opinion.unproven]
    why = "".join(f"; on {v.core} {v.opinion.unproven}" for v in unproven if v.opinion)
    return (
        f"none is shown to beat {routine.baseline}: the best, {name}, is at "
        f"{reasons.all_of(case)}{why}{''.join(doubts)}"
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
