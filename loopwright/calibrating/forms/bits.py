"""The bits that branches of experiments.gone go by: of a generator, or of pointers.

The generator is one modulo 2 ** 64: all of its states follow each other, and high bits have no
period that a predictor could hold. It goes on from where it was in memory, as registers are set
anew.
"""

MULTIPLIER, INCREMENT = 0x2545F495, 0x1B873593
PLACE = 64  # bytes behind a line: of the generator's state
_HIGHEST, _STEP = 62, 3  # bits of the generator
_SET, _CLEAR = 29, 62  # bits of pointers


def chosen(random: bool, branches: int) -> list[int]:
    """Return the bit of each branch: of the generator, or of a pointer, clear and set in turn."""
    if random:
        return [_HIGHEST - _STEP * number for number in range(branches)]
    return [_SET if number % 2 else _CLEAR for number in range(branches)]
