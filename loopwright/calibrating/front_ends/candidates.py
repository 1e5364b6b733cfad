"""Front ends that the simulator has, as parameters with the values to try.

Values stand in the order of preference where kernels do not tell them apart: what binds nothing
comes first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from loopwright.calibrating.delivery.front_end import AFTER
from loopwright.calibrating.delivery.straight import UOPS

Value = str | int | bool | tuple[tuple[int, int, int], ...]
Values = Mapping[str, Value]

_FALSE_FIRST = (False, True)
_TRUE_FIRST = (True, False)
_BYTES = (64, 32, 16, 8)  # of aligned blocks of code


def _down(most: int, least: int = 1) -> Sequence[int]:
    return range(most, least - 1, -1)


@dataclass(frozen=True)
class Structure:
    """A kind of front end: what makes it one, what is free, what is to be tried together.

    starts are where a search begins, as far as these are not the preferred values. beside are
    values that a search does not try, as kernels hardly tell them from one of those that it does.
    guises are what may deliver small loops in place of all else, so that these hide it: parameters
    with values to try in every combination. The first stays as it is.
    """

    name: str
    fixed: Values
    free: Mapping[str, Sequence[Value]]
    together: tuple[tuple[str, str], ...] = ()
    starts: Sequence[Values] = ({},)
    beside: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    guises: Mapping[str, Sequence[Value]] = field(default_factory=dict)

    def firsts(self) -> Iterator[dict[str, Value]]:
        """Yield the values that searches begin with."""
        preferred = {name: values[0] for name, values in self.free.items()}
        yield from ({**self.fixed, **preferred, **start} for start in self.starts)

    def disguised(self, values: Values) -> Iterator[dict[str, Value]]:
        """Yield these values with each of the guises, nothing where there are none."""
        for some in product(*self.guises.values()) if self.guises else ():
            yield {**values, **dict(zip(self.guises, some, strict=True))}

    def partners(self, name: str) -> Iterator[str]:
        """Yield the parameters that are tried together with one."""
        for one, two in self.together:
            if name in (one, two) and one in self.free and two in self.free:
                yield two if name == one else one


_DECODE: Mapping[str, Sequence[Value]] = {
    "decode.width": _down(12),
    "decode.branch_ends": _FALSE_FIRST,
}
PREDECODED = Structure(
    "a predecoder, one complex decoder and simple ones",
    {"front_end.fetch": "predecoded", "predecode.queue": 64, "uop_cache.rule": "none"},
    {
        "predecode.block_bytes": _BYTES,
        "predecode.width": _down(16),
        "predecode.cross_cycles": (0, 1, 2, 3),
        "predecode.lcp_cycles": range(17),
        **_DECODE,
        "decode.fusible_last": _TRUE_FIRST,
        **{f"{AFTER}.{uops}": ("any", *_down(7, 0)) for uops in UOPS},
    },
    (("predecode.block_bytes", "predecode.width"), ("predecode.width", "decode.width")),
)
BLOCKS = Structure(
    "fetch of aligned blocks and equal decoders",
    {"front_end.fetch": "blocks", "fetch.queue": 64, "uop_cache.rule": "none"},
    {"fetch.block_bytes": _BYTES, **_DECODE},
)
COPIES = Structure(
    "an op cache that holds all copies",
    {
        "front_end.fetch": "blocks",
        "uop_cache.rule": "entry",
        "uop_cache.unrolled": True,
        "uop_cache.width": 16,
    },
    {"uop_cache.region_bytes": (64, 32, 16), "uop_cache.line_uops": _down(16)},
)
STRAIGHT = (BLOCKS, COPIES, PREDECODED)

_READ: Mapping[str, Sequence[Value]] = {
    "uop_cache.width": _down(16),
    "uop_cache.reads": _down(4),
    "uop_cache.joins": ("all", "none"),
    "uop_cache.wide_ends": _FALSE_FIRST,
    "uop_cache.branch_by_end": _FALSE_FIRST,
    "uop_cache.one_region": _FALSE_FIRST,
    "uop_cache.cut_branch_apart": _FALSE_FIRST,
}
_BUFFER: Mapping[str, Sequence[Value]] = {
    "loop_buffer.enabled": _FALSE_FIRST,
    "loop_buffer.uops": (*range(16, 73), 80, 96, 112, 128, 144),
    # Copies of a loop that it holds, by uops of the loop: one, Haswell's (Abel and Reineke, ICS
    # 2022), so many that where it starts over does not show.
    "loop_buffer.unroll": (
        (),
        ((1, 4, 8), (5, 5, 6), (6, 6, 5), (7, 8, 4), (9, 12, 3), (13, 28, 2)),
        ((1, 144, 64),),
    ),
}
_GUISES: Mapping[str, Sequence[Value]] = {
    "loop_buffer.enabled": (True,),
    "loop_buffer.uops": (28, 40, 56, 72),
    "loop_buffer.unroll": _BUFFER["loop_buffer.unroll"],
}
# Loops of one branch tell nothing of rules by which one behind another is followed.
_BESIDE: Mapping[str, Sequence[Value]] = {"uop_cache.joins": ("others", "pairs")}
_TAKEN, _BUBBLE = "taken_branch.cycles", "fetch.taken_bubble"
_TOGETHER = (
    ("uop_cache.width", "uop_cache.reads"),
    ("uop_cache.width", "uop_cache.joins"),
    ("uop_cache.reads", "uop_cache.joins"),
    ("uop_cache.branch_by_end", "uop_cache.cut_branch_apart"),
    ("loop_buffer.enabled", "loop_buffer.uops"),
    ("loop_buffer.uops", "loop_buffer.unroll"),
)


def loops(straight: Values, taken: int) -> Iterator[Structure]:
    """Yield what may deliver loops where straight code comes by a front end.

    taken are cycles of a loop of one branch, which fetch may lose of it.
    """
    entry: dict[str, Sequence[Value]] = {"uop_cache.region_bytes": (64, 32, 16)}
    branches: dict[str, Sequence[Value]] = {"macro_fusion.boundary_bytes": (0, 64, 32, 16)}
    entry |= {"uop_cache.line_uops": _down(16, 4), **_READ}
    if straight["uop_cache.rule"] == "entry":
        free = {n: v for n, v in {**entry, **branches}.items() if n not in COPIES.free}
        name = "the op cache that holds all copies"
        yield Structure(name, straight, free, _TOGETHER, beside=_BESIDE)
        return
    yield _fetched(straight, branches, taken)
    fixed = {**straight, "uop_cache.rule": "entry"}
    together: tuple[tuple[str, str], ...] = (
        *_TOGETHER,
        ("uop_cache.region_bytes", "uop_cache.line_uops"),
    )
    entries = {**entry, **_BUFFER, **branches}
    name = "an op cache of entries"
    yield Structure(name, fixed, entries, together, beside=_BESIDE, guises=_GUISES)
    region: dict[str, Sequence[Value]] = {
        "uop_cache.region_bytes": (32, 64, 16),
        "uop_cache.lines": _down(8),
        "uop_cache.line_uops": (6, 8, 7, 5, 4, 3, 9, 10, 12),
        **_READ,
        "uop_cache.pairs": _FALSE_FIRST,
        "uop_cache.branch_erratum": _FALSE_FIRST,
        **_BUFFER,
        **branches,
    }
    together = (
        ("uop_cache.region_bytes", "uop_cache.lines"),
        ("uop_cache.lines", "uop_cache.line_uops"),
        ("uop_cache.pairs", "uop_cache.branch_erratum"),
        *_TOGETHER,
    )
    fixed = {**straight, "uop_cache.rule": "region"}
    starts: list[Values] = [{"uop_cache.region_bytes": size} for size in (32, 64)]
    cut = {"uop_cache.branch_by_end": True, "uop_cache.cut_branch_apart": True}
    starts.append({"uop_cache.region_bytes": 64, **cut})
    name = "an op cache of regions"
    yield Structure(name, fixed, region, together, starts, _BESIDE, _GUISES)


def _fetched(straight: Values, branches: Mapping[str, Sequence[Value]], taken: int) -> Structure:
    """Return what delivers loops as it does straight code, in which no branch is taken."""
    free = dict(branches)
    starts: list[Values] = [{}]
    if straight["front_end.fetch"] == "blocks":
        free[_BUBBLE] = (0, 1, 2, 3)
        if straight["fetch.block_bytes"] == _BYTES[0]:
            # Where dispatch alone binds straight code, blocks may be as small as it is wide.
            free["fetch.block_bytes"] = _BYTES
            starts = [{"fetch.block_bytes": size} for size in _BYTES]
        if taken > 1:
            free[_TAKEN] = (taken, 1)
    fixed = {name: value for name, value in straight.items() if name not in free}
    return Structure("no op cache", fixed, free, ((_BUBBLE, _TAKEN),), starts)
