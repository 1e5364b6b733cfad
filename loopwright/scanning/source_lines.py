"""Where in the source a loop stands, by the debug information of a file."""

import bisect
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile

from loopwright.code import lines
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.images import Image

if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DWARFInfo


class SourceLines:
    """The lines of an image, read by compile unit as they are asked for."""

    def __init__(self, image: Image) -> None:
        """Open the debug information, where there is any."""
        self._object: dict[tuple[str, int], str] = {}
        self._dwarf: DWARFInfo | None = None
        self._units: dict[int, list[tuple[int, str]]] = {}
        if not image.content.startswith(b"\x7fELF"):
            return
        try:
            file = ELFFile(BytesIO(image.content))
            if file.has_dwarf_info(strict=True) and file["e_type"] == "ET_REL":
                self._object = lines.named(file)
            elif file.has_dwarf_info(strict=True):
                self._dwarf = file.get_dwarf_info()
                self._ranges = self._dwarf.get_aranges()
        except Exception:  # damaged debug information is as good as none
            self._dwarf = None

    def of(self, loop: ScannedLoop) -> str:
        """Return "file:line" of a loop's first byte, "" where that is not known."""
        if self._object:
            return self._object.get((loop.section, loop.address), "")
        if self._dwarf is None or self._ranges is None:
            return ""
        try:
            unit = self._ranges.cu_offset_at_addr(loop.address)
            if unit is None:
                return ""
            if unit not in self._units:
                self._units[unit] = sorted(_rows(self._dwarf, unit))
            found = self._units[unit]
        except Exception:  # as above
            return ""
        at = bisect.bisect_right(found, (loop.address, "\U0010ffff")) - 1
        return found[at][1] if at >= 0 else ""


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
            name = lines.file_name(program, entry.state.file)
            yield entry.state.address, f"{name}:{entry.state.line}"
