"""What is known of each variant of a routine: evidence of all ranks put together, core by core."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from loopwright.checking.check import user_space_note
from loopwright.cores import microarchs
from loopwright.cores.features import conditions
from loopwright.cores.microarchs import Microarch
from loopwright.histogram import Histogram
from loopwright.judging import basis, opinions, simulated, standing
from loopwright.judging.call_costs import Place
from loopwright.judging.margins import SIZES, Margins
from loopwright.judging.measured import Measured
from loopwright.judging.opinions import UNVALIDATED, Opinion
from loopwright.judging.ranks import Rank
from loopwright.judging.simulated import Simulated
from loopwright.judging.study import Study
from loopwright.judging.verdicts import Case, Verdict
from loopwright.kernels import Routine, Variant
from loopwright.kernels.contracts import Contract
from loopwright.measuring import sweeps
from loopwright.measuring.sweeps import Sweep

Simulations = Mapping[str, tuple[Margins, simulated.Trust]]
"""Simulated calls of a routine by core, with the trust in them."""


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
    """Return the candidates of a routine with what is known of each.

    rows is the comparison table, there what was measured, calls what was simulated.

    On each core evidence of the first rank that there is counts. Where that is the simulator's with
    a bound alone, or with what nobody knows, and it tells neither a gain nor a loss, models that
    were right there and then what was measured on a kin core may tell one instead.
    """
    panel = opinions.Panel.of(rows, routine, sizes)
    asked = basis.places(routine.contract, sizes)
    cores = [core.id for core in found.targets]
    cores += [c for c in map(str, rows["microarch"].unique()) if c not in cores]
    out = []
    for variant in found.kernel.of_routine(routine.name):
        if variant.name == routine.baseline or not sound(found, variant.name):
            continue
        case = Case(variant, partial=_partial(found, routine, variant))
        for core in found.targets:
            if unmet := conditions(variant, core):
                case.lacking[core.id] = " and ".join(unmet)
        for one in there:
            _add_measured(case, one, routine.baseline, asked, sizes)
        for core_id in cores:
            whole = _simulated(calls.get(core_id), variant.name, routine.baseline, sizes)
            if whole:
                case.simulated[core_id] = whole
            # What was to be measured and is not there is no reason to ask models instead.
            if core_id in case.verdicts or (core_id in case.short and not case.partial):
                continue
            verdict = _best(case, core_id, panel.opinion(variant.name, core_id))
            if verdict:
                case.verdicts[core_id] = verdict
        out.append(case)
    return out


def simulations(found: Study, routine: Routine, sizes: Histogram | None) -> Simulations:
    """Return the simulated calls of a routine's sound variants, by core, with the trust in them."""
    if found.calls is None:
        return {}
    variants = [v for v in found.kernel.of_routine(routine.name) if sound(found, v.name)]
    places = simulated_places(routine.contract, sizes)
    known = standing.records()
    record = routine.contract.count_bytes
    out = {}
    for core in found.targets:
        if trust := simulated.trust(core, known):
            out[core.id] = Margins(found.calls, core, variants, places, record), trust
    return out


def simulated_places(contract: Contract, sizes: Histogram | None) -> tuple[Place, ...]:
    """Return the calls that are simulated: sizes that bands are drawn at, each at all alignments.

    A histogram that reaches beyond them adds one more size, from which on costs go on in a line.
    """
    wanted = None if contract.fields else [*SIZES]
    top = max((b.high or b.low for b in sizes.buckets), default=0) if sizes else 0
    if wanted and top > wanted[-1]:
        wanted.append(basis.LARGE)
    every = [size for size in sweeps.call_bytes(contract, wanted) if size]
    where = Sweep(alignments=basis.ALIGNMENTS).places(contract)
    return tuple(Place(size, dst, src) for size in every for dst, src, _ in where)


def _simulated(
    calls: tuple[Margins, simulated.Trust] | None,
    variant: str,
    against: str,
    sizes: Histogram | None,
) -> Simulated | None:
    if calls is None or not calls[0].answers(variant, against):
        return None
    return Simulated(*calls, variant, against, sizes)


def _partial(found: Study, routine: Routine, variant: Variant) -> str:
    """Say what user space leaves out of a variant or its baseline, or nothing."""
    both = (found.kernel.variants[routine.baseline], variant)
    return next((note for one in both if (note := user_space_note(one))), "")


def _add_measured(
    case: Case, one: Measured, baseline: str, asked: Sequence[Place], sizes: Histogram | None
) -> None:
    """Fill in the verdict of calls that were measured on a core, or what is missing for one.

    Where user space leaves something out a measurement says nothing of the routine, whole or not.
    """
    found = one.verdict(baseline, case.variant.name, asked, sizes)
    if isinstance(found, Verdict):
        (case.aside if case.partial else case.verdicts)[one.core] = found
    else:
        case.short[one.core] = found


def _best(case: Case, core_id: str, opinion: Opinion | None) -> Verdict | None:
    """Return the verdict of the first rank that has one, apart from measurements there."""
    calls = case.simulated.get(core_id)
    by_calls = _of_calls(core_id, calls) if calls else None
    by_models = _of_models(opinion) if opinion else None
    if by_calls and (by_calls.rank is Rank.SIMULATED and not by_calls.contested):
        return by_calls
    if by_calls and by_calls.settled_either_way:
        return by_calls
    if by_models and opinion and opinion.validated and by_models.settled_either_way:
        return by_models
    kin = _of_kin(case, microarchs.load(core_id)) if core_id in microarchs.ids() else None
    if core_id in case.short and not case.partial:
        return None
    if kin and kin.settled_either_way:
        return kin
    return by_calls or by_models


def _of_kin(case: Case, core: Microarch) -> Verdict | None:
    """Return what was measured on the first kin core, as far as it tells something of this one.

    Points that are missing there are missing here: they leave no verdict, of whatever rank below.
    """
    for kin in core.kin:
        if case.partial:
            return None
        if kin in case.short:
            case.short[core.id] = case.short[kin]
            return None
        if there := case.verdicts.get(kin):
            if not there.measured:
                continue
            return replace(
                there,
                core=core.id,
                sources=(f"measured on {kin}",),
                gain=there.gain and there.ratio > 1 + UNVALIDATED,
                rank=Rank.KIN,
            )
    return None


def _of_calls(core: str, calls: Simulated) -> Verdict:
    speed = calls.speed
    return Verdict(
        core=core,
        ratio=speed.ratio,
        low=speed.low,
        high=speed.high,
        sources=("simulated calls",),
        gain=calls.gain,
        loss=calls.loss,
        contested=calls.open,
        rank=calls.trust.rank,
        simulated=calls,
    )


def _of_models(opinion: Opinion) -> Verdict:
    return Verdict(
        core=opinion.core,
        ratio=opinion.ratio,
        low=min(opinion.ratios.values()),
        high=max(opinion.ratios.values()),
        sources=tuple(opinion.ratios),
        gain=opinion.gain,
        loss=opinion.loss,
        contested=opinion.contested,
        opinion=opinion,
        rank=Rank.MODELS,
    )
