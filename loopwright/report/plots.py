"""Static figures of comparisons. Models and variants keep their colour everywhere."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from loopwright.compare import MEASURED
from loopwright.predict import MODELS

# The palette of Okabe and Ito (2008), which colour-blind readers can tell apart.
_PALETTE = ("#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#F0E442")
_SOURCES = (*(m.id for m in MODELS), MEASURED)


def colour(source: str) -> str:
    """Return the colour of a source: a model's id or "measured" (black)."""
    if source == MEASURED:
        return "#000000"
    return _PALETTE[_SOURCES.index(source) % len(_PALETTE)]


def cycles(table: pd.DataFrame, microarch: str) -> Figure:
    """Draw cycles an iteration of each variant on one core, a bar for each source that answers.

    table is what compare returns. Error bars are the measurement's uncertainty.
    """
    return _bars(table, microarch, "cycles", "cycles an iteration")


def bytes_per_cycle(table: pd.DataFrame, microarch: str) -> Figure:
    """Draw the bytes that each variant moves a cycle on one core (higher is faster)."""
    return _bars(table, microarch, "bytes_per_cycle", "bytes a cycle")


def _bars(table: pd.DataFrame, microarch: str, column: str, label: str) -> Figure:
    rows = table[(table["microarch"] == microarch) & table[column].notna()]
    variants = list(table.loc[table["microarch"] == microarch, "variant"].unique())
    sources = [s for s in _SOURCES if s in set(rows["source"])]
    figure, axes = plt.subplots(figsize=(8, 0.6 + 0.5 * max(len(variants), 2)))
    height = 0.8 / max(len(sources), 1)
    for number, source in enumerate(sources):
        mine = rows[rows["source"] == source].drop_duplicates("variant").set_index("variant")
        at = [variants.index(v) + number * height for v in mine.index]
        errors = mine["uncertainty"] if column == "cycles" else None
        axes.barh(
            at,
            mine[column],
            height,
            label=source,
            color=colour(source),
            xerr=errors,
            error_kw={"ecolor": "#999999"},
        )
    axes.set_yticks([n + 0.4 - height / 2 for n in range(len(variants))], variants)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.set_title(microarch if sources else f"{microarch}: no source has an answer")
    if sources:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.tight_layout()
    return figure


def calls(measurements: pd.DataFrame, dst_align: int = 0) -> Figure:
    """Draw measured cycles a call over size, a line for each variant, at one alignment."""
    rows = measurements[
        (measurements["quantity"] == "call")
        & (measurements["dst_align"] == dst_align)
        & (measurements["status"] != "refused")
    ]
    figure, axes = plt.subplots(figsize=(8, 4))
    for number, (variant, mine) in enumerate(rows.groupby("variant", sort=False)):
        points = mine.groupby("size_bytes")["cycles"].mean()
        axes.plot(
            points.index,
            points,
            marker="o",
            label=str(variant),
            color=_PALETTE[number % len(_PALETTE)],
        )
    axes.set_xscale("symlog", base=2, linthresh=8)
    axes.set_xlabel("size of the call, bytes")
    axes.set_ylabel("cycles a call")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    figure.tight_layout()
    return figure
