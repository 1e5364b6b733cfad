"""What others published about the loops here, and what the models predict of the same."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from loopwright import paths
from loopwright.cores import bounds
from loopwright.predicting.models import SIMULATOR
from loopwright.predicting.predict import predict

TABLE = paths.HOME / "validation" / "published.csv"
COLUMNS = [
    "kernel",
    "variant",
    "baseline",
    "quantity",
    "scope",
    "size_bytes",
    "condition",
    "machine",
    "microarch",
    "published",
    "predicted_on",
    "model",
    "predicted",
    "fitted",
    "error",
    "source",
]


def published(model: str = SIMULATOR) -> pd.DataFrame:
    """Return each published figure beside the prediction of each model ("ID[,ID]" or "all").

    quantity is speed_percent (how much faster variant is than baseline), bytes_per_cycle or
    startup_cycles. scope says what was timed: the loop, whole calls, system calls or a workload;
    predictions are of the main loop with L1 hits, so that only a loop's figure is the same thing,
    and the others come near it the larger size_bytes is, as long as it fits the caches.
    predicted_on is the core that was asked: the machine's, or the nearest that is modelled.
    fitted names the simulator's parameter that was set by this very figure: no test of it then.
    error says why there is no prediction. source names the message or commit of the figure.
    """
    rows = pd.read_csv(TABLE, dtype={"baseline": str}, keep_default_na=False)
    rows["size_bytes"] = pd.to_numeric(rows["size_bytes"])
    found = {
        (kernel, core): _asked(str(kernel), str(core), model)
        for (kernel, core), _ in rows.groupby(["kernel", "predicted_on"])
        if core
    }
    out = []
    for row in rows.to_dict("records"):
        answers = found.get((row["kernel"], row["predicted_on"]))
        if answers is None:
            why = f"{row['microarch']} is not modelled"
            out.append({**row, "model": "", "predicted": None, "error": why})
            continue
        for name, mine in answers.groupby("model", sort=False):
            answers_of = {str(a["variant"]): a for a in mine.to_dict("records")}
            value, why = _predicted(answers_of, row)
            out.append({**row, "model": name, "predicted": value, "error": why})
    return pd.DataFrame(out)[COLUMNS].astype({"size_bytes": "Int64", "predicted": "float64"})


def _asked(kernel: str, core: str, model: str) -> pd.DataFrame:
    rows = predict(kernel, microarch=core, model=model)
    return rows.assign(low=bounds.impossible(rows))


def _predicted(
    answers: Mapping[str, Mapping[Hashable, Any]], row: Mapping[Hashable, Any]
) -> tuple[float | None, str]:
    """Return what one model's answers, by variant, say of a figure, or why they say nothing."""
    asked = [answers[str(row[side])] for side in ("variant", "baseline") if row[side]]
    for answer in asked:
        if pd.isna(answer["cycles"]):
            return None, f"{answer['variant']}: {answer['error']}"
        if answer["low"]:
            why = bounds.why(answer["least_cycles"])
            return None, f"{answer['variant']}: {answer['cycles']:.2f} is {why}"
    startup = asked[0]["startup_cycles"]
    if row["quantity"] == "startup_cycles":
        return (None, "start-up not known") if pd.isna(startup) else (float(startup), "")
    rates = [float(answer["bytes_per_iteration"] / answer["cycles"]) for answer in asked]
    if row["quantity"] == "bytes_per_cycle":
        return rates[0], ""
    strings = [answer["variant"] for answer in asked if answer["startup_cycles"] != 0]
    if strings:
        return None, f"{strings[0]}: a string instruction is predicted at aligned addresses alone"
    return 100 * (rates[0] / rates[1] - 1), ""
