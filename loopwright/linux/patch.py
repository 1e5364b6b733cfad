"""The verb patch: a kernel patch of a variant, tested in a scratch repository, then kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.histogram import read
from loopwright.judging import model_accuracy, unmeasured, verdicts, wording
from loopwright.judging.recommend import Answer, Judgement, Kind, conclude, slower
from loopwright.judging.study import Study, comparison, gather
from loopwright.judging.verdicts import Case, Status
from loopwright.kernels import Kernel, Variant
from loopwright.linux import edits, message, routines, trees, verify
from loopwright.linux.baseline import against
from loopwright.linux.edits import Change
from loopwright.linux.mail import UNSIGNED, Complaint, Mail, PatchError
from loopwright.linux.message import Evidence, Judged
from loopwright.linux.routines import Target
from loopwright.linux.trees import Identity, Tree, user_identity
from loopwright.linux.verification import OnCheck, PatchedVariant, of_patch

WRITTEN = "written"
ALREADY_THERE = "already there"
_RFC = "[RFC PATCH]"


@dataclass(frozen=True)
class MadePatch:
    """The outcome of making a patch.

    status is "written" or "already there"; subject begins as that of the mail does if it is an RFC;
    files are the patch files kept, none where the tree has the variant already. findings are all of
    the tree's checkpatch.pl. notes are lines for the user: what was left out, what to do before
    sending.
    """

    variant: str
    tree: str
    status: str
    subject: str
    files: tuple[Path, ...]
    findings: tuple[Complaint, ...]
    notes: tuple[str, ...]


def make(
    variant: Variant, tree: Path, out: Path, evidence: Evidence, identity: Identity | None = None
) -> MadePatch:
    """Put a variant into a Linux tree as a patch file in the folder out.

    The tree is only read. The patch is kept if git am accepts it on the tree's files and the tree's
    checkpatch.pl has no error except those of the allow-list; a file appears in out whole or not at
    all; out may not be inside the tree. identity is that of its Signed-off-by, else that of git's
    configuration in the tree; without either it carries none. InputError if the tree or the
    variant does not allow a patch, PatchError with a log where the patch fails its tests.
    """
    source = trees.read(tree)
    trees.refuse_inside(source, out)
    target = routines.find(variant, source)
    subject = message.subject(variant)
    if reason := _already_there(variant, target, source):
        return MadePatch(variant.id, str(source), ALREADY_THERE, subject, (), (), (reason,))
    routines.require(variant, source)
    changes, notes, paragraphs = _changes(variant, target, source)
    author = identity or user_identity(source.root)
    if author is None:
        notes.append(UNSIGNED)
    names = {v.routine: routines.find(v, source).name for v in routines.together(variant)}
    writer = message.Writer(variant, names, evidence)
    provenance, warning = trees.made_against(source, [change.file for change in changes])
    notes += [warning] if warning else []
    below = writer.below(provenance, *notes)
    body = writer.body(paragraphs)
    trailers = message.trailers(kernels.load(variant.kernel), str(author) if author else "")
    wide_line = message.too_wide([subject, *body.splitlines()])
    text = "\n".join([subject, "", body, "", *trailers]).rstrip() + "\n"
    if wide_line:
        raise PatchError(f"the message is wider than {message.WIDTH} columns: {wide_line}", text)
    mail = Mail(tuple(changes), text, below, author, rfc=writer.doubtful)
    kept, findings = mail.keep(source, out, variant.id)
    shown = f"{_RFC} {subject}" if writer.doubtful else subject
    return MadePatch(variant.id, str(source), WRITTEN, shown, (kept,), findings, tuple(notes))


def _already_there(variant: Variant, target: Target, tree: Tree) -> str:
    """Return the reason why the tree needs no patch, or ""."""
    merged = f" (merged as {variant.merged})" if variant.merged else ""
    where = f"{target.name} in {target.file} of {tree}"
    try:
        theirs = routines.assembled(variant, target, tree, {}, variant.alternatives)
    except InputError:
        changes, _ = edits.apply(variant, target, tree)
        if all(routines.normalised(c.old) == routines.normalised(c.new) for c in changes):
            return (
                f"{where} has the text of {variant.name} already{merged}; it does not assemble "
                "outside of the kernel, so that its text was compared"
            )
        return ""
    if not routines.same_code(theirs, routines.of_variant(variant, variant.alternatives)):
        return ""
    under = f" under {', '.join(variant.alternatives)}" if variant.alternatives else ""
    return f"{where} assembles to the same instructions as {variant.name}{under}{merged}"


def _changes(
    variant: Variant, target: Target, tree: Tree
) -> tuple[list[Change], list[str], list[str]]:
    """Return the changes, notes for the user, and paragraphs for the message."""
    changes, notes = edits.apply(variant, target, tree)
    _prove(variant, tree, changes)
    fitted = edits.fit_callers(variant, target.name, tree, changes)
    paragraphs = [
        f"The inline assembly in {change.file} that calls {target.name} now names the registers "
        "that the new code changes too."
        for change in fitted
    ]
    files = {change.file: change for change in [*changes, *fitted]}
    return [c for c in files.values() if c.old != c.new], notes, paragraphs


def _prove(variant: Variant, tree: Tree, changes: list[Change]) -> None:
    """Raise InputError for changes that assemble to other code than the variants, by routine."""
    changed = {change.file: change.new for change in changes}
    variants = routines.together(variant)
    for touched in variants:
        target = routines.find(touched, tree)
        if failure := routines.difference(touched, target, tree, changed):
            raise InputError(
                f"{touched.id} put into {target.file} of {tree} is not the code checked: {failure}"
            )
    proven = {touched.routine for touched in variants}
    for name, routine in kernels.load(variant.kernel).routines.items():
        if routine.upstream and routine.upstream.file in changed and name not in proven:
            raise InputError(
                f"{variant.id} changes {routine.upstream.file}, but no variant of {name} has the "
                "same edits: it would ship code that nothing has checked"
            )


def conclusions_of(study: Study, judgement: Judgement) -> dict[str, Judged]:
    """Return the conclusion on every variant that is not its routine's baseline."""
    judged = judgement.rows.set_index("routine")
    off_by = _off_by(study.kernel, sorted(set(study.predictions["microarch"])))
    out = {}
    for name, answer in judgement.answers.items():
        row = judged.loc[name]
        for case in answer.cases:
            won = case is answer.winner
            speeds = wording.verdicts(case, study)
            sentence = f"Against what is there: {speeds} (confidence: {row['confidence']})."
            out[case.variant.name] = Judged(
                "" if won else _doubt(answer, case, speeds),
                sentence if won else "",
                off_by,
                by_size=wording.bands(verdicts.bands_of(study, answer.routine, [case])),
                basis=str(row["evidence"]) if case.simulated else "",
                decides=_decides(study, case),
            )
    return out


def _decides(study: Study, case: Case) -> str:
    """Return the parameter values that would decide on the target cores, in words."""
    sentences: list[str] = []
    for core in study.targets:
        simulated, verdict = case.simulated.get(core.id), case.verdicts.get(core.id)
        by_calls = verdict and verdict.simulated and core.id not in case.lacking
        if by_calls and simulated and simulated.unknown:
            sentences += map(unmeasured.in_a_sentence, unmeasured.break_evens(simulated)[:1])
    return ". ".join(sentences)


def _off_by(kernel: Kernel, cores: list[str]) -> dict[tuple[str, str], float]:
    """Return the error in percent of each model on each core, for a kernel's kind of code."""
    records = model_accuracy.records()
    units = {routine.contract.unit for routine in kernel.routines.values()}
    notion = "loop" if "iteration" in units else "unrolled"
    pairs = {(str(row["core"]), str(row["model"])) for row in records.to_dict("records")}
    errors = {
        (core, model): model_accuracy.accuracy_of(model, core, notion, records).error_percent
        for core, model in pairs
        if core in cores
    }
    return {pair: error for pair, error in errors.items() if error is not None}


def _doubt(answer: Answer, case: Case, speeds: str) -> str:
    """Return the reason why a variant is no winner, the most severe one first."""
    reason = next(_reasons(answer, case, answer.target_ids))
    if case.lacking and not reason.endswith(f"where {case.condition}."):
        reason += f" It applies only where {case.condition}."
    return f"{reason} Speed against what is there: {speeds}." if speeds else reason


def _reasons(answer: Answer, case: Case, cores: Sequence[str]) -> Iterator[str]:
    """Yield the reasons why a variant is no winner, the most severe first."""
    faster = case.with_status(cores, Status.FASTER)
    slower_on = [
        f"This {verb} slower on {wording.names(where)}."
        for verb, surely in (("is", True), ("may be", False))
        if (where := slower(answer, case, surely=surely))
    ]
    if slower_on:
        yield " ".join(slower_on)
    for core in case.with_status(cores, Status.CONTESTED):
        yield (
            f"That this is faster or slower on {core} is contested by "
            f"{wording.contradiction(case.verdicts[core])}."
        )
    if disputed := [c for c in cores if (v := case.verdicts.get(c)) and v.opinion
                    and v.opinion.contested]:  # fmt: skip
        yield f"Models differ on whether this is faster on {wording.names(disputed)}."
    if incomplete := case.unmeasured(answer.judged):
        yield f"Not enough was measured on {wording.names(incomplete)} to say that this is faster."
    unknown = [core for core in case.without_verdict(cores) if core not in case.lacking]
    if unknown and not case.verdicts:
        yield (
            f"Nothing shows that this is faster on {wording.names(unknown)}: no model has a figure "
            "for both, and none of them was measured."
        )
    if case.lacking and faster:
        yield f"This is faster only where {case.condition}."
    if unknown:
        yield f"Nothing is known of the speed of this on {wording.names(unknown)}."
    if faster and answer.kind is Kind.WINNER and answer.winner:
        yield f"This is faster, but another way is faster still: {answer.winner.variant.summary}."
    yield "This is not shown to be faster."


COLUMNS = ["kernel", "variant", "tree", "status", "subject", "files", "notes", "checks"]
NO_WINNER = "no winner"


def patch(
    spec: str,
    tree: str,
    out: Path | str,
    *,
    sizes: str | None = None,
    quick: bool = False,
    stored: bool = False,
    microarch: str | None = None,
    parameters: Mapping[str, str] | None = None,
    tier: str | None = None,
    on_check: OnCheck | None = None,
) -> pd.DataFrame:
    """Make a patch of KERNEL/VARIANT, or of the winner of each routine of KERNEL.

    tree is a Linux source tree (only read), or debian:6.12; patch files go into the folder out.
    sizes, quick, stored, microarch and parameters are as for recommend. Returns one row a variant:
    status is "written", "already there", or "no winner" (with the reason in notes). Variants whose
    changes are the same patch are one row. tier (apply, object, boot) has each patch verified up to
    that tier, or the tree itself if it has the variant already: checks holds those rows (see
    verify.run), which are also passed to on_check one by one. InputError if no patch can be made,
    or the variant breaks its contract.
    """
    kernel, variants = kernels.select(spec)
    located = trees.find(tree, whole=tier is not None and tier != "apply")
    assert located.path is not None  # a tree that is named and cannot be had is an InputError
    histogram = read(sizes) if sizes else None
    source = trees.read(located.path)
    trees.refuse_inside(source, Path(out))
    if tier:
        verify.require(kernel.isa, tier)
    with against(kernel, source) as (compared, baseline_notes):
        study = gather(
            compared.id,
            sizes=histogram,
            quick=quick,
            stored=stored,
            microarch=microarch,
            parameters=parameters,
        )
        # Both may assemble the tree's own functions, which exist only in this context.
        judgement = conclude(study, histogram)
        answers, all_evidence = judgement.rows, evidence(study, judgement)
    rows: list[dict[str, object]] = []
    if spec.rstrip("/") == kernel.id:
        winners = answers[answers["winner"] != ""]
        variants = [kernel.variants[name] for name in winners["winner"]]
        rows = [
            {"kernel": kernel.id, "variant": "", "tree": located.note, "status": NO_WINNER,
             "subject": "", "files": [], "notes": [f"{row['routine']}: {row['reason']}"],
             "checks": []}
            for row in answers[answers["winner"] == ""].to_dict("records")
        ]  # fmt: skip
    done: set[str] = set()
    for variant in variants:
        if variant.id in done:
            continue
        check = study.checks.set_index("variant").loc[variant.name]
        if not check["passed"]:
            raise InputError(f"{variant.id} breaks its contract: {check['failure']}")
        result = make(variant, located.path, Path(out), all_evidence)
        done |= {v.id for v in routines.together(variant)}
        checks = pd.DataFrame()
        if tier:
            unchanged = PatchedVariant(source, (variant,), {}, None)
            subject = of_patch(variant, source, result.files[0]) if result.files else unchanged
            checks = verify.run(subject, tier, on_check)
        if result.files and tier and (unproven := verify.open_points(checks)):
            with_points = replace(all_evidence, unproven=unproven)  # its message has to name them
            result = make(variant, located.path, Path(out), with_points)
        rows.append(
            {"kernel": kernel.id, "variant": variant.name, "tree": result.tree,
             "status": result.status, "subject": result.subject,
             "files": [str(f) for f in result.files],
             "notes": [*result.notes, baseline_notes[variant.routine]],
             "checks": checks.to_dict("records")}
        )  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def evidence(study: Study, judgement: Judgement) -> Evidence:
    """Return the evidence of every routine, since a patch may touch several."""
    return Evidence(
        table=comparison(study),
        measurements=study.measurements,
        checks=study.checks,
        judged=conclusions_of(study, judgement),
        unmeasured=study.unmeasured,
        kernel=study.kernel,
    )
