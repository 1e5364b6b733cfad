"""Ranges that contain 95 % of the measurements of similar code, from models/ranges.csv.

A core that was learned from timing has a file of its own, from rows not used for learning.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from loopwright import files, paths
from loopwright.predicting.model import Block

FILE = "ranges.csv"
COLUMNS = ("core", "kind", "memory", "least", "most", "rows", "source")
CALL = "call"
WHOLE_CALLS = ""
"""The value of `memory` for whole calls, which are one class."""


class Class(NamedTuple):
    """Predictions that share an error range: by core, prediction kind and kind of memory access.

    kind is "loop", "unrolled" or "call", memory a value of memory_of.
    """

    core: str
    kind: str
    memory: str


class Span(NamedTuple):
    """The range of measurements, as multiples of the prediction."""

    least: float
    most: float

    def around(self, cheap: float, dear: float) -> tuple[float, float]:
        """Return the range of measurements for a prediction of cheap to dear cycles."""
        return round(cheap * self.least, 3), round(dear * self.most, 3)


MEMORY = ("none", "loads", "stores", "both", "forwarding")

_SHORT = 24  # instructions
_OPERAND = re.compile(r"[-\w]*\([^)]*\)|\[[^\]]*\]")  # in memory: AT&T, or AArch64


def memory_of(block: Block) -> str:
    """Return the kind of memory access of a block, one of MEMORY.

    "forwarding" is both with a store and a load of one operand, as in a read-modify-write. In
    longer code such a load hardly waits: it is "both".
    """
    loaded, stored = (
        [instruction for instruction in block.instructions if getattr(instruction, moved)]
        for moved in ("read_bytes", "written_bytes")
    )
    if not loaded or not stored:
        return "loads" if loaded else "stores" if stored else "none"
    operands = [
        {at for instruction in chosen for at in _OPERAND.findall(instruction.text)}
        for chosen in (loaded, stored)
    ]
    near = len(block.instructions) <= _SHORT
    return "forwarding" if near and operands[0] & operands[1] else "both"


def of_blocks(core: str, blocks: Sequence[Block]) -> list[Span | None]:
    """Return the span of each block's prediction; None without recorded errors of the core."""
    known = _of_core(core)
    if not any(span.core == core for span in known):
        return [None] * len(blocks)
    memory = {code: memory_of(block) for code, block in {b.code: b for b in blocks}.items()}
    return [known.get(Class(core, block.notion, memory[block.code])) for block in blocks]


def of_call(core: str) -> Span | None:
    """Return the span of the predictions of whole calls, or None."""
    return _of_core(core).get(Class(core, CALL, WHOLE_CALLS))


def _of_core(core: str) -> Mapping[Class, Span]:
    own, all_cores = paths.models_root() / core / FILE, paths.models_root() / FILE
    for path in (own, all_cores):
        if path.is_file():
            known = _read(path, path.stat().st_mtime_ns)
            # The folder of a learned core may have another name than when it was learned.
            return {c._replace(core=core): s for c, s in known.items()} if path == own else known
    return {}


@cache
def _read(path: Path, changed: int) -> Mapping[Class, Span]:
    del changed  # when the file was: it may change while this process lives
    return {
        Class(row["core"], row["kind"], row["memory"]): Span(
            float(row["least"]), float(row["most"])
        )
        for row in files.csv_rows(path)
    }
