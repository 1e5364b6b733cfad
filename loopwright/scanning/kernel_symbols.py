"""Names of a kernel's routines: its own kallsyms table, System.map, /proc/kallsyms."""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np

from loopwright.code.elf import Section, Symbol
from loopwright.errors import InputError

_DIGITS = b"".join(bytes((digit, 0)) for digit in b"0123456789")
_TOKENS = 256
_EVERY = 256  # names between two markers
_FARTHEST = 1 << 26  # bytes between the number of names and the tokens
_MOST = 1 << 24  # names
_KINDS = {bytes((c,)) for c in b"aAbBcCdDgGiInNrRsStTuUvVwW"}  # as nm has them


def kallsyms_symbols(content: bytes) -> list[tuple[int, str, str]]:
    """Return address, kind (a letter as nm has it) and name of each symbol, none if not found."""
    at = content.find(_DIGITS)
    while at >= 0:
        if tokens := _tokens(content, at):
            start, behind, texts = tokens
            if names := _names(content, start, texts):
                return _read(content, behind, names, texts)
        at = content.find(_DIGITS, at + 1)
    return []


def _tokens(content: bytes, digits: int) -> tuple[int, int, list[bytes]] | None:
    """Return where the tokens begin, where their index ends, and the tokens."""
    start = digits
    for _ in range(ord("0")):
        start = content.rfind(b"\0", 0, start - 1) + 1
        if start <= 0:
            return None
    # What stands before the first token need not end in a zero; the tokens begin at 8 bytes.
    for first in (start, *range(start + (-start) % 8, content.find(b"\0", start), 8)):
        if found := _indexed(content, first):
            return found
    return None


def _indexed(content: bytes, start: int) -> tuple[int, int, list[bytes]] | None:
    """Return the same of tokens that begin here, None where no index agrees with them."""
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
    found = content.find(index, at, at + 16 + len(index))
    return (start, found + len(index), texts) if found >= 0 else None


@dataclass(frozen=True)
class _Names:
    """The table of names in a kernel image: offset of its length, its start, its length."""

    number: int
    start: int
    count: int


def _names(content: bytes, tokens: int, texts: list[bytes]) -> _Names | None:
    """Find the names before the tokens: their number, themselves, then the markers."""
    first = max(tokens - _FARTHEST, 0) & ~7
    words = np.frombuffer(content[first : tokens - (tokens - first) % 8], "<u4").reshape(-1, 2)
    likely = (words[:, 0] >= _EVERY) & (words[:, 0] < _MOST) & (words[:, 1] == 0)
    for at in np.flatnonzero(likely)[::-1].tolist():
        start, count = first + 8 * (at + 1), int(words[at, 0])
        second = _skipped(content, start, _EVERY, texts)
        if second < 0 or start + 2 * count > tokens:
            continue
        end = _skipped(content, second, count - _EVERY, texts)
        marks = end + (-end) % 8  # from where every 256th name is counted
        if end > 0 and content[marks : marks + 8] == struct.pack("<II", 0, second - start):
            return _Names(start - 8, start, count)
    return None


def _length(content: bytes, at: int) -> tuple[int, int]:
    """Return the length of a packed name, of one byte or (since 6.1) two, and where it begins."""
    size = content[at]
    if size & 0x80:
        return size & 0x7F | content[at + 1] << 7, at + 2
    return size, at + 1


def _skipped(content: bytes, at: int, count: int, texts: list[bytes]) -> int:
    """Return what is behind so many names, -1 where one of them is none."""
    for _ in range(count):
        if at + 3 > len(content):
            return -1
        size, begin = _length(content, at)
        if size == 0 or texts[content[begin]][:1] not in _KINDS:
            return -1
        at = begin + size
    return at


def _read(
    content: bytes, behind: int, names: _Names, tokens: list[bytes]
) -> list[tuple[int, str, str]]:
    texts = list(_texts(content, names, tokens))
    size = 4 * names.count + (-4 * names.count) % 8
    # The offsets and their base stand before the number of names, since Linux 6.4 behind it all.
    early, late = names.number - 8 - size, behind + (-behind) % 8
    for start, base_at in ((early, names.number - 8), (late, late + size)):
        if start < 0 or base_at + 8 > len(content):
            continue
        offsets = struct.unpack_from(f"<{names.count}i", content, start)
        (base,) = struct.unpack_from("<Q", content, base_at)
        if addresses := _addresses(offsets, base):
            pairs = zip(addresses, texts, strict=False)
            return [(address, text[:1], text[1:]) for address, text in pairs if len(text) > 1]
    return []


def _texts(content: bytes, names: _Names, tokens: list[bytes]) -> Iterator[str]:
    at = names.start
    for _ in range(names.count):
        if at + 2 > len(content):
            return
        size, begin = _length(content, at)
        at = begin + size
        yield b"".join(tokens[n] for n in content[begin:at]).decode(errors="replace")


def _addresses(offsets: tuple[int, ...], base: int) -> list[int]:
    """Return the addresses, or nothing where these are no offsets: addresses never fall.

    With per-CPU symbols that are absolute, others are negative, counted from the base less one.
    """
    if sum(offset < 0 for offset in offsets) > len(offsets) // 2:
        found = [base - 1 - offset if offset < 0 else offset for offset in offsets]
    else:
        found = [base + (offset & 0xFFFFFFFF) for offset in offsets]
    falls = sum(a > b for a, b in pairwise(found))
    return found if falls <= 1 and any(offsets) else []


_ROUTINES = frozenset("tTwW")  # letters of nm for what lies in text
_STEP = 1 << 21  # a kernel that is moved about when it boots moves by multiples of 2 MiB


@dataclass(frozen=True)
class Names:
    """Names of routines with their addresses, sorted by these; base is the address of _text."""

    routines: tuple[tuple[int, str], ...]
    base: int | None

    @classmethod
    def of(cls, symbols: Iterable[tuple[int, str, str]]) -> Self:
        """Take the routines of symbols given as address, letter of nm and name."""
        base, routines = None, []
        for address, kind, name in symbols:
            if name == "_text":
                base = address
            if kind in _ROUTINES:
                routines.append((address, name))
        return cls(tuple(sorted(routines)), base)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a System.map, or what /proc/kallsyms shows; InputError where it is neither."""
        try:
            text = path.read_text(errors="replace")
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
            if len(words) == 3:  # a fourth names a module, which lies elsewhere
                symbols.append((address, kind, name))
        found = cls.of(symbols)
        if found.routines and not found.routines[-1][0]:
            raise InputError(
                f"{path} has all addresses 0: read /proc/kallsyms as root, or give System.map"
            )
        return found

    def given(self, sections: Iterable[Section], source: str) -> list[Section]:
        """Return sections with these names instead of their own.

        Names of a running kernel are moved to where it is linked, by where _text is. InputError,
        which calls them by their source, where no name lies in the code.
        """
        given = list(sections)
        shift = self._shift(given)
        named = [self._upon(section, shift) for section in given]
        if not any(section.symbols for section in named):
            stub = "the real System.map" if not self.routines else "one of this very kernel"
            raise InputError(f"none of {source}'s names lies in the code: give {stub}")
        return named

    def _shift(self, sections: list[Section]) -> int:
        start = min((s.address for s in sections if s.name in (".text", ".head.text")), default=0)
        if self.base is None:
            return 0
        image = any(s.name == "Image" for s in sections)
        away = self.base - (0 if image else start)
        return away if image or away % _STEP == 0 else 0

    def _upon(self, section: Section, shift: int) -> Section:
        own = [
            Symbol(address - shift, 0, name, True)
            for address, name in self.routines
            if section.address <= address - shift < section.end
        ]
        return replace(section, symbols=tuple(own))
