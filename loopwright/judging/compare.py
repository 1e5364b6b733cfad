"""Put predictions and measurements of a kernel's variants side by side."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pandas as pd

from loopwright import microarchs
from loopwright.checking.check import user_space_note
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.judging.study import HERE, Study, gather
from loopwright.kernels import Variant

MEASURED = "measured"
COLUMNS = [
    "kernel",
    "routine",
    "variant",
    "microarch",
    "source",
    "notion",
    "offset",
    "cycles",
    "uncertainty",
    "bytes_per_iteration",
    "bytes_per_cycle",
    "unit",
    "cycles_per_unit",
    "vs_baseline",
    "ratio_low",
    "ratio_high",
    "verdict",
    "error_percent",
    "spread_percent",
    "least_cycles",
    "excluded",
    "startup_cycles",
    "main_loop",
    "clock",
    "machine",
    "note",
    "caveat",
    "error",
]
_NUMBERS = ("cycles", "uncertainty", "bytes_per_iteration", "least_cycles", "startup_cycles")


def compare(
    kernel_id: str,
    *,
    quick: bool = False,
    stored: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Gather a kernel's evidence and return it as one tidy table (see table).

    quick measures nothing now; stored uses runs of the store all the same.
    """
    return table(gather(kernel_id, quick=quick, stored=stored, progress=progress))


def table(found: Study) -> pd.DataFrame:
    """Return predictions and measurements below each other.

    One row for each variant, core and source (a model, or "measured"). cycles are those of one
    iteration of the main loop, or of a call where there is no loop. Loops move different bytes an
    iteration: variants are compared by cycles_per_unit, cycles for the bytes that unit names (64
    bytes, a record, or a call), alike for all variants of a routine. vs_baseline is the speed by
    bytes moved, relative to the baseline as the same source has it (above 1: faster); ratio_low,
    ratio_high and verdict are those of ratios.add. error_percent is a model's error against the
    measurement, where this host is the core; spread_percent how far the models' largest figure lies
    above the least. least_cycles is what the core's loads and stores take; excluded says why a
    figure is in no comparison, as it is where it lies below. startup_cycles come once, before a
    string instruction's first; missing where not known. main_loop says which loop it is, and by
    what rule. note says what of a variant was left out of a measurement, which is of the rest then:
    it has no vs_baseline, and no model is held against it. caveat says what of a variant a model
    leaves out of its figure.
    """
    rows = pd.concat([_predicted(found), _measured(found)], ignore_index=True)
    rows = rows.astype(dict.fromkeys(_NUMBERS, "float64"))
    contracts = [found.kernel.routines[v.routine].contract for v in _variants(found, rows)]
    rows["bytes_per_cycle"] = rows["bytes_per_iteration"] / rows["cycles"]
    rows["unit"] = [c.unit_name for c in contracts]
    of_unit = pd.Series([c.unit_bytes for c in contracts], index=rows.index, dtype="float64")
    rows["cycles_per_unit"] = of_unit / rows["bytes_per_cycle"]
    low = microarchs.below_bounds(rows)
    rows["excluded"] = [
        microarchs.why_below_bounds(least) if is_low else ""
        for least, is_low in zip(rows["least_cycles"], low, strict=True)
    ]
    rows["main_loop"] = _main_loops(found, rows)
    for words in ("note", "caveat"):
        rows[words] = rows[words].astype("object").fillna("")
    whole = ~low & rows["note"].eq("")
    rows["vs_baseline"] = _against_baseline(rows.where(whole), found)
    where = ["variant", "microarch"]
    truth = rows[(rows["source"] == MEASURED) & whole].set_index(where)["cycles"]
    real = rows.set_index(where).index.map(truth.to_dict()).astype("float64")
    model = rows["source"] != MEASURED
    rows["error_percent"] = np.where(model, 100 * (rows["cycles"] / real - 1), np.nan)
    grouped = rows[model & ~low].groupby(where)["cycles"]
    spread = 100 * (grouped.transform("max") / grouped.transform("min") - 1)
    rows["spread_percent"] = spread.reindex(rows.index)
    order = {name: n for n, name in enumerate(found.kernel.variants)}
    rows = rows.sort_values(
        ["microarch", "variant"],
        key=lambda c: c.map(order).fillna(0) if c.name == "variant" else c,
        kind="stable",
    )
    return rows[COLUMNS].reset_index(drop=True)


def _main_loops(found: Study, rows: pd.DataFrame) -> list[str]:
    """Return for each row which loop of its variant is the main one, and why.

    Of a variant without one, or without code, the error of its predictions says so.
    """
    said = {}
    for variant in _variants(found, rows):
        contract = found.kernel.routines[variant.routine].contract
        if contract.unit == "iteration" and variant.name not in said:
            with suppress(InputError):
                code = assemble.variant_code(variant)
                said[variant.name] = str(assemble.chosen_loop(variant, code))
    return [said.get(str(name), "") for name in rows["variant"]]


def _predicted(found: Study) -> pd.DataFrame:
    rows = found.predictions.rename(columns={"model": "source", "note": "caveat"})
    rows["bytes_per_iteration"] = rows["bytes_per_iteration"].astype("float64")
    return rows.reindex(columns=COLUMNS).astype({"uncertainty": "float64"})


def _measured(found: Study) -> pd.DataFrame:
    rows = found.measurements
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    wanted = [found.kernel.routines[v.routine].contract.unit for v in _variants(found, rows)]
    unit = pd.Series(wanted, index=rows.index).map({"iteration": "loop", "call": "call"})
    aligned = (rows["dst_align"] == 0) & (rows["src_align"] == 0) & (rows["cache"] == "hot")
    rows = rows[(rows["quantity"] == unit) & aligned].copy()
    rows["routine"] = [v.routine for v in _variants(found, rows)]
    rows["source"] = MEASURED
    rows["notion"] = rows["quantity"].map({"loop": "loop", "call": "unrolled"})
    rows["bytes_per_iteration"] = rows["size_bytes"].astype("float64")
    refused = rows["status"] == "refused"
    rows["error"] = rows["reason"].where(refused, "")
    rows["microarch"] = rows["microarch"].replace("", HERE)
    rows["note"] = [user_space_note(v) for v in _variants(found, rows)]
    return rows.reindex(columns=COLUMNS)


def _variants(found: Study, rows: pd.DataFrame) -> list[Variant]:
    return [found.kernel.variants[name] for name in rows["variant"]]


def _against_baseline(rows: pd.DataFrame, found: Study) -> pd.Series:
    """Return the speed by bytes moved relative to the baseline's, by the same source."""
    baselines = {r.baseline for r in found.kernel.routines.values()}
    base = rows[rows["variant"].isin(baselines)]
    where = ["routine", "microarch", "source"]
    speed = base.set_index(where)["bytes_per_cycle"].to_dict()
    of_base = pd.Series(
        [speed.get(k, np.nan) for k in zip(*(rows[w] for w in where), strict=True)],
        index=rows.index,
        dtype="float64",
    )
    return rows["bytes_per_cycle"] / of_base
