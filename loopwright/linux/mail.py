"""Patch mails: formatted by git, checked by the tree's checkpatch.pl, kept only if they pass."""

import re
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from loopwright import files, paths
from loopwright.errors import InputError
from loopwright.linux.edits import Change
from loopwright.linux.trees import NOBODY, GitError, Identity, Repository, Tree

SCRIPT = "scripts/checkpatch.pl"
_ALLOW_LIST = Path(__file__).with_name("checkpatch.toml")
_PRISTINE_MESSAGE = "The files as the tree has them\n"  # the message of a commit of them
_FINDING = re.compile(r"^(?:.*?:(\d+): )?(ERROR|WARNING|CHECK):([A-Z0-9_]+): (.*)$")


@dataclass(frozen=True)
class Complaint:
    """One finding of checkpatch.pl; allowed is the reason for tolerating it, or ""."""

    level: str
    type: str
    text: str
    line: int | None
    allowed: str


Findings = tuple[Complaint, ...]


@dataclass(frozen=True)
class Allowance:
    """A type of finding that is tolerated if its text and the patch's line match."""

    type: str
    reason: str
    matches: str = ""
    unsigned: bool = False


@cache
def allowances() -> tuple[Allowance, ...]:
    """Return the allow-list, checkpatch.toml."""
    with _ALLOW_LIST.open("rb") as file:
        return tuple(Allowance(**entry) for entry in tomllib.load(file)["allow"])


def errors(findings: Findings) -> list[Complaint]:
    """Return the errors among findings that are not tolerated."""
    return [f for f in findings if f.level == "ERROR" and not f.allowed]


def listed(findings: Findings) -> str:
    """Return findings as text, a line each."""
    return "\n".join(f"{f.line}: {f.level}:{f.type}: {f.text}" for f in findings)


def checkpatch(tree: Tree, patch: Path, *, signed: bool) -> Findings:
    """Return the findings of the tree's checkpatch.pl on a patch; InputError if it cannot run.

    signed is True if the patch has a Signed-off-by: some findings are allowed only without.
    """
    patch = patch.resolve()
    script = tree.path(SCRIPT)
    if not script.is_file():
        raise InputError(f"{tree} has no {SCRIPT}, which every patch is held to")
    complete = all(
        (tree.root / part).exists()
        for part in ("COPYING", "CREDITS", "MAINTAINERS", "README", "Documentation", "drivers")
    )
    command = [
        "perl", str(script), *([f"--root={tree.root}"] if complete else ["--no-tree"]),
        "--terse", "--show-types", "--no-summary", "--color=never", str(patch),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=patch.parent, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise InputError(f"perl is not here, which {SCRIPT} needs: `apt install perl`") from None
    lines = patch.read_text(encoding="utf-8").splitlines()
    findings = tuple(
        _complaint(match, lines, signed)
        for match in map(_FINDING.match, done.stdout.splitlines())
        if match
    )
    if done.returncode and not findings:
        last_line = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise InputError(f"{script} failed: {last_line}")
    return findings


def _complaint(match: re.Match[str], lines: list[str], signed: bool) -> Complaint:
    """Return a finding of checkpatch.pl, with the reason if the allow-list has it."""
    number = int(match[1]) if match[1] else None
    line = lines[number - 1] if number and number <= len(lines) else ""
    subject = f"{match[4]}\n{line}"
    for allowed in allowances():
        applies = allowed.type == match[3] and not (allowed.unsigned and signed)
        if applies and re.search(allowed.matches, subject, re.MULTILINE):
            return Complaint(match[2], match[3], match[4], number, allowed.reason)
    return Complaint(match[2], match[3], match[4], number, "")


UNSIGNED = (
    f"No Signed-off-by, and the author {NOBODY} stands for the user, whom git does not know here: "
    "set user.name and user.email and make the patch again, or commit --amend --reset-author -s."
)


class PatchError(InputError):
    """A patch that fails its own tests and is not kept; log has the whole output."""

    def __init__(self, line: str, log: str) -> None:
        super().__init__(line)
        self.log = log


@dataclass(frozen=True)
class Mail:
    """A patch mail: changes, message, and notes below the line at which git cuts.

    author is None if git has no identity. rfc marks a patch for discussion, not for merging.
    """

    changes: tuple[Change, ...]
    message: str
    below: str
    author: Identity | None
    rfc: bool

    def keep(self, tree: Tree, out: Path, name: str) -> tuple[Path, Findings]:
        """Test the patch and write it to a folder, whole or not at all.

        git am has to accept it on the tree's files, and the tree's checkpatch.pl may have no error
        except those of the allow-list. Returns the file and all findings. PatchError if it
        fails; the output is then in a log.
        """
        with tempfile.TemporaryDirectory(prefix="loopwright-patch-") as folder:
            try:
                patch = _formatted(Path(folder), self)
                intended = {change.file: change.new for change in self.changes}
                findings = _tested(tree, patch, intended, signed=self.author is not None)
            except PatchError as error:
                log = f"patch-{name.replace('/', '-')}.log"
                where = files.written(paths.build_dir() / log, error.log)
                raise PatchError(f"{error}; all of it is in {where}", error.log) from None
            return files.written(out / patch.name, patch.read_bytes()), findings


def _formatted(folder: Path, mail: Mail) -> Path:
    """Commit the changes in a scratch repository and return the file of git format-patch."""
    try:
        work = Repository(folder / "work", mail.author)
        work.commit({c.file: c.old for c in mail.changes}, _PRISTINE_MESSAGE)
        work.commit({c.file: c.new for c in mail.changes}, mail.message)
        work.git("notes", "add", "-m", mail.below)
        options = ["--zero-commit", "--filename-max-length=120", "--notes"]
        options += ["--rfc"] if mail.rfc else []
        name = work.git("format-patch", "-1", *options, "-o", str(folder / "made"))
    except GitError as error:
        raise PatchError(f"the patch cannot be made: {error}", str(error)) from None
    return Path(name.strip())


def touched(patch: Path) -> list[str]:
    """Return the files that a patch changes."""
    return re.findall(r"(?m)^\+\+\+ b/(\S+)$", patch.read_text(encoding="utf-8"))


def applied(tree: Tree, patch: Path) -> dict[str, str]:
    """Return the files that git am makes of the tree's own, in a scratch repository; GitError."""
    files = touched(patch)
    with tempfile.TemporaryDirectory(prefix="loopwright-verify-") as folder:
        repository = Repository(Path(folder) / "pristine", None)
        repository.commit({f: tree.read(f) for f in files}, _PRISTINE_MESSAGE)
        repository.git("am", "-q", str(patch.resolve()))
        return {f: (repository.folder / f).read_text(encoding="utf-8") for f in files}


def _tested(tree: Tree, patch: Path, intended: Mapping[str, str], *, signed: bool) -> Findings:
    """Return the findings on a patch; PatchError if it makes other files or has an error."""
    try:
        patched = applied(tree, patch)
    except GitError as error:
        raise PatchError("git am does not take the patch", str(error)) from None
    for file in {**intended, **patched}:
        if patched.get(file) != intended.get(file):
            raise PatchError(f"git am made another {file} than was meant", patch.read_text())
    findings = checkpatch(tree, patch, signed=signed)
    if severe := errors(findings):
        raise PatchError(
            f"{SCRIPT} of {tree} finds {len(severe)} errors, first {severe[0].type} in line "
            f"{severe[0].line}: {severe[0].text}",
            f"{listed(findings)}\n\n{patch.read_text()}",
        )
    return findings
