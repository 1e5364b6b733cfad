"""Blocks of BHive measured on a Zen 4 guest, in two halves: one to tune by, one kept aside.

The rule, fixed before either half was looked at: a block is to tune by where the first hexadecimal
digit of the SHA-256 of its bytes is below 8. Loops go with the block that they repeat.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pandas as pd

from loopwright import trips
from loopwright.errors import InputError

MEASURED = Path(__file__).parent / "hosts" / "zen4.csv"


def digest(code: bytes) -> str:
    """Return the name that the measured rows have for code."""
    return hashlib.sha256(code).hexdigest()[:16]


def kept_aside(code: bytes) -> bool:
    """Say whether a block is of the half that nothing is tuned by."""
    return int(digest(code)[0], 16) >= 8


def rows(blocks: list[str]) -> pd.DataFrame:
    """Return the measured rows of blocks in hex: notion, cycles, code, aside, and the models'."""
    known: dict[str, tuple[str, bool]] = {}
    for text in dict.fromkeys(blocks):
        code = bytes.fromhex(text)
        aside = kept_aside(code)
        known[digest(code)] = (text, aside)
        try:
            loop = trips.of_block("x86_64", code).code
        except InputError:
            continue
        known[digest(loop)] = (loop.hex(), aside)
    table = pd.read_csv(MEASURED)
    table = table[table["cycles"].notna() & table["sha256"].isin(list(known))].copy()
    found = [known[name] for name in table["sha256"]]
    return table.assign(code=[code for code, _ in found], aside=[aside for _, aside in found])
