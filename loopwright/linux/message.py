"""The message of a patch: subject, reason, evidence, tables, unproven points, trailers."""

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from loopwright import kernels
from loopwright.checking.check import described_cases
from loopwright.code import assemble, loops
from loopwright.errors import InputError
from loopwright.judging import call_costs
from loopwright.judging.call_costs import CallPoint, Row, signed_percent
from loopwright.judging.study import HERE, MEASURED
from loopwright.kernels import Kernel, Variant, contract_of
from loopwright.linux.routines import together, upstream_of

_WHERE = ["microarch", "source"]
_MEASURED_BY = ["microarch", "machine", "clock"]  # figures of others never meet


def prediction_table(
    base: pd.DataFrame, ours: pd.DataFrame, off_by: Mapping[tuple[str, str], float]
) -> str:
    """Return a line for each core and model with a figure of both that counts, or "".

    base and ours are rows of compare; off_by is that of Judged.
    """
    lines = [
        [
            core,
            model,
            f"{off_by[core, model]:.0f} %" if (core, model) in off_by else "?",
            *_change_cells(*pair),
        ]
        for (core, model), pair in _pairs(base, ours, measured=False).items()
    ]
    heads = ["core", "model", "off by", "now", "patched", "change"]
    return aligned(heads, lines, left=2) if lines else ""


def _pairs(
    base: pd.DataFrame, ours: pd.DataFrame, *, measured: bool
) -> dict[tuple[str, ...], tuple[Row, Row]]:
    """Return both rows of compare that count, by core and model, or by _MEASURED_BY."""
    before, after = (_figures(rows, measured=measured) for rows in (base, ours))
    return {key: (before[key], after[key]) for key in after if key in before}


def _figures(rows: pd.DataFrame, *, measured: bool) -> Mapping[tuple[str, ...], Row]:
    if rows.empty:
        return {}
    kept = (rows["source"].eq(MEASURED) == measured) & rows["cycles"].notna()
    if not measured:
        kept &= rows["excluded"].eq("")
    columns = _MEASURED_BY if measured else _WHERE
    return {tuple(str(row[c]) for c in columns): row for row in rows[kept].to_dict("records")}


def unpredicted(base: pd.DataFrame, ours: pd.DataFrame) -> dict[str, list[str]]:
    """Return by model the cores on which it lacks a figure that counts for one of the two."""
    if base.empty or ours.empty:
        return {}
    pairs = _pairs(base, ours, measured=False)
    out: dict[str, list[str]] = {}
    for core, model in ours[_WHERE].drop_duplicates().astype(str).to_numpy():
        if model != MEASURED and (core, model) not in pairs:
            out.setdefault(model, []).append(core)
    return out


def loop_tables(base: pd.DataFrame, ours: pd.DataFrame) -> list[tuple[str, str]]:
    """Return for each machine that measured both loops its description and the table."""
    heads = ["now", "patched", "change"]
    return [
        (_machine_text(*key), aligned(heads, [_change_cells(*pair, doubt=True)], left=0))
        for key, pair in _pairs(base, ours, measured=True).items()
    ]


def _machine_text(core: str, machine: str, clock: str) -> str:
    return f"{machine} ({'no core known' if core in ('', HERE) else core}), clock {clock}"


def _change_cells(before: Row, after: Row, *, doubt: bool = False) -> list[str]:
    """Return the cycles before and after, and their change in percent."""
    cells = []
    for row in (before, after):
        cycles = row["cycles_per_unit"]
        error = f" +- {_rounded_up(row['uncertainty'] * cycles / row['cycles'])}" if doubt else ""
        text = f"{cycles:.2f}" if cycles < 100 else f"{cycles:.0f}"
        cells.append(text + ("" if doubt else _startup(row)) + error)
    change = after["cycles_per_unit"] / before["cycles_per_unit"] - 1
    return [*cells, signed_percent(100 * change)]


def _startup(row: Row) -> str:
    """Return the start-up of a string instruction in cycles, "?" where unknown."""
    startup = row["startup_cycles"]
    return "" if startup == 0 else " +?" if pd.isna(startup) else f" +{startup:.0f}"


def call_tables(
    base: pd.DataFrame, ours: pd.DataFrame, judged: Sequence[CallPoint]
) -> list[tuple[str, str]]:
    """Return for each machine that measured calls of both its description, and a table by size.

    It has least and most cycles over the points of each size, and least and most change at one of
    them. judged are the points that a judgement uses: a size without one of them, for either
    variant, has a dash, since the rest would not be the same calls.
    """
    if base.empty or ours.empty:
        return []
    out = []
    of_base = dict(iter(base.groupby(_MEASURED_BY, sort=False, dropna=False)))
    for key, our_rows in ours.groupby(_MEASURED_BY, sort=False, dropna=False):
        if key in of_base and (pairs := _paired(of_base[key], our_rows)):
            sizes = sorted({point.size for point in (*judged, *pairs)})
            lines = [_size_row(size, judged, pairs) for size in sizes]
            table = aligned(["bytes", "now", "patched", "change"], lines, left=0)
            out.append((_machine_text(*map(str, key)), table))
    return out


def _paired(base: pd.DataFrame, ours: pd.DataFrame) -> Mapping[CallPoint, tuple[Row, Row]]:
    """Return the measured calls of two variants at the points where both have a figure."""
    calls = (call_costs.measured_calls(rows, str(rows["variant"].iloc[0])) for rows in (base, ours))
    return call_costs.paired_calls(*calls)


def _size_row(
    size: int, judged: Sequence[CallPoint], pairs: Mapping[CallPoint, tuple[Row, Row]]
) -> list[str]:
    points = [p for p in judged if p.size == size] or [p for p in pairs if p.size == size]
    if not all(point in pairs for point in points):
        return [str(size), "-", "-", "-"]
    measured = [pairs[point] for point in points]
    changes = [100 * (after["cycles"] / before["cycles"] - 1) for before, after in measured]
    sides = [_cycles_text([pair[n] for pair in measured]) for n in (0, 1)]
    span = _range_text([signed_percent(c).removesuffix(" %") for c in (min(changes), max(changes))])
    return [str(size), *sides, f"{span} %"]


def _cycles_text(rows: Sequence[Row]) -> str:
    cycles = [row["cycles"] for row in rows]
    doubt = max(row["uncertainty"] for row in rows)
    ends = [f"{c:.1f}" for c in (min(cycles), max(cycles))]
    return f"{_range_text(ends)} +- {_rounded_up(doubt)}"


def _rounded_up(uncertainty: float) -> str:
    """Return an uncertainty with two decimals, rounded up."""
    return f"{math.ceil(100 * uncertainty) / 100:.2f}"


def _range_text(ends: list[str]) -> str:
    return ends[0] if ends[0] == ends[1] else "..".join(ends)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """Return rows as text, indented by two; the first `left` columns are flush left."""
    table = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = "<" * left + ">" * (len(header) - left)
    shape = "  " + "  ".join(f"{{:{side}{n}}}" for side, n in zip(sides, widths, strict=True))
    return "\n".join(shape.format(*row).rstrip() for row in table)


def checked(variant: Variant, name: str, base: pd.DataFrame, ours: pd.DataFrame) -> str:
    """Return the sentences on the contract check; InputError if the variant breaks it.

    base and ours are rows of check.run.
    """
    if ours.empty:
        return f"{name} was not run against its contract."
    row = ours.iloc[0]
    if not bool(row["passed"]):
        raise InputError(f"{variant.id} breaks its contract, no patch: {row['failure']}")
    text = (
        f"{name} was run in user space against its contract, over "
        f"{described_cases(contract_of(variant))}: it held in all {_number(row, 'cases')} cases."
    )
    if entries := _number(row, "entries"):
        hits = _number(row, "entries_hit") or 0
        text += f" {hits} of its {entries} exception table entries were hit"
        reasons = _why_not(variant, row)
        text += f"; {'; '.join(reasons)}." if reasons else "."
    over = _number(row, "over_report_bytes")
    if over:
        text += f" After a fault it reports up to {over} bytes too many as not done"
        base_over = None if base.empty else _number(base.iloc[0], "over_report_bytes")
        text += f", what is there now up to {base_over}." if base_over is not None else "."
    if not base.empty and not bool(base.iloc[0]["passed"]):
        text += f" What is there now was run, too, and breaks it: {base.iloc[0]['failure']}."
    return text


def _why_not(variant: Variant, row: "pd.Series[Any]") -> list[str]:
    """Return the reasons why exception table entries were not hit, in words."""
    unreachable, reachable = _unhit(variant, row)
    reasons = []
    if unreachable:
        belong = "belongs" if unreachable == 1 else "belong"
        reasons.append(f"{unreachable} more {belong} to code for other features of the CPU")
    routine = kernels.load(variant.kernel).routines[variant.routine]
    if reachable:
        why = f": {routine.unhit}" if routine.unhit else ", which nothing explains"
        reasons.append(
            f"{reachable} never {'was' if reachable == 1 else 'were'} the first to fault{why}"
        )
    return reasons


def _unhit(variant: Variant, row: "pd.Series[Any]") -> tuple[int, int]:
    """Return the numbers of entries not hit: in code that did not run, and in code that did."""
    addresses = [int(word, 16) for word in str(row.get("unhit") or "").split()]
    if not addresses:
        return 0, 0
    code = assemble.user_code(variant)
    reachable_code = loops.reached(code)
    accessing = {i.address for i in code.instructions if i.read_bytes or i.written_bytes}
    reachable = sum(at in reachable_code and at in accessing for at in addresses)
    return len(addresses) - reachable, reachable


def unproven(variant: Variant, name: str, ours: pd.DataFrame) -> list[str]:
    """Return the points that the contract check of the variant left open."""
    if ours.empty:
        return [f"that {name} holds its contract"]
    elsewhere, here = _unhit(variant, ours.iloc[0])
    count = elsewhere + here
    which = "entry" if count == 1 else "entries"
    return [f"{count} exception table {which} of {name}, which no case hit"] if count else []


def left_out(base: pd.DataFrame, ours: pd.DataFrame) -> str:
    """Return the parts that user space leaves out of measurements; rows of measure.run."""
    notes = [str(note) for rows in (base, ours) if len(rows) for note in rows["note"].dropna()]
    parts = [part for note in notes for part in note.split("; ") if part.startswith("without ")]
    if not parts:
        return ""
    return f", {parts[0]}, so that these figures are of the rest and no measure of the patch"


def missing_points(
    base: pd.DataFrame, ours: pd.DataFrame, points: Sequence[CallPoint]
) -> list[str]:
    """Return a sentence for each core on the points of a comparison that are missing there."""
    if base.empty or ours.empty:
        return []
    out = []
    for core in map(str, ours["microarch"].unique()):
        theirs, mine = (rows[rows["microarch"] == core] for rows in (base, ours))
        if theirs.empty:
            continue
        if lacking := len(set(points) - _paired(theirs, mine).keys()):
            out.append(
                f"{lacking} of {len(points)} points that a comparison rests on were refused or not "
                f"measured on {core or 'this machine'}: the rest says nothing of the whole."
            )
    return out


def _number(row: "pd.Series[Any]", column: str) -> int | None:
    value = row.get(column)
    return None if value is None or pd.isna(value) else int(value)


@dataclass(frozen=True)
class Judged:
    """The conclusion about a variant: doubt speaks against it, proof is the reason why it wins.

    Both are sentences, or "". off_by has the error of each model on each core, in percent, where it
    was compared with measurements. by_size has the bands of sizes in which the variant is faster,
    basis the kind of evidence on each core, decides the parameter values that would decide what
    is open.
    """

    doubt: str = ""
    proof: str = ""
    off_by: Mapping[tuple[str, str], float] = field(default_factory=dict)
    by_size: str = ""
    basis: str = ""
    decides: str = ""


@dataclass(frozen=True)
class Evidence:
    """The evidence of the other verbs for a variant, against the baseline.

    table is what compare returns, measurements what measure.run does, checks what check.run does.
    Rows of other variants than the patch's and its baseline are ignored; the message reports an
    empty table as missing, with unmeasured as the reason why there are no measurements. judged
    holds the conclusions by variant. kernel is the studied one, if it differs from kernel.toml: a
    tree's own code may be its baseline. unproven has the points that verification left open.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    measurements: pd.DataFrame = field(default_factory=pd.DataFrame)
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)
    judged: Mapping[str, Judged] = field(default_factory=dict)
    unmeasured: str = ""
    kernel: Kernel | None = None
    unproven: tuple[str, ...] = ()


WIDTH = 75
_SUBJECT_WIDTH = 70


def subject(variant: Variant) -> str:
    """Return the subject line: the subsystem, then the change; at most 75 columns."""
    what = variant.subject or f"{variant.summary[:1].upper()}{variant.summary[1:]}"
    line = f"{upstream_of(variant).prefix or prefix(upstream_of(variant).file)}: {what}"
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
    """The writer of a patch's message on its variant, and on those of other routines in the patch.

    names holds for each routine the name of its function in the tree.
    """

    def __init__(self, variant: Variant, names: Mapping[str, str], evidence: Evidence) -> None:
        self.variant, self.names, self.evidence = variant, names, evidence
        self.kernel = evidence.kernel or kernels.load(variant.kernel)
        self.variants = together(variant)

    @property
    def doubtful(self) -> bool:
        """True if something speaks against a variant, or nothing for it."""
        return any(self._judged(variant).doubt for variant in self.variants)

    def body(self, paragraphs: Sequence[str]) -> str:
        """Return the body: doubts, the reason, and the evidence, without trailers.

        paragraphs are about further changes of the patch. InputError if a variant breaks its
        contract.
        """
        why = self.variant.why or f"{self.names[self.variant.routine]}(): {self.variant.summary}."
        parts = self._of_each("doubt")
        parts += [wrap(text) for text in (*re.split(r"\n\s*\n", why.strip()), *paragraphs)]
        parts += self._by_size()
        for variant in self.variants:
            parts += self._predicted(variant)
        for variant in self.variants:
            parts += self._measured(variant)
        if not self._was_measured():
            reason = f": {self.evidence.unmeasured}" if self.evidence.unmeasured else ""
            parts.append(wrap(f"Not measured on hardware{reason}."))
        for variant in self.variants:
            base, ours = self._pair(variant, self.evidence.checks)
            parts.append(wrap(checked(variant, self._name(variant), base, ours)))
        return "\n\n".join([*parts, *self._of_each("proof")])

    def below(self, *lines: str) -> str:
        """Return the text below the line at which git cuts, with unproven points."""
        not_shown = [] if self._was_measured() else ["its speed on hardware"]
        if silent := self._silent():
            of = (f"{' and '.join(models)} ({', '.join(c)})" for c, models in silent.items())
            not_shown.append(f"figures before and after of {', '.join(of)}")
        for variant in self.variants:
            _, ours = self._pair(variant, self.evidence.checks)
            not_shown += unproven(variant, self._name(variant), ours)
        not_shown += self.evidence.unproven
        texts = [f"Not shown: {'; '.join(not_shown)}."] if not_shown else []
        return "\n\n".join(wrap(line) for line in dict.fromkeys([*lines, *texts]))

    def _silent(self) -> dict[tuple[str, ...], list[str]]:
        """Return the models that lack figures, by the cores on which they lack them."""
        cores: dict[str, list[str]] = {}
        for variant in self.variants:
            pair = self._pair(variant, self.evidence.table)
            for model, lacking in unpredicted(*pair).items():
                cores.setdefault(model, []).extend(lacking)
        out: dict[tuple[str, ...], list[str]] = {}
        for model, lacking in cores.items():
            out.setdefault(tuple(dict.fromkeys(lacking)), []).append(model)
        return out

    def _judged(self, variant: Variant) -> Judged:
        return self.evidence.judged.get(variant.name, Judged())

    def _of_each(self, which: str) -> list[str]:
        """Return the sentences on each variant, named where there are several."""
        several = len(self.variants) > 1
        return [
            wrap(f"{self._name(variant)}: {text}" if several else text)
            for variant in self.variants
            if (text := getattr(self._judged(variant), which))
        ]

    def _by_size(self) -> list[str]:
        """Return the bands of sizes, their evidence, and what would decide, a paragraph each."""
        parts = []
        several = len(self.variants) > 1
        for variant in self.variants:
            judged = self._judged(variant)
            name = f" of {self._name(variant)}" if several else ""
            if judged.by_size:
                parts.append(f"Speed{name} against what is there, by size: {judged.by_size}.")
            if judged.decides:
                parts.append(f"What would decide{name}: {judged.decides}.")
        if basis := dict.fromkeys(filter(None, (self._judged(v).basis for v in self.variants))):
            parts.append(f"This rests on: {'; '.join(basis)}.")
        return [wrap(part) for part in parts]

    def _name(self, variant: Variant) -> str:
        return f"{self.names[variant.routine]}()"

    def _baseline(self, variant: Variant) -> str:
        return self.kernel.routines[variant.routine].baseline

    def _pair(self, variant: Variant, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        if rows.empty:
            return rows, rows
        rows = rows[rows["kernel"] == self.kernel.id]
        base, ours = (rows["variant"] == name for name in (self._baseline(variant), variant.name))
        return rows[base], rows[ours]

    def _predicted(self, variant: Variant) -> list[str]:
        base, ours = self._pair(variant, self.evidence.table)
        if base.empty and ours.empty:
            return []
        judged = self._judged(variant)
        table = prediction_table(base, ours, judged.off_by)
        if not table and judged.by_size:
            return []  # whole calls are reported instead
        if not table:
            return [wrap(f"No model has a figure for {self._name(variant)} before and after.")]
        # Variants' names are unknown on a mailing list.
        now, patched = (
            self.kernel.variants[n].summary for n in (self._baseline(variant), variant.name)
        )
        head = (
            f"Predicted, not measured: cycles for {self._unit(variant)} of {self._name(variant)}, "
            f"now ({now}) and patched ({patched}); off by: "
            "how far that model was from measurements of that core, ? where there are none"
        )
        once = "; +N: cycles to start a string instruction, ? not known" if " +" in table else ""
        return [wrap(f"{head}{once}:"), table]

    def _unit(self, variant: Variant) -> str:
        contract = self.kernel.routines[variant.routine].contract
        loop = "" if contract.unit == "call" else " in the main loop"
        return f"{contract.unit_name}{loop}"

    def _measured(self, variant: Variant) -> list[str]:
        before, after = self._pair(variant, self.evidence.table)
        base, ours = self._pair(variant, self.evidence.measurements)
        judged = call_costs.judged_points(self.kernel.routines[variant.routine].contract, None)
        part = left_out(base, ours)
        parts = []
        for where, table in loop_tables(before, after):
            parts += [f"Measured on {where}{part}: cycles for {self._unit(variant)}:", table]
        for where, table in call_tables(base, ours, judged):
            head = f"Measured on {where}{part}: cycles a call of {self._name(variant)} over the "
            parts += [f"{head}alignments tried, by size:", table]
        parts += missing_points(base, ours, judged)
        return [text if text.startswith("  ") else wrap(text) for text in parts]

    def _was_measured(self) -> bool:
        rows = self.evidence.measurements
        both = (self._pair(variant, rows) for variant in self.variants)
        return any(len(ours) and ours["cycles"].notna().any() for _, ours in both)


def trailers(kernel: Kernel, signed_off: str) -> list[str]:
    """Return the trailer lines; signed_off is "Name <address>" or empty."""
    lines = [f"Fixes: {fixed}" for fixed in kernel.fixes]
    lines += [f"Link: {link}" for link in kernel.links]
    return lines + ([f"Signed-off-by: {signed_off}"] if signed_off else [])


def wrap(text: str) -> str:
    """Fill a paragraph to the width of a commit message."""
    return textwrap.fill(
        " ".join(text.split()), WIDTH - 3, break_long_words=False, break_on_hyphens=False
    )


def too_wide(lines: Iterable[str]) -> str:
    """Return the first line wider than a commit message may be, links aside, or ""."""
    return next((line for line in lines if len(line) > WIDTH and "://" not in line), "")
