"""Parameters of tests, of which a few are quick and the others slow."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return values as parameters: those not in quick are for `make test-slow`."""
    found = list(values)
    assert {*quick} <= {*found}
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in found]
