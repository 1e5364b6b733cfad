"""Statement in a patch's message of how far it was run, and of the rest."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from loopwright import kernels
from loopwright.checking.check import tried
from loopwright.code import assemble, loops
from loopwright.errors import InputError
from loopwright.judging import call_costs
from loopwright.judging.call_costs import Place
from loopwright.kernels import Variant, contract_of


def checked(one: Variant, name: str, base: pd.DataFrame, ours: pd.DataFrame) -> str:
    """Return the sentences on the contract; InputError where the variant breaks it.

    base and ours are rows of check.run.
    """
    if ours.empty:
        return f"{name} was not run against its contract."
    row = ours.iloc[0]
    if not bool(row["passed"]):
        raise InputError(f"{one.id} breaks its contract, no patch: {row['failure']}")
    text = (
        f"{name} was run in user space against its contract, over {tried(contract_of(one))}: it "
        f"held in all {_number(row, 'cases')} cases."
    )
    if entries := _number(row, "entries"):
        hit = _number(row, "entries_hit") or 0
        text += f" {hit} of its {entries} exception table entries were hit"
        why = _why_not(one, row)
        text += f"; {'; '.join(why)}." if why else "."
    over = _number(row, "over_report_bytes")
    if over:
        text += f" After a fault it reports up to {over} bytes too many as not done"
        known = None if base.empty else _number(base.iloc[0], "over_report_bytes")
        text += f", what is there now up to {known}." if known is not None else "."
    if not base.empty and not bool(base.iloc[0]["passed"]):
        text += f" What is there now was run, too, and breaks it: {base.iloc[0]['failure']}."
    return text


def _why_not(one: Variant, row: "pd.Series[Any]") -> list[str]:
    """Say of exception table entries that no case hit why that is so."""
    elsewhere, here = _unhit(one, row)
    said = []
    if elsewhere:
        belong = "belongs" if elsewhere == 1 else "belong"
        said.append(f"{elsewhere} more {belong} to code for other features of the CPU")
    routine = kernels.load(one.kernel).routines[one.routine]
    if here:
        why = f": {routine.unhit}" if routine.unhit else ", which nothing explains"
        said.append(f"{here} never {'was' if here == 1 else 'were'} the first to fault{why}")
    return said


def _unhit(one: Variant, row: "pd.Series[Any]") -> tuple[int, int]:
    """Count entries that were not hit: in code that was not run, or not chosen; and others."""
    places = [int(word, 16) for word in str(row.get("unhit") or "").split()]
    if not places:
        return 0, 0
    code = assemble.user_code(one)
    ran = loops.reached(code)
    moving = {i.address for i in code.instructions if i.read_bytes or i.written_bytes}
    here = sum(at in ran and at in moving for at in places)
    return len(places) - here, here


def unproven(one: Variant, name: str, ours: pd.DataFrame) -> list[str]:
    """Return what running the variant against its contract left open."""
    if ours.empty:
        return [f"that {name} holds its contract"]
    elsewhere, here = _unhit(one, ours.iloc[0])
    count = elsewhere + here
    which = "entry" if count == 1 else "entries"
    return [f"{count} exception table {which} of {name}, which no case hit"] if count else []


def left_out(base: pd.DataFrame, ours: pd.DataFrame) -> str:
    """Return what user space leaves out of what was measured, or nothing; rows of measure.run."""
    notes = [str(note) for rows in (base, ours) if len(rows) for note in rows["note"].dropna()]
    parts = [part for note in notes for part in note.split("; ") if part.startswith("without ")]
    if not parts:
        return ""
    return f", {parts[0]}, so that these figures are of the rest and no measure of the patch"


def missing(base: pd.DataFrame, ours: pd.DataFrame, asked: Sequence[Place]) -> list[str]:
    """Say how many of the points that a comparison rests on are missing, if any are."""
    if base.empty or ours.empty:
        return []
    out = []
    for core in map(str, ours["microarch"].unique()):
        mine = ours[ours["microarch"] == core]
        theirs = base[base["microarch"] == core]
        if theirs.empty:
            continue
        known = [
            call_costs.measured_calls(rows, str(rows["variant"].iloc[0])) for rows in (theirs, mine)
        ]
        lacking = len(set(asked) - call_costs.paired_calls(*known).keys())
        if lacking:
            out.append(
                f"{lacking} of {len(asked)} points that a comparison rests on were refused or not "
                f"measured on {core or 'this machine'}: the rest says nothing of the whole."
            )
    return out


def _number(row: "pd.Series[Any]", column: str) -> int | None:
    value = row.get(column)
    return None if value is None or pd.isna(value) else int(value)
