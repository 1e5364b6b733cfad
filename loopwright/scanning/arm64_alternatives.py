"""The alternatives of an arm64 kernel: where they are listed, and what stands there in their place.

An entry has 12 bytes: distances to the text and to its replacement, the number of a feature, both
lengths. Where there is no replacement a function makes it, of which one is known here: the one that
writes nops, by which code asks if a feature is there (Linux 6.1 and later).
"""

from typing import NamedTuple

import numpy as np

from loopwright.code import instructions
from loopwright.scanning.arm64_features import MOST

SIZE = 12  # bytes of an entry
NOPS = "alt_cb_patch_nops"
_FEWEST = 16  # entries of a table that is found by what they look like
_NOP = bytes.fromhex("1f2003d5")


class Entry(NamedTuple):
    """One alternative, by places in the kernel; new is that of a function where made is set."""

    at: int
    new: int
    feature: int
    made: bool
    length: int


def entries(content: bytes) -> list[Entry]:
    """Return the alternatives of a kernel as it lies in memory, by what its table looks like."""
    words = np.frombuffer(content[: len(content) & ~3], "<i4").astype(np.int64)
    if len(words) < 3 * _FEWEST:
        return []
    place = 4 * np.arange(len(words) - 2)
    at, new, rest = place + words[:-2], place + 4 + words[1:-1], words[2:] & 0xFFFFFFFF
    length, replacing = rest >> 16 & 0xFF, rest >> 24
    good = (at >= 0) & (at + length <= len(content)) & (new >= 0) & (new < len(content))
    good &= (at & 3 == 0) & (new & 3 == 0) & (length & 3 == 0) & (length > 0)
    good &= (replacing == length) | (replacing == 0)
    good &= rest & 0x7FFF < MOST
    first, count = _longest(good)
    if count < _FEWEST:
        return []
    return [
        Entry(int(at[n]), int(new[n]), int(rest[n]) & 0x7FFF, not replacing[n], int(length[n]))
        for n in range(first, first + 3 * count, 3)
    ]


def _longest(good: np.ndarray) -> tuple[int, int]:
    """Return where the longest run of every third place begins, and how many there are."""
    best = (0, 0)
    for start in range(3):
        mine = np.concatenate(([False], good[start::3], [False])).astype(np.int8)
        change = np.flatnonzero(np.diff(mine))
        begins, ends = change[::2], change[1::2]
        if len(begins):
            n = int(np.argmax(ends - begins))
            count = int(ends[n] - begins[n])
            best = max(best, (start + 3 * int(begins[n]), count), key=lambda one: one[1])
    return best


def replacement(content: bytes, one: Entry) -> bytes:
    """Return what is to stand in an alternative's place: nops where a function makes it."""
    if one.made:
        return _NOP * (one.length // 4)
    return instructions.arm64(content[one.new : one.new + one.length], one.new, one.at)
