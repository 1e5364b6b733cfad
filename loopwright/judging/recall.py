"""Measurements out of the results store: of each core, what its best run says of today's code."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pandas as pd

from loopwright import harness
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.code.loops import Placement
from loopwright.harness.jobs import Point
from loopwright.judging import basis
from loopwright.kernels import Kernel, Variant, contract_of
from loopwright.machine import hosts
from loopwright.measuring import ratios, sweeps
from loopwright.measuring.readings import Reading, Result
from loopwright.measuring.sweeps import Sweep
from loopwright.measuring.table import COLUMNS, PROCESSES, row, self_test
from loopwright.store.runs import Record, Run, Store


@dataclass(frozen=True)
class Source:
    """Where measurements of a core come from."""

    core: str
    machine: str
    clock: str
    started: int

    def __str__(self) -> str:
        return f"{self.core} ({self.machine}, {self.clock}, {day(self.started)})"


@dataclass(frozen=True)
class _Candidate:
    """A run on a core, with its records of today's code by one clock, by variant."""

    run: Run
    source: Source
    records: dict[str, list[Record]]
    tested: str

    def rank(self, points: int) -> tuple[int, bool, int, int]:
        """Return what the best run has most of: points that judgements rest on, then the rest.

        A PMU goes before other clocks, what covers more variants before what covers fewer, and the
        newest before older ones.
        """
        return points, self.source.clock == hosts.PMU, len(self.records), self.run.started


def day(started: int) -> str:
    """Return a day as 2026-11-21 (UTC)."""
    return f"{datetime.fromtimestamp(started, UTC):%Y-%m-%d}"


def measurements(kernel: Kernel, store: Store) -> tuple[pd.DataFrame, list[Source]]:
    """Return rows as measure.run has them, of other machines and days, and where they come from.

    For each core one run by one clock, the one that has most of the points that judgements rest on:
    figures of different clocks, or of different runs, are not put together. A row's
    microarch is what its machine is recognised as now. What another protocol measured, and other
    code than today's, is left out.
    """
    contracts = {v.name: contract_of(v) for v in kernel.variants.values()}
    found = []
    for candidate in _candidates(kernel, store):
        rows = pd.DataFrame(_rows(kernel, candidate), columns=COLUMNS)
        if len(rows):
            found.append((candidate.rank(basis.coverage(rows, contracts)), candidate.source, rows))
    best: dict[str, tuple[Source, pd.DataFrame]] = {}
    for _, source, rows in sorted(found, key=lambda one: one[0], reverse=True):
        best.setdefault(source.core, (source, rows))
    bases = ratios.bases(list(kernel.variants.values()))
    nothing = pd.DataFrame(columns=COLUMNS)
    table = pd.concat([rows for _, rows in best.values()] or [nothing], ignore_index=True)
    return ratios.add(table, bases, placed=False), [source for source, _ in best.values()]


def _candidates(kernel: Kernel, store: Store) -> Iterator[_Candidate]:
    for run in store.runs():
        try:
            facts, found = hosts.of_banner(run.banner)
        except ValueError:  # listed, and used for nothing
            continue
        core = found.core
        if core is None or facts.isa != kernel.isa or run.protocol != harness.protocol():
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
                yield _Candidate(run, source, records, self_test(tests))


def _rows(kernel: Kernel, candidate: _Candidate) -> Iterator[dict[str, object]]:
    source = candidate.source
    for variant in kernel.variants.values():
        if variant.name not in candidate.records:
            continue
        code = assemble.user_code(variant)
        place = Placement.of(code, contract_of(variant), None)
        readings: dict[Point, list[Reading]] = defaultdict(list)
        for record in candidate.records[variant.name]:
            if record.answer["offset"] == place.shift:
                readings[Point.of(record.answer)].append(Reading.of(record.answer))
        if not readings:  # a run at other offsets alone
            continue
        for result in _results(variant, code, readings):
            yield row(variant, place.offset, result, source.core, source.machine, candidate.tested)


def _results(
    variant: Variant, code: Code, readings: dict[Point, list[Reading]]
) -> Iterator[Result]:
    """Yield what comes of every goal whose points were measured often enough."""
    counts = sorted({p.count for p in readings})
    align = contract_of(variant).align
    pairs = sorted({(p.dst_align, p.src_align) for p in readings})
    pairs = [pair for pair in pairs if not any(a % align for a in pair)]
    if not pairs:  # of a contract that asked for less
        return
    for goal in sweeps.goals(variant, code, contract_of(variant), Sweep(counts, pairs)):
        of_points: Sequence[list[Reading]] = [readings.get(p, []) for p in goal.points]
        if all(len(of_point) >= PROCESSES for of_point in of_points):
            yield Result.of(goal, of_points, PROCESSES)
