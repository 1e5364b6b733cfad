"""Relocated code of ELF files (objects, archives, kernel modules, programs); unwind tables."""

import bisect
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, cast

import arpy
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from loopwright import files
from loopwright.errors import InputError, misplaced

# Relocations of x86-64 (psABI, table 4.9): bytes of the field, and whether it is PC-relative.
_X86_FIELDS = {
    1: (8, False), 2: (4, True), 4: (4, True), 10: (4, False), 11: (4, False), 15: (1, True),
    24: (8, True),
}  # fmt: skip
_X86_GOT_SLOTS = {9, 22, 41, 42}  # the field refers to a slot (GOT) that holds the address
# Relocations of AArch64 (ELF for AArch64, 5.7): lowest bit and width of a branch.
_ARM64_FIELDS = {279: (5, 14), 280: (5, 19), 282: (0, 26), 283: (0, 26)}
_SPACING = 4096 + 64  # bytes between addresses, so that none differ by a multiple of 4 KiB


class Places:
    """The addresses assigned to an object's symbols."""

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
        """Return the start address of a section."""
        if index not in self._sections:
            size = self.image.get_section(index)["sh_size"]
            self._sections[index] = self._next
            self._next += (size // _SPACING + 1) * _SPACING
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
        """Return an address for something that is not defined in this object."""
        if key not in self._elsewhere:
            self._elsewhere[key] = self._next
            self._next += _SPACING
        return self._elsewhere[key]

    def relocations(self, number: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield kind, offset, symbol and addend of each relocation of a section."""
        for section in self._relocations.get(number, ()):
            for entry in section.iter_relocations():
                addend = entry["r_addend"] if section.is_RELA() else 0
                yield entry["r_info_type"], entry["r_offset"], entry["r_info_sym"], addend


def applied(image: ELFFile, places: Places, number: int) -> bytes:
    """Return the code of a section by its number, with its relocations applied."""
    section = image.get_section(number)
    code = bytearray(section.data())
    base = places.of_section(number)
    arm64 = image["e_machine"] == "EM_AARCH64"
    for kind, offset, symbol, addend in places.relocations(number):
        place = base + offset
        if arm64 and kind in _ARM64_FIELDS:
            target = places.of_symbol(symbol) + addend
            _write_branch(code, offset, target - place, *_ARM64_FIELDS[kind])
        elif not arm64 and kind in _X86_FIELDS:
            size, relative = _X86_FIELDS[kind]
            value = places.of_symbol(symbol) + addend - (place if relative else 0)
            code[offset : offset + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
        elif not arm64 and kind in _X86_GOT_SLOTS:
            value = places.elsewhere(("slot", symbol)) + addend - place
            code[offset : offset + 4] = (value % (1 << 32)).to_bytes(4, "little")
    return bytes(code)


def _write_branch(code: bytearray, offset: int, distance: int, low: int, width: int) -> None:
    """Write the distance of an AArch64 branch, limited to its range."""
    most = 1 << (width - 1)
    words = min(max(distance // 4, -most), most - 1)
    word = int.from_bytes(code[offset : offset + 4], "little")
    mask = ((1 << width) - 1) << low
    word = word & ~mask | (words << low) & mask
    code[offset : offset + 4] = word.to_bytes(4, "little")


_ENCODINGS = bytes((0x03, 0x3B))  # a count of 4 bytes; pairs of 4 bytes relative to the section


def unwind_starts(image: ELFFile) -> tuple[int, ...]:
    """Return the addresses of routines by .eh_frame_hdr (LSB core, 10.6.2), sorted.

    Empty if there is no such section, or one in another encoding than linkers write.
    """
    section = image.get_section_by_name(".eh_frame_hdr")
    if section is None or section["sh_type"] == "SHT_NOBITS":
        return ()
    content = section.data()
    if len(content) < 12 or content[0] != 1 or content[2:4] != _ENCODINGS:
        return ()
    (count,) = struct.unpack_from("<I", content, 8)
    table = content[12 : 12 + 8 * count]
    pairs = struct.iter_unpack("<ii", table[: len(table) - len(table) % 8])
    return tuple(sorted({section["sh_addr"] + start for start, _ in pairs}))


_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "arm64"}
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym

# Bytes to write over code before it is read, by section number: offset and bytes.
Edits = Mapping[int, Sequence[tuple[int, bytes]]]


@dataclass(frozen=True)
class Symbol:
    """A name of an address; routine is True if it is a function, or visible outside of the file.

    local is True if it is not visible outside of the file.
    """

    address: int
    size: int
    name: str
    routine: bool
    local: bool = False


@dataclass(frozen=True)
class Section:
    """A section of code: its address (0 in an object), its symbols by address.

    file is the member of an archive, else "". data are the ranges that hold no code, by mapping
    symbols; starts the addresses of routines (or parts of them) by unwind tables; entries the entry
    points of a program. alignment is that of a section of an object, 0 in a linked file. constants
    are the addresses and contents of a linked file's read-only sections without code.
    """

    file: str
    isa: str
    name: str
    address: int
    code: bytes
    symbols: tuple[Symbol, ...]
    data: tuple[range, ...]
    starts: tuple[int, ...] = ()
    entries: tuple[int, ...] = ()
    alignment: int = 0
    constants: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)

    @property
    def end(self) -> int:
        return self.address + len(self.code)

    @cached_property
    def routines(self) -> list[Symbol]:
        """Its routines by address, one for each address, without names inside of another one."""
        chosen: list[Symbol] = []
        end = self.address
        for symbol in self.symbols:
            if symbol.routine and (symbol.size or symbol.address >= end):
                if not chosen or chosen[-1].address != symbol.address:
                    chosen.append(symbol)
                end = max(end, symbol.address + symbol.size)
        return chosen

    def extent(self, symbol: Symbol) -> range:
        """Return the addresses of a routine: by its size, else up to the next one."""
        if symbol.size:
            return range(symbol.address, symbol.address + symbol.size)
        later = [s.address for s in self.routines if s.address > symbol.address]
        return range(symbol.address, min(later, default=self.end))

    def routine(self, address: int) -> Symbol | None:
        """Return the routine at an address, or the last one before it."""
        at = bisect.bisect_right(self.routines, address, key=lambda s: s.address)
        return self.routines[at - 1] if at else None

    def bytes_of(self, start: int, end: int) -> bytes:
        return self.code[start - self.address : end - self.address]


def read(path: Path) -> list[Section]:
    """Return all sections of code; InputError if the file is not for a supported ISA."""
    return sections(files.content(path, regular=True), str(path))


def isa_of(sections: Sequence[Section], name: object) -> str:
    """Return the ISA of all of a file's sections; InputError if it has none, or several."""
    if not sections:
        raise InputError(f"{name} holds no code: none of its sections is executable")
    isas = {section.isa for section in sections}
    if len(isas) > 1:
        raise InputError(f"{name} holds code of several ISAs: give objects of one")
    return isas.pop()


def sections(
    content: bytes, name: str, edits: Callable[[ELFFile], Edits] | None = None
) -> list[Section]:
    """Return all sections of code of a file's content; name is the file's name in errors.

    edits returns the bytes to write over the code of an ELF file first. InputError if it is no
    ELF file, or archive of such files, for a supported ISA.
    """
    if not content.startswith((b"!<", b"\x7fELF")):
        if content and b"\0" not in content:
            raise misplaced(f"{name} is text and no ELF file", "--asm", name)
        raise InputError(f"{name} is no ELF file; give an object, an archive or a program")
    try:
        if content.startswith(b"!<thin>\n"):
            raise InputError(f"{name} is a thin archive, which holds no code: name its members")
        if content.startswith(b"!<arch>\n"):
            return list(_archive(content, edits))
        return list(_sections(content, "", edits))
    except _OtherMachineError as error:
        raise InputError(f"{name} is for {error}; give one for x86-64 or 64-bit Arm") from None
    except InputError:
        raise
    except Exception as error:  # a damaged file causes errors of any kind in the parsers
        text = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{name} is no ELF file that can be read: {text}") from None


class _OtherMachineError(Exception):
    """A file is for another machine."""


def _archive(content: bytes, edits: Callable[[ELFFile], Edits] | None) -> Iterator[Section]:
    with arpy.Archive(fileobj=BytesIO(content)) as archive:
        for header in archive.infolist():
            member = archive.open(header).read()
            if member[:4] == b"\x7fELF":
                yield from _sections(member, header.name.decode(errors="replace"), edits)


def _sections(
    content: bytes, name: str, edits: Callable[[ELFFile], Edits] | None
) -> Iterator[Section]:
    image = ELFFile(BytesIO(content))
    isa = _MACHINES.get(image["e_machine"])
    if isa is None or image.elfclass != 64 or not image.little_endian:
        order = "" if image.little_endian else ", big-endian"
        raise _OtherMachineError(f"{image.get_machine_arch()} ({image.elfclass}-bit{order})")
    symbols = _symbols(image)
    places = Places(image) if image["e_type"] == "ET_REL" else None
    unwound = () if places else unwind_starts(image)
    entry = () if places else (image["e_entry"],)
    written = edits(image) if edits else {}
    constants = () if places else tuple(_constants(image))
    for number, section in enumerate(image.iter_sections()):
        if not section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR or section["sh_type"] != "SHT_PROGBITS":
            continue
        code = applied(image, places, number) if places else section.data()
        code = _edited(code, written.get(number, ()))
        if code:
            listed = sorted(
                symbols.get(number, []), key=lambda s: (s.address, not s.routine, -s.size)
            )  # at one address the longest routine first
            start = section["sh_addr"]
            end = start + len(code)
            yield Section(
                file=name,
                isa=isa,
                name=section.name,
                address=start,
                code=code,
                symbols=tuple(s for s in listed if not s.name.startswith("$")),
                data=tuple(_data_ranges(listed, end)),
                starts=tuple(a for a in unwound if start <= a < end),
                entries=tuple(a for a in entry if start <= a < end),
                alignment=max(section["sh_addralign"], 1) if places else 0,
                constants=constants,
            )


def _constants(image: ELFFile) -> Iterator[tuple[int, bytes]]:
    """Yield the address and contents of each section that is mapped, read-only and no code."""
    flags = SH_FLAGS.SHF_ALLOC | SH_FLAGS.SHF_WRITE | SH_FLAGS.SHF_EXECINSTR
    for section in image.iter_sections():
        if (
            section["sh_flags"] & flags == SH_FLAGS.SHF_ALLOC
            and section["sh_type"] == "SHT_PROGBITS"
        ):
            yield section["sh_addr"], section.data()


def _edited(code: bytes, edits: Sequence[tuple[int, bytes]]) -> bytes:
    out = bytearray(code)
    for at, new in edits:
        out[at : at + len(new)] = new
    return bytes(out)


def stripped(content: bytes) -> bool:
    """True if an ELF file has only dynamic symbols."""
    return (
        content.startswith(b"\x7fELF")
        and ELFFile(BytesIO(content)).get_section_by_name(".symtab") is None
    )


def _symbols(image: ELFFile) -> dict[int, list[Symbol]]:
    """Return the symbols by section, from the dynamic table if there is no other."""
    table = image.get_section_by_name(".symtab") or image.get_section_by_name(".dynsym")
    by_section: dict[int, list[Symbol]] = {}
    if not isinstance(table, SymbolTableSection):
        return by_section
    content, names = table.data(), image.get_section(table["sh_link"]).data()
    length = len(content) - len(content) % _SYMBOL.size
    for name, info, _, index, value, size in _SYMBOL.iter_unpack(content[:length]):
        kind = info & 15
        if not name or index == 0 or index >= _RESERVED or kind not in _KINDS:
            continue
        if text := names[name : names.find(b"\0", name)]:
            local = info >> 4 == _LOCAL
            routine = kind != _NOTYPE or not local
            symbol = Symbol(value, size, text.decode(errors="replace"), routine, local)
            by_section.setdefault(index, []).append(symbol)
    return by_section


_RESERVED = 0xFF00  # SHN_LORESERVE
_NOTYPE, _LOCAL = 0, 0  # STT_NOTYPE, STB_LOCAL
_KINDS = {_NOTYPE, 2, 10}  # and STT_FUNC, STT_GNU_IFUNC


def _data_ranges(symbols: list[Symbol], end: int) -> Iterator[range]:
    """Yield the ranges between mapping symbols $d and $x (ELF for Arm, 4.5.4)."""
    data_start = None
    for symbol in symbols:
        kind = symbol.name[:2]
        if kind == "$d" and data_start is None:
            data_start = symbol.address
        elif kind == "$x" and data_start is not None:
            yield range(data_start, symbol.address)
            data_start = None
    if data_start is not None:
        yield range(data_start, end)


ALTERNATIVES = ".altinstructions"
PLAIN_BYTES, FLAGGED_BYTES = 12, 14  # size of an entry
X86_BYTES = (FLAGGED_BYTES, PLAIN_BYTES, 13)  # sizes of an entry, newest layout first
_TOP_BIT = 0x8000  # of a feature's number: inverse on x86-64 without flags, a callback on arm64
_INVERSE, _DIRECT_CALL = 1, 2  # flags


class Entry(NamedTuple):
    """An alternative: addresses of the text and of its replacement, their lengths in bytes.

    It is applied where the CPU has the feature, with inverse where it lacks it. made is True if the
    kernel generates the replacement, by a function (at new on arm64) or from a pointer that it
    calls.
    """

    at: int
    new: int
    feature: int
    inverse: bool
    length: int
    size: int
    made: bool


def x86_entry(table: bytes, at: int, base: int, size: int) -> Entry:
    """Return the entry of a size at an offset of a table; base is the table's address."""
    if size == FLAGGED_BYTES:
        feature, flags = _u16(table, at + 8), _u16(table, at + 10)
        inverse, made = bool(flags & _INVERSE), bool(flags & _DIRECT_CALL)
        lengths = at + 12
    else:
        feature = _u16(table, at + 8)
        inverse, made = bool(feature & _TOP_BIT), False
        feature &= ~_TOP_BIT
        lengths = at + 10
    text, replacement = relative_pair(table, at, base)
    length, new_length = table[lengths : lengths + 2]
    return Entry(text, replacement, feature, inverse, length, new_length, made)


def arm64_entry(table: bytes, at: int, base: int) -> Entry:
    """Return the entry at an offset of a table; base is the table's address."""
    feature = _u16(table, at + 8)
    length, size = table[at + 10 : at + 12]
    made = bool(feature & _TOP_BIT) or not size
    text, replacement = relative_pair(table, at, base)
    return Entry(text, replacement, feature & ~_TOP_BIT, False, length, size, made)


def relative_pair(table: bytes, at: int, base: int) -> tuple[int, int]:
    """Return the two addresses at an offset of a table, each stored relative to its field.

    base is the table's address.
    """
    first, second = struct.unpack_from("<ii", table, at)
    return base + at + first, base + at + 4 + second


def _u16(table: bytes, at: int) -> int:
    return int.from_bytes(table[at : at + 2], "little")
