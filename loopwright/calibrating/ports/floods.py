"""How many uops of an instruction lie within a set of ports: flood the ports, and add it.

An instruction of a class that keeps its ports busy takes its share of cycles each; what one
further instruction adds to the total is what it puts on those ports alone. uops.info does so with
counters of ports (Abel and Reineke, ASPLOS 2019), Ritter and Hack (ASPLOS 2024) with cycles alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from loopwright.calibrating import kernels
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory

_LEAST = 4  # cycles that the ports are flooded for
_MOST = 14  # the same; beyond it noise is as large as a uop
_SURE = 0.3  # uops: how far from a whole number the surplus may lie


@dataclass(frozen=True)
class Flood:
    """Ports to flood, by how many they are and the instructions that keep them busy together."""

    size: int
    blockers: tuple[tuple[Form, int], ...]  # and how many of each a cycle


@dataclass(frozen=True)
class Surplus:
    """Uops within flooded ports; none where the figure lies between whole numbers."""

    uops: int | None
    measured: float
    uncertainty: float


def span(cycles: float) -> int | None:
    """Return the cycles to flood ports for, with an instruction that takes so many itself."""
    wanted = max(_LEAST, ceil(1.2 * cycles) + 1)
    return wanted if wanted <= _MOST else None


def measure(laboratory: Laboratory, asked: Sequence[tuple[Form, Flood, int]]) -> list[Surplus]:
    """Return what each form puts on each flood's ports, flooded for so many cycles."""
    figures = laboratory.time([_kernel(*one) for one in asked])
    return [
        _surplus(f, flood, cycles) for (_, flood, cycles), f in zip(asked, figures, strict=True)
    ]


def _kernel(form: Form, flood: Flood, cycles: int) -> list[bytes]:
    makers = kernels.Instances()
    parts = [[makers.of(b) for _ in range(n * cycles)] for b, n in flood.blockers]
    return kernels.spread([kernels.apart(form)], *parts)


def _surplus(figure: Figure, flood: Flood, cycles: int) -> Surplus:
    if not figure:
        return Surplus(None, float("nan"), 0.0)
    uops = flood.size * (figure.cycles - cycles)
    error = flood.size * figure.uncertainty
    whole = round(uops)
    sure = abs(uops - whole) <= _SURE and whole >= 0
    return Surplus(whole if sure else None, uops, error)


def dispatched(
    laboratory: Laboratory, forms: Sequence[Form], spans: Mapping[str, int], width: int
) -> dict[str, Surplus]:
    """Return how many places at dispatch each form takes: nops flood them all."""
    asked = [
        kernels.spread([kernels.apart(form)], [form.kit.nop()] * (spans[form.name] * width))
        for form in forms
    ]
    figures = laboratory.time(asked, laboratory.kit.DISPATCHED)
    out = {}
    for form, figure in zip(forms, figures, strict=True):
        out[form.name] = _surplus(figure, Flood(width, ()), spans[form.name])
    return out
