"""The report as one HTML page that needs no network: the answers first, details folded."""

from dataclasses import dataclass

import pandas as pd

from loopwright import microarchs
from loopwright.histogram import Histogram
from loopwright.judging.published import published
from loopwright.kernels import Kernel
from loopwright.reporting import cross_validation, origin
from loopwright.reporting.findings import Finding
from loopwright.reporting.page import band_tables, figures, kernel_tables, moments, pairs
from loopwright.reporting.page.asked import Asked
from loopwright.reporting.page.figures import Drawing
from loopwright.reporting.page.grid import Column, Grid, GridRow, marked, number, text
from loopwright.reporting.page.made import made
from loopwright.reporting.page.verdicts import RoutineVerdict, kernel_name, verdicts
from loopwright.reporting.threads import ThreadAnswer, threads
from loopwright.rows import statements
from loopwright.version import VERSION

# What a recommendation says beside its winner: heads, and columns of recommend.
_SAID_OF = {
    "Confidence": "confidence",
    "Models": "models",
    "Slower on": "slower_on",
    "Only where": "only_where",
    "Without a patch": "without_patch",
    "Basis": "basis",
    "Stored runs": "stored",
    "Evidence": "evidence",
    "Published": "published",
    "What would decide": "break_even",
    "Measure first": "measure_first",
}


@dataclass(frozen=True)
class KernelSection:
    """Section of the page about one kernel."""

    name: str
    kernel: Kernel
    finding: Finding
    verdicts: list[RoutineVerdict]
    judged: list[dict[str, object]]
    strips: list[Drawing]
    bands: Grid | None
    throughput: list[Drawing]
    throughput_table: Grid
    silent: Grid | None
    assumed: Grid | None
    heat_maps: list[Drawing]
    boundaries: Grid
    curves: list[Drawing]
    cheapest: Grid | None
    calls: Grid | None
    contract: Grid


def render(
    findings: list[Finding], host: dict[str, object], asked: Asked, histogram: Histogram | None
) -> str:
    """Return the page. host is what hosts.describe returns."""
    measured = [f.study.measurements for f in findings if len(f.study.measurements)]
    clocks = sorted({str(c) for rows in measured for c in rows["clock"].dropna().unique() if c})
    answers = _in_order([answer for found in findings for answer in found.answers])
    every = verdicts(findings)
    return made(
        "page.html.j2",
        scripts=("folds.js", "filters.js", "sorting.js", "timeline.js", "moments.js"),
        version=VERSION,
        asked=asked,
        host=host,
        clocks=clocks,
        unmeasured=sorted({f.study.unmeasured for f in findings} - {""}),
        sources=sorted({str(s) for f in findings for s in f.study.sources}),
        versions=origin.versions(),
        answers=answers,
        verdicts=every,
        pairs=pairs.pairs(findings, published(), answers),
        ticks=[(tick, pairs.at(tick)) for tick in pairs.TICKS],
        said_of=_SAID_OF,
        statements=statements,
        parts=[_part(f, every, asked, histogram) for f in findings],
        scatters=list(figures.scatters(findings)),
        accuracy=_accuracy(findings),
        facets=(facets := _facets(findings)),
        ports=kernel_tables.ports([c for c in facets["core"] if c in microarchs.ids()]),
        timelines=moments.data(findings, asked),
    )


def _in_order(answers: list[ThreadAnswer]) -> list[ThreadAnswer]:
    order = [thread.id for thread in threads()]
    return sorted(answers, key=lambda answer: order.index(answer.thread.id))


def _part(
    found: Finding, every: list[RoutineVerdict], asked: Asked, histogram: Histogram | None
) -> KernelSection:
    name = kernel_name(found.kernel.id)
    known = figures.costs(found)
    judged = [
        {str(key): value for key, value in row.items()}
        for row in found.recommendation.to_dict("records")
    ]
    return KernelSection(
        name=name,
        kernel=found.kernel,
        finding=found,
        verdicts=[one for one in every if one.kernel == found.kernel.id],
        judged=judged,
        strips=list(band_tables.strips(found, name)),
        bands=band_tables.bands(found, name),
        throughput=list(figures.throughput(found, name)),
        throughput_table=kernel_tables.throughput(found, asked, name),
        silent=kernel_tables.silent(found, name),
        assumed=kernel_tables.assumed(found, name),
        heat_maps=list(figures.heat_maps(found, name)),
        boundaries=kernel_tables.boundaries(found, asked, name),
        curves=list(figures.curves(found, known, histogram, name)),
        cheapest=kernel_tables.cheapest(found, known, name) if len(known) else None,
        calls=kernel_tables.calls(found, asked, name),
        contract=kernel_tables.contract(found, name),
    )


def _accuracy(findings: list[Finding]) -> Grid | None:
    """Return how each model did on each core that something was measured on."""
    pairs = cross_validation.pairs(pd.concat([f.table for f in findings], ignore_index=True))
    if pairs.empty:
        return None
    columns = (
        Column("core"), Column("model"), Column("loops", True), Column("MAPE, %", True),
        Column("Kendall's tau", True), Column("farthest off, %", True), Column("origin"),
    )  # fmt: skip
    where = pairs.drop_duplicates("microarch").set_index("microarch")
    rows = []
    for row in cross_validation.summary(pairs).to_dict("records"):
        of = where.loc[row["microarch"]]
        cells = [
            marked(row["microarch"]), text(row["source"]), number(row["loops"], 0),
            number(row["mape_percent"], 1), number(row["kendall_tau"]),
            number(row["worst_percent"], 1, sign=True),
            text(f"{origin.of(row['source'], '', '')} against {of['machine']}, {of['clock']}"),
        ]  # fmt: skip
        rows.append(GridRow(cells, {"core": row["microarch"], "model": row["source"]}))
    return Grid("accuracy", "How far the models are from what was measured", columns, rows)


def _facets(findings: list[Finding]) -> dict[str, list[str]]:
    """Return what can be filtered for, in the order of the tables."""
    whole = pd.concat([f.table for f in findings], ignore_index=True)
    return {
        "kernel": [f.kernel.id for f in findings],
        "core": [str(c) for c in whole["microarch"].unique()],
        "model": [*origin.versions(), "measured"],
        "variant": [f"{f.kernel.id}/{name}" for f in findings for name in f.kernel.variants],
        "notion": [str(n) for n in whole["notion"].dropna().unique()],
    }
