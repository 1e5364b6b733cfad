"""Cost of a call as a function of its size, from measured points."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from loopwright.histogram import Histogram

# Without a histogram, measured sizes in this range (bytes) count alike.
UNWEIGHTED = (64, 4096)


def curve(calls: pd.DataFrame) -> Callable[[float], float]:
    """Return cycles per call over size in bytes: linear between points, mean over alignments.

    Past the last point it goes on with the slope of the last two.
    """
    points = calls.groupby("size_bytes")["cycles"].mean().sort_index()
    sizes, cycles = points.index.to_numpy(float), points.to_numpy(float)
    slope = (cycles[-1] - cycles[-2]) / (sizes[-1] - sizes[-2]) if len(sizes) > 1 else 0.0

    def cost(size: float) -> float:
        if size > sizes[-1]:
            return float(cycles[-1] + slope * (size - sizes[-1]))
        return float(np.interp(size, sizes, cycles))

    return cost


def speedup(
    base: pd.DataFrame, other: pd.DataFrame, sizes: Histogram | None
) -> tuple[float, float]:
    """Return how many times faster calls of other are than of base, and that ratio's uncertainty.

    With a histogram: the ratio of mean costs of a call. Without: the geometric mean of the ratios
    at the measured sizes in UNWEIGHTED (all, where none lies there). Both are means over the
    alignments that were measured.
    """
    slow, fast = curve(base), curve(other)
    if sizes:
        ratio = sizes.mean(slow) / sizes.mean(fast)
    else:
        measured = set(base["size_bytes"]) & set(other["size_bytes"])
        low, high = UNWEIGHTED
        used = [s for s in measured if low <= s <= high] or sorted(measured)
        ratio = float(np.exp(np.mean([np.log(slow(s) / fast(s)) for s in used])))
    return ratio, ratio * (_relative(base) + _relative(other))


def _relative(calls: pd.DataFrame) -> float:
    """Return the median relative uncertainty of the points."""
    used = calls[calls["cycles"] > 0]
    return float((used["uncertainty"] / used["cycles"]).median())
