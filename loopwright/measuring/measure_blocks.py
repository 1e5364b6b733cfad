"""Measurements of blocks of code in sealed processes, alone or beside predictions."""

import math
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self

import pandas as pd

from loopwright import toolchain
from loopwright.code import instructions
from loopwright.errors import InputError, unknown
from loopwright.machine import harness, hosts
from loopwright.measuring import block
from loopwright.measuring.block import Block
from loopwright.measuring.measure import Progress
from loopwright.measuring.readings import FIGURE_COLUMNS
from loopwright.predicting import question
from loopwright.predicting.predict import predict
from loopwright.predicting.question import EVERY, NOTIONS, Question

TURNS = 3  # processes that have to agree, by default
SHARED_LINES = "memory is shared by pages: lines have several addresses, which slows AMD"
_AGREE = (0.02, 0.02)  # their largest difference: in cycles, and relative
_QUIET = (0.02, 0.01)  # the largest range from p10 to p90 that needs no further turn
_LEAST = 5e-4  # relative error of the calibration, from loops of known speed
_ENDS = 2.0  # cycles by which the ends of two codes differ, because of their lengths
_AS_GIVEN = (  # fields of a reading in the harness's output
    "samples", "accepted", "slow", "slow_from", "slow_to", "two_speeds", "clock", "refused",
)  # fmt: skip
_MOST_ENDS = 8.0  # the largest one measured: 5 loads of 23 bytes, by turns early and late


@dataclass(frozen=True)
class BlockReading:
    """One block in one process, in cycles: the slope between two numbers of copies or iterations.

    Of the accepted samples, slow ones were left out, which took slow_from to slow_to times as long
    as the others. copies is the difference of the two numbers. two_speeds describes two speeds that
    noise does not explain. disturbed is True if the harness refused it for a reason other than the
    block, so that another turn can help; unsteady if its speed varied for no known reason.
    """

    cycles: float
    p10: float
    p90: float
    samples: int
    accepted: int
    slow: int
    slow_from: float
    slow_to: float
    copies: int
    two_speeds: str
    clock: str
    misaligned: bool
    shared: bool
    disturbed: bool
    refused: str
    unsteady: bool = False

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        """Return the reading of a line of the harness's output."""
        cycles, p10, p90 = (
            math.nan if record[name] is None else record[name] for name in ("cycles", "p10", "p90")
        )
        return cls(
            cycles,
            p10,
            p90,
            **{name: record[name] for name in _AS_GIVEN},
            copies=record["long"] - record["short"],
            misaligned=bool(record["misaligned"]),
            shared=bool(record["shared"]),
            disturbed=bool(record["disturbed"]) and bool(record["clock"]),
            unsteady=bool(record.get("unsteady")),  # older kits do not say it
        )

    @property
    def error(self) -> float:
        """The uncertainty within the process, in cycles."""
        return max((self.p90 - self.p10) / 2, _LEAST * self.cycles, _ENDS / self.copies)

    @property
    def quiet(self) -> bool:
        """True if its samples are close together."""
        return self.p90 - self.p10 <= max(_QUIET[0], _QUIET[1] * self.cycles)


def wants_more(readings: Sequence[BlockReading], turns: int = TURNS) -> bool:
    """True if a further turn can give a figure, or, of several, a quieter one."""
    if any(r.refused and not r.disturbed for r in readings):
        return False
    enough = [r for r in readings if not r.refused and (r.quiet or turns == 1)]
    return len(_agreeing(enough)) < turns


def _agreeing(accepted: Sequence[BlockReading]) -> list[BlockReading]:
    """Return the readings near the median, if they are more than half of all."""
    if not accepted:
        return []
    middle = median(r.cycles for r in accepted)
    ends = _MOST_ENDS / min(r.copies for r in accepted)
    most = max(_AGREE[0], _AGREE[1] * middle, ends) / (2 if len(accepted) == 2 else 1)
    near = [r for r in accepted if abs(r.cycles - middle) <= most]
    return near if 2 * len(near) > len(accepted) else []


def refusal(reason: str, clock: str = "") -> dict[str, Any]:
    """Return the columns of a row without a number."""
    nan = float("nan")
    return {
        **dict.fromkeys(("cycles", "p10", "p90", "uncertainty"), nan),
        **dict.fromkeys(("dropped", "dropped_from", "dropped_to"), nan),
        **{"samples": 0, "processes": 0, "clock": clock},
        **{"status": "refused", "reason": reason, "note": ""},
    }


def result(readings: Sequence[BlockReading], turns: int = TURNS) -> dict[str, Any]:
    """Join the readings of a block by several processes; refused if fewer than turns agree."""
    clock = readings[0].clock
    for reading in readings:
        if reading.refused and not reading.disturbed:
            return refusal(reading.refused, clock)
    accepted = [r for r in readings if not r.refused]
    quiet = [r for r in accepted if r.quiet]
    if len(_agreeing(quiet)) >= turns:
        accepted = quiet
    near = _agreeing(accepted)
    if len(near) < turns <= len(accepted):
        slopes = ", ".join(f"{r.cycles:.2f}" for r in accepted)
        return refusal(f"slopes are inconsistent: {slopes} cycles in {len(accepted)} runs", clock)
    if len(near) < turns:
        last = [r for r in readings if r.refused][-1]
        count = f"in {len(readings) - len(accepted)} of {len(readings)} processes"
        return refusal(f"{last.refused} ({count})", clock)
    cycles = median(r.cycles for r in near)
    spread = max(abs(r.cycles - cycles) for r in near)
    speeds = _speeds(near, accepted)
    return {
        "cycles": cycles,
        "p10": median(r.p10 for r in near),
        "p90": median(r.p90 for r in near),
        "uncertainty": max(r.error for r in near) + spread,
        "samples": sum(r.samples for r in near),
        **_dropped(accepted),
        "processes": len(near),
        "clock": clock,
        "status": "bimodal" if speeds else "ok",
        "reason": speeds,
        "note": "; ".join(_notes(near)),
    }


def _dropped(accepted: Sequence[BlockReading]) -> dict[str, float]:
    """Return the share of samples left out for being slow, and their slowness."""
    slow = [r for r in accepted if r.slow]
    return {
        "dropped": sum(r.slow for r in accepted) / sum(r.accepted for r in accepted),
        "dropped_from": min((r.slow_from for r in slow), default=float("nan")),
        "dropped_to": max((r.slow_to for r in slow), default=float("nan")),
    }


def _speeds(near: Sequence[BlockReading], accepted: Sequence[BlockReading]) -> str:
    """Return the evidence of two speeds beyond noise, or ""."""
    if len(near) < len(accepted):
        return "processes differ: " + ", ".join(f"{r.cycles:.2f}" for r in accepted) + " cycles"
    return next((r.two_speeds for r in accepted if r.two_speeds), "")


def _notes(readings: Sequence[BlockReading]) -> list[str]:
    notes = ["one process alone"] if len(readings) == 1 else []
    notes += ["a misaligned access may cross cache lines"] if readings[0].misaligned else []
    if any(r.shared for r in readings):
        notes.append(SHARED_LINES)
    return notes


_SPAN = 1.5  # s over which turns are spread, to see a block at both of its speeds
_FEW = 32  # blocks up to which all turns are made: three may miss one of two speeds
_SPARE = 3  # further turns for disturbed blocks, or those whose turns disagree

TURN_COLUMNS = ["id", "notion", "offset", *FIGURE_COLUMNS, "code", "note"]


def measure_in_turns(
    isa: str, blocks: Sequence[Block], processes: int, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Return a row for each block, with TURN_COLUMNS; so many processes have to agree."""
    readings = readings_in_turns(isa, blocks, processes, progress)
    native = toolchain.find(isa).native
    common = {"microarch": (hosts.microarch() or "") if native else "", "machine": hosts.machine()}
    rows = [
        {
            "id": measured.id,
            "notion": measured.notion,
            "offset": measured.offset,
            **_figures(measured, of_block, processes),
            **common,
            "code": measured.repeated.hex(),
        }
        for measured, of_block in zip(blocks, readings, strict=True)
    ]
    mark_two_speeds(rows)
    return rows


def mark_two_speeds(rows: Iterable[dict[str, Any]]) -> None:
    """Mark rows of the same code and offset with different figures as of two speeds."""
    by_code: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["status"] != "refused":
            by_code.setdefault((row["notion"], row["offset"], row["code"]), []).append(row)
    for group in by_code.values():
        least = min(group, key=lambda row: row["cycles"])
        most = max(group, key=lambda row: row["cycles"])
        known = least["uncertainty"] + most["uncertainty"]
        if most["cycles"] - least["cycles"] <= max(known, _AGREE[0], _AGREE[1] * most["cycles"]):
            continue
        text = f"the same code took {least['cycles']:.2f} and {most['cycles']:.2f} cycles"
        for row in group:
            reason = f"{text} (rows {least['id']} and {most['id']})"
            row["status"], row["reason"] = (
                "bimodal",
                "; ".join(filter(None, (row["reason"], reason))),
            )


def _figures(
    measured_block: Block, readings: Sequence[BlockReading], processes: int
) -> dict[str, Any]:
    if measured_block.refused:
        return refusal(measured_block.refused)
    figures = result(readings, processes)
    notes = [figures["note"], measured_block.note if figures["status"] != "refused" else ""]
    return {**figures, "note": "; ".join(filter(None, notes))}


def readings_in_turns(
    isa: str, blocks: Sequence[Block], processes: int, progress: Progress | None = None
) -> list[list[BlockReading]]:
    """Return each block's readings by process, each in a random order: a turn."""
    readings: list[list[BlockReading]] = [[] for _ in blocks]
    todo = [n for n, block in enumerate(blocks) if not block.refused]
    total = processes * len(todo)
    done = 0
    began = time.monotonic()
    for turn in range(processes + _SPARE):
        early = processes >= TURNS and time.monotonic() < began + _SPAN
        few = processes >= TURNS and len(todo) <= _FEW
        if not toolchain.find(isa).native or (turn >= processes and not early and not few):
            todo = [n for n in todo if wants_more(readings[n], processes)]
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
    isa: str, blocks: Sequence[Block], order: Iterable[int], turn: int
) -> Iterable[tuple[int, BlockReading]]:
    emulator = harness.emulator(isa)
    text = "".join(block.job(isa, str(n), blocks[n], turn) for n in order)
    for record in harness.run(isa, text):
        if record["disturbed"] and emulator:
            record["refused"] = f"emulated: no timing ({emulator} runs its code here)"
        of_record = blocks[int(record["id"])]
        record["misaligned"] |= of_record.misaligned
        record["refused"] = of_record.why(record["refused"], record["stopped"])
        yield int(record["id"]), BlockReading.of(record)


def measure_blocks(
    blocks: Path | str | pd.DataFrame | None = None,
    *,
    hex: str | bytes | None = None,
    asm: str | None = None,
    obj: Path | str | None = None,
    notion: str | None = None,
    offset: int | str | Iterable[int] | None = None,
    isa: str | None = None,
    processes: int = TURNS,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Measure blocks: of a CSV or DataFrame, hex, or loops of assembly or of an object.

    Exactly one of them: blocks has the columns id, hex and optionally offset and path; hex, asm and
    obj are those of predict, and the loops of asm and obj are those that predict has rows of.

    notion is "unrolled" (copies back to back), "loop" (one copy, and a branch that counts
    iterations in a register that the block does not use) or "all" (a row each); left out, it is the
    loop for a block that ends in a branch. offset (0 to 63, several of them or "all": a row each)
    replaces the column's: where the first copy starts, mod 64. A loop that ends by a condition of
    its own, or that has exits, runs unchanged, from registers and memory that keep it on its path
    (see harness/README.md); path names the stretches that an iteration executes, such as "0-9
    13-20". isa is "x86_64" or "arm64", this host's where left out; code of another one is run by an
    emulator, without timing.

    cycles are those of one copy or one iteration: the slope between two runs, one with twice the
    copies or iterations, so that the code around them cancels. The processes have to agree; a
    single one is quicker, and gives no spread between processes. p10 and p90 are of the samples;
    uncertainty (cycles) adds the spread between processes, each of which measures other numbers
    of copies. A row with status "refused" has a reason and no number; "bimodal" means two speeds
    beyond interruptions and noise. dropped is the share of samples left out for being slow,
    dropped_from and dropped_to the factors by which they took longer. note names a misaligned
    access that may cross cache lines, and the comparison that a count replaces; code is the
    repeated code in hex: of a loop, with its branch. progress is called with the number of blocks
    done and of all. InputError for an invalid blocks file, hex or settings.
    """
    given = Question(blocks=blocks, hex=hex, asm=asm, obj=obj)
    if asm is not None or obj is not None:
        pieces = given.pieces(isa)
        isa = pieces[0].isa
    isa = isa or toolchain.host_isa()
    if isa not in ("x86_64", "arm64"):
        raise unknown("isa", isa, ("x86_64", "arm64"))
    if notion not in (None, EVERY, *NOTIONS):
        raise unknown("notion", str(notion), (*NOTIONS, EVERY))
    if processes < 1:
        raise InputError(f"{processes} processes measure nothing; give at least 1")
    offsets = question.code_offsets(offset)
    if asm is not None or obj is not None:
        block_rows = [
            question.BlockRow(piece.id, piece.code.hex(), piece.offset)
            for piece in pieces
            if not piece.error
        ]
    else:
        block_rows = list(given.rows())
    if hex is not None:  # there is no other row that could be measured
        instructions.decode(isa, instructions.parse_hex(block_rows[0].hex))
    wanted = [
        block.of_hex(row.id, row.hex, row.offset if at is None else at, isa, kind, row.path)
        for row in block_rows
        for at in offsets
        for kind in (NOTIONS if notion == EVERY else (notion,))
    ]
    rows = measure_in_turns(isa, wanted, processes, progress)
    return pd.DataFrame(rows, columns=TURN_COLUMNS)


COMPARED_COLUMNS = [
    "id", "microarch", "notion", "offset", "predicted", "measured", "uncertainty", "error_percent",
    "bottleneck", "error", "clock", "machine",
]  # fmt: skip


def compare_loops(
    blocks: Path | str | pd.DataFrame | None = None,
    *,
    hex: str | bytes | None = None,
    asm: str | None = None,
    obj: Path | str | None = None,
    microarch: str | list[str] | None = None,
    offset: int | str | None = None,
    processes: int = TURNS,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Predict loops and measure them here: one row for each loop, core and code offset.

    Subjects, microarch and offset are those of predict. predicted and measured are cycles an
    iteration (of the simulator; of this machine, with its uncertainty), measured only in the rows
    of this machine's core; where that core is not asked for, or no core.toml describes it
    (microarch is empty then), measurements have rows of their own. error_percent is the
    prediction's error. error is the reason for a missing figure, or its caveat. clock and machine
    are those of the measurement. InputError as predict and measure_blocks.
    """
    predictions = predict(
        hex=hex, blocks=blocks, asm=asm, obj=obj, microarch=microarch, offset=offset
    ).rename(columns={"cycles": "predicted"})
    measurements = measure_blocks(
        blocks, hex=hex, asm=asm, obj=obj, offset=offset, processes=processes, progress=progress
    ).rename(columns={"cycles": "measured"})
    host = hosts.microarch() or ""
    keys = ["id", "offset"]
    mine = measurements.set_index(keys)[["measured", "uncertainty", "reason", "clock", "machine"]]
    rows = predictions.reindex(columns=[c for c in COMPARED_COLUMNS if c in predictions.columns])
    own = rows["microarch"] == host
    beside = rows[keys].join(mine, on=keys).where(own)
    rows = rows.join(beside.drop(columns=keys))
    if not own.any():
        alone = measurements.assign(microarch=host, error="", bottleneck="", predicted=float("nan"))
        rows = pd.concat([rows, alone.reindex(columns=[*rows.columns])], ignore_index=True)
    rows["error_percent"] = 100 * (rows["predicted"] / rows["measured"].astype("float64") - 1)
    rows["error"] = [_why(*row) for row in rows[["error", "measured", "reason"]].to_numpy()]
    return rows.reindex(columns=COMPARED_COLUMNS)


def _why(error: object, measured: float, reason: object) -> str:
    """Return the reason for a missing prediction or measurement, or the latter's caveat."""
    error_text = str(error) if isinstance(error, str) else ""
    if not isinstance(reason, str) or not reason:
        return error_text
    state = "not measured" if pd.isna(measured) else "measured"
    return "; ".join(filter(None, (error_text, f"{state}: {reason}")))
