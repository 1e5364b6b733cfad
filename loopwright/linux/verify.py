"""Verify a patch on its tree in tiers: applied, built and run, booted.

Each tier has a generator of checks; a check returns its result, or fails with the reason and the
command that repeats it.
"""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from loopwright.errors import InputError
from loopwright.linux import boot_tier, build, mail, object_tier, routines
from loopwright.linux.trees import GitError
from loopwright.linux.verification import (
    COLUMNS,
    NOT_PROVEN,
    Check,
    CheckError,
    NotCovered,
    OnCheck,
    PatchedVariant,
    Row,
    Tier,
    outcomes,
)


def checks(subject: PatchedVariant) -> Tier:
    """Yield the checks of tier apply."""
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
        files = mail.applied(subject.tree, patch)
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
    if errors := mail.errors(findings):
        command = ["perl", str(subject.tree.path(mail.SCRIPT)), "--show-types", str(patch)]
        summary = f"{len(errors)} errors, first {errors[0].type}: {errors[0].text}"
        raise CheckError(summary, command, mail.listed(findings))
    allowed = sorted({f.type for f in findings if f.allowed})
    tolerated = sorted({f"{f.level.lower()} {f.type}" for f in findings if not f.allowed})
    remarks = [f"allowed: {', '.join(allowed)}"] if allowed else []
    remarks += [f"not errors: {', '.join(tolerated)}"] if tolerated else []
    return "; ".join(["no error of the tree's own checkpatch.pl", *remarks])


def _same_code(subject: PatchedVariant) -> str:
    """Compare the applied files with the variants that check has run, outside of the kernel."""
    for variant in subject.variants:
        target = routines.find(variant, subject.tree)
        try:
            failure = routines.difference(variant, target, subject.tree, dict(subject.files))
        except InputError as error:
            failure = str(error)
        if failure:
            raise CheckError(f"{variant.id} in {target.file} is not the code checked: {failure}")
    names = ", ".join(v.name for v in subject.variants)
    count = len(mail.touched(subject.patch)) if subject.patch else 0
    return f"the {count} files applied assemble to the code of {names}"


TIERS: dict[str, Callable[[PatchedVariant], Tier]] = {
    "apply": checks,
    "object": object_tier.checks,
    "boot": boot_tier.checks,
}


def require(isa: str, level: str) -> None:
    """Raise InputError for a missing tool that the tiers up to a level need."""
    names = _up_to(level)
    if "object" in names:
        build.require_tools(isa)
    if "boot" in names:
        boot_tier.qemu_program(isa)


def _up_to(level: str) -> list[str]:
    if level not in TIERS:
        raise InputError(f"no tier {level!r}: verify by {', '.join(TIERS)}")
    return list(TIERS)[: list(TIERS).index(level) + 1]


def run(subject: PatchedVariant, level: str, on_check: OnCheck | None = None) -> pd.DataFrame:
    """Verify a subject up to the tier `level`; one row a check (see verification.COLUMNS).

    Each row is also handed to on_check as soon as it is there. A tier whose failure makes the next
    ones meaningless does not keep them from running: each says what it finds. InputError if a
    tool or a whole tree is missing.
    """
    rows: list[Row] = []
    for name in _up_to(level):
        again = shlex.join(
            ["loopwright", "patch", subject.variant.id, "--tree", str(subject.tree.root),
             "-o", "DIR", "--verify", name]
        )  # fmt: skip
        rows += outcomes(TIERS[name](subject), subject.variant.id, name, again, on_check)
    return pd.DataFrame(rows, columns=COLUMNS)


def open_points(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the unproven checks among the rows of run, each with its tier and reason."""
    unproven = rows[rows["status"] == NOT_PROVEN].to_dict("records")
    return tuple(f"{row['check']} (tier {row['tier']}): {row['what']}" for row in unproven)
