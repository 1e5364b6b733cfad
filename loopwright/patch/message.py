"""Write a patch's message: subject, why, evidence, trailers."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.kernels import Kernel, Variant
from loopwright.patch import tables
from loopwright.patch.evidence import Evidence
from loopwright.patch.target import Target, place, symbol, together

WIDTH = 75
_SUBJECT_WIDTH = 70


def subject(variant: Variant) -> str:
    """Return the subject line: the subsystem, then what the patch does; at most 75 columns."""
    what = variant.subject or f"{variant.summary[:1].upper()}{variant.summary[1:]}"
    line = f"{place(variant).prefix or _prefix(place(variant).file)}: {what}"
    if len(line) <= WIDTH:
        return line
    if variant.subject:
        raise InputError(
            f"the subject of {variant.id} is {len(line)} columns wide, a patch's has at most "
            f"{WIDTH}: {line}"
        )
    return textwrap.shorten(line, _SUBJECT_WIDTH, placeholder="")


def _prefix(file: str) -> str:
    """Derive a subsystem from a path: arch/x86/lib/x.S is x86/lib, fs/eventpoll.c eventpoll."""
    parts = file.split("/")
    if parts[0] == "arch":
        return "/".join(parts[1:3]) if parts[1] == "x86" else ": ".join(parts[1:3])
    return re.sub(r"\.\w+$", "", parts[-1])


def body(variant: Variant, aim: Target, evidence: Evidence, also: Sequence[str]) -> str:
    """Return the body: why, the evidence for and about the change, without trailers.

    also holds paragraphs about what else the patch changes.
    """
    kernel = kernels.load(variant.kernel)
    why = variant.why or f"{aim.name}(): {variant.summary}."
    parts = [*_paragraphs(why), *(_wrap(text) for text in also)]
    for one in together(variant):
        parts += _predicted(kernel, one, evidence)
    if all(_pair(kernel, one, evidence.measurements)[1].empty for one in together(variant)):
        why = f": {evidence.unmeasured}" if evidence.unmeasured else ""
        parts.append(_wrap(f"Not measured on hardware{why}."))
    for one in together(variant):
        parts += _measured(kernel, one, evidence)
        parts += _checked(kernel, one, evidence)
    return "\n\n".join([*parts, *_recommended(evidence)])


def notes(variant: Variant, aim: Target, version: str, evidence: Evidence, *more: str) -> str:
    """Return what stands below the line that git cuts: where it was made, what is not known."""
    kernel = kernels.load(variant.kernel)
    lines = [f"Made against {aim.file} of Linux {version}.", *more]
    for one in together(variant):
        lines += tables.unpredicted(*_pair(kernel, one, evidence.predictions))
    return "\n\n".join(_wrap(line) for line in dict.fromkeys(lines))


def trailers(kernel: Kernel, signed_off: str) -> list[str]:
    """Return the trailer lines; signed_off is "Name <address>" or empty."""
    lines = [f"Fixes: {fixed}" for fixed in kernel.fixes]
    lines += [f"Link: {link}" for link in kernel.links]
    return lines + ([f"Signed-off-by: {signed_off}"] if signed_off else [])


def _paragraphs(text: str) -> list[str]:
    return [_wrap(part) for part in re.split(r"\n\s*\n", text.strip())]


def _wrap(text: str) -> str:
    return textwrap.fill(
        " ".join(text.split()), WIDTH - 3, break_long_words=False, break_on_hyphens=False
    )


def _pair(kernel: Kernel, variant: Variant, rows: pd.DataFrame) -> tuple[pd.DataFrame, ...]:
    """Return the rows of the baseline and of the variant."""
    baseline = kernel.routines[variant.routine].baseline
    if rows.empty:
        return rows, rows
    rows = rows[rows["kernel"] == kernel.id]
    return rows[rows["variant"] == baseline], rows[rows["variant"] == variant.name]


def _predicted(kernel: Kernel, variant: Variant, evidence: Evidence) -> list[str]:
    base, ours = _pair(kernel, variant, evidence.predictions)
    unit = kernel.routines[variant.routine].contract.unit
    if base.empty and ours.empty:
        return []
    table = tables.predictions(base, ours)
    of = "iteration of the main loop" if unit == "iteration" else "call"
    head = (
        f"Predicted, not measured: cycles per {of} of {symbol(variant)}(), in brackets bytes per "
        f"cycle (baseline: {kernel.routines[variant.routine].baseline}, patched: {variant.name}):"
    )
    if not table:
        return [_wrap(f"No model has a figure for {symbol(variant)}().")]
    return [_wrap(head), table]


def _measured(kernel: Kernel, variant: Variant, evidence: Evidence) -> list[str]:
    base, ours = _pair(kernel, variant, evidence.measurements)
    parts = tables.measurements(base, ours)
    return [part if part.startswith("  ") else _wrap(part) for part in parts]


def _checked(kernel: Kernel, variant: Variant, evidence: Evidence) -> list[str]:
    base, ours = _pair(kernel, variant, evidence.checks)
    if ours.empty:
        return [_wrap(f"{symbol(variant)}() was not run against its contract.")]
    row = ours.iloc[0]
    if not bool(row["passed"]):
        raise InputError(f"{variant.id} breaks its contract, no patch: {row['failure']}")
    text = (
        f"{symbol(variant)}() was run in user space against its contract and held it in "
        f"{int(row['cases'])} cases"
    )
    note = _text(row.get("note"))
    text += f" ({note})" if note else ""
    text += "."
    if _number(row, "entries"):
        text += (
            f" {_number(row, 'entries_hit')} of its {_number(row, 'entries')} exception table "
            "entries were hit."
        )
    over = _number(row, "over_report_bytes")
    if over is not None:
        text += f" After a fault it reports at most {over} bytes too many as not done"
        known = None if base.empty else _number(base.iloc[0], "over_report_bytes")
        text += f", the baseline {known}." if known is not None else "."
    return [_wrap(text)]


def _number(row: "pd.Series[Any]", column: str) -> int | None:
    value = row.get(column)
    return None if value is None or pd.isna(value) else int(value)


def _recommended(evidence: Evidence) -> list[str]:
    said = evidence.summary.strip()
    if not said:
        return []
    sure = f" (confidence: {evidence.confidence})" if evidence.confidence else ""
    return [_wrap(f"loopwright's recommendation: {said}{sure}")]


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def too_wide(lines: Iterable[str]) -> str:
    """Return the first line wider than a commit message may be, links aside, or ""."""
    return next((line for line in lines if len(line) > WIDTH and "://" not in line), "")
