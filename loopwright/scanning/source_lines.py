"""Where in the source a loop stands, by the debug information of a file."""

import bisect
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile

from loopwright.code import snippet
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.images import Image

if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DWARFInfo


class SourceLines:
    """The lines of an image, read by compile unit as they are asked for."""

    def __init__(self, image: Image) -> None:
        """Open the debug information, where there is any."""
        self._object: dict[str, list[tuple[int, str]]] = {}
        self._dwarf: DWARFInfo | None = None
        self._units: dict[int, list[tuple[int, str]]] = {}
        if not image.content.startswith(b"\x7fELF"):
            return
        try:
            file = ELFFile(BytesIO(image.content))
            if file.has_dwarf_info(strict=True) and file["e_type"] == "ET_REL":
                for (section, address), line in sorted(snippet.named(file).items()):
                    self._object.setdefault(section, []).append((address, line))
            elif file.has_dwarf_info(strict=True):
                self._dwarf = file.get_dwarf_info()
                self._ranges = self._dwarf.get_aranges()
        except Exception:  # damaged debug information is as good as none
            self._dwarf = None

    def of(self, loop: ScannedLoop) -> str:
        """Return "file:line" of a loop's first byte, "" where that is not known."""
        return next(self._within(loop, loop.address, loop.address + 1), "")

    def all_of(self, loop: ScannedLoop) -> set[str]:
        """Return "file:line" of all that a loop's path executes."""
        return {
            line
            for start, end in loop.path
            for line in self._within(loop, loop.address + start, loop.address + end)
            if line
        }

    def _within(self, loop: ScannedLoop, start: int, end: int) -> Iterator[str]:
        """Yield the lines of the bytes between two addresses, that of the first one first."""
        found = self._table(loop)
        first = max(bisect.bisect_right(found, (start, "\U0010ffff")) - 1, 0)
        for address, line in found[first:]:
            if address >= end:
                return
            if first or address <= start:
                yield line

    def _table(self, loop: ScannedLoop) -> list[tuple[int, str]]:
        """Return the lines of what a loop was compiled with, by address."""
        if self._object:
            return self._object.get(loop.section, [])
        if self._dwarf is None or self._ranges is None:
            return []
        try:
            unit = self._ranges.cu_offset_at_addr(loop.address)
            if unit is None:
                return []
            if unit not in self._units:
                self._units[unit] = sorted(_rows(self._dwarf, unit))
            return self._units[unit]
        except Exception:  # as above
            return []


def _rows(dwarf: "DWARFInfo", offset: int) -> Iterator[tuple[int, str]]:
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
