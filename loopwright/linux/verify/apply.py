"""Tier apply: git am takes the patch, checkpatch.pl passes it, it is the code meant."""

import subprocess
from pathlib import Path

from loopwright.errors import InputError
from loopwright.linux import mail, routine
from loopwright.linux.git import GitError
from loopwright.linux.verify.outcomes import Check, CheckError, NotCovered, Tier
from loopwright.linux.verify.subject import PatchedVariant, applied, touched


def checks(subject: PatchedVariant) -> Tier:
    """Yield the tier's checks."""
    yield Check("git am", lambda: _git_am(subject))
    yield Check("checkpatch", lambda: _checkpatch(subject))
    yield Check("same code", lambda: _same_code(subject))


def _patch(subject: PatchedVariant) -> Path:
    if subject.patch is None:
        raise NotCovered("there is no patch: the tree is looked at as it is")
    return subject.patch


def _git_am(subject: PatchedVariant) -> str:
    patch = _patch(subject)
    try:
        files = applied(subject.tree, patch)
    except (GitError, subprocess.SubprocessError) as error:
        raise CheckError("git am does not take it", ["git", "am", str(patch)], str(error)) from None
    if files != dict(subject.files):
        raise CheckError(
            "git am makes other files of it than were meant", ["git", "am", str(patch)]
        )
    return f"taken on the {len(files)} files of {subject.tree} that it touches"


def _checkpatch(subject: PatchedVariant) -> str:
    patch = _patch(subject)
    signed = "\nSigned-off-by: " in patch.read_text(encoding="utf-8")
    findings = mail.checkpatch(subject.tree, patch, signed=signed)
    errors = [f for f in findings if f.level == "ERROR" and not f.allowed]
    log = "\n".join(f"{f.line}: {f.level}:{f.type}: {f.text}" for f in findings)
    command = ["perl", str(subject.tree.path(mail.SCRIPT)), "--show-types", str(patch)]
    if errors:
        raise CheckError(
            f"{len(errors)} errors, first {errors[0].type}: {errors[0].text}", command, log
        )
    allowed = sorted({f.type for f in findings if f.allowed})
    others = sorted({f"{f.level.lower()} {f.type}" for f in findings if not f.allowed})
    said = [f"allowed: {', '.join(allowed)}"] if allowed else []
    said += [f"not errors: {', '.join(others)}"] if others else []
    return "; ".join(["no error of the tree's own checkpatch.pl", *said])


def _same_code(subject: PatchedVariant) -> str:
    """Hold the applied files to the variants that check has run, outside of the kernel."""
    for variant in subject.variants:
        aim = routine.find(variant, subject.tree)
        try:
            failure = routine.difference(variant, aim, subject.tree, dict(subject.files))
        except InputError as error:
            failure = str(error)
        if failure:
            raise CheckError(f"{variant.id} in {aim.file} is not the code checked: {failure}")
    names = ", ".join(v.name for v in subject.variants)
    count = len(touched(subject.patch)) if subject.patch else 0
    return f"the {count} files applied assemble to the code of {names}"
