"""Cross-check: learned forms and port binding against random mixtures.

Forms. Microbenchmarks: a mixture of several instances of the form with two other forms at random,
and the throughput kernel of the form. A form whose mixture already set its number of decoded uops
gets another mixture. The simulated learned core predicts each mixture. A form with a wrong
prediction is tried in two more mixtures, with forms that are in no wrong mixture and have no
loop-carried dependency, and then in a last two. It is left out where three or more predictions are
wrong: on hardware some mixtures have costs that the simulator lacks, and a common form is not to be
lost for one of them. The tolerance is larger for machines on which more than a tenth of all first
mixtures differ, for forms of exactly a class's uops where ports are bound early, and for narrow
stores where the cache merges them.

Port binding. Which port a uop takes, and when, shows only in mixtures where ports are shared by
chance. Microbenchmarks: random mixtures of three forms, half of them with forms that may access
memory. The rule with the least error is taken. Rules that go by dispatch slots vary in what counts
as a slot, and in which of two equal ports wins, as port names are arbitrary.
"""

import random
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from loopwright.calibrating import fit, port_classes
from loopwright.calibrating.core_model import CoreModel, measured
from loopwright.calibrating.fit import Hypothesis, Rules
from loopwright.microbench import throughput
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory

_SEED = 31
_TIMES = 4  # instances of the form in a mixture
LARGE = 3  # slots of a form that may be microcode
_MOST = 2  # instances of each other form, at most, so that the form's own part shows
_MORE_MIXTURES = 2  # further mixtures of a doubtful form, each round
_ROUNDS = 2
_DRAWS = 100  # draws of two forms that can share a mixture; there may be none
_WRONG_LIMIT = 3  # wrong predictions, throughput included, from which on a form is left out
_QUANTILE = 0.9  # quantile of the errors of first mixtures that sets the tolerance
_EARLY_TOLERANCE = 0.3  # relative tolerance of forms of a class where ports are bound early
_MERGED_TOLERANCE = 0.35  # relative tolerance of byte and word stores that the cache merges
# relative and absolute tolerance of predictions, besides three uncertainties
_NEAR, _CYCLES = 0.1, 0.1


@dataclass(frozen=True)
class Mixture:
    """A kernel that checks a form, and the other forms in it."""

    form: str
    others: Sequence[str]
    kernel: list[bytes]


def hold_to_mixtures(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core without the forms whose mixtures are predicted wrong."""
    first_mixtures = [*mixtures(learned, forms), *_redrawn(learned, forms)]
    if not first_mixtures:
        return learned
    with_ports = [form for form in forms if learned.has_ports(form.name)]
    predictions = predicted(laboratory, learned, [*first_mixtures, *alone(with_ports)])
    wrong = [
        mixture
        for mixture, figure, prediction in predictions
        if not _near(figure, prediction, _NEAR)
    ]
    names = {mixture.form for mixture in wrong}
    blamed = names.union(*(mixture.others for mixture in wrong))
    doubtful = [form for form in with_ports if form.name in names]
    trusted = [form for form in with_ports if form.name not in blamed and not waits(form)]
    if len(trusted) <= 2:
        return learned
    least = max(_NEAR, _scatter(predictions[: len(first_mixtures)]))
    tolerances = {form.name: max(least, _own_tolerance(learned, form)) for form in doubtful}
    draw = random.Random(_SEED + 1)
    # A wrong throughput counts where no mixture is wrong.
    counts = Counter(mixture.form for mixture in wrong if mixture.others)
    counts |= Counter(names)
    reasons: dict[str, str] = {}
    for _ in range(_ROUNDS):
        further = [mixed(draw, form, trusted) for form in doubtful for _ in range(_MORE_MIXTURES)]
        for mixture, figure, prediction in predicted(laboratory, learned, further):
            if not _near(figure, prediction, tolerances[mixture.form]):
                counts[mixture.form] += 1
                reasons[mixture.form] = _why(mixture.others, figure, prediction)
        doubtful = [form for form in doubtful if 1 < counts[form.name] < _WRONG_LIMIT]
    refused = {name: why for name, why in reasons.items() if counts[name] >= _WRONG_LIMIT}
    uops = {name: learned.uops[name].refused(why) for name, why in refused.items()}
    return replace(learned, uops={**learned.uops, **uops})


def mixtures(learned: CoreModel, forms: Sequence[Form]) -> list[Mixture]:
    """Return a mixture of each form with ports; none if too few forms have any."""
    return _drawn(learned, forms, {form.name for form in forms}, 0)


def _redrawn(learned: CoreModel, forms: Sequence[Form]) -> list[Mixture]:
    """Return other mixtures of the forms whose number of decoded uops the first ones set."""
    return _drawn(learned, forms, learned.microcode.own if learned.microcode else (), 3)


def large(learned: CoreModel) -> frozenset[str]:
    """Return the names of forms of several slots."""
    every = learned.uops.items()
    return frozenset(name for name, uops in every if uops.ports and uops.slots >= LARGE)


def singles(learned: CoreModel, forms: Sequence[Form]) -> list[Mixture]:
    """Return mixtures of one instance of each multi-slot form with two others.

    Several instances would be limited by ports, which hides how the front end delivers them.
    """
    return _drawn(learned, forms, large(learned), 2, 1)


def alone(forms: Sequence[Form]) -> list[Mixture]:
    """Return the throughput kernels of forms."""
    return [Mixture(form.name, (), throughput.kernel(form)) for form in forms]


def predicted(
    laboratory: Laboratory, learned: CoreModel, mixtures: Sequence[Mixture]
) -> list[tuple[Mixture, Figure, Figure]]:
    """Return mixtures with their measurement and the learned core's prediction."""
    measured = laboratory.time([mixture.kernel for mixture in mixtures])
    return list(zip(mixtures, measured, core_predicts(laboratory, learned, mixtures), strict=True))


def core_predicts(
    laboratory: Laboratory, learned: CoreModel, mixtures: Sequence[Mixture]
) -> list[Figure]:
    """Return the learned core's predictions of mixtures."""
    parts = (part for mixture in mixtures for part in mixture.kernel)
    core = fit.candidate_laboratory(learned, laboratory.machine, parts)
    return core.time([mixture.kernel for mixture in mixtures])


def _own_tolerance(learned: CoreModel, form: Form) -> float:
    """Return the relative tolerance of a form whose mixtures vary by a known cause, or 0."""
    narrow_cycles, _ = learned.rules.get("memory.commit_narrow_cycles", (0, ""))
    if narrow_cycles and form.memory and form.memory.narrow:
        return _MERGED_TOLERANCE
    return _EARLY_TOLERANCE if _of_a_class(learned, form) else 0.0


def _of_a_class(learned: CoreModel, form: Form) -> bool:
    """True if a form computes with exactly a class's uops, on a core that binds early.

    Its cycles in mixtures are then known from the class.
    """
    core, uops = learned.core, learned.uops[form.name].ports
    if not core.early_binding or uops is None:
        return False
    classes = [core.blocker_uops(n) for n in range(len(core.classes))]
    return tuple(core.computing(uops)) in [(), *classes]


def waits(form: Form) -> bool:
    """True if an instance depends on the previous one by registers, flags or memory."""
    own = any(operand.read and operand.written for operand in form.operands)
    return own or (form.memory is not None and form.memory.written)


def _drawn(
    learned: CoreModel,
    forms: Sequence[Form],
    wanted: Container[str],
    series: int,
    times: int = _TIMES,
) -> list[Mixture]:
    """Return a mixture of each wanted form with ports, drawn by one seed; none of too few forms."""
    known = [form for form in forms if learned.has_ports(form.name)]
    if len(known) <= 2:
        return []
    draw = random.Random(_SEED + series)
    return [mixed(draw, form, known, times) for form in known if form.name in wanted]


def mixed(draw: random.Random, form: Form, others: Sequence[Form], times: int = _TIMES) -> Mixture:
    """Return a mixture of a form with two others."""
    chosen = partners(draw, form, others)
    parts = [(form, times), *((other, draw.randint(1, _MOST)) for other in chosen)]
    return Mixture(form.name, [other.name for other in chosen], port_classes.mixture(parts))


def partners(draw: random.Random, form: Form, others: Sequence[Form]) -> list[Form]:
    """Return two random forms that can share a mixture with a form, if there are any."""
    others = [other for other in others if other is not form]
    compatible = [other for other in others if form.beside(other)]
    if len(compatible) > 1:
        others = compatible
    for _ in range(_DRAWS):
        drawn = draw.sample(others, 2)
        if drawn[0].beside(drawn[1]):
            break
    return drawn


def _scatter(predictions: Sequence[tuple[Mixture, Figure, Figure]]) -> float:
    """Return a high quantile of the relative errors of mixtures."""
    errors = sorted(
        abs(measured.cycles - predicted.cycles) / measured.cycles
        for _, measured, predicted in predictions
        if measured and predicted
    )
    return errors[int(_QUANTILE * len(errors))] if errors else 0.0


def _near(measured: Figure, predicted: Figure, tolerance: float) -> bool:
    """True if two figures agree within the tolerance, or one is missing."""
    if not measured or not predicted:
        return True
    slack = max(tolerance * measured.cycles, _CYCLES, 3 * measured.uncertainty)
    return abs(measured.cycles - predicted.cycles) <= slack


def _why(names: Sequence[str], measured: Figure, predicted: Figure) -> str:
    """Return in words that a mixture with other forms is predicted wrong."""
    return (
        f"beside {' and '.join(names)} it takes {measured.cycles:.2f} cycles, "
        f"not {predicted.cycles:.2f} as its uops and latencies say"
    )


Rule = Mapping[str, str]  # parameters of ports, without the name of their table

# How some cores give uops ports in turn, by the uops for the same ports before them.
IN_TURN: Rules = {
    "ports.slots": "t", "ports.slots_of_two": "01", "ports.neighbours": 2,
    "ports.counts_late": True, "ports.imbalance": 5,
    "ports.branches_balanced": True,
}  # fmt: skip
ASSIGNMENTS: tuple[Rule, ...] = (
    {"assign": "at_issue"},
    {"assign": "least_loaded"},
    *(
        {"assign": "dispatch_slots", "position": position, "tie": tie}
        for position, tie in product(("slots", "computing"), ("high", "low"))
    ),
)
_BY_SLOTS = 2  # the number of the first rule by dispatch slots
_RULE_MIXTURES, _RULE_SEED = 240, 77
_LEAST_MIXTURES = 20  # mixtures at least to choose a rule by
_MOST_INSTANCES = 4  # instances of a form in a mixture


def choose_assignment(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with its port binding; unchanged with too few answers."""
    plain_forms = [form for form in forms if _plain_form(learned, form)]
    computing = [form for form in plain_forms if form.memory is None]
    if len(computing) < 3:
        return learned
    kernels = [*_rule_mixtures(computing, 0), *_rule_mixtures(plain_forms, 1)]
    figures = laboratory.time(kernels)
    answered = sum(bool(figure) for figure in figures)
    parts = [part for kernel in kernels for part in kernel]
    plain: list[Rules] = [{f"ports.{k}": v for k, v in rule.items()} for rule in ASSIGNMENTS]
    hypotheses = [Hypothesis(learned, rules) for rules in (*plain, {**plain[_BY_SLOTS], **IN_TURN})]
    best_fit = fit.fit(laboratory, parts, lambda core: core.time(kernels), hypotheses, figures)
    if answered < _LEAST_MIXTURES or best_fit is None:
        return learned
    names = [*(" ".join(rule.values()) for rule in ASSIGNMENTS), "in turn"]
    errors = ", ".join(f"{name} {100 * best_fit.error_of(n):.2f} %" for n, name in enumerate(names))
    why = measured(f"mean error of {answered} mixtures: {errors}")
    # Rules of port choice decide later whether ports are given in turn.
    best = best_fit.best if best_fit.best < len(ASSIGNMENTS) else _BY_SLOTS
    return replace(learned, assigned=(ASSIGNMENTS[best], why))


def _plain_form(learned: CoreModel, form: Form) -> bool:
    """True if ports alone limit a form: it keeps no unit busy, and its instances do not wait."""
    uops, rate = learned.uops.get(form.name), learned.throughputs[form.name]
    return bool(uops and uops.ports and not uops.busy and rate.clean)


def _rule_mixtures(forms: Sequence[Form], series: int) -> list[list[bytes]]:
    """Return random mixtures of three forms, drawn by one seed for each series."""
    draw = random.Random(_RULE_SEED + series)
    kernels = []
    for form in draw.choices(forms, k=_RULE_MIXTURES):
        three = [form, *partners(draw, form, forms)]
        parts = [(one, draw.randint(1, _MOST_INSTANCES)) for one in three]
        kernels.append(port_classes.mixture(parts))
    return kernels
