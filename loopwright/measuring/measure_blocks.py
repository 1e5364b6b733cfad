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
from loopwright.measuring.readings import (
    CALIBRATION_ERROR,
    FIGURE_COLUMNS,
    ProcessReading,
    dropped_columns,
)
from loopwright.predicting import question
from loopwright.predicting.predict import predict
from loopwright.predicting.question import EVERY, NOTIONS, Question

TURNS = 3  # processes that have to agree, by default
_ISAS = ("x86_64", "arm64")
SHARED_LINES = "memory is shared by pages: lines have several addresses, which slows AMD"
_AGREE = (0.02, 0.02)  # their largest difference: in cycles, and relative
_QUIET = (0.02, 0.01)  # the largest range from p10 to p90 that needs no further turn
_ENDS = 2.0  # cycles by which the ends of two codes differ, because of their lengths
_COPIED_FIELDS = (  # fields of a reading in the harness's output
    "samples", "accepted", "slow", "slow_from", "slow_to", "two_speeds", "clock", "refused",
)  # fmt: skip
_MOST_ENDS = 8.0  # the largest one measured: 5 loads of 23 bytes, by turns early and late


@dataclass(frozen=True, kw_only=True)
class BlockReading(ProcessReading):
    """One block in one process: the slope between two numbers of copies or iterations.

    samples is the number of those that were kept, copies the difference of the two numbers.
    misaligned: an access may cross lines. shared: memory has several addresses. disturbed: the
    harness refused it for a reason other than the block, so that another turn can help. unsteady:
    its speed varied for no known reason.
    """

    samples: int
    copies: int
    misaligned: bool
    shared: bool
    disturbed: bool
    unsteady: bool = False

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        """Return the reading of a line of the harness's output."""
        figures = ("cycles", "p10", "p90")
        values: dict[str, Any] = {name: record[name] for name in (*figures, *_COPIED_FIELDS)}
        values |= {name: math.nan for name in figures if values[name] is None}
        return cls(
            **values,
            copies=record["long"] - record["short"],
            misaligned=bool(record["misaligned"]),
            shared=bool(record["shared"]),
            disturbed=bool(record["disturbed"]) and bool(record["clock"]),
            unsteady=bool(record.get("unsteady")),  # older kits do not say it
        )

    @property
    def error(self) -> float:
        """The uncertainty within the process, in cycles."""
        return max((self.p90 - self.p10) / 2, CALIBRATION_ERROR * self.cycles, _ENDS / self.copies)

    @property
    def quiet(self) -> bool:
        """True if its samples are close together."""
        return self.p90 - self.p10 <= max(_QUIET[0], _QUIET[1] * self.cycles)


def wants_more(readings: Sequence[BlockReading], turns: int = TURNS) -> bool:
    """True if a further turn can give a figure, or, of several, a quieter one."""
    if any(r.refused and not r.disturbed for r in readings):
        return False
    usable = [r for r in readings if not r.refused and (r.quiet or turns == 1)]
    return len(_agreeing(usable)) < turns


def _agreeing(accepted: Sequence[BlockReading]) -> list[BlockReading]:
    """Return the readings near the median, if they are more than half of all."""
    if not accepted:
        return []
    middle = median(r.cycles for r in accepted)
    ends = _MOST_ENDS / min(r.copies for r in accepted)
    tolerance = max(_AGREE[0], _AGREE[1] * middle, ends) / (2 if len(accepted) == 2 else 1)
    near = [r for r in accepted if abs(r.cycles - middle) <= tolerance]
    return near if 2 * len(near) > len(accepted) else []


def refusal(reason: str, clock: str = "") -> dict[str, Any]:
    """Return the figure columns of a row that has none."""
    figures = ("cycles", "p10", "p90", "uncertainty", "dropped", "dropped_from", "dropped_to")
    return {
        **dict.fromkeys(figures, math.nan),
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
    speeds = _two_speeds(near, accepted)
    return {
        "cycles": cycles,
        "p10": median(r.p10 for r in near),
        "p90": median(r.p90 for r in near),
        "uncertainty": max(r.error for r in near) + spread,
        "samples": sum(r.samples for r in near),
        **dropped_columns(accepted),
        "processes": len(near),
        "clock": clock,
        "status": "bimodal" if speeds else "ok",
        "reason": speeds,
        "note": "; ".join(_notes(near)),
    }


def _two_speeds(near: Sequence[BlockReading], accepted: Sequence[BlockReading]) -> str:
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
            "id": measured_block.id,
            "notion": measured_block.notion,
            "offset": measured_block.offset,
            **_figures(measured_block, block_readings, processes),
            **common,
            "code": measured_block.repeated.hex(),
        }
        for measured_block, block_readings in zip(blocks, readings, strict=True)
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
        doubt = least["uncertainty"] + most["uncertainty"]
        tolerance = max(doubt, _AGREE[0], _AGREE[1] * most["cycles"])
        if most["cycles"] - least["cycles"] <= tolerance:
            continue
        text = f"the same code took {least['cycles']:.2f} and {most['cycles']:.2f} cycles"
        for row in group:
            reason = f"{text} (rows {least['id']} and {most['id']})"
            row["status"] = "bimodal"
            row["reason"] = "; ".join(filter(None, (row["reason"], reason)))


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
    """Return each block's readings by process.

    In a turn, a new process takes the blocks in random order.
    """
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
        measured_block = blocks[int(record["id"])]
        record["misaligned"] |= measured_block.misaligned
        record["refused"] = measured_block.refusal(record["refused"], record["stopped"])
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
    subject = Question(blocks=blocks, hex=hex, asm=asm, obj=obj)
    if asm is not None or obj is not None:
        pieces = subject.pieces(isa)
        isa = pieces[0].isa
    isa = isa or toolchain.host_isa()
    if isa not in _ISAS:
        raise unknown("isa", isa, _ISAS)
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
        block_rows = list(subject.rows())
    if hex is not None:  # there is no other row that could be measured
        instructions.decode(isa, instructions.parse_hex(block_rows[0].hex))
    wanted_blocks = [
        block.of_hex(row.id, row.hex, row.offset if at is None else at, isa, kind, row.path)
        for row in block_rows
        for at in offsets
        for kind in (NOTIONS if notion == EVERY else (notion,))
    ]
    rows = measure_in_turns(isa, wanted_blocks, processes, progress)
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
    columns = ["measured", "uncertainty", "reason", "clock", "machine"]
    figures = measurements.set_index(keys)[columns]
    rows = predictions.reindex(columns=[c for c in COMPARED_COLUMNS if c in predictions.columns])
    of_host = rows["microarch"] == host
    own_figures = rows[keys].join(figures, on=keys).where(of_host)
    rows = rows.join(own_figures.drop(columns=keys))
    if not of_host.any():
        alone = measurements.assign(microarch=host, error="", bottleneck="", predicted=math.nan)
        rows = pd.concat([rows, alone.reindex(columns=[*rows.columns])], ignore_index=True)
    rows["error_percent"] = 100 * (rows["predicted"] / rows["measured"].astype("float64") - 1)
    rows["error"] = [_remark(*row) for row in rows[["error", "measured", "reason"]].to_numpy()]
    return rows.reindex(columns=COMPARED_COLUMNS)


def _remark(error: object, measured: float, reason: object) -> str:
    """Return the reason for a missing prediction or measurement, or the latter's caveat."""
    error_text = str(error) if isinstance(error, str) else ""
    if not isinstance(reason, str) or not reason:
        return error_text
    state = "not measured" if pd.isna(measured) else "measured"
    return "; ".join(filter(None, (error_text, f"{state}: {reason}")))
