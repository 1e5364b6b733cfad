"""Parameters of tests, of which a few are quick and the others slow."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return values as parameters: those not in quick are for `make test-slow`.

    A tuple is a value for each name of a list of names.
    """
    found = list(values)
    assert {*quick} <= {*found}

    def slow(value):
        each = value if isinstance(value, tuple) else (value,)
        return pytest.param(*each, marks=pytest.mark.slow)

    return [value if value in quick else slow(value) for value in found]
