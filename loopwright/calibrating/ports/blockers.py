"""How many uops of an instruction lie within a set of ports: block the ports, and add it.

An instruction of a class that keeps its ports busy takes its share of cycles each; what one
further instruction adds to the total is what it puts on those ports alone. uops.info does so with
counters of ports (Abel and Reineke, ASPLOS 2019), Ritter and Hack (ASPLOS 2024) with cycles alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, isnan

from loopwright.calibrating import kernels
from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.experiments.width import Width
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory, copies

_LEAST = 4  # cycles that the ports are blocked for
_MOST = 19  # the same; beyond it noise is as large as a uop
_KERNELS = 3  # at most, where one leaves doubt
_ERRORS = 2.5  # uncertainties that a whole number must hold for
_WORD = 64  # bits of a place among others in a line
_SURE = 0.3  # uops: how far from a whole number the surplus may lie
_LATE = 0.4  # uops: the same above it, where ports are bound early


@dataclass(frozen=True)
class Blocking:
    """Ports to block, by how many they are and the instructions that keep them busy together."""

    size: int
    blockers: tuple[tuple[Form, int], ...]  # and how many of each a cycle
    filler: bytes = b""  # what blockers dispatch, without any blockers


@dataclass(frozen=True)
class Surplus:
    """Uops within blocked ports; none where the figure lies between whole numbers."""

    uops: int | None
    measured: float
    uncertainty: float

    @property
    def early_binding(self) -> int | None:
        """Return the uops where what is bound early takes longer."""
        if self.uops is not None or isnan(self.measured):
            return self.uops
        return round(self.measured) if 0 <= self.measured % 1 <= _LATE else None

    @property
    def doubtful(self) -> bool:
        """Say whether noise may have made another whole number, or none, of it."""
        if isnan(self.measured):
            return False
        off = abs(self.measured - round(self.measured))
        return off + _ERRORS * self.uncertainty > 0.5


@cache
def _blocking(blocking: Blocking, cycles: int) -> list[list[bytes]]:
    makers = kernels.Instances(near=True)
    return [[makers.of(one) for _ in range(n * cycles)] for one, n in blocking.blockers]


@dataclass(frozen=True)
class Asked:
    """A form among blockers of so many cycles; places are those that it takes at dispatch."""

    form: Form
    blocking: Blocking
    cycles: int
    places: int = 1
    spare: int = 0  # places at dispatch that the blocking kernel leaves in a cycle
    rate: float = 0.0  # cycles that it takes alone
    most: int = kernels.APART  # instances

    def alone(self, more: int) -> list[bytes]:
        """Return the blocking kernel without the form; more cycles make another kernel of it."""
        return kernels.spread(*self._parts(more))

    def kernel(self, more: int) -> list[bytes]:
        """Return the blocking kernel and the form within it."""
        near = not self.blocking.blockers
        tested = [kernels.apart(self.form, n, near=near) for n in range(self.times)]
        return kernels.spread(tested, *self._parts(more))

    @property
    def times(self) -> int:
        """Return the instances of the form in the blocking kernel: a long one takes several.

        Those that wait for each other, as they use registers that none can choose, are alone, and
        so are those that dispatch or a unit that is busy would bind.
        """
        form = self.form
        plain = all(one.fixed is None for one in form.operands)
        written = form.memory is not None and form.memory.written
        room = not written or (form.memory is not None and form.memory.bits <= _WORD)
        most = min(self.most, self.cycles // _span(self.rate))
        most = min(most, kernels.NEAR) if written else most
        if self.spare:
            most = min(most, int(self.cycles * self.spare // max(self.places, 1)))
        return max(1, most) if plain and room else 1

    def _parts(self, more: int) -> list[list[bytes]]:
        cycles = self.cycles + more
        if not self.blocking.blockers:
            return [[self.blocking.filler] * (self.blocking.size * cycles)]
        return _blocking(self.blocking, cycles)

    def added(self, more: int, figure: Figure, alone: Figure) -> Figure:
        """Return the cycles that the form adds; what the branch of the loop takes is in both."""
        if not figure or not alone:
            return figure if not figure else alone
        cycles = self.cycles + more
        # What is too long for a loop is timed without one.
        within = copies(self.kernel(more))
        share = copies(self.alone(more)) / within if within else 1.0
        beyond = cycles + (alone.cycles - cycles) * share
        error = (figure.uncertainty**2 + (share * alone.uncertainty) ** 2) ** 0.5
        return Figure(figure.cycles - beyond, error)

    def surplus(self, figures: Sequence[Figure]) -> Surplus:
        """Return what all answers say of the cycles that the form adds."""
        some = [one for one in figures if one]
        if not some:
            return Surplus(None, float("nan"), 0.0)
        size = self.blocking.size / self.times
        uops = size * sum(one.cycles for one in some) / len(some)
        error = size * sum(one.uncertainty**2 for one in some) ** 0.5 / len(some)
        whole = round(uops)
        return Surplus(whole if abs(uops - whole) <= _SURE and whole >= 0 else None, uops, error)


def span(cycles: float) -> int | None:
    """Return the cycles to block ports for, with an instruction that takes so many itself."""
    wanted = _span(cycles)
    return wanted if wanted <= _MOST else None


def _span(cycles: float) -> int:
    return max(_LEAST, ceil(1.2 * cycles) + 1)


def spans(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
) -> dict[str, int | str]:
    """Return how many cycles to block ports for each form, or why its uops cannot be counted."""
    out: dict[str, int | str] = {}
    for form in forms:
        waits = _waits(form, latencies[form.name])
        if waits is not None and (found := span(max(rates[form.name].cycles, waits))):
            out[form.name] = found
    rest = [form for form in forms if form.name not in out]
    answers = laboratory.time([[kernels.apart(form)] for form in rest])
    for form, wait in zip(rest, answers, strict=True):
        some = span(max(rates[form.name].cycles, wait.cycles)) if wait else None
        out[form.name] = some or wait.refused or "too slow to count its uops"
    return out


def _waits(form: Form, latencies: Sequence[Latency]) -> float | None:
    """Return how long an instance waits for the same one before at most; None if not known."""
    if form.memory and form.memory.read and form.memory.written:
        return None
    both = {operand.label for operand in form.operands if operand.read and operand.written}
    some = [one for one in latencies if {one.source, one.target} <= both]
    if any(one.refused for one in some) or len({one.source for one in some}) < len(both):
        return None
    return max((one.measured for one in some), default=0.0)


def measure(laboratory: Laboratory, asked: Sequence[Asked]) -> list[Surplus]:
    """Return what each form puts on the ports of a blocking kernel."""
    return _sure(laboratory, asked, "loop")


def within(
    form: Form, blocking: Blocking, cycles: int, places: int, width: int, rate: float = 0.0
) -> Asked | None:
    """Return blockers for a form of so many places, None where dispatch would bind them.

    The blocking kernel has to leave places at dispatch for the form in as many cycles as it lasts.
    """
    spare = width - blocking.size
    wanted = max(cycles, ceil(places / spare) + 1) if spare else _MOST + 1
    return Asked(form, blocking, wanted, places, spare, rate) if wanted <= _MOST else None


def longest(form: Form, blocking: Blocking) -> Asked:
    """Return the longest blocking kernel of one instance.

    What is delivered by itself, as microcode is, leaves dispatch without work for a cycle or more;
    a blocking kernel that leaves few places makes up for that late.
    """
    return Asked(form, blocking, _MOST, most=1)


def dispatched(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    width: Width,
) -> dict[str, Surplus]:
    """Return how many places at dispatch each form takes: what counts there fills them all."""
    blocking = Blocking(width.instructions, (), width.counted)
    lasting = spans(laboratory, forms, rates, latencies)
    asked = [
        Asked(form, blocking, said, rate=rates[form.name].cycles)
        for form in forms
        if isinstance(said := lasting[form.name], int)
    ]
    found = _sure(laboratory, asked, laboratory.kit.DISPATCHED)
    unknown = Surplus(None, float("nan"), 0.0)
    shown = {one.form.name: surplus for one, surplus in zip(asked, found, strict=True)}
    return {form.name: shown.get(form.name, unknown) for form in forms}


def _sure(laboratory: Laboratory, asked: Sequence[Asked], notion: str) -> list[Surplus]:
    """Return surpluses; of what lies between whole numbers more kernels are asked."""
    figures: list[list[Figure]] = [[] for _ in asked]
    unsure = list(range(len(asked)))
    for more in range(_KERNELS):
        some = [asked[n] for n in unsure]
        within = laboratory.time([one.kernel(more) for one in some], notion)
        alone = laboratory.time([one.alone(more) for one in some], notion)
        for n, *answer in zip(unsure, within, alone, strict=True):
            figures[n].append(asked[n].added(more, *answer))
        unsure = [n for n in unsure if asked[n].surplus(figures[n]).doubtful]
    return [one.surplus(some) for one, some in zip(asked, figures, strict=True)]
