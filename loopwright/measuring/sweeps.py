"""The calls of a measurement: their sizes, and the two iteration counts of a main loop."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.code import loops
from loopwright.code.instructions import Code, Loop
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant
from loopwright.machine.harness import Point

SIZES = (0, 1, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RECORDS = (0, 1, 2, 4, 8, 16, 32, 64)
ALIGNMENTS = ((0, 0), (8, 0), (1, 0), (0, 1))  # destination and source, bytes from a page start
CACHES = ("hot", "cold")
MOST_BYTES = 1 << 20
_PAGE = 4096
_LINE = 64
_APART = _PAGE // 2  # bytes between source and destination, without 4 KiB aliasing
_SHORT = 4096  # least bytes of the smaller of a loop's two calls; the other is three times it


def both_sides(contract: Contract) -> bool:
    """True if a routine has a destination and a source, which have a skew."""
    return contract.inputs.keys() >= {"dst", "src"}


@dataclass(frozen=True)
class Sweep:
    """The calls that are measured of every variant.

    sizes in bytes (records, where the effect is store_fields; None: defaults), alignments as pairs
    of destination and source offsets (None: ALIGNMENTS), skews as (dst - src) mod 4096 (None: half
    a page, but for the alignments), caches "hot" or "cold". Without calls only loops are measured.
    InputError for invalid values.
    """

    sizes: Sequence[int] | None = None
    alignments: Sequence[tuple[int, int]] | None = None
    skews: Sequence[int] | None = None
    caches: Sequence[str] = ("hot",)
    calls: bool = True

    def __post_init__(self) -> None:
        for size in self.sizes or ():
            if not 0 <= size <= MOST_BYTES:
                raise InputError(f"size {size} is not from 0 to {MOST_BYTES}")
        if self.alignments is not None and not self.alignments:
            raise InputError("no alignment given; give pairs of destination and source, as (0, 0)")
        for pair in self.alignments or ():
            if any(not 0 <= a < _PAGE for a in pair):
                raise InputError(f"alignment {pair} is not from 0 to 4095")
        for skew in self.skews or ():
            if not 0 <= skew < _PAGE:
                raise InputError(f"skew {skew} is not from 0 to 4095")
        for cache in self.caches:
            if cache not in CACHES:
                raise InputError(f"cache {cache!r} is not {' or '.join(CACHES)}")
        for skew in self.skews or ():
            for dst, src in self.alignments or ():
                if (dst - src - skew) % _LINE:
                    raise InputError(
                        f"alignment {dst}:{src} and skew {skew} contradict each other: "
                        f"destination minus source is {(dst - src) % _LINE} mod {_LINE}; "
                        "leave the alignments out, or the skew"
                    )

    def allowed(self, contract: Contract) -> list[tuple[int, int, int]]:
        """Return the alignments that a contract allows, of destination and source, with skews.

        InputError if none remains. A requested skew moves the source, whose alignment follows from
        it where none is requested.
        """
        if self.skews and both_sides(contract):
            dsts = [d for d, _ in self.alignments or ALIGNMENTS]
            found = [(d, (d - k) % _LINE, k) for k in self.skews for d in dsts]
            return list(dict.fromkeys(found))
        allowed = contract.allowed(self.alignments or ALIGNMENTS)
        apart = _APART if contract.align <= _APART else 0
        return [(d, s, (d - s - apart) % _PAGE) for d, s in allowed]


@dataclass(frozen=True)
class Goal:
    """A wanted figure: of one point, a call; of two, the slope between them.

    size_bytes is the size of a call, or of the unit of a loop; divisor is the number of units
    between the points.
    """

    quantity: str
    unit: str
    points: tuple[Point, ...]
    size_bytes: int
    divisor: float
    both_sides: bool

    @property
    def cache(self) -> str:
        """The state of the buffers: "hot" or "cold"."""
        return "cold" if self.points[0].cold else "hot"


def goals(variant: Variant, code: Code, contract: Contract, sweep: Sweep) -> tuple[Goal, ...]:
    """Return the points to measure of a variant.

    Loops are measured hot, at the first alignment of each skew. InputError if its contract
    counts iterations and it has no loop.
    """
    choice = loops.choose(code.loops, contract, code.symbols)
    if choice is None and contract.unit == "iteration":
        raise InputError(
            f"{variant.source}: no loop that moves data; a routine without one says "
            'unit = "call" in its contract'
        )
    alignments = sweep.allowed(contract)
    slopes = []
    # The iterations of a loop inside the one over records do not follow from the count of records.
    part = choice is not None and choice.loop.nested and bool(contract.fields)
    if choice is not None and contract.unit == "iteration" and contract.counted and not part:
        loop = choice.loop
        asked = alignments if sweep.skews and both_sides(contract) else alignments[:1]
        first = {skew: (d, s, skew) for d, s, skew in reversed(asked)}
        moved = _moved(contract, loop)
        slopes = [
            _slope(contract, moved, loop.kind == "string", alignment)
            for alignment in reversed(first.values())
        ]
    if not sweep.calls and slopes:
        return tuple(slopes)
    calls = [
        _call(contract, Point(count, *alignment, cold=cache == "cold"))
        for count in _counts(contract, sweep.sizes)
        for alignment in alignments
        for cache in sweep.caches
    ]
    return (*calls, *slopes)


def _moved(contract: Contract, loop: Loop) -> int:
    """Return the bytes of a call's size that one iteration of its loop moves, in whole records."""
    moved = loops.moved_bytes(loop, contract)
    if contract.effect == "store_fields":
        return moved // sum(f.size for f in contract.fields) * contract.dst_record
    return moved


def _counts(contract: Contract, sizes: Sequence[int] | None) -> Sequence[int]:
    if not contract.counted:
        return (1,)
    return sizes or (RECORDS if contract.effect == "store_fields" else SIZES)


def call_bytes(contract: Contract, sizes: Sequence[int] | None) -> list[int]:
    """Return the sizes in bytes of the measured calls for requested sizes."""
    return [count * contract.count_bytes for count in _counts(contract, sizes)]


def _call(contract: Contract, point: Point) -> Goal:
    size = point.count * contract.count_bytes
    return Goal("call", "cycles/call", (point,), size, 1.0, both_sides(contract))


def _slope(contract: Contract, moved: int, string: bool, alignment: tuple[int, int, int]) -> Goal:
    """Return the goal for a loop that moves so many bytes an iteration.

    Both calls are whole numbers of iterations and of lines, so that their tails are equal.
    """
    count_bytes = contract.count_bytes
    step = math.lcm(moved, _LINE * count_bytes) // count_bytes
    short = math.ceil(_SHORT / count_bytes / step) * step
    counts = (short, 3 * short)
    unit_bytes = loops.STRING_BYTES if string else moved
    return Goal(
        "loop",
        f"cycles/{loops.STRING_BYTES} B" if string else "cycles/iteration",
        tuple(Point(count, *alignment) for count in counts),
        unit_bytes,
        (counts[1] - counts[0]) * count_bytes / unit_bytes,
        both_sides(contract),
    )
