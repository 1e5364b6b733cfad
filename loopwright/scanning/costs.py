"""Costs of loops at every code offset, the boundaries they cross, and their possible offsets."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan, nan

from loopwright.code.binding import Outline, lacking, outlines
from loopwright.code.elf import Section
from loopwright.code.instructions import Flow, Instruction, decode
from loopwright.code.loops import LINE as LINE
from loopwright.microarchs import Microarch
from loopwright.predicting.pipeline import Pipeline
from loopwright.scanning.binary_loops import ScannedLoop
from loopwright.scanning.images import Image

# The stretches that an iteration executes, in order, as (start, end) in the loop's code.
Stretches = tuple[tuple[int, int], ...]

# The cycles an iteration of a loop at each code offset, NaN where it cannot be placed.
Row = Sequence[float]


def cycles_by_offset(
    loops: Sequence[tuple[bytes, Stretches]], core: Microarch
) -> tuple[list[Row], dict[int, str]]:
    """Return the cycles an iteration of each loop (code and path) at each code offset.

    One row a loop, one figure a code offset: NaN if no code can be placed, or if the
    simulator has no answer; the dict has the reasons by the loop's number. InputError if the
    core has no figures.
    """
    cycles, errors = Pipeline().at_offsets([(code, list(path)) for code, path in loops], core)
    figures = memoryview(cycles).cast("d")
    return [figures[at : at + LINE] for at in range(0, len(figures), LINE)], errors


HURT = 1.3  # least ratio of cycles to those at the best offset of a loop that is hurt
INDIFFERENT = 1.05  # ratio of worst to best cycles below which the offset does not matter

_BATCH_LOOPS = 2048  # loops between two reports of progress
_BATCH_BYTES = 1 << 25  # bytes of one batch: loops may have parts far apart

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CoreCosts:
    """Costs of loops on one core: a row of the table each, or the reason for none by number."""

    core: Microarch
    table: Sequence[Row]
    errors: dict[int, str]
    offsets: Sequence[int] = field(repr=False)

    @cached_property
    def cycles(self) -> list[float]:
        """The cycles an iteration of each loop at its own offset."""
        return [row[at] for row, at in zip(self.table, self.offsets, strict=True)]

    @cached_property
    def best(self) -> list[float]:
        """The cycles an iteration of each loop at its best offset."""
        return [min(finite(row), default=nan) for row in self.table]

    @cached_property
    def worst(self) -> list[float]:
        """The cycles an iteration of each loop at its worst offset."""
        return [max(finite(row), default=nan) for row in self.table]

    @cached_property
    def hurt(self) -> list[bool]:
        """For each loop, True if its offset hurts it."""
        return _at_least_times(self.cycles, self.best, HURT)

    @cached_property
    def depends(self) -> list[bool]:
        """For each loop, True if its cycles depend on its offset."""
        return _at_least_times(self.worst, self.best, INDIFFERENT)


def cost(
    loops: Sequence[ScannedLoop], cores: Sequence[Microarch], progress: Progress | None = None
) -> list[CoreCosts]:
    """Return the cycles of loops on each core at every code offset.

    A loop has no figures on a core that lacks a feature of it, or does not know one of its
    instructions. progress is called with the number of loops done and of all, over all cores.
    """
    outlined: list[Outline | None] = [None] * len(loops)
    if loops:
        results = outlines(loops[0].isa, [loop.executed for loop in loops])
        outlined = [outcome if isinstance(outcome, Outline) else None for outcome in results]
    offsets = [loop.offset for loop in loops]
    no_figures = [nan] * LINE
    out = []
    for number, core in enumerate(cores):
        table: list[Row] = [no_figures] * len(loops)
        errors: dict[int, str] = {}
        runnable = []
        for n, (loop, outline) in enumerate(zip(loops, outlined, strict=True)):
            if outline is None:
                errors[n] = "it holds bytes that are no instruction"
            elif outline.needs <= core.features:
                runnable.append(n)
            else:
                missing = lacking(core.isa, loop.executed, outline.needs, core.features)
                errors[n] = f"{missing}, which {core.id} lacks"
        # Equal loops are simulated once if they are in one batch.
        runnable.sort(key=lambda n: (loops[n].executed, loops[n].path))
        done = number * len(loops)
        for batch in _batches(runnable, loops):
            rows, reasons = cycles_by_offset([(loops[n].code, loops[n].path) for n in batch], core)
            for n, row in zip(batch, rows, strict=True):
                table[n] = row
            errors |= {batch[n]: reason for n, reason in reasons.items()}
            done += len(batch)
            if progress:
                progress(done, len(cores) * len(loops))
        out.append(CoreCosts(core, table, errors, offsets))
    return out


def _batches(numbers: Sequence[int], loops: Sequence[ScannedLoop]) -> Iterator[list[int]]:
    """Yield loops in batches for one call."""
    batch: list[int] = []
    size = 0
    for n in numbers:
        batch.append(n)
        size += loops[n].length
        if len(batch) == _BATCH_LOOPS or size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def finite(row: Row) -> list[float]:
    """Return the figures of a row that are not NaN."""
    return [cycles for cycles in row if cycles == cycles]


def best_offset(row: Row) -> int:
    """Return the first code offset with the fewest cycles; one has to have figures."""
    return list(row).index(min(finite(row)))


def _at_least_times(values: Sequence[float], others: Sequence[float], times: float) -> list[bool]:
    return [value >= times * other - 1e-9 for value, other in zip(values, others, strict=True)]


BOUNDARY_SIZES = (16, 32, 64)
_SLOW_SHARE = 0.5  # share of the loss at its offset from which another offset counts as slow

# Instructions that may fuse with a branch: boundaries inside the pair are the branch's.
_FUSED = ("cmp", "test", "add", "sub", "and", "inc", "dec")


@dataclass(frozen=True)
class Boundary:
    """A boundary of a size in bytes, and the part of the loop that crosses it.

    crossed is "loop" (anywhere before its last branch), "branch" (the last one, with the
    instruction fused with it, crosses it or ends at it), "start" (the loop begins at it), an
    instruction as "movq+0x12" (with its offset), a stretch of several as "+0x12..+0x20", or "" if
    no such boundary is inside the loop: the position between two of them counts then. at is the
    offset of the boundary in the loop; None without one.
    """

    size: int
    crossed: str
    at: int | None = field(default=None, compare=False)


def boundary(loop: ScannedLoop, cycles: Row) -> Boundary | None:
    """Return the boundary that slows a loop down, by its cycles at each offset; None without one.

    The loop has to take at least 1.05 times the cycles of its best offset.
    """
    here = cycles[loop.offset]
    if isnan(here) or here < INDIFFERENT * (best := min(finite(cycles))):
        return None
    slow = [at_offset >= best + _SLOW_SHARE * (here - best) for at_offset in cycles]
    size = next(s for s in BOUNDARY_SIZES if slow == slow[:s] * (LINE // s))
    # Positions x of a boundary before byte x of the loop, mod the size.
    slow_positions = {-at % size for at in range(LINE) if slow[at]}
    fast_positions = {-at % size for at in range(LINE) if not isnan(cycles[at])} - slow_positions
    return Boundary(size, *_crossed(loop, size, slow_positions, fast_positions))


def _crossed(
    loop: ScannedLoop, size: int, slow_positions: set[int], fast_positions: set[int]
) -> tuple[str, int | None]:
    """Return the part of a loop that a boundary crosses, and the boundary, as Boundary has them."""
    code = list(_instructions(loop))
    inside = {x % size for i in code for x in range(i.address, i.end) if x}
    all_boundaries = range(-loop.offset % size, loop.length + 1, size)
    boundaries = [x for x in all_boundaries if _executed(loop, x)]
    branch = _branch_positions(code)
    ahead = {x for x in inside if x < branch.start}
    if loop.length <= size and ahead and not fast_positions & ahead and ahead & set(boundaries):
        return "loop", min(ahead & set(boundaries))
    run = _slow_run(slow_positions, -loop.offset % size, size)
    for x in boundaries:
        if x in branch and run <= {at % size for at in branch}:
            return "branch", x
    for x in boundaries:
        for ins in code:
            positions = (at % size for at in range(ins.address, ins.end + 1))
            if ins.address < x < ins.end and run.issubset(positions):
                return f"{ins.mnemonic}+{ins.address:#x}", x
    if boundaries == [0]:
        return "start", 0
    return _stretch(boundaries, run, loop.length, size)


def _executed(loop: ScannedLoop, at: int) -> bool:
    """True if an offset in a loop is inside or at the end of the executed code."""
    return any(start <= at <= end for start, end in loop.path)


def _instructions(loop: ScannedLoop) -> Iterator[Instruction]:
    """Yield the instructions of the path, with addresses from the loop's first byte."""
    code = loop.code
    for start, end in loop.path:
        yield from decode(loop.isa, code[start:end], start)


def _branch_positions(code: Sequence[Instruction]) -> range:
    """Return the positions of a boundary inside the last branch, or right after it.

    The instruction that may fuse with the branch counts as a part of it.
    """
    first = last = code[-1]
    if len(code) > 1 and code[-2].end == last.address and last.flow is Flow.BRANCH:
        first = code[-2] if code[-2].mnemonic.startswith(_FUSED) else last
    return range(first.address + 1, last.end + 1)


def _slow_run(slow_positions: set[int], at: int, size: int) -> set[int]:
    """Return the contiguous slow positions around one of them."""
    run = {at}
    for step in (1, -1):
        position = (at + step) % size
        while position in slow_positions and position not in run:
            run.add(position)
            position = (position + step) % size
    return run


def _stretch(
    boundaries: Sequence[int], run: set[int], length: int, size: int
) -> tuple[str, int | None]:
    """Return the range of positions around a boundary in the loop with as large a loss.

    The second value is the boundary's position.
    """
    for x in boundaries:
        if 0 < x < length:
            low = high = x
            while low - 1 > 0 and (low - 1) % size in run and x - low < size:
                low -= 1
            while high + 1 < length and (high + 1) % size in run and high - x < size:
                high += 1
            return f"+{low:#x}..+{high:#x}" if low < high else f"+{x:#x}", x
    return "", None


_ALIGNED_SHARE = 0.9  # share of a section's routines that start aligned: others were placed by hand
_INSTRUCTION_STEP = {"x86_64": 1, "arm64": 4}  # bytes: where an instruction may begin

# The alignment of routines, by archive member and section.
Alignments = Mapping[tuple[str, str], int]


def start_alignments(image: Image) -> Alignments:
    """Return the alignment of routines in each section of a file, 1 to 64.

    In an object it is at most the section's own.
    """
    out = {}
    for section in image.sections:
        starts = {routine.address for routine in section.routines}
        out[section.file, section.name] = min(common_alignment(starts), section_alignment(section))
    return out


def common_alignment(starts: Collection[int]) -> int:
    """Return the largest power of two, up to 64, that nine in ten addresses are multiples of."""
    aligned = 1
    while starts and aligned < LINE:
        multiples = sum(start % (2 * aligned) == 0 for start in starts)
        if multiples / len(starts) < _ALIGNED_SHARE:
            break
        aligned *= 2
    return aligned


def section_alignment(section: Section) -> int:
    """Return the linker's alignment of an object's section, 1 to 64; 64 at a fixed address.

    A damaged file may hold an alignment that is no power of two.
    """
    return min(section.alignment & -section.alignment, LINE) or LINE


def start_alignment(loop: ScannedLoop, alignments: Alignments) -> int:
    """Return the alignment of a loop's routine; that of instructions where unknown."""
    least = _INSTRUCTION_STEP[loop.isa]
    aligned = max(alignments.get((loop.file, loop.section), least), least)
    start = loop.address - loop.into
    return aligned if loop.function and start % aligned == 0 else least


def shifted_offsets(into: int, step: int) -> list[int]:
    """Return the code offsets of code at a distance from any multiple of a step."""
    return sorted({(into + start) % LINE for start in range(0, LINE, step)})
