"""Read the names that a kernel carries of its own routines, where it has no other symbols.

A kernel with CONFIG_KALLSYMS, as distributions build it, holds a packed table of its symbols
(scripts/kallsyms.c writes it, kernel/kallsyms.c reads it): names as strings of tokens, addresses as
distances from a base. Nothing says where it lies; it is found by its table of tokens, in which the
ten digits stand one behind another, and by the index of that table, which has to agree with it.
Of Linux 4.20 and later, whose markers have four bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

_DIGITS = b"".join(bytes((digit, 0)) for digit in b"0123456789")
_TOKENS = 256
_EVERY = 256  # names between two markers
_FARTHEST = 1 << 26  # bytes between the number of names and the tokens
_MOST = 1 << 24  # names
_KINDS = {bytes((c,)) for c in b"aAbBcCdDgGiInNrRsStTuUvVwW"}  # as nm has them


def symbols(content: bytes) -> list[tuple[int, str, str]]:
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
    """Where the number of names stands, where they begin, and how many there are."""

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
