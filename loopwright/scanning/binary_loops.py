"""Innermost loops of a binary, with their shape, source line and listing."""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

import iced_x86 as iced
from elftools.elf.elffile import ELFFile

from loopwright.code import instructions, loops, snippet
from loopwright.code.elf import Section
from loopwright.code.instructions import decode
from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predicting.pipeline import Pipeline
from loopwright.scanning.images import Image

if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DWARFInfo


# Suffixes of a compiler's copies, which may come and go with any change of the source.
_COMPILER_SUFFIXES = re.compile(r"(\.(constprop|isra|part|cold|llvm|lto_priv)(\.\d+)*)+$")

_LONGEST_ROUTINE = 1 << 16  # bytes: no contiguous routine is as long
SPLIT = "its parts lie more than 64 KiB apart"  # reason against a loop with split


@dataclass(frozen=True, slots=True)
class ScannedLoop:
    """An innermost loop, by its likely path.

    file is the member of an archive, else "". address is that of its first byte, the lowest of its
    path, which is at the offset first of text, bytes that many loops share. path are the stretches
    that an iteration executes, in order, as (start, end) in code: the first begins at 0, the last
    ends in the branch back there; a loop without jumps has one, all of code. function is its
    routine ("" if unknown), into the offset in that routine. line is "file:line" of its first
    byte, or "". exits are the addresses of the conditional branches on the path, except the last,
    that leave it when they go the other way: forward ones are assumed to fall through. kind is
    "block" (no other branch), "exits" (one stretch with exits) or "path" (several stretches).
    """

    file: str
    section: str
    isa: str
    address: int
    text: bytes = field(repr=False)
    path: tuple[tuple[int, int], ...]
    function: str = ""
    into: int = 0
    line: str = ""
    exits: tuple[int, ...] = ()
    kind: str = "block"
    first: int = 0

    @property
    def length(self) -> int:
        """Its bytes from the first to the last of the path in memory."""
        return max(end for _, end in self.path)

    @property
    def code(self) -> bytes:
        return self.text[self.first : self.first + self.length]

    @property
    def split(self) -> bool:
        """True if its parts are in regions that a linker places independently."""
        return self.length > _LONGEST_ROUTINE

    @property
    def offset(self) -> int:
        """Its code offset: the address of its first byte mod 64."""
        return self.address % 64

    @property
    def executed(self) -> bytes:
        """The instructions of an iteration, concatenated without the code between them.

        Branches keep their distances: the result shows the instructions, not their addresses.
        """
        at = self.first
        return b"".join(self.text[at + start : at + end] for start, end in self.path)

    @property
    def end(self) -> int:
        return self.address + self.length

    @property
    def written(self) -> str:
        """Its function's name in the source, without a compiler's suffixes."""
        return _COMPILER_SUFFIXES.sub("", self.function)

    @property
    def where(self) -> str:
        """Function and offset in it, or else the address."""
        if not self.function:
            return f"{self.address:#x}"
        return f"{self.function}+{self.into:#x}" if self.into else self.function


@dataclass
class FoundLoops:
    """The loops of a file, and counts of loops left out.

    outer are loops that contain others, calling those whose likely path calls. refused counts the
    others without a block, by reason. lost is the number of bytes of code that are no instructions.
    """

    loops: list[ScannedLoop] = field(default_factory=list)
    outer: int = 0
    calling: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    @property
    def innermost(self) -> int:
        """The number of innermost loops."""
        return len(self.loops) + self.calling + self.refused.total()


# The reasons why a loop makes no block: of the simulator's crate, and for the user.
_REASONS = {
    "repeats": "a string instruction repeats in it",
    "indirect": "it goes on by an indirect jump",
    "elsewhere": "its likely path does not come back to where it was entered",
    "doubtful": "it lies among bytes that are no instructions",
}
_PAUSE = b"\xf3\x90"
_WAIT_HINTS = (0xD503203F, 0xD503205F, 0xD503207F)  # yield, wfe, wfi
_WAIT_REASON = "it waits for another CPU (pause, yield, wfe): its cycles are the wait's"


def find_loops(image: Image) -> FoundLoops:
    """Return all innermost loops of a file without calls, by address, and counts of others."""
    found = FoundLoops()
    for section in image.sections:
        _search(found, section)
    return found


def _search(found: FoundLoops, section: Section) -> None:
    rows = loops.in_section(section)
    found.outer += rows.outer
    found.lost += rows.lost
    for path, exits, refused in rows.innermost:
        if refused == "calls":
            found.calling += 1
        elif refused:
            found.refused[_REASONS[refused]] += 1
        elif waits(section.isa, loop := _loop(section, path, exits)):
            found.refused[_WAIT_REASON] += 1
        else:
            found.loops.append(loop)


def _loop(section: Section, path: Sequence[tuple[int, int]], exits: Sequence[int]) -> ScannedLoop:
    first = path[0][0]
    address = section.address + first
    routine = section.routine(address)
    if routine and routine.size and address >= routine.address + routine.size:
        routine = None  # it is after that routine: a stripped file has few names
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


def section_of(sections: Iterable[Section], loop: ScannedLoop) -> Section:
    """Return the section that contains a loop."""
    return next(
        section
        for section in sections
        if (section.file, section.name) == (loop.file, loop.section)
        and section.address <= loop.address
        and loop.end <= section.end
    )


def waits(isa: str, loop: ScannedLoop) -> bool:
    """True if a loop spins until another CPU has done something."""
    code = loop.executed
    if isa == "arm64":
        words = (int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4))
        return any(word in _WAIT_HINTS for word in words)
    if _PAUSE not in code:
        return False
    try:
        return any(ins.mnemonic == "pause" for ins in instructions.decode(isa, code))
    except InputError:  # bytes that are no instruction: no core has figures for the loop
        return False


_LEAST_ADDRESS = 1 << 20  # least number that may be an address, which a linker chooses
_BRANCHES = (iced.OpKind.NEAR_BRANCH16, iced.OpKind.NEAR_BRANCH32, iced.OpKind.NEAR_BRANCH64)
_PC_REGISTERS = (iced.Register.RIP, iced.Register.EIP)
_THREAD_SEGMENTS = (iced.Register.FS, iced.Register.GS)
_ARM64_NOP = 0xD503201F
# AArch64's instructions with an address (Arm ARM, C4.1): mask and value of the encoding, and the
# bits of the address.
_ARM64_ADDRESSES = (
    *(
        (mask, value, (1 << width) - 1 << low)
        for mask, value, low, width in instructions.ARM64_BRANCHES
    ),
    (0x1F000000, 0x10000000, 0x60FFFFE0),  # adr, adrp
    (0x3B000000, 0x18000000, 0x00FFFFE0),  # ldr of a literal
)
_ARM64_OPCODE = 22  # the lowest bit of the opcode, above the operands


def shape(loop: ScannedLoop) -> tuple[object, ...]:
    """Return the shape of a loop across builds: instructions with registers and numbers."""
    return shape_of_code(loop.isa, loop.executed)


def shape_of_code(isa: str, code: bytes) -> tuple[object, ...]:
    """Return the shape of any code: instructions with registers and numbers."""
    return tuple(_x86_shape(code) if isa == "x86_64" else _arm64_shape(code))


def loose_shape(loop: ScannedLoop) -> tuple[object, ...]:
    """Return the shape of a loop without registers, for builds that assigned them anew."""
    if loop.isa == "x86_64":
        return tuple(ins.mnemonic for ins in _shape_instructions(loop.executed))
    return tuple(word >> _ARM64_OPCODE for word in _arm64_shape(loop.executed))


def _shape_instructions(code: bytes) -> Iterator[iced.Instruction]:
    for ins in iced.Decoder(64, code):
        if ins.mnemonic != iced.Mnemonic.NOP:
            yield ins


def _x86_shape(code: bytes) -> Iterator[object]:
    for ins in _shape_instructions(code):
        yield ins.mnemonic, tuple(_operand_shape(ins, n) for n in range(ins.op_count))


def _operand_shape(ins: iced.Instruction, n: int) -> object:
    kind = ins.op_kind(n)
    if kind in _BRANCHES:
        return "to"
    if kind == iced.OpKind.REGISTER:
        return ins.op_register(n)
    if kind == iced.OpKind.MEMORY:
        base, index = ins.memory_base, ins.memory_index
        addressed = base in _PC_REGISTERS or (base == 0 and ins.memory_segment in _THREAD_SEGMENTS)
        at = 0 if addressed else _displacement(ins.memory_displacement)
        return base, index, ins.memory_index_scale, ins.memory_size, at
    try:
        return _displacement(ins.immediate(n))
    except ValueError:
        return kind


def _displacement(value: int) -> int | str:
    number = instructions.signed(value)
    return number if -_LEAST_ADDRESS < number < _LEAST_ADDRESS else "far"


def _arm64_shape(code: bytes) -> Iterator[int]:
    for at in range(0, len(code) - 3, 4):
        word = int.from_bytes(code[at : at + 4], "little")
        if word == _ARM64_NOP:
            continue
        address = next((bits for mask, value, bits in _ARM64_ADDRESSES if word & mask == value), 0)
        yield word & ~address


@dataclass(frozen=True, slots=True)
class ListingLine:
    """An instruction on the path: its offset from the loop's first byte, its length and text."""

    at: int
    length: int
    text: str


def listing(loop: ScannedLoop) -> list[ListingLine]:
    """Return the instructions of an iteration, in the order of their execution.

    Branch targets are addresses; InputError if bytes are no instruction.
    """
    lines = []
    code = loop.code
    for start, end in loop.path:
        at = start
        for ins in decode(loop.isa, code[start:end], loop.address + start):
            lines.append(ListingLine(at, len(ins.code), ins.text))
            at += len(ins.code)
    return lines


def timelines(
    placed: Sequence[tuple[ScannedLoop, int]], core: Microarch, iterations: int
) -> list[list[dict[str, Any]]]:
    """Return the events of every uop of the first iterations of loops at code offsets.

    Rows are those of Core.predict's timeline (models/pipeline/README.md), with the instructions of
    listing; empty if the simulator has no answer. InputError if the core has no figures.
    """
    loops = [(loop.code, offset, loop.path) for loop, offset in placed]
    return [
        row.get("timeline") or [] for row in Pipeline().along(loops, core, iterations=iterations)
    ]


class SourceLines:
    """The source lines of an image, read by compile unit when needed."""

    def __init__(self, image: Image) -> None:
        """Open the debug information, if any."""
        self._lines_by_section: dict[str, list[tuple[int, str]]] = {}
        self._dwarf: DWARFInfo | None = None
        self._units: dict[int, list[tuple[int, str]]] = {}
        if not image.content.startswith(b"\x7fELF"):
            return
        try:
            file = ELFFile(BytesIO(image.content))
            if file.has_dwarf_info(strict=True) and file["e_type"] == "ET_REL":
                for (section, address), line in sorted(snippet.source_positions(file).items()):
                    self._lines_by_section.setdefault(section, []).append((address, line))
            elif file.has_dwarf_info(strict=True):
                self._dwarf = file.get_dwarf_info()
                self._ranges = self._dwarf.get_aranges()
        except Exception:  # damaged debug information counts as none
            self._dwarf = None

    def of(self, loop: ScannedLoop) -> str:
        """Return "file:line" of a loop's first byte, "" if unknown."""
        return self.at(loop, loop.address)

    def at(self, loop: ScannedLoop, address: int) -> str:
        """Return "file:line" of one of a loop's bytes, "" if unknown."""
        return next(self._within(loop, address, address + 1), "")

    def all_of(self, loop: ScannedLoop) -> set[str]:
        """Return "file:line" of everything that a loop's path executes."""
        return {
            line
            for start, end in loop.path
            for line in self._within(loop, loop.address + start, loop.address + end)
            if line
        }

    def _within(self, loop: ScannedLoop, start: int, end: int) -> Iterator[str]:
        """Yield the lines of the bytes between two addresses, the first byte's first."""
        table = self._table(loop)
        begin = max(bisect.bisect_right(table, (start, "\U0010ffff")) - 1, 0)
        for address, line in table[begin:]:
            if address >= end:
                return
            if begin or address <= start:
                yield line

    def _table(self, loop: ScannedLoop) -> list[tuple[int, str]]:
        """Return the lines of a loop's compile unit, by address."""
        if self._lines_by_section:
            return self._lines_by_section.get(loop.section, [])
        if self._dwarf is None or self._ranges is None:
            return []
        try:
            unit = self._ranges.cu_offset_at_addr(loop.address)
            if unit is None:
                return []
            if unit not in self._units:
                self._units[unit] = sorted(_unit_lines(self._dwarf, unit))
            return self._units[unit]
        except Exception:  # as above
            return []


def _unit_lines(dwarf: "DWARFInfo", offset: int) -> Iterator[tuple[int, str]]:
    unit: CompileUnit = dwarf.get_CU_at(offset)
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return
    for entry in program.get_entries():
        if entry.state is None:
            continue
        if entry.state.end_sequence:
            yield entry.state.address, ""
        else:
            name = snippet.file_name(program, entry.state.file)
            yield entry.state.address, f"{name}:{entry.state.line}"
