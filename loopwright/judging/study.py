"""Gather all that can be known here about a kernel: predictions, contract, measurements."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import pandas as pd

from loopwright import kernels, toolchain
from loopwright.checking.check import run as run_checks
from loopwright.cores import microarchs
from loopwright.cores.microarchs import Microarch
from loopwright.errors import unknown
from loopwright.histogram import Histogram
from loopwright.judging import basis
from loopwright.judging.recall import Source, measurements
from loopwright.judging.whole_calls import Calls
from loopwright.kernels import Kernel, Routine, Variant
from loopwright.machine import hosts
from loopwright.measuring.measure import run as run_measurements
from loopwright.measuring.table import COLUMNS
from loopwright.predicting.calls import of_variants
from loopwright.predicting.predict import predict
from loopwright.store.recorder import Recorder
from loopwright.store.runs import Store

INSTEAD = "what is stored has more of the points"  # than what was measured now
_TURNS = 3  # how often what was refused is measured, at most
REFUSED = "refused: "  # begins the reason why nothing was measured that was to be


@dataclass(frozen=True)
class Study:
    """A kernel and the evidence about its variants.

    host is the core that this machine is ("" where no core.toml knows it). measurements has the
    rows of this machine and, of other cores, those of the results store, whose sources say where
    they come from. unmeasured says why nothing was measured here, where it was so. calls answers
    for whole calls by the simulator; cores are those to judge for, all targets where none is named.
    """

    kernel: Kernel
    predictions: pd.DataFrame
    checks: pd.DataFrame
    measurements: pd.DataFrame
    host: str
    unmeasured: str
    sources: tuple[Source, ...] = ()
    calls: Calls | None = None
    cores: tuple[Microarch, ...] = ()

    @property
    def targets(self) -> list[Microarch]:
        """Return the cores that a recommendation is made for."""
        return list(self.cores) or microarchs.targets(self.kernel.isa)

    @property
    def tried(self) -> bool:
        """Say whether this machine was to be measured, whatever came of it."""
        return not self.unmeasured or self.unmeasured.startswith(REFUSED)


def gather(
    kernel_id: str,
    *,
    sizes: Histogram | None = None,
    quick: bool = False,
    microarch: str | None = None,
    parameters: Mapping[str, str] | None = None,
    against: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Study:
    """Predict, check and measure every variant of a kernel; recall what was measured elsewhere.

    A variant that breaks its contract is not measured. quick measures nothing now. On the core
    that this machine is, what is measured now goes before what is stored, unless the latter has
    more of the points that a judgement rests on, or as many and only it comes from a PMU.
    microarch, parameters and against are as for recommend. progress is called with measured points
    of a routine and all of them.
    """
    kernel = compared(kernels.load(kernel_id), against)
    targets = microarchs.select(microarch, kernel.isa)
    host = hosts.microarch() or ""
    checks = run_checks(list(kernel.variants.values()))
    with closing(Store.open()) as store:
        stored, sources = measurements(kernel, store)
        sound = set(checks.loc[checks["passed"], "variant"])
        now, unmeasured = _measure_now(kernel, sound, sizes, store, quick, progress)
    if _better(stored[stored["microarch"] == host], now, kernel):
        now, unmeasured = now.iloc[:0], unmeasured or INSTEAD
    elif len(now):
        stored = stored[stored["microarch"] != host]
        sources = [s for s in sources if s.core != host]
    cores = [c.id for c in targets]
    here = [host] if host and microarchs.load(host).isa == kernel.isa else []
    cores += dict.fromkeys(c for c in (*here, *(s.core for s in sources)) if c not in cores)
    predictions = predict(kernel_id, microarch=",".join(cores), model="all", parameters=parameters)
    return Study(
        kernel=kernel,
        predictions=predictions[predictions["variant"].isin(kernel.variants)],
        checks=checks,
        measurements=pd.concat([t for t in (now, stored) if len(t)] or [now], ignore_index=True),
        host=host,
        unmeasured=unmeasured,
        sources=tuple(sources),
        calls=Calls(of_variants, dict(parameters or {})),
        cores=tuple(targets),
    )


def compared(kernel: Kernel, against: str | None) -> Kernel:
    """Return a kernel with one routine alone, of which a variant stands for the baseline.

    InputError where there is no such variant.
    """
    if against is None:
        return kernel
    if against not in kernel.variants:
        raise unknown("variant", against, kernel.variants)
    name = kernel.variants[against].routine
    routine = replace(kernel.routines[name], baseline=against)
    return replace(
        kernel,
        routines={name: routine},
        variants={n: v for n, v in kernel.variants.items() if v.routine == name},
    )


def _better(stored: pd.DataFrame, now: pd.DataFrame, kernel: Kernel) -> bool:
    """Say whether what is stored of this core tells more than what was measured now."""
    contracts = {v.name: kernel.routines[v.routine].contract for v in kernel.variants.values()}
    known, fresh = (basis.coverage(rows, contracts) for rows in (stored, now))
    return known > fresh or (known == fresh and _counted(stored) and not _counted(now))


def _counted(rows: pd.DataFrame) -> bool:
    """Say whether rows have figures that a PMU counted."""
    return bool((rows["cycles"].notna() & (rows["clock"] == hosts.PMU)).any())


def _measure_now(
    kernel: Kernel,
    sound: set[str],
    sizes: Histogram | None,
    store: Store,
    quick: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[pd.DataFrame, str]:
    """Measure a kernel's sound variants on this machine; the rows, and why none has a number."""
    nothing = pd.DataFrame(columns=COLUMNS)
    if quick:
        return nothing, "measuring was left out"
    if not toolchain.find(kernel.isa).native:
        return nothing, f"this machine is no {kernel.isa}, and an emulator has no cycles"
    recorder = Recorder(store)
    parts = []
    for routine in kernel.routines.values():
        variants = [v for v in kernel.of_routine(routine.name) if v.name in sound]
        if variants:
            parts.append(_measure(routine, variants, sizes, store, recorder, progress))
    if not parts:
        return nothing, "no variant honours its contract"
    rows = pd.concat(parts, ignore_index=True)
    return rows, _refusal(rows)


def _measure(
    routine: Routine,
    variants: list[Variant],
    sizes: Histogram | None,
    store: Store,
    recorder: Recorder,
    progress: Callable[[int, int], None] | None,
) -> pd.DataFrame:
    """Measure a routine's variants where a judgement rests on.

    It takes all points: those that were refused are tried again, as long as others are not.
    """
    asked = set(basis.places(routine.contract, sizes))
    for turn in range(_TURNS):
        rows = run_measurements(
            variants,
            sizes=basis.wanted(routine.contract, sizes),
            alignments=basis.ALIGNMENTS,
            recorder=Recorder(store, resume=True) if turn else recorder,
            progress=progress,
        )
        known = [set(basis.calls(rows, v.name)) for v in variants]
        if not any(known) or all(asked <= calls for calls in known):
            break
    return rows


def _refusal(rows: pd.DataFrame) -> str:
    """Say why nothing could be measured, if it was so."""
    return "" if rows["cycles"].notna().any() else f"{REFUSED}{rows['reason'].iloc[0]}"
