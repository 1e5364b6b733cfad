"""Verify a patch on its tree in tiers: applied, built and run, booted.

Each tier is a module with a generator of checks; a check says what it did, or why it fails and how
it is repeated.
"""

import shlex
from collections.abc import Callable, Iterator

import pandas as pd

from loopwright.errors import InputError
from loopwright.linux.verify import apply, boot, building, machines, objects
from loopwright.linux.verify.outcomes import COLUMNS, NOT_PROVEN, PASS, Tier, outcome
from loopwright.linux.verify.subject import PatchedVariant

TIERS: dict[str, Callable[[PatchedVariant], Tier]] = {
    "apply": apply.checks,
    "object": objects.checks,
    "boot": boot.checks,
}


def require(isa: str, level: str) -> None:
    """Refuse to start without what the tiers up to a level need; InputError that names it."""
    names = list(TIERS)[: list(TIERS).index(level) + 1]
    if "object" in names:
        building.require_tools(isa)
    if "boot" in names:
        machines.program(isa)


def run(
    subject: PatchedVariant, level: str, said: Callable[[dict[str, object]], None] | None = None
) -> pd.DataFrame:
    """Verify a subject up to the tier `level`; one row a check (see outcomes.COLUMNS).

    Each row is also handed to said as soon as it is there. A tier whose failure makes the next
    ones meaningless does not keep them from running: each says what it finds. InputError where a
    tool or a whole tree is missing.
    """
    if level not in TIERS:
        raise InputError(f"no tier {level!r}: verify by {', '.join(TIERS)}")
    names = list(TIERS)[: list(TIERS).index(level) + 1]
    rows = []
    for name in names:
        for row in _tier(subject, name):
            rows.append(row)
            if said:
                said(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def open_points(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return what the rows of run leave unproven, each with its tier and why."""
    left = rows[rows["status"] == NOT_PROVEN].to_dict("records")
    return tuple(f"{row['check']} (tier {row['tier']}): {row['what']}" for row in left)


def _tier(subject: PatchedVariant, name: str) -> Iterator[dict[str, object]]:
    again = shlex.join(
        ["loopwright", "patch", subject.variant.id, "--tree", str(subject.tree.root),
         "-o", "DIR", "--verify", name]
    )  # fmt: skip
    checks = TIERS[name](subject)
    try:
        check = next(checks)
        while True:
            row = outcome(subject.variant.id, name, check, again)
            yield row
            check = checks.send(row["status"] == PASS)
    except StopIteration:
        return
    finally:
        checks.close()
