"""The terms of verification: the subject, a check, its outcome."""

import hashlib
import shlex
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from loopwright import files, kernels, paths
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.linux import routines
from loopwright.linux.build import BuildError
from loopwright.linux.mail import applied
from loopwright.linux.trees import GitError, Tree

PASS, FAIL = "pass", "fail"
NOT_COVERED = "not covered"  # nothing of that kind to check
NOT_PROVEN = "not proven"  # it cannot be checked: the tier does not pass
COLUMNS = ["variant", "tier", "check", "status", "what", "seconds", "command", "log"]


class CheckError(Exception):
    """A failed check: one line, the command that repeats it, and the whole output."""

    def __init__(self, line: str, command: Sequence[str] = (), log: str = "") -> None:
        super().__init__(line)
        self.command, self.log = list(command), log


class NotCovered(Exception):  # noqa: N818 (it is no error)
    """The reason why a check does not apply to a patch."""


class NotProven(Exception):  # noqa: N818 (nothing is known to be wrong)
    """The reason why a tier cannot prove its point for a patch."""


@dataclass(frozen=True)
class Check:
    """One check: run returns its result, or raises CheckError, NotCovered or NotProven."""

    name: str
    run: Callable[[], str]


# A tier yields its checks one by one and receives whether each one passed.
Tier = Generator[Check, bool, None]
Row = dict[str, object]
OnCheck = Callable[[Row], None]


def outcomes(checks: Tier, name: str, tier: str, again: str, on_check: OnCheck | None) -> list[Row]:
    """Run the checks of a tier and return their rows; each is also passed to on_check when it ends.

    name is the subject's, again the command that repeats the tier.
    """
    rows: list[Row] = []
    with closing(checks):
        check = next(checks, None)
        while check is not None:
            rows.append(outcome(name, tier, check, again))
            if on_check:
                on_check(rows[-1])
            try:
                check = checks.send(rows[-1]["status"] == PASS)
            except StopIteration:
                check = None
    return rows


def outcome(name: str, tier: str, check: Check, again: str) -> Row:
    """Run a check and return its row (COLUMNS); name and again are those of outcomes."""
    started = time.monotonic()
    command, log = "", ""
    try:
        status, what = PASS, check.run()
    except NotCovered as reason:
        status, what = NOT_COVERED, str(reason)
    except NotProven as reason:
        status, what = NOT_PROVEN, str(reason)
    except (CheckError, BuildError) as failure:
        log_of = failure.log if isinstance(failure, CheckError) else failure.output
        status, what = FAIL, str(failure)
        command = shlex.join(failure.command) if failure.command else again
        log = _written_log(f"{name}-{tier}-{check.name}", f"$ {command}\n{what}\n\n{log_of}\n")
    seconds = round(time.monotonic() - started, 2)
    row = (name, tier, check.name, status, what, seconds, command, log)
    return dict(zip(COLUMNS, row, strict=True))


def _written_log(name: str, text: str) -> str:
    """Write a log and return its path."""
    safe = "".join(c if c.isalnum() or c in "-." else "-" for c in name)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    path = paths.build_dir() / "verify" / "logs" / f"{safe}-{digest}.log"
    return str(files.written(path, text))


@dataclass(frozen=True)
class PatchedVariant:
    """A tree with changes: files holds the text (by path) of each file that differs from it.

    variants are those whose routines it holds, one a routine. patch is the file that makes the
    changes, or None if the tree is unchanged.
    """

    tree: Tree
    variants: tuple[Variant, ...]
    files: Mapping[str, str]
    patch: Path | None

    @property
    def variant(self) -> Variant:
        return self.variants[0]

    @property
    def isa(self) -> str:
        return kernels.load(self.variant.kernel).isa


def of_patch(variant: Variant, tree: Tree, patch: Path) -> PatchedVariant:
    """Return the tree with a patch file applied; InputError if git am fails."""
    try:
        changed = applied(tree, patch)
    except GitError as error:
        raise InputError(f"git am does not take {patch} on {tree}: {error}") from None
    others = [v for v in routines.together(variant) if v != variant]
    return PatchedVariant(tree, (variant, *others), changed, patch)
