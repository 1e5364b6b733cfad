"""Which boundary a loop crosses where it lies, so that it runs slower than it could.

The simulator says how slow the loop is at each of the 64 places of a line. Of those at which it
loses half as much as here, or more, the boundary is the smallest of 16, 32 and 64 bytes after which
they repeat: what does not repeat after 16 bytes cannot be due to boundaries of 16 bytes. A place of
the loop is a place of that boundary in the loop, too. What the places that hurt have in common is
crossed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from loopwright.code.instructions import Instruction, decode
from loopwright.scanning.costs import INDIFFERENT
from loopwright.scanning.found import ScannedLoop

SIZES = (16, 32, 64)
_AS_MUCH = 0.5  # of what is lost here, from which on another place counts as one that hurts

# What a branch behind it may be one uop with: boundaries inside of the pair are its own.
_FUSED = ("cmp", "test", "add", "sub", "and", "inc", "dec")


@dataclass(frozen=True)
class Boundary:
    """A boundary of so many bytes, and what of the loop crosses it.

    crossed is "loop" (wherever in it before its last branch), "branch" (the last one, with what
    fuses with it, crosses it or ends at it), "start" (the loop begins at it), an instruction as
    "movq+0x12" (how far behind the first byte), a stretch of several as "+0x12..+0x20", or ""
    where no such boundary lies in the loop: then it is its place between two of them. at is where
    that boundary lies, in bytes from the loop's first one; None where none does.
    """

    size: int
    crossed: str
    at: int | None = field(default=None, compare=False)


def boundary(loop: ScannedLoop, cycles: Sequence[float] | np.ndarray) -> Boundary | None:
    """Return the boundary that hurts a loop, given its cycles at each place; None where none does.

    One does where the loop takes 1.05 times the cycles of its best place or more.
    """
    row = np.asarray(cycles, dtype=float)
    here = row[loop.offset]
    if np.isnan(here) or here < INDIFFERENT * (best := np.nanmin(row)):
        return None
    slow = row >= best + _AS_MUCH * (here - best)
    known = ~np.isnan(row)
    size = next(s for s in SIZES if _repeats(slow, known, s))
    # A boundary before byte x of the loop: bytes from its first one, mod the size.
    hurts = {-at % size for at in range(64) if slow[at]}
    harmless = {-at % size for at in range(64) if known[at]} - hurts
    return Boundary(size, *_crossed(loop, size, hurts, harmless))


def _repeats(slow: np.ndarray, known: np.ndarray, size: int) -> bool:
    folds = np.where(known, slow, False).reshape(-1, size)
    return bool((folds == folds[0]).all())


def _crossed(
    loop: ScannedLoop, size: int, hurts: set[int], harmless: set[int]
) -> tuple[str, int | None]:
    code = list(_instructions(loop))
    inside = {x % size for i in code for x in range(i.address, i.end) if x}
    here = [x for x in range(-loop.offset % size, loop.length + 1, size) if _executed(loop, x)]
    group = _branch(code)
    before = {x for x in inside if x < group.start}
    if loop.length <= size and before and not harmless & before and before & set(here):
        return "loop", min(before & set(here))
    run = _run(hurts, -loop.offset % size, size)
    for x in here:
        if x in group and run <= {at % size for at in group}:
            return "branch", x
    for x in here:
        for i in code:
            if i.address < x < i.end and run <= {at % size for at in range(i.address, i.end + 1)}:
                return f"{i.mnemonic}+{i.address:#x}", x
    if here == [0]:
        return "start", 0
    return _stretch(here, run, loop.length, size)


def _executed(loop: ScannedLoop, at: int) -> bool:
    """Say whether a place of a loop lies in or at the end of what an iteration executes."""
    return any(start <= at <= end for start, end in loop.path)


def _instructions(loop: ScannedLoop) -> Iterator[Instruction]:
    """Yield the instructions of the path, addresses counted from the loop's first byte."""
    code = loop.code
    for start, end in loop.path:
        yield from decode(loop.isa, code[start:end], start)


def _branch(code: Sequence[Instruction]) -> range:
    """Return where a boundary lies in the last branch, or right behind it."""
    *_, before, last = [None, *code]
    assert last is not None
    fuses = before is not None and before.end == last.address and last.flow.value == "branch"
    if fuses and before is not None and before.mnemonic.startswith(_FUSED):
        return range(before.address + 1, last.end + 1)
    return range(last.address + 1, last.end + 1)


def _run(hurts: set[int], at: int, size: int) -> set[int]:
    """Return the places next to each other, around one of them, that hurt."""
    run = {at}
    for step in (1, -1):
        near = (at + step) % size
        while near in hurts and near not in run:
            run.add(near)
            near = (near + step) % size
    return run


def _stretch(here: Sequence[int], run: set[int], length: int, size: int) -> tuple[str, int | None]:
    """Return the bytes around a boundary in the loop, between which it may lie and hurt as much.

    Behind them is where it lies.
    """
    for x in here:
        if 0 < x < length:
            low = high = x
            while low - 1 > 0 and (low - 1) % size in run and x - low < size:
                low -= 1
            while high + 1 < length and (high + 1) % size in run and high - x < size:
                high += 1
            return f"+{low:#x}..+{high:#x}" if low < high else f"+{x:#x}", x
    return "", None
