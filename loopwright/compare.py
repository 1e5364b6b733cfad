"""Put predictions and measurements of a kernel's variants side by side."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from loopwright.kernels import Variant
from loopwright.study import Study, gather

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
    "vs_baseline",
    "ratio_low",
    "ratio_high",
    "verdict",
    "error_percent",
    "spread_percent",
    "least_cycles",
    "startup_cycles",
    "clock",
    "machine",
    "error",
]


def compare(
    kernel_id: str,
    *,
    quick: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Gather a kernel's evidence and return it as one tidy table (see table)."""
    return table(gather(kernel_id, quick=quick, progress=progress))


def table(found: Study) -> pd.DataFrame:
    """Return one row for each variant, core and source (a model id, or "measured").

    cycles are per iteration of the main loop, per 64 bytes of a string instruction that was
    measured, or per call of a routine without a loop; bytes_per_iteration is what they move, and
    uncertainty theirs. vs_baseline is the speed relative to the routine's baseline by the same
    source (above 1: faster); of measurements ratio_low to ratio_high is its interval and verdict
    what it means (see ratios.add). error_percent is a model's error against the measurement, where
    this host is the core; spread_percent how far the models' largest figure lies above the least.
    least_cycles is what the core's loads and stores take: a figure below it is wrong.
    startup_cycles come once, before a string instruction's first; missing where not known.
    """
    rows = pd.concat([_predicted(found), _measured(found)], ignore_index=True)
    rows["bytes_per_cycle"] = rows["bytes_per_iteration"] / rows["cycles"]
    rows["vs_baseline"] = _against_baseline(rows, found)
    where = ["variant", "microarch"]
    truth = rows[rows["source"] == MEASURED].set_index(where)["cycles"]
    real = rows.set_index(where).index.map(truth.to_dict()).astype("float64")
    model = rows["source"] != MEASURED
    rows["error_percent"] = np.where(model, 100 * (rows["cycles"] / real - 1), np.nan)
    grouped = rows[model].groupby(where)["cycles"]
    spread = 100 * (grouped.transform("max") / grouped.transform("min") - 1)
    rows["spread_percent"] = spread.reindex(rows.index)
    order = {name: n for n, name in enumerate(found.kernel.variants)}
    rows = rows.sort_values(
        ["microarch", "variant"],
        key=lambda c: c.map(order).fillna(0) if c.name == "variant" else c,
        kind="stable",
    )
    return rows[COLUMNS].reset_index(drop=True)


def _predicted(found: Study) -> pd.DataFrame:
    rows = found.predictions.rename(columns={"model": "source"})
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
    rows["microarch"] = rows["microarch"].replace("", "this host")
    return rows.reindex(columns=COLUMNS)


def _variants(found: Study, rows: pd.DataFrame) -> list[Variant]:
    return [found.kernel.variants[name] for name in rows["variant"]]


def _against_baseline(rows: pd.DataFrame, found: Study) -> pd.Series:
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
