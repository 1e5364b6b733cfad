"""Measure loops of a binary on this host: where they lie, and where they would run best."""

from collections.abc import Sequence

import pandas as pd

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.measuring import block, measure_blocks
from loopwright.measuring.block import Block
from loopwright.measuring.rounds import Progress
from loopwright.scanning.found import ScannedLoop

COLUMNS = [
    "loop",
    "address",
    "function",
    "offset",
    "cycles",
    "uncertainty",
    "processes",
    "status",
    "reason",
    "clock",
    "microarch",
    "machine",
    "note",
]


def measure(
    loops: Sequence[ScannedLoop],
    places: Sequence[Sequence[int]],
    *,
    processes: int = measure_blocks.TURNS,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Measure each loop at its places (code offsets, 0 to 63): a row for each of both.

    loop is the number of the loop. cycles are those of an iteration on its likely path, with their
    uncertainty; a row with status "refused" has a reason instead, such as the exit that is taken
    however registers and memory are set. note says what was replaced so that the loop ends, and
    what else a reader of the figure must know. progress is called with what is done and all of it.
    InputError where there is not a list of places for each loop, or a place is no offset.
    """
    if len(loops) != len(places):
        raise InputError(
            f"{len(loops)} loops have {len(places)} lists of code offsets; give one each"
        )
    wanted = [(n, place) for n, several in enumerate(places) for place in several]
    if wrong := [place for _, place in wanted if place not in range(64)]:
        raise InputError(f"code offset {wrong[0]} is not in 0..63")
    blocks = [_block(n, loops[n], place) for n, place in wanted]
    rows = measure_blocks.measure_in_turns(toolchain.host_isa(), blocks, processes, progress)
    for (n, _), row in zip(wanted, rows, strict=True):
        row.update(loop=n, address=loops[n].address, function=loops[n].where)
    return pd.DataFrame(rows, columns=COLUMNS)


def _block(number: int, loop: ScannedLoop, place: int) -> Block:
    host = toolchain.host_isa()
    if loop.isa != host:
        why = f"it is code of {loop.isa}, and this machine runs {host}"
        return Block(str(number), "loop", place, loop.code, refused=why)
    if loop.split:
        why = "its parts lie more than 64 KiB apart"
        return Block(str(number), "loop", place, b"", refused=why)
    return block.of_code(str(number), loop.code, place, loop.isa, "loop", loop.path)
