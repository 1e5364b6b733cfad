"""Cases that the constants of code suggest: sizes, alignments, contents."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loopwright.checking.body import Body

_MOST = 1 << 20  # of a size
_MOST_VALUES = 64
_MOST_COMPOSED = 40  # sizes of which all pairs are taken
_MOST_WORDS = 12  # words of which all pairs are taken
_TEXT = b"From: a user <user@example.org>\r\nSubject: what was copied, and what was not?\r\n\r\n"


def of(reached: Body) -> list[int]:
    """Return sizes that the immediates, masks, displacements and shifts of code name, ascending.

    A constant of two's complement is its magnitude; a shift by n is 1 << n, and by it each other
    constant counts as well shifted.
    """
    plain: set[int] = set()
    shifts: set[int] = set()
    for step in reached.steps.values():
        shifting = step.text.startswith(("sh", "sa", "lsr", "lsl", "asr", "ro", "bt", "bextr"))
        for constant in step.constants:
            value = min(constant, (1 << 64) - constant, (1 << 32) - constant & (1 << 64) - 1)
            if shifting and 0 < value < 21:
                shifts.add(value)
                plain.add(1 << value)
            if 0 < value <= _MOST:
                plain.add(value)
    scaled = {value << n for value in plain for n in shifts if value << n <= _MOST}
    few = sorted(plain)[:_MOST_VALUES]
    return sorted({*few, *sorted(scaled)[: _MOST_VALUES - len(few)], 1})


def composed(values: Sequence[int]) -> list[int]:
    """Return what two of some values make together: sums, differences and what differs in bits."""
    out: dict[int, None] = {}
    for one, other in itertools.combinations(values[:_MOST_COMPOSED], 2):
        made = (one + other, one - other, other - one, one ^ other)
        out.update(dict.fromkeys(v for v in made if 0 < v <= _MOST))
    return list(out)


def words(reached: Body) -> list[int]:
    """Return the constants of code, and what two large ones of them make together, as words."""
    values = sorted({c for step in reached.steps.values() for c in step.constants if c})
    large = [v for v in values if 0x7F < v < (1 << 64) - 0x80][:_MOST_WORDS]
    pairs = list(itertools.combinations(large, 2))
    return values + [v for a, b in pairs for v in (a + b, a ^ b, a - b)]


def contents(reached: Body, size: int) -> tuple[NDArray[np.uint8], dict[int, int]]:
    """Return what a source may hold, a row each: zeros, ones, bits, text, constants, anything.

    Those that are made of the code's constants come with the bytes after which they repeat.
    """
    values = words(reached)
    random = np.random.default_rng(7)
    index = np.arange(size)
    word = index // 8
    single = np.where(index % 8 == word % 8, 1 << word // 8 % 8, 0)
    rows = [
        random.integers(1, 128, size),
        np.zeros(size),
        np.full(size, 0xFF),
        single,
        np.resize(np.frombuffer(_TEXT, dtype=np.uint8), size),
        random.integers(0, 256, size),
        np.where(word % 2, 0xFF, 0),
        np.where(index % 8 == 7, 0x80, 0),
        np.where(index % 2, 0x7F, 0xFF),
    ]
    given = [_in_bytes(values, width) for width in (8, 4, 2, 1)]
    periods = {n: len(one) for n, one in enumerate(given, len(rows))}
    rows += [np.resize(one, size) for one in given]
    return np.ascontiguousarray(np.array(rows).astype(np.uint8)), periods


def _in_bytes(values: Sequence[int], width: int) -> NDArray[np.uint8]:
    """Return constants, and what lies beside them, one after the other in so many bytes each."""
    near = [v + d for v in values or (1,) for d in (-1, 0, 1)] + [-v for v in values]
    mask = (1 << 8 * width) - 1
    given = b"".join(v.to_bytes(width, "little") for v in dict.fromkeys(v & mask for v in near))
    return np.frombuffer(given, dtype=np.uint8)
