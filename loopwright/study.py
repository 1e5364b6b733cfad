"""Gather all that can be known here about a kernel: predictions, contract, measurements."""

from dataclasses import dataclass

import pandas as pd

from loopwright import hosts, kernels, microarchs, toolchain
from loopwright.check import run as run_checks
from loopwright.histogram import Histogram
from loopwright.kernels import Kernel, Routine
from loopwright.measure import run as run_measurements
from loopwright.predict import predict

# Sizes of calls in bytes and alignments (destination, source) that a judgement rests on.
SIZES = (0, 8, 16, 64, 256, 512, 1024, 2048, 4096)
ALIGNMENTS = ((0, 0), (1, 0))


@dataclass(frozen=True)
class Study:
    """A kernel and the evidence about its variants.

    host is the core that this machine is ("" where no core.toml knows it); measurements is empty,
    and unmeasured says why, where nothing could be measured.
    """

    kernel: Kernel
    predictions: pd.DataFrame
    checks: pd.DataFrame
    measurements: pd.DataFrame
    host: str
    unmeasured: str


def gather(kernel_id: str, *, sizes: Histogram | None = None, quick: bool = False) -> Study:
    """Predict, check and measure every variant of a kernel.

    A variant that breaks its contract is not measured. quick leaves the measurement out.
    """
    kernel = kernels.load(kernel_id)
    host = hosts.microarch() or ""
    cores = [c.id for c in microarchs.targets(kernel.isa)]
    if host and host not in cores and microarchs.load(host).isa == kernel.isa:
        cores.append(host)
    predictions = predict(kernel_id, microarch=",".join(cores), model="all")
    variants = list(kernel.variants.values())
    checks = run_checks(variants)
    if quick:
        return Study(kernel, predictions, checks, pd.DataFrame(), host, "measuring was left out")
    if not toolchain.find(kernel.isa).native:
        why = f"this machine is no {kernel.isa}, and an emulator has no cycles"
        return Study(kernel, predictions, checks, pd.DataFrame(), host, why)
    measurements = pd.concat(
        [_measure(kernel, routine, sizes) for routine in kernel.routines.values()],
        ignore_index=True,
    )
    return Study(kernel, predictions, checks, measurements, host, _refusal(measurements))


def _measure(kernel: Kernel, routine: Routine, sizes: Histogram | None) -> pd.DataFrame:
    """Measure a routine's variants; a histogram that reaches beyond SIZES adds 8 KiB."""
    top = max((b.high or b.low for b in sizes.buckets), default=0) if sizes else 0
    wanted = [*SIZES, *(s for s in (8192,) if top > SIZES[-1])]
    records = routine.contract.effect == "store_fields"
    return run_measurements(
        kernel.of_routine(routine.name), sizes=None if records else wanted, alignments=ALIGNMENTS
    )


def _refusal(measurements: pd.DataFrame) -> str:
    """Say why nothing could be measured, if it was so."""
    if measurements["cycles"].notna().any():
        return ""
    return f"refused: {measurements['reason'].iloc[0]}"
