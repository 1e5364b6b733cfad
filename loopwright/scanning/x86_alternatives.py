"""The alternatives of an x86 kernel: where they are listed, and what stands there in their place.

x86 kernels have had three layouts of an entry of .altinstructions, told apart by its size: 13 bytes
before Linux 5.13 (with a field for padding), 12 up to 6.2 (feature and, in its top bit, "where it
is missing"), 14 since (feature and flags apart).
"""

import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from loopwright.code import elf
from loopwright.errors import InputError
from loopwright.scanning.x86_features import NUMBERS

SECTION = ".altinstructions"
_MISSING = 0x8000  # of a feature of 12 or 13 bytes; bit 0 of the flags of 14
_DIRECT_CALL = 2  # of those flags: a call through a pointer becomes a direct one
_CALL, _JUMP, _SHORT_JUMP = 0xE8, 0xE9, 0xEB

# What one instruction that does nothing looks like, by its length (Intel SDM, NOP, table 4-12).
_NOPS = [bytes.fromhex(h) for h in (
    "90", "6690", "0f1f00", "0f1f4000", "0f1f440000", "660f1f440000", "0f1f8000000000",
    "0f1f840000000000")]  # fmt: skip


class Entry(NamedTuple):
    """One alternative: addresses of the text and of its replacement, and for whom it is."""

    at: int
    new: int
    feature: int
    missing: bool
    length: int
    size: int
    direct: bool


def entries(layout: "Layout", number: int) -> Iterator[Entry]:
    """Yield the entries of the table, in the layout by which all of them name code."""
    content, base = bytes(layout.content(number)), layout.bases[number]
    for size in (14, 12, 13):
        if len(content) % size:
            continue
        found = [_entry(content, at, base, size) for at in range(0, len(content), size)]
        if all(layout.place(e.at) and layout.fits(e) for e in found):
            yield from found
            return
    raise InputError(
        f"its {SECTION} has {len(content)} bytes in none of the layouts of Linux 4.15 to 6.12"
    )


def written(
    layout: "Layout", found: Collection[Entry], taken: Collection[int]
) -> Iterator[tuple[bool, int, int, bytes]]:
    """Yield of each alternative if it is applied, and what then stands where: section, place, code.

    taken are the numbers of features that are there. Code that is left as it was gets its nops
    joined as the kernel does it.
    """
    for entry in found:
        if (place := layout.place(entry.at)) is not None:
            number, at = place
            old = bytes(layout.content(number)[at : at + entry.length])
            new = _chosen(entry, layout, taken)
            text = _filled(new if new is not None else old, len(old))
            layout.write(number, at, text)
            yield new is not None, number, at, text


def _chosen(entry: Entry, layout: "Layout", taken: Collection[int]) -> bytes | None:
    """Return the replacement, moved to where it is to stand, or None where it is not taken."""
    known = entry.feature in NUMBERS.values()
    if (entry.feature in taken) == entry.missing or (entry.missing and not known):
        return None
    place = layout.place(entry.new)
    if entry.direct or place is None:
        return None
    new = bytes(layout.content(place[0])[place[1] : place[1] + entry.size])
    if len(new) >= 5 and new[0] in (_CALL, _JUMP):
        (distance,) = struct.unpack_from("<i", new, 1)
        moved = distance + entry.new - entry.at
        new = new[:1] + struct.pack("<I", moved % (1 << 32)) + new[5:]
    return new


def _entry(content: bytes, at: int, base: int, size: int) -> Entry:
    old, new, feature = struct.unpack_from("<iiH", content, at)
    flags = int.from_bytes(content[at + 10 : at + 12], "little") if size == 14 else 0
    length, replacing = content[at + (12 if size == 14 else 10) :][:2]
    missing = bool(flags & 1) if size == 14 else bool(feature & _MISSING)
    number = feature if size == 14 else feature & ~_MISSING
    direct = bool(flags & _DIRECT_CALL)
    return Entry(base + at + old, base + at + 4 + new, number, missing, length, replacing, direct)


def _filled(text: bytes, length: int) -> bytes:
    """Return text filled up with nops, its own single ones at its end joined to longer ones."""
    bare = text[:length].rstrip(b"\x90")
    if len(bare) > 1 and len(bare) < len(text) and bare[-1] not in (_SHORT_JUMP,):
        text = bare
    elif not bare:
        text = b""
    left = length - len(text)
    while left > 0:
        nop = _NOPS[min(left, len(_NOPS)) - 1]
        text += nop
        left -= len(nop)
    return text


class Layout:
    """Sections of an ELF file at their addresses; those of an object one behind another."""

    def __init__(self, image: ELFFile) -> None:
        self._image = image
        object_ = image["e_type"] == "ET_REL"
        self._places = elf.Places(image) if object_ else None
        self._contents: dict[int, bytearray] = {}
        self.bases: dict[int, int] = {}
        self._names: dict[str, int] = {}
        for number, section in enumerate(image.iter_sections()):
            self._names.setdefault(section.name, number)
            if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR or section.name == SECTION:
                places = self._places
                base = places.of_section(number) if places else section["sh_addr"]
                self.bases[number] = base
        self._ends = {n: b + image.get_section(n)["sh_size"] for n, b in self.bases.items()}

    def number(self, name: str) -> int:
        """Return the number of a section by its name."""
        return self._names[name]

    def content(self, number: int) -> bytearray:
        """Return what is in a section, and what was written there."""
        if number not in self._contents:
            section = self._image.get_section(number)
            places = self._places
            code = elf.applied(self._image, places, number) if places else section.data()
            self._contents[number] = bytearray(code)
        return self._contents[number]

    def write(self, number: int, at: int, text: bytes) -> None:
        """Write over the content of a section."""
        self.content(number)[at : at + len(text)] = text

    def place(self, address: int) -> tuple[int, int] | None:
        """Return the section of code that an address lies in, and where in it."""
        for number, base in self.bases.items():
            if base <= address < self._ends[number]:
                return number, address - base
        return None

    def fits(self, entry: Entry) -> bool:
        """Say whether a replacement lies in code, where there is one, and is no longer."""
        room = entry.size <= entry.length
        return room and (not entry.size or self.place(entry.new) is not None)
