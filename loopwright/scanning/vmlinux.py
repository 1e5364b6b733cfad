"""A vmlinux: its own symbols, and its alternatives as applied on a CPU."""

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from loopwright import files
from loopwright.code import elf, instructions
from loopwright.code.elf import (
    ALTERNATIVES,
    PLAIN_BYTES,
    X86_BYTES,
    Edits,
    Entry,
    Section,
    Symbol,
    arm64_entry,
    x86_entry,
)
from loopwright.errors import InputError, unknown
from loopwright.rows import counted

if TYPE_CHECKING:
    import numpy as np

_DIGITS = b"".join(bytes((digit, 0)) for digit in b"0123456789")
_TOKENS = 256
_MARKED_NAMES = 256  # names between two markers
_FARTHEST_TOKENS = 1 << 26  # bytes between the number of names and the tokens, at most
_MOST_NAMES = 1 << 24  # names, at most
_NM_LETTERS = {bytes((c,)) for c in b"aAbBcCdDgGiInNrRsStTuUvVwW"}  # letters of nm


def kallsyms_symbols(content: bytes) -> list[tuple[int, str, str]]:
    """Return address, kind (a letter of nm) and name of each symbol, [] if not found."""
    at = content.find(_DIGITS)
    while at >= 0:
        if tokens := _token_table(content, at):
            start, behind, texts = tokens
            if names := _name_table(content, start, texts):
                return _symbols(content, behind, names, texts)
        at = content.find(_DIGITS, at + 1)
    return []


def _token_table(content: bytes, digits: int) -> tuple[int, int, list[bytes]] | None:
    """Return the start of the tokens, the end of their index, and the tokens."""
    start = digits
    for _ in range(ord("0")):
        start = content.rfind(b"\0", 0, start - 1) + 1
        if start <= 0:
            return None
    # The data before the first token need not end in a zero; the tokens are aligned to 8 bytes.
    for first in (start, *range(start + (-start) % 8, content.find(b"\0", start), 8)):
        if tokens := _tokens_at(content, first):
            return tokens
    return None


def _tokens_at(content: bytes, start: int) -> tuple[int, int, list[bytes]] | None:
    """Return the tokens that begin here, as _token_table does; None without a matching index."""
    texts: list[bytes] = []
    offsets: list[int] = []
    at = start
    for _ in range(_TOKENS):
        end = content.find(b"\0", at, at + 256)
        if end < 0:
            return None
        texts.append(content[at:end])
        offsets.append(at - start)
        at = end + 1
    if offsets[-1] > 0xFFFF:
        return None
    index = struct.pack(f"<{_TOKENS}H", *offsets)
    index_at = content.find(index, at, at + 16 + len(index))
    return (start, index_at + len(index), texts) if index_at >= 0 else None


@dataclass(frozen=True)
class _NameTable:
    """The table of names in a kernel image: the offset of its length, its start, its length."""

    count_at: int
    start: int
    count: int


def _name_table(content: bytes, tokens: int, texts: list[bytes]) -> _NameTable | None:
    """Find the names before the tokens: their number, the names, then the markers."""
    import numpy as np

    first = max(tokens - _FARTHEST_TOKENS, 0) & ~7
    words = np.frombuffer(content[first : tokens - (tokens - first) % 8], "<u4").reshape(-1, 2)
    likely = (words[:, 0] >= _MARKED_NAMES) & (words[:, 0] < _MOST_NAMES) & (words[:, 1] == 0)
    for at in np.flatnonzero(likely)[::-1].tolist():
        start, count = first + 8 * (at + 1), int(words[at, 0])
        second = _after_names(content, start, _MARKED_NAMES, texts)
        if second < 0 or start + 2 * count > tokens:
            continue
        end = _after_names(content, second, count - _MARKED_NAMES, texts)
        marks = end + (-end) % 8  # offsets of every 256th name
        if end > 0 and content[marks : marks + 8] == struct.pack("<II", 0, second - start):
            return _NameTable(start - 8, start, count)
    return None


def _length(content: bytes, at: int) -> tuple[int, int]:
    """Return the length of a packed name, of one byte or (since 6.1) two, and its first byte."""
    size = content[at]
    if size & 0x80:
        return size & 0x7F | content[at + 1] << 7, at + 2
    return size, at + 1


def _after_names(content: bytes, at: int, count: int, texts: list[bytes]) -> int:
    """Return the position after `count` names, -1 if one of them is invalid."""
    for _ in range(count):
        if at + 3 > len(content):
            return -1
        size, begin = _length(content, at)
        if size == 0 or texts[content[begin]][:1] not in _NM_LETTERS:
            return -1
        at = begin + size
    return at


def _symbols(
    content: bytes, behind: int, names: _NameTable, tokens: list[bytes]
) -> list[tuple[int, str, str]]:
    """Return address, kind and name of each symbol, by the addresses before or behind the names."""
    texts = list(_texts(content, names, tokens))
    size = 4 * names.count + (-4 * names.count) % 8
    # The offsets and their base are before the number of names, since Linux 6.4 at the end.
    early, late = names.count_at - 8 - size, behind + (-behind) % 8
    for start, base_at in ((early, names.count_at - 8), (late, late + size)):
        if start < 0 or base_at + 8 > len(content):
            continue
        offsets = struct.unpack_from(f"<{names.count}i", content, start)
        (base,) = struct.unpack_from("<Q", content, base_at)
        if addresses := _addresses(offsets, base):
            pairs = zip(addresses, texts, strict=False)
            return [(address, text[:1], text[1:]) for address, text in pairs if len(text) > 1]
    return []


def _texts(content: bytes, names: _NameTable, tokens: list[bytes]) -> Iterator[str]:
    at = names.start
    for _ in range(names.count):
        if at + 2 > len(content):
            return
        size, begin = _length(content, at)
        at = begin + size
        yield b"".join(tokens[n] for n in content[begin:at]).decode(errors="replace")


def _addresses(offsets: tuple[int, ...], base: int) -> list[int]:
    """Return the addresses, or [] where these are no offsets: addresses never fall.

    With absolute per-CPU symbols, other offsets are negative, counted from the base less one.
    """
    if sum(offset < 0 for offset in offsets) > len(offsets) // 2:
        addresses = [base - 1 - offset if offset < 0 else offset for offset in offsets]
    else:
        addresses = [base + (offset & 0xFFFFFFFF) for offset in offsets]
    falls = sum(a > b for a, b in pairwise(addresses))
    return addresses if falls <= 1 and any(offsets) else []


_TEXT_LETTERS = frozenset("tTwW")  # letters of nm for symbols in text
_KASLR_STEP = 1 << 21  # a kernel relocated at boot (KASLR) moves by multiples of 2 MiB


@dataclass(frozen=True)
class Names:
    """Names of routines with their addresses, sorted by these; base is the address of _text."""

    routines: tuple[tuple[int, str], ...]
    base: int | None

    @classmethod
    def of(cls, symbols: Iterable[tuple[int, str, str]]) -> Self:
        """Return the routines among symbols given as address, letter of nm and name."""
        base, routines = None, []
        for address, kind, name in symbols:
            if name == "_text":
                base = address
            if kind in _TEXT_LETTERS:
                routines.append((address, name))
        return cls(tuple(sorted(routines)), base)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a System.map, or the text of /proc/kallsyms; InputError for another format."""
        try:
            text = files.finite(path).read_text(errors="replace")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        symbols = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words:
                continue
            try:
                address, kind, name = int(words[0], 16), words[1], words[2]
            except (ValueError, IndexError):
                raise InputError(
                    f"{path}:{number}: {line[:60]!r} is not ADDRESS TYPE NAME as in System.map"
                ) from None
            if len(words) == 3:  # a fourth word names a module, whose code is elsewhere
                symbols.append((address, kind, name))
        names = cls.of(symbols)
        if names.routines and not names.routines[-1][0]:
            raise InputError(
                f"{path} has all addresses 0: read /proc/kallsyms as root, or give System.map"
            )
        return names

    def given(self, sections: Iterable[Section], source: str) -> list[Section]:
        """Return sections with these names instead of their own.

        Names of a running kernel are shifted to its linked addresses, by the address of _text.
        InputError, with the names' source, where no name is in the code.
        """
        own_sections = list(sections)
        shift = self._shift(own_sections)
        renamed = [self._renamed(section, shift) for section in own_sections]
        if not any(section.symbols for section in renamed):
            replacement = "the real System.map" if not self.routines else "one of this very kernel"
            raise InputError(f"none of {source}'s names lies in the code: give {replacement}")
        return renamed

    def _shift(self, sections: list[Section]) -> int:
        """Return the distance of these names from the sections' linked addresses."""
        texts = [s.address for s in sections if s.name in (".text", ".head.text")]
        if self.base is None:
            return 0
        image = any(s.name == "Image" for s in sections)
        shift = self.base - (0 if image else min(texts, default=0))
        return shift if image or shift % _KASLR_STEP == 0 else 0

    def _renamed(self, section: Section, shift: int) -> Section:
        symbols = [
            Symbol(address - shift, 0, name, True)
            for address, name in self.routines
            if section.address <= address - shift < section.end
        ]
        return replace(section, symbols=tuple(symbols))


# The bits of features in each 32-bit word, by their names in /proc/cpuinfo. Words 0 to 18, except
# 3, 7, 8 and 11, are registers of CPUID (leaf 1, 7, 0xd, 0x80000001, 0x80000008: Intel SDM volume
# 2A, AMD APM volume 3); those four are Linux's own, of which the bits common to 6.1 and 6.12 are
# here.
_X86_WORDS = {
    0: {"fpu": 0, "tsc": 4, "cx8": 8, "cmov": 15, "mmx": 23, "fxsr": 24, "sse": 25, "sse2": 26},
    1: {"syscall": 11, "nx": 20, "pdpe1gb": 26, "rdtscp": 27, "lm": 29},
    3: {"rep_good": 16, "nopl": 20, "always": 21},
    4: {"pni": 0, "pclmulqdq": 1, "ssse3": 9, "fma": 12, "cx16": 13, "pcid": 17, "sse4_1": 19,
        "sse4_2": 20, "x2apic": 21, "movbe": 22, "popcnt": 23, "aes": 25, "xsave": 26, "avx": 28,
        "f16c": 29, "rdrand": 30, "hypervisor": 31},
    6: {"svm": 2, "abm": 5, "sse4a": 6, "misalignsse": 7, "3dnowprefetch": 8, "topoext": 22},
    7: {"retpoline": 12},
    8: {"vmmcall": 15, "xenpv": 16},
    9: {"fsgsbase": 0, "bmi1": 3, "hle": 4, "avx2": 5, "smep": 7, "bmi2": 8, "erms": 9,
        "invpcid": 10, "rtm": 11, "avx512f": 16, "avx512dq": 17, "rdseed": 18, "adx": 19,
        "smap": 20, "avx512ifma": 21, "clflushopt": 23, "clwb": 24, "avx512cd": 28, "sha_ni": 29,
        "avx512bw": 30, "avx512vl": 31},
    10: {"xsaveopt": 0, "xsavec": 1, "xgetbv1": 2, "xsaves": 3},
    11: {"rethunk": 14, "unret": 15},
    12: {"avx_vnni": 4, "avx512_bf16": 5, "fzrm": 10, "fsrs": 11, "fsrc": 12},
    13: {"clzero": 0, "wbnoinvd": 9},
    16: {"avx512vbmi": 1, "umip": 2, "pku": 3, "ospke": 4, "waitpkg": 5, "avx512_vbmi2": 6,
         "gfni": 8, "vaes": 9, "vpclmulqdq": 10, "avx512_vnni": 11, "la57": 16, "rdpid": 22,
         "movdiri": 27, "movdir64b": 28},
    18: {"fsrm": 4, "serialize": 14, "ibt": 20},
}  # fmt: skip

X86_FEATURES = {
    name: 32 * word + bit for word, bits in _X86_WORDS.items() for name, bit in bits.items()
}
X86_ALWAYS = X86_FEATURES["always"]  # applied on every CPU


_SHORT_JUMP = 0xEB

# The lengths of nops that Linux fills with.
_X86_NOPS = instructions.X86_NOPS[:8]


def x86_entries(layout: "X86Layout") -> Iterator[Entry]:
    """Yield the entries of the table, in the layout in which all of them refer to code."""
    content, base = bytes(layout.content(layout.table)), layout.bases[layout.table]
    for size in X86_BYTES:
        if len(content) % size:
            continue
        entries = [x86_entry(content, at, base, size) for at in range(0, len(content), size)]
        if all(layout.place(e.at) and layout.fits(e) for e in entries):
            yield from entries
            return
    raise InputError(
        f"its {ALTERNATIVES} has {len(content)} bytes in none of the layouts of Linux 4.15 to 6.12"
    )


def _replacement(entry: Entry, layout: "X86Layout", taken: Collection[int]) -> bytes | None:
    """Return the replacement, adjusted to its new address, or None if it is not applied."""
    has_name = entry.feature in X86_FEATURES.values()
    if (entry.feature in taken) == entry.inverse or (entry.inverse and not has_name):
        return None
    place = layout.place(entry.new)
    if entry.made or place is None:
        return None
    new = bytes(layout.content(place[0])[place[1] : place[1] + entry.size])
    with suppress(InputError):  # a short branch out of it stays as it is
        new = instructions.moved("x86_64", new, entry.new, entry.at)
    return new


def _padded(text: bytes, length: int) -> bytes:
    """Return text padded with nops; single nops at its end are joined to longer ones."""
    stripped = text[:length].rstrip(b"\x90")
    if len(stripped) > 1 and len(stripped) < len(text) and stripped[-1] != _SHORT_JUMP:
        text = stripped
    elif not stripped:
        text = b""
    missing = length - len(text)
    while missing > 0:
        nop = _X86_NOPS[min(missing, len(_X86_NOPS)) - 1]
        text += nop
        missing -= len(nop)
    return text


class X86Layout:
    """Sections of an ELF file at their addresses; those of an object one after another."""

    def __init__(self, image: ELFFile) -> None:
        self._image = image
        object_ = image["e_type"] == "ET_REL"
        self._places = elf.Places(image) if object_ else None
        self._contents: dict[int, bytearray] = {}
        self.bases: dict[int, int] = {}
        self.table: int = image.get_section_index(ALTERNATIVES) or 0
        for number, section in enumerate(image.iter_sections()):
            if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR or section.name == ALTERNATIVES:
                places = self._places
                base = places.of_section(number) if places else section["sh_addr"]
                self.bases[number] = base
        self._ends = {n: b + image.get_section(n)["sh_size"] for n, b in self.bases.items()}

    def content(self, number: int) -> bytearray:
        """Return the bytes of a section, with the edits so far."""
        if number not in self._contents:
            section = self._image.get_section(number)
            places = self._places
            code = elf.applied(self._image, places, number) if places else section.data()
            self._contents[number] = bytearray(code)
        return self._contents[number]

    def place(self, address: int) -> tuple[int, int] | None:
        """Return the section of code at an address, and the offset in it."""
        for number, base in self.bases.items():
            if base <= address < self._ends[number]:
                return number, address - base
        return None

    def fits(self, entry: Entry) -> bool:
        """True if a replacement, if any, is in code and is no longer than the text."""
        room = entry.size <= entry.length
        return room and (not entry.size or self.place(entry.new) is not None)


# Names in /proc/cpuinfo, or else the architecture's, by the kernel's descriptions of features.
_ARM64_WORDS = {
    "LSE atomic instructions": "atomics", "CRC32 instructions": "crc32",
    "Scalable Vector Extension": "sve", "Scalable Matrix Extension": "sme",
    "Data cache clean to Point of Persistence": "dcpop",
    "Data cache clean to Point of Deep Persistence": "dcpodp",
    "Speculative Store Bypassing Safe (SSBS)": "ssbs", "Speculation barrier (SB)": "sb",
    "Random Number Generator": "rng", "Branch Target Identification": "bti",
    "Memory Tagging Extension": "mte", "RCpc load-acquire (LDAPR)": "lrcpc",
    "WFx with timeout": "wfxt", "Data independent timing control (DIT)": "dit",
    "Memory Copy and Memory Set instructions": "mops", "Enhanced Counter Virtualization": "ecv",
    "Address authentication (architected QARMA5 algorithm)": "paca",
    "Generic authentication (architected QARMA5 algorithm)": "pacg",
    "Privileged Access Never": "pan", "Enhanced Privileged Access Never": "epan",
    "User Access Override": "uao", "E0PD": "e0pd", "Virtualization Host Extensions": "vhe",
    "RAS Extension Support": "ras", "Activity Monitors Unit (AMU)": "amu",
    "Data cache clean to the PoU not required for I/D coherence": "idc",
    "Instruction cache invalidation not required for I/D coherence": "dic",
    "Stage-2 Force Write-Back": "fwb", "ARMv8.4 Translation Table Level": "ttl",
    "TLB range maintenance instructions": "tlbirange", "Hardware dirty bit management": "dbm",
    "Common not Private translations": "cnp", "Fine Grained Traps": "fgt",
    "HCRX_EL2 register": "hcx", "GIC system register CPU interface": "gicv3",
    "Kernel page table isolation (KPTI)": "kpti",
}  # fmt: skip
ARM64_FEATURES = frozenset(_ARM64_WORDS.values())

_R_RELATIVE = 1027  # R_AARCH64_RELATIVE, whose entry is: offset, type, addend
_LEAST_ADDRESS = 0xFFFF << 48  # the lowest address of a kernel
_BASE_ALIGNMENT = 0x10000  # the alignment of a kernel's base address
ARM64_MOST_FEATURES = 1024  # numbers of features, at most


def arm64_features(content: bytes) -> dict[str, int]:
    """Return the numbers of features in the memory of a linked kernel, by their names.

    content begins at the kernel's base. Empty if it has no such table.
    """
    import numpy as np

    positions = {name: _position(content, text) for text, name in _ARM64_WORDS.items()}
    text_positions = {name: at for name, at in positions.items() if at >= 0}
    words = np.frombuffer(content[: len(content) & ~7], "<u8")
    pointers = np.flatnonzero(words >= _LEAST_ADDRESS)
    values = words[pointers]
    base = _linked_base(values, list(text_positions.values()))
    numbers: dict[str, int] = {}
    for name, at in text_positions.items():
        for hit in pointers[values == base + at] if base else ():
            number = _feature_number(content, words, int(hit), base)
            if number is not None:
                numbers.setdefault(name, number)
    return numbers


def _position(content: bytes, text: str) -> int:
    """Return the offset of a whole string in memory, -1 without one."""
    at = content.find(b"\0" + text.encode() + b"\0")
    return at + 1 if at >= 0 else -1


def _linked_base(values: "np.ndarray", text_positions: list[int]) -> int:
    """Return the address that a kernel was linked for, on which most pointers to texts agree."""
    import numpy as np

    votes: Counter[int] = Counter()
    for at in text_positions:
        bases = values - np.uint64(at)
        votes.update(set(bases[bases % np.uint64(_BASE_ALIGNMENT) == 0].tolist()))
    (best, count), *_ = votes.most_common(1) or [(0, 0)]
    return best if 2 * count > len(text_positions) else 0


def _feature_number(content: bytes, words: "np.ndarray", hit: int, base: int) -> int | None:
    """Return the number after a pointer, None if the pointer is not of a table of features.

    The pointer is in the table itself, or in a relocation with its position in the table.
    """
    relocated = hit >= 2 and words[hit - 1] == _R_RELATIVE
    at = int(words[hit - 2]) - base if relocated else 8 * hit
    number = int.from_bytes(content[at + 8 : at + 10], "little")
    kind = int.from_bytes(content[at + 10 : at + 16], "little")
    in_table = 0 <= at <= len(content) - 16 and number < ARM64_MOST_FEATURES and 0 < kind < 1 << 16
    return number if in_table else None


ARM64_NOPS = "alt_cb_patch_nops"
_FEWEST_ENTRIES = 16  # least entries of a table that is recognised by its content
_ARM64_NOP = bytes.fromhex("1f2003d5")


def arm64_entries(content: bytes) -> list[Entry]:
    """Return the alternatives in a kernel's memory; the table is recognised by its content."""
    import numpy as np

    words = np.frombuffer(content[: len(content) & ~3], "<i4").astype(np.int64)
    if len(words) < 3 * _FEWEST_ENTRIES:
        return []
    position = 4 * np.arange(len(words) - 2)
    at, new, last = position + words[:-2], position + 4 + words[1:-1], words[2:] & 0xFFFFFFFF
    length, size = last >> 16 & 0xFF, last >> 24
    good = (at >= 0) & (at + length <= len(content)) & (new >= 0) & (new < len(content))
    good &= (at & 3 == 0) & (new & 3 == 0) & (length & 3 == 0) & (length > 0)
    good &= (size == length) | (size == 0)
    good &= last & 0x7FFF < ARM64_MOST_FEATURES
    first, count = _longest_run(good)
    if count < _FEWEST_ENTRIES:
        return []
    return [arm64_entry(content, 4 * n, 0) for n in range(first, first + 3 * count, 3)]


def _longest_run(good: "np.ndarray") -> tuple[int, int]:
    """Return the start of the longest run of every third position, and its length."""
    import numpy as np

    best = (0, 0)
    for start in range(3):
        padded = np.concatenate(([False], good[start::3], [False])).astype(np.int8)
        change = np.flatnonzero(np.diff(padded))
        begins, ends = change[::2], change[1::2]
        if len(begins):
            n = int(np.argmax(ends - begins))
            count = int(ends[n] - begins[n])
            best = max(best, (start + 3 * int(begins[n]), count), key=lambda run: run[1])
    return best


def arm64_replacement(content: bytes, entry: Entry) -> bytes:
    """Return the replacement of an alternative: nops if a function makes it."""
    if entry.made:
        return _ARM64_NOP * (entry.length // 4)
    return instructions.moved(
        "arm64", content[entry.new : entry.new + entry.length], entry.new, entry.at
    )


@dataclass
class Alternatives:
    """The alternatives of a file: their number, and the number of applied ones.

    unknown counts those whose feature has no name here, or whose replacement the kernel makes at
    boot: they are left as linked.
    """

    features: frozenset[str] | None = None
    total: int = 0
    applied: int = 0
    unknown: int = 0

    def __post_init__(self) -> None:
        """Raise InputError for an unknown feature's name."""
        for name in self.features or ():
            if name not in X86_FEATURES and name not in ARM64_FEATURES:
                raise unknown("feature", name, [*X86_FEATURES, *ARM64_FEATURES])

    def check(self, name: str) -> None:
        """Raise InputError if features are given and the file has no alternatives."""
        if self.features is not None and not self.total:
            raise InputError(
                f"{name} has no alternatives of a kernel that --features could choose by: "
                "leave it out"
            )

    @property
    def summary(self) -> str:
        """A sentence on the text that was scanned."""
        if not self.total:
            return "text as linked"
        if self.features is None:
            count = counted(self.total, "alternative")
            return f"text as linked: none of its {count} is applied (--features)"
        named = ", ".join(sorted(self.features))
        return (
            f"text as patched on a CPU with {named} alone: {self.applied:,} of "
            f"{counted(self.total, 'alternative')} applied; "
            f"{counted(self.unknown, 'is', 'are')} for features that have no name here, or made as "
            "it boots"
        )

    def edits(self, image: ELFFile) -> Edits:
        """Return the edits of the code of an ELF file."""
        table = image.get_section_by_name(ALTERNATIVES)
        if table is None or not table["sh_size"]:
            return {}
        if image["e_machine"] == "EM_X86_64":
            return self._x86(image)
        if image["e_type"] == "ET_REL":
            self.total += table["sh_size"] // PLAIN_BYTES
            if self.features is not None:
                raise InputError(
                    "a part of an arm64 kernel does not say by which numbers it knows features, "
                    "which --features could choose by: scan the kernel, or leave it out"
                )
            return {}
        return self._arm64_elf(image)

    def patched(self, content: bytes) -> bytes:
        """Return an arm64 Image with its own patches applied."""
        named = {name: address for address, _, name in kallsyms_symbols(content)}
        nops = {named[ARM64_NOPS] - named["_text"]} if {ARM64_NOPS, "_text"} <= {*named} else set()
        out = bytearray(content)
        for at, text in self._arm64(content, nops):
            out[at : at + len(text)] = text
        return bytes(out)

    def _x86(self, image: ELFFile) -> Edits:
        layout = X86Layout(image)
        entries = list(x86_entries(layout))
        self.total += len(entries)
        out: dict[int, list[tuple[int, bytes]]] = {}
        if self.features is None:
            return out
        self._require_known(X86_FEATURES, "x86-64")
        self.unknown += sum(entry.feature not in X86_FEATURES.values() for entry in entries)
        taken = {X86_FEATURES[name] for name in self.features} | {X86_ALWAYS}
        for entry in entries:
            if (place := layout.place(entry.at)) is not None:
                number, at = place
                code = layout.content(number)
                old, new = bytes(code[at : at + entry.length]), _replacement(entry, layout, taken)
                # In unchanged code nops are joined, as the kernel does.
                text = _padded(old if new is None else new, len(old))
                code[at : at + len(text)] = text
                self.applied += new is not None
                out.setdefault(number, []).append((at, text))
        return out

    def _arm64_elf(self, image: ELFFile) -> Edits:
        """Return the edits of a linked arm64 kernel, whose table is in its initial memory."""
        parts = [s for s in image.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_filesz"]]
        base = min(part["p_vaddr"] for part in parts)
        memory = bytearray(max(p["p_vaddr"] + p["p_filesz"] for p in parts) - base)
        for part in parts:
            at = part["p_vaddr"] - base
            memory[at : at + part["p_filesz"]] = part.data()
        symbols = image.get_section_by_name(".symtab")
        named = (
            symbols.get_symbol_by_name(ARM64_NOPS)
            if isinstance(symbols, SymbolTableSection)
            else None
        )
        nops = {symbol["st_value"] - base for symbol in named or ()}
        out: dict[int, list[tuple[int, bytes]]] = {}
        places = [
            (number, section["sh_addr"] - base, section["sh_size"])
            for number, section in enumerate(image.iter_sections())
            if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR
        ]
        for at, text in self._arm64(bytes(memory), nops):
            for number, start, size in places:
                if start <= at < start + size:
                    out.setdefault(number, []).append((at - start, text))
        return out

    def _arm64(self, content: bytes, nops: Collection[int]) -> Iterator[tuple[int, bytes]]:
        """Yield the edits of a kernel's memory; nops are addresses of that function."""
        entries = arm64_entries(content)
        self.total += len(entries)
        if self.features is None or not entries:
            return
        numbers = arm64_features(content)
        self._require_known(numbers, "this arm64 kernel")
        known_numbers = set(numbers.values())
        taken = {numbers[name] for name in self.features}
        for entry in entries:
            if entry.feature not in known_numbers or (entry.made and entry.new not in nops):
                self.unknown += 1
            elif entry.feature in taken:
                self.applied += 1
                yield entry.at, arm64_replacement(content, entry)

    def _require_known(self, names: Collection[str], which: str) -> None:
        """Raise InputError for a feature that is none of the names by which code is patched."""
        for name in sorted(self.features or ()):
            if name not in names:
                raise InputError(
                    f"feature {name!r} is none by which code of {which} is patched; "
                    f"known: {', '.join(sorted(names)) or 'none'}"
                )
