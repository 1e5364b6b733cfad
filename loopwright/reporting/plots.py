"""Figures, in plain matplotlib: each function takes a table and returns a Figure.

The tables come from the verbs of the package and from the modules beside this one. A figure is
closed in pyplot: a notebook shows it where it is the last value of a cell, or by display(figure).
"""

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, ParamSpec

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from loopwright.histogram import Histogram
from loopwright.judging.study import MEASURED
from loopwright.judging.verdicts import CONTESTED, KEEPS, OPEN
from loopwright.machine import hosts
from loopwright.microarchs import Microarch
from loopwright.predicting import core_figures
from loopwright.predicting.models import MODELS
from loopwright.reporting import html
from loopwright.reporting.cross_validation import summary, worst
from loopwright.reporting.cycle_curves import SLOW, crossovers, with_ranges
from loopwright.reporting.html import FAINT, INK

P = ParamSpec("P")

_LOOK = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "hatch.linewidth": 0.5,
    "figure.facecolor": "white",
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    ),
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
}


def drawn(function: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorate a drawing function with the shared style.

    The figure is closed in pyplot when it is returned: a notebook shows it once, where it is
    displayed or the last value of a cell, and figures do not accumulate.
    """

    @wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with plt.rc_context(_LOOK):  # type: ignore[arg-type]
            figure = function(*args, **kwargs)
        plt.close(figure)
        return figure

    return draw


def one_panel(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of a size in inches and its only axes."""
    return plt.subplots(figsize=(width, height), layout="constrained")


def panels(count: int, abreast: int, *, feet: bool) -> tuple[Figure, list[Axes], list[Axes]]:
    """Return a figure of count panels with shared axes, at most abreast in a row, and the panels.

    With feet each panel has a lower one below it, which shares its horizontal axis: the last list.
    """
    columns = min(count, abreast)
    lines = -(-count // columns)
    heights = {"top": 4.0, "foot": 1.0} if feet else {"top": 4.0}
    figure, mosaic = plt.subplot_mosaic(
        [
            [f"{part}{n}" if n < count else "." for n in range(first, first + columns)]
            for first in range(0, lines * columns, columns)
            for part in heights
        ],
        figsize=(6.4 if columns == 1 else 5.0 * columns, (sum(heights.values()) + 0.2) * lines),
        sharex=True,
        height_ratios=[*heights.values()] * lines,
        layout="constrained",
    )
    tops, lower = ([mosaic[f"{part}{n}"] for n in range(count)] for part in ("top", [*heights][-1]))
    for row_of_axes in (tops, lower):
        for axes in row_of_axes[1:]:
            axes.sharey(row_of_axes[0])
    for axes in lower:
        axes.tick_params(labelbottom=True)
    return figure, tops, lower if feet else []


def beside(axes: Axes) -> None:
    """Put the legend at the right of the axes."""
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def beneath(figure: Figure, *every: Axes, order: Sequence[str] = ()) -> None:
    """Put one legend for several axes below the figure, each label once."""
    shown: dict[str, Artist] = {}
    for axes in every:
        handles, labels = axes.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    labels = [label for label in order or shown if label in shown]
    figure.legend([shown[n] for n in labels], labels, loc="outside lower center", ncols=3)


def nothing(why: str) -> Figure:
    """Return a figure with the reason why there is nothing to draw."""
    figure, axes = plt.subplots(figsize=(8, 1.2), layout="constrained")
    axes.axis("off")
    axes.text(0, 0.5, why, wrap=True, va="center")
    return figure


_SOURCES = (*(m.id for m in MODELS), MEASURED)


@drawn
def cycles(table: pd.DataFrame, microarch: str) -> Figure:
    """Draw the cycles of each variant on one core, a bar for each source with a figure.

    table is what compare returns: cycles are for the unit that its variants are compared by, with a
    panel for each unit. Error bars are the measurement's uncertainty. Figures that are excluded,
    and measurements of a part of a routine, are not drawn.
    """
    rows = table[(table["microarch"] == microarch) & table["cycles"].notna()]
    rows = rows[rows["excluded"].eq("") & rows["note"].eq("")]
    sources = [s for s in _SOURCES if s in set(rows["source"])]
    if not sources:
        return nothing(f"{microarch}: no source has an answer that counts")
    units = list(rows["unit"].unique())
    counts = [rows.loc[rows["unit"] == unit, "variant"].nunique() for unit in units]
    tall = 0.6 + 0.5 * len(units) + 0.14 * sum(counts) * (len(sources) + 1)
    figure, grid = plt.subplots(
        len(units), 1, figsize=(5.8, tall), squeeze=False, height_ratios=counts,
        layout="constrained",
    )  # fmt: skip
    all_axes = [*grid[:, 0]]
    for axes, unit in zip(all_axes, units, strict=True):
        _panel(axes, rows[rows["unit"] == unit], sources)
        axes.set_xlabel(f"cycles for {unit} (less is faster)")
    all_axes[0].set_title(hosts.marked(microarch))
    beneath(figure, *all_axes, order=sources)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, sources: list[str]) -> None:
    """Draw the bars of the variants that are compared by one unit, grouped by variant."""
    variants = list(rows["variant"].unique())
    height = 1 / (len(sources) + 1)
    for number, source in enumerate(sources):
        mine = rows[rows["source"] == source].drop_duplicates("variant").set_index("variant")
        if mine.empty:
            continue
        style = html.source(source)
        bars = axes.barh(
            [variants.index(v) + (number + 0.5) * height for v in mine.index],
            mine["cycles_per_unit"],
            height,
            label=source,
            color=style.colour,
            hatch=style.hatch,
            edgecolor="white",
            linewidth=0.4,
            xerr=mine["uncertainty"] * mine["cycles_per_unit"] / mine["cycles"],
            error_kw={"ecolor": html.FAINT},
        )
        axes.bar_label(bars, [f"{v:.2f}" for v in mine["cycles_per_unit"]], padding=2, fontsize=7)
    axes.set_yticks([n + 0.5 - height / 2 for n in range(len(variants))], variants)
    axes.set_ylim(len(variants), 0)  # every name is in sight, whatever bars it has
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.14)
    axes.grid(axis="x")


_COLOURS = LinearSegmentedColormap.from_list("slow", ["#e9edf2", "#f3c79b", "#d55e00"])


@drawn
def heat_map(rows: pd.DataFrame, microarch: str) -> Figure:
    """Draw the variants of a sweep over code offsets on one core.

    rows is what cycle_curves.sweep returns. Colour is the slowdown over the variant's best offset;
    a dot marks each offset that is slower by more than 2 %. Boundaries of 32 bytes are dashed
    lines, of 16 dotted; the map's edges are those of 64.
    """
    mine = rows[(rows["microarch"] == microarch) & rows["cycles_per_iteration"].notna()]
    if mine.empty:
        return nothing(f"{microarch}: no prediction at any offset")
    order = list(mine["variant"].unique())
    grid = mine.pivot_table(
        index="variant", columns="offset_bytes", values="slowdown_percent", sort=False
    ).reindex(order)
    cycles = mine.groupby("variant")["cycles_per_iteration"]
    low, high = cycles.min()[order], cycles.max()[order]
    spans = [f"{a:.2f}" if b <= a * (1 + SLOW) else f"{a:.2f} to {b:.2f}"
             for a, b in zip(low, high, strict=True)]  # fmt: skip
    step = 64 // grid.shape[1]
    figure, axes = one_panel(7.4, 1.1 + 0.3 * len(order))
    image = axes.imshow(
        grid.to_numpy(),
        aspect="auto",
        interpolation="none",
        cmap=_COLOURS,
        vmin=0,
        vmax=max(10.0, float(grid.max().max())),
        extent=(0, 64, len(order) - 0.5, -0.5),
    )
    for row, name in enumerate(order):
        slow = [o + step / 2 for o in grid.columns[grid.loc[name] > 100 * SLOW]]
        axes.plot(slow, [row] * len(slow), ".", markersize=3, color="black")
    for at in range(16, 64, 16):
        axes.axvline(at, color="#5a6472", linewidth=0.8, linestyle="--" if at % 32 == 0 else ":")
    for at in range(1, len(order)):
        axes.axhline(at - 0.5, color="white", linewidth=1.5)
    axes.set_yticks(range(len(order)), order)
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(order)), spans, fontsize=7)
    for side in (axes, right):
        side.tick_params(axis="y", length=0)
        side.spines[:].set_visible(False)
    axes.set_xticks(range(0, 65, 8))
    axes.set_xlabel("code offset, bytes mod 64")
    axes.set_title(f"{hosts.marked(microarch)}: cycles an iteration over code offsets")
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.04)
    bar.set_label("% above the best")
    bar.outline.set_visible(False)
    return figure


@drawn
def port_map(core: Microarch, kinds: Sequence[str] | None = None) -> Figure:
    """Draw a row for each kind of uop and a column for each port, with a square where it runs.

    kinds are the rows, those of the core where left out; a kind without figures stays empty.
    """
    uses = {use.kind: use.ports for use in core_figures.port_uses(core)}
    rows = list(uses) if kinds is None else list(kinds)
    ports = core_figures.port_names(core)
    if not ports or not rows:
        return nothing(f"{core.id}: the simulator has no figures for it")
    figure, axes = one_panel(1.9 + 0.27 * len(ports), 0.75 + 0.24 * len(rows))
    colour = html.OKABE_ITO[0]
    for y, kind in enumerate(rows):
        taken = [x for x, port in enumerate(ports) if port in uses.get(kind, "")]
        axes.scatter(taken, [y] * len(taken), marker="s", s=95, color=colour)
        axes.axhline(y - 0.5, color=html.FAINT, linewidth=0.6)
    axes.set_xticks(range(len(ports)), list(ports))
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlim(-0.7, len(ports) - 0.3)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(f"{core.id}: ports")
    return figure


@drawn
def ports(rows: pd.DataFrame) -> Figure:
    """Draw the uops an iteration on each port used, with a colour and hatch by instruction.

    rows is what loopwright.ports returns for one block at one offset.
    """
    if rows["error"].ne("").any():
        return nothing(f"no use of ports: {rows['error'].iloc[0]}")
    used = rows[rows["uops_per_iteration"] > 0]
    if used.empty:
        return nothing("no instruction uses a port")
    busy = set(used["port"])
    names = [str(p) for p in rows["port"].unique() if p in busy]
    grid = used.pivot_table(
        index=["instruction", "text"], columns="port", values="uops_per_iteration", sort=False
    ).fillna(0.0)[names]
    figure, axes = one_panel(8, max(1.1 + 0.3 * len(names), 0.8 + 0.17 * len(grid)))
    left = pd.Series(0.0, index=names)
    for number, (instruction, text) in enumerate(grid.index):
        uses, style = grid.iloc[number], html.numbered(number)
        axes.barh(
            names, uses, left=left, color=style.colour, hatch=style.hatch, edgecolor="white",
            linewidth=0.4, label=f"{instruction} {' '.join(str(text).split()):.34}",
        )  # fmt: skip
        left += uses
    for at, total in enumerate(left):
        axes.text(total, at, f" {total:.2f}", va="center", fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.1 * left.max())
    axes.grid(axis="x")
    axes.set_ylabel("port")
    axes.set_xlabel("uops an iteration (the fullest port sets the least cycles)")
    first = rows.iloc[0]
    axes.set_title(f"{hosts.marked(first['microarch'])}, code offset {first['offset']}")
    beside(axes)
    return figure


@drawn
def published_over_size(rows: pd.DataFrame) -> Figure:
    """Draw published gains of variants over size_bytes as points, predicted ones as lines.

    rows are those of loopwright.published for one model.
    """
    rows = rows[rows["size_bytes"].notna() & rows["percent"].notna()]
    if rows.empty:
        return nothing("no published gains over the size of a call")
    figure, axes = one_panel(8, 3.8)
    for (kernel, variant), mine in rows.groupby(["kernel", "variant"], sort=False):
        style = html.variant(str(variant), str(kernel))
        mine = mine.sort_values("size_bytes")
        for name, figures, marker, line in (
            ("published", mine["percent"], style.marker, "none"),
            ("predicted", mine["predicted"], None, style.line),
        ):
            axes.plot(
                mine["size_bytes"].astype(float), figures, label=f"{variant}, {name}",
                color=style.colour, marker=marker, linestyle=line,
            )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel("size of the call, bytes")
    axes.set_ylabel("% faster than the baseline")
    axes.set_title(", ".join(rows["machine"].unique()))
    axes.grid(axis="y")
    beside(axes)
    return figure


_MOST_NAMED = 3  # loops with the largest errors, which the figure names
_APART = 10.0  # percent of error from which the figure names a loop
_QUANTITIES = {"loops": "cycles an iteration", "calls": "cycles a call"}


@drawn
def scatter(pairs: pd.DataFrame, of: str = "loops") -> Figure:
    """Draw predicted over measured cycles of one core, a colour and a marker for each model.

    pairs is what cross_validation.pairs returns of loops, or paired_calls of calls, as of says. The
    line is the identity, the band 10 % to either side; the legend has each model's MAPE and
    Kendall's tau; the variants with the first model's largest errors are named.
    """
    pairs = pairs[pairs["predicted_cycles"].notna()]
    if pairs.empty:
        return nothing(f"no {of} have both a prediction and a measurement here")
    figure, axes = one_panel(5.4, 5)
    cycles = pairs[["predicted_cycles", "measured_cycles"]].to_numpy(float)
    limits = np.array([cycles.min() / 1.3, cycles.max() * 1.3])
    axes.fill_between(limits, limits * 0.9, limits * 1.1, color=html.FAINT, alpha=0.5, linewidth=0)
    axes.plot(limits, limits, color=html.FAINT, linewidth=1)
    of_model = summary(pairs).groupby("source")
    for model in MODELS:
        mine = pairs[pairs["source"] == model.id]
        if mine.empty:
            continue
        [row] = of_model.get_group(model.id).to_dict("records")
        tau = "" if pd.isna(row["kendall_tau"]) else f", tau {row['kendall_tau']:.2f}"
        style = html.source(model.id)
        axes.errorbar(
            mine["measured_cycles"],
            mine["predicted_cycles"],
            xerr=mine["uncertainty_cycles"],
            label=f"{model.id}: {row['loops']} {of}, MAPE {row['mape_percent']:.1f} %{tau}",
            color=style.colour,
            marker=style.marker,
            linestyle="none",
            markersize=5,
            markerfacecolor="none",
        )
    first = pairs[pairs["source"] == pairs["source"].iloc[0]]
    farthest = worst(first, len(first)).drop_duplicates("variant")
    for row in farthest.head(_MOST_NAMED).to_dict("records"):
        if abs(row["error_percent"]) >= _APART:
            axes.annotate(
                f"{row['variant']} ({row['error_percent']:+.0f} %)",
                (row["measured_cycles"], row["predicted_cycles"]),
                textcoords="offset points", xytext=(6, -8), fontsize=7,
            )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlim(*limits)
    axes.set_ylim(*limits)
    axes.set_aspect("equal")
    axes.set_xlabel(f"measured {_QUANTITIES[of]}")
    axes.set_ylabel(f"predicted {_QUANTITIES[of]}")
    axes.set_title(", ".join(map(hosts.marked, pairs["microarch"].unique())))
    axes.legend(loc="upper left")
    return figure


_LINEAR = 8  # bytes below which the axis is linear, as a call may have 0 bytes
_SAME = 0.1  # relative difference within which curves share a line
_ABREAST = 2  # panels in a row, at most


@drawn
def size_curves(
    costs: pd.DataFrame,
    *,
    kernel: str | None = None,
    histogram: Histogram | None = None,
    most: float | None = None,
) -> Figure:
    """Draw the cost of a call over its size, a line for each variant.

    costs is what cycle_curves.measured or called returns, or several of them concatenated: each
    core and source has a panel, with shared axes. kernel gives the variants the colours that they
    have elsewhere, most is the end of the axis of cycles (by default the highest cost). Variants
    with the same cost share a line. A line has a band where its cost depends on unmeasured
    parameters of a core. Grey lines mark the crossover points, where the cheapest variant changes;
    bars beneath show the calls of a histogram by size.
    """
    if costs.empty:
        return nothing("no costs of calls: nothing was measured, or no model has a figure")
    groups = list(costs.groupby(["microarch", "source"], sort=False))
    figure, tops, feet = panels(len(groups), _ABREAST, feet=histogram is not None)
    for axes, ((core, source), mine) in zip(tops, groups, strict=True):
        _curves(axes, mine, kernel)
        axes.set_title(f"{hosts.marked(str(core))}, {source}")
        axes.set_ylabel("cycles a call")
        axes.set_yscale("symlog", base=2, linthresh=16)
        axes.yaxis.set_major_formatter("{x:.0f}")
        axes.set_ylim(bottom=0, top=None if most is None else 1.05 * most)
        axes.grid(axis="y")
    beneath(figure, *tops)
    for axes in feet:
        if histogram:
            _weights(axes, histogram)
    for axes in feet or tops:
        axes.set_xscale("symlog", base=2, linthresh=_LINEAR)
        axes.set_xlim(left=-1)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_xlabel("size of the call, bytes")
    return figure


def _curves(axes: Axes, costs: pd.DataFrame, kernel: str | None) -> None:
    """Draw the lines of one core and source, and where they cross."""
    curves = _alike(costs)
    for number, names in enumerate(curves):
        mine = costs[costs["variant"] == names[0]]
        style = html.variant(names[0], kernel)
        # Where curves meet, those drawn first are broader and show at both sides of the others.
        under = min(len(curves) - 1 - number, 3)
        axes.errorbar(
            mine["size_bytes"],
            mine["cost_cycles"],
            yerr=mine["uncertainty_cycles"],
            label=" \N{ALMOST EQUAL TO} ".join(names),
            color=style.colour,
            marker=style.marker,
            linestyle=style.line,
            markersize=3.5 + 0.6 * under,
            linewidth=1.2 + 0.9 * under,
        )
        if "low_cycles" in mine and mine["low_cycles"].notna().any():
            ends = with_ranges(mine).sort_values("size_bytes")
            axes.fill_between(
                ends["size_bytes"], ends["low_cycles"], ends["high_cycles"], color=style.colour,
                alpha=0.15, lw=0,
            )  # fmt: skip
            for end in ("low_cycles", "high_cycles"):  # a band under another one has edges
                axes.plot(ends["size_bytes"], ends[end], color=style.colour, lw=0.7, ls=":")
    stretches = crossovers(costs)
    changes = stretches["cheapest"].ne("") & stretches["cheapest"].shift().fillna("").ne("")
    for at in sorted(set(stretches.loc[changes, "from_bytes"])):
        axes.axvline(at, color=html.FAINT, linewidth=1, zorder=0)
        axes.annotate(
            f"{at:.0f} B", (at, 1), xycoords=("data", "axes fraction"), fontsize=7, rotation=90,
            ha="right", va="top",
        )  # fmt: skip


def _alike(costs: pd.DataFrame) -> list[list[str]]:
    """Return the variants in groups whose lines coincide in the figure.

    Each costs the same as the first of its group within 10 % at all sizes: two pixels of the axis.
    """
    figures = [c for c in ("cost_cycles", "low_cycles", "high_cycles") if c in costs]
    groups: list[tuple[pd.DataFrame, list[str]]] = []
    for name, mine in costs.groupby("variant", sort=False):
        curve = mine.set_index("size_bytes")[figures].sort_index().astype(float)
        for first, names in groups:
            same = first.index.equals(curve.index)
            if same and np.allclose(curve, first, rtol=_SAME, atol=0, equal_nan=True):
                names.append(str(name))
                break
        else:
            groups.append((curve, [str(name)]))
    return [names for _, names in groups]


def _weights(axes: Axes, histogram: Histogram) -> None:
    """Draw the share of calls in each bucket, beneath the curves."""
    for bucket in histogram.buckets:
        high = 2 * bucket.low if bucket.high is None else bucket.high
        share = 100 * bucket.count / histogram.total
        width = high - bucket.low
        axes.bar(bucket.low, share, width, align="edge", color=html.FAINT, edgecolor="white")
    axes.set_ylabel("% of calls")


_HALF = 0.36


@drawn
def strip(bands: pd.DataFrame, kernel: str | None = None) -> Figure:
    """Draw the best variant over sizes, a strip for each core and condition.

    bands has the rows of one routine as recommend.Judgement has them. The baseline has no colour;
    hatched in the colour of a variant is a band in which it may win, or its win is contested.
    """
    if bands.empty:
        return nothing("no size of a call is known on any core")
    places = list(bands.groupby(["microarch", "condition"], sort=False))
    figure, axes = one_panel(6.4, 0.9 + 0.32 * len(places))
    patches: dict[str, Patch] = {}
    for number, (_, mine) in enumerate(places):
        for row in mine.to_dict("records"):
            style = html.variant(str(row["variant"]), kernel)
            keeps, open_ = row["status"] == KEEPS, row["status"] in (OPEN, CONTESTED)
            low, high = float(row["from_bytes"]), float(row["to_bytes"])
            if low == high:  # one size alone is a mark, not a line
                low, high = low / 2**0.25, high * 2**0.25
            box = axes.barh(
                number,
                high - low,
                2 * _HALF,
                left=low,
                facecolor="none" if keeps or open_ else style.colour,
                edgecolor=html.FAINT if keeps else style.colour,
                hatch="////" if open_ else "",
                linewidth=0.8,
            )
            label = f"{row['variant']}{' may win' if open_ else ' (baseline)' if keeps else ''}"
            patches.setdefault(label, box.patches[0])
    cores = [(hosts.marked(str(core)), condition) for (core, condition), _ in places]
    names = [f"{core}, {condition}" if condition else core for core, condition in cores]
    axes.set_yticks(range(len(places)), names)
    axes.invert_yaxis()
    axes.set_xscale("log", base=2)
    ends = bands["from_bytes"].min(), bands["to_bytes"].max()
    ticks = 2.0 ** np.arange(np.floor(np.log2(max(ends[0], 1))), np.ceil(np.log2(ends[1])) + 1)
    axes.set_xticks(ticks, [f"{int(t)}" for t in ticks], fontsize=7)
    axes.set_xlabel("size of a call, bytes")
    axes.tick_params(axis="y", length=0)
    figure.legend([*patches.values()], [*patches], loc="outside lower center", ncols=3)
    return figure


_MOST = 80  # uops of one figure, at most

# The stretches between steps of a uop, each with its colour and the letter of its first cycle.
STRETCHES = (
    ("fetched_cycle", "decoded_cycle", "fetch and decode", "F", html.OKABE_ITO[5]),
    ("decoded_cycle", "dispatched_cycle", "in the queue before rename", "Q", html.OKABE_ITO[1]),
    ("dispatched_cycle", "issued_cycle", "waits in the scheduler", "D", html.OKABE_ITO[2]),
    ("issued_cycle", "executed_cycle", "executes", "I", html.OKABE_ITO[3]),
    ("executed_cycle", "retired_cycle", "waits to retire", "E", html.FAINT),
)


@drawn
def timeline(rows: pd.DataFrame) -> Figure:
    """Draw a timeline: a line for each uop and a column for each cycle.

    rows is what loopwright.timeline returns for one block at one offset. Each stretch of a uop's
    life has a colour and begins with its letter; R is the cycle in which it retires. Of more than
    80 uops the first are drawn.
    """
    if rows["error"].ne("").any():
        return nothing(f"no timeline: {rows['error'].iloc[0]}")
    shown = rows.head(_MOST).reset_index(drop=True)
    last = int(shown["retired_cycle"].max())
    figure, axes = one_panel(max(6.0, min(14.0, 3.4 + 0.2 * last)), 1.2 + 0.17 * len(shown))
    for at, row in enumerate(shown.to_dict("records")):
        _uop_line(axes, at, row)
    for _, _, what, _, colour in STRETCHES:
        axes.barh(0, 0, color=colour, label=what)
    starts = shown.index[shown["iteration"].diff().fillna(1).ne(0)]
    for at in starts[1:]:
        axes.axhline(at - 0.5, color=html.FAINT, linewidth=0.6)
    labels = [_label(row) for row in shown.to_dict("records")]
    axes.set_yticks(range(len(shown)), labels, fontsize=7, family="monospace")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(-0.5, last + 0.5)
    axes.set_xlabel("cycle")
    first = shown.iloc[0]
    cut = f", the first {_MOST} of {len(rows)} uops" if len(rows) > _MOST else ""
    axes.set_title(f"{hosts.marked(first['microarch'])}, code offset {first['offset']}{cut}")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _uop_line(axes: Axes, at: int, row: dict[Hashable, Any]) -> None:
    """Draw a uop's line: a bar for each stretch, and its letters."""
    for start, end, _, letter, colour in STRETCHES:
        if pd.isna(row[start]):
            continue
        until = row[end]
        if pd.isna(until):  # an eliminated uop is not issued: it goes on to retire
            until = row["retired_cycle"]
        axes.barh(at, until - row[start], 0.8, left=row[start] - 0.5, color=colour, linewidth=0)
        if until > row[start]:
            axes.text(row[start], at, letter, ha="center", va="center", fontsize=6, color="black")
    if pd.notna(row["retired_cycle"]):
        axes.text(row["retired_cycle"], at, "R", ha="center", va="center", fontsize=6)


def _label(row: dict[Hashable, Any]) -> str:
    """Return iteration, instruction, its text, and the port or the reason for none."""
    where = f"port {row['port']}" if row["port"] else row["how"]
    text = " ".join(str(row["text"]).split())
    return f"{row['iteration']}.{row['instruction']} {text:.30} {where}"


__all__ = [
    "cycles", "heat_map", "port_map", "ports", "published_over_size", "scatter", "size_curves",
    "strip", "timeline",
]  # fmt: skip
