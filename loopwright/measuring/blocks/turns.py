"""Measure blocks in turns, of which each is a process of the harness with an order of its own."""

import random
import time
from collections.abc import Iterable, Sequence
from typing import Any

from loopwright import harness, toolchain
from loopwright.machine import hosts
from loopwright.measuring.blocks import block, slopes
from loopwright.measuring.blocks.block import Block
from loopwright.measuring.blocks.slopes import BlockReading
from loopwright.measuring.rounds import Progress

_SPAN = 1.5  # s: turns go on as long, and apart, to see a block at both of its speeds
_FEW = 32  # blocks that have all turns: three may find one of two speeds alone
_SPARE = 3  # further turns for blocks that were disturbed, or whose turns do not agree

COLUMNS = [
    "id",
    "notion",
    "offset",
    "cycles",
    "p10",
    "p90",
    "uncertainty",
    "samples",
    "dropped",
    "dropped_from",
    "dropped_to",
    "processes",
    "clock",
    "status",
    "reason",
    "microarch",
    "machine",
    "code",
    "note",
]


def measure(
    isa: str, blocks: Sequence[Block], processes: int, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Return a row for each block, with the columns COLUMNS; so many processes have to agree."""
    found = readings(isa, blocks, processes, progress)
    native = toolchain.find(isa).native
    common = {
        "microarch": (hosts.microarch() or "") if native else "",
        "machine": hosts.machine(),
    }
    return [
        {
            "id": one.id,
            "notion": one.notion,
            "offset": one.offset,
            **_figures(one, got, processes),
            **common,
            "code": one.repeated.hex(),
        }
        for one, got in zip(blocks, found, strict=True)
    ]


def _figures(one: Block, got: Sequence[BlockReading], processes: int) -> dict[str, Any]:
    if one.refused:
        return slopes.refusal(one.refused)
    found = slopes.result(got, processes)
    notes = [found["note"], one.note if found["status"] != "refused" else ""]
    return {**found, "note": "; ".join(filter(None, notes))}


def readings(
    isa: str, blocks: Sequence[Block], processes: int, progress: Progress | None = None
) -> list[list[BlockReading]]:
    """Return what processes read of each block, of which each has its own order: a turn."""
    found: list[list[BlockReading]] = [[] for _ in blocks]
    todo = [n for n, block in enumerate(blocks) if not block.refused]
    total = processes * len(todo)
    done = 0
    began = time.monotonic()
    for turn in range(processes + _SPARE):
        early = processes >= slopes.TURNS and time.monotonic() < began + _SPAN
        few = processes >= slopes.TURNS and len(todo) <= _FEW
        if not toolchain.find(isa).native or (turn >= processes and not early and not few):
            todo = [n for n in todo if slopes.wants_more(found[n], processes)]
        if not todo:
            break
        if turn and early:
            time.sleep(random.uniform(0, 2 * _SPAN / (processes + _SPARE)))
        for n, reading in _turn(isa, blocks, random.sample(todo, len(todo)), turn):
            found[n].append(reading)
            done += 1
            if progress:
                progress(min(done, total), total)
    return found


def _turn(
    isa: str, blocks: Sequence[Block], order: Iterable[int], turn: int
) -> Iterable[tuple[int, BlockReading]]:
    emulator = harness.emulator(isa)
    text = "".join(block.job(isa, str(n), blocks[n], turn) for n in order)
    for record in harness.run(isa, text):
        if record["disturbed"] and emulator:
            record["refused"] = f"emulated: no timing ({emulator} runs its code here)"
        one = blocks[int(record["id"])]
        record["misaligned"] |= one.misaligned
        record["refused"] = one.why(record["refused"], record["stopped"])
        yield int(record["id"]), BlockReading.of(record)
