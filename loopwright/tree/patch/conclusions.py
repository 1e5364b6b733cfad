"""What a study concludes of each variant, as a patch's message says it."""

from loopwright.cores.microarchs import Microarch
from loopwright.judging import band_words, bands, break_even, measured, standing
from loopwright.judging.compare import MEASURED
from loopwright.judging.reasons import names, percent
from loopwright.judging.recommend import Judgement
from loopwright.judging.study import Study
from loopwright.judging.verdicts import THRESHOLD, Case, Verdict
from loopwright.kernels import Kernel, Variant
from loopwright.tree.patch.evidence import Judged


def of_all(found: Study, concluded: Judgement) -> dict[str, Judged]:
    """Return what is concluded of every variant that is not its routine's baseline."""
    judged, targets = concluded.rows.set_index("routine"), found.targets
    off_by = _off_by(found.kernel, sorted(set(found.predictions["microarch"])))
    there = measured.of_cores(found)
    out = {}
    for routine in found.kernel.routines.values():
        row = judged.loc[routine.name]
        for case in concluded.cases[routine.name]:
            known = _known(case)
            by_size = band_words.in_words(bands.of(found, routine, [case], there))
            if case.variant.name == row["winner"]:
                said = f"Against what is there: {known} (confidence: {row['confidence']})."
                worse = _cores([v for v in case.verdicts.values() if v.loss])
                doubt = f"This is slower on {worse}, if faster on the whole." if worse else ""
            else:
                best = found.kernel.variants.get(str(row["winner"]))
                doubt, said = _doubt(case, targets, best), ""
            out[case.variant.name] = Judged(
                doubt,
                said,
                off_by,
                by_size=by_size,
                rests_on=str(row["evidence"]) if case.simulated else "",
                decides=_decides(found, case),
            )
    return out


def _decides(found: Study, case: Case) -> str:
    """Say for each target core which number would decide, where one does."""
    said = []
    for core in found.targets:
        one, verdict = case.simulated.get(core.id), case.verdicts.get(core.id)
        if one and one.unknown and verdict and verdict.simulated and core.id not in case.lacking:
            said += [break_even.described(found) for found in break_even.of(one)[:1]]
    return ". ".join(said)


def _off_by(kernel: Kernel, cores: list[str]) -> dict[tuple[str, str], float]:
    """Return how far each model has been off on each core, of the code that a kernel has."""
    known = standing.records()
    units = {routine.contract.unit for routine in kernel.routines.values()}
    notion = "loop" if "iteration" in units else "unrolled"
    pairs = {(str(row["core"]), str(row["model"])) for row in known.to_dict("records")}
    errors = {
        (core, model): standing.of(model, core, notion, known).error_percent
        for core, model in pairs
        if core in cores
    }
    return {pair: error for pair, error in errors.items() if error is not None}


def _doubt(case: Case, targets: list[Microarch], best: Variant | None) -> str:
    """Say why a variant is no winner, the worst first; best is the one that is."""
    slower = [v for v in case.verdicts.values() if v.loss]
    some = [v for v in case.verdicts.values() if v.low < 1 - THRESHOLD and v not in slower]
    where = ", ".join(sorted(set(case.lacking.values())))
    contested = case.contested(targets)
    silent = [core for core in case.silent(targets) if core.id not in case.lacking]
    if slower:
        first = f"This is slower on {_cores(slower)}."
    elif contested:
        first = f"Models differ on whether this is faster on {names(contested)}."
        if some:
            first = f"Models differ on whether this is faster or slower on {names(contested)}."
    elif case.unmeasured(targets):
        cores = names(case.unmeasured(targets))
        first = f"Not enough was measured on {cores} to say that this is faster."
    elif silent and not case.verdicts:
        first = (
            f"Nothing shows that this is faster on {names(silent)}: no model has a figure for "
            "both, and none of them was measured."
        )
    elif where and case.score(targets) > 1 + THRESHOLD:
        first = f"This is faster only where {where}."
    elif silent:
        first = f"Nothing is known of the speed of this on {names(silent)}."
    elif best and case.score(targets) > 1 + THRESHOLD:
        first = f"This is faster, but another way is faster still: {best.summary}."
    else:
        first = "This is not shown to be faster."
    if where and not first.endswith(f"where {where}."):
        first += f" It applies only where {where}."
    known = _known(case)
    return f"{first} Speed against what is there: {known}." if known else first


def _cores(verdicts: list[Verdict]) -> str:
    return " and ".join(v.core for v in verdicts)


def _known(case: Case) -> str:
    """Return the speeds that are known, core by core."""
    return ", ".join(_speed(v) for v in case.verdicts.values())


def _speed(verdict: Verdict) -> str:
    by = MEASURED if verdict.measured else "predicted"
    if verdict.alike:
        return f"{verdict.core} no difference ({by})"
    ends = (
        [percent(verdict.ratio)]
        if verdict.measured
        else [percent(verdict.low), percent(verdict.high)]
    )
    return f"{verdict.core} {' to '.join(dict.fromkeys(ends))} ({by})"
