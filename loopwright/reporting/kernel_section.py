"""The section of one kernel on the page: its figures and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from loopwright import microarchs
from loopwright.histogram import Histogram
from loopwright.judging.study import MEASURED
from loopwright.predicting import core_figures
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import cross_validation, cycle_curves, findings, html, plots
from loopwright.reporting.findings import Asked, Finding
from loopwright.reporting.html import (
    Column,
    Grid,
    GridRow,
    command,
    filled,
    marked,
    number,
    text,
    variant_facet,
)

CURVE = ["routine", "microarch", "source"]  # what one curve chart is of


@dataclass(frozen=True)
class Drawing:
    """A figure as an svg element, its caption, and what filters know it by."""

    svg: str
    caption: str
    facets: dict[str, str] = field(default_factory=dict)


def throughput_bars(found: Finding, name: str) -> Iterator[Drawing]:
    """Yield the cycles of each variant, for each core with figures."""
    answered = set(found.table.loc[found.table["cycles"].notna(), "microarch"])
    for core in (c for c in found.cores() if c in answered):
        yield drawing(
            plots.cycles(found.table, core),
            f"{name}-{core}-throughput",
            f"{core}: cycles by variant and source, for as many bytes of each variant",
            "the table below has the same numbers",
            {"core": core},
        )


def heat_maps(found: Finding, name: str) -> Iterator[Drawing]:
    """Yield a heat map for each core on which some offset slows a variant down."""
    for core, words in found.boundaries.groupby("microarch", sort=False):
        slow = ", ".join(words.loc[words["slow_offsets"] != "", "variant"])
        if not slow:
            continue
        yield drawing(
            plots.heat_map(found.sweep, str(core)),
            f"{name}-{core}-heat",
            f"{core}: slowdown over code offsets. A dot marks more than 2 % above the variant's "
            "best; dashed lines are 32-byte boundaries, dotted ones 16-byte",
            f"variants that some offset slows down: {slow}; the table below says which",
            {"core": str(core), "model": SIMULATOR},
        )


def costs(found: Finding) -> pd.DataFrame:
    """Return costs of calls by size and routine: what was measured, then what is simulated."""
    measured = cycle_curves.measured(found.study.measurements)
    said = cycle_curves.of_calls(found.calls) if len(found.calls) else measured
    parts = [part for part in (measured, said) if len(part)]
    rows = pd.concat(parts or [measured], ignore_index=True)
    return rows.assign(routine=[found.kernel.variants[name].routine for name in rows["variant"]])


def curves(
    found: Finding, known: pd.DataFrame, histogram: Histogram | None, name: str
) -> Iterator[Drawing]:
    """Yield the cost of a call over its size, for each routine, core and source.

    Those of a routine have the same axis of cycles.
    """
    most = cycle_curves.between(known).groupby(known["routine"])["high_cycles"].max().to_dict()
    for key, mine in known.groupby(CURVE, sort=False):
        routine, core, source = map(str, key)
        what = "measured" if source == MEASURED else f"whole calls predicted by {source}"
        notes = "; ".join(note for note in mine["note"].unique() if note)
        what += f" ({notes})" if notes else ""
        bands = bool(mine["low_cycles"].notna().any())
        parts = [
            f"{routine} on {core}: cycles a call over its size, {what}",
            *(["Bands: as far as what nobody has measured of the core can move it"] * bands),
            f"Vertical lines: the cheapest variant changes{_silent(found, routine, core, source)}",
        ]
        weights = f"; bars: calls in {histogram.name}" if histogram else ""
        yield drawing(
            plots.size_curves(
                mine, kernel=found.kernel.id, histogram=histogram, most=float(most[routine])
            ),
            f"{name}-{routine}-{core}-{source}-sizes",
            f"{'. '.join(parts)}{weights}",
            "the table below names the cheapest variant by size",
            {"core": str(core), "model": str(source)},
        )


def _silent(found: Finding, routine: str, core: str, source: str) -> str:
    """Return which variants of a routine have no cost at all on a core, and why."""
    rows = found.calls
    if source == MEASURED or rows.empty:
        return ""
    mine = rows[(rows["routine"] == routine) & (rows["microarch"] == core)]
    mine = mine[mine["cycles"].isna() & mine["cheap"].isna()].drop_duplicates("variant")
    why = [f"{row['variant']} ({row['error']})" for row in mine.to_dict("records")]
    return f". Not predicted: {', '.join(why)}" if why else ""


def scatters(findings: list[Finding]) -> Iterator[Drawing]:
    """Yield predicted over measured cycles for each core that something was measured on."""
    pairs = cross_validation.pairs(pd.concat([f.table for f in findings], ignore_index=True))
    for core, mine in pairs.groupby("microarch", sort=False):
        yield drawing(
            plots.scatter(mine),
            f"scatter-{core}",
            f"{core}: predicted over measured cycles; the band is 10 % to either side",
            "the table below has MAPE and Kendall's tau",
            {"core": str(core)},
        )


def drawing(figure: Figure, name: str, caption: str, aside: str, facets: dict[str, str]) -> Drawing:
    """Return a figure as the page has it; aside is for who cannot see it."""
    return Drawing(html.inline(figure, name, f"{caption}; {aside}"), caption, facets)


def strips(found: Finding, name: str) -> Iterator[Drawing]:
    """Yield the strips of each routine, a row of each for a core."""
    if found.bands.empty:
        return
    for routine, mine in found.bands.groupby("routine", sort=False):
        yield drawing(
            plots.strip(mine, found.kernel.id),
            f"{name}-{routine}-strip",
            f"{routine}: the best variant by size of a call. Filled: it beats the baseline "
            "whatever is not known; hatched: it may; empty: the baseline as it is",
            "the table below has the same bands",
            {},
        )


def bands(found: Finding, name: str) -> Grid | None:
    """Return the bands with their speeds, None where there are none."""
    if found.bands.empty:
        return None
    columns = (
        Column("routine"), Column("core"), Column("where", wide=True), Column("from, B", True),
        Column("to, B", True), Column("best"), Column("verdict"),
        Column("against baseline at least, %", True), Column("at most, %", True),
        Column("evidence", wide=True),
    )  # fmt: skip
    rows = [
        GridRow(
            [text(row["routine"]), marked(row["microarch"]), text(row["condition"]),
             number(row["from_bytes"], 0), number(row["to_bytes"], 0), text(row["variant"]),
             text(row["status"]), number(100 * (row["speed_low"] - 1), 1, sign=True),
             number(100 * (row["speed_high"] - 1), 1, sign=True), text(row["evidence"])],
            {"core": str(row["microarch"])},
        )
        for row in found.bands.to_dict("records")
    ]  # fmt: skip
    caption = (
        f"{found.kernel.id}: which variant is best from which size to which. wins: whatever is not "
        "known; open: what is not known, or the error of the evidence, decides; keeps: none beats "
        "the baseline"
    )
    return Grid(f"{name}-bands", caption, *filled(columns, rows))


_ASKED = {"source": "model", "microarch": "core", "variant": "variants"}
_ORIGIN = Column("origin", wide=True)
_HOW = Column("again by")
_SHARED = (Column("variant"), Column("core"))


def throughput_table(found: Finding, asked: Asked, name: str) -> Grid:
    """Return the comparison: a row for each variant, core and source that has a number."""
    columns = (
        *_SHARED, Column("source"), Column("notion"), Column("offset, B", True),
        Column("cycles", True), Column("for"), Column("against baseline, %", True),
        Column("error, %", True), Column("bytes an iteration", True),
        Column("limited by", wide=True), Column("remark", wide=True), _ORIGIN, _HOW,
    )  # fmt: skip
    limits = found.study.predictions.set_index(["variant", "microarch", "model"])["bottleneck"]
    limit_of = limits.to_dict()
    rows = []
    for row in found.table[found.table["cycles"].notna()].to_dict("records"):
        key = (str(row["variant"]), str(row["microarch"]), str(row["source"]))
        measured = row["source"] == MEASURED
        place = "" if measured or pd.isna(row["offset"]) else f"{row['offset']:.0f}"
        doubt = row["uncertainty"] * row["cycles_per_unit"] / row["cycles"] if measured else None
        mark = "!" * bool(row["excluded"]) + "*" * bool(row["note"])
        cells = [
            text(row["variant"]), marked(row["microarch"]), text(row["source"]),
            text(row["notion"]), number(row["offset"], 0),
            number(row["cycles_per_unit"], doubt=doubt, mark=mark),
            text(row["unit"]), number(100 * (row["vs_baseline"] - 1), 1, sign=True),
            number(row["error_percent"], 1, sign=True), number(row["bytes_per_iteration"], 0),
            text(limit_of.get(key, "")), text(_remark(row)),
            text(findings.origin_of(str(row["source"]), str(row["machine"]), str(row["clock"]))),
            command(asked.figure(found.kernel.id, *key, place=place)),
        ]  # fmt: skip
        rows.append(GridRow(cells, _facets(found, row, str(row["source"]))))
    caption = (
        f"{found.kernel.id}: cycles of the main loop (notion loop) or of a call (unrolled) for as "
        "many bytes of each variant, speed against the baseline, and each model's error where this "
        "was measured. A figure with ! or * is in no comparison: its remark says why"
    )
    return Grid(f"{name}-throughput", caption, *filled(columns, rows))


def _remark(row: dict[Any, Any]) -> str:
    """Return what a reader of a figure must know: why it is not used, which loop it is of."""
    partial = f"measured {row['note']}" if row["note"] else ""
    several = row["main_loop"] if " loops: " in str(row["main_loop"]) else ""
    parts = (row["excluded"], partial, row["caveat"], several)
    return "; ".join(part for part in parts if part)


def steps(found: Finding, name: str) -> Grid | None:
    """Return what each step gained on the way to the variants that improve found, None if none."""
    columns = (
        Column("variant"), Column("transformation", wide=True), Column("bytes", True),
        Column("core"), Column("cycles a call", True), Column("times as fast as before", True),
    )  # fmt: skip
    rows = [
        GridRow(
            [text(variant.name), text(step.name), number(step.bytes, 0), marked(core),
             number(cycles), number(before.cycles[core] / cycles)],
            {"core": core, "variant": variant_facet(found.kernel.id, variant.name)},
        )
        for variant in found.kernel.variants.values()
        for before, step in zip(variant.steps[:1] + variant.steps, variant.steps, strict=False)
        for core, cycles in step.cycles.items()
    ]  # fmt: skip
    caption = (
        f"{found.kernel.id}: cycles by pipeline of the variants that `improve` found, as it "
        "predicted them, from the one that it began with on, step by step"
    )
    return Grid(f"{name}-steps", caption, columns, rows) if rows else None


def silent(found: Finding, name: str) -> Grid | None:
    """Return why there is no number, each reason once; None where all sources answer."""
    missing = found.table[found.table["cycles"].isna() & found.table["error"].fillna("").ne("")]
    if missing.empty:
        return None
    rows = [
        GridRow(
            [text(error), *(text(", ".join(mine[c].unique())) for c in _ASKED)],
            {
                _ASKED[k]: str(mine[k].iloc[0])
                for k in ("source", "microarch")
                if mine[k].nunique() == 1
            },
        )
        for error, mine in missing.groupby("error", sort=False)
    ]
    columns = (Column("reason", wide=True), *(Column(c) for c in _ASKED.values()))
    return Grid(f"{name}-silent", f"{found.kernel.id}: no number, and why", columns, rows)


def assumed(found: Finding, name: str) -> Grid | None:
    """Return the unmeasured parameters that the simulator's figures follow, None without any."""
    if found.assumed.empty:
        return None
    columns = (
        *_SHARED, Column("parameter"), Column("taken as"), Column("cycles, from", True),
        Column("cycles, to", True), Column("why", wide=True), _HOW,
    )  # fmt: skip
    rows = [
        GridRow(
            [
                text(row["variant"]), marked(row["microarch"]), text(row["of"]),
                text(row["figure"]), number(row["least_cycles"]), number(row["most_cycles"]),
                text(row["source"]),
                command(f"loopwright predict {found.kernel.id}/{row['variant']} "
                        f"--microarch {row['microarch']} --sources"),
            ],
            _facets(found, row, SIMULATOR),
        )
        for row in found.assumed.to_dict("records")
    ]  # fmt: skip
    caption = (
        f"{found.kernel.id}: cycles of an iteration, or of 64 bytes and the start of a string "
        "instruction, as a parameter varies over what is known of it, or by a step"
    )
    return Grid(f"{name}-assumed", caption, columns, rows)


def ports(cores: Sequence[str]) -> Grid:
    """Return which ports of the cores run what."""
    rows = [
        GridRow([text(core.name), text(use.kind), text(" ".join(use.ports))], {"core": core.id})
        for core in map(microarchs.load, cores)
        for use in core_figures.port_uses(core)
    ]
    columns = (Column("core"), Column("what"), Column("ports"))
    return Grid("ports", "Which ports of each core run what", columns, rows)


def boundaries(found: Finding, asked: Asked, name: str) -> Grid:
    """Return what code alignment costs, in words."""
    columns = (
        *_SHARED, Column("best, cycles", True), Column("worst, cycles", True),
        Column("boundary, B", True), Column("in words", wide=True), _ORIGIN, _HOW,
    )  # fmt: skip
    rows = [
        GridRow(
            [
                text(row["variant"]), marked(row["microarch"]), number(row["best_cycles"]),
                number(row["worst_cycles"]), number(row["boundary_bytes"], 0), text(row["words"]),
                text(findings.origin_of(SIMULATOR, "", "")),
                command(asked.figure(found.kernel.id, row["variant"], row["microarch"],
                                     SIMULATOR, "all")),
            ],
            _facets(found, row, SIMULATOR),
        )
        for row in found.boundaries.to_dict("records")
    ]  # fmt: skip
    caption = f"{found.kernel.id}: cycles an iteration over the code offsets 0 to 63, simulated"
    return Grid(f"{name}-boundaries", caption, columns, rows)


def calls(found: Finding, asked: Asked, name: str) -> Grid | None:
    """Return the measured costs of calls, None where nothing was measured."""
    measured = found.study.measurements
    measured = measured[measured["quantity"] == "call"] if len(measured) else measured
    if measured.empty:
        return None
    columns = (
        *_SHARED, Column("size, B", True), Column("destination, source align, B"),
        Column("offset, B", True), Column("cycles a call", True), Column("p10", True),
        Column("p90", True), Column("samples", True), Column("remark", wide=True), _ORIGIN, _HOW,
    )  # fmt: skip
    rows = []
    for row in measured.to_dict("records"):
        again = asked.figure(found.kernel.id, row["variant"], row["microarch"], MEASURED)
        if " measure " in again and found.kernel.routines:
            again += f" --sizes {row['size_bytes']:.0f}"
        core = row["microarch"] or "this host"
        cells = [
            text(row["variant"]), marked(core), number(row["size_bytes"], 0),
            text(f"{row['dst_align']:.0f}, {row['src_align']:.0f}"), number(row["offset"], 0),
            number(row["cycles"], doubt=row["uncertainty"]), number(row["p10"]),
            number(row["p90"]), number(row["samples"], 0),
            text("; ".join(part for part in (row["reason"], row["note"]) if part)),
            text(findings.origin_of(MEASURED, str(row["machine"]), str(row["clock"]))),
            command(again),
        ]  # fmt: skip
        rows.append(GridRow(cells, _facets(found, {**row, "microarch": core}, MEASURED)))
    caption = f"{found.kernel.id}: measured cycles a call"
    return Grid(f"{name}-calls", caption, columns, rows)


def cheapest(found: Finding, costs: pd.DataFrame, name: str) -> Grid:
    """Return which variant is cheapest in which stretch of sizes, by routine, core, source."""
    columns = (
        Column("routine"), Column("core"), Column("source"), Column("from, B", True),
        Column("to, B", True), Column("cheapest"), Column("no cost known of", wide=True),
        Column("remark", wide=True),
    )  # fmt: skip
    rows = [
        GridRow(
            [text(routine), marked(core), text(source), number(row["from_bytes"], 0),
             number(row["to_bytes"], 0), text(row["cheapest"]), text(row["lacking"]),
             text("; ".join(note for note in mine["note"].unique() if note))],
            {"core": str(core), "model": str(source)},
        )
        for (routine, core, source), mine in costs.groupby(CURVE, sort=False)
        for row in cycle_curves.crossovers(mine).to_dict("records")
    ]  # fmt: skip
    caption = f"{found.kernel.id}: the cheapest variant by size, with the crossover points"
    return Grid(f"{name}-cheapest", caption, *filled(columns, rows))


def contract(found: Finding, name: str) -> Grid:
    """Return how each variant fared against its contract."""
    columns = (
        Column("variant"), Column("holds"), Column("cases", True),
        Column("reported beyond need, B", True), Column("failure, or note", wide=True), _HOW,
    )  # fmt: skip
    rows = [
        GridRow(
            [text(row["variant"]), text("yes" if row["passed"] else "no"), number(row["cases"], 0),
             number(row["over_report_bytes"], 0), text(row["failure"] or row["note"]),
             command(f"loopwright check {found.kernel.id}/{row['variant']}")],
            {"variant": variant_facet(found.kernel.id, row["variant"])},
        )
        for row in found.study.checks.to_dict("records")
    ]  # fmt: skip
    caption = (
        f"{found.kernel.id}: calls made to hold variants to their contract: results, faults at "
        "every position, bounds, registers"
    )
    return Grid(f"{name}-contract", caption, columns, rows)


def _facets(found: Finding, row: dict[Any, Any], model: str) -> dict[str, str]:
    out = {
        "core": str(row["microarch"]),
        "model": model,
        "variant": variant_facet(found.kernel.id, row["variant"]),
    }
    return (
        {**out, "notion": str(row["notion"])} if row.get("notion") in ("loop", "unrolled") else out
    )
