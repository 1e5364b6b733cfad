"""Errors of predictions against measurements: MAPE, Kendall's tau, the worst loops."""

import pandas as pd

from loopwright import kernels, toolchain
from loopwright.checking.check import user_space_note
from loopwright.errors import InputError
from loopwright.judging.study import MEASURED
from loopwright.machine import hosts
from loopwright.measuring.measure import measure
from loopwright.predicting.predict import predict

_ONE_CALL = 8  # bytes or records of the calls that are measured beside the loops
_KEY = ["kernel", "variant", "microarch"]
NONE = pd.DataFrame(
    columns=[
        *_KEY, "source", "predicted_cycles", "measured_cycles", "uncertainty_cycles", "clock",
        "machine", "error_percent",
    ]
)  # fmt: skip
"""What pairs returns where nothing is paired."""


def loops_here() -> pd.DataFrame:
    """Measure the loops of every kernel that this machine can run, and predict them for its core.

    Rows are as compare returns them, of loops alone: quicker than to compare every kernel.
    InputError where no core.toml describes this machine.
    """
    core = hosts.microarch()
    if core is None:
        raise InputError("no core.toml describes this machine: models cannot be held against it")
    parts = []
    for kernel in kernels.every():
        if kernel.isa == toolchain.host_isa():
            guess = predict(kernel.id, microarch=core, model="all", notion="loop")
            real = measure(kernel.id, sizes=(_ONE_CALL,))
            real = real[(real["quantity"] == "loop") & (real["status"] != "refused")]
            notes = [user_space_note(kernel.variants[name]) for name in real["variant"]]
            real = real.assign(source=MEASURED, note=notes)
            parts += [guess.rename(columns={"model": "source"}), real]
    return pd.concat(parts, ignore_index=True)


def pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Pair every prediction with the measurement of the same variant on the same core.

    table is what compare returns, or several of them one below the other. Returns one row for
    each variant, core and model that has both, where the measurement is of the whole routine:
    kernel, variant, microarch, source, predicted_cycles and measured_cycles an iteration,
    uncertainty_cycles, error_percent, clock, machine. A string instruction is counted in units of
    64 bytes.
    """
    truth = table[(table["source"] == MEASURED) & table["cycles"].notna()]
    truth = truth[truth["note"].eq("")]
    truth = truth.rename(columns={"cycles": "measured_cycles", "uncertainty": "uncertainty_cycles"})
    guess = table[(table["source"] != MEASURED) & table["cycles"].notna()]
    guess = guess.rename(columns={"cycles": "predicted_cycles"})
    both = guess[[*_KEY, "source", "predicted_cycles"]].merge(
        truth[[*_KEY, "measured_cycles", "uncertainty_cycles", "clock", "machine"]], on=_KEY
    )
    both["error_percent"] = 100 * (both["predicted_cycles"] / both["measured_cycles"] - 1)
    return both


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a core and model: loops, mape_percent, kendall_tau and worst_percent.

    mape_percent is the mean of the absolute errors; kendall_tau is tau-b, missing for fewer than
    three loops or where one side does not vary; worst_percent the error farthest from 0.
    """
    rows = []
    for (core, source), mine in pairs.groupby(["microarch", "source"], sort=False):
        error = mine["error_percent"]
        tau = mine["predicted_cycles"].corr(mine["measured_cycles"], "kendall", min_periods=3)
        rows.append(
            {
                "microarch": core,
                "source": source,
                "loops": len(mine),
                "mape_percent": error.abs().mean(),
                "kendall_tau": tau,
                "worst_percent": max(error, key=abs),
            }
        )
    columns = ["microarch", "source", "loops", "mape_percent", "kendall_tau", "worst_percent"]
    return pd.DataFrame(rows, columns=columns)


def worst(pairs: pd.DataFrame, count: int = 10) -> pd.DataFrame:
    """Return the pairs whose predictions are farthest off, worst first."""
    order = pairs["error_percent"].abs().sort_values(ascending=False, kind="stable").index
    return pairs.loc[order[:count]].reset_index(drop=True)
