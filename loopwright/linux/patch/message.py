"""Write a patch's message: subject, why, evidence, trailers."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.judging import call_costs
from loopwright.kernels import Kernel, Variant
from loopwright.linux.patch import message_tables, proof
from loopwright.linux.patch.evidence import Evidence, Judged
from loopwright.linux.routine import place, together

WIDTH = 75
_SUBJECT_WIDTH = 70


def subject(variant: Variant) -> str:
    """Return the subject line: the subsystem, then what the patch does; at most 75 columns."""
    what = variant.subject or f"{variant.summary[:1].upper()}{variant.summary[1:]}"
    line = f"{place(variant).prefix or prefix(place(variant).file)}: {what}"
    if len(line) <= WIDTH:
        return line
    if variant.subject:
        raise InputError(
            f"the subject of {variant.id} is {len(line)} columns wide, a patch's has at most "
            f"{WIDTH}: {line}"
        )
    return textwrap.shorten(line, _SUBJECT_WIDTH, placeholder="")


def prefix(file: str) -> str:
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

    @property
    def doubtful(self) -> bool:
        """Say whether something speaks against a variant, or nothing for it."""
        return any(self._judged(one).doubt for one in self.variants)

    def body(self, also: Sequence[str]) -> str:
        """Return the body: what speaks against it, why, and the evidence, without trailers.

        also holds paragraphs about what else the patch changes. InputError where a variant broke
        its contract.
        """
        why = self.variant.why or f"{self.names[self.variant.routine]}(): {self.variant.summary}."
        parts = self._of_each("doubt")
        parts += [*_paragraphs(why), *(wrap(text) for text in also)]
        parts += self._by_size()
        for one in self.variants:
            parts += self._predicted(one)
        for one in self.variants:
            parts += self._measured(one)
        if not self._was_measured():
            parts.append(wrap(self._not_measured()))
        for one in self.variants:
            base, ours = self._pair(one, self.evidence.checks)
            parts.append(wrap(proof.checked(one, self._name(one), base, ours)))
        return "\n\n".join([*parts, *self._of_each("proof")])

    def below(self, *lines: str) -> str:
        """Return what stands below the line at which git cuts: lines, and what is not proven."""
        open_ = [] if self._was_measured() else ["its speed on hardware"]
        if silent := self._silent():
            of = (f"{' and '.join(models)} ({', '.join(c)})" for c, models in silent.items())
            open_.append(f"figures before and after of {', '.join(of)}")
        for one in self.variants:
            _, ours = self._pair(one, self.evidence.checks)
            open_ += proof.unproven(one, self._name(one), ours)
        open_ += self.evidence.unproven
        said = [f"Not shown: {'; '.join(open_)}."] if open_ else []
        return "\n\n".join(wrap(line) for line in dict.fromkeys([*lines, *said]))

    def _silent(self) -> dict[tuple[str, ...], list[str]]:
        """Return the models without a figure, by the cores on which they have none."""
        cores: dict[str, list[str]] = {}
        for one in self.variants:
            pair = self._pair(one, self.evidence.table)
            for model, lacking in message_tables.unpredicted(*pair).items():
                cores.setdefault(model, []).extend(lacking)
        out: dict[tuple[str, ...], list[str]] = {}
        for model, lacking in cores.items():
            out.setdefault(tuple(dict.fromkeys(lacking)), []).append(model)
        return out

    def _judged(self, one: Variant) -> Judged:
        return self.evidence.judged.get(one.name, Judged())

    def _of_each(self, which: str) -> list[str]:
        """Return the sentences on each variant, named where there are several."""
        several = len(self.variants) > 1
        return [
            wrap(f"{self._name(one)}: {said}" if several else said)
            for one in self.variants
            if (said := getattr(self._judged(one), which))
        ]

    def _by_size(self) -> list[str]:
        """Return the bands of sizes, what they rest on, and what would decide, a paragraph each."""
        parts = []
        several = len(self.variants) > 1
        for one in self.variants:
            judged = self._judged(one)
            name = f" of {self._name(one)}" if several else ""
            if judged.by_size:
                parts.append(f"Speed{name} against what is there, by size: {judged.by_size}.")
            if judged.decides:
                parts.append(f"What would decide{name}: {judged.decides}.")
        if rests := dict.fromkeys(filter(None, (self._judged(v).rests_on for v in self.variants))):
            parts.append(f"This rests on: {'; '.join(rests)}.")
        return [wrap(part) for part in parts]

    def _name(self, one: Variant) -> str:
        return f"{self.names[one.routine]}()"

    def _baseline(self, one: Variant) -> str:
        own = self.kernel.routines[one.routine].baseline
        return self.evidence.baselines.get(one.routine, own)

    def _words(self, name: str) -> str:
        """Return what a variant does, in words: its name means nothing to a list."""
        own = self.kernel.variants.get(name)
        return self.evidence.words.get(name, own.summary if own else name)

    def _pair(self, one: Variant, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the rows of the baseline and of the variant."""
        if rows.empty:
            return rows, rows
        rows = rows[rows["kernel"] == self.kernel.id]
        return rows[rows["variant"] == self._baseline(one)], rows[rows["variant"] == one.name]

    def _predicted(self, one: Variant) -> list[str]:
        base, ours = self._pair(one, self.evidence.table)
        if base.empty and ours.empty:
            return []
        judged = self._judged(one)
        table = message_tables.predictions(base, ours, judged.off_by)
        if not table and judged.by_size:
            return []  # said of whole calls
        if not table:
            return [wrap(f"No model has a figure for {self._name(one)} before and after.")]
        head = (
            f"Predicted, not measured: cycles for {self._unit(one)} of {self._name(one)}, now "
            f"({self._words(self._baseline(one))}) and patched ({self._words(one.name)}); off by: "
            "how far that model was from measurements of that core, ? where there are none"
        )
        once = "; +N: cycles to start a string instruction, ? not known" if " +" in table else ""
        return [wrap(f"{head}{once}:"), table]

    def _unit(self, one: Variant) -> str:
        contract = self.kernel.routines[one.routine].contract
        loop = "" if contract.unit == "call" else " in the main loop"
        return f"{contract.unit_name}{loop}"

    def _measured(self, one: Variant) -> list[str]:
        pairs = (
            self._pair(one, rows) for rows in (self.evidence.table, self.evidence.measurements)
        )
        (was, now), (base, ours) = pairs
        asked = call_costs.judged_places(self.kernel.routines[one.routine].contract, None)
        part = proof.left_out(base, ours)
        parts = []
        for where, table in message_tables.loops(was, now):
            parts += [f"Measured on {where}{part}: cycles for {self._unit(one)}:", table]
        for where, table in message_tables.calls(base, ours, asked):
            head = f"Measured on {where}{part}: cycles a call of {self._name(one)} over the "
            parts += [f"{head}alignments tried, by size:", table]
        parts += proof.missing(base, ours, asked)
        return [text if text.startswith("  ") else wrap(text) for text in parts]

    def _was_measured(self) -> bool:
        rows = self.evidence.measurements
        both = (self._pair(one, rows) for one in self.variants)
        return any(len(ours) and ours["cycles"].notna().any() for _, ours in both)

    def _not_measured(self) -> str:
        reason = f": {self.evidence.unmeasured}" if self.evidence.unmeasured else ""
        return f"Not measured on hardware{reason}."


def trailers(kernel: Kernel, signed_off: str) -> list[str]:
    """Return the trailer lines; signed_off is "Name <address>" or empty."""
    lines = [f"Fixes: {fixed}" for fixed in kernel.fixes]
    lines += [f"Link: {link}" for link in kernel.links]
    return lines + ([f"Signed-off-by: {signed_off}"] if signed_off else [])


def _paragraphs(text: str) -> list[str]:
    return [wrap(part) for part in re.split(r"\n\s*\n", text.strip())]


def wrap(text: str) -> str:
    """Fill a paragraph to the width of a commit message."""
    return textwrap.fill(
        " ".join(text.split()), WIDTH - 3, break_long_words=False, break_on_hyphens=False
    )


def too_wide(lines: Iterable[str]) -> str:
    """Return the first line wider than a commit message may be, links aside, or ""."""
    return next((line for line in lines if len(line) > WIDTH and "://" not in line), "")
