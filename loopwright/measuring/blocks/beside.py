"""Predictions and measurements of anybody's loops, side by side."""

from pathlib import Path

import pandas as pd

from loopwright.machine import hosts
from loopwright.measuring.blocks import slopes
from loopwright.measuring.blocks.verb import measure_blocks
from loopwright.measuring.rounds import Progress
from loopwright.predicting.predict import predict

COLUMNS = [
    "id",
    "microarch",
    "notion",
    "offset",
    "predicted",
    "measured",
    "uncertainty",
    "error_percent",
    "bottleneck",
    "error",
    "clock",
    "machine",
]


def compare_loops(
    blocks: Path | str | pd.DataFrame | None = None,
    *,
    hex: str | bytes | None = None,
    asm: str | None = None,
    obj: Path | str | None = None,
    microarch: str | list[str] | None = None,
    offset: int | str | None = None,
    processes: int = slopes.TURNS,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Predict loops and measure them here: one row for each loop, core and code offset.

    Subjects are those of predict; microarch, too, and offset. predicted and measured are cycles an
    iteration (of the simulator; of this machine, with its uncertainty), measured in the rows of
    this machine's core alone; where it is not asked for, or no core.toml describes it (microarch is
    empty then), in rows of their own. error_percent is the prediction's error. error says why a
    figure is missing, or what it is worth. clock and machine say what measured. InputError as
    predict and measure_blocks.
    """
    told = predict(
        hex=hex, blocks=blocks, asm=asm, obj=obj, microarch=microarch, offset=offset
    ).rename(columns={"cycles": "predicted"})
    found = measure_blocks(
        blocks, hex=hex, asm=asm, obj=obj, offset=offset, processes=processes, progress=progress
    ).rename(columns={"cycles": "measured"})
    here = hosts.microarch() or ""
    place = ["id", "offset"]
    mine = found.set_index(place)[["measured", "uncertainty", "reason", "clock", "machine"]]
    rows = told.reindex(columns=[c for c in COLUMNS if c in told.columns])
    own = rows["microarch"] == here
    beside = rows[place].join(mine, on=place).where(own)
    rows = rows.join(beside.drop(columns=place))
    if not own.any():
        alone = found.assign(microarch=here, error="", bottleneck="", predicted=float("nan"))
        rows = pd.concat([rows, alone.reindex(columns=[*rows.columns])], ignore_index=True)
    rows["error_percent"] = 100 * (rows["predicted"] / rows["measured"].astype("float64") - 1)
    rows["error"] = [_why(*row) for row in rows[["error", "measured", "reason"]].to_numpy()]
    return rows.reindex(columns=COLUMNS)


def _why(error: object, measured: float, reason: object) -> str:
    """Return why a prediction or a measurement is missing, or what the latter is worth."""
    told = str(error) if isinstance(error, str) else ""
    if not isinstance(reason, str) or not reason:
        return told
    said = "not measured" if pd.isna(measured) else "measured"
    return "; ".join(filter(None, (told, f"{said}: {reason}")))
