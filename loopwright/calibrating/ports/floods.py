"""How many uops of an instruction lie within a set of ports: flood the ports, and add it.

An instruction of a class that keeps its ports busy takes its share of cycles each; what one
further instruction adds to the total is what it puts on those ports alone. uops.info does so with
counters of ports (Abel and Reineke, ASPLOS 2019), Ritter and Hack (ASPLOS 2024) with cycles alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isnan

from loopwright.calibrating import kernels
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory

_LEAST = 4  # cycles that the ports are flooded for
_MOST = 19  # the same; beyond it noise is as large as a uop
_KERNELS = 3  # at most, where one leaves doubt
_ERRORS = 2.5  # uncertainties that a whole number must hold for
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

    @property
    def doubtful(self) -> bool:
        """Say whether noise may have made another whole number, or none, of it."""
        if isnan(self.measured):
            return False
        off = abs(self.measured - round(self.measured))
        return off + _ERRORS * self.uncertainty > 0.5


def span(cycles: float) -> int | None:
    """Return the cycles to flood ports for, with an instruction that takes so many itself."""
    wanted = max(_LEAST, ceil(1.2 * cycles) + 1)
    return wanted if wanted <= _MOST else None


def spans(
    laboratory: Laboratory, forms: Sequence[Form], rates: Mapping[str, Throughput]
) -> dict[str, int | str]:
    """Return how many cycles to flood ports for each form, or why its uops cannot be counted."""
    waits = laboratory.time([[kernels.apart(form)] for form in forms])
    out: dict[str, int | str] = {}
    for form, wait in zip(forms, waits, strict=True):
        found = span(max(rates[form.name].cycles, wait.cycles)) if wait else None
        out[form.name] = found or wait.refused or "too slow to count its uops"
    return out


def measure(laboratory: Laboratory, asked: Sequence[tuple[Form, Flood, int]]) -> list[Surplus]:
    """Return what each form puts on each flood's ports, flooded for so many cycles."""
    return _sure(laboratory, [_Asked(*one) for one in asked], "loop")


def dispatched(
    laboratory: Laboratory, forms: Sequence[Form], spans: Mapping[str, int], width: int
) -> dict[str, Surplus]:
    """Return how many places at dispatch each form takes: nops flood them all."""
    flood = Flood(width, ())
    found = _sure(
        laboratory,
        [_Asked(form, flood, spans[form.name]) for form in forms],
        laboratory.kit.DISPATCHED,
    )
    return {form.name: one for form, one in zip(forms, found, strict=True)}


@dataclass(frozen=True)
class _Asked:
    form: Form
    flood: Flood
    cycles: int

    def kernel(self, more: int) -> list[bytes]:
        """Return the flood and the form within it; more cycles make another kernel of it."""
        cycles = self.cycles + more
        makers = kernels.Instances()
        parts = [[makers.of(b) for _ in range(n * cycles)] for b, n in self.flood.blockers]
        if not parts:
            parts = [[self.form.kit.nop()] * (self.flood.size * cycles)]
        return kernels.spread([kernels.apart(self.form)], *parts)

    def surplus(self, figures: Sequence[Figure]) -> Surplus:
        """Return what all answers say, the n-th of a flood of n cycles more."""
        some = [(one.cycles - self.cycles - n, one) for n, one in enumerate(figures) if one]
        if not some:
            return Surplus(None, float("nan"), 0.0)
        uops = self.flood.size * sum(cycles for cycles, _ in some) / len(some)
        error = self.flood.size * sum(one.uncertainty**2 for _, one in some) ** 0.5 / len(some)
        whole = round(uops)
        return Surplus(whole if abs(uops - whole) <= _SURE and whole >= 0 else None, uops, error)


def _sure(laboratory: Laboratory, asked: Sequence[_Asked], notion: str) -> list[Surplus]:
    """Return surpluses; of what lies between whole numbers more kernels are asked."""
    figures: list[list[Figure]] = [[] for _ in asked]
    unsure = list(range(len(asked)))
    for more in range(_KERNELS):
        answers = laboratory.time([asked[n].kernel(more) for n in unsure], notion)
        for n, answer in zip(unsure, answers, strict=True):
            figures[n].append(answer)
        unsure = [n for n in unsure if asked[n].surplus(figures[n]).doubtful]
    return [one.surplus(some) for one, some in zip(asked, figures, strict=True)]
