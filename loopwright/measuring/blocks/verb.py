"""Measure blocks of code given as hex on this host, each in a sealed process of its own.

The protocol, what seals the process and what is refused are described in harness/README.md.
"""

import random
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from loopwright import harness, toolchain
from loopwright.code import decode
from loopwright.code.instructions import Flow, Instruction
from loopwright.errors import InputError, unknown
from loopwright.machine import hosts
from loopwright.measuring.blocks import addresses, slopes, trips
from loopwright.measuring.blocks.slopes import BlockReading
from loopwright.measuring.rounds import Progress
from loopwright.predicting import subjects

NOTIONS = ("loop", "unrolled")
EVERY = "all"
MOST_BYTES = 1024
_SPAN = 1.5  # s: turns go on as long, and apart, to see a block at both of its speeds
_FEW = 32  # blocks that have all turns: three may find one of two speeds alone
_SPARE = 3  # further turns for blocks that were disturbed, or whose turns do not agree
_COPIES_BYTES = 2048  # of the shorter unrolled code; the longer is twice as long
_LEAST_COPIES = 8
_TRIPS = 20000  # of the shorter loop, at most
_PARTS = (1, 1.5, 1.25)  # of either, by turns: what the ends cost varies with the length
_X87 = re.compile(r"%(st|mm\d)\b|^f|^emms")  # what the x87 registers, or their state, are used by

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


@dataclass(frozen=True)
class _Block:
    """One row to measure: its code as one copy or one trip, or why it is not run."""

    id: str
    notion: str
    offset: int
    code: bytes
    counter: str = ""
    x87: bool = False
    wide: bool = False
    misaligned: bool = False
    refused: str = ""


def measure_blocks(
    blocks: Path | str,
    *,
    notion: str | None = None,
    offset: int | str | Iterable[int] | None = None,
    isa: str | None = None,
    processes: int = slopes.TURNS,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Measure the blocks of a CSV with the columns id, hex and optionally offset.

    notion is "unrolled" (copies back to back), "loop" (one copy, and a branch that counts trips in
    a register that the block leaves alone) or "all" (a row each); left out, it is the loop for a
    block that ends in a branch. offset (0 to 63, several of them or "all": a row each) replaces the
    column's: where the first copy starts, mod 64. isa is "x86_64" or "arm64", this host's where
    left out; code of another one is run by an emulator, without timing.

    cycles are those of one copy or one trip, the slope between two codes, one with twice the
    copies or trips: what surrounds them is in neither. processes have to agree on it; one alone is
    the quickest, and says nothing of the spread between them. p10 and p90 are of the samples;
    uncertainty (cycles) adds the spread between processes, of which each measures other numbers of
    copies. A row with status "refused" has a reason and no number; "bimodal" says that there are
    two speeds, by more than interruptions and noise explain. dropped is the share of samples left
    out for being slow, dropped_from and dropped_to how many times as long they took. note says that
    an access is misaligned and may cross cache lines; code is what was repeated, in hex: of a loop,
    with its branch. progress is called with blocks done and all. InputError for a file that is no
    blocks file and for settings that make no sense.
    """
    isa = isa or toolchain.host_isa()
    if isa not in ("x86_64", "arm64"):
        raise unknown("isa", isa, ("x86_64", "arm64"))
    if notion not in (None, EVERY, *NOTIONS):
        raise unknown("notion", str(notion), (*NOTIONS, EVERY))
    if processes < 1:
        raise InputError(f"{processes} processes measure nothing; give at least 1")
    offsets = _offsets(offset)
    rows = list(subjects.read_csv(Path(blocks)))
    wanted = [
        _block(row.id, row.hex, row.offset if at is None else at, isa, one)
        for row in rows
        for at in offsets
        for one in (NOTIONS if notion == EVERY else (notion,))
    ]
    readings = _measure(isa, wanted, processes, progress)
    native = toolchain.find(isa).native
    common = {
        "microarch": (hosts.microarch() or "") if native else "",
        "machine": hosts.machine(),
    }
    out = [
        {
            "id": block.id,
            "notion": block.notion,
            "offset": block.offset,
            **(slopes.refusal(block.refused) if block.refused else slopes.result(got, processes)),
            **common,
            "code": block.code.hex(),
        }
        for block, got in zip(wanted, readings, strict=True)
    ]
    return pd.DataFrame(out, columns=COLUMNS)


def _offsets(offset: int | str | Iterable[int] | None) -> Sequence[int | None]:
    """Resolve code offsets; None is the one that a row has itself."""
    if offset is None:
        return [None]
    if offset == EVERY:
        return list(subjects.OFFSETS)
    several = [offset] if isinstance(offset, int | str) else list(offset)
    for one in several:
        if one not in subjects.OFFSETS:
            raise InputError(f"offset {one} is not in 0..63; give a number of bytes mod 64, or all")
    return [int(one) for one in several]


def _block(name: str, text: str, offset: int, isa: str, notion: str | None) -> _Block:
    """Return a row's block; one that cannot be measured says why."""
    block = _Block(name, notion or "unrolled", offset, b"")
    try:
        code = decode.parse_hex(text)
        block = replace(block, code=code)
        if len(code) > MOST_BYTES:
            raise InputError(f"{len(code)} bytes are too long for a block; it has {MOST_BYTES}")
        if isa == "arm64" and offset % 4:
            raise InputError("arm64 code stands at multiples of 4")
        body = decode.decode(isa, code)
        block = replace(
            block,
            x87=any(_X87.search(ins.text) for ins in body),
            wide=addresses.wide(isa, code),
            misaligned=addresses.misaligned(isa, code),
        )
        loops = body[-1].target == 0 and body[-1].flow is Flow.BRANCH
        notion = notion or ("loop" if loops else "unrolled")
        block = replace(block, notion=notion)
        _stay_inside(body[:-1] if loops and notion == "loop" else body, len(code))
        if notion == "unrolled":
            return block
        trip = trips.of_block(isa, code)
        return replace(block, code=trip.code, counter=trip.counter)
    except InputError as error:
        return replace(block, refused=str(error))


def _stay_inside(body: Sequence[Instruction], size: int) -> None:
    """Refuse code whose copies would not all run, each as a whole: control has to go forwards."""
    starts = {ins.address for ins in body} | {size}
    for ins in body:
        if ins.flow is Flow.NEXT:
            continue
        shown = " ".join(ins.text.split())
        if ins.flow not in (Flow.JUMP, Flow.BRANCH):
            raise InputError(f"it leaves the block: {shown}")
        if ins.target not in starts or ins.target < ins.end:
            raise InputError(f"it branches out of the block, or back: {shown}")


def _measure(
    isa: str, blocks: Sequence[_Block], processes: int, progress: Progress | None
) -> list[list[BlockReading]]:
    """Measure each block in several turns, of which each is a process with its own order."""
    readings: list[list[BlockReading]] = [[] for _ in blocks]
    todo = [n for n, block in enumerate(blocks) if not block.refused]
    total = processes * len(todo)
    done = 0
    began = time.monotonic()
    for turn in range(processes + _SPARE):
        early = processes >= slopes.TURNS and time.monotonic() < began + _SPAN
        few = processes >= slopes.TURNS and len(todo) <= _FEW
        if not toolchain.find(isa).native or (turn >= processes and not early and not few):
            todo = [n for n in todo if slopes.wants_more(readings[n], processes)]
        if not todo:
            break
        if turn and early:
            time.sleep(random.uniform(0, 2 * _SPAN / (processes + _SPARE)))
        for n, reading in _turn(isa, blocks, random.sample(todo, len(todo)), turn):
            readings[n].append(reading)
            done += 1
            if progress:
                progress(min(done, total), total)
    return readings


def _turn(
    isa: str, blocks: Sequence[_Block], order: Iterable[int], turn: int
) -> Iterable[tuple[int, BlockReading]]:
    emulator = harness.emulator(isa)
    text = "".join(_job(isa, str(n), blocks[n], turn) for n in order)
    for record in harness.run(isa, text):
        if record["disturbed"] and emulator:
            record["refused"] = f"emulated: no timing ({emulator} runs its code here)"
        record["misaligned"] |= blocks[int(record["id"])].misaligned
        yield int(record["id"]), BlockReading.of(record)


def _job(isa: str, name: str, block: _Block, turn: int) -> str:
    """Return a block's job; turns have other numbers of copies, or of trips."""
    part = _PARTS[turn % len(_PARTS)]
    if block.counter:
        short = round(_TRIPS * part)
    else:
        short = round(max(_LEAST_COPIES, -(-_COPIES_BYTES // len(block.code))) * part)
    long = 2 * short
    lines = [
        "job block",
        f"id {name}",
        f"isa {isa}",
        f"code {block.code.hex()}",
        f"offset {block.offset}",
        f"times {short} {long}",
        *([f"counter {block.counter}"] if block.counter else []),
        *(["x87"] if block.x87 else []),
        *(["wide"] if block.wide else []),
        "end",
    ]
    return "\n".join([*lines, ""])
