"""Comparisons as tables: a row for each variant and core, a column for each source."""

import pandas as pd

from loopwright.compare import MEASURED
from loopwright.predict import MODELS

_ROW = ["variant", "microarch"]


def side_by_side(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what compare returns with the sources side by side.

    Columns: variant, microarch, bytes_per_iteration, SOURCE_cycles an iteration (a call of a
    routine without a loop) for each model with a figure and for the measurement, with its
    measured_uncertainty_cycles, and spread_percent of the models.
    """
    known = rows[rows["cycles"].notna()]
    sources = [s for s in (*(m.id for m in MODELS), MEASURED) if s in set(known["source"])]
    cycles = known.pivot_table(index=_ROW, columns="source", values="cycles", sort=False)[sources]
    wide = cycles.add_suffix("_cycles")
    first = known.groupby(_ROW, sort=False)
    wide.insert(0, "bytes_per_iteration", first["bytes_per_iteration"].max().astype("Int64"))
    if MEASURED in sources:
        truth = known[known["source"] == MEASURED].groupby(_ROW)
        wide["measured_uncertainty_cycles"] = truth["uncertainty"].first()
    wide["spread_percent"] = first["spread_percent"].max()
    return wide.reset_index().rename_axis(columns=None)


def unanswered(rows: pd.DataFrame) -> pd.DataFrame:
    """Return why sources have no figure: microarch, source, why, and the variants that it is of."""
    silent = rows[rows["cycles"].isna() & rows["error"].fillna("").ne("")]
    of_each = silent.groupby(["microarch", "source", "error"], sort=False)["variant"]
    return (
        of_each.agg(lambda names: ", ".join(dict.fromkeys(names)))
        .reset_index()
        .rename(columns={"error": "why", "variant": "variants"})
    )
