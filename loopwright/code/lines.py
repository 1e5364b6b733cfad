"""Which line of an assembled text each address of its code is of."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

if TYPE_CHECKING:
    from elftools.dwarf.lineprogram import LineProgram

Lines = dict[tuple[str, int], int]  # of a section's name and an address in it


def read(path: Path) -> Lines:
    """Return the lines of an object that was assembled with -g."""
    with path.open("rb") as file:
        image = ELFFile(file)
        return dict(_of_image(image)) if image.has_dwarf_info() else {}


def named(image: ELFFile) -> dict[tuple[str, int], str]:
    """Return "file:line" of the addresses of an object that was built with -g."""
    return {
        where: f"{file_name(program, file)}:{line}" for where, program, file, line in _rows(image)
    }


def file_name(program: "LineProgram", number: int) -> str:
    """Return the name of a file of a line table (DWARF, 6.2.4: from 0 since version 5)."""
    entries = program.header["file_entry"]
    at = number if program.header["version"] >= 5 else number - 1
    name = entries[at].name if 0 <= at < len(entries) else b""
    return str(name.decode(errors="replace")) if isinstance(name, bytes) else str(name)


def _of_image(image: ELFFile) -> Iterator[tuple[tuple[str, int], int]]:
    for where, _, _, line in _rows(image):
        yield where, line


def _rows(image: ELFFile) -> Iterator[tuple[tuple[str, int], "LineProgram", int, int]]:
    """Yield where and what the lines are.

    Each sequence of the line table is of one section, in an order.
    """
    names = _sections(image)
    dwarf = image.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        name = next(names, "")
        if program is None:
            continue
        for entry in program.get_entries():
            if entry.state is None:
                continue
            if entry.state.end_sequence:
                name = next(names, "")
            else:
                state = entry.state
                yield (name, state.address), program, state.file, state.line


def _sections(image: ELFFile) -> Iterator[str]:
    """Yield the names of the sections of code that the line table's addresses are relative to."""
    symbols = cast(SymbolTableSection, image.get_section_by_name(".symtab"))
    for section in image.iter_sections():
        if isinstance(section, RelocationSection) and section.name == ".rela.debug_line":
            for one in sorted(section.iter_relocations(), key=lambda r: int(r["r_offset"])):
                index = symbols.get_symbol(one["r_info_sym"])["st_shndx"]
                named = image.get_section(index)
                if named["sh_flags"] & 4:  # SHF_EXECINSTR
                    yield named.name
