"""Blocking instructions: uops of a form in a set of ports, and its dispatch slots.

Uops. Blocking instructions keep a set of ports busy for some cycles. An added instance prolongs the
kernel by its uops that can use these ports only, divided by their number. uops.info does this with
port counters (Abel and Reineke, ASPLOS 2019), Ritter and Hack (ASPLOS 2024) with cycles alone.

Dispatch slots. A kernel of one-slot instructions is prolonged by the slots of an added form, if
dispatch limits it. Where the op cache limits instead, forms seem to have none, no whole number, or
another number of slots. Forms without a whole number, and a sample of others, are measured again by
bursts (dispatch_width), which the queue in front of dispatch feeds; where the sample shows that
blocking kernels are wrong, all forms are. Bursts that are dispatched no faster than blocking
kernels cannot show more slots. No form takes more slots than are dispatched in the cycles of its
throughput.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, isnan, nan

from loopwright.microbench import dispatch_width, form_instances, window_corner
from loopwright.microbench.dispatch_width import Width
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory, copies
from loopwright.microbench.latency import Latency
from loopwright.microbench.throughput import Throughput

_LEAST = 4  # cycles for which ports are blocked, at least
_MOST = 19  # the same, at most; beyond it noise is as large as a uop
_KERNELS = 3  # kernels of a form, at most, where one leaves doubt
_ERRORS = 2.5  # uncertainties that a whole number has to hold for
_WORD = 64  # bits of an access that shares a line with others
_WHOLE = 0.3  # uops: tolerance of a surplus around a whole number
_EARLY = 0.4  # uops: upper tolerance where ports are bound early


@dataclass(frozen=True)
class Blocking:
    """Ports to block, or dispatch: the ports, or slots, and what keeps them busy.

    blockers are the blocking instructions, with the instances of each a cycle. filler is the
    one-slot instruction that fills dispatch, where there are none.
    """

    size: int
    blockers: tuple[tuple[Form, int], ...]
    filler: bytes = b""


@dataclass(frozen=True)
class Surplus:
    """Uops in blocked ports; uops is None if the figure is no whole number."""

    uops: int | None
    measured: float
    uncertainty: float

    @property
    def early_binding(self) -> int | None:
        """The whole number of uops, if early binding may prolong the kernel."""
        if self.uops is not None or isnan(self.measured):
            return self.uops
        return round(self.measured) if 0 <= self.measured % 1 <= _EARLY else None

    @property
    def doubtful(self) -> bool:
        """True if noise may have changed the whole number, or hidden it."""
        if isnan(self.measured):
            return False
        fraction = abs(self.measured - round(self.measured))
        return fraction + _ERRORS * self.uncertainty > 0.5


_UNKNOWN = Surplus(None, nan, 0.0)


@cache
def _blocking(blocking: Blocking, cycles: int) -> list[list[bytes]]:
    """Return the instances of each blocking instruction for so many cycles."""
    instances = form_instances.Instances(near=True)
    return [[instances.of(form) for _ in range(n * cycles)] for form, n in blocking.blockers]


@dataclass(frozen=True)
class BlockingKernel:
    """A form among blocking instructions that last so many cycles; slots are its dispatch slots.

    spare are the dispatch slots that the blocking instructions leave free in a cycle. rate is the
    form's throughput in cycles. There are at most `most` instances of the form.
    """

    form: Form
    blocking: Blocking
    cycles: int
    slots: int = 1
    spare: int = 0
    rate: float = 0.0
    most: int = form_instances.MOST_UNDER_TEST

    def alone(self, extra: int) -> list[bytes]:
        """Return the blocking kernel without the form, longer by so many cycles."""
        return form_instances.interleaved(*self._parts(extra))

    def kernel(self, extra: int) -> list[bytes]:
        """Return the blocking kernel with the form in it, longer by so many cycles."""
        near = not self.blocking.blockers
        tested = [form_instances.under_test(self.form, n, near=near) for n in range(self.instances)]
        return form_instances.interleaved(tested, *self._parts(extra))

    @property
    def instances(self) -> int:
        """The instances of the form in the blocking kernel; long kernels have several.

        Instances that wait for each other through implied registers stand alone, and so do those
        that dispatch or a busy unit would limit.
        """
        form = self.form
        plain = all(operand.fixed is None for operand in form.operands)
        written = form.memory is not None and form.memory.written
        room = not written or (form.memory is not None and form.memory.bits <= _WORD)
        most = min(self.most, self.cycles // _blocked_cycles(self.rate))
        most = min(most, form_instances.NEAR) if written else most
        if self.spare:
            most = min(most, int(self.cycles * self.spare // max(self.slots, 1)))
        return max(1, most) if plain and room else 1

    def _parts(self, extra: int) -> list[list[bytes]]:
        cycles = self.cycles + extra
        if not self.blocking.blockers:
            return [[self.blocking.filler] * (self.blocking.size * cycles)]
        return _blocking(self.blocking, cycles)

    def added(self, extra: int, figure: Figure, alone: Figure) -> Figure:
        """Return the cycles that the form adds; the loop's branch is in both figures."""
        if not figure or not alone:
            return figure if not figure else alone
        cycles = self.cycles + extra
        # A kernel too long for a loop is timed without one.
        fitting = copies(self.kernel(extra))
        share = copies(self.alone(extra)) / fitting if fitting else 1.0
        blocked = cycles + (alone.cycles - cycles) * share
        error = (figure.uncertainty**2 + (share * alone.uncertainty) ** 2) ** 0.5
        return Figure(figure.cycles - blocked, error)

    def surplus(self, figures: Sequence[Figure]) -> Surplus:
        """Return the surplus of all figures of the cycles that the form adds."""
        answered = [figure for figure in figures if figure]
        if not answered:
            return _UNKNOWN
        size = self.blocking.size / self.instances
        uops = size * sum(figure.cycles for figure in answered) / len(answered)
        error = size * sum(figure.uncertainty**2 for figure in answered) ** 0.5 / len(answered)
        whole = round(uops)
        return Surplus(whole if abs(uops - whole) <= _WHOLE and whole >= 0 else None, uops, error)


def span(cycles: float) -> int | None:
    """Return the cycles for which to block ports, for an instruction that takes so many itself.

    None if it takes too many.
    """
    blocked = _blocked_cycles(cycles)
    return blocked if blocked <= _MOST else None


def _blocked_cycles(cycles: float) -> int:
    return max(_LEAST, ceil(1.2 * cycles) + 1)


def spans(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
) -> dict[str, int | str]:
    """Return the cycles for which to block ports for each form, or a refusal."""
    out: dict[str, int | str] = {}
    for form in forms:
        chain_cycles = _wait_cycles(form, latencies[form.name])
        if chain_cycles is None:
            continue
        if cycles := span(max(rates[form.name].cycles, chain_cycles)):
            out[form.name] = cycles
    unknown = [form for form in forms if form.name not in out]
    chains = laboratory.time([[form_instances.under_test(form)] for form in unknown])
    for form, figure in zip(unknown, chains, strict=True):
        cycles = span(max(rates[form.name].cycles, figure.cycles)) if figure else None
        out[form.name] = cycles or figure.refused or "too slow to count its uops"
    return out


def _wait_cycles(form: Form, latencies: Sequence[Latency]) -> float | None:
    """Return the cycles that an instance waits for the previous one, at most; None if unknown."""
    if form.memory and form.memory.read and form.memory.written:
        return None
    both = {operand.label for operand in form.operands if operand.read and operand.written}
    carried = [latency for latency in latencies if {latency.source, latency.target} <= both]
    sources = {latency.source for latency in carried}
    if any(latency.refused for latency in carried) or len(sources) < len(both):
        return None
    return max((latency.measured for latency in carried), default=0.0)


def measure(laboratory: Laboratory, kernels: Sequence[BlockingKernel]) -> list[Surplus]:
    """Return the surplus of each form on the ports of its blocking kernel."""
    return _surpluses(laboratory, kernels, "loop")


def within(
    form: Form, blocking: Blocking, cycles: int, slots: int, width: int, rate: float = 0.0
) -> BlockingKernel | None:
    """Return the blocking kernel of a form of so many slots, None if dispatch would limit it.

    The blocking kernel has to leave enough dispatch slots free for the form.
    """
    spare = width - blocking.size
    blocked = max(cycles, ceil(slots / spare) + 1) if spare else _MOST + 1
    return BlockingKernel(form, blocking, blocked, slots, spare, rate) if blocked <= _MOST else None


def longest(form: Form, blocking: Blocking) -> BlockingKernel:
    """Return the longest blocking kernel with one instance.

    A form that is delivered by itself, such as microcode, starves dispatch for a cycle or more,
    which a blocking kernel that leaves few slots makes up for late.
    """
    return BlockingKernel(form, blocking, _MOST, most=1)


def dispatch_slots(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    width: Width,
) -> dict[str, Surplus]:
    """Return the surplus of each form over one-slot instructions that fill dispatch: its slots."""
    blocking = Blocking(width.instructions, (), width.counted)
    cycles_by_form = spans(laboratory, forms, rates, latencies)
    kernels = [
        BlockingKernel(form, blocking, cycles, rate=rates[form.name].cycles)
        for form in forms
        if isinstance(cycles := cycles_by_form[form.name], int)
    ]
    surpluses = _surpluses(laboratory, kernels, width.notion)
    unknown = {form.name: _UNKNOWN for form in forms}
    return unknown | {k.form.name: one for k, one in zip(kernels, surpluses, strict=True)}


def _surpluses(
    laboratory: Laboratory, kernels: Sequence[BlockingKernel], notion: str
) -> list[Surplus]:
    """Return the surplus of each kernel's form; doubtful ones rest on longer kernels as well."""
    figures: list[list[Figure]] = [[] for _ in kernels]
    unsure = list(range(len(kernels)))
    for extra in range(_KERNELS):
        chosen = [kernels[n] for n in unsure]
        blocked = laboratory.time([kernel.kernel(extra) for kernel in chosen], notion)
        alone = laboratory.time([kernel.alone(extra) for kernel in chosen], notion)
        for n, *answer in zip(unsure, blocked, alone, strict=True):
            figures[n].append(kernels[n].added(extra, *answer))
        unsure = [n for n in unsure if kernels[n].surplus(figures[n]).doubtful]
    return [kernel.surplus(of_kernel) for kernel, of_kernel in zip(kernels, figures, strict=True)]


_UNMASKED_SAMPLE = 24  # forms measured again although blocking kernels show a number
_WRONG_BLOCKERS = 0.1  # share of them above which blocking kernels are wrong
_TOLD_BY_BURSTS = 0.5  # share of the forms, at least, where bursts replace blocking kernels
_DISPATCHED_NEAR = 0.05  # relative tolerance of the cycles in which a form's slots are dispatched
_BUSY = 1.1  # cycles of a vector form that leaves its unit to the chain, at most


def unmasked(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    slots: Mapping[str, Surplus],
    width: Width,
) -> dict[str, Surplus]:
    """Return the slots of forms, with bursts in the place of what blocking kernels hide."""
    measurable = [form for form in forms if slots[form.name].measured == slots[form.name].measured]
    doubtful = [form for form in measurable if not slots[form.name].uops]
    free = [form for form in measurable if not _busy(form, rates)]
    sample = free[:: max(1, len(free) // _UNMASKED_SAMPLE)]
    chain = window_corner.chain(laboratory)
    idle = dispatch_width.idle(laboratory.kit, width)
    steps = dispatch_width.measure_burst(laboratory, chain, idle) if chain else None
    if chain is None or steps is None:
        return dict(slots)

    def by_bursts(chosen: Sequence[Form]) -> dict[str, int]:
        tested = {f.name: form_instances.under_test(f) for f in chosen if not _busy(f, rates)}
        shown = dispatch_width.burst_slots(laboratory, chain, idle, steps, tested)
        if steps.width > width.instructions:
            return shown
        # Blocking kernels that dispatch limits leave no room for more slots than they show.
        most = {name: slots[name].measured + _WHOLE for name in shown}
        return {name: uops for name, uops in shown.items() if uops <= most[name]}

    shown = by_bursts(sample)
    compared = [name for name in shown if slots[name].uops is not None]
    differing = [name for name in compared if shown[name] != slots[name].uops]
    all_wrong = len(differing) > max(_WRONG_BLOCKERS * len(compared), 1)
    shown |= by_bursts(measurable if all_wrong else doubtful)
    unknown = measurable if all_wrong and len(shown) > _TOLD_BY_BURSTS * len(measurable) else []
    out = {**slots, **{form.name: _UNKNOWN for form in unknown}}
    for form in measurable if unknown else doubtful:
        if form.name in shown:
            uops = shown[form.name]
            out[form.name] = Surplus(uops, float(uops), 0.0)
    return out


def possible_slots(
    slots: Mapping[str, Surplus], rates: Mapping[str, Throughput], width: Width
) -> dict[str, Surplus]:
    """Return slots, capped at those dispatched in the cycles of the form's throughput."""
    out = dict(slots)
    for name, surplus in slots.items():
        most = int(rates[name].cycles * (1 + _DISPATCHED_NEAR) * width.instructions)
        if surplus.uops is not None and 0 < most < surplus.uops:
            out[name] = replace(surplus, uops=most, measured=float(most))
    return out


def agreed_slots(
    blocked: Mapping[str, Surplus], slots: Mapping[str, Surplus]
) -> Mapping[str, Surplus]:
    """Return the slots on which blocking kernels and bursts agree, or bursts where these are few.

    Port classes rest on them, as dispatch alone limits what blocking kernels show.
    """
    agreed = {name: one for name, one in slots.items() if blocked[name].uops == one.uops}
    if len(agreed) < _TOLD_BY_BURSTS * len(slots):
        return slots
    return {name: agreed.get(name, _UNKNOWN) for name in slots}


def _busy(form: Form, rates: Mapping[str, Throughput]) -> bool:
    """True if a form may occupy the unit that the chain needs."""
    vectors = any(operand.kind == "vector" for operand in form.operands)
    return vectors and rates[form.name].cycles > _BUSY
