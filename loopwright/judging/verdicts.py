"""Verdicts on a variant against its baseline, by core and by band of sizes, and their evidence.

On each core the evidence of the best rank counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
import pandas as pd

from loopwright import microarchs
from loopwright.checking.check import user_space_note
from loopwright.code import assemble, binding, loops
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.judging import call_costs, margins, model_accuracy, published
from loopwright.judging.call_costs import ALIGNMENTS, Alignments, CallPoint, Gap, Row
from loopwright.judging.margins import SIZES, Margins, Speed
from loopwright.judging.model_accuracy import LEAST_DIFFERENCE, ModelAccuracy, Opinion, Rank
from loopwright.judging.published import PublishedFigure
from loopwright.judging.study import HERE, MEASURED, Study
from loopwright.kernels import Routine, Variant
from loopwright.kernels.contracts import Contract
from loopwright.measuring import readings
from loopwright.microarchs import Microarch, conditions
from loopwright.predicting import core_figures

_COMPILER_SOURCES = ("llvm-19",)  # sources of figures that are models, not measurements
_LEAST_CHANGE = 0.005  # the least change of a speed, as a logarithm, that counts


@dataclass(frozen=True)
class Simulated:
    """Simulated whole calls of a variant against another on a core, over all unknowns.

    The speed's low and high are its ends over the unknowns alone; the simulator's error (accuracy)
    comes on top of them.
    """

    margins: Margins
    accuracy: ModelAccuracy
    variant: str
    against: str
    sizes: Histogram | None

    @cached_property
    def speed(self) -> Speed:
        return self.margins.over(self.variant, self.against, self.sizes)

    @property
    def unknown(self) -> list[str]:
        """The unmeasured parameters that the speed depends on, the most influential first.

        Those that hardly change it are left out, unless there are no others.
        """
        moves = self.margins.effects(self.variant, self.against, self.sizes)
        return [name for name, moved in moves.items() if moved > _LEAST_CHANGE] or [*moves]

    @property
    def assumptions(self) -> str:
        """The unknowns that the speed depends on, and those not varied, in words."""
        core, unmeasured = self.margins.core.id, self.margins.unmeasured
        if self.unknown:
            basis = f"it depends on {margins.grouped(self.unknown)} of {core}"
        else:
            basis = f"it is independent of unmeasured parameters of {core}"
        parts = [f"{basis} ({unmeasured.text})", self._offsets]
        if figures := self._from_compilers:
            parts.append(f"not varied either: figures of {figures}, which no measurement gives")
        return "; ".join(parts)

    @property
    def _offsets(self) -> str:
        """The code offsets that were simulated, in words."""
        parts = []
        for name in (self.variant, self.against):
            offsets = [o for o in self.margins.offsets[name] if o is not None]
            shown = loops.offset_ranges(offsets)
            parts.append(f"{name} at code offset{'s' * (len(offsets) > 1)} {shown}")
        return " and ".join(parts)

    @property
    def _from_compilers(self) -> str:
        """The forms of instructions whose figures come from a compiler's model alone."""
        core, table = self.margins.core, core_figures.forms(self.margins.core.id)
        compiler_forms: dict[str, None] = {}
        for name in (self.variant, self.against):
            variant = self.margins.variants[name]
            code = assemble.variant_code(variant, microarchs.alternatives_left(variant, core))
            [forms] = binding.forms(code.isa, [b"".join(i.code for i in code.instructions)])
            for form in forms or ():
                source = table.get(form, {}).get("source", "")
                if source and all(key in _COMPILER_SOURCES for key in source.split("+")):
                    compiler_forms[form] = None
        return ", ".join(compiler_forms)

    @property
    def alignment(self) -> str:
        """The code offsets at which the variant gains if it does not at all, in words, or ""."""
        least = self.margins.by_offset(self.variant, self.against, self.sizes)
        wins = [offset for offset, speed in least.items() if speed > 1 + self.accuracy.doubt]
        if not wins or len(wins) == len(least):
            return ""
        return (
            f"{self.variant} gains on {self.margins.core.id} only with its loop at code offsets "
            f"{loops.offset_ranges(wins)}, of {loops.offset_ranges(least)} that a linker may give "
            "it: it needs an alignment directive"
        )


# Measurements of equal code at two code offsets differ by this much.
THRESHOLD = 0.02


class Status(StrEnum):
    """A verdict on a variant's speed against the baseline's."""

    FASTER = "faster"
    SLOWER = "slower"
    ALIKE = "no difference"
    OPEN = "open"
    CONTESTED = "contested"


def status(speed: Speed, rank: Rank, doubt: float) -> Status:
    """Classify a speed by what its evidence can tell.

    A measured difference counts beyond its interval and THRESHOLD, a predicted gain beyond doubt,
    the model's relative error, over the whole range of unmeasured parameters. A predicted loss
    needs no such proof.
    """
    if rank is Rank.MEASURED:
        if speed.low > 1 and speed.ratio > 1 + THRESHOLD:
            return Status.FASTER
        lost = speed.high < 1 and speed.ratio < 1 - THRESHOLD
        return Status.SLOWER if lost else Status.ALIKE
    if speed.low > 1 + doubt:
        return Status.FASTER
    if speed.high <= 1 + LEAST_DIFFERENCE:
        return Status.SLOWER if speed.low < 1 - LEAST_DIFFERENCE else Status.ALIKE
    return Status.OPEN


@dataclass(frozen=True)
class Verdict:
    """The speed of a variant against the baseline on one core, by evidence of one rank.

    speed is over all sizes, sizes has that of each size in bytes (empty if only models of the
    main loop answer). doubt is the relative error of the evidence, sources name it. contradicting
    are the published figures of the same pair that have the other sign, contradicting_at those of
    a size. opinion is that of models of the main loop; simulated has the whole calls.
    """

    core: str
    rank: Rank
    speed: Speed
    doubt: float
    sources: tuple[str, ...]
    sizes: Mapping[int, Speed] = field(default_factory=dict)
    contradicting: tuple[PublishedFigure, ...] = ()
    contradicting_at: Mapping[int, tuple[PublishedFigure, ...]] = field(default_factory=dict)
    opinion: Opinion | None = None
    simulated: Simulated | None = None

    @property
    def measured(self) -> bool:
        """True if this is a measurement on that very core."""
        return self.rank is Rank.MEASURED

    @property
    def uncontested(self) -> Status:
        """The status by this evidence alone."""
        if self.opinion is None:
            return status(self.speed, self.rank, self.doubt)
        if self.opinion.gain:
            return Status.FASTER
        if self.opinion.loss:
            return Status.SLOWER
        unsettled = self.opinion.contested or self.opinion.unproven
        return Status.OPEN if unsettled else Status.ALIKE

    @property
    def status(self) -> Status:
        """The status: contested where a published figure of the pair has the other sign."""
        settled = self.uncontested in (Status.FASTER, Status.SLOWER)
        contested = self.contradicting or (settled and self.contradicting_at)
        return Status.CONTESTED if contested else self.uncontested

    def at(self, size: int) -> Status:
        own_status = status(self.sizes[size], self.rank, self.doubt)
        contested = self.contradicting or self.contradicting_at.get(size)
        return Status.CONTESTED if contested and own_status is Status.FASTER else own_status

    @property
    def contradictions(self) -> tuple[PublishedFigure, ...]:
        return (*self.contradicting, *chain.from_iterable(self.contradicting_at.values()))

    def is_slower(self, size: int | None = None) -> bool:
        """True if it is slower, over all sizes or at one, whatever was published."""
        return (self.uncontested if size is None else self.at(size)) is Status.SLOWER

    def may_lose(self, size: int | None = None) -> bool:
        speed = self.speed if size is None else self.sizes[size]
        if self.measured:
            return status(speed, self.rank, self.doubt) is Status.SLOWER
        return speed.low < 1 - LEAST_DIFFERENCE

    @property
    def proven(self) -> float:
        """The proven speed: the low end of a gain, a loss as it is, else 1."""
        if self.status is Status.FASTER:
            return self.speed.ratio if self.measured else self.speed.low
        return self.speed.ratio if self.status is Status.SLOWER else 1.0


@dataclass
class Case:
    """A sound variant other than the baseline, with the evidence on it by core.

    verdicts are those that stand. gaps has the cores where measuring was attempted and points are
    missing; stored_gaps those of which a stored run lacks points and is not used. lacking names the
    feature that the variant needs and a core lacks. partial is "", or names the part of the variant
    or its baseline that cannot run in user space: partial_verdicts has its measurements, which are
    no verdict on the routine. simulated has the whole calls on each simulated core.
    """

    variant: Variant
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    gaps: dict[str, tuple[Gap, ...]] = field(default_factory=dict)
    stored_gaps: dict[str, tuple[Gap, ...]] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    partial: str = ""
    partial_verdicts: dict[str, Verdict] = field(default_factory=dict)
    simulated: dict[str, Simulated] = field(default_factory=dict)

    @property
    def condition(self) -> str:
        """The features that the variant needs and cores lack, or ""."""
        return ", ".join(sorted(set(self.lacking.values())))

    def with_status(self, cores: Sequence[str], *wanted: Status) -> list[str]:
        """Return those of the cores on which the variant has one of the statuses."""
        verdicts = ((core, self.verdicts.get(core)) for core in cores)
        return [core for core, verdict in verdicts if verdict and verdict.status in wanted]

    def without_verdict(self, cores: Sequence[str]) -> list[str]:
        return [core for core in cores if core not in self.verdicts]

    def unmeasured(self, cores: Sequence[str]) -> list[str]:
        """Return the cores where measuring was attempted and lacks points for a verdict."""
        return [core for core in cores if core in self.gaps and not self.partial]

    def harm(
        self, target_ids: Sequence[str], judged: Sequence[str], sizes: Sequence[int]
    ) -> Iterator[tuple[Verdict, int | None]]:
        """Yield the losses of the variant: verdict, and size in bytes (None: over all sizes).

        On the cores asked for a possible loss counts, on other judged or measured cores only a
        certain one.
        """
        for core in judged:
            verdict = self.verdicts.get(core)
            if verdict is None:
                continue
            careful = core in target_ids
            for size in (None, *(s for s in verdict.sizes if s in sizes)):
                if verdict.is_slower(size) or (careful and verdict.may_lose(size)):
                    yield verdict, size

    def highest_speed(self, cores: Sequence[str]) -> float:
        """Return the largest speed that is possible on one of the cores."""
        return max(self.verdicts[core].speed.high for core in cores if core in self.verdicts)

    def proven_speeds(self, cores: Sequence[str]) -> tuple[float, ...]:
        """Return the proven speeds on the cores, the least first; winners are ordered by them."""
        return tuple(sorted(self.verdicts[c].proven for c in cores if c in self.verdicts))


def judged(cores: Sequence[str], cases: Sequence[Case]) -> list[str]:
    """Return the cores that a judgement is about: those given, then those that were measured."""
    measured = [
        core
        for case in cases
        for core in (*(c for c, v in case.verdicts.items() if v.measured), *case.gaps)
    ]
    return list(dict.fromkeys([*cores, *measured]))


@dataclass
class Measured:
    """The measured rows of a core, and the calls of each variant among them."""

    core: str
    rows: pd.DataFrame
    alignments: Alignments = field(default_factory=lambda: ALIGNMENTS)
    _calls: dict[str, dict[CallPoint, list[Row]]] = field(default_factory=dict)

    def calls(self, variant: str) -> dict[CallPoint, list[Row]]:
        if variant not in self._calls:
            self._calls[variant] = call_costs.measured_calls(self.rows, variant)
        return self._calls[variant]

    def pairs(self, base: str, other: str) -> dict[CallPoint, tuple[Row, Row]]:
        """Return the points at which both were measured by the same machine, clock and skew."""
        return call_costs.paired_calls(self.calls(base), self.calls(other))

    def speed(
        self, base: str, other: str, points: Sequence[CallPoint], sizes: Histogram | None
    ) -> Speed | tuple[Gap, ...]:
        """Return the speed of other against base over the calls asked for, or what is missing."""
        pairs = self.pairs(base, other)
        if all(point in pairs for point in points):
            return self._of({point: pairs[point] for point in points}, sizes)
        gaps = [call_costs.gap(self.rows, name, self.calls(name), points) for name in (base, other)]
        # Each has its points, but they are not of one clock, machine and skew.
        unpaired = call_costs.gap(self.rows, f"{other} beside {base}", pairs, points)
        return tuple(g for g in gaps if g) or tuple(g for g in (unpaired,) if g)

    def at_sizes(self, base: str, other: str, points: Sequence[CallPoint]) -> dict[int, Speed]:
        """Return the speed of other against base at each size measured at all alignments."""
        pairs = self.pairs(base, other)
        alignments = len({(point.dst, point.src) for point in points})
        out = {}
        for size in sorted({point.size for point in points if point.size}):
            of_size = {p: pair for p, pair in pairs.items() if p.size == size}
            if len(of_size) >= alignments:
                out[size] = self._of(of_size, None)
        return out

    def _of(self, pairs: dict[CallPoint, tuple[Row, Row]], sizes: Histogram | None) -> Speed:
        ratio, low, high = call_costs.speedup(pairs, sizes, self.alignments)
        return Speed(low, ratio, high)


def measured_on_cores(study: Study) -> list[Measured]:
    """Return the measurements by core, also of cores where measuring was refused."""
    cores = [
        str(core) or HERE for core in study.measurements.get("microarch", pd.Series()).unique()
    ]
    cores += [study.host or HERE] if study.attempted else []
    all_cores = dict.fromkeys([*cores, *(source.core for source in study.sources)])
    return [
        Measured(core, _of_core(study.measurements, core), study.alignments) for core in all_cores
    ]


def _of_core(rows: pd.DataFrame, core: str) -> pd.DataFrame:
    return rows if rows.empty else rows[rows["microarch"].replace("", HERE) == core]


# A published change below this counts as no difference.
_NO_CHANGE_PERCENT = 1.0


@dataclass(frozen=True)
class Simulations:
    """Simulated calls of a routine's sound variants by core."""

    study: Study
    of_core: Mapping[str, Margins]
    sizes: Histogram | None

    def pair(self, core: str, variant: str, against: str) -> Simulated | None:
        """Return the calls of a variant against another; None if the simulator has no answer."""
        core_margins = self.of_core.get(core)
        if core_margins is None or not core_margins.has_costs(variant, against):
            return None
        both = self.study.kernel.variants[variant], self.study.kernel.variants[against]
        accuracy = model_accuracy.simulator_accuracy(
            core_margins.core.id, model_accuracy.records(), strings=_moves_by_string(both)
        )
        return Simulated(core_margins, accuracy, variant, against, self.sizes) if accuracy else None


def sound(study: Study, variant: str) -> bool:
    """True if a variant honours its contract."""
    return bool(study.checks.set_index("variant")["passed"].get(variant, False))


def cases(
    study: Study,
    routine: Routine,
    rows: pd.DataFrame,
    sizes: Histogram | None,
    measured: Sequence[Measured],
    calls: Simulations,
) -> list[Case]:
    """Return the candidates of a routine with the evidence on each.

    rows is the comparison table, measured has the measurements by core, calls the simulations. On
    each core the evidence of the best rank counts: whole calls measured on that core, whole calls
    simulated, models of the main loop. A stored run counts only if it has all points. A core that
    was to be measured now and lacks points gets no verdict by models.
    """
    by_models = rows[rows["source"] != MEASURED]
    panel = model_accuracy.Panel(by_models, routine, sizes, model_accuracy.records())
    points = call_costs.judged_points(routine.contract, sizes, study.alignments)
    baseline = study.kernel.variants[routine.baseline]
    out = []
    for variant in study.kernel.of_routine(routine.name):
        if variant.name == routine.baseline or not sound(study, variant.name):
            continue
        partial = user_space_note(baseline) or user_space_note(variant)
        case = Case(variant, partial=partial)
        for core in study.targets:
            if unmet := conditions(variant, core):
                case.lacking[core.id] = " and ".join(unmet)
        for calls_of_core in measured:
            core_id = calls_of_core.core
            speed = calls_of_core.speed(routine.baseline, variant.name, points, sizes)
            if isinstance(speed, Speed):
                of_size = calls_of_core.at_sizes(routine.baseline, variant.name, points)
                # Where user space leaves something out it says nothing of the routine.
                of_core = case.partial_verdicts if case.partial else case.verdicts
                rank, sources = Rank.MEASURED, (MEASURED,)
                of_core[core_id] = Verdict(core_id, rank, speed, THRESHOLD, sources, of_size)
            else:
                gaps = case.gaps if study.measured_now(core_id) else case.stored_gaps
                gaps[core_id] = speed
        for core in study.judged:
            if pair := calls.pair(core.id, variant.name, routine.baseline):
                case.simulated[core.id] = pair
            if core.id in case.verdicts or core.id in case.unmeasured([core.id]):
                continue
            if predicted := _verdict_by_models(case, core, panel.opinion(variant.name, core.id)):
                case.verdicts[core.id] = _confronted(study, routine, variant, predicted)
        out.append(case)
    return out


def simulations(study: Study, routine: Routine, sizes: Histogram | None) -> Simulations:
    """Return the simulated calls of a routine's sound variants on each judged core."""
    if study.calls is None:
        return Simulations(study, {}, sizes)
    variants = [v for v in study.kernel.of_routine(routine.name) if sound(study, v.name)]
    points = simulated_points(routine.contract, sizes, study.alignments)
    accuracies = model_accuracy.records()
    record_bytes = routine.contract.count_bytes
    of_core = {
        core.id: Margins(study.calls, core, variants, points, record_bytes, study.alignments)
        for core in study.judged
        if model_accuracy.simulator_accuracy(core.id, accuracies)
    }
    return Simulations(study, of_core, sizes)


def simulated_points(
    contract: Contract, sizes: Histogram | None, alignments: Alignments = ALIGNMENTS
) -> tuple[CallPoint, ...]:
    """Return the calls that are simulated: the sizes of bands, each at all alignments.

    A histogram with larger sizes adds LARGE; the cost grows linearly from there on.
    """
    all_sizes = readings.call_bytes(contract, call_costs.sizes_of_calls(contract, sizes, SIZES))
    return call_costs.points_of(contract, filter(None, all_sizes), alignments)


def _moves_by_string(pair: Sequence[Variant]) -> bool:
    """True if one of the variants moves its data by a string instruction."""
    for variant in pair:
        with suppress(InputError):  # its verdict says why it does not assemble
            if assemble.moves_by_string(variant):
                return True
    return False


def _verdict_by_models(case: Case, core: Microarch, opinion: Opinion | None) -> Verdict | None:
    """Return the verdict of the best rank of models that settles it, else of the best rank."""
    calls = case.simulated.get(core.id)
    by_calls = _of_calls(core.id, calls) if calls else None
    by_models = _of_models(opinion) if opinion else None
    settled = (Status.FASTER, Status.SLOWER)
    if by_calls and by_models and opinion and opinion.validated:
        bounded = by_calls.rank is Rank.BOUNDED
        if bounded and by_calls.status not in settled and by_models.status in settled:
            return by_models
    return by_calls or by_models


def _of_calls(core: str, calls: Simulated) -> Verdict:
    return Verdict(
        core=core,
        rank=Rank.SIMULATED if calls.accuracy.validated else Rank.BOUNDED,
        speed=calls.speed,
        doubt=calls.accuracy.doubt,
        sources=("simulated calls",),
        sizes=calls.margins.at_sizes(calls.variant, calls.against),
        simulated=calls,
    )


def _of_models(opinion: Opinion) -> Verdict:
    ends = opinion.ratios.values()
    doubts = [standing.doubt for standing in opinion.accuracies.values()]
    return Verdict(
        core=opinion.core,
        rank=Rank.MODELS,
        speed=Speed(min(ends), opinion.ratio, max(ends)),
        doubt=max(LEAST_DIFFERENCE, *doubts),
        sources=tuple(opinion.ratios),
        opinion=opinion,
    )


def _confronted(study: Study, routine: Routine, variant: Variant, verdict: Verdict) -> Verdict:
    """Return a verdict of models together with the published figures that contradict it.

    A figure with a size in the verdict's range is compared at the nearest size, others over all
    sizes.
    """
    pair = (variant.name, routine.baseline)
    contradicting: list[PublishedFigure] = []
    contradicting_at: dict[int, tuple[PublishedFigure, ...]] = {}
    for figure in published.figures(study.kernel.id, verdict.core):
        of_pair = {figure.variant, figure.baseline} == {*pair}
        if figure.retracted or figure.percent is None or not of_pair:
            continue
        inverted = (figure.variant, figure.baseline) != pair
        percent = 100 * (1 / (1 + figure.percent / 100) - 1) if inverted else figure.percent
        size = _nearest(verdict, figure.chunk_bytes or figure.size_bytes)
        if _contradicts(percent, verdict, size):
            if size is None:
                contradicting.append(figure)
            else:
                contradicting_at[size] = (*contradicting_at.get(size, ()), figure)
    return replace(verdict, contradicting=tuple(contradicting), contradicting_at=contradicting_at)


def _nearest(verdict: Verdict, size: int | None) -> int | None:
    """Return the verdict's size nearest to a size; None outside the range of its sizes."""
    if size is None or not verdict.sizes or not min(verdict.sizes) <= size <= max(verdict.sizes):
        return None
    return min(verdict.sizes, key=lambda candidate: abs(candidate - size))


def _contradicts(percent: float, verdict: Verdict, size: int | None) -> bool:
    """True if a published change of speed has the opposite sign of a verdict.

    size is that of the figure, None for all sizes together. A figure of "no change" contradicts a
    difference beyond the models' error. A published loss without a size contradicts a gain at any
    size.
    """
    speed = verdict.speed if size is None else verdict.sizes[size]
    verdict_status = verdict.uncontested if size is None else verdict.at(size)
    at_each_size = [verdict.at(s) for s in verdict.sizes] if size is None else []
    faster = Status.FASTER in (verdict_status, *at_each_size)
    if abs(percent) < _NO_CHANGE_PERCENT:
        return faster or speed.high < 1 - verdict.doubt
    return faster if percent < 0 else verdict_status is Status.SLOWER


EVERY = "every core"
WINS, KEEPS, OPEN, CONTESTED = "wins", "keeps", "open", "contested"


@dataclass(frozen=True)
class Band:
    """A range of sizes, in bytes, over which the same variant is best on a core.

    status is WINS where a variant is faster than the baseline; OPEN where one may be (variant names
    the likeliest); CONTESTED where one is predicted to be and a published figure of the pair has
    the other sign; KEEPS where none is: variant is the baseline. speed is that of the variant
    against the baseline over the band. condition is what the variant needs and the core lacks.
    """

    core: str
    condition: str
    low: int
    high: int
    variant: str
    status: str
    speed: Speed
    rank: Rank | None


_Sizes = Mapping[int, tuple[Status, Speed]]
"""Status and speed of a variant by size in bytes."""


def bands_of(study: Study, routine: Routine, cases: Sequence[Case]) -> list[Band]:
    """Return the bands of each judged core, then those that hold on every core, ascending.

    Variants that need a feature that a core lacks have bands of their own under that condition,
    where these differ. A core where points of a measurement are missing has none.
    """
    out: list[Band] = []
    target_ids = study.target_ids
    cores = judged(study.judged_ids, cases)
    features = ["", *dict.fromkeys(w for case in cases for w in case.lacking.values())]
    for condition in features:
        mine = [c for c in cases if not c.lacking or condition in c.lacking.values()]
        by_core = {core: speeds for core in cores if (speeds := _speeds_on(core, mine))}
        if condition and not any(
            c.variant.name in speeds for c in mine if c.lacking for speeds in by_core.values()
        ):
            continue
        for core, speeds in by_core.items():
            rank = min(c.verdicts[core].rank for c in mine if core in c.verdicts)
            out += _stretches(speeds, routine.baseline, core, condition, rank)
        if len(by_core) > 1 and all(core in by_core for core in target_ids):
            over_cores = _over_cores(by_core, target_ids)
            out += _stretches(over_cores, routine.baseline, EVERY, condition, None)
    return told_apart(out)


def _speeds_on(core: str, cases: Sequence[Case]) -> dict[str, _Sizes]:
    """Return the status and speed of the variants on a core, by size."""
    if any(case.unmeasured([core]) for case in cases):
        return {}
    verdicts = {c.variant.name: v for c in cases if (v := c.verdicts.get(core)) and v.sizes}
    shared = set.intersection(*(set(v.sizes) for v in verdicts.values())) if verdicts else set()
    return {
        name: {size: (verdict.at(size), verdict.sizes[size]) for size in sorted(shared)}
        for name, verdict in verdicts.items()
    }


def _over_cores(
    by_core: Mapping[str, Mapping[str, _Sizes]], target_ids: Sequence[str]
) -> dict[str, _Sizes]:
    """Return the worst status by size over cores: faster where it is so on one and slower on none.

    The speed spans those of all cores; it is no mean. A variant that is unknown on a core asked for
    is left out.
    """
    of_targets = [by_core[core] for core in by_core if core in target_ids] or [*by_core.values()]
    variants = [n for n in of_targets[0] if all(n in speeds for speeds in of_targets)]
    speeds_of = {n: [speeds[n] for speeds in by_core.values() if n in speeds] for n in variants}
    size_sets = [set(of) for speeds in speeds_of.values() for of in speeds]
    sizes = sorted(set.intersection(*size_sets)) if size_sets else []
    return {
        name: {size: _worst([of[size] for of in speeds]) for size in sizes}
        for name, speeds in speeds_of.items()
    }


def _worst(of_cores: Sequence[tuple[Status, Speed]]) -> tuple[Status, Speed]:
    statuses = {status for status, _ in of_cores}
    speed = Speed.of([end for _, s in of_cores for end in (s.low, s.high)])
    for status in (Status.SLOWER, Status.CONTESTED):
        if status in statuses:
            return status, speed
    if Status.FASTER in statuses and all(
        status is not Status.OPEN or s.low >= 1 - LEAST_DIFFERENCE for status, s in of_cores
    ):
        return Status.FASTER, speed
    return (Status.OPEN if statuses - {Status.ALIKE} else Status.ALIKE), speed


def _best(speeds: Mapping[str, _Sizes], size: int, baseline: str, last: str) -> tuple[str, str]:
    """Return the best variant at a size and its status; last is the best at the size below."""
    at_size = {name: of[size] for name, of in speeds.items() if size in of}
    for status, band_status in (
        (Status.FASTER, WINS),
        (Status.CONTESTED, CONTESTED),
        (Status.OPEN, OPEN),
    ):
        ratios = {name: speed.ratio for name, (own, speed) in at_size.items() if own is status}
        if ratios:
            best = max(ratios, key=lambda name: ratios[name])
            if last in ratios and ratios[last] > ratios[best] * (1 - THRESHOLD):
                best = last
            return best, band_status
    return baseline, KEEPS


def _stretches(
    speeds: Mapping[str, _Sizes], baseline: str, core: str, condition: str, rank: Rank | None
) -> list[Band]:
    """Return the bands of a core: neighbouring sizes with the same best variant and status."""
    out: list[Band] = []
    last = baseline
    for size in sorted({size for of in speeds.values() for size in of}):
        name, status = _best(speeds, size, baseline, last)
        speed = speeds[name][size][1] if name != baseline else Speed(1, 1, 1)
        previous = out[-1] if out else None
        if previous and (previous.variant, previous.status) == (name, status):
            ends = [end for s in (previous.speed, speed) for end in (s.low, s.high)]
            out[-1] = replace(previous, high=size, speed=Speed.of(ends))
        else:
            out.append(Band(core, condition, size, size, name, status, speed, rank))
        last = name
    return _joined(speeds, out)


def _joined(speeds: Mapping[str, _Sizes], bands: list[Band]) -> list[Band]:
    """Return bands that meet: at the size where two winners cost the same, else at the larger size.

    That size is interpolated linearly in the logarithm of the speeds.
    """
    out = list(bands)
    for n, (below, above) in enumerate(pairwise(bands)):
        border = above.low
        if below.status == above.status == WINS:
            gaps = [
                float(np.log(speeds[above.variant][s][1].ratio / speeds[below.variant][s][1].ratio))
                for s in (below.high, above.low)
            ]
            if gaps[0] < 0 < gaps[1]:
                share = gaps[0] / (gaps[0] - gaps[1])
                border = round(below.high + share * (above.low - below.high))
        out[n] = replace(out[n], high=border)
        out[n + 1] = replace(out[n + 1], low=border)
    return out


def told_apart(bands: Sequence[Band]) -> list[Band]:
    """Return bands without those under a condition that equal the unconditional ones."""
    by_core: dict[tuple[str, str], list[Band]] = {}
    for band in bands:
        by_core.setdefault((band.core, band.condition), []).append(replace(band, condition=""))
    return [
        band
        for band in bands
        if not band.condition or by_core[band.core, band.condition] != by_core.get((band.core, ""))
    ]


def won(bands: Sequence[Band]) -> list[Band]:
    """Return the bands in which a variant wins on a core."""
    return [b for b in bands if b.status == WINS and b.core != EVERY]
