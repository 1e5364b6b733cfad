"""Measure blocks of code given as hex on this host, each in a sealed process of its own.

The protocol, what seals the process and what is refused are described in harness/README.md.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from loopwright import decode, harness, hosts, toolchain, trips
from loopwright.code import Flow, Instruction
from loopwright.errors import InputError, unknown
from loopwright.predict import subjects

NOTIONS = ("loop", "unrolled")
EVERY = "all"
MOST_BYTES = 1024
TURNS = 2
_SPARE = 3  # further turns for blocks that were disturbed, or whose turns do not agree
_COPIES_BYTES = 2048  # of the shorter unrolled code; the longer is twice as long
_LEAST_COPIES = 8
_TRIPS = 40000
_AGREE = (0.02, 0.02)  # most that turns may differ by: cycles, and a share of them
_LEAST = 5e-4  # relative: what the calibration is good for, from known answers
_BIMODAL = (0.02, 0.01)  # as _AGREE, of what is not noted

COLUMNS = [
    "id",
    "notion",
    "offset",
    "cycles",
    "p10",
    "p90",
    "uncertainty",
    "samples",
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
    refused: str = ""


@dataclass(frozen=True)
class _Reading:
    """One block in one process."""

    cycles: float
    p10: float
    p90: float
    samples: int
    clock: str
    misaligned: bool
    disturbed: bool
    refused: str

    @classmethod
    def of(cls, record: dict[str, Any]) -> "_Reading":
        return cls(
            cycles=float("nan") if record["cycles"] is None else record["cycles"],
            p10=float("nan") if record["p10"] is None else record["p10"],
            p90=float("nan") if record["p90"] is None else record["p90"],
            samples=record["samples"],
            clock=record["clock"],
            misaligned=bool(record["misaligned"]),
            disturbed=bool(record["disturbed"]) and bool(record["clock"]),
            refused=record["refused"],
        )

    @property
    def error(self) -> float:
        """Return the uncertainty within the process, in cycles."""
        return max((self.p90 - self.p10) / 2, _LEAST * self.cycles)


def measure_blocks(
    blocks: Path | str,
    *,
    notion: str | None = None,
    offset: int | None = None,
    isa: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Measure the blocks of a CSV with the columns id, hex and optionally offset.

    notion is "unrolled" (copies back to back), "loop" (one copy, and a branch that counts trips in
    a register that the block leaves alone) or "all" (a row each); left out, it is the loop for a
    block that ends in a branch. offset (0 to 63), where given, replaces the column's: where the
    first copy starts, mod 64. isa is "x86_64" or "arm64", this host's where left out; code of
    another one is run by an emulator, without timing.

    cycles are those of one copy or one trip, the slope between two codes, one with twice the
    copies or trips: what surrounds them is in neither. p10 and p90 are of the samples; uncertainty
    (cycles) adds the spread between processes, of which each measures other numbers of copies. A
    row with status "refused" has a reason and no number; "bimodal" says that processes or samples
    differ by more than 1 % (0.02 cycles). note says that an access is misaligned and may cross cache lines;
    code is what was repeated, in hex: of a loop, with its branch. progress is called with blocks
    done and all. InputError for a file that is no blocks file and for settings that make no sense.
    """
    isa = isa or toolchain.host_isa()
    if isa not in ("x86_64", "arm64"):
        raise unknown("isa", isa, ("x86_64", "arm64"))
    if notion not in (None, EVERY, *NOTIONS):
        raise unknown("notion", str(notion), (*NOTIONS, EVERY))
    if offset is not None and offset not in subjects.OFFSETS:
        raise InputError(f"offset {offset} is not in 0..63; give a number of bytes mod 64")
    rows = list(subjects.read_csv(Path(blocks)))
    wanted = [
        _block(row.id, row.hex, row.offset if offset is None else offset, isa, one)
        for row in rows
        for one in (NOTIONS if notion == EVERY else (notion,))
    ]
    readings = _measure(isa, wanted, progress)
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
            **(_refusal(block.refused) if block.refused else _result(got)),
            **common,
            "code": block.code.hex(),
        }
        for block, got in zip(wanted, readings, strict=True)
    ]
    return pd.DataFrame(out, columns=COLUMNS)


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
    isa: str, blocks: Sequence[_Block], progress: Callable[[int, int], None] | None
) -> list[list[_Reading]]:
    """Measure each block in several turns, of which each is a process with its own order."""
    readings: list[list[_Reading]] = [[] for _ in blocks]
    todo = [n for n, block in enumerate(blocks) if not block.refused]
    total = TURNS * len(todo)
    done = 0
    for turn in range(TURNS + _SPARE):
        if turn >= TURNS or not toolchain.find(isa).native:
            todo = [n for n in todo if _wants_more(readings[n])]
        if not todo:
            break
        for n, reading in _turn(isa, blocks, random.sample(todo, len(todo)), turn):
            readings[n].append(reading)
            done += 1
            if progress:
                progress(min(done, total), total)
    return readings


def _turn(
    isa: str, blocks: Sequence[_Block], order: Iterable[int], turn: int
) -> Iterable[tuple[int, _Reading]]:
    text = "".join(_job(isa, str(n), blocks[n], turn) for n in order)
    for record in harness.run(isa, text):
        yield int(record["id"]), _Reading.of(record)


def _job(isa: str, name: str, block: _Block, turn: int) -> str:
    """Return a block's job; every other turn has other numbers of copies, or of trips."""
    if block.counter:
        long = _TRIPS * (3 if turn % 2 else 4) // 4
        short = long // 2
    else:
        copies = max(_LEAST_COPIES, -(-_COPIES_BYTES // len(block.code)))
        short = copies * (3 if turn % 2 else 2) // 2
        long = 2 * short
    lines = [
        "job block",
        f"id {name}",
        f"isa {isa}",
        f"code {block.code.hex()}",
        f"offset {block.offset}",
        f"times {short} {long}",
        *([f"counter {block.counter}"] if block.counter else []),
        "end",
    ]
    return "\n".join([*lines, ""])


def _wants_more(readings: Sequence[_Reading]) -> bool:
    """Say whether a further turn can bring a figure."""
    if any(r.refused and not r.disturbed for r in readings):
        return False
    return len(_agreeing([r for r in readings if not r.refused])) < TURNS


def _agreeing(accepted: Sequence[_Reading]) -> list[_Reading]:
    """Return the readings near the middle one, where they are more than half of all."""
    if not accepted:
        return []
    middle = median(r.cycles for r in accepted)
    most = max(_AGREE[0], _AGREE[1] * middle) / (2 if len(accepted) == TURNS else 1)
    near = [r for r in accepted if abs(r.cycles - middle) <= most]
    return near if 2 * len(near) > len(accepted) else []


def _refusal(reason: str, clock: str = "") -> dict[str, Any]:
    """Return the columns of a row without a number."""
    nan = float("nan")
    return {
        **{name: nan for name in ("cycles", "p10", "p90", "uncertainty")},
        **{"samples": 0, "processes": 0, "clock": clock},
        **{"status": "refused", "reason": reason, "note": ""},
    }


def _result(readings: Sequence[_Reading]) -> dict[str, Any]:
    """Join what several processes read of a block."""
    clock = readings[0].clock
    for reading in readings:
        if reading.refused and not reading.disturbed:
            return _refusal(reading.refused, clock)
    accepted = [r for r in readings if not r.refused]
    near = _agreeing(accepted)
    if len(near) < TURNS and len(accepted) >= TURNS:
        said = ", ".join(f"{r.cycles:.2f}" for r in accepted)
        return _refusal(f"slopes are inconsistent: {said} cycles in {len(accepted)} runs", clock)
    if len(near) < TURNS:
        last = [r for r in readings if r.refused][-1]
        count = f"in {len(readings) - len(accepted)} of {len(readings)} processes"
        return _refusal(f"{last.refused} ({count})", clock)
    cycles = median(r.cycles for r in near)
    spread = max(abs(r.cycles - cycles) for r in near)
    wide = max(max(r.p90 for r in near) - min(r.p10 for r in near), 2 * spread)
    apart = len(near) < len(accepted)
    bimodal = apart or wide > max(_BIMODAL[0], _BIMODAL[1] * cycles)
    return {
        "cycles": cycles,
        "p10": median(r.p10 for r in near),
        "p90": median(r.p90 for r in near),
        "uncertainty": max(r.error for r in near) + spread,
        "samples": sum(r.samples for r in near),
        "processes": len(near),
        "clock": clock,
        "status": "bimodal" if bimodal else "ok",
        "reason": "cycles differ by more than 1 %" if bimodal else "",
        "note": "a misaligned access may cross cache lines" if near[0].misaligned else "",
    }
