"""Measured figures of single instructions and short blocks beside what models say of their code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from loopwright import microarchs
from loopwright.predicting.model import Block, Model

# What counts as reproduced: within 10 percent or a tenth of a cycle.
SHARE, CYCLES = 0.10, 0.1


@dataclass(frozen=True)
class Figure:
    """A measured figure and the code that it is of.

    code is repeated; cycles are those of one copy divided by `copies`. Empty code: `why` says
    what of it is not known. kind is the class that misses are counted by.
    """

    name: str
    notion: str
    cycles: float
    code: bytes = b""
    copies: int = 1
    kind: str = ""
    why: str = ""


def answers(figures: Sequence[Figure], core: str, isa: str, model: Model) -> pd.DataFrame:
    """Return a row for each figure with known code: measured, predicted, whether it holds."""
    known = [f for f in figures if f.code]
    blocks = [Block(isa, f.code, "unrolled", 0) for f in known]
    said = model.predict(blocks, microarchs.load(core))
    rows = []
    for figure, answer in zip(known, said, strict=True):
        cycles = None if answer.cycles is None else answer.cycles / figure.copies
        rows.append(
            {
                "name": figure.name,
                "notion": figure.notion,
                "kind": figure.kind,
                "measured": figure.cycles,
                "cycles": cycles,
                "error": answer.error,
                "holds": cycles is not None and holds(cycles, figure.cycles),
            }
        )
    return pd.DataFrame(
        rows, columns=["name", "notion", "kind", "measured", "cycles", "error", "holds"]
    )


def holds(said: float, real: float) -> bool:
    """Say whether a prediction reproduces a measured figure."""
    # Rounded, so that 0.5 and 0.6 are a tenth apart.
    return round(abs(said - real), 6) <= max(SHARE * real, CYCLES)


def unknown(figures: Iterable[Figure]) -> dict[str, int]:
    """Count the figures without known code, by what is not known."""
    out: dict[str, int] = {}
    for figure in figures:
        if not figure.code:
            out[figure.why] = out.get(figure.why, 0) + 1
    return out
