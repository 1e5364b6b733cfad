"""Cost of a call as a function of its size, from measured points."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loopwright import bootstrap
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.ratios import FLOOR

# Without a histogram, sizes in this range (bytes) count alike.
UNWEIGHTED = (64, 4096)
_OCTAVES = (64, 128, 256, 512, 1024, 2048, 4096)


def curve(calls: pd.DataFrame) -> Callable[[float], float]:
    """Return cycles per call over size in bytes: linear between points, mean over alignments.

    Past the last point it goes on with the slope of the last two.
    """
    points = calls.groupby("size_bytes")["cycles"].mean().sort_index()
    return _through(points.index.to_numpy(float), points.to_numpy(float))


def _through(sizes: NDArray[np.float64], cycles: NDArray[np.float64]) -> Callable[[float], float]:
    slope = (cycles[-1] - cycles[-2]) / (sizes[-1] - sizes[-2]) if len(sizes) > 1 else 0.0

    def cost(size: float) -> float:
        if size > sizes[-1]:
            return float(cycles[-1] + slope * (size - sizes[-1]))
        return float(np.interp(size, sizes, cycles))

    return cost


def speedup(
    base: pd.DataFrame, other: pd.DataFrame, sizes: Histogram | None
) -> tuple[float, float, float]:
    """Return how many times faster calls of other are than of base, and that ratio's interval.

    Of rows of measure.run; the interval is that of ratios.add. With a histogram: the ratio of mean
    costs of a call. Without: the geometric mean of the ratios at the measured sizes in UNWEIGHTED
    (all, where none lies there). Both are means over the alignments that were measured. InputError
    where the figures are by different clocks.
    """
    clocks = sorted({*base["clock"], *other["clock"]})
    if len(clocks) > 1:
        raise InputError(
            f"{' and '.join(clocks)}: figures of different clocks make no ratio; "
            "measure all variants by one"
        )
    slow, fast = _figures(base), _figures(other)
    if sizes:
        ratios = _mean(slow, sizes) / _mean(fast, sizes)
    else:
        measured = set(slow) & set(fast)
        low, high = UNWEIGHTED
        used = [s for s in measured if low <= s <= high] or sorted(measured)
        ratios = np.exp(np.mean([np.log(slow[s] / fast[s]) for s in used], axis=0))
    ratio, drawn = float(ratios[0]), ratios[1:]
    least, most = bootstrap.interval(drawn)
    return ratio, min(least, ratio) * (1 - FLOOR), max(most, ratio) * (1 + FLOOR)


def _figures(calls: pd.DataFrame) -> dict[float, NDArray[np.float64]]:
    """Return cycles a call by size in bytes: those measured, then as the bootstrap draws them.

    They are means over alignments.
    """
    of_size: dict[float, list[NDArray[np.float64]]] = {}
    for row in calls.to_dict("records"):
        key = [row[name] for name in ("variant", "size_bytes", "dst_align", "src_align")]
        drawn = bootstrap.draws(row["raw"], *key)
        of_size.setdefault(float(row["size_bytes"]), []).append(np.append(row["cycles"], drawn))
    return {size: np.mean(figures, axis=0) for size, figures in of_size.items()}


def _mean(figures: dict[float, NDArray[np.float64]], sizes: Histogram) -> NDArray[np.float64]:
    """Return the mean cost of a call over a histogram of sizes.

    A cost between measured sizes is a weighted mean of theirs, and so is the mean over sizes: the
    weights are found once, for all draws.
    """
    measured = sorted(figures)
    points = np.array(measured)
    weights = [sizes.mean(_through(points, (points == size).astype(float))) for size in measured]
    return np.asarray(np.dot(weights, [figures[s] for s in measured]))


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
