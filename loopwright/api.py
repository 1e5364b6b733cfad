"""The verbs that take a KERNEL[/VARIANT] and are functions of variants inside."""

from collections.abc import Iterable, Sequence
from contextlib import closing

import pandas as pd

from loopwright import kernels
from loopwright.check import run as run_checks
from loopwright.errors import InputError
from loopwright.measure import run as run_measurements
from loopwright.recorder import Recorder
from loopwright.rounds import Progress
from loopwright.store import Store


def check(spec: str) -> pd.DataFrame:
    """Hold KERNEL[/VARIANT] to its contract; one row a variant (see loopwright.check.run)."""
    return run_checks(kernels.select(spec)[1])


def measure(
    spec: str,
    *,
    sizes: Sequence[int] | None = None,
    offset: int | str | Iterable[int] | None = None,
    alignments: Sequence[tuple[int, int]] | None = None,
    skews: Sequence[int] | None = None,
    caches: Sequence[str] = ("hot",),
    resume: bool = False,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Measure KERNEL[/VARIANT] on this host; tidy rows (see loopwright.measure.run).

    A variant that breaks its contract is never measured; InputError where none honours it. Every
    point is kept in the results store; resume goes on with the newest run of this machine and
    measures what it lacks.
    """
    variants = kernels.select(spec)[1]
    checks = run_checks(variants)
    sound = [v for v, passed in zip(variants, checks["passed"], strict=True) if passed]
    if not sound:
        failure = checks["failure"].iloc[0]
        raise InputError(f"{spec} breaks its contract and is not measured: {failure}")
    with closing(Store.open()) as store:
        return run_measurements(
            sound,
            sizes=sizes,
            offset=offset,
            alignments=alignments,
            skews=skews,
            caches=caches,
            progress=progress,
            recorder=Recorder(store, resume=resume),
        )
