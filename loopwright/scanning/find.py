"""Find the innermost loops of a binary by its control flow."""

from collections.abc import Callable, Iterator

from loopwright.code import binding, instructions
from loopwright.code.elf import Section
from loopwright.errors import InputError
from loopwright.scanning.found import Found, ScannedLoop
from loopwright.scanning.images import Image

# Why a loop makes no block, as the simulator's crate says it and as a user reads it.
_REFUSED = {
    "repeats": "a string instruction repeats in it",
    "indirect": "it goes on by an indirect jump",
    "elsewhere": "its likely path does not come back to where it was entered",
    "doubtful": "it lies among bytes that are no instructions",
}
_PAUSE = b"\xf3\x90"
_HINTS = (0xD503203F, 0xD503205F, 0xD503207F)  # yield, wfe, wfi
_WAITS = "it waits for another CPU (pause, yield, wfe): its cycles are the wait's"


def find(image: Image, progress: Callable[[int, int], None] | None = None) -> Found:
    """Return all innermost loops of a file that do not call, by address, and what was left out.

    progress is called with bytes done and all bytes of code.
    """
    found = Found()
    total = sum(len(section.code) for section in image.sections)
    done = 0
    for section in image.sections:
        _search(found, section)
        done += len(section.code)
        if progress:
            progress(done, total)
    return found


def _search(found: Found, section: Section) -> None:
    rows, outer, lost = binding.loops(
        section.isa,
        section.code,
        sorted(set(_starts(section))),
        sorted(set(_ends(section))),
        sorted(set(_entries(section))),
        list(_data(section)),
        section.address,
    )
    found.outer += outer
    found.lost += lost
    for path, exits, refused in rows:
        if refused == "calls":
            found.calling += 1
        elif refused:
            found.refused[_REFUSED[refused]] += 1
        elif waits(section.isa, loop := _loop(section, path, exits)):
            found.refused[_WAITS] += 1
        else:
            found.loops.append(loop)


def _starts(section: Section) -> Iterator[int]:
    """Yield the offsets where routines begin, or parts of them."""
    named = (symbol.address for symbol in section.routines)
    for address in (*named, *section.starts, *section.entries):
        if section.address <= address < section.end:
            yield address - section.address


def _ends(section: Section) -> Iterator[int]:
    """Yield the offsets where routines end that have a size."""
    for symbol in section.routines:
        end = symbol.address + symbol.size
        if symbol.size and section.address <= symbol.address and end < section.end:
            yield end - section.address


def _entries(section: Section) -> Iterator[int]:
    """Yield the offsets where control comes in from outside.

    What a compiler moved out of a routine, since it is seldom run, is a part of that one.
    """
    whole = (s.address for s in section.routines if ".cold" not in s.name)
    for address in (*whole, *section.entries):
        if section.address <= address < section.end:
            yield address - section.address


def _data(section: Section) -> Iterator[tuple[int, int]]:
    """Yield the stretches that hold no code; those of a damaged file may lie anywhere."""
    reached = 0
    for gap in section.data:
        start = max(gap.start - section.address, reached)
        end = min(gap.stop - section.address, len(section.code))
        if start < end:
            yield start, end
            reached = end


def _loop(section: Section, path: list[tuple[int, int]], exits: list[int]) -> ScannedLoop:
    first = path[0][0]
    address = section.address + first
    routine = section.routine(address)
    if routine and routine.size and address >= routine.address + routine.size:
        routine = None  # it lies behind that one: of a stripped file few names are left
    return ScannedLoop(
        file=section.file,
        section=section.name,
        isa=section.isa,
        address=address,
        text=section.code,
        path=tuple((start - first, end - first) for start, end in path),
        function=routine.name if routine else "",
        into=address - routine.address if routine else 0,
        exits=tuple(section.address + at for at in exits),
        kind="path" if len(path) > 1 else "exits" if exits else "block",
        first=first,
    )


def waits(isa: str, loop: ScannedLoop) -> bool:
    """Say whether a loop spins until another CPU has done something."""
    code = loop.executed
    if isa == "arm64":
        words = (int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4))
        return any(word in _HINTS for word in words)
    if _PAUSE not in code:
        return False
    try:
        return any(ins.mnemonic == "pause" for ins in instructions.decode(isa, code))
    except InputError:  # bytes that are no instruction: no core has figures for the loop
        return False
