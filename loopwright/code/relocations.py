"""Apply what a linker would to the code of an object: what addresses its instructions name.

Where branches go decides what is a loop, and two operands without their addresses look like one
and the same place in memory. Sections lie as in the object, one behind another; what is defined
elsewhere gets places of its own.
"""

from collections.abc import Iterator
from typing import cast

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

# Of x86-64 (psABI, table 4.9): bytes of the field, whether it counts from its own place.
_X86 = {1: (8, False), 2: (4, True), 4: (4, True), 10: (4, False), 11: (4, False), 15: (1, True),
        24: (8, True)}  # fmt: skip
_X86_SLOTS = {9, 22, 41, 42}  # the field names a slot in a table that holds the address
# Of AArch64 (ELF for the Arm 64-bit architecture, 5.7): lowest bit and width of a branch's field.
_ARM64 = {279: (5, 14), 280: (5, 19), 282: (0, 26), 283: (0, 26)}
_APART = 4096 + 64  # so that no two places lie a multiple of 4 KiB apart


class Places:
    """An object's symbols and the addresses that they are given."""

    def __init__(self, image: ELFFile) -> None:
        """Lay out the sections of an object."""
        self.image = image
        self._table = cast(SymbolTableSection | None, image.get_section_by_name(".symtab"))
        self._sections: dict[int, int] = {}
        self._elsewhere: dict[object, int] = {}
        self._next = 1 << 24
        self._relocations: dict[int, list[RelocationSection]] = {}
        for section in image.iter_sections():
            if isinstance(section, RelocationSection):
                self._relocations.setdefault(section["sh_info"], []).append(section)

    def of_section(self, index: int) -> int:
        """Return where a section begins."""
        if index not in self._sections:
            size = self.image.get_section(index)["sh_size"]
            self._sections[index] = self._next
            self._next += (size // _APART + 1) * _APART
        return self._sections[index]

    def of_symbol(self, number: int) -> int:
        """Return the address of a symbol."""
        if self._table is None:
            return self.elsewhere(number)
        symbol = self._table.get_symbol(number)
        index = symbol["st_shndx"]
        if isinstance(index, int):
            return self.of_section(index) + int(symbol["st_value"])
        return int(symbol["st_value"]) if index == "SHN_ABS" else self.elsewhere(number)

    def elsewhere(self, key: object) -> int:
        """Return a place for what is not defined here."""
        if key not in self._elsewhere:
            self._elsewhere[key] = self._next
            self._next += _APART
        return self._elsewhere[key]

    def relocations(self, number: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield kind, offset, symbol and addend of each relocation of a section."""
        for section in self._relocations.get(number, ()):
            for one in section.iter_relocations():
                addend = one["r_addend"] if section.is_RELA() else 0
                yield one["r_info_type"], one["r_offset"], one["r_info_sym"], addend


def applied(image: ELFFile, places: Places, number: int) -> bytes:
    """Return the code of the section of that number, with its relocations applied."""
    section = image.get_section(number)
    code = bytearray(section.data())
    base = places.of_section(number)
    arm64 = image["e_machine"] == "EM_AARCH64"
    for kind, offset, symbol, addend in places.relocations(number):
        place = base + offset
        if arm64 and kind in _ARM64:
            target = places.of_symbol(symbol) + addend
            _branch(code, offset, target - place, *_ARM64[kind])
        elif not arm64 and kind in _X86:
            size, relative = _X86[kind]
            value = places.of_symbol(symbol) + addend - (place if relative else 0)
            code[offset : offset + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
        elif not arm64 and kind in _X86_SLOTS:
            value = places.elsewhere(("slot", symbol)) + addend - place
            code[offset : offset + 4] = (value % (1 << 32)).to_bytes(4, "little")
    return bytes(code)


def _branch(code: bytearray, offset: int, distance: int, low: int, width: int) -> None:
    """Write the distance of an AArch64 branch; what is out of reach goes as far as can be."""
    most = 1 << (width - 1)
    words = min(max(distance // 4, -most), most - 1)
    word = int.from_bytes(code[offset : offset + 4], "little")
    mask = ((1 << width) - 1) << low
    word = word & ~mask | (words << low) & mask
    code[offset : offset + 4] = word.to_bytes(4, "little")
