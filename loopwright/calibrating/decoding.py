"""Microcode and decoders: uops that the decoders send, and decoders left for what follows.

Microcode: the number of slots from which on a sequencer sends a form, and the cost of the switch.
No further kernel is timed. The mixtures of cross_check that contain a form of three slots or more,
also those of one instance, are predicted with each rule, and the rule with the least error is
taken. None is taken where the front end is unknown or no rule is clearly better. Forms of a
mnemonic with the same slots may have another number of decoded uops, if their mixtures say so. A
unit is no longer taken for busy where microcode explains the cycles as well.

Decoders: the number of simple decoders left in the cycle of a multi-uop form. Microbenchmark:
straight code of a form with up to as many uops as are decoded in a cycle, and nops for the decoders
left, with one more for a form of one uop. The learned core predicts it with all of those decoders
left, or with one less; where both predict as well, the form has what most forms of as many uops
have. This applies to forms of general registers; of others the number follows from their uops.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from loopwright.calibrating import cross_check, fit
from loopwright.calibrating.core_model import AFTER, CoreModel, Microcode, Parameters, measured
from loopwright.calibrating.cross_check import Mixture
from loopwright.calibrating.fit import Hypothesis
from loopwright.microbench import form_instances
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory

_FEWEST = range(cross_check.LARGE, 8)  # slots from which on a form may be microcode
_DECODED = (0, 4)  # slots of it that the decoders send
_STALLS = (2, 4, 6, 8)  # cycles of the switch to the sequencer
_BETTER = 0.92  # share of the error without microcode that a rule leaves, at most
_CLEAR = 0.01  # error by which another number of decoded slots has to be better
_LEAST = 12  # mixtures that a rule is chosen by, at least


def choose_microcode(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the microcode rule that explains mixtures best."""
    if not learned.front_end.parameters:
        return learned
    large = cross_check.large(learned)
    relevant = [
        mixture
        for mixture in cross_check.mixtures(learned, forms)
        if not large.isdisjoint((mixture.form, *mixture.others))
    ]
    if len(relevant) < _LEAST:
        return learned
    own_mixtures = [mixture for mixture in relevant if mixture.form in large]
    relevant += cross_check.singles(learned, forms)
    figures = laboratory.time([mixture.kernel for mixture in relevant])
    rules: list[Microcode | None] = [None, *_rules()]
    best_fit = _fit_rules(laboratory, learned, rules, relevant, figures)
    best = rules[best_fit.best] if best_fit else None
    if best_fit is None or best is None:
        return learned
    without = best_fit.error_of(0)
    slower = [rule for rule in rules if rule and rule.fewest == best.fewest]
    rules = [best, *(replace(rule, stall=stall) for rule, stall in product(slower, _STALLS))]
    best_fit = _fit_rules(laboratory, learned, rules, relevant, figures)
    best = rules[best_fit.best] if best_fit else None
    if best_fit is None or best is None or best_fit.error > _BETTER * without:
        return learned
    why = f"mean error of {len(relevant)} mixtures {100 * best_fit.error:.1f} %"
    why += f", {100 * without:.1f} % without microcode"
    decoded = _decoded_slots(laboratory, learned, best, own_mixtures)
    learned = replace(learned, microcode=replace(best, own=decoded, why=why))
    return _without_busy_units(laboratory, learned, forms, own_mixtures)


def _without_busy_units(
    laboratory: Laboratory,
    learned: CoreModel,
    forms: Sequence[Form],
    own_mixtures: Sequence[Mixture],
) -> CoreModel:
    """Return the learned core without busy units of microcoded forms, if it is no less accurate.

    The predictions are those of the form's throughput and its mixtures.
    """
    rule = learned.microcode
    without_units = {
        name: replace(uops, busy=0)
        for name, uops in learned.uops.items()
        if uops.busy and rule and rule.sent(name, uops.slots)
    }
    if not without_units:
        return learned
    alone = cross_check.alone([form for form in forms if form.name in without_units])
    mixtures = [*alone, *(one for one in own_mixtures if one.form in without_units)]
    candidate = replace(learned, uops={**learned.uops, **without_units})
    gains: dict[str, float] = defaultdict(float)
    predictions = cross_check.predicted(laboratory, learned, mixtures)
    new_predictions = cross_check.predicted(laboratory, candidate, mixtures)
    for (mixture, figure, predicted), (_, _, new) in zip(predictions, new_predictions, strict=True):
        if figure and predicted and new:
            gain = abs(predicted.cycles - figure.cycles) - abs(new.cycles - figure.cycles)
            gains[mixture.form] += gain / figure.cycles
    accepted = {name: uops for name, uops in without_units.items() if gains[name] > -_CLEAR}
    return replace(learned, uops={**learned.uops, **accepted})


def _decoded_slots(
    laboratory: Laboratory, learned: CoreModel, rule: Microcode, mixtures: Sequence[Mixture]
) -> dict[str, int]:
    """Return the number of decoded slots of forms that differ from the rule."""
    errors: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    names: dict[tuple[str, int], list[str]] = defaultdict(list)
    # Numbers closest to the rule come first, as the first of equal ones is taken.
    for decoded in sorted(range(rule.fewest), key=lambda n: abs(n - rule.decoded)):
        tried = replace(learned, microcode=replace(rule, decoded=decoded))
        for mixture, figure, predicted in cross_check.predicted(laboratory, tried, mixtures):
            slots = learned.uops[mixture.form].slots
            if slots >= rule.fewest and figure and predicted:
                group = mixture.form.partition(" ")[0], slots
                errors[group][decoded].append(abs(predicted.cycles - figure.cycles) / figure.cycles)
                names[group].append(mixture.form)
    means = {
        group: {decoded: fmean(values) for decoded, values in by_decoded.items()}
        for group, by_decoded in errors.items()
    }
    chosen: dict[tuple[str, int], int] = {}
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for group, mean in means.items():
        best, by_rule = min(mean, key=lambda decoded: mean[decoded]), mean.get(rule.decoded, 1.0)
        if mean[best] < min(_BETTER * by_rule, by_rule - _CLEAR):
            chosen[group] = best
            votes[group[1]][best] += 1
    # Forms whose mixtures tell nothing take the number of others with as many slots.
    for group in means.keys() - chosen.keys():
        for other, _ in votes[group[1]].most_common(1):
            if means[group].get(other, 1.0) <= min(means[group].values()) + _CLEAR:
                chosen[group] = other
    return {name: n for group, n in sorted(chosen.items()) for name in names[group]}


def _rules() -> Iterator[Microcode]:
    """Yield the possible rules, without the cost of a switch."""
    for fewest, decoded in product(_FEWEST, _DECODED):
        if decoded < fewest:
            yield Microcode(fewest, decoded, 0)


def _fit_rules(
    laboratory: Laboratory,
    learned: CoreModel,
    rules: Sequence[Microcode | None],
    mixtures: Sequence[Mixture],
    figures: Sequence[Figure],
) -> fit.Fit | None:
    """Fit rules of microcode to mixtures."""
    kernels = [mixture.kernel for mixture in mixtures]
    parts = [part for kernel in kernels for part in kernel]
    hypotheses = [Hypothesis(replace(learned, microcode=rule)) for rule in rules]
    return fit.fit(laboratory, parts, lambda core: core.time(kernels), hypotheses, figures)


_COPIES = 4  # of the form and its nops, as registers and addresses differ between copies
_TOLD = 0.1  # relative difference of the two predictions, at least
_ANY = "any"  # of the decoders: the form needs no complex one


def choose_decoders(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with the simple decoders that each form leaves."""
    parameters = learned.front_end.parameters
    if parameters.get("front_end.fetch", ("", ""))[0] != "predecoded":
        return learned
    width = int(str(parameters["decode.width"][0]))
    decodable = [form for form in forms if _is_decodable(learned, form, width)]
    # One more nop would begin the next cycle in any case.
    nops_behind = {form.name: width + 1 - learned.uops[form.name].slots for form in decodable}
    codes = [_code(laboratory, form, nops_behind[form.name]) for form in decodable]
    parts = [part for code in codes for part in code]
    figures = laboratory.time(codes, "unrolled")
    all_left = {name: _ANY if nops >= width else str(nops) for name, nops in nops_behind.items()}
    one_less = {name: str(nops - 1) for name, nops in nops_behind.items()}
    predictions = [
        fit.candidate_laboratory(
            replace(learned, decoders=decoders), laboratory.machine, parts
        ).time(codes, "unrolled")
        for decoders in (all_left, one_less)
    ]
    decoders: dict[str, str] = {}
    for form, figure, all_free, one_taken in zip(decodable, figures, *predictions, strict=True):
        if not figure or not all_free or not one_taken:
            continue
        if abs(all_free.cycles - one_taken.cycles) <= _TOLD * figure.cycles:
            continue
        error, other = (abs(one.cycles - figure.cycles) for one in (all_free, one_taken))
        decoders[form.name] = (all_left if error <= other else one_less)[form.name]
    usual = _usual_decoders(learned, decoders)
    front_end = replace(learned.front_end, parameters={**parameters, **usual})
    return replace(learned, decoders=decoders, front_end=front_end)


def _usual_decoders(learned: CoreModel, decoders: Mapping[str, str]) -> Parameters:
    """Return the most common number of decoders left, by uops of a form."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for name, left in decoders.items():
        counts[learned.uops[name].slots][left] += 1
    usual = {slots: votes.most_common(1)[0] for slots, votes in counts.items() if slots > 1}
    return {
        f"{AFTER}.{slots}": (left, measured(f"{number} of {counts[slots].total()} forms"))
        for slots, (left, number) in usual.items()
    }


def _is_decodable(learned: CoreModel, form: Form, width: int) -> bool:
    """True if a form uses general registers and as few uops as a cycle's decoders take."""
    if not learned.has_ports(form.name) or any(one.kind == "vector" for one in form.operands):
        return False
    slots = learned.uops[form.name].slots
    sent = learned.microcode.sent(form.name, slots) if learned.microcode else 0
    return 1 <= slots <= width and not sent and not learned.uops[form.name].busy


def _code(laboratory: Laboratory, form: Form, behind: int) -> list[bytes]:
    """Return copies of a form with so many nops behind each."""
    instances = form_instances.Instances()
    nops = [laboratory.kit.pad(3)[0]] * behind
    return [part for _ in range(_COPIES) for part in (instances.of(form), *nops)]
