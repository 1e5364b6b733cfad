"""The report as plain text for a mailing list."""

import io
import textwrap
from collections.abc import Iterator, Sequence

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from loopwright.judging.model_accuracy import LEAST_PAIRS, Accuracy
from loopwright.judging.study import HERE, MEASURED
from loopwright.judging.verdicts import CONTESTED, KEEPS, OPEN
from loopwright.linux.trees import Found
from loopwright.machine import hosts
from loopwright.measuring.readings import SAME
from loopwright.predicting.models import MODELS, SIMULATOR
from loopwright.reporting.findings import Finding, clocks, model_versions

WIDTH = 72
_BETWEEN = 3  # spaces between the columns of a table


def section(title: str) -> str:
    """Return a heading, underlined, with empty lines around it."""
    lines = wrapped(title)
    return "\n".join(["", *lines, "-" * min(WIDTH, max(map(len, lines))), ""])


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return text as lines with a hanging indent of two columns."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    )


def fits(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """True if a table fits without breaking a cell."""
    widest = (max(map(len, cells)) for cells in zip(columns, *rows, strict=True))
    return sum(widest) + _BETWEEN * (len(columns) - 1) <= WIDTH


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table; the first columns (left of them) are text, the others numbers.

    Columns are closer together where it would not fit otherwise.
    """
    sides = 1 if fits(columns, rows) else 0
    padding = (0, 1, 0, sides)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, show_edge=False)
    for number, name in enumerate(columns):
        grid.add_column(name, justify="left" if number < left else "right", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, legacy_windows=False).print(grid)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MOST = 10  # sizes of one table, at most


def band_lines(bands: pd.DataFrame) -> list[str]:
    """Return for each routine a table of cores over sizes, and the legend of its letters.

    bands is that of recommend.Judgement. A letter is the variant that wins there; with a question
    mark it may win, with an exclamation mark a published figure has the other sign; a dot is the
    baseline.
    """
    out: list[str] = []
    for routine, mine in bands.groupby("routine", sort=False):
        out += wrapped(f"{routine}: the best variant by size of a call")
        out += ["", *_band_table(mine)]
    return out


def _band_table(bands: pd.DataFrame) -> Iterator[str]:
    winners = bands.loc[bands["status"] != KEEPS, "variant"].unique()
    letters = {str(name): _LETTERS[n % len(_LETTERS)] for n, name in enumerate(winners)}
    sizes = _sizes(bands)
    rows = []
    for (core, condition), mine in bands.groupby(["microarch", "condition"], sort=False):
        name = hosts.marked(str(core))
        where = f"{name}, {condition}" if condition else name
        rows.append([where, *(_cell(mine, size, letters) for size in sizes)])
    yield table(["core", *(_size(s) for s in sizes)], rows)
    words = [f"{letter} {name}" for name, letter in letters.items()]
    if OPEN in set(bands["status"]):
        words.append("? open: an unmeasured parameter or the simulator's error decides")
    if CONTESTED in set(bands["status"]):
        words.append("! contested: a published figure of the pair has the other sign")
    baselines = bands.loc[bands["status"] == KEEPS, "variant"].unique()
    words += [f". {name}, the baseline" for name in baselines[:1]]
    yield from wrapped("; ".join(words))
    yield ""


def _sizes(bands: pd.DataFrame) -> list[int]:
    """Return the sizes to show: doubled from the least to the largest, at most _MOST."""
    low, high = int(bands["from_bytes"].min()), int(bands["to_bytes"].max())
    out = [max(low, 1)]
    while out[-1] * 2 <= high:
        out.append(out[-1] * 2)
    return out[-_MOST:]


def _cell(mine: pd.DataFrame, size: int, letters: dict[str, str]) -> str:
    bands_there = mine[(mine["from_bytes"] <= size) & (size <= mine["to_bytes"])]
    if bands_there.empty:
        return ""
    # At the border of two bands the upper one applies.
    row = bands_there.iloc[-1]
    if row["status"] == KEEPS:
        return "."
    return letters[str(row["variant"])] + {OPEN: "?", CONTESTED: "!"}.get(str(row["status"]), "")


def _size(size: int) -> str:
    return f"{size // 1024}K" if size >= 1024 and size % 1024 == 0 else str(size)


_HEADS = {m.id: m.short for m in MODELS}


def by_core(rows: pd.DataFrame) -> str:
    """Return the table of loopwright.compare as text."""
    by_core = rows.groupby("microarch", sort=False)
    tables = [_core(hosts.marked(str(core)), mine) for core, mine in by_core]
    return "\n".join([*tables, *_main_loops(rows)])


def _main_loops(rows: pd.DataFrame) -> list[str]:
    """Return the chosen loops, of variants that have several or whose choice needs a remark."""
    loops = rows.drop_duplicates("variant").set_index("variant")["main_loop"]
    several = loops[loops.str.contains(" loops: |DCZID", regex=True)]
    lines = [line for name, loop in several.items() for line in wrapped(f"- {name}: {loop}", "  ")]
    return [*wrapped("Main loop, of several in the code:"), *lines, ""] if lines else []


def _core(core: str, rows: pd.DataFrame) -> str:
    sources = [*(m.id for m in MODELS), MEASURED]
    present = [s for s in sources if rows.loc[rows["source"] == s, "cycles"].notna().any()]
    if not present:
        units = " or ".join(unit for unit in rows["unit"].dropna().unique() if unit) or "the loop"
        text = f"{core}: no model has cycles for {units} from parameters that are known."
        return "\n".join([*wrapped(text), *_errors(rows), ""])
    answered = rows[rows["cycles"].notna()]
    parts = [
        line for unit in answered["unit"].unique()
        for line in _unit(core, str(unit), rows[rows["unit"] == unit], present)
    ]  # fmt: skip
    tables = "\n".join(parts)
    notes = ["  +N: cycles to start a string instruction, ? not known"] * (" +" in tables)
    notes += ["  ! below what the core's loads and stores take: not used"] * ("!" in tables)
    for note in filter(None, answered["note"].unique()):
        notes += wrapped(f"* measured {note}: not used", "  ")
    notes += [*_caveats(answered), *_origin(answered), *_accuracy(rows, present)]
    alike = rows.loc[rows["verdict"] == SAME, "variant"]
    if len(alike):
        notes += wrapped(f"no difference from the baseline: {', '.join(alike)}", "  ")
    return "\n".join([tables, *notes, *_errors(rows), ""])


def _caveats(rows: pd.DataFrame) -> list[str]:
    """Return the parts that models leave out of their figures: each once, with its variants."""
    with_caveat = rows[rows["caveat"].notna() & rows["caveat"].ne("")]
    out: list[str] = []
    for (source, caveat), mine in with_caveat.groupby(["source", "caveat"], sort=False):
        out += wrapped(f"{source}, {', '.join(mine['variant'].unique())}: {caveat}", "  ")
    return out


def _unit(core: str, unit: str, rows: pd.DataFrame, present: list[str]) -> list[str]:
    """Return the lines of the variants that are compared by one unit.

    Errors follow the figures where there is room for them.
    """
    heads = ["variant", "B/iter", *(_HEADS.get(s, s) for s in present)]
    body = _body(rows, present, errors=True)
    if not fits(heads, body):
        body = _body(rows, present, errors=False)
    return [*wrapped(f"{core}: cycles for {unit}"), table(heads, body)]


def _body(rows: pd.DataFrame, present: list[str], *, errors: bool) -> list[list[str]]:
    body = []
    for variant in rows["variant"].unique():
        mine = rows[rows["variant"] == variant].set_index("source")
        moved = mine["bytes_per_iteration"].dropna()
        first = [str(variant), f"{moved.iloc[-1]:.0f}" if len(moved) else ""]
        body.append([*first, *(_figure_cell(mine, source, errors=errors) for source in present)])
    return body


def _origin(rows: pd.DataFrame) -> list[str]:
    """Return the origin of the measured column: machine and clock."""
    mine = rows[rows["source"] == MEASURED]
    pairs = mine[["machine", "clock"]].drop_duplicates().itertuples(index=False)
    return [line for m, c in pairs for line in wrapped(f"measured: {m}, clock {c}", "  ")]


def _accuracy(rows: pd.DataFrame, sources: list[str]) -> list[str]:
    """Return the accuracy of each model on whole measurements, where there are enough loops."""
    whole = (rows["source"] == MEASURED) & rows["note"].eq("")
    measured = rows[whole].set_index("variant")["cycles"]
    out: list[str] = []
    for source in (s for s in sources if s != MEASURED):
        predicted = rows[rows["source"] == source].set_index("variant")["cycles"]
        accuracy = Accuracy.of(predicted, measured.reindex(predicted.index))
        if accuracy.count >= LEAST_PAIRS:
            tau = f", Kendall's tau {accuracy.tau:.2f}" if accuracy.tau == accuracy.tau else ""
            text = f"{source}: MAPE {accuracy.mape:.0f} %{tau} over {accuracy.count} variants"
            out += wrapped(text, "  ")
    return out


def _figure_cell(mine: pd.DataFrame, source: str, *, errors: bool) -> str:
    row = mine.to_dict("index").get(source, {})
    if pd.isna(row.get("cycles", float("nan"))):
        return "-"
    mark = "!" if row["excluded"] else ""
    mark += "*" if row["note"] else ""
    startup, error = row["startup_cycles"], row["error_percent"]
    if source != MEASURED and pd.isna(startup):
        mark += " +?"
    elif startup and startup > 0:
        mark += f" +{startup:.0f}"
    cycles = f"{row['cycles_per_unit']:.2f}{mark}"
    return f"{cycles} ({error:+.0f} %)" if errors and pd.notna(error) else cycles


def _errors(rows: pd.DataFrame) -> list[str]:
    """Return the reasons for empty cells: each once, with its models and variants."""
    missing = rows[rows["cycles"].isna() & rows["error"].fillna("").ne("")]
    out: list[str] = []
    for error, mine in missing.groupby("error", sort=False):
        models = ", ".join(mine["source"].unique())
        variants = mine["variant"].unique()
        who = "" if len(variants) == rows["variant"].nunique() else f" ({', '.join(variants)})"
        out += wrapped(f"- {models}{who}: {error}", "  ")
    return out


# The parts of a recommendation beside its answer: headings, and columns of recommend.
SENTENCES = {
    "Confidence": "confidence", "Models": "models", "Slower on": "slower_on",
    "Faster, but only where a condition holds": "only_where",
    "Faster, but no patch can be made": "without_patch", "Basis": "basis",
    "Stored runs": "stored", "Evidence": "evidence", "By size": "bands", "Published": "published",
    "What would decide": "break_even", "Measure first": "measure_first",
}  # fmt: skip
_SHOWN_SIZES = (8, 64, 256, 1024, 4096, 8192)


def plain_report(findings: list[Finding], host: dict[str, object], tree: Found | None) -> str:
    """Return the whole report."""
    parts = [_head(findings, host, tree), _summary(findings)]
    parts += [_kernel(f) for f in findings]
    return "\n".join([*parts, _reading()])


def _head(findings: list[Finding], host: dict[str, object], tree: Found | None) -> str:
    core = findings[0].study.host if findings else ""
    lines = ["loopwright report", "=" * 17, ""]
    lines += wrapped(
        f"Host: {host.get('cpu', 'unknown CPU')} ({core or 'no core.toml describes it'})"
    )
    lines += wrapped(f"Clock: {', '.join(clocks(findings)) or 'nothing was measured'}")
    models = (f"{model} ({version})" for model, version in model_versions().items())
    lines += wrapped(f"Models: {'; '.join(models)}")
    if tree:
        lines += wrapped(f"Linux tree: {tree.note}")
    return "\n".join(lines) + "\n"


def _summary(findings: list[Finding]) -> str:
    rows = pd.concat([f.recommendation for f in findings], ignore_index=True)
    body = []
    for row in rows.to_dict("records"):
        won = f"{row['winner']} {row['margin_percent']:+.1f} %" if row["winner"] else row["answer"]
        body.append([str(row["routine"]), str(won), str(row["confidence"])])
    return section("Recommendations") + table(["routine", "answer", "confidence"], body, left=3)


def _kernel(finding: Finding) -> str:
    study = finding.study
    out = [section(f"{study.kernel.id}: {study.kernel.summary}")]
    for row in finding.recommendation.to_dict("records"):
        routine = str(row["routine"])
        out += wrapped(f"{routine} against {row['baseline']}: {row['answer']}; {row['summary']}.")
        if reason := str(row["reason"]).removeprefix(str(row["summary"])).lstrip("; "):
            out += wrapped(f"{reason}.", "  ")
        for label, key in SENTENCES.items():
            if row[key]:
                out += wrapped(f"{label}: {row[key]}", "  ")
        if routine in finding.baselines:
            out += wrapped(f"In the tree: {finding.baselines[routine]}", "  ")
        if routine in finding.patches:
            out += wrapped(f"Patch: {finding.patches[routine]}", "  ")
        out.append("")
    out += band_lines(finding.bands) if len(finding.bands) else []
    out += [*_checks(study.checks), "", by_core(finding.table), *_assumed(finding.assumed)]
    return "\n".join([*out, *_alignment(finding.boundaries), *_calls(study.measurements)])


def _checks(checks: pd.DataFrame) -> list[str]:
    good = checks[checks["passed"]]
    lines = wrapped(
        f"Contract: {len(good)} of {len(checks)} variants hold it "
        f"({int(checks['cases'].sum()):,} cases of size, alignment and fault position)."
    )
    for row in checks[~checks["passed"]].to_dict("records"):
        lines += wrapped(f"- {row['variant']} breaks it: {row['failure']}", "  ")
    over = checks[checks["over_report_bytes"].fillna(0) > 0]
    if len(over):
        pairs = zip(over["variant"], over["over_report_bytes"], strict=True)
        most = ", ".join(f"{variant} {int(count)}" for variant, count in pairs)
        lines += wrapped(f"After a fault, bytes reported uncopied beyond need, at most: {most}.")
    return lines


def _assumed(rows: pd.DataFrame) -> list[str]:
    """Return for each core the unmeasured parameters that the simulator's figures depend on."""
    if rows.empty:
        return []
    lines = wrapped(
        f"{SIMULATOR} assumes what nobody has measured: cycles of an iteration, or of 64 bytes and "
        "the start of a string instruction, as each value varies; predict --sources says why"
    )
    for (core, name, value), mine in rows.groupby(["microarch", "of", "figure"], sort=False):
        ends = mine[["variant", "least_cycles", "most_cycles"]].itertuples(index=False)
        each = ", ".join(f"{variant} {least:g} to {most:g}" for variant, least, most in ends)
        lines += wrapped(f"- {core}, {name} = {value}: {each}", "  ")
    return [*lines, ""]


def _alignment(rows: pd.DataFrame) -> list[str]:
    """Return the cost of code alignment, where there is one."""
    slow = rows[rows["slow_offsets"] != ""]
    if slow.empty:
        return []
    lines = wrapped("Code alignment: predicted cycles by the offset of the loop mod 64")
    for row in slow.to_dict("records"):
        lines += wrapped(f"- {row['variant']} on {row['microarch']}: {row['words']}", "  ")
    return [*lines, ""]


def _calls(rows: pd.DataFrame) -> list[str]:
    """Return tables of the measured calls, one for each core and pair of alignments."""
    if rows.empty:
        return []
    calls = rows[(rows["quantity"] == "call") & (rows["status"] != "refused")]
    out: list[str] = []
    where = ["microarch", "dst_align", "src_align"]
    for (core, dst, src), group in calls.groupby(where, sort=False):
        sizes = _shown(group["size_bytes"])
        body = []
        for variant, mine in group.groupby("variant", sort=False):
            cycles = mine.drop_duplicates("size_bytes").set_index("size_bytes")["cycles"]
            cells = [f"{cycles[s]:.0f}" if s in cycles else "-" for s in sizes]
            if any(cell != "-" for cell in cells):
                body.append([str(variant), *cells])
        error = 100 * (group["uncertainty"] / group["cycles"]).median()
        out += wrapped(
            f"{core or HERE}, measured: cycles a call, destination and source at {dst}:{src} of a "
            f"page, median uncertainty {error:.2f} %"
        )
        out.append(table(["variant", *(f"{s} B" for s in sizes)], body))
    for note in rows["note"].dropna().unique():
        names = rows.loc[rows["note"] == note, "variant"].unique()
        out += wrapped(f"Note on {', '.join(names)}: {note}.") if note else []
    return out


def _shown(sizes: pd.Series) -> list[int]:
    """Return the sizes to show: those of _SHOWN_SIZES, or evenly spaced ones."""
    known = sorted(int(size) for size in sizes.unique())
    usual = [size for size in known if size in _SHOWN_SIZES]
    if len(usual) > 1 or len(known) <= 1:
        return usual or known
    step = -(-len(known) // len(_SHOWN_SIZES))
    return known[::-step][::-1]


def _reading() -> str:
    texts = (
        "Cycles are core clock cycles in steady state with all data in the L1 cache, of the main "
        "loop for as many bytes of each variant; B/iter is what an iteration moves. A dash is no "
        "answer; the reasons stand below each table. A figure in brackets is a model's error "
        "against the measurement, where this host is the core.",
        "llvm-mca and OSACA see neither the front end nor code alignment; only the simulator sees "
        "string instructions, stac and clac; no model here sees a cache miss.",
    )
    lines = [line for text in texts for line in [*wrapped(text), ""]]
    return section("How to read this") + "\n".join(lines)
