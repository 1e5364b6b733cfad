"""Recommendations for the routines of a kernel: a winner, a split, or the reason for neither."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from loopwright.histogram import Histogram, read
from loopwright.judging import call_costs, unmeasured, verdicts, wording
from loopwright.judging.call_costs import percent
from loopwright.judging.study import Study, comparison, gather
from loopwright.judging.verdicts import (
    Band,
    Case,
    Simulations,
    Status,
    cases,
    judged,
    simulations,
    sound,
)
from loopwright.kernels import Routine

COLUMNS = [
    "kernel", "routine", "baseline", "answer", "winner", "margin_percent", "summary", "confidence",
    "slower_on", "only_where", "without_patch", "basis", "stored", "models", "reason", "bands",
    "evidence", "published", "break_even", "measure_first",
]  # fmt: skip


class Kind(StrEnum):
    """The kind of an answer."""

    WINNER = "winner"
    SPLIT = "split"
    OPEN = "open"
    CONTESTED = "contested"
    BASELINE = "baseline"
    SHORT = wording.NOT_ENOUGH
    SILENT = "nothing known"


def recommend(
    kernel_id: str,
    *,
    sizes: str | None = None,
    quick: bool = False,
    stored: bool = False,
    microarch: str | None = None,
    parameters: Mapping[str, str] | None = None,
    against: str | None = None,
    alignments: Mapping[tuple[int, int], float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Gather a kernel's evidence and recommend a variant for each of its routines.

    sizes names a file with a bpftrace histogram (FILE or FILE:MAP) that weighs the costs of calls;
    alignments weighs those of a size by (destination, source), bytes behind a page start. quick
    measures nothing and uses no stored run, stored uses those. microarch ("ID[,ID]" or "all") names
    the cores to judge for; left out, they are the targets, and a winner may not be slower on this
    machine's core. parameters set parameters of the simulator by dotted name, which are then no
    longer unknown. against names a variant to compare the others of its routine with, in place of
    the baseline.
    """
    return concluded(
        kernel_id,
        sizes=sizes,
        quick=quick,
        stored=stored,
        microarch=microarch,
        parameters=parameters,
        against=against,
        alignments=alignments or call_costs.ALIGNMENTS,
        progress=progress,
    ).rows


@dataclass(frozen=True)
class Answer:
    """The judgement on one routine, with the evidence that every output is made from.

    winner is None unless kind is WINNER. candidate is the winner, or else the variant nearest to
    one. bands are those of sizes, cases the evidence by variant; sizes are those at which a winner
    may not be slower.
    """

    study: Study
    routine: Routine
    kind: Kind
    cases: tuple[Case, ...]
    bands: tuple[Band, ...]
    winner: Case | None = None
    candidate: Case | None = None
    reason: str = ""
    sizes: tuple[int, ...] = ()

    @property
    def target_ids(self) -> list[str]:
        return self.study.target_ids

    @property
    def judged(self) -> list[str]:
        """The cores on which a winner may not be slower."""
        return judged(self.study.judged_ids, self.cases)

    @property
    def margin(self) -> float:
        """The winner's least speed over the cores on which it is faster, as a ratio."""
        if self.winner is None:
            return np.nan
        gains = self.winner.with_status(self.target_ids, Status.FASTER)
        return min(self.winner.verdicts[core].proven for core in gains)

    @property
    def summary(self) -> str:
        if self.winner:
            faster = self.winner.with_status(self.target_ids, Status.FASTER)
            return (
                f"{self.winner.variant.name}: at least {percent(self.margin)} on "
                f"{wording.names(faster)}; slower on no judged core and at no size"
            )
        if self.kind is Kind.SPLIT:
            parts: dict[str, list[str]] = {}
            for band in verdicts.told_apart(verdicts.won(self.bands)):
                where = f"{band.core} where {band.condition}" if band.condition else band.core
                parts.setdefault(where, []).append(wording.band(band))
            for case in self.cases if not parts else ():
                for core in case.with_status(self.judged, Status.FASTER):
                    speed = wording.speed(case.verdicts[core].speed)
                    where = f"{core} where {case.condition}" if case.condition else core
                    parts.setdefault(where, []).append(f"{case.variant.name} {speed}")
            sentences = [f"{where}: {', '.join(words)}" for where, words in parts.items()]
            return f"no one variant for all cores and sizes; {'; '.join(sentences)}"
        return self.reason


def slower(answer: Answer, case: Case, *, surely: bool | None = None) -> list[str]:
    """Return in words where a variant of an answer is slower than the baseline, or may be.

    surely keeps the cores on which it is (True) or only may be (False); None keeps all.
    """
    harm = list(case.harm(answer.target_ids, answer.judged, answer.sizes))
    sure = {verdict.core for verdict, size in harm if verdict.is_slower(size)}
    if surely is not None:
        harm = [(verdict, size) for verdict, size in harm if (verdict.core in sure) is surely]
    return wording.slower(harm, answer.study)


@dataclass(frozen=True)
class Judgement:
    """The answers on all routines of a kernel.

    bands has a row for each range of sizes on each core (see wording.band_rows), answers the answer
    by routine.

    rows has one for each routine. Its answer is the kind: "winner", "split" (by core, feature or
    size), "open", "contested", "baseline", "not enough measured" or "nothing known"; summary is the
    answer in a sentence. winner is empty unless a variant is faster on a core asked for, slower on
    no core asked for or measured and at no size, and a patch can be made of it. margin_percent is
    its least gain. slower_on names where the winner, or else the variant nearest to one, is slower;
    only_where variants that win where a core has a feature; without_patch faster ones that no patch
    can be made of. basis names the calls that the judgement is about, stored the stored runs that
    it used, models the models of the main loop that count. bands has the best variant by range of
    sizes, evidence the evidence on each core, published the published figures of the same pairs,
    break_even the parameter values that would decide what is open, measure_first the parameter with
    the largest effect and the command that measures it.
    """

    rows: pd.DataFrame
    bands: pd.DataFrame
    answers: Mapping[str, Answer] = field(default_factory=dict)


def concluded(kernel_id: str, *, sizes: str | None = None, **arguments: Any) -> Judgement:
    """Gather a kernel's evidence and judge it; the arguments are those of recommend."""
    histogram = read(sizes) if sizes else None
    return conclude(gather(kernel_id, sizes=histogram, **arguments), histogram)


def conclude(study: Study, sizes: Histogram | None = None) -> Judgement:
    """Judge every routine of a study."""
    rows, judged_rows, band_tables = comparison(study), [], []
    measured = verdicts.measured_on_cores(study)
    answers = {}
    for routine in study.kernel.routines.values():
        calls = simulations(study, routine, sizes)
        candidates = cases(study, routine, rows, sizes, measured, calls)
        bands = verdicts.bands_of(study, routine, candidates)
        answer = _answer(study, routine, candidates, bands, sizes)
        answers[routine.name] = answer
        judged_rows.append(_row(answer, calls, sizes))
        band_tables.append(wording.band_rows(study.kernel.id, routine.name, bands))
    return Judgement(
        pd.DataFrame(judged_rows, columns=COLUMNS),
        pd.concat([d for d in band_tables if len(d)] or band_tables[:1], ignore_index=True),
        answers,
    )


def _answer(
    study: Study,
    routine: Routine,
    candidates: Sequence[Case],
    bands: Sequence[Band],
    sizes: Histogram | None,
) -> Answer:
    """Judge one routine: a winner is faster on some core and slower on none."""
    judged_sizes = _judged_sizes(candidates, sizes)

    def answer(kind: Kind, reason: str = "", candidate: Case | None = None) -> Answer:
        won = candidate if kind is Kind.WINNER else None
        evidence = tuple(candidates), tuple(bands)
        return Answer(study, routine, kind, *evidence, won, candidate, reason, judged_sizes)

    if not sound(study, routine.baseline):
        failure = str(study.checks.set_index("variant").loc[routine.baseline, "failure"])
        why = f"the baseline {routine.baseline} breaks its contract: {failure}"
        return answer(Kind.SILENT, why)
    target_ids = study.target_ids
    judged_ids = judged(study.judged_ids, candidates)
    general = [c for c in candidates if not c.lacking]
    incomplete = [c for c in general if c.unmeasured(judged_ids)]
    if incomplete:
        return answer(Kind.SHORT, wording.missing_points(incomplete, judged_ids, study))
    ordered = sorted(
        (c for c in general if c.proven_speeds(target_ids)),
        key=lambda c: (c.proven_speeds(target_ids), c.with_status(target_ids, Status.OPEN) != []),
        reverse=True,
    )
    shippable = [c for c in ordered if not c.variant.unpatchable]
    overruled: list[tuple[Case, str]] = []
    for case in shippable:
        contested = case.with_status(target_ids, Status.CONTESTED)
        settled = not contested and not case.without_verdict(target_ids)
        harmless = not any(case.harm(target_ids, judged_ids, judged_sizes))
        if settled and harmless and case.with_status(target_ids, Status.FASTER):
            if against := _slower_than_others(case, shippable, study):
                overruled.append((case, against))
                continue
            return answer(Kind.WINNER, wording.verdicts(case, study), case)
    nearest = max(
        shippable or ordered,
        key=lambda c: (bool(c.with_status(judged_ids, Status.FASTER)), c.proven_speeds(target_ids)),
        default=None,
    )
    if overruled:
        return answer(Kind.CONTESTED, "; ".join(why for _, why in overruled), overruled[0][0])
    if not ordered:
        pair = f"both {routine.baseline} and another variant on {wording.names(target_ids)}"
        return answer(Kind.SILENT, f"no model has a figure for {pair}")
    unknown_cores = [
        core for core in target_ids if all(core in c.without_verdict(target_ids) for c in ordered)
    ]
    if unknown_cores and nearest:
        elsewhere = f"{nearest.variant.name} leads elsewhere ({wording.verdicts(nearest, study)})"
        why = f"nothing is known of any variant on {wording.names(unknown_cores)}; {elsewhere}"
        return answer(Kind.SILENT, why, nearest)
    if verdicts.won(bands) or any(c.with_status(judged_ids, Status.FASTER) for c in candidates):
        led = f"{nearest.variant.name}: {wording.verdicts(nearest, study)}" if nearest else ""
        return answer(Kind.SPLIT, f"the nearest to a winner, {led}" if led else "", nearest)
    for kind, status, what in (
        (Kind.CONTESTED, Status.CONTESTED, "published figures contradict the models on"),
        (Kind.OPEN, Status.OPEN, "it is open"),
    ):
        unsettled = [c for c in ordered if c.with_status(target_ids, status)]
        if unsettled:
            best = max(unsettled, key=lambda case: case.highest_speed(target_ids))
            pair = f"{best.variant.name} is faster than {routine.baseline}"
            return answer(kind, f"{what} whether {pair} ({wording.verdicts(best, study)})", best)
    best = ordered[0]
    named = f"the best, {best.variant.name}, is at {wording.verdicts(best, study)}"
    return answer(Kind.BASELINE, f"none is faster than {routine.baseline}: {named}", best)


def _slower_than_others(case: Case, others: Sequence[Case], study: Study) -> str:
    """Return the published figure by which another candidate beats this one on an asked core.

    It is "" without one. A model's order of the two does not override that figure. Measured cores
    are not considered.
    """
    mine, names = case.variant.name, {c.variant.name for c in others}
    for core in study.targets:
        if (verdict := case.verdicts.get(core.id)) and verdict.measured:
            continue
        for figure in unmeasured.pair_figures(study, core.id):
            pair = {figure.variant, figure.baseline}
            other = pair - {mine}
            loses = figure.sign < 0 if figure.variant == mine else figure.sign > 0
            if mine in pair and other <= names and loses:
                return (
                    f"{mine} is predicted to be the fastest ({wording.verdicts(case, study)}), "
                    f"contested by {wording.figure(figure)}"
                )
    return ""


def _judged_sizes(candidates: Sequence[Case], sizes: Histogram | None) -> tuple[int, ...]:
    """Return the sizes at which a winner may not be slower: those with a weight, or all."""
    all_sizes = sorted({s for case in candidates for v in case.verdicts.values() for s in v.sizes})
    if sizes is None or not all_sizes:
        return tuple(all_sizes)
    shares = call_costs.weights(all_sizes, sizes)
    return tuple(size for size, share in zip(all_sizes, shares, strict=True) if share)


def _row(answer: Answer, calls: Simulations, sizes: Histogram | None) -> dict[str, object]:
    study, routine, candidates = answer.study, answer.routine, answer.cases
    break_evens = unmeasured.deciding_break_evens(study, candidates, calls)
    case, target_ids = answer.candidate, answer.target_ids
    independent = unmeasured.independent_speeds(study, calls)
    decisive = filter(None, (unmeasured.in_words(break_evens), independent))
    missing = [
        (core, next(iter(margins.unanswered.values()), ""))
        for core, margins in calls.of_core.items()
    ]
    reasons = filter(None, (answer.reason, wording.fastest_measured(candidates, study)))
    confidence = wording.confidence(case, target_ids, study) if case else ""
    if answer.kind is Kind.SHORT:
        incomplete = [c for c in answer.judged if any(case.unmeasured([c]) for case in candidates)]
        confidence = f"{wording.NOT_ENOUGH} on {wording.names(incomplete)}"
    return {
        "kernel": study.kernel.id,
        "routine": routine.name,
        "baseline": routine.baseline,
        "answer": str(answer.kind),
        "winner": answer.winner.variant.name if answer.winner else "",
        "margin_percent": 100 * (answer.margin - 1),
        "summary": answer.summary,
        "confidence": confidence,
        "slower_on": _slower_on(answer),
        "only_where": "; ".join(_conditional(answer)),
        "without_patch": "; ".join(_without_patch(answer)),
        "basis": wording.basis(study, answer.routine.contract, sizes),
        "stored": wording.stored(study, candidates),
        "models": wording.models(case, target_ids) if case else "",
        "reason": "; ".join(reasons),
        "bands": wording.bands(answer.bands),
        "evidence": wording.evidence(study, candidates, missing),
        "published": wording.published(study, candidates),
        "break_even": ". ".join(decisive),
        "measure_first": unmeasured.measure_first(study, candidates, break_evens),
    }


def _slower_on(answer: Answer) -> str:
    """Return in words where the candidate is slower, and variants that win elsewhere."""
    split = answer.kind is Kind.SPLIT
    listed = [c for c in answer.cases if c is answer.candidate
             or (split and c.with_status(answer.judged, Status.FASTER))]  # fmt: skip
    texts = {c.variant.name: ", ".join(worse) for c in listed if (worse := slower(answer, c))}
    if len(listed) == 1:
        return "".join(texts.values())
    return "; ".join(f"{name}: {where}" for name, where in texts.items())


def _conditional(answer: Answer) -> list[str]:
    """Return the variants that win where a core has a missing feature, with sizes and cores."""
    out = []
    for case in answer.cases:
        if not case.lacking or case.variant.unpatchable:
            continue
        won: dict[str, list[str]] = {}
        for band in verdicts.won(answer.bands):
            if band.condition and band.variant == case.variant.name:
                won.setdefault(band.core, []).append(wording.sizes_and_speed(band))
        for core in case.with_status(answer.target_ids, Status.FASTER):
            won.setdefault(core, [wording.speed(case.verdicts[core].speed)])
        if won:
            text = "; ".join(f"{core} {', '.join(parts)}" for core, parts in won.items())
            worse = slower(answer, case)
            but = f"; slower on {', '.join(worse)}" if worse else ""
            out.append(f"{case.variant.name} where {case.condition}: {text}{but}")
    return out


def _without_patch(answer: Answer) -> list[str]:
    """Return the faster variants that no patch can be made of, with the reasons."""
    out = []
    for case in answer.cases:
        faster = case.with_status(answer.judged, Status.FASTER)
        if case.variant.unpatchable and faster:
            speeds = (f"{core} {wording.speed(case.verdicts[core].speed)}" for core in faster)
            out.append(f"{case.variant.name} ({', '.join(speeds)}): {case.variant.unpatchable}")
    return out
