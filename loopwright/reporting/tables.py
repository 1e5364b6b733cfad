"""Comparisons as tables: a row for each variant and core, a column for each source."""

import pandas as pd

from loopwright import microarchs
from loopwright.judging.study import MEASURED
from loopwright.predicting.models import MODELS

_ROW = ["variant", "microarch"]


def side_by_side(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what compare returns, or predict of assembly text, with the sources side by side.

    Columns: variant (or a loop's label), microarch, unit (what cycles are for, alike for all
    variants of a routine; an iteration, of assembly text), bytes_per_iteration, SOURCE_cycles for
    each model with a figure and for the measurement, with its measured_uncertainty_cycles;
    spread_percent, of the models' largest figure over the least. Figures that are excluded, and
    measurements of a part, are none here: unanswered says why.
    """
    known = _named(rows).query("cycles.notna() and excluded == '' and note == ''")
    models = [m.id for m in MODELS if m.id in set(known["source"])]
    sources = [*models, *(s for s in (MEASURED,) if s in set(known["source"]))]
    per_unit = known.pivot_table(
        index=_ROW, columns="source", values="cycles_per_unit", sort=False
    )[sources]
    wide = per_unit.add_suffix("_cycles")
    first = known.groupby(_ROW, sort=False)
    wide.insert(0, "bytes_per_iteration", first["bytes_per_iteration"].max().astype("Int64"))
    wide.insert(0, "unit", first["unit"].first())
    if MEASURED in sources:
        truth = known[known["source"] == MEASURED]
        scaled = truth["uncertainty"] * truth["cycles_per_unit"] / truth["cycles"]
        of_row = truth.assign(uncertainty=scaled).groupby(_ROW)["uncertainty"]
        wide["measured_uncertainty_cycles"] = of_row.first()
    most, least = per_unit[models].max(axis=1), per_unit[models].min(axis=1)
    wide["spread_percent"] = 100 * (most / least - 1)
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
    """Return why sources have no figure that counts: microarch, source, why, and which variants."""
    rows = _named(rows)
    cycles = rows["cycles"].map("{:.2f} is ".format)
    why = rows["error"].fillna("").mask(rows["excluded"].ne(""), cycles + rows["excluded"])
    why = why.mask(rows["cycles"].notna() & rows["note"].ne(""), "measured " + rows["note"])
    silent = rows.assign(why=why)[why.ne("")]
    of_each = silent.groupby(["microarch", "source", "why"], sort=False)["variant"]
    return (
        of_each.agg(lambda names: ", ".join(dict.fromkeys(names)))
        .reset_index()
        .rename(columns={"variant": "variants"})
    )


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of compare, or those of predict with what compare would say of them."""
    if "excluded" in rows:
        return rows
    rows = rows.rename(columns={"id": "variant", "model": "source"})
    low = microarchs.below_bounds(rows)
    why = [
        microarchs.why_below_bounds(n) if cut else ""
        for n, cut in zip(rows["least_cycles"], low, strict=True)
    ]
    return rows.assign(excluded=why, note="", unit="an iteration", cycles_per_unit=rows["cycles"])
