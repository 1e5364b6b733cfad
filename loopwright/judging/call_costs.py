"""Cost of a call as a function of its size, from measured points."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loopwright.histogram import Histogram
from loopwright.measuring import bootstrap
from loopwright.measuring.ratios import FLOOR

# Without a histogram, sizes in this range (bytes) count alike; where costs are simulated, these.
UNWEIGHTED = (64, 4096)
OCTAVES = (64, 128, 256, 512, 1024, 2048, 4096)

Row = Mapping[Any, Any]
"""A row of measure.run, or of the comparison table."""

Alignments = Mapping[tuple[int, int], float]
"""Weights of calls by alignment: bytes of destination and source behind a page start."""

# Assumed, nobody has published a histogram: page-aligned, word-aligned and odd destinations.
ALIGNMENTS: Alignments = {(0, 0): 0.6, (8, 0): 0.3, (1, 0): 0.1}


@dataclass(frozen=True, order=True)
class Place:
    """A call: its size in bytes, and where destination and source stand in a page."""

    size: int
    dst: int
    src: int

    def __str__(self) -> str:
        """Return it as users give it: "64 B at 1:0"."""
        return f"{self.size} B at {self.dst}:{self.src}"


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


def weights(sizes: Sequence[float], histogram: Histogram) -> list[float]:
    """Return what the cost at each size, in ascending order, counts in the mean over a histogram.

    A cost between sizes is a weighted mean of theirs, and so is the mean over a histogram.
    """
    points = np.array(sizes, float)
    return [histogram.mean(_through(points, (points == size).astype(float))) for size in sizes]


def mean(costs: Mapping[Place, Any], alignments: Alignments) -> dict[int, Any]:
    """Return the mean cost by size, weighted by alignment.

    A size whose alignments have no weight counts them alike.
    """
    of_size: dict[int, list[tuple[float, Any]]] = {}
    for place, cost in costs.items():
        weight = alignments.get((place.dst, place.src), 0.0)
        of_size.setdefault(place.size, []).append((weight, cost))
    out = {}
    for size, weighted in sorted(of_size.items()):
        shares = [weight for weight, _ in weighted]
        figures = [cost for _, cost in weighted]
        out[size] = np.average(figures, axis=0, weights=shares if any(shares) else None)
    return out


def speedup(
    pairs: Mapping[Place, tuple[Row, Row]],
    sizes: Histogram | None,
    alignments: Alignments = ALIGNMENTS,
) -> tuple[float, float, float]:
    """Return how many times faster calls of other are than of base, and that ratio's interval.

    pairs has for each place a row of measure.run of base and one of other; the interval is that of
    ratios.add. With a histogram: the ratio of mean costs of a call. Without: the geometric mean of
    the ratios at each size. Both are of means over the alignments of a size.
    """
    slow, fast = (_figures(pairs, side, alignments) for side in (0, 1))
    order = sorted(slow)
    if sizes:
        of_each = weights(order, sizes)
        base, other = (np.dot(of_each, [figures[s] for s in order]) for figures in (slow, fast))
        ratios = base / other
    else:
        alike = [s for s in order if UNWEIGHTED[0] <= s <= UNWEIGHTED[1]] or order
        ratios = np.exp(np.mean([np.log(slow[s] / fast[s]) for s in alike], axis=0))
    ratio, drawn = float(ratios[0]), ratios[1:]
    least, most = bootstrap.interval(drawn)
    return ratio, min(least, ratio) * (1 - FLOOR), max(most, ratio) * (1 + FLOOR)


def _figures(
    pairs: Mapping[Place, tuple[Row, Row]], side: int, alignments: Alignments
) -> dict[int, NDArray[np.float64]]:
    """Return cycles a call by size in bytes: those measured, then as the bootstrap draws them."""
    drawn = {}
    for place, both in pairs.items():
        row = both[side]
        key = [row[name] for name in ("variant", "size_bytes", "dst_align", "src_align")]
        drawn[place] = np.append(row["cycles"], bootstrap.draws(row["raw"], *key))
    return mean(drawn, alignments)


def predicted_speedup(base: Row, other: Row, sizes: Histogram | None, fixed: int = 0) -> float:
    """Return how many times faster a model finds calls of other than of base.

    Of rows of the comparison table: the start-up and the main loop. A model of the main loop says
    nothing of calls below 64 bytes, which a histogram's buckets below leave out here. fixed is the
    size of a call in bytes, where it has but one.
    """
    slow, fast = (_line(row) for row in (base, other))
    if fixed:
        return slow(fixed) / fast(fixed)
    large = tuple(b for b in sizes.buckets if b.low >= UNWEIGHTED[0]) if sizes else ()
    if sizes and any(b.count for b in large):
        kept = Histogram(sizes.name, large)
        return kept.mean(slow) / kept.mean(fast)
    return float(np.exp(np.mean([np.log(slow(s) / fast(s)) for s in OCTAVES])))


def _line(row: Row) -> Callable[[float], float]:
    startup, slope = row["startup_cycles"], row["cycles"] / row["bytes_per_iteration"]
    return lambda size: float(startup + slope * size)
