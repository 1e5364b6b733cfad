"""Which calls are measured: the sizes of calls, and the two trip counts of a main loop."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from loopwright import loops
from loopwright.code import Code, Loop
from loopwright.errors import InputError
from loopwright.jobs import Point
from loopwright.kernels import Contract, Variant

SIZES = (0, 1, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RECORDS = (0, 1, 2, 4, 8, 16, 32, 64)
MOST_BYTES = 1 << 20
_SHORT = 4096  # bytes: the smaller of the two calls of a loop, at least; the other is three times


@dataclass(frozen=True)
class Placement:
    """Where code stands: its text shift bytes behind a 64-byte boundary, its loop at offset."""

    shift: int
    offset: int

    @classmethod
    def of(cls, code: Code, contract: Contract, offset: int | None) -> Self:
        """Return the placement that brings the main loop, or else the entry, to an offset."""
        loop = loops.main_loop(code.loops, contract)
        start = code.entry if loop is None or contract.unit == "call" else loop.start
        if offset is None:
            return cls(0, start % 64)
        if not 0 <= offset < 64:
            raise InputError(f"offset {offset} is not from 0 to 63")
        if code.isa == "arm64" and offset % 4:
            raise InputError(f"offset {offset}: arm64 code stands at multiples of 4")
        return cls((offset - start) % 64, offset)


@dataclass(frozen=True)
class Goal:
    """A figure that is wanted: from one point a call, from two the slope between them.

    size_bytes is what a call, or the unit of a loop, moves; divisor is how many units lie between
    the points.
    """

    quantity: str
    unit: str
    points: tuple[Point, ...]
    size_bytes: int
    divisor: float
    both_sides: bool


def goals(
    variant: Variant,
    code: Code,
    contract: Contract,
    sizes: Sequence[int] | None,
    alignments: Sequence[tuple[int, int]],
) -> tuple[Goal, ...]:
    """Return what is to be measured of a variant.

    InputError where its contract counts iterations and it has no loop.
    """
    loop = loops.main_loop(code.loops, contract)
    if loop is None and contract.unit == "iteration":
        raise InputError(
            f"{variant.source}: no loop that moves data; a routine without one says "
            'unit = "call" in its contract'
        )
    pairs = _alignments(contract, alignments)
    wanted = [_call(contract, count, pair) for count in _counts(contract, sizes) for pair in pairs]
    if loop is not None and contract.unit == "iteration" and "count" in contract.inputs:
        wanted.append(_slope(contract, _moved(contract, loop), loop.kind == "string", pairs[0]))
    return tuple(wanted)


def _moved(contract: Contract, loop: Loop) -> int:
    """Return the bytes of a call's size that one iteration of its loop moves: records whole."""
    moved = loops.moved_bytes(loop, contract)
    if contract.effect == "store_fields":
        return moved // sum(f.size for f in contract.fields) * contract.dst_record
    return moved


def _alignments(contract: Contract, alignments: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs of alignments without those of a side that the routine has not."""
    kept = [(d if "dst" in contract.inputs else 0, s if "src" in contract.inputs else 0)
            for d, s in alignments]  # fmt: skip
    return list(dict.fromkeys(kept))


def _counts(contract: Contract, sizes: Sequence[int] | None) -> Sequence[int]:
    if "count" not in contract.inputs:
        return (1,)
    return sizes or (RECORDS if contract.effect == "store_fields" else SIZES)


def _bytes(contract: Contract, count: int) -> int:
    """Return the size of a call: bytes at the destination, or at the source of a checksum."""
    return count * contract.dst_record if contract.effect == "store_fields" else count


def _call(contract: Contract, count: int, pair: tuple[int, int]) -> Goal:
    point = Point(count, *pair)
    size = _bytes(contract, count)
    return Goal("call", "cycles/call", (point,), size, 1.0, _both(contract))


def _both(contract: Contract) -> bool:
    return contract.inputs.keys() >= {"dst", "src"}


def _slope(contract: Contract, moved: int, string: bool, pair: tuple[int, int]) -> Goal:
    """Return the goal for a loop that moves so many bytes an iteration.

    Both calls are whole numbers of iterations and of lines, so that their tails are alike.
    """
    one = _bytes(contract, 1)
    step = math.lcm(moved, 64 * one) // one
    short = math.ceil(_SHORT / one / step) * step
    counts = (short, 3 * short)
    unit_bytes = loops.STRING_BYTES if string else moved
    return Goal(
        "loop",
        f"cycles/{loops.STRING_BYTES} B" if string else "cycles/iteration",
        tuple(Point(count, *pair) for count in counts),
        unit_bytes,
        (counts[1] - counts[0]) * one / unit_bytes,
        _both(contract),
    )
