"""How uops get their ports: the rule of the simulator that predicts measured mixtures best.

Asked: which port a uop takes of several, and when. No experiment shows it by itself, but where
ports are shared by chance it costs cycles. Kernels: random mixtures of three forms, of half of them
forms that may access memory. Answer: the rule with which what was learned predicts them with the
least error. Where ports are chosen by issue slots, what counts as one, and which of two ports wins
that nothing else tells apart: their names are arbitrary, and so is which of them is the higher.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from loopwright.calibrating import parameters, trust, write
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.machines.machine import Machine
from loopwright.calibrating.ports import classes

Rule = Mapping[str, str]  # parameters of ports, without the name of their table

RULES: tuple[Rule, ...] = (
    {"assign": "least_loaded"},
    *(
        {"assign": "issue_slots", "position": position, "tie": tie}
        for position, tie in product(("slots", "computing"), ("high", "low"))
    ),
    {"assign": "at_dispatch"},
)
_MIXTURES, _SEED = 240, 77
_LEAST = 20  # mixtures that a rule is chosen by
_MOST = 4  # instances of a form in a mixture


def choose(laboratory: Laboratory, learned: Learned, forms: Sequence[Form]) -> Learned:
    """Return what was learned with the rule; as it was where too little is known to choose."""
    known = [form for form in forms if _plain(learned, form)]
    computing = [form for form in known if form.memory is None]
    if len(computing) < 3:
        return learned
    kernels = [*_mixtures(computing, 0), *_mixtures(known, 1)]
    figures = laboratory.time(kernels)
    machine = laboratory.machine
    errors = [_error(learned, machine, rule, kernels, figures) for rule in RULES]
    answered = sum(bool(figure) for figure in figures)
    best = min(range(len(RULES)), key=lambda n: errors[n])
    if answered < _LEAST or errors[best] != errors[best]:
        return learned
    pairs = zip(RULES, errors, strict=True)
    said = ", ".join(f"{' '.join(rule.values())} {100 * error:.2f} %" for rule, error in pairs)
    why = f"mean error of {answered} mixtures: {said} [{parameters.SOURCE}]"
    return replace(learned, assigned=(RULES[best], why))


def _plain(learned: Learned, form: Form) -> bool:
    uops, rate = learned.uops.get(form.name), learned.throughputs[form.name]
    return bool(uops and uops.ports and not uops.busy and rate.clean)


def _mixtures(forms: Sequence[Form], series: int) -> list[list[bytes]]:
    draw = random.Random(_SEED + series)
    out = []
    for form in draw.choices(forms, k=_MIXTURES):
        three = [form, *trust.partners(draw, form, forms)]
        out.append(classes.mixture([(one, draw.randint(1, _MOST)) for one in three]))
    return out


def _error(
    learned: Learned,
    machine: Machine,
    rule: Rule,
    kernels: Sequence[Sequence[bytes]],
    figures: Sequence[Figure],
) -> float:
    """Return the mean error of mixtures with a rule."""
    tried = replace(learned, assigned=(rule, "tried"))
    said = write.laboratory(tried, machine).time(kernels)
    pairs = zip(said, figures, strict=True)
    errors = [abs(a.cycles - b.cycles) / b.cycles for a, b in pairs if a and b]
    return fmean(errors) if errors else float("nan")
