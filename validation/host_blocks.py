"""Blocks of BHive measured on hosts of a core, in two halves: one to tune by, one kept aside.

The rule, fixed before either half was looked at: a block is to tune by where the first hexadecimal
digit of the SHA-256 of its bytes is below 8. Loops go with the block that they repeat.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from loopwright import microarchs
from loopwright.errors import InputError
from loopwright.judging.model_accuracy import Accuracy
from loopwright.machine import hosts
from loopwright.measuring import block
from loopwright.predicting.model import Block
from loopwright.predicting.pipeline import Pipeline

BHIVE = {"IVB": "ivybridge", "HSW": "haswell", "SKL": "skylake"}  # cores of BHive's own figures
# Cycles to which figures are rounded for `ordered`: two thirds of the loops take 1.00 to within the
# uncertainty of a measurement, and the order of those is noise.
STEP = 0.05
HOSTS = Path(__file__).parent / "hosts"


def host_core() -> str:
    """Return the id of this machine's core; InputError if no core.toml describes it."""
    if core := hosts.microarch():
        return core
    raise InputError("no core.toml knows this machine; add one with a [host] table")


def digest(code: bytes) -> str:
    """Return the name of code in the measured rows."""
    return hashlib.sha256(code).hexdigest()[:16]


def kept_aside(code: bytes) -> bool:
    """True if a block is of the half that nothing is tuned by."""
    return int(digest(code)[0], 16) >= 8


def codes(blocks: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Return the measured codes of blocks in hex, by digest: hex, and True if it is kept aside.

    A block has two: the block itself, and the body of a loop that repeats it.
    """
    codes_by_digest: dict[str, tuple[str, bool]] = {}
    for text in dict.fromkeys(blocks):
        code = bytes.fromhex(text)
        aside = kept_aside(code)
        codes_by_digest[digest(code)] = (text, aside)
        try:
            loop = block.counted_loop("x86_64", code).code
        except InputError:
            continue
        codes_by_digest[digest(loop)] = (loop.hex(), aside)
    return codes_by_digest


def rows(core: str, blocks: list[str]) -> pd.DataFrame:
    """Return the rows that a core's host measured of blocks in hex, with their code and half."""
    codes_by_digest = codes(blocks)
    table = pd.read_csv(HOSTS / f"{core}.csv")
    table = table[table["cycles"].notna() & table["sha256"].isin(list(codes_by_digest))].copy()
    measured_codes = [codes_by_digest[name] for name in table["sha256"]]
    return table.assign(
        code=[code for code, _ in measured_codes], aside=[aside for _, aside in measured_codes]
    )


def predictions(
    rows: pd.DataFrame, core: str, notion: str, overrides: dict[str, str] | None = None
) -> pd.Series:
    """Return the simulator's cycles for rows with hex and optionally offset; NaN for no answer."""
    offsets = rows["offset"] if "offset" in rows else [0] * len(rows)
    blocks = [
        Block(microarchs.load(core).isa, bytes.fromhex(code), notion, int(offset))
        for code, offset in zip(rows["hex"], offsets, strict=True)
    ]
    answers = Pipeline(overrides).predict(blocks, microarchs.load(core), brief=True)
    return pd.Series([a.cycles for a in answers], index=rows.index, dtype="float64")


def halves(core: str, blocks: list[str]) -> pd.DataFrame:
    """Return errors of the simulator and of llvm-mca by half and notion.

    tau is of the figures as they are, ordered of figures rounded to STEP. The rows `measured` hold
    the measured figures, rounded, as a model: their tau is the largest that a model can have.
    """
    table = rows(core, blocks).rename(columns={"code": "hex"})
    lines = []
    for (aside, notion), group in table.groupby(["aside", "notion"]):
        measured = group["cycles"]
        answers = {
            "pipeline": predictions(group.drop(columns="notion"), core, str(notion)),
            "llvm-mca": group["llvm-mca"],
            "measured": _rounded(measured),
        }
        for model, cycles in answers.items():
            accuracy = Accuracy.of(cycles, measured)
            lines.append(
                {
                    "half": "kept aside" if aside else "tuned by",
                    "notion": notion,
                    "model": model,
                    "blocks": len(group),
                    "no answer %": 100 * cycles.isna().mean(),
                    "MAPE %": accuracy.mape,
                    "tau": accuracy.tau,
                    "ordered": Accuracy.of(_rounded(cycles), _rounded(measured)).tau,
                }
            )
    return pd.DataFrame(lines)


def _rounded(cycles: pd.Series) -> pd.Series:
    return (cycles / STEP).round() * STEP
