"""The evidence on a kernel, side by side: predictions, contract checks, measurements."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from loopwright import kernels, microarchs, toolchain
from loopwright.checking.check import run as run_checks
from loopwright.checking.check import user_space_note
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.code.loops import Placement
from loopwright.errors import InputError, unknown
from loopwright.histogram import Histogram
from loopwright.judging import call_costs
from loopwright.judging.call_costs import ALIGNMENTS, Alignments, CallSimulator
from loopwright.kernels import Kernel, Routine, Variant, contract_of
from loopwright.machine import harness, hosts
from loopwright.machine.harness import Point
from loopwright.measuring import readings
from loopwright.measuring.measure import run as run_measurements
from loopwright.measuring.readings import (
    PROCESSES,
    RESULT_COLUMNS,
    Reading,
    Result,
    Sweep,
    result_row,
    self_test_span,
)
from loopwright.measuring.store import Record, Recorder, Run, Store
from loopwright.microarchs import Microarch
from loopwright.predicting import calls
from loopwright.predicting.calls import of_variants
from loopwright.predicting.predict import predict


@dataclass(frozen=True)
class Source:
    """The machine and run of a core's measurements."""

    core: str
    machine: str
    clock: str
    started: int

    def __str__(self) -> str:
        day = f"{datetime.fromtimestamp(self.started, UTC):%Y-%m-%d}"
        return f"{self.core} ({self.machine}, {self.clock}, {day})"


_Records = Mapping[str, Sequence[Record]]  # of today's code by one clock, by variant


def stored_measurements(kernel: Kernel, store: Store) -> tuple[pd.DataFrame, list[Source]]:
    """Return the stored measurements of a kernel as rows of measure.run, and their sources.

    For each core it is one run by one clock, the one with the most points that judgements use:
    figures of different clocks or runs are not combined. A row's microarch is the core that its
    machine is recognised as now. Figures of another protocol, or of other code than today's, are
    left out.
    """
    contracts = {v.name: contract_of(v) for v in kernel.variants.values()}
    best: dict[str, tuple[tuple[int, bool, int, int], Source, pd.DataFrame]] = {}
    for source, records, self_tests in _candidates(kernel, store):
        rows = pd.DataFrame(_rows(kernel, source, records, self_tests), columns=RESULT_COLUMNS)
        if rows.empty:
            continue
        # A PMU goes before other clocks, then what covers more variants, then the newest.
        points = call_costs.measured_coverage(rows, contracts)
        rank = (points, source.clock == hosts.PMU, len(records), source.started)
        if source.core not in best or rank > best[source.core][0]:
            best[source.core] = (rank, source, rows)
    chosen = sorted(best.values(), key=lambda entry: entry[0], reverse=True)
    bases = readings.bases(list(kernel.variants.values()))
    nothing = pd.DataFrame(columns=RESULT_COLUMNS)
    table = pd.concat([rows for *_, rows in chosen] or [nothing], ignore_index=True)
    return readings.add_ratios(table, bases, placed=False), [source for _, source, _ in chosen]


def used_runs(store: Store) -> Iterator[tuple[Run, str, hosts.Facts]]:
    """Yield the stored runs that count, newest first, each with its core and machine.

    Runs of another protocol, of cores that no core.toml describes and of damaged banners are only
    listed.
    """
    for run in store.runs():
        try:
            facts, recognised = hosts.of_banner(run.banner)
        except ValueError:
            continue
        if recognised.core and run.protocol == harness.protocol():
            yield run, recognised.core, facts


def _candidates(kernel: Kernel, store: Store) -> Iterator[tuple[Source, _Records, str]]:
    """Yield the runs of a kernel by one clock each: source, records and span of self-tests."""
    for run, core, facts in used_runs(store):
        if facts.isa != kernel.isa:
            continue
        by_clock: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
        for record in store.records(run, kernel.id):
            variant = kernel.variants.get(record.variant)
            if variant and record.object == assemble.code_hash(variant):
                by_clock[record.answer["clock"]][record.variant].append(record)
        for clock, records in by_clock.items():
            if any(not r.answer["refused"] for of in records.values() for r in of):
                source = Source(core, hosts.machine(facts), clock, run.started)
                tests = [p["self_test"] for p in store.processes(run).values()]
                yield source, records, self_test_span(tests)


def _rows(
    kernel: Kernel, source: Source, records: _Records, tests: str
) -> Iterator[dict[str, object]]:
    for variant in kernel.variants.values():
        if variant.name not in records:
            continue
        code = assemble.user_code(variant)
        placed = Placement.of(code, contract_of(variant), None)
        by_point: dict[Point, list[Reading]] = defaultdict(list)
        for record in records[variant.name]:
            if record.answer["offset"] == placed.shift:
                by_point[Point.of(record.answer)].append(Reading.of(record.answer))
        if not by_point:  # a run at other offsets alone
            continue
        for result in _results(variant, code, by_point):
            yield result_row(variant, placed.offset, result, source.core, source.machine, tests)


def _results(variant: Variant, code: Code, points: dict[Point, list[Reading]]) -> Iterator[Result]:
    """Yield the results of the goals whose points were measured often enough."""
    counts = sorted({p.count for p in points})
    align = contract_of(variant).align
    pairs = sorted({(p.dst_align, p.src_align) for p in points})
    pairs = [pair for pair in pairs if not any(a % align for a in pair)]
    if not pairs:  # of a contract that asked for less
        return
    for goal in readings.goals(variant, code, contract_of(variant), Sweep(counts, pairs)):
        of_points: Sequence[list[Reading]] = [points.get(p, []) for p in goal.points]
        if all(len(of_point) >= PROCESSES for of_point in of_points):
            yield Result.of(goal, of_points, PROCESSES)


HERE = "this host"  # a core that no core.toml describes
STORED_INSTEAD = "the run in the store has more of the points than the one made now"
_ROUNDS = 3  # rounds of measuring, the repetitions of refused points included
REFUSED = "refused: "  # begins the reason where every measurement was refused


@dataclass(frozen=True)
class Study:
    """A kernel and the evidence about its variants.

    host is the core of this machine ("" if no core.toml describes it). measurements has the rows
    of this machine and, of other cores, those of the results store, whose machines and runs sources
    has. unmeasured is the reason why nothing was measured here, or "". calls answers whole calls by
    the simulator. cores are those asked for, all targets where none is named; beside are further
    cores on which a winner may not be slower (this machine's). stored_read is True if stored runs
    take part. alignments weighs the calls of a size.
    """

    kernel: Kernel
    predictions: pd.DataFrame
    checks: pd.DataFrame
    measurements: pd.DataFrame
    host: str
    unmeasured: str
    sources: tuple[Source, ...] = ()
    stored_read: bool = True
    calls: CallSimulator | None = None
    cores: tuple[Microarch, ...] = ()
    beside: tuple[Microarch, ...] = ()
    alignments: Alignments = field(default_factory=lambda: ALIGNMENTS)

    @property
    def targets(self) -> list[Microarch]:
        """The cores that a recommendation is made for."""
        return list(self.cores) or microarchs.targets(self.kernel.isa)

    @property
    def judged(self) -> list[Microarch]:
        """The cores asked for, then those beside."""
        return [*self.targets, *self.beside]

    @property
    def target_ids(self) -> list[str]:
        return [core.id for core in self.targets]

    @property
    def judged_ids(self) -> list[str]:
        return [core.id for core in self.judged]

    @property
    def attempted(self) -> bool:
        """True if measuring on this machine was attempted, whatever the result."""
        return self.unmeasured in ("", STORED_INSTEAD) or self.unmeasured.startswith(REFUSED)

    def measured_now(self, core: str) -> bool:
        """True if a core is this machine's and measuring was attempted."""
        return self.attempted and core == (self.host or HERE)


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
    """Predict, check and measure every variant of a kernel, and read stored runs.

    A variant that breaks its contract is not measured. quick measures nothing now and uses no
    stored run, unless stored asks for those. On this machine's core, a run made now goes before a
    stored one, unless the stored one has more of the points that a judgement uses, or as many and
    it alone is by a PMU. microarch, parameters and against are as for recommend. progress is called
    with the number of measured points of a routine and the number of all.
    """
    kernel = compared(kernels.load(kernel_id), against)
    targets = microarchs.select(microarch, kernel.isa)
    refusals = [calls.refusal(core, parameters or {}) for core in targets]
    if all(refusals):
        raise InputError(refusals[0])
    host = hosts.microarch() or ""
    checks = run_checks(list(kernel.variants.values()))
    with closing(Store.open()) as store:
        rows, sources = stored_measurements(kernel, store)
        if quick and not stored:
            rows, sources = rows.iloc[:0], []
        sound = set(checks.loc[checks["passed"], "variant"])
        weighing = (sizes, alignments)
        new, unmeasured = _measure_now(kernel, sound, weighing, store, quick, progress)
    if _has_more_evidence(rows[rows["microarch"] == host], new, kernel):
        new, unmeasured = new.iloc[:0], unmeasured or STORED_INSTEAD
    elif len(new):
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
        measurements=pd.concat([t for t in (new, rows) if len(t)] or [new], ignore_index=True),
        host=host,
        unmeasured=unmeasured,
        sources=tuple(sources),
        calls=CallSimulator(of_variants, dict(parameters or {})),
        cores=tuple(targets),
        beside=tuple(beside),
        stored_read=stored or not quick,
        alignments=alignments,
    )


def compared(kernel: Kernel, against: str | None) -> Kernel:
    """Return a kernel reduced to one routine, with a variant in the place of the baseline.

    InputError if there is no such variant.
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


def _has_more_evidence(stored: pd.DataFrame, new: pd.DataFrame, kernel: Kernel) -> bool:
    """True if the stored rows of this core have more evidence than those measured now."""
    contracts = {v.name: kernel.routines[v.routine].contract for v in kernel.variants.values()}

    def evidence(rows: pd.DataFrame) -> tuple[int, bool]:
        by_pmu = rows["cycles"].notna() & (rows["clock"] == hosts.PMU)
        return call_costs.measured_coverage(rows, contracts), bool(by_pmu.any())

    return evidence(stored) > evidence(new)


def _measure_now(
    kernel: Kernel,
    sound: set[str],
    weighing: tuple[Histogram | None, Alignments],
    store: Store,
    quick: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[pd.DataFrame, str]:
    """Measure a kernel's sound variants here; return rows, and the reason for none."""
    nothing = pd.DataFrame(columns=RESULT_COLUMNS)
    if quick:
        return nothing, "measuring was left out"
    if not toolchain.find(kernel.isa).native:
        return nothing, f"this machine is no {kernel.isa}, and an emulator has no cycles"
    recorder = Recorder(store)
    parts = []
    for routine in kernel.routines.values():
        variants = [v for v in kernel.of_routine(routine.name) if v.name in sound]
        if variants:
            parts.append(_measure(routine, variants, weighing, store, recorder, progress))
    if not parts:
        return nothing, "no variant honours its contract"
    rows = pd.concat(parts, ignore_index=True)
    refused = rows["cycles"].isna().all()
    return rows, f"{REFUSED}{rows['reason'].iloc[0]}" if refused else ""


def _measure(
    routine: Routine,
    variants: list[Variant],
    weighing: tuple[Histogram | None, Alignments],
    store: Store,
    recorder: Recorder,
    progress: Callable[[int, int], None] | None,
) -> pd.DataFrame:
    """Measure a routine's variants at the points that a judgement uses.

    A judgement needs all points: refused ones are measured again while any other succeeds.
    """
    sizes, alignments = weighing
    points = set(call_costs.judged_points(routine.contract, sizes, alignments))
    for round_number in range(_ROUNDS):
        rows = run_measurements(
            variants,
            sizes=call_costs.sizes_of_calls(routine.contract, sizes),
            alignments=[*alignments],
            recorder=Recorder(store, resume=True) if round_number else recorder,
            progress=progress,
        )
        measured = [set(call_costs.measured_calls(rows, v.name)) for v in variants]
        if not any(measured) or all(points <= calls for calls in measured):
            break
    return rows


MEASURED = "measured"
COLUMNS = [
    "kernel", "routine", "variant", "microarch", "source", "notion", "offset", "cycles",
    "uncertainty", "bytes_per_iteration", "bytes_per_cycle", "unit", "cycles_per_unit",
    "vs_baseline", "ratio_low", "ratio_high", "verdict", "error_percent", "spread_percent",
    "least_cycles", "excluded", "startup_cycles", "main_loop", "clock", "machine", "note", "caveat",
    "error",
]  # fmt: skip
_NUMBERS = ("cycles", "uncertainty", "bytes_per_iteration", "least_cycles", "startup_cycles")


def compare(
    kernel_id: str,
    *,
    quick: bool = False,
    stored: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Gather a kernel's evidence and return it as one tidy table (see table).

    quick measures nothing now; stored uses runs of the store all the same.
    """
    return comparison(gather(kernel_id, quick=quick, stored=stored, progress=progress))


def comparison(study: Study) -> pd.DataFrame:
    """Return predictions and measurements in one table.

    One row for each variant, core and source (a model, or "measured"). cycles are those of one
    iteration of the main loop, or of a call where there is no loop. Loops move different bytes an
    iteration: variants are compared by cycles_per_unit, cycles for the bytes that unit names (64
    bytes, a record, or a call), alike for all variants of a routine. vs_baseline is the speed by
    bytes moved, relative to the baseline by the same source (above 1: faster); ratio_low,
    ratio_high and verdict are those of readings.add_ratios. error_percent is a model's error
    against the measurement, where this host is the core; spread_percent the excess of the models'
    largest figure over the least. least_cycles is the lower bound by the core's load and store
    ports; excluded is the reason why a figure is in no comparison, such as one below that bound.
    startup_cycles come once, before a string instruction's first; missing where not known.
    main_loop names the loop and the rule that chose it. note names the part of a variant that a
    measurement left out: such a row has no vs_baseline, and no model is compared with it. caveat
    names the part of a variant that a model leaves out of its figure.
    """
    rows = pd.concat([_predicted(study), _measured(study)], ignore_index=True)
    rows = rows.astype(dict.fromkeys(_NUMBERS, "float64"))
    contracts = [study.kernel.routines[v.routine].contract for v in _variants(study, rows)]
    rows["bytes_per_cycle"] = rows["bytes_per_iteration"] / rows["cycles"]
    rows["unit"] = [c.unit_name for c in contracts]
    of_unit = pd.Series([c.unit_bytes for c in contracts], index=rows.index, dtype="float64")
    rows["cycles_per_unit"] = of_unit / rows["bytes_per_cycle"]
    below = microarchs.below_bounds(rows)
    rows["excluded"] = exclusions(rows)
    rows["main_loop"] = _main_loops(study, rows)
    for column in ("note", "caveat"):
        rows[column] = rows[column].astype("object").fillna("")
    whole = ~below & rows["note"].eq("")
    rows["vs_baseline"] = _against_baseline(rows.where(whole), study)
    keys = ["variant", "microarch"]
    measured_cycles = rows[(rows["source"] == MEASURED) & whole].set_index(keys)["cycles"]
    reference = rows.set_index(keys).index.map(measured_cycles.to_dict()).astype("float64")
    model = rows["source"] != MEASURED
    rows["error_percent"] = np.where(model, 100 * (rows["cycles"] / reference - 1), np.nan)
    grouped = rows[model & ~below].groupby(keys)["cycles"]
    spread = 100 * (grouped.transform("max") / grouped.transform("min") - 1)
    rows["spread_percent"] = spread.reindex(rows.index)
    order = {name: n for n, name in enumerate(study.kernel.variants)}
    rows = rows.sort_values(
        ["microarch", "variant"],
        key=lambda c: c.map(order).fillna(0) if c.name == "variant" else c,
        kind="stable",
    )
    return rows[COLUMNS].reset_index(drop=True)


def exclusions(rows: pd.DataFrame) -> list[str]:
    """Return for each row the reason why its cycles are in no comparison, or ""."""
    return [
        microarchs.why_below_bounds(least) if below else ""
        for least, below in zip(rows["least_cycles"], microarchs.below_bounds(rows), strict=True)
    ]


def _main_loops(study: Study, rows: pd.DataFrame) -> list[str]:
    """Return for each row the main loop of its variant and the rule that chose it.

    It is empty for a variant without a loop or without code; the error of its prediction gives the
    reason.
    """
    descriptions = {}
    for variant in _variants(study, rows):
        contract = study.kernel.routines[variant.routine].contract
        if contract.unit == "iteration" and variant.name not in descriptions:
            with suppress(InputError):
                code = assemble.variant_code(variant)
                descriptions[variant.name] = str(assemble.chosen_loop(variant, code))
    return [descriptions.get(str(name), "") for name in rows["variant"]]


def _predicted(study: Study) -> pd.DataFrame:
    rows = study.predictions.rename(columns={"model": "source", "note": "caveat"})
    rows["bytes_per_iteration"] = rows["bytes_per_iteration"].astype("float64")
    return rows.reindex(columns=COLUMNS).astype({"uncertainty": "float64"})


def _measured(study: Study) -> pd.DataFrame:
    rows = study.measurements
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    units = [study.kernel.routines[v.routine].contract.unit for v in _variants(study, rows)]
    quantity = pd.Series(units, index=rows.index).map({"iteration": "loop", "call": "call"})
    aligned = (rows["dst_align"] == 0) & (rows["src_align"] == 0) & (rows["cache"] == "hot")
    rows = rows[(rows["quantity"] == quantity) & aligned].copy()
    rows["routine"] = [v.routine for v in _variants(study, rows)]
    rows["source"] = MEASURED
    rows["notion"] = rows["quantity"].map({"loop": "loop", "call": "unrolled"})
    rows["bytes_per_iteration"] = rows["size_bytes"].astype("float64")
    refused = rows["status"] == "refused"
    rows["error"] = rows["reason"].where(refused, "")
    rows["microarch"] = rows["microarch"].replace("", HERE)
    rows["note"] = [user_space_note(v) for v in _variants(study, rows)]
    return rows.reindex(columns=COLUMNS)


def _variants(study: Study, rows: pd.DataFrame) -> list[Variant]:
    return [study.kernel.variants[name] for name in rows["variant"]]


def _against_baseline(rows: pd.DataFrame, study: Study) -> pd.Series:
    """Return the speed by bytes moved relative to the baseline's by the same source."""
    baselines = {r.baseline for r in study.kernel.routines.values()}
    base = rows[rows["variant"].isin(baselines)]
    keys = ["routine", "microarch", "source"]
    speed = base.set_index(keys)["bytes_per_cycle"].to_dict()
    of_base = pd.Series(
        [speed.get(k, np.nan) for k in zip(*(rows[w] for w in keys), strict=True)],
        index=rows.index,
        dtype="float64",
    )
    return rows["bytes_per_cycle"] / of_base
