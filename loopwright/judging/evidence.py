"""Evidence on each variant of a routine, core by core; evidence of the best rank counts."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pandas as pd

from loopwright.checking.check import user_space_note
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.judging import call_costs, model_accuracy, published
from loopwright.judging.call_costs import ALIGNMENTS, Alignments, CallPoint, Gap, Row
from loopwright.judging.margins import SIZES, Margins, Speed
from loopwright.judging.model_accuracy import LEAST_DIFFERENCE, Opinion, Rank
from loopwright.judging.published import PublishedFigure
from loopwright.judging.study import HERE, MEASURED, Study
from loopwright.judging.verdicts import THRESHOLD, Case, Simulated, Status, Verdict
from loopwright.kernels import Routine, Variant
from loopwright.kernels.contracts import Contract
from loopwright.measuring import sweeps
from loopwright.measuring.sweeps import Sweep
from loopwright.microarchs import Microarch, conditions


@dataclass
class Measured:
    """The measured rows of a core, and the calls of each variant among them."""

    core: str
    rows: pd.DataFrame
    alignments: Alignments = field(default_factory=lambda: ALIGNMENTS)
    _calls: dict[str, dict[CallPoint, list[Row]]] = field(default_factory=dict)

    def calls(self, variant: str) -> dict[CallPoint, list[Row]]:
        """Return the calls of a variant by point."""
        if variant not in self._calls:
            self._calls[variant] = call_costs.measured_calls(self.rows, variant)
        return self._calls[variant]

    def pairs(self, base: str, other: str) -> dict[CallPoint, tuple[Row, Row]]:
        """Return the points at which both were measured by the same machine, clock and skew."""
        return call_costs.paired_calls(self.calls(base), self.calls(other))

    def speed(
        self, base: str, other: str, asked: Sequence[CallPoint], sizes: Histogram | None
    ) -> Speed | tuple[Gap, ...]:
        """Return the speed of other against base over the calls asked for, or what is missing."""
        pairs = self.pairs(base, other)
        if all(point in pairs for point in asked):
            return self._of({point: pairs[point] for point in asked}, sizes)
        gaps = [call_costs.gap(self.rows, name, self.calls(name), asked) for name in (base, other)]
        # Each has its points, but they are not of one clock, machine and skew.
        unpaired = call_costs.gap(self.rows, f"{other} beside {base}", pairs, asked)
        return tuple(g for g in gaps if g) or tuple(g for g in (unpaired,) if g)

    def at_sizes(self, base: str, other: str, asked: Sequence[CallPoint]) -> dict[int, Speed]:
        """Return the speed of other against base at each size measured at all alignments."""
        pairs = self.pairs(base, other)
        alignments = len({(point.dst, point.src) for point in asked})
        out = {}
        for size in sorted({point.size for point in asked if point.size}):
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
    cores += [study.host or HERE] if study.tried else []
    all_cores = dict.fromkeys([*cores, *(source.core for source in study.sources)])
    return [Measured(core, _on(study.measurements, core), study.alignments) for core in all_cores]


def _on(rows: pd.DataFrame, core: str) -> pd.DataFrame:
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
        margins = self.of_core.get(core)
        if margins is None or not margins.answers(variant, against):
            return None
        both = self.study.kernel.variants[variant], self.study.kernel.variants[against]
        accuracy = model_accuracy.simulator_accuracy(
            margins.core.id, model_accuracy.records(), strings=_strings(both)
        )
        return Simulated(margins, accuracy, variant, against, self.sizes) if accuracy else None


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
    asked = call_costs.judged_points(routine.contract, sizes, study.alignments)
    out = []
    for variant in study.kernel.of_routine(routine.name):
        if variant.name == routine.baseline or not sound(study, variant.name):
            continue
        both = (study.kernel.variants[routine.baseline], variant)
        notes = (user_space_note(rows_of_core) for rows_of_core in both)
        case = Case(variant, partial=next(filter(None, notes), ""))
        for core in study.targets:
            if unmet := conditions(variant, core):
                case.lacking[core.id] = " and ".join(unmet)
        for rows_of_core in measured:
            speed = rows_of_core.speed(routine.baseline, variant.name, asked, sizes)
            if isinstance(speed, Speed):
                of_size = rows_of_core.at_sizes(routine.baseline, variant.name, asked)
                verdict = Verdict(
                    rows_of_core.core, Rank.MEASURED, speed, THRESHOLD, (MEASURED,), of_size
                )
                # Where user space leaves something out it says nothing of the routine.
                (case.partial_verdicts if case.partial else case.verdicts)[rows_of_core.core] = (
                    verdict
                )
            else:
                (case.short if study.measured_now(rows_of_core.core) else case.stale)[
                    rows_of_core.core
                ] = speed
        for core in study.judged:
            if pair := calls.pair(core.id, variant.name, routine.baseline):
                case.simulated[core.id] = pair
            if core.id in case.verdicts or core.id in case.unmeasured([core.id]):
                continue
            if verdict_by_models := _predicted(case, core, panel.opinion(variant.name, core.id)):
                case.verdicts[core.id] = _held_to(study, routine, variant, verdict_by_models)
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
    asked = None if contract.fields else [*SIZES]
    top = max((b.high or b.low for b in sizes.buckets), default=0) if sizes else 0
    if asked and top > asked[-1]:
        asked.append(call_costs.LARGE)
    all_sizes = [size for size in sweeps.call_bytes(contract, asked) if size]
    alignments_of_calls = Sweep(alignments=[*alignments]).allowed(contract)
    return tuple(
        CallPoint(size, dst, src) for size in all_sizes for dst, src, _ in alignments_of_calls
    )


def _strings(pair: Sequence[Variant]) -> bool:
    """True if one of the variants moves its data by a string instruction."""
    for variant in pair:
        with suppress(InputError):  # its verdict says why it does not assemble
            if assemble.moves_by_string(variant):
                return True
    return False


def _predicted(case: Case, core: Microarch, opinion: Opinion | None) -> Verdict | None:
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
    doubts = [standing.doubt for standing in opinion.standings.values()]
    return Verdict(
        core=opinion.core,
        rank=Rank.MODELS,
        speed=Speed(min(ends), opinion.ratio, max(ends)),
        doubt=max(LEAST_DIFFERENCE, *doubts),
        sources=tuple(opinion.ratios),
        opinion=opinion,
    )


def _held_to(study: Study, routine: Routine, variant: Variant, verdict: Verdict) -> Verdict:
    """Return a verdict of models together with the published figures that contradict it.

    A figure with a size in the verdict's range is compared at the nearest size, others over all
    sizes.
    """
    pair = (variant.name, routine.baseline)
    against: list[PublishedFigure] = []
    against_at: dict[int, tuple[PublishedFigure, ...]] = {}
    for figure in published.figures(study.kernel.id, verdict.core):
        if (
            figure.retracted
            or figure.percent is None
            or {figure.variant, figure.baseline} != {*pair}
        ):
            continue
        inverted = (figure.variant, figure.baseline) != pair
        percent = 100 * (1 / (1 + figure.percent / 100) - 1) if inverted else figure.percent
        size = _nearest(verdict, figure.chunk_bytes or figure.size_bytes)
        if _contradicts(percent, verdict, size):
            if size is None:
                against.append(figure)
            else:
                against_at[size] = (*against_at.get(size, ()), figure)
    return replace(verdict, against=tuple(against), against_at=against_at)


def _nearest(verdict: Verdict, size: int | None) -> int | None:
    """Return the verdict's size nearest to a size; None outside the range of its sizes."""
    if size is None or not verdict.sizes or not min(verdict.sizes) <= size <= max(verdict.sizes):
        return None
    return min(verdict.sizes, key=lambda known: abs(known - size))


def _contradicts(percent: float, verdict: Verdict, size: int | None) -> bool:
    """True if a published change of speed has the opposite sign of a verdict.

    size is that of the figure, None for all sizes together. A figure of "no change" contradicts a
    difference beyond the models' error. A published loss without a size contradicts a gain at any
    size.
    """
    speed = verdict.speed if size is None else verdict.sizes[size]
    status = verdict.uncontested if size is None else verdict.at(size)
    at_each_size = [verdict.at(s) for s in verdict.sizes] if size is None else []
    faster = Status.FASTER in (status, *at_each_size)
    if abs(percent) < _NO_CHANGE_PERCENT:
        return faster or speed.high < 1 - verdict.doubt
    return faster if percent < 0 else status is Status.SLOWER
