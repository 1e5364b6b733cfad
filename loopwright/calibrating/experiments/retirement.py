"""Retirement: how many instructions leave the reorder buffer in a cycle.

Asked: how fast what is done leaves, once what it waited behind is done. Kernel: the iteration of a
loop is a slow chain, n instructions that do nothing, which are done long before it, and a fence,
which waits until all before it has left. Answer: by how many cycles an iteration is longer for each
of the n; none where a fence does not wait for that.
"""

import numpy as np

from loopwright.calibrating.experiments.shadow import Chain
from loopwright.calibrating.laboratory import Laboratory

_MOST = 200  # instructions
_LESS = 24  # than the reorder buffer holds
_ITERATIONS = 10
_CHAIN = 0.5  # cycles of the chain for each instruction: dispatch is quicker
_SURE = 3.0  # standard deviations


def measure(
    laboratory: Laboratory, chain: Chain, filler: bytes, width: int, buffer: int
) -> tuple[float, float] | None:
    """Return how many fillers in a reorder buffer retire in a cycle, and the uncertainty.

    None where that is not seen.
    """
    kit = laboratory.kit
    most = min(_MOST, buffer - _LESS)
    if not kit.FENCE or most < _ITERATIONS:
        return None
    links = int(most * _CHAIN // chain.cycles) + 1
    numbers = [most * k // _ITERATIONS for k in range(1, _ITERATIONS + 1)]
    before = chain.start + chain.link * links + chain.last
    figures = laboratory.turns([before + filler * n + kit.FENCE for n in numbers])
    timed = [(n, figure) for n, figure in zip(numbers, figures, strict=True) if figure]
    if len(timed) < _ITERATIONS // 2:
        return None
    counts = [n for n, _ in timed]
    slope, _ = np.polyfit(counts, [figure.cycles for _, figure in timed], 1)
    doubt = max(figure.uncertainty for _, figure in timed) / (np.std(counts) * len(counts) ** 0.5)
    if slope <= _SURE * doubt:
        return None
    rate = float(1 / slope)
    error = float(rate * rate * doubt)
    return (rate, error) if rate + _SURE * error > width - 0.5 else None
