"""Evidence on each variant of a routine, core by core, of the best rank first."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pandas as pd

from loopwright.checking.check import user_space_note
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.judging import call_costs, model_accuracy, published
from loopwright.judging.call_costs import ALIGNMENTS, Alignments, Gap, Place, Row
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
    _calls: dict[str, dict[Place, list[Row]]] = field(default_factory=dict)

    def calls(self, variant: str) -> dict[Place, list[Row]]:
        """Return the calls of a variant by place."""
        if variant not in self._calls:
            self._calls[variant] = call_costs.measured_calls(self.rows, variant)
        return self._calls[variant]

    def pairs(self, base: str, other: str) -> dict[Place, tuple[Row, Row]]:
        """Return the places at which both were measured alike."""
        return call_costs.paired_calls(self.calls(base), self.calls(other))

    def speed(
        self, base: str, other: str, asked: Sequence[Place], sizes: Histogram | None
    ) -> Speed | tuple[Gap, ...]:
        """Return the speed of other against base over the calls asked for, or what is missing."""
        both = self.pairs(base, other)
        if all(place in both for place in asked):
            return self._of({place: both[place] for place in asked}, sizes)
        lacks = [call_costs.gap(self.rows, name, self.calls(name), asked) for name in (base, other)]
        # Each has its points, but they are not of one clock, machine and skew.
        apart = call_costs.gap(self.rows, f"{other} beside {base}", both, asked)
        return tuple(g for g in lacks if g) or tuple(g for g in (apart,) if g)

    def at_sizes(self, base: str, other: str, asked: Sequence[Place]) -> dict[int, Speed]:
        """Return the speed of other against base at each size asked for of which all is known."""
        both = self.pairs(base, other)
        alignments = len({(place.dst, place.src) for place in asked})
        out = {}
        for size in sorted({place.size for place in asked if place.size}):
            here = {p: pair for p, pair in both.items() if p.size == size}
            if len(here) >= alignments:
                out[size] = self._of(here, None)
        return out

    def _of(self, pairs: dict[Place, tuple[Row, Row]], sizes: Histogram | None) -> Speed:
        ratio, low, high = call_costs.speedup(pairs, sizes, self.alignments)
        return Speed(low, ratio, high)


def measured_on_cores(found: Study) -> list[Measured]:
    """Return what was, or was to be, measured, by core."""
    cores = [
        str(core) or HERE for core in found.measurements.get("microarch", pd.Series()).unique()
    ]
    cores += [found.host or HERE] if found.tried else []
    every = dict.fromkeys([*cores, *(source.core for source in found.sources)])
    return [Measured(core, _on(found.measurements, core), found.alignments) for core in every]


def _on(rows: pd.DataFrame, core: str) -> pd.DataFrame:
    return rows if rows.empty else rows[rows["microarch"].replace("", HERE) == core]


# A published change below this is no difference.
_NO_CHANGE_PERCENT = 1.0


@dataclass(frozen=True)
class Simulations:
    """Simulated calls of a routine's sound variants by core."""

    found: Study
    of_core: Mapping[str, Margins]
    sizes: Histogram | None

    def pair(self, core: str, variant: str, against: str) -> Simulated | None:
        """Return the calls of a variant against another; None where the simulator has no answer."""
        margins = self.of_core.get(core)
        if margins is None or not margins.answers(variant, against):
            return None
        both = self.found.kernel.variants[variant], self.found.kernel.variants[against]
        accuracy = model_accuracy.simulator_accuracy(
            margins.core.id, model_accuracy.records(), strings=_strings(both)
        )
        return Simulated(margins, accuracy, variant, against, self.sizes) if accuracy else None


def sound(found: Study, variant: str) -> bool:
    """Say whether a variant honours its contract."""
    return bool(found.checks.set_index("variant")["passed"].get(variant, False))


def cases(
    found: Study,
    routine: Routine,
    rows: pd.DataFrame,
    sizes: Histogram | None,
    there: Sequence[Measured],
    calls: Simulations,
) -> list[Case]:
    """Return the candidates of a routine with the evidence on each.

    rows is the comparison table, there what was measured, calls what was simulated. On each core
    the evidence of the first rank counts: whole calls measured on that core, whole calls simulated,
    models of the main loop. A run in the store counts with all of its points or not at all. A core
    that was to be measured now and lacks points has no verdict by models.
    """
    by_models = rows[rows["source"] != MEASURED]
    panel = model_accuracy.Panel(by_models, routine, sizes, model_accuracy.records())
    asked = call_costs.judged_places(routine.contract, sizes, found.alignments)
    out = []
    for variant in found.kernel.of_routine(routine.name):
        if variant.name == routine.baseline or not sound(found, variant.name):
            continue
        both = (found.kernel.variants[routine.baseline], variant)
        notes = (user_space_note(one) for one in both)
        case = Case(variant, partial=next(filter(None, notes), ""))
        for core in found.targets:
            if unmet := conditions(variant, core):
                case.lacking[core.id] = " and ".join(unmet)
        for one in there:
            speed = one.speed(routine.baseline, variant.name, asked, sizes)
            if isinstance(speed, Speed):
                of_size = one.at_sizes(routine.baseline, variant.name, asked)
                verdict = Verdict(one.core, Rank.MEASURED, speed, THRESHOLD, (MEASURED,), of_size)
                # Where user space leaves something out it says nothing of the routine.
                (case.aside if case.partial else case.verdicts)[one.core] = verdict
            else:
                (case.short if found.measured_now(one.core) else case.stale)[one.core] = speed
        for core in found.judged:
            if pair := calls.pair(core.id, variant.name, routine.baseline):
                case.simulated[core.id] = pair
            if core.id in case.verdicts or core.id in case.unmeasured([core.id]):
                continue
            if said := _predicted(case, core, panel.opinion(variant.name, core.id)):
                case.verdicts[core.id] = _held_to(found, routine, variant, said)
        out.append(case)
    return out


def simulations(found: Study, routine: Routine, sizes: Histogram | None) -> Simulations:
    """Return the simulated calls of a routine's sound variants on each judged core."""
    if found.calls is None:
        return Simulations(found, {}, sizes)
    variants = [v for v in found.kernel.of_routine(routine.name) if sound(found, v.name)]
    places = simulated_places(routine.contract, sizes, found.alignments)
    known = model_accuracy.records()
    record = routine.contract.count_bytes
    of_core = {
        core.id: Margins(found.calls, core, variants, places, record, found.alignments)
        for core in found.judged
        if model_accuracy.simulator_accuracy(core.id, known)
    }
    return Simulations(found, of_core, sizes)


def simulated_places(
    contract: Contract, sizes: Histogram | None, alignments: Alignments = ALIGNMENTS
) -> tuple[Place, ...]:
    """Return the calls that are simulated: the sizes of the bands, each at all alignments.

    A histogram that reaches beyond them adds one more size, from which on costs are linear.
    """
    wanted = None if contract.fields else [*SIZES]
    top = max((b.high or b.low for b in sizes.buckets), default=0) if sizes else 0
    if wanted and top > wanted[-1]:
        wanted.append(call_costs.LARGE)
    every = [size for size in sweeps.call_bytes(contract, wanted) if size]
    where = Sweep(alignments=[*alignments]).places(contract)
    return tuple(Place(size, dst, src) for size in every for dst, src, _ in where)


def _strings(pair: Sequence[Variant]) -> bool:
    """Say whether one of the variants moves its data by a string instruction."""
    for variant in pair:
        with suppress(InputError):  # its verdict says why it does not assemble
            if assemble.moves_by_string(variant):
                return True
    return False


def _predicted(case: Case, core: Microarch, opinion: Opinion | None) -> Verdict | None:
    """Return the verdict of the first rank of models that settles it, else of the first."""
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


def _held_to(found: Study, routine: Routine, variant: Variant, verdict: Verdict) -> Verdict:
    """Return a verdict of models with the published figures that contradict it.

    A figure of a size that the verdict knows is held to that size, others to all sizes together.
    """
    pair = (variant.name, routine.baseline)
    against: list[PublishedFigure] = []
    against_at: dict[int, tuple[PublishedFigure, ...]] = {}
    for figure in published.figures(found.kernel.id, verdict.core):
        if (
            figure.retracted
            or figure.percent is None
            or {figure.variant, figure.baseline} != {*pair}
        ):
            continue
        turned = (figure.variant, figure.baseline) != pair
        percent = 100 * (1 / (1 + figure.percent / 100) - 1) if turned else figure.percent
        size = _nearest(verdict, figure.chunk_bytes or figure.size_bytes)
        if _contradicts(percent, verdict, size):
            if size is None:
                against.append(figure)
            else:
                against_at[size] = (*against_at.get(size, ()), figure)
    return replace(verdict, against=tuple(against), against_at=against_at)


def _nearest(verdict: Verdict, size: int | None) -> int | None:
    """Return the size of a verdict that a size is nearest to; None where it is out of its range."""
    if size is None or not verdict.sizes or not min(verdict.sizes) <= size <= max(verdict.sizes):
        return None
    return min(verdict.sizes, key=lambda known: abs(known - size))


def _contradicts(percent: float, verdict: Verdict, size: int | None) -> bool:
    """Say whether a published change of speed has another sign than a verdict.

    size is that of the figure, None for all sizes together. No change contradicts a difference
    beyond the doubt of the models. A slow-down without a size contradicts a gain at any size.
    """
    speed = verdict.speed if size is None else verdict.sizes[size]
    found = verdict.uncontested if size is None else verdict.at(size)
    somewhere = [verdict.at(s) for s in verdict.sizes] if size is None else []
    faster = Status.FASTER in (found, *somewhere)
    if abs(percent) < _NO_CHANGE_PERCENT:
        return faster or speed.high < 1 - verdict.doubt
    return faster if percent < 0 else found is Status.SLOWER
