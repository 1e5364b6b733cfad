"""Blocks of BHive measured on hosts of a core, in two halves: one to tune by, one kept aside.

The rule, fixed before either half was looked at: a block is to tune by where the first hexadecimal
digit of the SHA-256 of its bytes is below 8. Loops go with the block that they repeat.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from loopwright.errors import InputError
from loopwright.judging.model_accuracy import Accuracy
from loopwright.measuring import block

# Cycles to which both are rounded for tau: two thirds of the loops take 1.00 to within what a
# measurement is sure of, and the order of those is noise.
STEP = 0.05
HOSTS = Path(__file__).parent / "hosts"


def digest(code: bytes) -> str:
    """Return the name that the measured rows have for code."""
    return hashlib.sha256(code).hexdigest()[:16]


def kept_aside(code: bytes) -> bool:
    """Say whether a block is of the half that nothing is tuned by."""
    return int(digest(code)[0], 16) >= 8


def codes(blocks: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Return what is measured of blocks in hex, by name: a code in hex, and if it is kept aside.

    That is a block itself, and an iteration of it as a loop.
    """
    known: dict[str, tuple[str, bool]] = {}
    for text in dict.fromkeys(blocks):
        code = bytes.fromhex(text)
        aside = kept_aside(code)
        known[digest(code)] = (text, aside)
        try:
            loop = block.counted_loop("x86_64", code).code
        except InputError:
            continue
        known[digest(loop)] = (loop.hex(), aside)
    return known


def rows(core: str, blocks: list[str]) -> pd.DataFrame:
    """Return what a core's host measured of blocks in hex: notion, cycles, code, aside, models'."""
    known = codes(blocks)
    table = pd.read_csv(HOSTS / f"{core}.csv")
    table = table[table["cycles"].notna() & table["sha256"].isin(list(known))].copy()
    found = [known[name] for name in table["sha256"]]
    return table.assign(code=[code for code, _ in found], aside=[aside for _, aside in found])


def halves(
    core: str, blocks: list[str], predictions: Callable[[pd.DataFrame, str, str], pd.Series]
) -> pd.DataFrame:
    """Return errors of the simulator and of llvm-mca by half and notion.

    tau has the figures as they are, ordered has them rounded to STEP; the rows `measured` are the
    measured figures rounded so: what tau comes to at most.
    """
    table = rows(core, blocks).rename(columns={"code": "hex"})
    out = []
    for (aside, notion), mine in table.groupby(["aside", "notion"]):
        real = mine["cycles"]
        answers = {
            "pipeline": predictions(mine.drop(columns="notion"), core, str(notion)),
            "llvm-mca": mine["llvm-mca"],
            "measured": _rounded(real),
        }
        for model, said in answers.items():
            found = Accuracy.of(said, real)
            out.append(
                {
                    "half": "kept aside" if aside else "tuned by",
                    "notion": notion,
                    "model": model,
                    "blocks": len(mine),
                    "no answer %": 100 * said.isna().mean(),
                    "MAPE %": found.mape,
                    "tau": found.tau,
                    "ordered": Accuracy.of(_rounded(said), _rounded(real)).tau,
                }
            )
    return pd.DataFrame(out)


def _rounded(cycles: pd.Series) -> pd.Series:
    return (cycles / STEP).round() * STEP
