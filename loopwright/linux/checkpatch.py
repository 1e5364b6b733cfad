"""Run a kernel tree's own scripts/checkpatch.pl on a patch and weigh what it finds."""

import re
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from loopwright.errors import InputError
from loopwright.linux.trees import Tree

SCRIPT = "scripts/checkpatch.pl"
_ALLOWED = Path(__file__).with_name("checkpatch.toml")
_FINDING = re.compile(r"^(?:.*?:(\d+): )?(ERROR|WARNING|CHECK):([A-Z0-9_]+): (.*)$")


@dataclass(frozen=True)
class Complaint:
    """One thing that checkpatch.pl says; allowed holds the reason why it may stand, or "" ."""

    level: str
    type: str
    text: str
    line: int | None
    allowed: str


@dataclass(frozen=True)
class Allowance:
    """A type of finding that may stand, where its text and the patch's line match."""

    type: str
    matches: str
    reason: str
    unsigned: bool


@cache
def allowances() -> tuple[Allowance, ...]:
    """Return the allow-list, checkpatch.toml."""
    with _ALLOWED.open("rb") as file:
        data = tomllib.load(file)
    return tuple(
        Allowance(e["type"], e.get("matches", ""), e["reason"], e.get("unsigned", False))
        for e in data["allow"]
    )


def run(tree: Tree, patch: Path, *, signed: bool) -> tuple[Complaint, ...]:
    """Return what the tree's checkpatch.pl finds in a patch file; InputError where it cannot run.

    signed says whether the patch has a Signed-off-by: some findings are allowed only without.
    """
    patch = patch.resolve()
    script = tree.path(SCRIPT)
    if not script.is_file():
        raise InputError(f"{tree} has no {SCRIPT}, which every patch is held to")
    whole = all(
        (tree.root / part).exists()
        for part in ("COPYING", "CREDITS", "MAINTAINERS", "README", "Documentation", "drivers")
    )
    command = [
        "perl", str(script), *([f"--root={tree.root}"] if whole else ["--no-tree"]),
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
        _weighed(match, lines, signed)
        for match in map(_FINDING.match, done.stdout.splitlines())
        if match
    )
    if done.returncode and not findings:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise InputError(f"{script} failed: {said}")
    return findings


def _weighed(match: re.Match[str], lines: list[str], signed: bool) -> Complaint:
    number = int(match[1]) if match[1] else None
    line = lines[number - 1] if number and number <= len(lines) else ""
    subject = f"{match[4]}\n{line}"
    reason = next(
        (
            a.reason
            for a in allowances()
            if a.type == match[3]
            and not (a.unsigned and signed)
            and re.search(a.matches, subject, re.MULTILINE)
        ),
        "",
    )
    return Complaint(match[2], match[3], match[4], number, reason)
