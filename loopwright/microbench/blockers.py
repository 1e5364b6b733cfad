"""Blocking instructions: uops of a form within a set of ports, and places at dispatch.

How many uops of an instruction lie within a set of ports: block the ports, and add it.

An instruction of a class that keeps its ports busy takes its share of cycles each; what one
further instruction adds to the total is what it puts on those ports alone. uops.info does so with
counters of ports (Abel and Reineke, ASPLOS 2019), Ritter and Hack (ASPLOS 2024) with cycles alone.

Places at dispatch that blockers do not show, as what delivers code is as slow as dispatch.

A kernel of what takes a place each is longer by the places of a form in it, if dispatch binds it.
Where caches of decoded code do, forms seem to take none, no whole number, or another one. Those of
no number are asked again by bursts (dispatch_width.py), which the queue in front of dispatch feeds,
and some others; where these show that blockers are wrong, all are. Where bursts are dispatched no
faster than blockers, they cannot show more places. No form takes more places than are dispatched
while it takes alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, isnan

from loopwright.microbench import dispatch_width, form_instances, window_size
from loopwright.microbench.dispatch_width import Width
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory, copies
from loopwright.microbench.latency import Latency
from loopwright.microbench.throughput import Throughput

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
    makers = form_instances.Instances(near=True)
    return [[makers.of(one) for _ in range(n * cycles)] for one, n in blocking.blockers]


@dataclass(frozen=True)
class Asked:
    """A form among blockers of so many cycles; places are those that it takes at dispatch."""

    form: Form
    blocking: Blocking
    cycles: int
    slots: int = 1
    spare: int = 0  # places at dispatch that the blocking kernel leaves in a cycle
    rate: float = 0.0  # cycles that it takes alone
    most: int = form_instances.APART  # instances

    def alone(self, more: int) -> list[bytes]:
        """Return the blocking kernel without the form; more cycles make another kernel of it."""
        return form_instances.spread(*self._parts(more))

    def kernel(self, more: int) -> list[bytes]:
        """Return the blocking kernel and the form within it."""
        near = not self.blocking.blockers
        tested = [form_instances.apart(self.form, n, near=near) for n in range(self.times)]
        return form_instances.spread(tested, *self._parts(more))

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
        most = min(most, form_instances.NEAR) if written else most
        if self.spare:
            most = min(most, int(self.cycles * self.spare // max(self.slots, 1)))
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
    answers = laboratory.time([[form_instances.apart(form)] for form in rest])
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
    form: Form, blocking: Blocking, cycles: int, slots: int, width: int, rate: float = 0.0
) -> Asked | None:
    """Return blockers for a form of so many places, None where dispatch would bind them.

    The blocking kernel has to leave places at dispatch for the form in as many cycles as it lasts.
    """
    spare = width - blocking.size
    wanted = max(cycles, ceil(slots / spare) + 1) if spare else _MOST + 1
    return Asked(form, blocking, wanted, slots, spare, rate) if wanted <= _MOST else None


def longest(form: Form, blocking: Blocking) -> Asked:
    """Return the longest blocking kernel of one instance.

    What is delivered by itself, as microcode is, leaves dispatch without work for a cycle or more;
    a blocking kernel that leaves few places makes up for that late.
    """
    return Asked(form, blocking, _MOST, most=1)


def dispatch_slots(
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
    found = _sure(laboratory, asked, width.notion)
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


_UNMASKED_SAMPLE = 24  # forms that are asked again although blockers show a number
_WRONG_BLOCKERS = 0.1  # of them: blockers are wrong where more are
_TOLD_BY_BURSTS = 0.5  # of the forms, at least, where bursts are to replace blockers
_DISPATCHED_NEAR = (
    0.05  # relative: by how much more than it takes alone its places may be dispatched in
)
_BUSY = 1.1  # cycles that a form of vectors may take, so that it leaves its unit to the chain


def unmasked(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    slots: Mapping[str, Surplus],
    width: Width,
) -> dict[str, Surplus]:
    """Return the places of forms, those that blockers hide by bursts where these tell."""
    told = [form for form in forms if slots[form.name].measured == slots[form.name].measured]
    doubtful = [form for form in told if not slots[form.name].uops]
    free = [form for form in told if not _busy(form, rates)]
    some = free[:: max(1, len(free) // _UNMASKED_SAMPLE)]
    chain = window_size.chain(laboratory)
    idle = dispatch_width.idle(laboratory.kit, width)
    steps = dispatch_width.measure_burst(laboratory, chain, idle) if chain else None
    if chain is None or steps is None:
        return dict(slots)

    def ask(asked: Sequence[Form]) -> dict[str, int]:
        tested = {form.name: form_instances.apart(form) for form in asked if not _busy(form, rates)}
        found = dispatch_width.burst_slots(laboratory, chain, idle, steps, tested)
        if steps.width > width.instructions:
            return found
        # Blockers that dispatch binds leave no room for more places than they show.
        most = {name: slots[name].measured + _SURE for name in found}
        return {name: uops for name, uops in found.items() if uops <= most[name]}

    found = ask(some)
    known = [name for name in found if slots[name].uops is not None]
    wrong = [name for name in known if found[name] != slots[name].uops]
    every = len(wrong) > max(_WRONG_BLOCKERS * len(known), 1)
    found |= ask(told if every else doubtful)
    unknown = told if every and len(found) > _TOLD_BY_BURSTS * len(told) else []
    out = {**slots, **{form.name: Surplus(None, float("nan"), 0.0) for form in unknown}}
    for form in told if unknown else doubtful:
        if form.name in found:
            uops = found[form.name]
            out[form.name] = Surplus(uops, float(uops), 0.0)
    return out


def possible_slots(
    slots: Mapping[str, Surplus], rates: Mapping[str, Throughput], width: Width
) -> dict[str, Surplus]:
    """Return places, no more of a form than are dispatched in what it takes alone."""
    out = dict(slots)
    for name, one in slots.items():
        most = int(rates[name].cycles * (1 + _DISPATCHED_NEAR) * width.instructions)
        if one.uops is not None and 0 < most < one.uops:
            out[name] = replace(one, uops=most, measured=float(most))
    return out


def agreed_slots(
    blocked: Mapping[str, Surplus], slots: Mapping[str, Surplus]
) -> Mapping[str, Surplus]:
    """Return the places that blockers and bursts show alike, all of bursts where these are few.

    What blockers show is bound by no more than dispatch: so are classes that are founded on it.
    """
    sure = {name: one for name, one in slots.items() if blocked[name].uops == one.uops}
    if len(sure) < _TOLD_BY_BURSTS * len(slots):
        return slots
    return {name: sure.get(name, Surplus(None, float("nan"), 0.0)) for name in slots}


def _busy(form: Form, rates: Mapping[str, Throughput]) -> bool:
    """Say whether a form may keep the chain waiting for the unit that it uses."""
    vectors = any(operand.kind == "vector" for operand in form.operands)
    return vectors and rates[form.name].cycles > _BUSY
