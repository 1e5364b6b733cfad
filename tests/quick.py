"""Parameters of tests, divided into quick and slow ones."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return values as parameters: those not in quick are for `make test-slow`.

    A tuple has a value for each of several argument names.
    """
    listed = list(values)
    assert {*quick} <= {*listed}

    def slow(value):
        arguments = value if isinstance(value, tuple) else (value,)
        return pytest.param(*arguments, marks=pytest.mark.slow)

    return [value if value in quick else slow(value) for value in listed]
