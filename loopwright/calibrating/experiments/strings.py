"""Repeated string instructions by their bytes and by where both sides lie.

Asked: what one takes by count and alignment. Kernel: an iteration of a loop that sets up the
operands and repeats once; the destination lies half a page from the source, but for the offsets, so
that the low 12 bits of addresses do not meet early. Test: sizes around powers of two, where fast
paths end. Answer: the cycles of an iteration.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.machines.machine import Run

SIZES = (
    8, 16, 32, 56, 64, 72, 120, 128, 136, 192, 248, 256, 264, 384, 504, 512, 520, 768, 1024, 1536,
    2048, 3072, 4096,
)  # fmt: skip
COPIED = ((0, 0), (0, 1), (0, 8), (0, 32), (1, 0), (8, 0), (1, 1))  # offsets of both sides
FILLED = ((0, 0), (0, 1), (0, 8), (0, 32))
_READS = "movs"
_SOURCE, _DESTINATION = 0, 0x900  # bytes behind lines, which make it half a page
_PLACES = (0x20E00E00, 0x20D00D00)  # what the two registers hold, for the simulator


@dataclass(frozen=True)
class Repeated:
    """A string instruction of so many bytes, and how far both sides lie behind a line."""

    name: str
    size: int
    source: int
    destination: int


@dataclass(frozen=True)
class Timed:
    """What one takes."""

    what: Repeated
    figure: Figure


def every(kit: Kit) -> Iterator[Repeated]:
    """Yield all that are asked for; none where the ISA has no such instruction."""
    for name in kit.REPEATED:
        for source, destination in COPIED if name.startswith(_READS) else FILLED:
            for size in SIZES:
                yield Repeated(name, size, source, destination)


def measure(laboratory: Laboratory, asked: Sequence[Repeated]) -> list[Timed]:
    """Return what each takes."""
    kit = laboratory.kit
    figures = laboratory.turns([code(kit, one) for one in asked], [_run(kit, o) for o in asked])
    return [Timed(one, figure) for one, figure in zip(asked, figures, strict=True)]


def code(kit: Kit, one: Repeated) -> bytes:
    """Return the code of an iteration."""
    count = one.size // kit.REPEATED[one.name]
    return kit.repeated(one.name, count, _SOURCE + one.source, _DESTINATION + one.destination)


def _run(kit: Kit, one: Repeated) -> Run:
    source, destination = _PLACES
    return Run(
        repeats=one.size // kit.REPEATED[one.name],
        load=source + _SOURCE + one.source,
        store=destination + _DESTINATION + one.destination,
    )
