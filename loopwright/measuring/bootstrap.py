"""Intervals of ratios by resampling processes, and in each its samples.

The hierarchical bootstrap: samples of one process share its memory layout and its moment, so that
more of them do not make up for few processes.
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
SEED = 20250  # recorded with what is derived from it; any other will do
CONFIDENCE = 0.95

Raw = Sequence[Sequence[Sequence[float]]]
"""By process, the samples of each point, in the unit of the figure that they make up.

One point: the figure is their median. Two: the median of the second less that of the first.
"""


def draws(raw: Raw, *key: object) -> NDArray[np.float64]:
    """Return RESAMPLES figures as other processes and samples might have given them.

    Each is the median over processes drawn with replacement, of the figure that samples drawn
    with replacement from a process give. key names what raw is of: figures of different keys are
    drawn independently, and of the same key alike in every run.
    """
    random = np.random.default_rng([SEED, crc32(repr(key).encode())])
    chosen = random.integers(len(raw), size=(RESAMPLES, len(raw)))
    figures = np.empty(chosen.shape)
    for number, points in enumerate(raw):
        where = chosen == number
        medians = [_medians(random, samples, int(where.sum())) for samples in points]
        figures[where] = medians[-1] - (medians[0] if len(medians) > 1 else 0)
    return np.asarray(np.median(figures, axis=1))


def _medians(
    random: np.random.Generator, samples: Sequence[float], count: int
) -> NDArray[np.float64]:
    given = np.asarray(samples)
    return np.asarray(np.median(random.choice(given, size=(count, len(given))), axis=1))


def interval(figures: NDArray[np.float64]) -> tuple[float, float]:
    """Return the percentiles between which CONFIDENCE of the figures lie."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(figures, [tail, 1 - tail])
    return float(low), float(high)
