"""Whole loops that others measured (loops.toml), as code."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pandas as pd
from singles import holds

import loopwright as lw

TABLE = Path(__file__).parent / "loops.toml"


def rows(models: str = "pipeline,llvm-mca,osaca") -> pd.DataFrame:
    """Return a row for each loop and model: core, loop, source, measured, model, cycles, holds."""
    out = []
    for loop in tomllib.loads(TABLE.read_text())["loop"]:
        said = lw.predict(asm=loop["asm"], microarch=loop["core"], model=models)
        for answer in said.to_dict("records"):
            cycles = answer["cycles"]
            out.append(
                {
                    "core": loop["core"],
                    "loop": loop["name"],
                    "source": loop["source"],
                    "measured": loop["measured"],
                    "model": answer["model"],
                    "cycles": cycles,
                    "holds": cycles == cycles and holds(cycles, loop["measured"]),
                }
            )
    return pd.DataFrame(out)
