"""Cross-check: forms and port assignment held to random mixtures of forms.

What was learned of each form, held to mixtures with two other forms that no experiment timed.

Asked: does the core that would be written take as long as the machine does. Kernel: some instances
of the form and of two others at random; and its throughput's, which costs no trial. Where such a
mixture said how much of a form is decoded, another one is drawn. Answer: a form of which one takes
another time is tried in two mixtures more, with forms that were in none that is wrong and do not
wait for themselves, and where one of those is wrong, too, in a last two. It is left out where three
or more are wrong: on hardware some mixtures have costs that nothing here is of, and common forms
are not to go for one. Where more than a tenth of all first mixtures differ, a form in doubt may
differ as much as they do; where ports are bound early, one that has just the uops of a class
may by three tenths; and where the core merges narrow stores, these may by more: how long that takes
goes by what stands between them.

How uops get their ports: the rule of the simulator that predicts measured mixtures best.

Asked: which port a uop takes of several, and when. No experiment shows it by itself, but where
ports are shared by chance it costs cycles. Kernels: random mixtures of three forms, of half of them
forms that may access memory. Answer: the rule with which what was learned predicts them with the
least error. Where ports are chosen by dispatch slots, what counts as one, and which of two ports
wins that nothing else tells apart: their names are arbitrary, and so is which is the higher.
"""

import random
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from loopwright.calibrating import fit, port_classes
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.evidence import measured
from loopwright.calibrating.fit import Hypothesis
from loopwright.microbench import throughput
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory

_SEED = 31
_TIMES = 4  # instances of the form in a mixture
LARGE = 3  # places of a form that may be microcode
_MOST = 2  # the same of each other at most: its own part is what shall show
_AGAIN = 2  # mixtures more of a form in doubt, each time
_ROUNDS = 2
_DRAWS = 100  # of two forms, until these can share a mixture; there may be no such two
_LEFT = 3  # wrong ones, its throughput or first mixture among them, of a form that is left out
_MANY = 0.9  # share of first mixtures that tells how much those of a machine differ
_EARLY = 0.3  # relative: what a form of a class may differ by where ports are bound early
_MERGED = 0.35  # the same of what stores bytes or words, where caches take time to merge these
_NEAR, _CYCLES = 0.1, 0.1  # what differs by no more than either, or than three errors, is right


@dataclass(frozen=True)
class Mixture:
    """A kernel that holds a form to what was learned, and what else is in it, if anything."""

    form: str
    others: Sequence[str]
    kernel: list[bytes]


def hold_to_mixtures(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return what was learned without the forms whose mixtures take another time."""
    first = [*mixtures(learned, forms), *_anew(learned, forms)]
    if not first:
        return learned
    known = [form for form in forms if learned.has_ports(form.name)]
    shown = predicted(laboratory, learned, [*first, *alone(known)])
    found = [one for one, took, said in shown if not _near(took, said, _NEAR)]
    wrong = {one.form for one in found}
    times = Counter(one.form for one in found if one.others)
    blamed = wrong.union(*(one.others for one in found))
    doubtful = [form for form in known if form.name in wrong]
    trusted = [form for form in known if form.name not in blamed and not waits(form)]
    if len(trusted) <= 2:
        return learned
    near = max(_NEAR, _scatter(shown[: len(first)]))
    loose = {form.name: _EARLY for form in doubtful if _plain(learned, form)}
    loose |= {form.name: _MERGED for form in doubtful if _merged(learned, form)}
    draw = random.Random(_SEED + 1)
    wrong_of = {name: max(1, times[name]) for name in wrong}
    why_of: dict[str, str] = {}
    for _ in range(_ROUNDS):
        again = [mixed(draw, form, trusted) for form in doubtful for _ in range(_AGAIN)]
        for mixture, one, other in predicted(laboratory, learned, again):
            if not _near(one, other, max(near, loose.get(mixture.form, near))):
                wrong_of[mixture.form] += 1
                why_of[mixture.form] = _why(mixture.others, one, other)
        doubtful = [form for form in doubtful if 1 < wrong_of[form.name] < _LEFT]
    left = {name: why for name, why in why_of.items() if wrong_of[name] >= _LEFT}
    uops = {
        name: one.refused(left[name]) if name in left else one for name, one in learned.uops.items()
    }
    return replace(learned, uops=uops)


def mixtures(learned: CoreModel, forms: Sequence[Form]) -> list[Mixture]:
    """Return the mixture of each form with ports; none where these are too few."""
    return _drawn(learned, forms, {form.name for form in forms}, 0)


def _anew(learned: CoreModel, forms: Sequence[Form]) -> list[Mixture]:
    """Return mixtures of forms of which a number of decoded places was chosen by those above."""
    return _drawn(learned, forms, learned.microcode.own if learned.microcode else (), 3)


def large(learned: CoreModel) -> frozenset[str]:
    """Return the names of forms of several places."""
    known = learned.uops.items()
    return frozenset(name for name, one in known if one.ports and one.slots >= LARGE)


def singles(learned: CoreModel, forms: Sequence[Form]) -> list[Mixture]:
    """Return mixtures of one instance of each large form and of two others.

    What binds several of them hides what delivers them beside others.
    """
    return _drawn(learned, forms, large(learned), 2, 1)


def alone(forms: Sequence[Form]) -> list[Mixture]:
    """Return the kernels of the forms' throughputs."""
    return [Mixture(form.name, (), throughput.kernel(form)) for form in forms]


def predicted(
    laboratory: Laboratory, learned: CoreModel, asked: Sequence[Mixture]
) -> list[tuple[Mixture, Figure, Figure]]:
    """Return what the machine takes for mixtures, and what the core that would be written does."""
    measured = laboratory.time([one.kernel for one in asked])
    return list(zip(asked, measured, core_predicts(laboratory, learned, asked), strict=True))


def core_predicts(
    laboratory: Laboratory, learned: CoreModel, asked: Sequence[Mixture]
) -> list[Figure]:
    """Return what the core that would be written takes for mixtures."""
    parts = (part for one in asked for part in one.kernel)
    core = fit.candidate_laboratory(learned, laboratory.machine, parts)
    return core.time([one.kernel for one in asked])


def _plain(learned: CoreModel, form: Form) -> bool:
    """Say whether a form of a core that binds ports early computes on just those of a class.

    What it takes beside others is known of the class.
    """
    core, uops = learned.core, learned.uops[form.name].ports
    if not core.early_binding or uops is None:
        return False
    classes = [core.blocker_uops(n) for n in range(len(core.classes))]
    return tuple(core.computing(uops)) in [(), *classes]


def _merged(learned: CoreModel, form: Form) -> bool:
    """Say whether a form stores what the cache of the core merges, for cycles that are no one."""
    cycles, _ = learned.rules.get("memory.commit_narrow_cycles", (0, ""))
    return bool(cycles) and form.memory is not None and form.memory.narrow


def waits(form: Form) -> bool:
    """Say whether an instance waits for the one before it, through a register, flags or memory."""
    own = any(one.read and one.written for one in form.operands)
    return own or (form.memory is not None and form.memory.written)


def _drawn(
    learned: CoreModel,
    forms: Sequence[Form],
    wanted: Container[str],
    series: int,
    times: int = _TIMES,
) -> list[Mixture]:
    """Return a mixture of each wanted form with ports, of a series of draws; none of too few."""
    known = [form for form in forms if learned.has_ports(form.name)]
    if len(known) <= 2:
        return []
    draw = random.Random(_SEED + series)
    return [mixed(draw, form, known, times) for form in known if form.name in wanted]


def mixed(draw: random.Random, form: Form, others: Sequence[Form], times: int = _TIMES) -> Mixture:
    """Return a mixture of a form with two others."""
    beside = partners(draw, form, others)
    parts = [(form, times), *((one, draw.randint(1, _MOST)) for one in beside)]
    return Mixture(form.name, [one.name for one in beside], port_classes.mixture(parts))


def partners(draw: random.Random, form: Form, others: Sequence[Form]) -> list[Form]:
    """Return two others at random that can share a mixture with a form, if there are any."""
    others = [other for other in others if other is not form]
    some = [other for other in others if form.beside(other)]
    if len(some) > 1:
        others = some
    for _ in range(_DRAWS):
        two = draw.sample(others, 2)
        if two[0].beside(two[1]):
            break
    return two


def _scatter(shown: Sequence[tuple[Mixture, Figure, Figure]]) -> float:
    """Return by how much most mixtures differ, relative to what they take."""
    errors = sorted(
        abs(one.cycles - other.cycles) / one.cycles for _, one, other in shown if one and other
    )
    return errors[int(_MANY * len(errors))] if errors else 0.0


def _near(measured: Figure, said: Figure, near: float) -> bool:
    """Say whether figures agree, or tell nothing."""
    if not measured or not said:
        return True
    slack = max(near * measured.cycles, _CYCLES, 3 * measured.uncertainty)
    return abs(measured.cycles - said.cycles) <= slack


def _why(names: Sequence[str], measured: Figure, said: Figure) -> str:
    return (
        f"beside {' and '.join(names)} it takes {measured.cycles:.2f} cycles, "
        f"not {said.cycles:.2f} as its uops and latencies say"
    )


Rule = Mapping[str, str]  # parameters of ports, without the name of their table

ASSIGNMENTS: tuple[Rule, ...] = (
    {"assign": "at_issue"},
    {"assign": "least_loaded"},
    *(
        {"assign": "dispatch_slots", "position": position, "tie": tie}
        for position, tie in product(("slots", "computing"), ("high", "low"))
    ),
)
_RULE_MIXTURES, _RULE_SEED = 240, 77
_LEAST_MIXTURES = 20  # mixtures that a rule is chosen by
_MOST_INSTANCES = 4  # instances of a form in a mixture


def choose_assignment(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return what was learned with the rule; as it was where too little is known to choose."""
    known = [form for form in forms if _plain_form(learned, form)]
    computing = [form for form in known if form.memory is None]
    if len(computing) < 3:
        return learned
    kernels = [*_rule_mixtures(computing, 0), *_rule_mixtures(known, 1)]
    figures = laboratory.time(kernels)
    answered = sum(bool(figure) for figure in figures)
    parts = [part for kernel in kernels for part in kernel]
    tried = [
        Hypothesis(learned, {f"ports.{name}": value for name, value in rule.items()})
        for rule in ASSIGNMENTS
    ]
    found = fit.fit(laboratory, parts, lambda core: core.time(kernels), tried, figures)
    if answered < _LEAST_MIXTURES or found is None:
        return learned
    errors = [found.error_of(n) for n in range(len(ASSIGNMENTS))]
    pairs = zip(ASSIGNMENTS, errors, strict=True)
    said = ", ".join(f"{' '.join(rule.values())} {100 * error:.2f} %" for rule, error in pairs)
    why = measured(f"mean error of {answered} mixtures: {said}")
    return replace(learned, assigned=(ASSIGNMENTS[found.best], why))


def _plain_form(learned: CoreModel, form: Form) -> bool:
    uops, rate = learned.uops.get(form.name), learned.throughputs[form.name]
    return bool(uops and uops.ports and not uops.busy and rate.clean)


def _rule_mixtures(forms: Sequence[Form], series: int) -> list[list[bytes]]:
    draw = random.Random(_RULE_SEED + series)
    out = []
    for form in draw.choices(forms, k=_RULE_MIXTURES):
        three = [form, *partners(draw, form, forms)]
        out.append(port_classes.mixture([(one, draw.randint(1, _MOST_INSTANCES)) for one in three]))
    return out
