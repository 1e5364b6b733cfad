"""The section of one kernel in the report: its figures and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from loopwright import microarchs
from loopwright.histogram import Histogram
from loopwright.judging.study import HERE, MEASURED
from loopwright.machine import hosts
from loopwright.predicting import core_figures
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import cross_validation, cycle_curves, findings, html, plots
from loopwright.reporting.findings import Arguments, Finding
from loopwright.reporting.html import (
    Cell,
    Column,
    Grid,
    Row,
    again_column,
    column,
    core_column,
    grid,
    number,
    variant_facet,
)

CURVE = ["routine", "microarch", "source"]  # key of one chart of curves


@dataclass(frozen=True)
class Drawing:
    """A figure as an svg element, its caption, and its keys for filters."""

    svg: str
    caption: str
    facets: dict[str, str]


def throughput_bars(finding: Finding, name: str) -> Iterator[Drawing]:
    """Yield the cycles of each variant, for each core with figures."""
    answered = set(finding.table.loc[finding.table["cycles"].notna(), "microarch"])
    for core in (c for c in finding.cores() if c in answered):
        yield drawing(
            plots.cycles(finding.table, core),
            f"{name}-{core}-throughput",
            f"{core}: cycles by variant and source, for as many bytes of each variant",
            "the table below has the same numbers",
            core=core,
        )


def heat_maps(finding: Finding, name: str) -> Iterator[Drawing]:
    """Yield a heat map for each core on which some offset slows a variant down."""
    for core, words in finding.boundaries.groupby("microarch", sort=False):
        slow = ", ".join(words.loc[words["slow_offsets"] != "", "variant"])
        if not slow:
            continue
        yield drawing(
            plots.heat_map(finding.sweep, str(core)),
            f"{name}-{core}-heat",
            f"{core}: slowdown over code offsets. A dot marks more than 2 % above the variant's "
            "best; dashed lines are 32-byte boundaries, dotted ones 16-byte",
            f"variants that some offset slows down: {slow}; the table below says which",
            core=str(core),
            model=SIMULATOR,
        )


def costs(finding: Finding) -> pd.DataFrame:
    """Return costs of calls by size and routine: measured ones, then simulated ones."""
    measured = cycle_curves.measured(finding.study.measurements)
    simulated = cycle_curves.of_calls(finding.calls) if len(finding.calls) else measured
    parts = [part for part in (measured, simulated) if len(part)]
    rows = pd.concat(parts or [measured], ignore_index=True)
    return rows.assign(routine=[finding.kernel.variants[name].routine for name in rows["variant"]])


def curves(
    finding: Finding, costs: pd.DataFrame, histogram: Histogram | None, name: str
) -> Iterator[Drawing]:
    """Yield the cost of a call over its size, for each routine, core and source.

    The charts of a routine share their axis of cycles.
    """
    high_cycles = cycle_curves.with_ranges(costs)["high_cycles"]
    highest = high_cycles.groupby(costs["routine"]).max().to_dict()
    for key, mine in costs.groupby(CURVE, sort=False):
        routine, core, source = map(str, key)
        what = "measured" if source == MEASURED else f"whole calls predicted by {source}"
        notes = "; ".join(note for note in mine["note"].unique() if note)
        what += f" ({notes})" if notes else ""
        ranges = bool(mine["low_cycles"].notna().any())
        parts = [
            f"{routine} on {core}: cycles a call over its size, {what}",
            *(["Bands: as far as what nobody has measured of the core can move it"] * ranges),
            "Vertical lines: the cheapest variant changes"
            f"{_not_predicted(finding, routine, core, source)}",
        ]
        weights = f"; bars: calls in {histogram.name}" if histogram else ""
        yield drawing(
            plots.size_curves(
                mine, kernel=finding.kernel.id, histogram=histogram, most=float(highest[routine])
            ),
            f"{name}-{routine}-{core}-{source}-sizes",
            f"{'. '.join(parts)}{weights}",
            "the table below names the cheapest variant by size",
            core=core,
            model=source,
        )


def _not_predicted(finding: Finding, routine: str, core: str, source: str) -> str:
    """Return the variants of a routine without a cost on a core, with the reasons."""
    rows = finding.calls
    if source == MEASURED or rows.empty:
        return ""
    mine = rows[(rows["routine"] == routine) & (rows["microarch"] == core)]
    mine = mine[mine["cycles"].isna() & mine["cheap"].isna()].drop_duplicates("variant")
    why = [f"{row['variant']} ({row['error']})" for row in mine.to_dict("records")]
    return f". Not predicted: {', '.join(why)}" if why else ""


def scatters(findings: list[Finding]) -> Iterator[Drawing]:
    """Yield predicted over measured cycles for each core with measurements."""
    pairs = cross_validation.pairs(pd.concat([f.table for f in findings], ignore_index=True))
    for core, mine in pairs.groupby("microarch", sort=False):
        yield drawing(
            plots.scatter(mine),
            f"scatter-{core}",
            f"{core}: predicted over measured cycles; the band is 10 % to either side",
            "the table below has MAPE and Kendall's tau",
            core=str(core),
        )


def drawing(figure: Figure, name: str, caption: str, aside: str, **facets: str) -> Drawing:
    """Return a figure for the page; aside is added to its alternative text."""
    return Drawing(html.inline(figure, name, f"{caption}; {aside}"), caption, facets)


def strips(finding: Finding, name: str) -> Iterator[Drawing]:
    """Yield the bands of each routine as strips, a row for each core."""
    if finding.bands.empty:
        return
    for routine, mine in finding.bands.groupby("routine", sort=False):
        yield drawing(
            plots.strip(mine, finding.kernel.id),
            f"{name}-{routine}-strip",
            f"{routine}: the best variant by size of a call. Filled: it beats the baseline "
            "whatever is not known; hatched: it may; empty: the baseline as it is",
            "the table below has the same bands",
        )


_SHARED = (column("variant"), core_column())


def bands(finding: Finding, name: str) -> Grid:
    """Return the bands of sizes with their speeds."""
    return grid(
        f"{name}-bands",
        f"{finding.kernel.id}: which variant is best from which size to which. wins: whatever is "
        "not known; open: what is not known, or the error of the evidence, decides; keeps: none "
        "beats the baseline",
        finding.bands,
        [
            column("routine"), core_column(), column("where", "condition", wide=True),
            column("from, B", "from_bytes", 0), column("to, B", "to_bytes", 0),
            column("best", "variant"), column("verdict", "status"),
            _gain("against baseline at least, %", "speed_low"), _gain("at most, %", "speed_high"),
            column("evidence", wide=True),
        ],
        lambda row: {"core": str(row["microarch"])},
    )  # fmt: skip


def _gain(head: str, of: str) -> Column:
    """Return a column of speeds as their excess over 1 in percent."""
    return column(head, lambda row: 100 * (row[of] - 1), 1, sign=True)


def throughput_table(finding: Finding, arguments: Arguments, name: str) -> Grid:
    """Return the comparison: a row for each variant, core and source with a figure."""
    limits = finding.study.predictions.set_index(["variant", "microarch", "model"])["bottleneck"]
    limit_of = limits.to_dict()

    def cycles(row: Row) -> Cell:
        measured = row["source"] == MEASURED
        doubt = row["uncertainty"] * row["cycles_per_unit"] / row["cycles"] if measured else None
        mark = "!" * bool(row["excluded"]) + "*" * bool(row["note"])
        return number(row["cycles_per_unit"], doubt=doubt, mark=mark)

    def again(row: Row) -> str:
        measured = row["source"] == MEASURED
        offset = "" if measured or pd.isna(row["offset"]) else f"{row['offset']:.0f}"
        return arguments.figure(finding.kernel.id, *_key(row), offset=offset)

    return grid(
        f"{name}-throughput",
        f"{finding.kernel.id}: cycles of the main loop (notion loop) or of a call (unrolled) for "
        "as many bytes of each variant, speed against the baseline, and each model's error where "
        "this was measured. A figure with ! or * is in no comparison: its remark says why",
        finding.table[finding.table["cycles"].notna()],
        [
            *_SHARED, column("source"), column("notion"), column("offset, B", "offset", 0),
            column("cycles", cycles, 2), column("for", "unit"),
            _gain("against baseline, %", "vs_baseline"),
            column("error, %", "error_percent", 1, sign=True),
            column("bytes an iteration", "bytes_per_iteration", 0),
            column("limited by", lambda row: limit_of.get(_key(row), ""), wide=True),
            column("remark", _remark, wide=True), _origin(), again_column(again),
        ],
        lambda row: _facets(finding, row, str(row["source"])),
    )  # fmt: skip


def _key(row: Row) -> tuple[str, str, str]:
    return str(row["variant"]), str(row["microarch"]), str(row["source"])


def _origin(source: str = "") -> Column:
    """Return the column of the figures' origin: each row's source, or the given one."""
    return column(
        "origin",
        lambda row: findings.origin_of(
            source or str(row["source"]), str(row.get("machine", "")), str(row.get("clock", ""))
        ),
        wide=True,
    )


def _remark(row: Row) -> str:
    """Return the remarks on a figure: why it does not count, its gaps, the chosen loop."""
    partial = f"measured {row['note']}" if row["note"] else ""
    several = row["main_loop"] if " loops: " in str(row["main_loop"]) else ""
    return _joined(row["excluded"], partial, row["caveat"], several)


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def steps(finding: Finding, name: str) -> Grid:
    """Return the gain of each step on the way to the variants that `improve` found."""
    return grid(
        f"{name}-steps",
        f"{finding.kernel.id}: cycles by pipeline of the variants that `improve` found, as it "
        "predicted them, from the one that it began with on, step by step",
        [
            {"variant": variant.name, "step": step, "microarch": core, "cycles": cycles,
             "faster": before.cycles[core] / cycles}
            for variant in finding.kernel.variants.values()
            for before, step in zip(variant.steps[:1] + variant.steps, variant.steps, strict=False)
            for core, cycles in step.cycles.items()
        ],
        [
            column("variant"), column("transformation", lambda row: row["step"].name, wide=True),
            column("bytes", lambda row: row["step"].bytes, 0), core_column(),
            column("cycles a call", "cycles", 2), column("times as fast as before", "faster", 2),
        ],
        lambda row: {
            "core": row["microarch"], "variant": variant_facet(finding.kernel.id, row["variant"])
        },
    )  # fmt: skip


_MISSING = {"source": "model", "microarch": "core", "variant": "variants"}


def missing_figures(finding: Finding, name: str) -> Grid:
    """Return the reasons for missing figures, each once."""
    missing = finding.table[
        finding.table["cycles"].isna() & finding.table["error"].fillna("").ne("")
    ]
    return grid(
        f"{name}-silent",
        f"{finding.kernel.id}: no number, and why",
        [
            {"reason": error, **{key: mine[key].unique() for key in _MISSING}}
            for error, mine in missing.groupby("error", sort=False)
        ],
        [column("reason", wide=True), *(_listed(head, key) for key, head in _MISSING.items())],
        lambda row: {
            _MISSING[key]: str(row[key][0]) for key in ("source", "microarch") if len(row[key]) == 1
        },
    )


def _listed(head: str, of: str) -> Column:
    return column(head, lambda row: ", ".join(row[of]))


def assumed(finding: Finding, name: str) -> Grid:
    """Return the unmeasured parameters that the simulator's figures depend on."""
    return grid(
        f"{name}-assumed",
        f"{finding.kernel.id}: cycles of an iteration, or of 64 bytes and the start of a string "
        "instruction, as a parameter varies over what is known of it, or by a step",
        finding.assumed,
        [
            *_SHARED, column("parameter", "of"), column("taken as", "figure"),
            column("cycles, from", "least_cycles", 2), column("cycles, to", "most_cycles", 2),
            column("why", "source", wide=True),
            again_column(
                lambda row: f"loopwright predict {finding.kernel.id}/{row['variant']} "
                f"--microarch {row['microarch']} --sources"
            ),
        ],
        lambda row: _facets(finding, row, SIMULATOR),
    )  # fmt: skip


def ports(cores: Sequence[str]) -> Grid:
    """Return the ports of each kind of uop on the cores."""
    return grid(
        "ports",
        "Which ports of each core run what",
        [
            {"core": core.name, "what": use.kind, "ports": " ".join(use.ports), "id": core.id}
            for core in map(microarchs.load, cores)
            for use in core_figures.port_uses(core)
        ],
        [column("core"), column("what"), column("ports")],
        lambda row: {"core": row["id"]},
    )


OFFSET_COSTS = (
    column("best, cycles", "best_cycles", 2), column("worst, cycles", "worst_cycles", 2),
    column("boundary, B", "boundary_bytes", 0), column("in words", "words", wide=True),
)  # fmt: skip


def boundaries(finding: Finding, arguments: Arguments, name: str) -> Grid:
    """Return the cost of code alignment, in words."""

    def again(row: Row) -> str:
        return arguments.figure(
            finding.kernel.id, row["variant"], row["microarch"], SIMULATOR, "all"
        )

    return grid(
        f"{name}-boundaries",
        f"{finding.kernel.id}: cycles an iteration over the code offsets 0 to 63, simulated",
        finding.boundaries,
        [*_SHARED, *OFFSET_COSTS, _origin(SIMULATOR), again_column(again)],
        lambda row: _facets(finding, row, SIMULATOR),
    )


def calls(finding: Finding, arguments: Arguments, name: str) -> Grid:
    """Return the measured costs of calls."""
    measured = finding.study.measurements
    rows = measured[measured["quantity"] == "call"] if len(measured) else measured

    def again(row: Row) -> str:
        command = arguments.figure(finding.kernel.id, row["variant"], row["microarch"], MEASURED)
        if " measure " in command and finding.kernel.routines:
            command += f" --sizes {row['size_bytes']:.0f}"
        return command

    return grid(
        f"{name}-calls",
        f"{finding.kernel.id}: measured cycles a call",
        rows,
        [
            column("variant"), column("core", lambda row: hosts.marked(row["microarch"] or HERE)),
            column("size, B", "size_bytes", 0),
            column("destination, source align, B",
                   lambda row: f"{row['dst_align']:.0f}, {row['src_align']:.0f}"),
            column("offset, B", "offset", 0),
            column("cycles a call", lambda row: number(row["cycles"], doubt=row["uncertainty"]), 2),
            column("p10", digits=2), column("p90", digits=2), column("samples", digits=0),
            column("remark", lambda row: _joined(row["reason"], row["note"]), wide=True),
            _origin(MEASURED), again_column(again),
        ],
        lambda row: _facets(finding, {**row, "microarch": row["microarch"] or HERE}, MEASURED),
    )  # fmt: skip


def cheapest(finding: Finding, costs: pd.DataFrame, name: str) -> Grid:
    """Return the cheapest variant by range of sizes, for each routine, core and source."""
    return grid(
        f"{name}-cheapest",
        f"{finding.kernel.id}: the cheapest variant by size, with the crossover points",
        [
            {**row, **dict(zip(CURVE, key, strict=True)), "remark": _joined(*mine["note"].unique())}
            for key, mine in costs.groupby(CURVE, sort=False)
            for row in cycle_curves.crossovers(mine).to_dict("records")
        ],
        [
            column("routine"), core_column(), column("source"),
            column("from, B", "from_bytes", 0), column("to, B", "to_bytes", 0),
            column("cheapest"), column("no cost known of", "lacking", wide=True),
            column("remark", wide=True),
        ],
        lambda row: {"core": str(row["microarch"]), "model": str(row["source"])},
    )  # fmt: skip


def contract(finding: Finding, name: str) -> Grid:
    """Return the result of each variant's contract check."""
    return grid(
        f"{name}-contract",
        f"{finding.kernel.id}: calls made to hold variants to their contract: results, faults at "
        "every position, bounds, registers",
        finding.study.checks,
        [
            column("variant"),
            column("holds", lambda row: "yes" if row["passed"] else "no"),
            column("cases", digits=0),
            column("reported beyond need, B", "over_report_bytes", 0),
            column("failure, or note", lambda row: row["failure"] or row["note"], wide=True),
            again_column(lambda row: f"loopwright check {finding.kernel.id}/{row['variant']}"),
        ],
        lambda row: {"variant": variant_facet(finding.kernel.id, row["variant"])},
    )


def _facets(finding: Finding, row: Row, model: str) -> dict[str, str]:
    variant = variant_facet(finding.kernel.id, row["variant"])
    out = {"core": str(row["microarch"]), "model": model, "variant": variant}
    return out | ({"notion": row["notion"]} if row.get("notion") in ("loop", "unrolled") else {})
