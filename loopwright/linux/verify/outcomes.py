"""Outcomes of a tier's checks: pass, failure, or no proof, each with its time."""

import hashlib
import shlex
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from loopwright import paths
from loopwright.linux.verify.building import BuildError

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
