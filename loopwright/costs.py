"""Cost of a call as a function of its size, from measured points."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from loopwright.histogram import Histogram

# Without a histogram, sizes in this range (bytes) count alike.
UNWEIGHTED = (64, 4096)
_OCTAVES = (64, 128, 256, 512, 1024, 2048, 4096)


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


def predicted_speedup(base: pd.Series, other: pd.Series, sizes: Histogram | None) -> float:
    """Return how many times faster a model finds calls of other than of base.

    Of rows of the comparison table: the start-up and the main loop. A model of the main loop says
    nothing of calls below 64 bytes, which a histogram's buckets below leave out here.
    """
    slow, fast = (_line(row) for row in (base, other))
    large = tuple(b for b in sizes.buckets if b.low >= UNWEIGHTED[0]) if sizes else ()
    if sizes and any(b.count for b in large):
        kept = Histogram(sizes.name, large)
        return kept.mean(slow) / kept.mean(fast)
    return float(np.exp(np.mean([np.log(slow(s) / fast(s)) for s in _OCTAVES])))


def _line(row: pd.Series) -> Callable[[float], float]:
    startup, slope = row["startup_cycles"], row["cycles"] / row["bytes_per_iteration"]
    return lambda size: float(startup + slope * size)


def _relative(calls: pd.DataFrame) -> float:
    """Return the median relative uncertainty of the points."""
    used = calls[calls["cycles"] > 0]
    return float((used["uncertainty"] / used["cycles"]).median())
