"""Predicted against measured loops and calls of this machine: errors, Kendall's tau, outliers."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from loopwright import kernels, microarchs, toolchain
from loopwright.checking.check import user_space_note
from loopwright.errors import InputError
from loopwright.judging.study import MEASURED
from loopwright.judging.unmeasured import MeasuredCall, simulated
from loopwright.kernels import Kernel
from loopwright.machine import hosts
from loopwright.measuring.measure import measure
from loopwright.predicting.calls import CallCost
from loopwright.predicting.models import SIMULATOR
from loopwright.predicting.predict import predict

_ONE_CALL = 8  # bytes or records of the calls that are measured beside the loops
_KEY = ["kernel", "variant", "microarch"]
NO_PAIRS = pd.DataFrame(
    columns=[
        *_KEY, "source", "predicted_cycles", "measured_cycles", "uncertainty_cycles", "clock",
        "machine", "error_percent",
    ]
)  # fmt: skip
"""An empty table of pairs."""


def loops_here() -> pd.DataFrame:
    """Measure and predict the loops of every kernel that this machine can run.

    The rows are those of compare, of loops alone, which is faster than to compare every kernel.
    InputError if no core.toml describes this machine.
    """
    core, runnable = _here()
    parts = []
    for kernel in runnable:
        predicted = predict(kernel.id, microarch=core, model="all", notion="loop")
        measured = measure(kernel.id, sizes=(_ONE_CALL,))
        measured = measured[(measured["quantity"] == "loop") & (measured["status"] != "refused")]
        notes = [user_space_note(kernel.variants[name]) for name in measured["variant"]]
        measured = measured.assign(source=MEASURED, note=notes)
        parts += [predicted.rename(columns={"model": "source"}), measured]
    return pd.concat(parts, ignore_index=True)


def _here() -> tuple[str, list[Kernel]]:
    """Return this machine's core and the kernels that it can run; InputError without a core."""
    core = hosts.microarch()
    if core is None:
        raise InputError("no core.toml describes this machine: models cannot be held against it")
    return core, [kernel for kernel in kernels.every() if kernel.isa == toolchain.host_isa()]


def pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Pair every prediction with the measurement of the same variant on the same core.

    table is what compare returns, or several of them concatenated. Returns one row for each
    variant, core and model that has both, where the measurement is of the whole routine: kernel,
    variant, microarch, source, predicted_cycles and measured_cycles an iteration,
    uncertainty_cycles, error_percent, clock, machine. A string instruction is counted in units of
    64 bytes.
    """
    measured = table[(table["source"] == MEASURED) & table["cycles"].notna()]
    measured = measured[measured["note"].eq("")]
    measured = measured.rename(
        columns={"cycles": "measured_cycles", "uncertainty": "uncertainty_cycles"}
    )
    predicted = table[(table["source"] != MEASURED) & table["cycles"].notna()]
    predicted = predicted.rename(columns={"cycles": "predicted_cycles"})
    paired = predicted[[*_KEY, "source", "predicted_cycles"]].merge(
        measured[[*_KEY, "measured_cycles", "uncertainty_cycles", "clock", "machine"]], on=_KEY
    )
    paired["error_percent"] = 100 * (paired["predicted_cycles"] / paired["measured_cycles"] - 1)
    return paired


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a core and model: loops, mape_percent, kendall_tau and worst_percent.

    mape_percent is the mean of the absolute errors; kendall_tau is tau-b, missing for fewer than
    three loops or where one side does not vary; worst_percent the error farthest from 0.
    """
    rows = []
    for (core, source), mine in pairs.groupby(["microarch", "source"], sort=False):
        error = mine["error_percent"]
        tau = mine["predicted_cycles"].corr(mine["measured_cycles"], "kendall", min_periods=3)
        rows.append([core, source, len(mine), error.abs().mean(), tau, max(error, key=abs)])
    columns = ["microarch", "source", "loops", "mape_percent", "kendall_tau", "worst_percent"]
    return pd.DataFrame(rows, columns=columns)


def worst(pairs: pd.DataFrame, count: int = 10) -> pd.DataFrame:
    """Return the pairs with the largest errors, the largest first."""
    order = pairs["error_percent"].abs().sort_values(ascending=False, kind="stable").index
    return pairs.loc[order[:count]].reset_index(drop=True)


SIZES = (7, 64, 256, 1024, 4096)
RECORDS = (1, 8, 64)  # records of a call, where a contract counts them
ALIGNMENTS = ((0, 0), (1, 0))
NEAR_PERCENT = 15.0
NO_CALLS = pd.DataFrame(
    columns=[
        "kernel", "variant", "microarch", "source", "size_bytes", "dst_align", "src_align",
        "measured_cycles", "uncertainty_cycles", "predicted_cycles", "mispredicted_cycles",
        "error_percent", "outside_percent", "why",
    ]
)  # fmt: skip
"""The table of paired calls where nothing is paired."""
CALL_ERRORS = [
    "kernel", "variant", "calls", "median_percent", "within_15_percent", "median_in_range_percent",
    "bias_percent",
]  # fmt: skip


def calls_here(
    sizes: Sequence[int] = SIZES,
    records: Sequence[int] = RECORDS,
    alignments: Sequence[tuple[int, int]] = ALIGNMENTS,
) -> pd.DataFrame:
    """Measure whole calls of every variant that this machine can run: rows of measure.

    sizes are bytes, records the counts for variants that count records. Refused calls are left out.
    InputError if no core.toml describes this machine.
    """
    parts = [
        measure(k.id, sizes=sizes_of(k.id, sizes, records), alignments=alignments)
        for k in _here()[1]
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows[(rows["quantity"] == "call") & (rows["status"] != "refused")]


def sizes_of(
    kernel_id: str, sizes: Sequence[int] = SIZES, records: Sequence[int] = RECORDS
) -> Sequence[int]:
    """Return the sizes of a kernel's calls: records where its contract counts them."""
    routines = kernels.load(kernel_id).routines.values()
    return records if any(r.contract.fields for r in routines) else sizes


def paired_calls(rows: pd.DataFrame, core: str) -> pd.DataFrame:
    """Return measured calls with the simulator's predictions on a core.

    rows has kernel, variant, size_bytes, dst_align, src_align, cycles and uncertainty. Added are
    source (the model), predicted_cycles (all branches predicted) and mispredicted_cycles (with the
    exits of loops mispredicted that the core's history cannot predict), error_percent of the
    former, outside_percent: the distance of the measurement from the range between them, 0 inside
    it; and why, the reason for no prediction. The code is predicted as user space runs it.
    """
    ids = zip(rows["kernel"], rows["variant"], strict=True)
    variants = [kernels.load(kernel).variants[name] for kernel, name in ids]
    measured = map(MeasuredCall.of, variants, rows.to_dict("records"))
    costs = simulated(microarchs.load(core), {}, list(measured))
    out = rows.reset_index(drop=True)
    call_costs = [cost if isinstance(cost, CallCost) else None for cost in costs]
    out["source"] = SIMULATOR
    out["predicted_cycles"] = [cost.cycles if cost else np.nan for cost in call_costs]
    out["mispredicted_cycles"] = [cost.mispredicted if cost else np.nan for cost in call_costs]
    out["why"] = ["" if isinstance(cost, CallCost) else str(cost) for cost in costs]
    out = out.rename(columns={"cycles": "measured_cycles", "uncertainty": "uncertainty_cycles"})
    measured_cycles = out["measured_cycles"]
    nearest = measured_cycles.clip(lower=out["predicted_cycles"], upper=out["mispredicted_cycles"])
    out["error_percent"] = 100 * (out["predicted_cycles"] / measured_cycles - 1)
    out["outside_percent"] = 100 * (nearest / measured_cycles - 1)
    return out


def call_errors(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the errors by variant; error_figures names the columns."""
    predicted = pairs[pairs["why"] == ""]
    rows = [
        {"kernel": kernel, "variant": variant, **error_figures(mine)}
        for (kernel, variant), mine in predicted.groupby(["kernel", "variant"])
    ]
    return pd.DataFrame(rows, columns=CALL_ERRORS)


def error_figures(pairs: pd.DataFrame) -> dict[str, float]:
    """Return the number of calls, the median absolute error, and the share within 15 %.

    median_in_range_percent is the median distance from the range between predicted and mispredicted
    exits, bias_percent the median error with its sign.
    """
    error, outside = pairs["error_percent"], pairs["outside_percent"].abs()
    return {
        "calls": len(pairs),
        "median_percent": float(error.abs().median()),
        "within_15_percent": float(100 * (error.abs() <= NEAR_PERCENT).mean()),
        "median_in_range_percent": float(outside.median()),
        "bias_percent": float(error.median()),
    }


def worst_calls(pairs: pd.DataFrame, count: int) -> pd.DataFrame:
    """Return the calls farthest outside the predicted range, the farthest first."""
    predicted = pairs[pairs["why"] == ""]
    order = predicted["outside_percent"].abs().sort_values(ascending=False, kind="stable").index
    return predicted.loc[order[:count]]
