"""Measured figures of single instructions and short blocks, beside predictions for their code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from loopwright import microarchs
from loopwright.predicting.model import Block, Model

# A figure counts as reproduced within 10 percent or a tenth of a cycle.
SHARE, CYCLES = 0.10, 0.1


@dataclass(frozen=True)
class Figure:
    """A measured figure and its code.

    cycles are those of a pass through code, which is repeated, divided by copies. why is the reason
    for empty code, if it is empty. kind is a class of instructions.
    """

    name: str
    notion: str
    cycles: float
    code: bytes = b""
    copies: int = 1
    kind: str = ""
    why: str = ""


def with_code(
    figures: Iterable[tuple[Figure, Sequence[str]]],
    assemble: Callable[[Sequence[Sequence[str]]], list[bytes]],
) -> list[Figure]:
    """Return figures with the code of their instructions; without any, a figure stays as it is.

    assemble returns the code of each list of instructions, b"" where one is no instruction.
    """
    pairs = list(figures)
    codes = iter(assemble([lines for _, lines in pairs if lines]))
    return [replace(figure, code=next(codes)) if lines else figure for figure, lines in pairs]


def answers(figures: Sequence[Figure], core: str, isa: str, model: Model) -> pd.DataFrame:
    """Return a row for each figure with known code: measured, predicted, whether it holds."""
    known = [f for f in figures if f.code]
    blocks = [Block(isa, f.code, "unrolled", 0) for f in known]
    predictions = model.predict(blocks, microarchs.load(core))
    rows = []
    for figure, answer in zip(known, predictions, strict=True):
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


def holds(predicted: float, measured: float) -> bool:
    """True if a prediction reproduces a measured figure."""
    # Rounded, so that 0.5 and 0.6 are a tenth apart.
    return round(abs(predicted - measured), 6) <= max(SHARE * measured, CYCLES)


def unknown(figures: Iterable[Figure]) -> dict[str, int]:
    """Return the numbers of figures without known code, by the reason."""
    counts: dict[str, int] = {}
    for figure in figures:
        if not figure.code:
            counts[figure.why] = counts.get(figure.why, 0) + 1
    return counts
