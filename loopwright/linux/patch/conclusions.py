"""Conclusions on each variant as a patch's message states them."""

from collections.abc import Iterator, Sequence

from loopwright.judging import break_even, model_accuracy, verdicts, wording
from loopwright.judging.recommend import Answer, Judgement, Kind, slower
from loopwright.judging.study import Study
from loopwright.judging.verdicts import Case, Status
from loopwright.kernels import Kernel
from loopwright.linux.patch.evidence import Judged


def of_all(found: Study, concluded: Judgement) -> dict[str, Judged]:
    """Return what is concluded of every variant that is not its routine's baseline."""
    judged = concluded.rows.set_index("routine")
    off_by = _off_by(found.kernel, sorted(set(found.predictions["microarch"])))
    out = {}
    for name, answer in concluded.answers.items():
        row = judged.loc[name]
        for case in answer.cases:
            won = case is answer.winner
            known = wording.verdicts(case, found)
            said = f"Against what is there: {known} (confidence: {row['confidence']})."
            out[case.variant.name] = Judged(
                "" if won else _doubt(answer, case, known),
                said if won else "",
                off_by,
                by_size=wording.bands(verdicts.bands_of(found, answer.routine, [case])),
                rests_on=str(row["evidence"]) if case.simulated else "",
                decides=_decides(found, case),
            )
    return out


def _decides(found: Study, case: Case) -> str:
    """Say for each core asked for which number would decide, where one does."""
    said = []
    for core in found.targets:
        one, verdict = case.simulated.get(core.id), case.verdicts.get(core.id)
        if one and one.unknown and verdict and verdict.simulated and core.id not in case.lacking:
            said += [break_even.described(found) for found in break_even.break_evens(one)[:1]]
    return ". ".join(said)


def _off_by(kernel: Kernel, cores: list[str]) -> dict[tuple[str, str], float]:
    """Return the error of each model on each core, in percent, for the code that a kernel has."""
    known = model_accuracy.records()
    units = {routine.contract.unit for routine in kernel.routines.values()}
    notion = "loop" if "iteration" in units else "unrolled"
    pairs = {(str(row["core"]), str(row["model"])) for row in known.to_dict("records")}
    errors = {
        (core, model): model_accuracy.accuracy_of(model, core, notion, known).error_percent
        for core, model in pairs
        if core in cores
    }
    return {pair: error for pair, error in errors.items() if error is not None}


def _doubt(answer: Answer, case: Case, known: str) -> str:
    """Say why a variant is no winner, the most severe reason first."""
    first = next(_reasons(answer, case, answer.asked))
    if case.lacking and not first.endswith(f"where {case.condition}."):
        first += f" It applies only where {case.condition}."
    return f"{first} Speed against what is there: {known}." if known else first


def _reasons(answer: Answer, case: Case, asked: Sequence[str]) -> Iterator[str]:
    """Yield why a variant is no winner, the most severe reason first."""
    faster = case.with_status(asked, Status.FASTER)
    worse = [
        f"This {verb} slower on {wording.names(where)}."
        for verb, surely in (("is", True), ("may be", False))
        if (where := slower(answer, case, surely=surely))
    ]
    if worse:
        yield " ".join(worse)
    for core in case.with_status(asked, Status.CONTESTED):
        yield (
            f"That this is faster or slower on {core} is contested by "
            f"{wording.contradiction(case.verdicts[core])}."
        )
    if disagree := [c for c in asked if (v := case.verdicts.get(c)) and v.opinion
                    and v.opinion.contested]:  # fmt: skip
        yield f"Models differ on whether this is faster on {wording.names(disagree)}."
    if short := case.unmeasured(answer.judged):
        yield f"Not enough was measured on {wording.names(short)} to say that this is faster."
    silent = [core for core in case.silent(asked) if core not in case.lacking]
    if silent and not case.verdicts:
        yield (
            f"Nothing shows that this is faster on {wording.names(silent)}: no model has a figure "
            "for both, and none of them was measured."
        )
    if case.lacking and faster:
        yield f"This is faster only where {case.condition}."
    if silent:
        yield f"Nothing is known of the speed of this on {wording.names(silent)}."
    if faster and answer.kind is Kind.WINNER and answer.winner:
        yield f"This is faster, but another way is faster still: {answer.winner.variant.summary}."
    yield "This is not shown to be faster."
