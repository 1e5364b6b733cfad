"""Find out all that a report says of one kernel."""

from collections.abc import Callable

import pandas as pd

from loopwright import microarchs
from loopwright.histogram import Histogram
from loopwright.judging.evidence import simulated_places
from loopwright.judging.recommend import conclude
from loopwright.judging.study import Study, comparison, gather
from loopwright.kernels import Kernel
from loopwright.linux.patch import evidence
from loopwright.predicting.explain import sources
from loopwright.predicting.models import SIMULATOR
from loopwright.predicting.predict import predict
from loopwright.reporting import alignment, threads
from loopwright.reporting.findings import Finding
from loopwright.reporting.timelines import moments


def examine(
    kernel: Kernel,
    sizes: Histogram | None,
    *,
    quick: bool,
    baselines: dict[str, str],
    microarch: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Finding:
    """Study a kernel, judge its variants, sweep their offsets and look inside the cores.

    quick measures nothing now; baselines says by routine what a tree has. microarch and progress
    are gather's.
    """
    found = gather(kernel.id, sizes=sizes, quick=quick, microarch=microarch, progress=progress)
    compared = comparison(found)
    simulated = compared[(compared["source"] == SIMULATOR) & compared["cycles"].notna()]
    cores = ",".join(map(str, simulated["microarch"].unique()))
    rests_on = sources(kernel.id, microarch=cores) if cores else pd.DataFrame()
    judgement = conclude(found, sizes)
    swept = alignment.sweep(kernel.id, cores) if cores else pd.DataFrame()
    return Finding(
        study=found,
        table=compared,
        recommendation=judgement.rows,
        bands=judgement.bands,
        calls=_calls(found, sizes),
        sweep=swept,
        boundaries=alignment.boundaries(swept),
        moments=moments(kernel.id, swept, compared),
        evidence=evidence(found, judgement),
        answers=threads.answers(found, sizes),
        assumed=rests_on[rests_on["least_cycles"].notna()] if cores else rests_on,
        baselines=baselines,
    )


def _calls(found: Study, sizes: Histogram | None) -> pd.DataFrame:
    """Return what aligned calls are predicted to cost, at the sizes that a judgement looks at.

    On the cores judged for, and on the one that this machine is.
    """
    cores = [core.id for core in found.targets]
    if found.host and microarchs.load(found.host).isa == found.kernel.isa:
        cores.insert(0, found.host)
    counts = {
        place.size // contract.count_bytes
        for contract in (routine.contract for routine in found.kernel.routines.values())
        if contract.counted
        for place in simulated_places(contract, sizes, found.alignments)
    }
    return predict(
        found.kernel.id, microarch=",".join(dict.fromkeys(cores)), sizes=sorted(counts) or [1]
    )
