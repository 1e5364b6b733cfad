"""Entries of .altinstructions: code that a Linux kernel replaces when it boots on a CPU.

Layouts are those of struct alt_instr: arm64 has 12 bytes; x86-64 has 12 or 13 up to Linux 6.2, and
14 with flags from 6.3 on.
"""

from typing import NamedTuple

SECTION = ".altinstructions"
PLAIN_BYTES, FLAGGED_BYTES = 12, 14  # of an entry
X86_BYTES = (FLAGGED_BYTES, PLAIN_BYTES, 13)  # of an entry, newest layout first
_TOP_BIT = 0x8000  # of a feature: inverse on x86-64 without flags, a callback on arm64
_INVERSE, _DIRECT_CALL = 1, 2  # flags


class Entry(NamedTuple):
    """An alternative: addresses of the text and of its replacement, their lengths in bytes.

    It is applied where the feature is there, with inverse where it is not. made: the kernel makes
    the replacement itself, by a function (at new on arm64) or from a pointer that it calls.
    """

    at: int
    new: int
    feature: int
    inverse: bool
    length: int
    size: int
    made: bool


def x86_entry(table: bytes, at: int, base: int, size: int) -> Entry:
    """Return the entry of so many bytes at a place of a table whose address is base."""
    if size == FLAGGED_BYTES:
        feature, flags = _integer(table, at + 8), _integer(table, at + 10)
        inverse, made = bool(flags & _INVERSE), bool(flags & _DIRECT_CALL)
        lengths = at + 12
    else:
        feature = _integer(table, at + 8)
        inverse, made = bool(feature & _TOP_BIT), False
        feature &= ~_TOP_BIT
        lengths = at + 10
    text, replacement = _addresses(table, at, base)
    length, new_length = table[lengths : lengths + 2]
    return Entry(text, replacement, feature, inverse, length, new_length, made)


def arm64_entry(table: bytes, at: int, base: int) -> Entry:
    """Return the entry at a place of a table whose address is base."""
    feature = _integer(table, at + 8)
    length, size = table[at + 10 : at + 12]
    made = bool(feature & _TOP_BIT) or not size
    text, replacement = _addresses(table, at, base)
    return Entry(text, replacement, feature & ~_TOP_BIT, False, length, size, made)


def _addresses(table: bytes, at: int, base: int) -> tuple[int, int]:
    """Return the addresses of text and replacement, each relative to its own field."""
    text, new = (int.from_bytes(table[n : n + 4], "little", signed=True) for n in (at, at + 4))
    return base + at + text, base + at + 4 + new


def _integer(table: bytes, at: int) -> int:
    return int.from_bytes(table[at : at + 2], "little")
