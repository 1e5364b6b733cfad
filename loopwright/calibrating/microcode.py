"""Microcode: from how many places on a form is sent by a sequencer, and what the switch costs.

Asked: what delivers forms of several uops. Kernels: the mixtures of `trust` in which a form takes
three places or more, those of one instance among them; nothing else is timed. Answer: the rule with
which what was learned predicts them with the least error; none where the front end is not known, or
no rule is clearly better. Of forms of a mnemonic and as many places another number is decoded where
their mixtures say so. A unit that seemed busy is not taken for busy where this explains as much.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import fmean

from loopwright.calibrating import trust
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.learn import Learned, Microcode
from loopwright.calibrating.trust import Mixture

_FEWEST = range(trust.LARGE, 8)  # places of what may be microcode
_DECODED = (0, 4)  # places that decoders send of it
_STALLS = (2, 4, 6, 8)  # cycles
_BETTER = 0.92  # of the error without microcode that a rule leaves at most
_CLEAR = 0.01  # less, too, that another number of places of a form leaves
_LEAST = 12  # mixtures that a rule is chosen by


def choose(laboratory: Laboratory, learned: Learned, forms: Sequence[Form]) -> Learned:
    """Return what was learned with the rule for microcode that explains mixtures best."""
    if not learned.front_end.parameters:
        return learned
    large = trust.large(learned)
    every = trust.mixtures(learned, forms)
    some = [one for one in every if not large.isdisjoint((one.form, *one.others))]
    if len(some) < _LEAST:
        return learned
    own = [one for one in some if one.form in large]
    some += trust.singles(learned, forms)
    without = _error(laboratory, learned, some)
    errors: dict[Microcode, float] = {}
    best = Microcode(0, 0, 0)
    for rules in (_rules, partial(_slower, errors)):
        for rule in rules():
            errors[rule] = _error(laboratory, replace(learned, microcode=rule), some)
        best = min(errors, key=lambda rule: errors[rule])
    if not errors[best] <= _BETTER * without:
        return learned
    said = f"mean error of {len(some)} mixtures {100 * errors[best]:.1f} %"
    said += f", {100 * without:.1f} % without microcode"
    decoded = _own(laboratory, learned, best, own)
    learned = replace(learned, microcode=replace(best, own=decoded, why=said))
    return _free(laboratory, learned, forms, own)


def _free(
    laboratory: Laboratory, learned: Learned, forms: Sequence[Form], some: Sequence[Mixture]
) -> Learned:
    """Return what was learned without busy units where what sends a form explains its cycles.

    It is held to its throughput and its mixture: they are not to be predicted worse.
    """
    rule = learned.microcode
    free = {
        name: replace(uops, busy=0)
        for name, uops in learned.uops.items()
        if uops.busy and rule and rule.sent(name, uops.places)
    }
    if not free:
        return learned
    alone = trust.alone([form for form in forms if form.name in free])
    asked = [*alone, *(one for one in some if one.form in free)]
    tried = replace(learned, uops={**learned.uops, **free})
    gains: dict[str, float] = defaultdict(float)
    usual = trust.predicted(laboratory, learned, asked)
    then = trust.predicted(laboratory, tried, asked)
    for (mixture, took, said), (_, _, other) in zip(usual, then, strict=True):
        if took and said and other:
            more = abs(said.cycles - took.cycles) - abs(other.cycles - took.cycles)
            gains[mixture.form] += more / took.cycles
    known = {name: one for name, one in free.items() if gains[name] > -_CLEAR}
    return replace(learned, uops={**learned.uops, **known})


def _own(
    laboratory: Laboratory, learned: Learned, rule: Microcode, some: Sequence[Mixture]
) -> dict[str, int]:
    """Return how many places decoders send of forms that the rule says another number of."""
    errors: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    names: dict[tuple[str, int], list[str]] = defaultdict(list)
    # Those nearest to the rule first: of as good ones the first is taken.
    for decoded in sorted(range(rule.fewest), key=lambda n: abs(n - rule.decoded)):
        tried = replace(learned, microcode=replace(rule, decoded=decoded))
        for mixture, took, said in trust.predicted(laboratory, tried, some):
            places = learned.uops[mixture.form].places
            if places >= rule.fewest and took and said:
                group = mixture.form.partition(" ")[0], places
                errors[group][decoded].append(abs(said.cycles - took.cycles) / took.cycles)
                names[group].append(mixture.form)
    means = {group: {n: fmean(some) for n, some in by.items()} for group, by in errors.items()}
    chosen: dict[tuple[str, int], int] = {}
    told: dict[int, Counter[int]] = defaultdict(Counter)
    for group, by in means.items():
        best, usual = min(by, key=lambda decoded: by[decoded]), by.get(rule.decoded, 1.0)
        if by[best] < min(_BETTER * usual, usual - _CLEAR):
            chosen[group] = best
            told[group[1]][best] += 1
    # What its mixtures do not tell apart is taken for what others of as many places are.
    for group in means.keys() - chosen.keys():
        for other, _ in told[group[1]].most_common(1):
            if means[group].get(other, 1.0) <= min(means[group].values()) + _CLEAR:
                chosen[group] = other
    return {name: n for group, n in sorted(chosen.items()) for name in names[group]}


def _rules() -> Iterator[Microcode]:
    for fewest, decoded in product(_FEWEST, _DECODED):
        if decoded < fewest:
            yield Microcode(fewest, decoded, 0)


def _slower(errors: Mapping[Microcode, float]) -> Iterator[Microcode]:
    """Yield the rules for as many places as the best, with switches that take time."""
    best = min(errors, key=lambda rule: errors[rule])
    for rule, stall in product([one for one in errors if one.fewest == best.fewest], _STALLS):
        yield replace(rule, stall=stall)


def _error(laboratory: Laboratory, learned: Learned, some: Sequence[Mixture]) -> float:
    """Return the mean relative error of mixtures; not a number where none has figures."""
    errors = [
        min(abs(said.cycles - one.cycles) / one.cycles, 1.0)
        for _, one, said in trust.predicted(laboratory, learned, some)
        if one and said
    ]
    return fmean(errors) if errors else float("nan")
