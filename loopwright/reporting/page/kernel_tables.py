"""The tables of one kernel on the page."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from loopwright import microarchs
from loopwright.judging.study import MEASURED
from loopwright.predicting import core_figures
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import origin, sizes
from loopwright.reporting.findings import Finding
from loopwright.reporting.page.asked import Asked
from loopwright.reporting.page.figures import CURVE
from loopwright.reporting.page.grid import (
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

_ASKED = {"source": "model", "microarch": "core", "variant": "variants"}
_ORIGIN = Column("origin", wide=True)
_HOW = Column("again by")
_SHARED = (Column("variant"), Column("core"))


def throughput(found: Finding, asked: Asked, name: str) -> Grid:
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
            text(origin.of(str(row["source"]), str(row["machine"]), str(row["clock"]))),
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
                text(origin.of(SIMULATOR, "", "")),
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
            text(origin.of(MEASURED, str(row["machine"]), str(row["clock"]))), command(again),
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
        for row in sizes.crossovers(mine).to_dict("records")
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
