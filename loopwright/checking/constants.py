"""What the constants of code suggest to try: sizes, alignments, contents."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loopwright.checking.body import Body

_MOST = 1 << 20  # of a size
_MOST_VALUES = 64
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


def contents(reached: Body, size: int) -> NDArray[np.uint8]:
    """Return what a source may hold, a row each: zeros, ones, bits, text, constants, anything."""
    values = sorted({c for step in reached.steps.values() for c in step.constants if c})
    random = np.random.default_rng(7)
    index = np.arange(size)
    words = index // 8
    single = np.where(index % 8 == words % 8, 1 << words // 8 % 8, 0)
    rows = [
        random.integers(1, 128, size),
        np.zeros(size),
        np.full(size, 0xFF),
        single,
        np.resize(np.frombuffer(_TEXT, dtype=np.uint8), size),
        random.integers(0, 256, size),
        *(_repeated(values, width, size) for width in (8, 4, 2, 1)),
        np.where(words % 2, 0xFF, 0),
        np.where(index % 8 == 7, 0x80, 0),
        np.where(index % 2, 0x7F, 0xFF),
    ]
    return np.ascontiguousarray(np.array(rows).astype(np.uint8))


def _repeated(values: Sequence[int], width: int, size: int) -> NDArray[np.uint8]:
    """Return constants, and what lies beside them, one after the other in so many bytes each."""
    near = [v + d for v in values or (1,) for d in (-1, 0, 1)] + [-v for v in values]
    given = b"".join((v & (1 << 8 * width) - 1).to_bytes(width, "little") for v in near)
    return np.resize(np.frombuffer(given, dtype=np.uint8), size)
