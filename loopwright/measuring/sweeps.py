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
_APART = _PAGE // 2  # so far apart loads and stores do not alias
_SHORT = 4096  # bytes: the smaller of the two calls of a loop, at least; the other is three times


def both_sides(contract: Contract) -> bool:
    """Say whether a routine has a destination and a source, which stand some skew apart."""
    return contract.inputs.keys() >= {"dst", "src"}


@dataclass(frozen=True)
class Sweep:
    """The calls that are measured of every variant.

    sizes in bytes (records, where the effect is store_fields; None: those that suit), alignments
    as pairs of destination and source offsets (None: ALIGNMENTS), skews as (dst - src) mod 4096
    (None: half a page, but for the alignments), caches "hot" or "cold". Where calls is False only
    loops are. InputError for what makes no sense.
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

    def places(self, contract: Contract) -> list[tuple[int, int, int]]:
        """Return alignments of destination and source with skews.

        A side that the routine has not is left alone, and an alignment that its contract does not
        allow is left out: InputError where none is left. A skew asked for moves the source, to an
        alignment that follows from it where none is asked for.
        """
        if self.skews and both_sides(contract):
            dsts = [d for d, _ in self.alignments or ALIGNMENTS]
            found = [(d, (d - k) % _LINE, k) for k in self.skews for d in dsts]
            return list(dict.fromkeys(found))
        has_dst, has_src = ("dst" in contract.inputs), ("src" in contract.inputs)
        pairs = [(d * has_dst, s * has_src) for d, s in self.alignments or ALIGNMENTS]
        allowed = [p for p in dict.fromkeys(pairs) if not any(a % contract.align for a in p)]
        if not allowed:
            raise InputError(
                f"{contract.symbol}: its addresses are multiples of {contract.align}; give "
                "alignments that are, as 0:0"
            )
        apart = _APART if contract.align <= _APART else 0
        return [(d, s, (d - s - apart) % _PAGE) for d, s in allowed]


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

    @property
    def cache(self) -> str:
        """Return the state of the buffers: "hot" or "cold"."""
        return "cold" if self.points[0].cold else "hot"


def goals(variant: Variant, code: Code, contract: Contract, sweep: Sweep) -> tuple[Goal, ...]:
    """Return the points to measure of a variant.

    Loops are measured hot, at the first alignment of each skew. InputError where its contract
    counts iterations and it has no loop.
    """
    choice = loops.choose(code.loops, contract, code.symbols)
    if choice is None and contract.unit == "iteration":
        raise InputError(
            f"{variant.source}: no loop that moves data; a routine without one says "
            'unit = "call" in its contract'
        )
    places = sweep.places(contract)
    slopes = []
    # A loop inside of the one over records takes turns that no count of records tells.
    part = choice is not None and choice.loop.nested and bool(contract.fields)
    if choice is not None and contract.unit == "iteration" and contract.counted and not part:
        loop = choice.loop
        asked = places if sweep.skews and both_sides(contract) else places[:1]
        first = {skew: (d, s, skew) for d, s, skew in reversed(asked)}
        moved = _moved(contract, loop)
        slopes = [
            _slope(contract, moved, loop.kind == "string", place)
            for place in reversed(first.values())
        ]
    if not sweep.calls and slopes:
        return tuple(slopes)
    calls = [
        _call(contract, Point(count, *place, cold=cache == "cold"))
        for count in _counts(contract, sweep.sizes)
        for place in places
        for cache in sweep.caches
    ]
    return (*calls, *slopes)


def _moved(contract: Contract, loop: Loop) -> int:
    """Return the bytes of a call's size that one iteration of its loop moves: records whole."""
    moved = loops.moved_bytes(loop, contract)
    if contract.effect == "store_fields":
        return moved // sum(f.size for f in contract.fields) * contract.dst_record
    return moved


def _counts(contract: Contract, sizes: Sequence[int] | None) -> Sequence[int]:
    if not contract.counted:
        return (1,)
    return sizes or (RECORDS if contract.effect == "store_fields" else SIZES)


def call_bytes(contract: Contract, sizes: Sequence[int] | None) -> list[int]:
    """Return the size in bytes of each call that is measured where these sizes are wanted."""
    return [count * contract.count_bytes for count in _counts(contract, sizes)]


def _call(contract: Contract, point: Point) -> Goal:
    size = point.count * contract.count_bytes
    return Goal("call", "cycles/call", (point,), size, 1.0, both_sides(contract))


def _slope(contract: Contract, moved: int, string: bool, place: tuple[int, int, int]) -> Goal:
    """Return the goal for a loop that moves so many bytes an iteration.

    Both calls are whole numbers of iterations and of lines, so that their tails are alike.
    """
    one = contract.count_bytes
    step = math.lcm(moved, _LINE * one) // one
    short = math.ceil(_SHORT / one / step) * step
    counts = (short, 3 * short)
    unit_bytes = loops.STRING_BYTES if string else moved
    return Goal(
        "loop",
        f"cycles/{loops.STRING_BYTES} B" if string else "cycles/iteration",
        tuple(Point(count, *place) for count in counts),
        unit_bytes,
        (counts[1] - counts[0]) * one / unit_bytes,
        both_sides(contract),
    )
