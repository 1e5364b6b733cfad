"""Predict loops at every place of a line: what all questions of a scan come down to."""

from collections.abc import Sequence

import numpy as np

from loopwright.microarchs import Microarch
from loopwright.predicting.pipeline import Pipeline

LINE = 64  # bytes, after which a place is the same to every boundary of a core

# The stretches that an iteration executes, in order, as (start, end) in the loop's code.
Path = tuple[tuple[int, int], ...]


def places(
    loops: Sequence[tuple[bytes, Path]], core: Microarch
) -> tuple[np.ndarray, dict[int, str]]:
    """Return the cycles an iteration of each loop (code and path), its first byte at each place.

    A row a loop, a column a code offset: NaN where no code can lie, and where the simulator has no
    answer; the dict says by the loop's number why that is. InputError where the core has no
    figures.
    """
    cycles, errors = Pipeline().places([(code, list(path)) for code, path in loops], core)
    return np.frombuffer(cycles).reshape(-1, LINE), errors
