"""Read the code of ELF files: objects, archives of them, kernel modules, whole programs."""

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import arpy
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from loopwright.code import relocations
from loopwright.errors import InputError

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "arm64"}
_CODE = 4  # SHF_EXECINSTR


@dataclass(frozen=True)
class Symbol:
    """A name of an address; routine where it is a function, or known outside of the file."""

    address: int
    size: int
    name: str
    routine: bool


@dataclass(frozen=True)
class Section:
    """A section of code: where it lies (0 in an object), its symbols by address.

    data are the stretches of it that hold no code, as mapping symbols say.
    """

    file: str
    isa: str
    name: str
    address: int
    code: bytes
    symbols: tuple[Symbol, ...]
    data: tuple[range, ...]

    @property
    def end(self) -> int:
        """Return the address behind it."""
        return self.address + len(self.code)

    @cached_property
    def routines(self) -> list[Symbol]:
        """Its routines by address, one for each address, without names inside of another one."""
        found: list[Symbol] = []
        end = self.address
        for symbol in self.symbols:
            if symbol.routine and (symbol.size or symbol.address >= end):
                if not found or found[-1].address != symbol.address:
                    found.append(symbol)
                end = max(end, symbol.address + symbol.size)
        return found

    def routine(self, address: int) -> Symbol | None:
        """Return the routine that an address lies in or behind."""
        at = bisect.bisect_right(self.routines, address, key=lambda s: s.address)
        return self.routines[at - 1] if at else None

    def bytes_of(self, start: int, end: int) -> bytes:
        """Return the code between two addresses."""
        return self.code[start - self.address : end - self.address]


def read(path: Path) -> list[Section]:
    """Return all sections of code; InputError where the file is none for our ISAs."""
    try:
        with path.open("rb") as file:
            magic = file.read(8)
            file.seek(0)
            if magic == b"!<thin>\n":
                raise InputError(f"{path} is a thin archive, which holds no code: name its members")
            if magic == b"!<arch>\n":
                return list(_archive(file))
            return list(_sections(file, ""))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except _OtherMachineError as error:
        raise InputError(f"{path} is for {error}; give one for x86-64 or 64-bit Arm") from None
    except InputError:
        raise
    except Exception as error:  # a damaged file leads its readers to errors of any kind
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is no ELF file that can be read: {said}") from None


class _OtherMachineError(Exception):
    """A file is for another machine."""


def _archive(file: BinaryIO) -> Iterator[Section]:
    with arpy.Archive(fileobj=file) as archive:
        for header in archive.infolist():
            content = archive.open(header).read()
            if content[:4] == b"\x7fELF":
                yield from _sections(BytesIO(content), header.name.decode(errors="replace"))


def _sections(file: BinaryIO, name: str) -> Iterator[Section]:
    image = ELFFile(file)
    isa = _MACHINES.get(image["e_machine"])
    if isa is None or image.elfclass != 64 or not image.little_endian:
        order = "" if image.little_endian else ", big-endian"
        raise _OtherMachineError(f"{image.get_machine_arch()} ({image.elfclass}-bit{order})")
    symbols = _symbols(image)
    places = relocations.Places(image) if image["e_type"] == "ET_REL" else None
    for number, section in enumerate(image.iter_sections()):
        if not section["sh_flags"] & _CODE or section["sh_type"] != "SHT_PROGBITS":
            continue
        code = relocations.applied(image, places, number) if places else section.data()
        if code:
            own = sorted(symbols.get(number, []), key=_order)
            start = section["sh_addr"]
            kept = tuple(s for s in own if not s.name.startswith("$"))
            data = tuple(_data(own, start + len(code)))
            yield Section(name, isa, section.name, start, code, kept, data)


def _symbols(image: ELFFile) -> dict[int, list[Symbol]]:
    """Return the symbols of each section, of the dynamic table where there is no other."""
    table = image.get_section_by_name(".symtab") or image.get_section_by_name(".dynsym")
    found: dict[int, list[Symbol]] = {}
    if not isinstance(table, SymbolTableSection):
        return found
    for entry in table.iter_symbols():
        index, info = entry["st_shndx"], entry["st_info"]
        if entry.name and isinstance(index, int) and info["type"] in _KINDS:
            function = info["type"] != "STT_NOTYPE"
            routine = function or info["bind"] != "STB_LOCAL"
            one = Symbol(entry["st_value"], entry["st_size"], entry.name, routine)
            found.setdefault(index, []).append(one)
    return found


def _order(symbol: Symbol) -> tuple[int, bool, int]:
    """Order symbols by address; of one address the longest routine is first."""
    return symbol.address, not symbol.routine, -symbol.size


_KINDS = ("STT_FUNC", "STT_NOTYPE", "STT_GNU_IFUNC", "STT_LOOS")


def _data(symbols: list[Symbol], end: int) -> Iterator[range]:
    """Yield the stretches between mapping symbols $d and $x (ELF for Arm, 4.5.4)."""
    began = None
    for symbol in symbols:
        kind = symbol.name[:2]
        if kind == "$d" and began is None:
            began = symbol.address
        elif kind == "$x" and began is not None:
            yield range(began, symbol.address)
            began = None
    if began is not None:
        yield range(began, end)
