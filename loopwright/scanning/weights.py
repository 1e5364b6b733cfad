"""Weigh loops by a profile: which share of all cycles each takes."""

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright.errors import InputError
from loopwright.scanning import samples
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.images import Image
from loopwright.scanning.samples import Sample
from loopwright.scanning.source_lines import SourceLines

_KERNEL = ("[kernel", "vmlinux", "[guest.kernel", "[unknown]")


@dataclass(frozen=True)
class Weights:
    """Shares of all cycles that loops take, in percent.

    whole holds the loops whose share is that of their routine, since the profile does not say where
    in it: at most so much.
    """

    shares: list[float]
    whole: frozenset[int]

    def of(self, number: int) -> str:
        """Say what a loop's share is of: the "loop", its "routine", or nothing where it is 0."""
        if number in self.whole:
            return "routine"
        return "loop" if self.shares[number] else ""


def read(path: Path, image: Image, loops: Sequence[ScannedLoop]) -> Weights:
    """Return what a profile says of loops; InputError where it says nothing of this file."""
    given = samples.read(path)
    total = sum(sample.weight for sample in given)
    known = [sample for sample in given if _of(sample, image)]
    starts = {s.name: s.address for part in image.sections for s in part.symbols}
    at: dict[int, float] = defaultdict(float)
    lines: dict[tuple[str, str], float] = defaultdict(float)
    routines: dict[str, float] = defaultdict(float)
    for sample in known:
        if sample.routine in starts and sample.into is not None:
            at[starts[sample.routine] + sample.into] += sample.weight
        elif sample.routine in starts and sample.line:
            lines[sample.routine, sample.line] += sample.weight
        elif sample.routine in starts:
            routines[sample.routine] += sample.weight
        elif sample.address is not None and _inside(image, sample.address):
            at[sample.address] += sample.weight
    if not (at or lines or routines) or not total:
        raise InputError(
            f"none of the samples of {path} lies in {image.path}: give one of the same build, or "
            "its names with --symbols"
        )
    shares, whole = _spread(loops, at, routines)
    _by_lines(image, loops, lines, shares, whole)
    return Weights([100 * share / total for share in shares], frozenset(whole))


def _of(sample: Sample, image: Image) -> bool:
    """Say whether a sample may lie in this file, by what it says of where it lies."""
    if not sample.dso:
        return True
    kernel = image.content[:4] != b"\x7fELF" or image.path.name.startswith(("vmlin", "Image"))
    if sample.dso.startswith(_KERNEL):
        return kernel
    return Path(sample.dso).name.strip("[]") in (image.path.name, image.path.name.partition(".")[0])


def _inside(image: Image, address: int) -> bool:
    return any(section.address <= address < section.end for section in image.sections)


def _spread(
    loops: Sequence[ScannedLoop], at: dict[int, float], routines: dict[str, float]
) -> tuple[list[float], set[int]]:
    places = sorted(at)
    sums = [0.0]
    for place in places:
        sums.append(sums[-1] + at[place])

    def within(start: int, end: int) -> float:
        return sums[bisect.bisect_left(places, end)] - sums[bisect.bisect_left(places, start)]

    shares, whole = [], set()
    for number, loop in enumerate(loops):
        parts = ((loop.address + start, loop.address + end) for start, end in loop.path)
        share = sum(within(start, end) for start, end in parts)
        if extra := routines.get(loop.function, 0.0):
            whole.add(number)
        shares.append(share + extra)
    return shares, whole


def _by_lines(
    image: Image,
    loops: Sequence[ScannedLoop],
    lines: dict[tuple[str, str], float],
    shares: list[float],
    whole: set[int],
) -> None:
    """Give loops the shares of the source lines that they are of, or of all of their routine."""
    named = {routine for routine, _ in lines}
    source = SourceLines(image) if named else None
    for number, loop in enumerate(loops):
        if source is None or loop.function not in named:
            continue
        of_routine = {line: w for (r, line), w in lines.items() if r == loop.function}
        if own := {_base(line) for line in source.all_of(loop)}:
            shares[number] += sum(w for line, w in of_routine.items() if _base(line) in own)
        else:
            shares[number] += sum(of_routine.values())
            whole.add(number)


def _base(line: str) -> str:
    return line.rpartition("/")[2]
