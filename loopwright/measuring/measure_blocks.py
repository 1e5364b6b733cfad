"""Measure blocks of code, each in sealed processes; predictions and measurements side by side."""

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self

import pandas as pd

from loopwright import toolchain
from loopwright.errors import InputError, unknown
from loopwright.machine import harness, hosts
from loopwright.measuring import block
from loopwright.measuring.block import Block
from loopwright.measuring.measure import Progress
from loopwright.measuring.readings import FIGURE_COLUMNS
from loopwright.predicting import question
from loopwright.predicting.predict import predict
from loopwright.predicting.question import Question

TURNS = 3  # processes that have to agree, unless others are asked for
_AGREE = (0.02, 0.02)  # most that they may differ by: cycles, and a share of them
_QUIET = (0.02, 0.01)  # the same, from p10 to p90, of what another turn cannot better
_LEAST = 5e-4  # relative: what the calibration is good for, from known answers
_ENDS = 2.0  # cycles by which the ends of two codes differ, for their lengths alone
_MOST_ENDS = 8.0  # the most that was seen: 5 loads of 23 bytes, by turns early and late


@dataclass(frozen=True)
class BlockReading:
    """One block in one process, in cycles: the slope between two numbers of copies or iterations.

    Of the samples accepted the slow ones were left out, which took slow_from to slow_to times as
    long as the others. copies is by how many the two codes differ. two_speeds says what noise does
    not explain. disturbed says that the meter refused it, not what the block does: that another
    turn can help; unsteady, that it had no one speed then, which nothing around it explains.
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
        """Return the reading that a line of the harness's output is."""
        return cls(
            cycles=float("nan") if record["cycles"] is None else record["cycles"],
            p10=float("nan") if record["p10"] is None else record["p10"],
            p90=float("nan") if record["p90"] is None else record["p90"],
            samples=record["samples"],
            accepted=record["accepted"],
            slow=record["slow"],
            slow_from=record["slow_from"],
            slow_to=record["slow_to"],
            copies=record["long"] - record["short"],
            two_speeds=record["two_speeds"],
            clock=record["clock"],
            misaligned=bool(record["misaligned"]),
            shared=bool(record["shared"]),
            disturbed=bool(record["disturbed"]) and bool(record["clock"]),
            refused=record["refused"],
            unsteady=bool(record.get("unsteady")),  # older kits do not say it
        )

    @property
    def error(self) -> float:
        """Return the uncertainty within the process, in cycles."""
        return max((self.p90 - self.p10) / 2, _LEAST * self.cycles, _ENDS / self.copies)

    @property
    def quiet(self) -> bool:
        """Say whether its samples lie close together."""
        return self.p90 - self.p10 <= max(_QUIET[0], _QUIET[1] * self.cycles)


def wants_more(readings: Sequence[BlockReading], turns: int = TURNS) -> bool:
    """Say whether a further turn can bring a figure, or, of several, a quieter one."""
    if any(r.refused and not r.disturbed for r in readings):
        return False
    enough = [r for r in readings if not r.refused and (r.quiet or turns == 1)]
    return len(_agreeing(enough)) < turns


def _agreeing(accepted: Sequence[BlockReading]) -> list[BlockReading]:
    """Return the readings near the middle one, where they are more than half of all."""
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
    """Join what several processes read of a block; fewer than turns that agree are no figure."""
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
        said = ", ".join(f"{r.cycles:.2f}" for r in accepted)
        return refusal(f"slopes are inconsistent: {said} cycles in {len(accepted)} runs", clock)
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
    """Return the share of samples that were left out for being slow, and how slow they were."""
    slow = [r for r in accepted if r.slow]
    return {
        "dropped": sum(r.slow for r in accepted) / sum(r.accepted for r in accepted),
        "dropped_from": min((r.slow_from for r in slow), default=float("nan")),
        "dropped_to": max((r.slow_to for r in slow), default=float("nan")),
    }


def _speeds(near: Sequence[BlockReading], accepted: Sequence[BlockReading]) -> str:
    """Say what shows two speeds, or nothing: noise is not two speeds."""
    if len(near) < len(accepted):
        return "processes differ: " + ", ".join(f"{r.cycles:.2f}" for r in accepted) + " cycles"
    return next((r.two_speeds for r in accepted if r.two_speeds), "")


def _notes(readings: Sequence[BlockReading]) -> list[str]:
    """Return the caveats of the figure."""
    notes = ["one process alone"] if len(readings) == 1 else []
    notes += ["a misaligned access may cross cache lines"] if readings[0].misaligned else []
    if any(r.shared for r in readings):
        notes.append("memory is shared by pages: lines are used under several addresses")
    return notes


_SPAN = 1.5  # s: turns go on as long, and apart, to see a block at both of its speeds
_FEW = 32  # blocks that have all turns: three may find one of two speeds alone
_SPARE = 3  # further turns for blocks that were disturbed, or whose turns do not agree

TURN_COLUMNS = ["id", "notion", "offset", *FIGURE_COLUMNS, "code", "note"]


def measure_in_turns(
    isa: str, blocks: Sequence[Block], processes: int, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Return a row for each block, with the columns COLUMNS; so many processes have to agree."""
    found = readings_in_turns(isa, blocks, processes, progress)
    native = toolchain.find(isa).native
    common = {"microarch": (hosts.microarch() or "") if native else "", "machine": hosts.machine()}
    rows = [
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
    mark_two_speeds(rows)
    return rows


def mark_two_speeds(rows: Iterable[dict[str, Any]]) -> None:
    """Mark rows of the same code at the same offset whose figures differ: it has two speeds."""
    alike: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["status"] != "refused":
            alike.setdefault((row["notion"], row["offset"], row["code"]), []).append(row)
    for group in alike.values():
        least = min(group, key=lambda row: row["cycles"])
        most = max(group, key=lambda row: row["cycles"])
        known = least["uncertainty"] + most["uncertainty"]
        if most["cycles"] - least["cycles"] <= max(known, _AGREE[0], _AGREE[1] * most["cycles"]):
            continue
        told = f"the same code took {least['cycles']:.2f} and {most['cycles']:.2f} cycles"
        for row in group:
            reason = f"{told} (rows {least['id']} and {most['id']})"
            row["status"], row["reason"] = (
                "bimodal",
                "; ".join(filter(None, (row["reason"], reason))),
            )


def _figures(one: Block, got: Sequence[BlockReading], processes: int) -> dict[str, Any]:
    if one.refused:
        return refusal(one.refused)
    found = result(got, processes)
    notes = [found["note"], one.note if found["status"] != "refused" else ""]
    return {**found, "note": "; ".join(filter(None, notes))}


def readings_in_turns(
    isa: str, blocks: Sequence[Block], processes: int, progress: Progress | None = None
) -> list[list[BlockReading]]:
    """Return the readings of each block by processes, each in an order of its own: a turn."""
    found: list[list[BlockReading]] = [[] for _ in blocks]
    todo = [n for n, block in enumerate(blocks) if not block.refused]
    total = processes * len(todo)
    done = 0
    began = time.monotonic()
    for turn in range(processes + _SPARE):
        early = processes >= TURNS and time.monotonic() < began + _SPAN
        few = processes >= TURNS and len(todo) <= _FEW
        if not toolchain.find(isa).native or (turn >= processes and not early and not few):
            todo = [n for n in todo if wants_more(found[n], processes)]
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


NOTIONS = ("loop", "unrolled")
EVERY = "all"


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
    iterations in a register that the block leaves alone) or "all" (a row each); left out, it is the
    loop for a block that ends in a branch. offset (0 to 63, several of them or "all": a row each)
    replaces the column's: where the first copy starts, mod 64. A loop that ends by a condition of
    its own, or that has exits, runs as it is, from registers and memory that keep it turning
    (harness/README.md says how); path names the stretches that an iteration executes, such as "0-9
    13-20". isa is "x86_64" or "arm64", this host's where left out; code of another one is run by an
    emulator, without timing.

    cycles are those of one copy or one iteration, the slope between two codes, one with twice the
    copies or iterations: what surrounds them is in neither. processes have to agree on it; one
    alone is the quickest, and says nothing of the spread between them. p10 and p90 are of the
    samples; uncertainty (cycles) adds the spread between processes, of which each measures other
    numbers of copies. A row with status "refused" has a reason and no number; "bimodal" says that
    there are two speeds, by more than interruptions and noise explain. dropped is the share of
    samples left out for being slow, dropped_from and dropped_to how many times as long they took.
    note says that an access is misaligned and may cross cache lines, and which comparison a count
    stands for; code is what was repeated, in hex: of a loop, with its branch. progress is called
    with blocks done and all. InputError for a file that is no blocks file and for settings that
    make no sense.
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
    offsets = _offsets(offset)
    if asm is not None or obj is not None:
        rows_of = [
            question.BlockRow(piece.id, piece.code.hex(), piece.offset)
            for piece in pieces
            if not piece.error
        ]
    else:
        rows_of = list(given.rows())
    wanted = [
        block.of_hex(row.id, row.hex, row.offset if at is None else at, isa, one, row.path)
        for row in rows_of
        for at in offsets
        for one in (NOTIONS if notion == EVERY else (notion,))
    ]
    rows = measure_in_turns(isa, wanted, processes, progress)
    return pd.DataFrame(rows, columns=TURN_COLUMNS)


def _offsets(offset: int | str | Iterable[int] | None) -> Sequence[int | None]:
    """Resolve code offsets; None is the one that a row has itself."""
    if offset is None:
        return [None]
    if offset == EVERY:
        return list(question.OFFSETS)
    several = [offset] if isinstance(offset, int | str) else list(offset)
    for one in several:
        if one not in question.OFFSETS:
            raise InputError(f"offset {one} is not in 0..63; give a number of bytes mod 64, or all")
    return [int(one) for one in several]


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

    Subjects are those of predict; microarch, too, and offset. predicted and measured are cycles an
    iteration (of the simulator; of this machine, with its uncertainty), measured in the rows of
    this machine's core alone; where it is not asked for, or no core.toml describes it (microarch is
    empty then), in rows of their own. error_percent is the prediction's error. error says why a
    figure is missing, or what it is worth. clock and machine say what measured. InputError as
    predict and measure_blocks.
    """
    told = predict(
        hex=hex, blocks=blocks, asm=asm, obj=obj, microarch=microarch, offset=offset
    ).rename(columns={"cycles": "predicted"})
    found = measure_blocks(
        blocks, hex=hex, asm=asm, obj=obj, offset=offset, processes=processes, progress=progress
    ).rename(columns={"cycles": "measured"})
    here = hosts.microarch() or ""
    place = ["id", "offset"]
    mine = found.set_index(place)[["measured", "uncertainty", "reason", "clock", "machine"]]
    rows = told.reindex(columns=[c for c in COMPARED_COLUMNS if c in told.columns])
    own = rows["microarch"] == here
    beside = rows[place].join(mine, on=place).where(own)
    rows = rows.join(beside.drop(columns=place))
    if not own.any():
        alone = found.assign(microarch=here, error="", bottleneck="", predicted=float("nan"))
        rows = pd.concat([rows, alone.reindex(columns=[*rows.columns])], ignore_index=True)
    rows["error_percent"] = 100 * (rows["predicted"] / rows["measured"].astype("float64") - 1)
    rows["error"] = [_why(*row) for row in rows[["error", "measured", "reason"]].to_numpy()]
    return rows.reindex(columns=COMPARED_COLUMNS)


def _why(error: object, measured: float, reason: object) -> str:
    """Return the reason for a missing prediction or measurement, or the latter's caveat."""
    told = str(error) if isinstance(error, str) else ""
    if not isinstance(reason, str) or not reason:
        return told
    said = "not measured" if pd.isna(measured) else "measured"
    return "; ".join(filter(None, (told, f"{said}: {reason}")))
