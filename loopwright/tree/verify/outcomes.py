"""What a check of a tier says: it passed, failed, or does not cover the patch, and how long."""

import hashlib
import shlex
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from loopwright import paths
from loopwright.tree.verify.building import BuildError

PASS, FAIL, NOT_COVERED = "pass", "fail", "not covered"
COLUMNS = ["variant", "tier", "check", "status", "what", "seconds", "command", "log"]


class CheckError(Exception):
    """A check that fails: one line, the command that repeats it, and all that was said."""

    def __init__(self, line: str, command: Sequence[str] = (), log: str = "") -> None:
        super().__init__(line)
        self.command, self.log = list(command), log


class NotCovered(Exception):  # noqa: N818 (it is no error)
    """A check that says nothing about this patch: why."""


@dataclass(frozen=True)
class Check:
    """One check: run says what it did, or raises CheckError or NotCovered."""

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
