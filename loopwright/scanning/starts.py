"""Where a loop may lie when its file is linked again: what its routine's start is aligned to."""

from collections.abc import Collection, Mapping

from loopwright.code.elf import Section
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.images import Image
from loopwright.scanning.places import LINE

_MOST = 0.9  # of a section's routines that start aligned: others were put where they are by hand
_STEP = {"x86_64": 1, "arm64": 4}  # bytes: where an instruction may begin

# What routines' starts are multiples of, by archive member and section.
Alignments = Mapping[tuple[str, str], int]


def of_image(image: Image) -> Alignments:
    """Return for each section of a file what its routines' starts are aligned to, 1 to 64.

    A section of an object lies anywhere that its own alignment allows.
    """
    out = {}
    for section in image.sections:
        starts = {routine.address for routine in section.routines}
        out[section.file, section.name] = min(common(starts), linked(section))
    return out


def common(starts: Collection[int]) -> int:
    """Return the largest power of two, up to 64, that nine in ten addresses are multiples of."""
    aligned = 1
    while starts and aligned < LINE and _share(starts, 2 * aligned) >= _MOST:
        aligned *= 2
    return aligned


def linked(section: Section) -> int:
    """Return what a linker aligns a section of an object to, 1 to 64; 64 where it lies fixed.

    A damaged file may hold an alignment that is no power of two.
    """
    return min(section.alignment & -section.alignment, LINE) or LINE


def _share(addresses: Collection[int], alignment: int) -> float:
    return sum(address % alignment == 0 for address in addresses) / len(addresses)


def alignment(loop: ScannedLoop, known: Alignments) -> int:
    """Return what the start of a loop's routine is aligned to; an instruction's where unknown."""
    least = _STEP[loop.isa]
    aligned = max(known.get((loop.file, loop.section), least), least)
    start = loop.address - loop.into
    return aligned if loop.function and start % aligned == 0 else least


def possible(loop: ScannedLoop, aligned: int) -> list[int]:
    """Return the code offsets at which a loop may lie, its routine's start being aligned."""
    return shifted(loop.into, aligned)


def shifted(into: int, step: int) -> list[int]:
    """Return the code offsets of what begins so many bytes behind any multiple of a step."""
    return sorted({(into + start) % LINE for start in range(0, LINE, step)})
