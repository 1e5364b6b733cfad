"""The verbs that take a KERNEL[/VARIANT] and are functions of variants inside."""

from collections.abc import Iterable, Sequence
from contextlib import closing

import pandas as pd

from loopwright import kernels
from loopwright.check import run as run_checks
from loopwright.errors import InputError, unknown
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
    against: str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Measure KERNEL[/VARIANT] on this host; tidy rows (see loopwright.measure.run).

    against names a variant of the kernel to compare with, which is measured, too. A variant that
    breaks its contract is never measured; InputError where none honours it. Every point is kept in
    the results store; resume goes on with the newest run of this machine and measures what it
    lacks.
    """
    kernel, variants = kernels.select(spec)
    if against is not None:
        if against not in kernel.variants:
            raise unknown("variant", against, kernel.variants)
        variants = [*dict.fromkeys((kernel.variants[against], *variants))]
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
            against=against,
            progress=progress,
            recorder=Recorder(store, resume=resume),
        )
