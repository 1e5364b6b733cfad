"""What could be done about a loop that its place hurts, and what each costs in bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean

from loopwright.scanning.encodings import Encoded
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.places import LINE
from loopwright.scanning.starts import possible

# What may be done; of two that cost as many bytes the first is taken.
KINDS = ("shorter", "align", "routine", "longer", "pad", "align, pad")
ALIGNMENTS = (16, 32, 64)
_PADS = range(1, 32)  # bytes: more than an alignment to 32 would add at most is none that is small


@dataclass(frozen=True)
class Candidate:
    """A change: at which code offsets the loop may lie after it, and the bytes that it adds.

    kind is "shorter" or "longer" (another encoding of an instruction), "align" (of the loop's first
    byte), "routine" (of the routine's start), "pad" (bytes before the loop) or "align, pad". A
    routine's padding lies outside of it and is never executed.
    """

    kind: str
    places: tuple[int, ...]
    expected: float
    most: int
    words: str
    alignment: int = 0
    pad: int = 0
    encoded: Encoded | None = None


def moves(loop: ScannedLoop, aligned: int) -> Iterator[Candidate]:
    """Yield what moves a loop as it is; aligned is what its routine's start is a multiple of.

    Of a loop that a compiler made it is what one can tell the compiler.
    """
    now = possible(loop, aligned)
    for alignment in ALIGNMENTS:
        if alignment <= _step(loop):
            continue
        bytes_ = [-place % alignment for place in now]
        yield Candidate(
            "align", tuple(range(0, LINE, alignment)), mean(bytes_), max(bytes_),
            f"align {alignment}{_cost(mean(bytes_), max(bytes_))}", alignment,
        )  # fmt: skip
        if loop.function and _step(loop) < aligned < alignment:
            bytes_ = list(range(0, alignment, aligned))
            yield Candidate(
                "routine", tuple(possible(loop, alignment)), mean(bytes_), max(bytes_),
                f"align routine {alignment}{_cost(mean(bytes_), max(bytes_))}", alignment,
            )  # fmt: skip
    if not by_hand(loop):
        return
    if aligned >= ALIGNMENTS[0]:
        for pad in _PADS[_step(loop) - 1 :: _step(loop)]:
            after = tuple(sorted((place + pad) % LINE for place in now))
            yield Candidate("pad", after, pad, pad, f"pad {pad} B", pad=pad)
    bytes_ = [-place % LINE for place in now]
    for pad in range(_step(loop), LINE, _step(loop)):
        cost = _cost(mean(bytes_) + pad, max(bytes_) + pad)
        yield Candidate(
            "align, pad", (pad,), mean(bytes_) + pad, max(bytes_) + pad,
            f"align 64, pad {pad}{cost}", LINE, pad,
        )  # fmt: skip


def encoded(loop: ScannedLoop, aligned: int, one: Encoded) -> Candidate:
    """Return another encoding as a change of a loop that stays where it is."""
    kind = "longer" if one.longer > 0 else "shorter"
    words = f"{kind} encoding, {one.longer:+d} B"
    places = tuple(possible(loop, aligned))
    return Candidate(kind, places, one.longer, one.longer, words, encoded=one)


def by_hand(loop: ScannedLoop) -> bool:
    """Say whether someone may write its instructions: not of a loop that a compiler made."""
    file, _, _ = loop.line.rpartition(":")
    return not file or file.endswith((".S", ".s"))


def _step(loop: ScannedLoop) -> int:
    return 4 if loop.isa == "arm64" else 1


def _cost(expected: float, most: int) -> str:
    return f", +{most} B" if expected == most else f", +{most} B at most"
