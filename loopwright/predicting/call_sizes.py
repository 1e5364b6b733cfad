"""Which calls a prediction is asked about: sizes or a histogram of them, and alignments."""

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright import histogram
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.kernels import Contract
from loopwright.predicting.call_cache import Place
from loopwright.tracing.memory import MOST_BYTES, PAGE

Sizes = Sequence[int] | str
Alignments = Sequence[tuple[int, int]] | str


@dataclass(frozen=True)
class Calls:
    """Calls of every routine asked about.

    weights is the share of a histogram's calls that each size stands for, by size; None where
    sizes were listed. open_from is where a bucket of the histogram begins that has no end.
    """

    sizes: tuple[int, ...]
    alignments: tuple[tuple[int, int], ...]
    weights: dict[int, float] | None = None
    open_from: int | None = None

    @classmethod
    def of(cls, sizes: Sizes, align: Alignments | None) -> "Calls":
        """Return the calls meant; InputError for what is no size, alignment or histogram."""
        pairs = tuple(dict.fromkeys(_alignments(align)))
        listed = _listed(sizes)
        if listed is None:
            found = histogram.read(str(sizes))
            weights = shares(found)
            return cls(tuple(sorted(weights)), pairs, weights, found.open_from)
        for size in listed:
            if not 0 <= size <= MOST_BYTES:
                raise InputError(f"size {size} is not from 0 to {MOST_BYTES}")
        return cls(tuple(dict.fromkeys(listed)), pairs)

    def fits(self, contract: Contract) -> bool:
        """Say whether a routine can be called so: one of fixed size with its bytes, or 1, alone."""
        return contract.counted or not {1, contract.count_bytes}.isdisjoint(self.sizes)

    def places(self, contract: Contract) -> list[Place]:
        """Return the calls of a routine: of fixed size one, and what its contract lets it take.

        A side that the routine has not stands at 0. InputError where no alignment is left.
        """
        sides = ["dst" in contract.inputs, "src" in contract.inputs]
        given = [tuple(a * has for a, has in zip(p, sides, strict=True)) for p in self.alignments]
        allowed = [p for p in dict.fromkeys(given) if not any(a % contract.align for a in p)]
        if not allowed:
            raise InputError(
                f"{contract.symbol}: its addresses are multiples of {contract.align}; give "
                "alignments that are, as 0:0"
            )
        sizes = self.sizes if contract.counted else (1,)
        return [(size, dst, src) for size in sizes for dst, src in allowed]

    def note(self, place: Place) -> str:
        """Say of a size that it stands for all of a bucket without an end."""
        if self.open_from is None or place[0] != self.open_from:
            return ""
        return f"{self.open_from} B stands for all calls of the histogram of that size or more"

    def weight(self, place: Place) -> float | None:
        """Return the share of a histogram's calls that a call stands for."""
        return None if self.weights is None else self.weights.get(place[0])


def shares(found: Histogram) -> dict[int, float]:
    """Return the share of a histogram's calls that sizes stand for: those that its mean is of."""
    out: dict[int, float] = {}
    for point, count in found.points():
        size = int(point)
        out[size] = out.get(size, 0.0) + count / found.total
    return out


def _listed(sizes: Sizes) -> list[int] | None:
    """Return sizes that are listed; None where a file is named."""
    if not isinstance(sizes, str):
        return list(sizes)
    parts = [part.strip() for part in sizes.split(",") if part.strip()]
    if not parts:
        raise InputError(
            f"--sizes {sizes!r} names no size; give bytes as 64,256 or a file with a bpftrace "
            "histogram"
        )
    if not all(part.lstrip("+-").isdecimal() for part in parts):
        return None
    return [int(part) for part in parts]


def _alignments(align: Alignments | None) -> list[tuple[int, int]]:
    """Return pairs of destination and source."""
    if align is None:
        return [(0, 0)]
    pairs = list(align) if not isinstance(align, str) else _pairs(align)
    if not pairs:
        raise InputError("no alignment given; give destination:source, as 0:0,1:0")
    for dst, src in pairs:
        if not (0 <= dst < PAGE and 0 <= src < PAGE):
            raise InputError(f"alignment {dst}:{src} is not from 0 to {PAGE - 1}")
    return pairs


def _pairs(text: str) -> list[tuple[int, int]]:
    parts = [part.split(":") for part in text.split(",") if part.strip()]
    if not all(len(p) == 2 and all(n.strip().isdecimal() for n in p) for p in parts):
        raise InputError(f"--align {text!r} is no list of destination:source; give it as 0:0,1:0")
    return [(int(d), int(s)) for d, s in parts]
