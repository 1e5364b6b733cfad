"""Ranges that 95 % of the measurements of such code lie in, by models/ranges.csv.

A core that was learned from timing has a file of its own, by what it was not learned from.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from loopwright import paths
from loopwright.predicting.model import Block

FILE = "ranges.csv"
COLUMNS = ("core", "kind", "memory", "least", "most", "rows", "source")
CALL = "call"
WHOLE_CALLS = ""
"""The value of `memory` for whole calls, which are one class."""


class Class(NamedTuple):
    """Predictions that share an error: of a core, of a kind, of code that accesses memory so.

    kind is "loop", "unrolled" or "call", memory as memory_of has it.
    """

    core: str
    kind: str
    memory: str


class Span(NamedTuple):
    """The least and the most that a measurement comes to, as a multiple of the prediction."""

    least: float
    most: float

    def around(self, cheap: float, dear: float) -> tuple[float, float]:
        """Return the range of what is predicted to take cheap to dear cycles."""
        return round(cheap * self.least, 3), round(dear * self.most, 3)


MEMORY = ("none", "loads", "stores", "both", "forwarding")

_SHORT = 24  # instructions
_OPERAND = re.compile(r"[-\w]*\([^)]*\)|\[[^\]]*\]")  # in memory: AT&T, or AArch64


def memory_of(block: Block) -> str:
    """Return how a block accesses memory, one of MEMORY.

    "forwarding" is both with a store and a load of one operand, as an update of memory has. In
    longer code such a load waits for little: it is "both".
    """
    loaded, stored = (
        [one for one in block.instructions if getattr(one, moved)]
        for moved in ("read_bytes", "written_bytes")
    )
    if not loaded or not stored:
        return "loads" if loaded else "stores" if stored else "none"
    places = [
        {at for one in some for at in _OPERAND.findall(one.text)} for some in (loaded, stored)
    ]
    near = len(block.instructions) <= _SHORT
    return "forwarding" if near and places[0] & places[1] else "both"


def of_blocks(core: str, blocks: Sequence[Block]) -> list[Span | None]:
    """Return the span of each block's prediction; None where the core's errors are not recorded."""
    known = _of_core(core)
    if not any(one.core == core for one in known):
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
    with path.open(newline="") as file:
        return {
            Class(row["core"], row["kind"], row["memory"]): Span(
                float(row["least"]), float(row["most"])
            )
            for row in csv.DictReader(file)
        }
