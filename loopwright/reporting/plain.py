"""The report as plain text, fit for a mailing list."""

import pandas as pd

from loopwright.judging.study import HERE
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import origin, strips
from loopwright.reporting.findings import Finding
from loopwright.reporting.layout import section, table, wrapped
from loopwright.reporting.patches import PatchedTree
from loopwright.reporting.sides import by_core

_SHOWN_SIZES = (8, 64, 256, 1024, 4096, 8192)


def render(findings: list[Finding], host: dict[str, object], tree: PatchedTree | None) -> str:
    """Return the whole report."""
    parts = [_head(findings, host, tree), _summary(findings)]
    parts += [_kernel(f) for f in findings]
    return "\n".join([*parts, _reading()])


def _head(findings: list[Finding], host: dict[str, object], tree: PatchedTree | None) -> str:
    core = findings[0].study.host if findings else ""
    measured = [f.study.measurements for f in findings if len(f.study.measurements)]
    clocks = sorted({str(c) for rows in measured for c in rows["clock"].dropna().unique() if c})
    lines = ["loopwright report", "=" * 17, ""]
    lines += wrapped(
        f"Host: {host.get('cpu', 'unknown CPU')} ({core or 'no core.toml describes it'})"
    )
    lines += wrapped(f"Clock: {', '.join(clocks) or 'nothing was measured'}")
    known = (f"{model} ({said})" for model, said in origin.versions().items())
    lines += wrapped(f"Models: {'; '.join(known)}")
    if tree:
        lines += wrapped(f"Linux tree: {tree.name}")
    return "\n".join(lines) + "\n"


def _summary(findings: list[Finding]) -> str:
    rows = pd.concat([f.recommendation for f in findings], ignore_index=True)
    body = []
    for row in rows.to_dict("records"):
        winner = (
            f"{row['winner']} {row['margin_percent']:+.1f} %" if row["winner"] else row["answer"]
        )
        body.append([str(row["routine"]), str(winner), str(row["confidence"])])
    return section("Recommendations") + table(["routine", "answer", "confidence"], body, left=3)


def _kernel(finding: Finding) -> str:
    found = finding.study
    out = [section(f"{found.kernel.id}: {found.kernel.summary}")]
    for row in finding.recommendation.to_dict("records"):
        routine = str(row["routine"])
        out += wrapped(f"{routine} against {row['baseline']}: {row['answer']}; {row['said']}.")
        if more := str(row["reason"]).removeprefix(str(row["said"])).lstrip("; "):
            out += wrapped(f"{more}.", "  ")
        for key, label in (
            ("confidence", "Confidence"),
            ("models", "Models"),
            ("slower_on", "Slower on"),
            ("only_where", "Faster, but only where a condition holds"),
            ("without_patch", "Faster, but no patch can be made"),
            ("basis", "Basis"),
            ("stored", "Stored runs"),
            ("evidence", "Evidence"),
            ("bands", "By size"),
            ("published", "Published"),
            ("break_even", "What would decide"),
            ("measure_first", "Measure first"),
        ):
            if row[key]:
                out += wrapped(f"{label}: {row[key]}", "  ")
        if routine in finding.baselines:
            out += wrapped(f"In the tree: {finding.baselines[routine]}", "  ")
        if routine in finding.patches:
            out += wrapped(f"Patch: {finding.patches[routine]}", "  ")
        out.append("")
    return "\n".join(
        [
            *out,
            *(strips.lines(finding.bands) if len(finding.bands) else ()),
            *_checks(found.checks),
            "",
            by_core(finding.table),
            *_assumed(finding.assumed),
            *_alignment(finding.boundaries),
            *_calls(found.measurements),
        ]
    )


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
    """Return for each core the unmeasured parameters that the simulator's figures follow."""
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
    """Return what code alignment costs, where it costs anything."""
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
    """Return the sizes that there is room for: those asked for most, or some over the range."""
    known = sorted(int(size) for size in sizes.unique())
    some = [size for size in known if size in _SHOWN_SIZES]
    if len(some) > 1 or len(known) <= 1:
        return some or known
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
