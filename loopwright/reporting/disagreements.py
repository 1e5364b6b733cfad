"""Disagreements of models about the same loop, with the reason."""

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from loopwright import kernels, microarchs
from loopwright.predicting.models import MODELS, SIMULATOR
from loopwright.predicting.predict import predict

APART = 5.0  # per cent of spread from which on models disagree
_SAME = 0.02  # relative

Row = dict[Hashable, Any]


def disagreements(kernel: str, cores: Sequence[str]) -> pd.DataFrame:
    """Ask all models about KERNEL on those of the cores (ids) that run it; explain differences.

    One row for each variant and core on which the models' figures are more than 5 % apart, or one
    of them cannot be, the widest first: variant, microarch, offset_bytes, unit, spread_percent (of
    the largest over the least), MODEL_cycles for that unit of each model with a figure that can be,
    and why, in words.
    """
    isa = kernels.load(kernel).isa
    microarch = ",".join(core for core in cores if microarchs.load(core).isa == isa)
    rows = _by_unit(kernel, predict(kernel, microarch=microarch, model="all"))
    ideal = predict(kernel, microarch=microarch, parameters={"front_end": "ideal"})
    ideal = _by_unit(kernel, ideal)
    without = ideal.set_index(["variant", "microarch"])["cycles"].to_dict()
    found = []
    for key, mine in rows[rows["cycles"].notna()].groupby(["variant", "microarch"]):
        variant, core = key
        sane = mine[~mine["low"]]
        cycles = sane.set_index("model")["cycles"]
        spread = 100 * (cycles.max() / cycles.min() - 1)
        if spread > APART or mine["low"].any():
            found.append(
                {
                    "variant": variant,
                    "microarch": core,
                    "offset_bytes": mine["offset"].iloc[0],
                    "unit": mine["unit"].iloc[0],
                    "spread_percent": spread,
                    **{f"{model}_cycles": value for model, value in cycles.items()},
                    "why": _why(mine.to_dict("records"), float(without[key])),
                }
            )
    figures = [f"{m.id}_cycles" for m in MODELS if any(f"{m.id}_cycles" in row for row in found)]
    columns = ["variant", "microarch", "offset_bytes", "unit", "spread_percent", *figures, "why"]
    table = pd.DataFrame(found, columns=columns)
    return table.sort_values("spread_percent", ascending=False, ignore_index=True)


def _by_unit(kernel: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return predictions with cycles for what the variants of a routine are compared by.

    low says which of them are below what loads and stores take.
    """
    routines = kernels.load(kernel).routines
    contracts = [routines[name].contract for name in rows["routine"]]
    units = pd.Series([c.unit_bytes for c in contracts], index=rows.index)
    scale = units / rows["bytes_per_iteration"].astype("float64")
    return rows.assign(
        low=microarchs.below_bounds(rows),
        unit=[c.unit_name for c in contracts],
        cycles=rows["cycles"] * scale,
        least_cycles=rows["least_cycles"] * scale,
    )


def _why(answers: list[Row], ideal: float) -> str:
    """Return the reasons: figures that cannot be, what the front end costs, other bottlenecks."""
    out = [
        f"{a['model']}: {a['cycles']:.2f} is {microarchs.why_below_bounds(a['least_cycles'])}"
        for a in answers
        if a["low"]
    ]
    sane = [a for a in answers if not a["low"]]
    ours = next((a for a in answers if a["model"] == SIMULATOR), None)
    bare = sane[0]["cycles"] if sane else 0.0
    if ours and ideal == ideal:
        bare = ideal
        if ours["cycles"] > bare * (1 + _SAME):
            out.append(
                f"front end: {ours['cycles'] - bare:.2f} of {SIMULATOR}'s {ours['cycles']:.2f} "
                "cycles, which models without one do not see"
            )
    if any(abs(a["cycles"] / bare - 1) > _SAME for a in sane if a is not ours):
        said = [f"{a['model']}: {a['bottleneck'] or 'not said'}" for a in sane]
        out.append(f"they see other bottlenecks ({'; '.join(said)})")
    return "; ".join(out) or "not known"
