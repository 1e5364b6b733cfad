"""The terms of verification: the subject, a check, its outcome."""

import hashlib
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright import kernels, paths
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.linux import routines
from loopwright.linux.build import BuildError
from loopwright.linux.trees import GitError, Repository, Tree

PASS, FAIL = "pass", "fail"
NOT_COVERED = "not covered"  # there is nothing of that kind to check
NOT_PROVEN = "not proven"  # there is, and it cannot be checked: the tier does not pass
COLUMNS = ["variant", "tier", "check", "status", "what", "seconds", "command", "log"]


class CheckError(Exception):
    """A check that fails: one line, the command that repeats it, and all that was said."""

    def __init__(self, line: str, command: Sequence[str] = (), log: str = "") -> None:
        super().__init__(line)
        self.command, self.log = list(command), log


class NotCovered(Exception):  # noqa: N818 (it is no error)
    """A check that says nothing about this patch: why."""


class NotProven(Exception):  # noqa: N818 (nothing is known to be wrong)
    """Reason for which a tier's purpose cannot be shown of this patch."""


@dataclass(frozen=True)
class Check:
    """One check: run says what it did, or raises CheckError, NotCovered or NotProven."""

    name: str
    run: Callable[[], str]


# A tier yields its checks one by one and is told whether each one passed.
Tier = Generator[Check, bool, None]


def outcome(variant: str, tier: str, check: Check, again: str) -> dict[str, object]:
    """Run a check and return its row (COLUMNS); again is the command that repeats the tier."""
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
        log = _keep(f"{variant}-{tier}-{check.name}", f"$ {command}\n{what}\n\n{log_of}\n")
    seconds = round(time.monotonic() - started, 2)
    row = (variant, tier, check.name, status, what, seconds, command, log)
    return dict(zip(COLUMNS, row, strict=True))


def _keep(name: str, text: str) -> str:
    """Keep a log and return where."""
    safe = "".join(c if c.isalnum() or c in "-." else "-" for c in name)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    path = paths.build_dir() / "verify" / "logs" / f"{safe}-{digest}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@dataclass(frozen=True)
class PatchedVariant:
    """A tree with changes: files holds the text (by path) of each file that differs from it.

    variants are those whose routines it holds, one a routine. patch is the file that makes the
    changes, or None where the tree is looked at as it is.
    """

    tree: Tree
    variants: tuple[Variant, ...]
    files: Mapping[str, str]
    patch: Path | None

    @property
    def variant(self) -> Variant:
        """Return the variant that the patch was made for."""
        return self.variants[0]

    @property
    def isa(self) -> str:
        """Return the ISA of the kernel."""
        return kernels.load(self.variant.kernel).isa


def of_patch(variant: Variant, tree: Tree, patch: Path) -> PatchedVariant:
    """Return the subject that a patch file makes of a tree; InputError where git am fails."""
    try:
        files = applied(tree, patch)
    except GitError as error:
        raise InputError(f"git am does not take {patch} on {tree}: {error}") from None
    others = [v for v in routines.together(variant) if v != variant]
    return PatchedVariant(tree, (variant, *others), files, patch)


def touched(patch: Path) -> list[str]:
    """Return the files that a patch changes."""
    return re.findall(r"(?m)^\+\+\+ b/(\S+)$", patch.read_text(encoding="utf-8"))


def applied(tree: Tree, patch: Path) -> dict[str, str]:
    """Apply a patch by git am to the tree's own files in a scratch repository; GitError."""
    files = touched(patch)
    with tempfile.TemporaryDirectory(prefix="loopwright-verify-") as folder:
        repository = Repository(Path(folder) / "pristine", None)
        repository.commit({f: tree.read(f) for f in files}, "The files as the tree has them\n")
        repository.git("am", "-q", str(patch.resolve()))
        return {f: (repository.folder / f).read_text(encoding="utf-8") for f in files}
