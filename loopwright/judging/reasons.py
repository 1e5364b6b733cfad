"""Say in words what a judgement rests on."""

from collections import defaultdict

from loopwright.cores.microarchs import Microarch
from loopwright.histogram import Histogram
from loopwright.judging.basis import LARGE, Gap
from loopwright.judging.compare import HERE
from loopwright.judging.ranks import Rank
from loopwright.judging.study import Study
from loopwright.judging.verdicts import THRESHOLD, Case, Verdict
from loopwright.machine import hosts

Cores = list[Microarch]
NOT_ENOUGH = "not enough measured"


def confidence(case: Case, targets: Cores) -> str:
    """Say how sure the verdicts on a variant are, over the target cores."""
    of = {c.id: case.verdicts.get(c.id) for c in targets}
    if doubtful := case.contested(targets):
        asked = [numbers for c in doubtful if (numbers := _unknown(of[c.id]))]
        if len(asked) == len(doubtful):
            return f"open on {names(doubtful)}: measure {' and '.join(dict.fromkeys(asked))} there"
        return f"models disagree: measure on {names(doubtful)}"
    if silent := case.silent(targets):
        return f"no model answers on {names(silent)}: measure there"
    known = [(c, v) for c in targets if (v := of[c.id]) is not None]
    measured = [c for c, v in known if v.measured]
    if len(measured) == len(targets):
        return "measured"
    parts = [f"measured on {names(measured)}"] if measured else []
    if held := [c for c, v in known if v.rank is Rank.SIMULATED]:
        parts.append(f"simulated on {names(held)}")
    if bounded := [c for c, v in known if v.rank is Rank.BOUNDED]:
        parts.append(f"simulated on {names(bounded)} (no loop validated there)")
    parts += [f"{v.sources[0]}, kin of {c.id}" for c, v in known if v.rank is Rank.KIN]
    by_models = [(c, v.opinion) for c, v in known if v.opinion]
    alone = [c for c, opinion in by_models if len(opinion.ratios) == 1]
    unsure = [c for c, opinion in by_models if not opinion.validated]
    notes = [f"one model alone on {names(alone)}"] if alone else []
    notes += [f"none validated on {names(unsure)}"] if unsure else []
    if by_models:
        parts.append(f"models agree ({', '.join(notes)})" if notes else "models agree")
    return ", ".join(parts)


def _unknown(verdict: Verdict | None) -> str:
    """Name the parameters that leave a verdict open, or nothing."""
    calls = verdict.simulated if verdict else None
    return " and ".join(calls.unknown) if calls else ""


def not_enough(short: list[Case], targets: Cores) -> str:
    """Say which of the points that were to be measured on target cores are missing."""
    parts = []
    for core in targets:
        gaps = _merged(
            [g for c in short for g in c.short.get(core.id, ()) if core in c.unmeasured(targets)]
        )
        if gaps:
            parts.append(f"{NOT_ENOUGH} on {core.id} for a verdict: {gaps}")
    return "; ".join(parts)


def _merged(gaps: list[Gap]) -> str:
    """Return gaps in words, each once, variants that lack the same together."""
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for gap in gaps:
        names_of = alike[gap.missing, gap.asked, gap.why]
        if gap.variant not in names_of:
            names_of.append(gap.variant)
    return "; ".join(
        str(Gap(", ".join(who), *key))  # type: ignore[arg-type]
        for key, who in alike.items()
    )


def elsewhere(known: list[Case], found: Study) -> str:
    """Say what was measured, on no target or without changing the answer."""
    cores = dict.fromkeys(core for c in known for core in (*_measured(c), *c.aside, *c.short))
    said = [_best_on(core, known, found) for core in cores]
    if said:
        return "; ".join(said)
    return found.unmeasured or "nothing was measured"


def _measured(case: Case) -> list[str]:
    return [core for core, verdict in case.verdicts.items() if verdict.measured]


def _best_on(core: str, known: list[Case], found: Study) -> str:
    """Name the best on a core that was measured, or say what is missing to name it."""
    where = _place(core, found)
    gaps = _merged([g for case in known for g in case.short.get(core, ())])
    if gaps:
        return f"{NOT_ENOUGH} on {where} to name the best: {gaps}"
    whole = [(v, c) for c in known if (v := c.verdicts.get(core)) and v.measured]
    cut = [(v, c) for c in known if (v := c.aside.get(core))]
    verdict, case = max(whole or cut, key=lambda pair: pair[0].ratio)
    if not whole:
        return (
            f"on {where} the best is {case.variant.name}: {said(verdict)}, but {case.partial}, so "
            "that it is no verdict on the whole"
        )
    upstream = found.kernel.routines[case.variant.routine].upstream
    spared = [f for f in upstream.unused_with if f in hosts.features()] if upstream else []
    aside = f", though Linux does not call it where there is {spared[0]}" if spared else ""
    return f"on {where} the best is {case.variant.name}: {said(verdict)}{aside}"


def _place(core: str, found: Study) -> str:
    return "this host" if core in (found.host, HERE) else core


def basis(found: Study, sizes: Histogram | None) -> str:
    """Say which sizes a judgement is about, and what was measured where."""
    which = _weighed(sizes) if sizes else "64 B to 4 KiB weighted alike"
    models = f"simulated: whole calls, L1 hits, sizes {which}"
    if found.calls is None:
        which = f"{sizes.name} from 64 B on" if sizes else which
        models = f"models: start-up and main loop, L1 hits, sizes {which}"
    if found.measurements.empty or not found.measurements["cycles"].notna().any():
        return f"{models}; not measured: {found.unmeasured or 'nothing came of it'}"
    weights = f"sizes weighted by {sizes.name}" if sizes else "the same sizes"
    where = [] if found.unmeasured else [found.host or HERE]
    where += [str(source) for source in found.sources]
    return f"{models}; measured on {' and '.join(where)}: calls, {weights}"


def _weighed(sizes: Histogram) -> str:
    """Name a histogram, and say what its calls are taken to be where that is not plain."""
    said = [sizes.weighing] if sizes.weighing else []
    if beyond := sizes.share_from(LARGE + 1):
        said.append(f"{100 * beyond:.0f} % lie beyond {LARGE} B, where costs go on in a line")
    return f"{sizes.name} ({'; '.join(said)})" if said else sizes.name


def opinions(case: Case, targets: Cores) -> str:
    """Say which models count on the target cores, and how right they have been there."""
    known = [case.verdicts[c.id].opinion for c in targets if c.id in case.verdicts]
    return "; ".join(opinion.described for opinion in known if opinion)


def slower(case: Case) -> list[str]:
    """Name the cores on which a variant is slower than the baseline."""
    return [
        f"{v.core} ({percent(v.ratio)}, {'measured' if v.measured else 'models'})"
        for v in case.verdicts.values()
        if v.loss
    ]


def undecided(case: Case, targets: Cores) -> str:
    """Say why a variant that may do better than the winner is not it."""
    name = case.variant.name
    if contested := case.contested(targets):
        return f"; {name} may do better: models differ on {names(contested)}"
    return f"; {name} may do better: nothing is known of it on {names(case.silent(targets))}"


def all_of(case: Case) -> str:
    """Say what is known of a variant, core by core."""
    known = [said(v) for v in case.verdicts.values()]
    return "; ".join([*known, *(f"{core}: {NOT_ENOUGH}" for core in case.short)])


def missing(case: Case, found: Study) -> str:
    """Say what a winner lacks on cores that no verdict needs, or nothing."""
    gaps = ((core, _merged(list(of_core))) for core, of_core in case.short.items())
    return "".join(f"; on {_place(core, found)} {said_of}" for core, said_of in gaps)


def said(verdict: Verdict) -> str:
    """Return a verdict in words: "zen2: +4.0 % to +9.0 % (pipeline, osaca)"."""
    if verdict.alike:
        return f"{verdict.core}: no difference ({', '.join(verdict.sources)})"
    spread = verdict.high - verdict.low > THRESHOLD
    figure = (
        f"{percent(verdict.low)} to {percent(verdict.high)}" if spread else percent(verdict.ratio)
    )
    return f"{verdict.core}: {figure} ({', '.join(verdict.sources)})"


def names(cores: Cores) -> str:
    """Return the ids of cores as text."""
    return " and ".join(c.id for c in cores)


def percent(ratio: float) -> str:
    """Return a ratio of speeds as what it is more than 1, in percent."""
    return signed(100 * (ratio - 1))


def signed(percent_more: float) -> str:
    """Return a difference in percent, to a tenth, with its sign: +0.0 where it is nothing."""
    return f"{round(percent_more, 1) + 0.0:+.1f} %"
