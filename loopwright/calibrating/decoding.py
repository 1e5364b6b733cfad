"""Microcode and decoders: how many uops of a form are decoded, and beside what.

Microcode: from how many places on a form is sent by a sequencer, and what the switch costs.

Asked: what delivers forms of several uops. Kernels: the mixtures of `trust` in which a form takes
three places or more, those of one instance among them; nothing else is timed. Answer: the rule with
which what was learned predicts them with the least error; none where the front end is not known, or
no rule is clearly better. Of forms of a mnemonic and as many places another number is decoded where
their mixtures say so. A unit that seemed busy is not taken for busy where this explains as much.

Decoders: how many simple ones a form leaves to what follows it in the same cycle.

Asked: does what follows wait for the next cycle. Kernel: straight code, a form of up to as many
uops as are decoded in a cycle, and nops for the decoders that are left, and one more where it has
one uop. Answer: that they are, or one fewer, by which the core that would be written predicts the
kernel better; where both are as good, what most forms of as many uops show. Forms that compute in
general registers alone: of others what follows is by their uops.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from loopwright.calibrating import cross_check, fit
from loopwright.calibrating.core_model import CoreModel, Microcode
from loopwright.calibrating.cross_check import Mixture
from loopwright.calibrating.evidence import measured
from loopwright.calibrating.fit import Hypothesis
from loopwright.calibrating.front_end import AFTER, Parameters
from loopwright.microbench import form_instances
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory

_FEWEST = range(cross_check.LARGE, 8)  # places of what may be microcode
_DECODED = (0, 4)  # places that decoders send of it
_STALLS = (2, 4, 6, 8)  # cycles
_BETTER = 0.92  # of the error without microcode that a rule leaves at most
_CLEAR = 0.01  # less, too, that another number of places of a form leaves
_LEAST = 12  # mixtures that a rule is chosen by


def choose_microcode(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return what was learned with the rule for microcode that explains mixtures best."""
    if not learned.front_end.parameters:
        return learned
    large = cross_check.large(learned)
    every = cross_check.mixtures(learned, forms)
    some = [one for one in every if not large.isdisjoint((one.form, *one.others))]
    if len(some) < _LEAST:
        return learned
    own = [one for one in some if one.form in large]
    some += cross_check.singles(learned, forms)
    figures = laboratory.time([one.kernel for one in some])
    rules: list[Microcode | None] = [None, *_rules()]
    found = _fitted(laboratory, learned, rules, some, figures)
    best = rules[found.best] if found else None
    if found is None or best is None:
        return learned
    without = found.error_of(0)
    slower = [rule for rule in rules if rule and rule.fewest == best.fewest]
    rules = [best, *(replace(rule, stall=stall) for rule, stall in product(slower, _STALLS))]
    found = _fitted(laboratory, learned, rules, some, figures)
    best = rules[found.best] if found else None
    if found is None or best is None or found.error > _BETTER * without:
        return learned
    said = f"mean error of {len(some)} mixtures {100 * found.error:.1f} %"
    said += f", {100 * without:.1f} % without microcode"
    decoded = _own(laboratory, learned, best, own)
    learned = replace(learned, microcode=replace(best, own=decoded, why=said))
    return _free(laboratory, learned, forms, own)


def _free(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form], some: Sequence[Mixture]
) -> CoreModel:
    """Return what was learned without busy units where what sends a form explains its cycles.

    It is held to its throughput and its mixture: they are not to be predicted worse.
    """
    rule = learned.microcode
    free = {
        name: replace(uops, busy=0)
        for name, uops in learned.uops.items()
        if uops.busy and rule and rule.sent(name, uops.slots)
    }
    if not free:
        return learned
    alone = cross_check.alone([form for form in forms if form.name in free])
    asked = [*alone, *(one for one in some if one.form in free)]
    tried = replace(learned, uops={**learned.uops, **free})
    gains: dict[str, float] = defaultdict(float)
    usual = cross_check.predicted(laboratory, learned, asked)
    then = cross_check.predicted(laboratory, tried, asked)
    for (mixture, took, said), (_, _, other) in zip(usual, then, strict=True):
        if took and said and other:
            more = abs(said.cycles - took.cycles) - abs(other.cycles - took.cycles)
            gains[mixture.form] += more / took.cycles
    known = {name: one for name, one in free.items() if gains[name] > -_CLEAR}
    return replace(learned, uops={**learned.uops, **known})


def _own(
    laboratory: Laboratory, learned: CoreModel, rule: Microcode, some: Sequence[Mixture]
) -> dict[str, int]:
    """Return how many places decoders send of forms that the rule says another number of."""
    errors: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    names: dict[tuple[str, int], list[str]] = defaultdict(list)
    # Those nearest to the rule first: of as good ones the first is taken.
    for decoded in sorted(range(rule.fewest), key=lambda n: abs(n - rule.decoded)):
        tried = replace(learned, microcode=replace(rule, decoded=decoded))
        for mixture, took, said in cross_check.predicted(laboratory, tried, some):
            slots = learned.uops[mixture.form].slots
            if slots >= rule.fewest and took and said:
                group = mixture.form.partition(" ")[0], slots
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


def _fitted(
    laboratory: Laboratory,
    learned: CoreModel,
    rules: Sequence[Microcode | None],
    some: Sequence[Mixture],
    figures: Sequence[Figure],
) -> fit.Fit | None:
    """Return how rules explain mixtures."""
    kernels = [one.kernel for one in some]
    parts = [part for kernel in kernels for part in kernel]
    tried = [Hypothesis(replace(learned, microcode=rule)) for rule in rules]
    return fit.fit(laboratory, parts, lambda core: core.time(kernels), tried, figures)


_COPIES = 4  # of the form and its nops: registers and places are others in each
_TOLD = 0.1  # relative: what the two predictions differ by at least
_ANY = "any"  # of the decoders: the form needs none of its own kind


def choose_decoders(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return what was learned with what forms leave of decoders that are not alike."""
    parameters = learned.front_end.parameters
    if parameters.get("front_end.fetch", ("", ""))[0] != "predecoded":
        return learned
    width = int(str(parameters["decode.width"][0]))
    asked = [form for form in forms if _fits(learned, form, width)]
    # With a nop more the next form waits in any case.
    behind = {form.name: width + 1 - learned.uops[form.name].slots for form in asked}
    codes = [_code(laboratory, form, behind[form.name]) for form in asked]
    parts = [part for code in codes for part in code]
    took = laboratory.time(codes, "unrolled")
    most = {name: _ANY if nops >= width else str(nops) for name, nops in behind.items()}
    fewer = {name: str(nops - 1) for name, nops in behind.items()}
    said = [
        fit.candidate_laboratory(replace(learned, decoders=one), laboratory.machine, parts).time(
            codes, "unrolled"
        )
        for one in (most, fewer)
    ]
    found: dict[str, str] = {}
    for form, real, one, other in zip(asked, took, *said, strict=True):
        if not real or not one or not other:
            continue
        if abs(one.cycles - other.cycles) <= _TOLD * real.cycles:
            continue
        near = abs(one.cycles - real.cycles) <= abs(other.cycles - real.cycles)
        found[form.name] = (most if near else fewer)[form.name]
    front = replace(learned.front_end, parameters={**parameters, **_usual_decoders(learned, found)})
    return replace(learned, decoders=found, front_end=front)


def _usual_decoders(learned: CoreModel, found: Mapping[str, str]) -> Parameters:
    """Return what most forms leave, by the number of their uops."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for name, left in found.items():
        counts[learned.uops[name].slots][left] += 1
    usual = {slots: some.most_common(1)[0] for slots, some in counts.items() if slots > 1}
    return {
        f"{AFTER}.{slots}": (left, measured(f"{number} of {counts[slots].total()} forms"))
        for slots, (left, number) in usual.items()
    }


def _fits(learned: CoreModel, form: Form, width: int) -> bool:
    """Say whether a form is of general registers, and few enough uops for a cycle's decoders."""
    if not learned.has_ports(form.name) or any(one.kind == "vector" for one in form.operands):
        return False
    slots = learned.uops[form.name].slots
    sent = learned.microcode.sent(form.name, slots) if learned.microcode else 0
    return 1 <= slots <= width and not sent and not learned.uops[form.name].busy


def _code(laboratory: Laboratory, form: Form, behind: int) -> list[bytes]:
    instances = form_instances.Instances()
    nops = [laboratory.kit.pad(3)[0]] * behind
    return [part for _ in range(_COPIES) for part in (instances.of(form), *nops)]
