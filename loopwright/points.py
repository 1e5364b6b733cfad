"""Which calls are measured: the sizes of calls, and the two trip counts of a main loop."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loopwright import loops
from loopwright.code import Code
from loopwright.errors import InputError
from loopwright.jobs import Point
from loopwright.kernels import Contract, Variant

SIZES = (0, 1, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RECORDS = (0, 1, 2, 4, 8, 16, 32, 64)
MOST_BYTES = 1 << 20
_SHORT = 4096  # bytes: the smaller of the two calls of a loop, at least; the other is three times
_STRING_UNIT = 64  # bytes that the figure of a string instruction is for


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
    loop = loops.main_loop(code.loops, contract.effect)
    if loop is None and contract.unit == "iteration":
        raise InputError(
            f"{variant.source}: no loop that moves data; a routine without one says "
            'unit = "call" in its contract'
        )
    pairs = _alignments(contract, alignments)
    wanted = [_call(contract, count, pair) for count in _counts(contract, sizes) for pair in pairs]
    if loop is not None and contract.unit == "iteration" and "count" in contract.inputs:
        reads = contract.effect == "checksum"
        moved = loop.read_bytes if reads else loop.written_bytes
        wanted += [_slope(contract, moved, loop.kind == "string", pair) for pair in pairs]
    return tuple(wanted)


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
    stored = sum(f.size for f in contract.fields) if contract.fields else 1
    step = math.lcm(moved, stored, 64 * stored) // stored
    short = math.ceil(_SHORT / max(_bytes(contract, 1), 1) / step) * step
    counts = (short, 3 * short)
    work = (counts[1] - counts[0]) * stored
    unit_bytes = _STRING_UNIT if string else moved
    return Goal(
        "loop",
        f"cycles/{_STRING_UNIT} B" if string else "cycles/iteration",
        tuple(Point(count, *pair) for count in counts),
        unit_bytes,
        work / unit_bytes,
        _both(contract),
    )
