"""Write a patch's message: subject, why, evidence, trailers."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from loopwright import kernels
from loopwright.check import contract_of, tried
from loopwright.errors import InputError
from loopwright.kernels import Kernel, Variant
from loopwright.patch import tables
from loopwright.patch.evidence import Evidence
from loopwright.patch.target import place, together

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


class Writer:
    """Writes what a patch says of its variant, and of those of other routines made with it.

    names holds for each routine the name of its function in the tree.
    """

    def __init__(self, variant: Variant, names: Mapping[str, str], evidence: Evidence) -> None:
        self.variant, self.names, self.evidence = variant, names, evidence
        self.kernel = kernels.load(variant.kernel)
        self.variants = together(variant)

    def body(self, also: Sequence[str]) -> str:
        """Return the body: why, and the evidence, without trailers.

        also holds paragraphs about what else the patch changes. InputError where a variant broke
        its contract.
        """
        why = self.variant.why or f"{self.names[self.variant.routine]}(): {self.variant.summary}."
        parts = [*_paragraphs(why), *(_wrap(text) for text in also)]
        for one in self.variants:
            parts += self._predicted(one)
        if all(self._pair(one, self.evidence.measurements)[1].empty for one in self.variants):
            reason = f": {self.evidence.unmeasured}" if self.evidence.unmeasured else ""
            parts.append(_wrap(f"Not measured on hardware{reason}."))
        for one in self.variants:
            parts += self._measured(one)
            parts.append(_wrap(self._checked(one)))
        if said := self.evidence.summary.strip():
            sure = f" (confidence: {self.evidence.confidence})" if self.evidence.confidence else ""
            parts.append(_wrap(f"loopwright's recommendation: {said}{sure}"))
        return "\n\n".join(parts)

    def below(self, *lines: str) -> str:
        """Return what stands below the line at which git cuts: lines, and why figures lack."""
        every = list(lines)
        for one in self.variants:
            every += tables.unpredicted(*self._pair(one, self.evidence.predictions))
        return "\n\n".join(_wrap(line) for line in dict.fromkeys(every))

    def _name(self, one: Variant) -> str:
        return f"{self.names[one.routine]}()"

    def _baseline(self, one: Variant) -> str:
        own = self.kernel.routines[one.routine].baseline
        return self.evidence.baselines.get(one.routine, own)

    def _pair(self, one: Variant, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the rows of the baseline and of the variant."""
        if rows.empty:
            return rows, rows
        rows = rows[rows["kernel"] == self.kernel.id]
        return rows[rows["variant"] == self._baseline(one)], rows[rows["variant"] == one.name]

    def _predicted(self, one: Variant) -> list[str]:
        base, ours = self._pair(one, self.evidence.predictions)
        routine = self.kernel.routines[one.routine]
        if base.empty and ours.empty:
            return []
        table = tables.predictions(base, ours)
        if not table:
            return [_wrap(f"No model has a figure for {self._name(one)}.")]
        of = "call" if routine.contract.unit == "call" else "iteration of the main loop"
        head = (
            f"Predicted, not measured: cycles per {of} of {self._name(one)}, in brackets bytes per "
            f"cycle (baseline: {self._baseline(one)}, patched: {one.name}):"
        )
        return [_wrap(head), table]

    def _measured(self, one: Variant) -> list[str]:
        base, ours = self._pair(one, self.evidence.measurements)
        parts = tables.measurements(base, ours, self._name(one))
        return [part if part.startswith("  ") else _wrap(part) for part in parts]

    def _checked(self, one: Variant) -> str:
        base, ours = self._pair(one, self.evidence.checks)
        if ours.empty:
            return f"{self._name(one)} was not run against its contract."
        row = ours.iloc[0]
        if not bool(row["passed"]):
            raise InputError(f"{one.id} breaks its contract, no patch: {row['failure']}")
        text = (
            f"{self._name(one)} was run in user space against its contract, over "
            f"{tried(contract_of(one))}: it held in all {_number(row, 'cases')} cases."
        )
        if _number(row, "entries"):
            text += (
                f" {_number(row, 'entries_hit')} of its {_number(row, 'entries')} exception table "
                "entries were hit."
            )
        over = _number(row, "over_report_bytes")
        if over:
            text += f" After a fault it reports up to {over} bytes too many as not done"
            known = None if base.empty else _number(base.iloc[0], "over_report_bytes")
            text += f", the baseline up to {known}." if known is not None else "."
        return text


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


def _number(row: "pd.Series[Any]", column: str) -> int | None:
    value = row.get(column)
    return None if value is None or pd.isna(value) else int(value)


def too_wide(lines: Iterable[str]) -> str:
    """Return the first line wider than a commit message may be, links aside, or ""."""
    return next((line for line in lines if len(line) > WIDTH and "://" not in line), "")
