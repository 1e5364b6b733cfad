"""Measure blocks of code on this host, each in a sealed process of its own.

The protocol, what seals the process and what is refused are described in harness/README.md.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from loopwright import toolchain
from loopwright.errors import InputError, unknown
from loopwright.measuring.blocks import block, slopes, turns
from loopwright.measuring.rounds import Progress
from loopwright.predicting import subjects
from loopwright.predicting.question import Question

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
    processes: int = slopes.TURNS,
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
            subjects.BlockRow(piece.id, piece.code.hex(), piece.offset)
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
    rows = turns.measure(isa, wanted, processes, progress)
    return pd.DataFrame(rows, columns=turns.COLUMNS)


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
