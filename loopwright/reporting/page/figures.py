"""The figures of one kernel on the page, with captions and text for who cannot see them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd
from matplotlib.figure import Figure

from loopwright.histogram import Histogram
from loopwright.judging.study import MEASURED
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
    """Return costs of calls by size and routine: what was measured, then what is simulated."""
    measured = sizes.measured(found.study.measurements)
    said = sizes.of_calls(found.calls) if len(found.calls) else measured
    parts = [part for part in (measured, said) if len(part)]
    rows = pd.concat(parts or [measured], ignore_index=True)
    return rows.assign(routine=[found.kernel.variants[name].routine for name in rows["variant"]])


def curves(
    found: Finding, known: pd.DataFrame, histogram: Histogram | None, name: str
) -> Iterator[Drawing]:
    """Yield the cost of a call over its size, for each routine, core and source.

    Those of a routine have the same axis of cycles.
    """
    most = sizes.between(known).groupby(known["routine"])["high_cycles"].max().to_dict()
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
    mine = mine[mine["cycles"].isna() & mine["low"].isna()].drop_duplicates("variant")
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
    return Drawing(svg.inline(figure, name, f"{caption}; {aside}"), caption, facets)
