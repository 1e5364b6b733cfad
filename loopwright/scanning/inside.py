"""What a loop looks like inside: the instructions of an iteration, and when their uops run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loopwright.code.instructions import decode
from loopwright.microarchs import Microarch
from loopwright.predicting.pipeline import Pipeline
from loopwright.scanning.found import ScannedLoop


@dataclass(frozen=True, slots=True)
class Line:
    """An instruction on the path: bytes behind the loop's first one, its length, and its text."""

    at: int
    length: int
    text: str


def listing(loop: ScannedLoop) -> list[Line]:
    """Return the instructions of an iteration, in the order of their execution.

    Branches go to addresses; InputError where bytes are no instruction.
    """
    lines = []
    code = loop.code
    for start, end in loop.path:
        at = start
        for ins in decode(loop.isa, code[start:end], loop.address + start):
            lines.append(Line(at, len(ins.code), ins.text))
            at += len(ins.code)
    return lines


def timelines(
    asked: Sequence[tuple[ScannedLoop, int]], core: Microarch, iterations: int
) -> list[list[dict[str, Any]]]:
    """Return what every uop of the first iterations of loops at code offsets does and when.

    Rows are those of Core.predict's timeline (models/pipeline/README.md), their instructions those
    of listing; none where the simulator has no answer. InputError where the core has no figures.
    """
    loops = [(loop.code, offset, loop.path) for loop, offset in asked]
    return [
        row.get("timeline") or [] for row in Pipeline().along(loops, core, iterations=iterations)
    ]
