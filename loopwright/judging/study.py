"""Gather all that can be known here about a kernel: predictions, contract, measurements."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

import pandas as pd

from loopwright import kernels, microarchs, toolchain
from loopwright.checking.check import run as run_checks
from loopwright.errors import InputError, unknown
from loopwright.histogram import Histogram
from loopwright.judging import basis
from loopwright.judging.call_costs import ALIGNMENTS, Alignments
from loopwright.judging.recall import Source, measurements
from loopwright.judging.whole_calls import Calls
from loopwright.kernels import Kernel, Routine, Variant
from loopwright.machine import hosts
from loopwright.measuring.measure import run as run_measurements
from loopwright.measuring.table import COLUMNS
from loopwright.microarchs import Microarch
from loopwright.predicting import calls
from loopwright.predicting.calls import of_variants
from loopwright.predicting.predict import predict
from loopwright.store.recorder import Recorder
from loopwright.store.runs import Store

HERE = "this host"  # a core that no core.toml describes
INSTEAD = "the run in the store has more of the points than the one made now"
_TURNS = 3  # how often what was refused is measured, at most
REFUSED = "refused: "  # begins the reason why nothing was measured that was to be


@dataclass(frozen=True)
class Study:
    """A kernel and the evidence about its variants.

    host is the core that this machine is ("" where no core.toml knows it). measurements has the
    rows of this machine and, of other cores, those of the results store, whose sources say where
    they come from. unmeasured says why nothing was measured here, where it was so. calls answers
    for whole calls by the simulator. cores are those asked for, all targets where none is named;
    beside are further cores that a winner may not harm (this machine's). stored_read says whether
    runs of the store take part. alignments weighs the calls of a size.
    """

    kernel: Kernel
    predictions: pd.DataFrame
    checks: pd.DataFrame
    measurements: pd.DataFrame
    host: str
    unmeasured: str
    sources: tuple[Source, ...] = ()
    stored_read: bool = True
    calls: Calls | None = None
    cores: tuple[Microarch, ...] = ()
    beside: tuple[Microarch, ...] = ()
    alignments: Alignments = field(default_factory=lambda: ALIGNMENTS)

    @property
    def targets(self) -> list[Microarch]:
        """Return the cores that a recommendation is made for."""
        return list(self.cores) or microarchs.targets(self.kernel.isa)

    @property
    def judged(self) -> list[Microarch]:
        """Return the cores asked for, then those beside."""
        return [*self.targets, *self.beside]

    @property
    def judged_ids(self) -> list[str]:
        """Return the ids of the judged cores."""
        return [core.id for core in self.judged]

    @property
    def tried(self) -> bool:
        """Say whether this machine was to be measured now, with whatever result."""
        return self.unmeasured in ("", INSTEAD) or self.unmeasured.startswith(REFUSED)

    def measured_now(self, core: str) -> bool:
        """Say whether a core is this machine's and was to be measured now."""
        return self.tried and core == (self.host or HERE)


def gather(
    kernel_id: str,
    *,
    sizes: Histogram | None = None,
    quick: bool = False,
    stored: bool = False,
    microarch: str | None = None,
    parameters: Mapping[str, str] | None = None,
    against: str | None = None,
    alignments: Alignments = ALIGNMENTS,
    progress: Callable[[int, int], None] | None = None,
) -> Study:
    """Predict, check and measure every variant of a kernel; recall runs from the store.

    A variant that breaks its contract is not measured. quick measures nothing now and uses no
    stored run, unless stored asks for those. On this machine's core, a run made now goes before a
    stored one, unless that has more of the points that a judgement rests on, or as many and it
    alone comes from a PMU.
    microarch, parameters and against are as for recommend. progress is called with measured points
    of a routine and all of them.
    """
    kernel = compared(kernels.load(kernel_id), against)
    targets = microarchs.select(microarch, kernel.isa)
    refusals = [calls.refusal(core, parameters or {}) for core in targets]
    if all(refusals):
        raise InputError(refusals[0])
    host = hosts.microarch() or ""
    checks = run_checks(list(kernel.variants.values()))
    with closing(Store.open()) as store:
        rows, sources = measurements(kernel, store)
        if quick and not stored:
            rows, sources = rows.iloc[:0], []
        sound = set(checks.loc[checks["passed"], "variant"])
        wanted = (sizes, alignments)
        now, unmeasured = _measure_now(kernel, sound, wanted, store, quick, progress)
    if _better(rows[rows["microarch"] == host], now, kernel):
        now, unmeasured = now.iloc[:0], unmeasured or INSTEAD
    elif len(now):
        rows = rows[rows["microarch"] != host]
        sources = [s for s in sources if s.core != host]
    cores = [c.id for c in targets]
    here = [host] if host and microarchs.load(host).isa == kernel.isa else []
    cores += dict.fromkeys(c for c in (*here, *(s.core for s in sources)) if c not in cores)
    beside = [
        microarchs.load(c) for c in here if microarch is None and c not in [t.id for t in targets]
    ]
    predictions = predict(kernel_id, microarch=",".join(cores), model="all", parameters=parameters)
    return Study(
        kernel=kernel,
        predictions=predictions[predictions["variant"].isin(kernel.variants)],
        checks=checks,
        measurements=pd.concat([t for t in (now, rows) if len(t)] or [now], ignore_index=True),
        host=host,
        unmeasured=unmeasured,
        sources=tuple(sources),
        calls=Calls(of_variants, dict(parameters or {})),
        cores=tuple(targets),
        beside=tuple(beside),
        stored_read=stored or not quick,
        alignments=alignments,
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
    wanted: tuple[Histogram | None, Alignments],
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
            parts.append(_measure(routine, variants, wanted, store, recorder, progress))
    if not parts:
        return nothing, "no variant honours its contract"
    rows = pd.concat(parts, ignore_index=True)
    return rows, _refusal(rows)


def _measure(
    routine: Routine,
    variants: list[Variant],
    wanted: tuple[Histogram | None, Alignments],
    store: Store,
    recorder: Recorder,
    progress: Callable[[int, int], None] | None,
) -> pd.DataFrame:
    """Measure a routine's variants where a judgement rests on.

    It takes all points: those that were refused are tried again, as long as others are not.
    """
    sizes, alignments = wanted
    asked = set(basis.places(routine.contract, sizes, alignments))
    for turn in range(_TURNS):
        rows = run_measurements(
            variants,
            sizes=basis.wanted(routine.contract, sizes),
            alignments=[*alignments],
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
