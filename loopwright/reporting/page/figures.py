"""The figures of one kernel on the page, with captions and text for who cannot see them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd
from matplotlib.figure import Figure

from loopwright.histogram import Histogram
from loopwright.judging.compare import MEASURED
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import cross_validation, plots, sizes
from loopwright.reporting.findings import Finding
from loopwright.reporting.page import svg

CURVE = ["routine", "microarch", "source"]  # what one curve chart is of


@dataclass(frozen=True)
class Drawing:
    """A figure as an svg element, its caption, and what filters know it by."""

    svg: str
    caption: str
    facets: dict[str, str] = field(default_factory=dict)


def throughput(found: Finding, name: str) -> Iterator[Drawing]:
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
    """Return costs of calls by size and routine: measured where they were, else simulated."""
    measured = sizes.measured(found.study.measurements)
    parts = [measured] if len(measured) else []
    for core in found.cores():
        if core not in set(measured["microarch"]):
            parts.append(sizes.predicted(found.table, core, SIMULATOR))
    rows = pd.concat([p for p in parts if len(p)] or [measured], ignore_index=True)
    return rows.assign(routine=[found.kernel.variants[name].routine for name in rows["variant"]])


def curves(
    found: Finding, known: pd.DataFrame, histogram: Histogram | None, name: str
) -> Iterator[Drawing]:
    """Yield the cost of a call over its size, for each routine and core."""
    for (routine, core, source), mine in known.groupby(CURVE, sort=False):
        what = "measured" if source == MEASURED else "start-up and main loop, predicted"
        notes = "; ".join(note for note in mine["note"].unique() if note)
        what += f" {notes}" if notes else ""
        weights = f"; bars: calls in {histogram.name}" if histogram else ""
        yield drawing(
            plots.size_curves(mine, kernel=found.kernel.id, histogram=histogram),
            f"{name}-{routine}-{core}-{source}-sizes",
            f"{routine} on {core}: cycles a call over its size, {what}. Vertical lines: the "
            f"cheapest variant changes{weights}",
            "the table below names the cheapest variant by size",
            {"core": str(core), "model": str(source)},
        )


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
    return Drawing(svg.inline(figure, name, f"{caption}; {aside}"), caption, facets)
