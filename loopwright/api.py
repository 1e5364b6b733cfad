"""The verbs that take a KERNEL[/VARIANT] and are functions of variants inside."""

from collections.abc import Sequence

import pandas as pd

from loopwright import kernels
from loopwright.check import passed
from loopwright.check import run as run_checks
from loopwright.errors import InputError
from loopwright.measure import run as run_measurements


def check(spec: str) -> pd.DataFrame:
    """Hold KERNEL[/VARIANT] to its contract; one row a variant (see loopwright.check.run)."""
    return run_checks(kernels.select(spec)[1])


def measure(
    spec: str, *, sizes: Sequence[int] | None = None, offset: int | None = None
) -> pd.DataFrame:
    """Measure KERNEL[/VARIANT] on this host; tidy rows (see loopwright.measure.run).

    InputError where none of the variants honours its contract: what breaks it is never measured.
    """
    sound = passed(kernels.select(spec)[1])
    if not sound:
        raise InputError(f"{spec} breaks its contract and is not measured; see `check {spec}`")
    return run_measurements(sound, sizes=sizes, offset=offset)
