"""What was learned of each form, held to mixtures with two other forms that no experiment timed.

Asked: does the core that would be written take as long as the machine does. Kernel: some instances
of the form and of two others at random. Answer: a form whose mixture takes another time is tried in
two more, with forms whose own was right; where one of those is wrong, too, the form is left out.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from loopwright.calibrating import write
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.machines.texts import Texts
from loopwright.calibrating.ports import classes
from loopwright.calibrating.ports.core import Uops

_SEED = 31
_TIMES = 4  # instances of the form in a mixture
_MOST = 2  # the same of each other at most: its own part is what shall show
_AGAIN = 2  # mixtures more of a form in doubt
_NEAR, _CYCLES = 0.1, 0.1  # what differs by no more than either, or than three errors, is right


def hold(laboratory: Laboratory, learned: Learned, forms: Sequence[Form]) -> Learned:
    """Return what was learned without the forms whose mixtures take another time."""
    known = [form for form in forms if _known(learned, form)]
    if len(known) < 3:
        return learned
    draw = random.Random(_SEED)
    first = _wrong(laboratory, learned, [_mixed(draw, form, known) for form in known])
    doubtful = [form for form, why in zip(known, first, strict=True) if why]
    trusted = [form for form, why in zip(known, first, strict=True) if not why]
    if len(trusted) < 2:
        return learned
    again = [form for form in doubtful for _ in range(_AGAIN)]
    second = _wrong(laboratory, learned, [_mixed(draw, form, trusted) for form in again])
    left = {form.name: why for form, why in zip(again, second, strict=True) if why}
    uops = {
        name: Uops(0, None, why=left[name]) if name in left else one
        for name, one in learned.uops.items()
    }
    return replace(learned, uops=uops)


def _known(learned: Learned, form: Form) -> bool:
    uops = learned.uops.get(form.name)
    return uops is not None and uops.ports is not None


def _mixed(
    draw: random.Random, form: Form, others: Sequence[Form]
) -> tuple[Sequence[str], list[bytes]]:
    """Return a mixture of a form, and the names of the others in it."""
    partners = draw.sample([other for other in others if other is not form], 2)
    parts = [(form, _TIMES), *((one, draw.randint(1, _MOST)) for one in partners)]
    return [one.name for one in partners], classes.mixture(parts)


def _wrong(
    laboratory: Laboratory, learned: Learned, asked: Sequence[tuple[Sequence[str], list[bytes]]]
) -> list[str]:
    """Return what is wrong with each mixture, nothing where it takes as long as it should."""
    machine = laboratory.machine
    kernels = [kernel for _, kernel in asked]
    # Where branches are not learned, the copies of a loop are predicted without it.
    notion = "loop" if laboratory.kit.BRANCHES else "unrolled"
    said = Laboratory(Texts(machine, *write.texts(learned, machine))).time(kernels, notion)
    figures = laboratory.time(kernels)
    return [
        "" if _near(one, other) else _why(names, one, other)
        for (names, _), one, other in zip(asked, figures, said, strict=True)
    ]


def _near(measured: Figure, said: Figure) -> bool:
    """Say whether figures agree, or tell nothing."""
    if not measured or not said:
        return True
    slack = max(_NEAR * measured.cycles, _CYCLES, 3 * measured.uncertainty)
    return abs(measured.cycles - said.cycles) <= slack


def _why(names: Sequence[str], measured: Figure, said: Figure) -> str:
    return (
        f"beside {' and '.join(names)} it takes {measured.cycles:.2f} cycles, "
        f"not {said.cycles:.2f} as its uops and latencies say"
    )
