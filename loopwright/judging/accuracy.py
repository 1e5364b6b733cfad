"""How far predictions are from measurements, in the two figures that the field uses."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import pandas as pd

LEAST = 3  # of fewer, an order says nothing


@dataclass(frozen=True)
class Accuracy:
    """Errors of a model: count of pairs, MAPE in percent, Kendall's tau (tau-b) from -1 to 1."""

    count: int
    mape: float
    tau: float

    @classmethod
    def of(cls, predicted: Iterable[float], measured: Iterable[float]) -> Self:
        """Compare pairs of which both are known (neither is NaN); NaN where too few are.

        tau is NaN, too, where all of one side are equal: they have no order.
        """
        pairs = pd.DataFrame({"said": [*predicted], "real": [*measured]}, dtype=float).dropna()
        if len(pairs) < LEAST:
            return cls(len(pairs), float("nan"), float("nan"))
        error = (pairs["said"] / pairs["real"] - 1).abs().mean()
        return cls(len(pairs), 100 * error, pairs["said"].corr(pairs["real"], method="kendall"))
