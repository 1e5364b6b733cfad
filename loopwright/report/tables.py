"""Comparisons as tables: a row for each variant and core, a column for each source."""

import pandas as pd

from loopwright.compare import MEASURED
from loopwright.predict import MODELS

_ROW = ["variant", "microarch"]


def side_by_side(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what compare returns, or predict of assembly text, with the sources side by side.

    Columns: variant (or a loop's label), microarch, bytes_per_iteration, SOURCE_cycles an
    iteration (a call of a routine without a loop) for each model with a figure and for the
    measurement, with its measured_uncertainty_cycles; least_cycles, what the core's loads and
    stores take; spread_percent, of the models' largest figure over the least.
    """
    known = _named(rows).query("cycles.notna()")
    models = [m.id for m in MODELS if m.id in set(known["source"])]
    sources = [*models, *(s for s in (MEASURED,) if s in set(known["source"]))]
    cycles = known.pivot_table(index=_ROW, columns="source", values="cycles", sort=False)[sources]
    wide = cycles.add_suffix("_cycles")
    first = known.groupby(_ROW, sort=False)
    wide.insert(0, "bytes_per_iteration", first["bytes_per_iteration"].max().astype("Int64"))
    if MEASURED in sources:
        truth = known[known["source"] == MEASURED].groupby(_ROW)
        wide["measured_uncertainty_cycles"] = truth["uncertainty"].first()
    wide["least_cycles"] = first["least_cycles"].max()
    wide["spread_percent"] = 100 * (cycles[models].max(axis=1) / cycles[models].min(axis=1) - 1)
    return wide.reset_index().rename_axis(columns=None)


def against_baseline(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the speeds of compare relative to the baseline's: above 1 is faster.

    Columns: routine, variant, and a SOURCE on MICROARCH for each that has a figure.
    """
    known = rows[rows["vs_baseline"].notna()]
    where = known["source"] + " on " + known["microarch"]
    wide = known.assign(where=where).pivot_table(
        index=["routine", "variant"], columns="where", values="vs_baseline", sort=False
    )
    return wide.reset_index().rename_axis(columns=None)


def unanswered(rows: pd.DataFrame) -> pd.DataFrame:
    """Return why sources have no figure: microarch, source, why, and the variants that it is of."""
    rows = _named(rows)
    silent = rows[rows["cycles"].isna() & rows["error"].fillna("").ne("")]
    of_each = silent.groupby(["microarch", "source", "error"], sort=False)["variant"]
    return (
        of_each.agg(lambda names: ", ".join(dict.fromkeys(names)))
        .reset_index()
        .rename(columns={"error": "why", "variant": "variants"})
    )


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of predict with the names that compare has for its columns."""
    return rows.rename(columns={"id": "variant", "model": "source"})
