"""Throughput: cycles of an instance among others of its form.

Asked: how often an instruction can start. Kernel: instances that write different registers; what
all of them wait for (implied registers, flags) is given a new value before each. Answer: the
cycles of one. Where a new value had to be given, its cost is in the figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.calibrating import kernels
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory

_INSTANCES = 6
_WRITING = 16  # the same of what writes memory, before a place is written again


@dataclass(frozen=True)
class Throughput:
    """Cycles an instance. clean says that nothing but the form was in the kernel."""

    cycles: float
    uncertainty: float
    clean: bool
    refused: str = ""


def measure(laboratory: Laboratory, forms: Sequence[Form]) -> dict[str, Throughput]:
    """Return the throughput of each form, by its name."""
    figures = laboratory.time([kernel(form) for form in forms])
    return {f.name: _of(f, figure) for f, figure in zip(forms, figures, strict=True)}


def kernel(form: Form) -> list[bytes]:
    """Return instances that do not wait for each other."""
    instances = kernels.Instances()
    before = kernels.fresh(form.kit, kernels.carried(form), {})
    return [b"".join([*before, instances.of(form)]) for _ in range(_count(form))]


def _count(form: Form) -> int:
    return _WRITING if form.memory and form.memory.written else _INSTANCES


def _of(form: Form, figure: Figure) -> Throughput:
    clean = not kernels.carried(form)
    return Throughput(
        figure.cycles / _count(form), figure.uncertainty / _count(form), clean, figure.refused
    )
