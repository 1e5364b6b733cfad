"""Whole loops that others measured (loops/), as code, and predictions for them.

A loop that repeats one instruction (`repeats`) measures that instruction, and counts as one. One
that set a figure of the core (`set` names it) is no check. The others are in two halves by the rule
of host_blocks: corrections of the simulator come from the half that is not kept aside.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from host_blocks import kept_aside
from singles import holds

import loopwright as lw

FOLDER = Path(__file__).parent / "loops"


class Loop(NamedTuple):
    """A loop of a core as it was measured: cycles an iteration, by a source of sources.toml."""

    core: str
    name: str
    source: str
    measured: float
    asm: str
    repeats: str = ""
    set: str = ""
    note: str = ""


def cores() -> list[str]:
    """Return the cores whose whole loops others measured."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def loops() -> list[Loop]:
    """Return all loops, core by core."""
    out = []
    for core in cores():
        table = tomllib.loads((FOLDER / f"{core}.toml").read_text())
        out += [Loop(core=core, **loop) for loop in table["loop"]]
    return out


def rows(models: str = "pipeline,llvm-mca,osaca", core: str = "") -> pd.DataFrame:
    """Return a row for each loop and model: measured and predicted cycles, and whether they agree.

    core, if given, selects its loops. error is that of the prediction in percent; aside is True for
    loops of the half that is kept aside.
    """
    lines = []
    for loop in (loop for loop in loops() if core in ("", loop.core)):
        (code,) = lw.read_assembly(loop.asm)["hex"]
        predictions = lw.predict(asm=loop.asm, microarch=loop.core, model=models)
        for answer in predictions.to_dict("records"):
            cycles = answer["cycles"]
            lines.append(
                {
                    "core": loop.core,
                    "loop": loop.name,
                    "hex": code,
                    "source": loop.source,
                    "repeats": loop.repeats,
                    "set": loop.set,
                    "aside": kept_aside(bytes.fromhex(code)),
                    "measured": loop.measured,
                    "model": answer["model"],
                    "cycles": cycles,
                    "error": 100 * (cycles / loop.measured - 1),
                    "holds": cycles == cycles and holds(cycles, loop.measured),
                }
            )
    return pd.DataFrame(lines)
