"""Costs of loops at every code offset, the boundaries that they cross, and where they may lie."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan, nan

from loopwright.code.binding import Outline, lacking, outlines
from loopwright.code.elf import Section
from loopwright.code.instructions import Instruction, decode
from loopwright.microarchs import Microarch
from loopwright.predicting.pipeline import Pipeline
from loopwright.scanning.binary_loops import ScannedLoop
from loopwright.scanning.images import Image

LINE = 64  # bytes, after which a place is the same to every boundary of a core

# The stretches that an iteration executes, in order, as (start, end) in the loop's code.
Stretches = tuple[tuple[int, int], ...]

# The cycles an iteration of a loop at each code offset, NaN where none can be.
Row = Sequence[float]


def cycles_by_offset(
    loops: Sequence[tuple[bytes, Stretches]], core: Microarch
) -> tuple[list[Row], dict[int, str]]:
    """Return the cycles an iteration of each loop (code and path), its first byte at each place.

    A row a loop, a figure a code offset: NaN where no code can lie, and where the simulator has no
    answer; the dict says by the loop's number why that is. InputError where the core has no
    figures.
    """
    cycles, errors = Pipeline().places([(code, list(path)) for code, path in loops], core)
    figures = memoryview(cycles).cast("d")
    return [figures[at : at + LINE] for at in range(0, len(figures), LINE)], errors


HURT = 1.3  # times the best place, from which on the place of a loop hurts it
INDIFFERENT = 1.05  # of the worst place to the best, below which no place matters

_AT_ONCE = 2048  # loops between two words of how far it has got
_BYTES_AT_ONCE = 1 << 25  # of loops whose parts lie far apart

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CoreCosts:
    """Costs of loops on one core: a table row each, and by number the reason where one has none."""

    core: Microarch
    table: Sequence[Row]
    errors: dict[int, str]
    offsets: Sequence[int] = field(repr=False)

    @cached_property
    def cycles(self) -> list[float]:
        """Return the cycles an iteration of each loop where it lies."""
        return [row[at] for row, at in zip(self.table, self.offsets, strict=True)]

    @cached_property
    def best(self) -> list[float]:
        """Return the cycles an iteration of each loop at its best place."""
        return [min(known(row), default=nan) for row in self.table]

    @cached_property
    def worst(self) -> list[float]:
        """Return the cycles an iteration of each loop at its worst place."""
        return [max(known(row), default=nan) for row in self.table]

    @cached_property
    def hurt(self) -> list[bool]:
        """Say of each loop whether its place hurts it."""
        return _over(self.cycles, self.best, HURT)

    @cached_property
    def depends(self) -> list[bool]:
        """Say of each loop whether its cycles depend on its place."""
        return _over(self.worst, self.best, INDIFFERENT)


def cost(
    loops: Sequence[ScannedLoop], cores: Sequence[Microarch], progress: Progress | None = None
) -> list[CoreCosts]:
    """Return the cycles of loops on each core at every code offset.

    A loop has no figures on a core that lacks a feature which it needs, or of which an instruction
    is not known. progress is called with loops done and all of them, over all cores.
    """
    outlined: list[Outline | None] = [None] * len(loops)
    if loops:
        seen = outlines(loops[0].isa, [loop.executed for loop in loops])
        outlined = [one if isinstance(one, Outline) else None for one in seen]
    offsets = [loop.offset for loop in loops]
    none = [nan] * LINE
    out = []
    for number, core in enumerate(cores):
        table: list[Row] = [none] * len(loops)
        errors: dict[int, str] = {}
        able = []
        for n, (loop, outline) in enumerate(zip(loops, outlined, strict=True)):
            if outline is None:
                errors[n] = "it holds bytes that are no instruction"
            elif outline.needs <= core.features:
                able.append(n)
            else:
                missing = lacking(core.isa, loop.executed, outline.needs, core.features)
                errors[n] = f"{missing}, which {core.id} lacks"
        # Loops alike in code are simulated once where they come in one call.
        able.sort(key=lambda n: (loops[n].executed, loops[n].path))
        done = number * len(loops)
        for some in _batches(able, loops):
            rows, why = cycles_by_offset([(loops[n].code, loops[n].path) for n in some], core)
            for n, row in zip(some, rows, strict=True):
                table[n] = row
            errors |= {some[n]: said for n, said in why.items()}
            done += len(some)
            if progress:
                progress(done, len(cores) * len(loops))
        out.append(CoreCosts(core, table, errors, offsets))
    return out


def _batches(numbers: Sequence[int], loops: Sequence[ScannedLoop]) -> Iterator[list[int]]:
    """Yield some loops after the other, as many as one call takes."""
    some: list[int] = []
    size = 0
    for n in numbers:
        some.append(n)
        size += loops[n].length
        if len(some) == _AT_ONCE or size > _BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def known(row: Row) -> list[float]:
    """Return the figures of a row that are not NaN."""
    return [cycles for cycles in row if cycles == cycles]


def best_offset(row: Row) -> int:
    """Return the first code offset at which a loop takes fewest cycles; one has to have figures."""
    return list(row).index(min(known(row)))


def _over(some: Sequence[float], others: Sequence[float], times: float) -> list[bool]:
    return [one >= times * other - 1e-9 for one, other in zip(some, others, strict=True)]


BOUNDARY_SIZES = (16, 32, 64)
_AS_MUCH = 0.5  # of what is lost here, from which on another place counts as one that hurts

# What a branch behind it may be one uop with: boundaries inside of the pair are its own.
_FUSED = ("cmp", "test", "add", "sub", "and", "inc", "dec")


@dataclass(frozen=True)
class Boundary:
    """A boundary of so many bytes, and what of the loop crosses it.

    crossed is "loop" (wherever in it before its last branch), "branch" (the last one, with what
    fuses with it, crosses it or ends at it), "start" (the loop begins at it), an instruction as
    "movq+0x12" (how far behind the first byte), a stretch of several as "+0x12..+0x20", or ""
    where no such boundary lies in the loop: then it is its place between two of them. at is where
    that boundary lies, in bytes from the loop's first one; None where none does.
    """

    size: int
    crossed: str
    at: int | None = field(default=None, compare=False)


def boundary(loop: ScannedLoop, cycles: Row) -> Boundary | None:
    """Return the boundary that hurts a loop, given its cycles at each place; None where none does.

    One does where the loop takes 1.05 times the cycles of its best place or more.
    """
    here = cycles[loop.offset]
    if isnan(here) or here < INDIFFERENT * (best := min(known(cycles))):
        return None
    slow = [one >= best + _AS_MUCH * (here - best) for one in cycles]
    size = next(s for s in BOUNDARY_SIZES if slow == slow[:s] * (LINE // s))
    # A boundary before byte x of the loop: bytes from its first one, mod the size.
    hurts = {-at % size for at in range(LINE) if slow[at]}
    harmless = {-at % size for at in range(LINE) if not isnan(cycles[at])} - hurts
    return Boundary(size, *_crossed(loop, size, hurts, harmless))


def _crossed(
    loop: ScannedLoop, size: int, hurts: set[int], harmless: set[int]
) -> tuple[str, int | None]:
    code = list(_instructions(loop))
    inside = {x % size for i in code for x in range(i.address, i.end) if x}
    here = [x for x in range(-loop.offset % size, loop.length + 1, size) if _executed(loop, x)]
    group = _branch(code)
    before = {x for x in inside if x < group.start}
    if loop.length <= size and before and not harmless & before and before & set(here):
        return "loop", min(before & set(here))
    run = _run(hurts, -loop.offset % size, size)
    for x in here:
        if x in group and run <= {at % size for at in group}:
            return "branch", x
    for x in here:
        for i in code:
            if i.address < x < i.end and run <= {at % size for at in range(i.address, i.end + 1)}:
                return f"{i.mnemonic}+{i.address:#x}", x
    if here == [0]:
        return "start", 0
    return _stretch(here, run, loop.length, size)


def _executed(loop: ScannedLoop, at: int) -> bool:
    """Say whether a place of a loop lies in or at the end of what an iteration executes."""
    return any(start <= at <= end for start, end in loop.path)


def _instructions(loop: ScannedLoop) -> Iterator[Instruction]:
    """Yield the instructions of the path, addresses counted from the loop's first byte."""
    code = loop.code
    for start, end in loop.path:
        yield from decode(loop.isa, code[start:end], start)


def _branch(code: Sequence[Instruction]) -> range:
    """Return the place of a boundary in the last branch, or right behind it."""
    *_, before, last = [None, *code]
    assert last is not None
    fuses = before is not None and before.end == last.address and last.flow.value == "branch"
    if fuses and before is not None and before.mnemonic.startswith(_FUSED):
        return range(before.address + 1, last.end + 1)
    return range(last.address + 1, last.end + 1)


def _run(hurts: set[int], at: int, size: int) -> set[int]:
    """Return the places next to each other, around one of them, that hurt."""
    run = {at}
    for step in (1, -1):
        near = (at + step) % size
        while near in hurts and near not in run:
            run.add(near)
            near = (near + step) % size
    return run


def _stretch(here: Sequence[int], run: set[int], length: int, size: int) -> tuple[str, int | None]:
    """Return the bytes around a boundary in the loop, between which it may lie and hurt as much.

    Behind them is where it lies.
    """
    for x in here:
        if 0 < x < length:
            low = high = x
            while low - 1 > 0 and (low - 1) % size in run and x - low < size:
                low -= 1
            while high + 1 < length and (high + 1) % size in run and high - x < size:
                high += 1
            return f"+{low:#x}..+{high:#x}" if low < high else f"+{x:#x}", x
    return "", None


_MOST = 0.9  # of a section's routines that start aligned: others were put where they are by hand
_STEP = {"x86_64": 1, "arm64": 4}  # bytes: where an instruction may begin

# What routines' starts are multiples of, by archive member and section.
Alignments = Mapping[tuple[str, str], int]


def start_alignments(image: Image) -> Alignments:
    """Return for each section of a file what its routines' starts are aligned to, 1 to 64.

    A section of an object lies anywhere that its own alignment allows.
    """
    out = {}
    for section in image.sections:
        starts = {routine.address for routine in section.routines}
        out[section.file, section.name] = min(common_alignment(starts), linked(section))
    return out


def common_alignment(starts: Collection[int]) -> int:
    """Return the largest power of two, up to 64, that nine in ten addresses are multiples of."""
    aligned = 1
    while starts and aligned < LINE:
        if sum(start % (2 * aligned) == 0 for start in starts) / len(starts) < _MOST:
            break
        aligned *= 2
    return aligned


def linked(section: Section) -> int:
    """Return the linker's alignment of an object's section, 1 to 64; 64 where it lies fixed.

    A damaged file may hold an alignment that is no power of two.
    """
    return min(section.alignment & -section.alignment, LINE) or LINE


def start_alignment(loop: ScannedLoop, known: Alignments) -> int:
    """Return the alignment of a loop's routine; an instruction's where unknown."""
    least = _STEP[loop.isa]
    aligned = max(known.get((loop.file, loop.section), least), least)
    start = loop.address - loop.into
    return aligned if loop.function and start % aligned == 0 else least


def shifted_offsets(into: int, step: int) -> list[int]:
    """Return the code offsets of what begins so many bytes behind any multiple of a step."""
    return sorted({(into + start) % LINE for start in range(0, LINE, step)})
