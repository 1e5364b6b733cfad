"""Gather all that can be known here about a kernel: predictions, contract, measurements."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import pandas as pd

from loopwright import hosts, kernels, microarchs, toolchain
from loopwright.check import run as run_checks
from loopwright.histogram import Histogram
from loopwright.kernels import Kernel, Routine
from loopwright.measure import COLUMNS
from loopwright.measure import run as run_measurements
from loopwright.predict import predict
from loopwright.recorder import Recorder
from loopwright.store import Store
from loopwright.stored import Source, measurements

# Sizes of calls in bytes and alignments (destination, source) that a judgement rests on.
SIZES = (0, 8, 16, 64, 256, 512, 1024, 2048, 4096)
ALIGNMENTS = ((0, 0), (1, 0))


@dataclass(frozen=True)
class Study:
    """A kernel and the evidence about its variants.

    host is the core that this machine is ("" where no core.toml knows it). measurements has the
    rows of this machine and, of other cores, those of the results store, whose sources say where
    they come from. unmeasured says why nothing was measured here, where it was so.
    """

    kernel: Kernel
    predictions: pd.DataFrame
    checks: pd.DataFrame
    measurements: pd.DataFrame
    host: str
    unmeasured: str
    sources: tuple[Source, ...] = ()


def gather(
    kernel_id: str,
    *,
    sizes: Histogram | None = None,
    quick: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Study:
    """Predict, check and measure every variant of a kernel; recall what was measured elsewhere.

    A variant that breaks its contract is not measured. quick measures nothing now. On the core
    that this machine is, what is measured now goes before what is stored, unless only the latter
    comes from a PMU. progress is called with measured points of a routine and all of them.
    """
    kernel = kernels.load(kernel_id)
    host = hosts.microarch() or ""
    checks = run_checks(list(kernel.variants.values()))
    with closing(Store.open()) as store:
        stored, sources = measurements(kernel, store)
        now, unmeasured = _measure_now(kernel, sizes, store, quick, progress)
    if _counted(stored[stored["microarch"] == host]) and not _counted(now):
        now = now.iloc[:0]
    elif len(now):
        stored = stored[stored["microarch"] != host]
        sources = [s for s in sources if s.core != host]
    cores = [c.id for c in microarchs.targets(kernel.isa)]
    here = [host] if host and microarchs.load(host).isa == kernel.isa else []
    cores += dict.fromkeys(c for c in (*here, *(s.core for s in sources)) if c not in cores)
    return Study(
        kernel=kernel,
        predictions=predict(kernel_id, microarch=",".join(cores), model="all"),
        checks=checks,
        measurements=pd.concat([t for t in (now, stored) if len(t)] or [now], ignore_index=True),
        host=host,
        unmeasured=unmeasured,
        sources=tuple(sources),
    )


def _counted(rows: pd.DataFrame) -> bool:
    """Say whether rows have figures that a PMU counted."""
    return bool((rows["cycles"].notna() & (rows["clock"] == hosts.PMU)).any())


def _measure_now(
    kernel: Kernel,
    sizes: Histogram | None,
    store: Store,
    quick: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[pd.DataFrame, str]:
    """Measure a kernel's variants on this machine; the rows, and why none has a number."""
    nothing = pd.DataFrame(columns=COLUMNS)
    if quick:
        return nothing, "measuring was left out"
    if not toolchain.find(kernel.isa).native:
        return nothing, f"this machine is no {kernel.isa}, and an emulator has no cycles"
    recorder = Recorder(store)
    rows = pd.concat(
        [
            _measure(kernel, routine, sizes, recorder, progress)
            for routine in kernel.routines.values()
        ],
        ignore_index=True,
    )
    return rows, _refusal(rows)


def _measure(
    kernel: Kernel,
    routine: Routine,
    sizes: Histogram | None,
    recorder: Recorder,
    progress: Callable[[int, int], None] | None,
) -> pd.DataFrame:
    """Measure a routine's variants; a histogram that reaches beyond SIZES adds 8 KiB."""
    top = max((b.high or b.low for b in sizes.buckets), default=0) if sizes else 0
    wanted = [*SIZES, *(s for s in (8192,) if top > SIZES[-1])]
    records = routine.contract.effect == "store_fields"
    return run_measurements(
        kernel.of_routine(routine.name),
        sizes=None if records else wanted,
        alignments=ALIGNMENTS,
        recorder=recorder,
        progress=progress,
    )


def _refusal(rows: pd.DataFrame) -> str:
    """Say why nothing could be measured, if it was so."""
    return "" if rows["cycles"].notna().any() else f"refused: {rows['reason'].iloc[0]}"
