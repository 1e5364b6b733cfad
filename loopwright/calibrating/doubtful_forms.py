"""Doubtful forms: figures and a range where microbenchmarks of a form do not agree.

Cores have costs that no pass models. A form that everyday code uses is not left out for one. It
gets the candidate with the least error over its kernels, which are its throughput kernel and
mixtures with trusted forms. Its range consists of two further candidates: the most expensive one
that exceeds no kernel, and the cheapest one that no kernel exceeds.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import ceil, inf
from statistics import fmean

from loopwright.calibrating import cross_check, memory_rules
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.cross_check import Mixture
from loopwright.calibrating.port_usage import loads_plainly
from loopwright.calibrating.port_usage_search import MOST, Candidates, Case, UopBounds
from loopwright.calibrating.ports import Core, Doubt, Ports, Uops, bound_cycles
from loopwright.microbench import kits
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.latency import Latency

_SEED = 53
_MIXTURES = 4  # of each form
_ALIKE, _LISTED = 3, 5  # candidates from similar forms, and from the form's throughput
_LATER = 1  # cycles by which the latency of a high byte may be longer: Intel inserts a merge uop
_HALVES = {"y": "x", "m256": "m128"}  # vector operands, and their halves
_FULL = re.compile(r"\b(?:y|m256)\b")
_WITHIN = 0.03  # relative tolerance of a bound


@dataclass(frozen=True)
class _Tried:
    """A candidate of a form, with its predictions of the form's kernels."""

    uops: Uops
    pairs: Sequence[tuple[float, float]]  # measured and predicted cycles

    @property
    def error(self) -> float:
        """Return the mean relative error."""
        errors = [abs(predicted / measured - 1) for measured, predicted in self.pairs]
        return fmean(errors) if errors else inf

    @property
    def is_lower_bound(self) -> bool:
        """True if the candidate predicts no kernel slower than measured."""
        return all(predicted <= measured * (1 + _WITHIN) for measured, predicted in self.pairs)

    @property
    def is_upper_bound(self) -> bool:
        """True if the candidate predicts no kernel faster than measured."""
        return all(predicted >= measured * (1 - _WITHIN) for measured, predicted in self.pairs)

    @property
    def total(self) -> float:
        """Return the sum of predicted cycles, by which candidates are cheap or expensive."""
        return sum(predicted for _, predicted in self.pairs)


def choose_doubtful(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with figures and ranges of forms that had none.

    A form without a throughput takes the figures of its twin with or without a VEX prefix, if any.
    """
    all_forms, _ = kits.forms(laboratory.isa, laboratory.machine.features)
    learned = _with_twins(learned, all_forms)
    named = {form.name: form for form in forms}
    doubtful = [
        named[name]
        for name, uops in learned.uops.items()
        if uops.ports is None and name in named and not learned.throughputs[name].refused
    ]
    trusted = [
        form for form in forms if learned.has_ports(form.name) and not cross_check.waits(form)
    ]
    if not doubtful or len(trusted) <= 2:
        return _with_relatives(laboratory, learned)
    generator = Candidates(learned.core)
    candidates = {
        form.name: list(_candidates(learned, form, named, generator)) for form in doubtful
    }
    kernels = [*cross_check.alone(doubtful), *_mixtures(doubtful, trusted)]
    figures = laboratory.time([kernel.kernel for kernel in kernels])
    tried: dict[str, list[_Tried]] = {form.name: [] for form in doubtful}
    for turn in range(max(map(len, candidates.values()))):
        batch = {name: own[turn] for name, own in candidates.items() if turn < len(own)}
        core = replace(learned, uops={**learned.uops, **batch})
        numbers = [n for n, kernel in enumerate(kernels) if kernel.form in batch]
        predicted = cross_check.core_predicts(laboratory, core, [kernels[n] for n in numbers])
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in batch}
        for n, prediction in zip(numbers, predicted, strict=True):
            if figures[n] and prediction:
                pairs[kernels[n].form].append((figures[n].cycles, prediction.cycles))
        for name, uops in batch.items():
            tried[name].append(_Tried(uops, pairs[name]))
    chosen, doubts = dict(learned.uops), dict(learned.doubts)
    for name, own_tried in tried.items():
        if answered := [one for one in own_tried if one.pairs]:
            chosen[name], doubt = _choose(learned.core, answered, learned.uops[name].why)
            if doubt.least != doubt.most:
                doubts[name] = doubt
    learned = _with_twins(replace(learned, uops=chosen, doubts=doubts), all_forms)
    return _with_relatives(laboratory, learned)


def _mixtures(forms: Sequence[Form], trusted: Sequence[Form]) -> Iterator[Mixture]:
    """Yield mixtures of each form with trusted ones."""
    draw = random.Random(_SEED)
    for form in forms:
        for _ in range(_MIXTURES):
            yield cross_check.mixed(draw, form, trusted)


def _candidates(
    learned: CoreModel, form: Form, named: Mapping[str, Form], generator: Candidates
) -> Iterator[Uops]:
    """Yield candidates of a form, with and without a unit as busy as its throughput suggests."""
    core, rate = learned.core, learned.throughputs[form.name]
    reachable = _reachable(learned, form)
    seen: set[tuple[int, tuple[tuple[int, ...], ...], int]] = set()
    for slots, ports in _candidate_ports(learned, form, named, generator, reachable):
        if not frozenset().union(*core.computing(ports)) <= reachable:
            continue
        narrow = min(map(len, core.computing(ports)), default=0)
        port_bound = max(bound_cycles(Counter(ports)), slots / core.width)
        busy = round(rate.cycles * narrow) if rate.clean and rate.cycles > port_bound else 0
        for busy_cycles in dict.fromkeys((busy if busy > 1 else 0, 0)):
            key = slots, tuple(sorted(tuple(sorted(p)) for p in ports)), busy_cycles
            if key not in seen:
                seen.add(key)
                yield Uops(slots, ports, busy_cycles)


def _candidate_ports(
    learned: CoreModel,
    form: Form,
    named: Mapping[str, Form],
    generator: Candidates,
    reachable: Ports,
) -> Iterator[tuple[int, tuple[Ports, ...]]]:
    """Yield slots and ports of candidates: rejected ones, those of similar forms, and others."""
    core, own = learned.core, learned.uops[form.name]
    memory = _memory_uops(core, form)
    if memory and loads_plainly(learned.latencies, learned.throughputs, form):
        yield 1, memory
        every = (uops.ports or () for uops in learned.uops.values())
        single = dict.fromkeys(ports for ports in every if len(ports) == 1)
        yield from ((1, ports) for ports in single if ports[0] < memory[0])
        return
    if own.rejected is not None:
        yield max(own.slots, 1), own.rejected
    others: Counter[tuple[int, tuple[Ports, ...]]] = Counter()
    for name, uops in learned.uops.items():
        other = named.get(name)
        if uops.ports is not None and other and other.mnemonic == form.mnemonic:
            others[uops.slots, uops.ports] += bool(other.memory) == bool(form.memory)
    yield from (usage for usage, times in others.most_common(_ALIKE) if times)
    twin = learned.uops.get(form.twin)
    if form.memory and twin and twin.ports is not None:
        yield twin.slots, (*twin.ports, *memory)
    case = Case(form, 0, 1, UopBounds(1, MOST), learned.throughputs[form.name].cycles)
    for candidate in islice(generator.fitting(case), _LISTED):
        yield max(1, candidate.computing), candidate.uops
    arithmetic = reachable & core.all_arithmetic
    yield 1, (arithmetic, *memory)
    yield 1, (frozenset({min(arithmetic)}), *memory)  # one unit, which may be busy


def _reachable(learned: CoreModel, form: Form) -> Ports:
    """Return the ports that a form may use: those of vectors, if it has no other operands."""
    kinds = {operand.kind for operand in form.operands if operand.kind}
    vectors = learned.core.vector_ports
    return vectors if vectors and kinds == {"vector"} and not form.memory else learned.every_port


def _memory_uops(core: Core, form: Form) -> tuple[Ports, ...]:
    """Return the ports of the load and store uops of a form."""
    if form.memory is None:
        return ()
    load = core.load_ports(form)
    return ((load,) if form.memory.read and load else ()) + core.store_uops * form.memory.written


def _choose(core: Core, tried: Sequence[_Tried], why: str) -> tuple[Uops, Doubt]:
    """Return the uops of a form, and the ends of their range."""
    best = min(tried, key=lambda one: one.error)
    lower = [one for one in tried if one.is_lower_bound]
    upper = [one for one in tried if one.is_upper_bound]
    cheapest = min(tried, key=lambda one: one.total)
    least = max(lower, key=lambda one: one.total, default=cheapest).uops
    most = min(upper, key=lambda one: one.total).uops if upper else _dearer(core, best)
    why = f"{len(best.pairs)} kernels do not agree, mean error {100 * best.error:.0f} %; {why}"
    return replace(best.uops, why=why), Doubt(least, most, why)


def _dearer(core: Core, best: _Tried) -> Uops:
    """Return uops with a unit busy for so long that no kernel is slower than predicted."""
    ports = best.uops.ports or ()
    narrow = min(map(len, core.computing(ports)), default=len(core.all_arithmetic))
    ratio = max(measured / max(predicted, 1 / core.width) for measured, predicted in best.pairs)
    bound = max(bound_cycles(Counter(ports)), best.uops.slots / core.width)
    cycles = max(best.uops.busy / narrow, bound) * ratio
    computing = ports if core.computing(ports) else (*ports, core.all_arithmetic)
    return replace(best.uops, ports=computing, busy=ceil(cycles * narrow))


def _with_twins(learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with unknown forms as their VEX twins, up to a slot more.

    Such forms had no stable throughput, or were not timed. A twin computes the same on vectors,
    with or without a VEX prefix.
    """
    uops, latencies, doubts = dict(learned.uops), dict(learned.latencies), dict(learned.doubts)
    for form in forms:
        name = form.name
        stored = form.memory is not None and form.memory.written
        rate = learned.throughputs.get(name)
        if name in uops or stored or (rate and not rate.refused):
            continue
        for twin, shift in vex_twins(name):
            base = uops.get(twin)
            if base is None or base.ports is None:
                continue
            why = f"assumption: as {twin}; {rate.refused if rate else 'not measured'}"
            uops[name] = replace(base, why=why)
            latencies[name] = _shifted(learned.latencies[twin], shift)
            doubt = doubts.get(twin, Doubt(base, base, ""))
            most = replace(doubt.most, slots=doubt.most.slots + 1)
            doubts[name] = Doubt(doubt.least, most, why)
            break
    return replace(learned, uops=uops, latencies=latencies, doubts=doubts)


def vex_twins(name: str) -> Iterator[tuple[str, int]]:
    """Yield the names of a form with or without a VEX prefix, with the shift of operand numbers.

    With a prefix, the first source is another operand than the result.
    """
    mnemonic, _, operands = name.partition(" ")
    first = operands.partition(",")[0]
    if mnemonic.startswith("v"):
        yield f"{mnemonic[1:]} {operands.partition(',')[2]}", -1
        yield f"{mnemonic[1:]} {operands}", 0
    elif first == "x":
        yield f"v{mnemonic} {first},{operands}", 1
        yield f"v{mnemonic} {operands}", 0


def _shifted(latencies: Sequence[Latency], shift: int) -> list[Latency]:
    """Return latencies with source operands renumbered by a shift."""
    return [
        replace(one, source=str(int(one.source) - shift)) if one.source.isdigit() else one
        for one in latencies
        if not one.source.isdigit() or int(one.source) - shift >= 0
    ]


def _with_relatives(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with forms that no microbenchmark times, from relatives.

    Such forms have high-byte registers, which chains and instances exclude, or operand widths that
    `quick` leaves out. They may be slower than their relative.
    """
    doubts: dict[str, Doubt] = {}
    all_forms, _ = kits.forms(laboratory.isa, laboratory.machine.features)
    untimed = {form.name for form in all_forms} - learned.throughputs.keys() - learned.uops.keys()
    for name in sorted(untimed):
        for relative, doubled in _relative_names(name):
            if learned.has_ports(relative):
                doubts[name] = _relative(learned, relative, doubled=doubled)
                break
    for name, doubt in {**dict.fromkeys(learned.uops), **doubts}.items():
        if doubt or learned.has_ports(name):
            like = doubt.like if doubt else name
            for other in _high_byte_names(name):
                doubts[other] = _relative(learned, like, doubled=False)
    return replace(learned, doubts={**learned.doubts, **doubts})


def _relative(learned: CoreModel, name: str, *, doubled: bool) -> Doubt:
    """Return the range of a form taken for another: up to a slot more, or twice the uops."""
    uops = learned.uops[name]
    doubt = learned.doubts.get(name, Doubt(uops, uops, ""))
    most = doubt.most
    ports = (most.ports or ()) * 2 if doubled else most.ports
    dear = replace(most, slots=most.slots * 2 if doubled else most.slots + 1, ports=ports)
    return Doubt(doubt.least, dear, f"not measured: as {name}", name, _LATER)


def _relative_names(name: str) -> Iterator[tuple[str, bool]]:
    """Yield the names of a form with other widths, and whether it may need twice the uops."""
    half = _FULL.sub(lambda match: _HALVES[match[0]], name)
    if half != name:
        yield half, True
    for other in memory_rules.wide_forms(name):
        if other != name:
            yield other, False


def _high_byte_names(name: str) -> Iterator[str]:
    """Yield the names of a form with high-byte registers in the place of low ones."""
    mnemonic, _, operands = name.partition(" ")
    parts = operands.split(",")
    bytes_ = [n for n, part in enumerate(parts) if part == "r8"]
    for size in range(1, len(bytes_) + 1):
        for high in combinations(bytes_, size):
            names = ("r8h" if n in high else part for n, part in enumerate(parts))
            yield f"{mnemonic} {','.join(names)}"
