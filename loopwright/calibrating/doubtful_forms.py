"""Figures of forms whose microbenchmarks do not agree: the likeliest, and a range around it.

Cores have costs that no pass is of. A form that everyday code uses is not left out for one: its
figures are the candidate with the least error over its kernels. Kernels: its throughput's, and
mixtures with two forms that are trusted. The range is two more sets of figures: the dearest
candidate that no kernel undercuts, and the cheapest that none exceeds.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, inf
from statistics import fmean

from loopwright.calibrating import cross_check, memory_rules
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.cross_check import Mixture
from loopwright.calibrating.port_usage_search import MOST, Case, Listed, Numbers
from loopwright.calibrating.ports import Core, Doubt, Ports, Uops, bound_cycles
from loopwright.microbench import kits
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.latency import Latency

_SEED = 53
_MIXTURES = 4  # of each form
_ALIKE, _LISTED = 3, 5  # candidates of forms like it, and of what its throughput allows
_LATER = 1  # cycles that a high byte may take longer: the merge uop that Intel cores insert
_HALVES = {"y": "x", "m256": "m128"}  # operands of vectors, and the halves of them
_FULL = re.compile(r"\b(?:y|m256)\b")
_WITHIN = 0.03  # relative: by how much a figure may miss the kernel that it bounds


@dataclass(frozen=True)
class _Tried:
    """A candidate of a form, and what it predicts beside what its kernels took."""

    uops: Uops
    pairs: Sequence[tuple[float, float]]  # measured and predicted cycles

    @property
    def error(self) -> float:
        return fmean(abs(said / took - 1) for took, said in self.pairs) if self.pairs else inf

    @property
    def undercuts(self) -> bool:
        """Say whether no kernel took less than predicted."""
        return all(said <= took * (1 + _WITHIN) for took, said in self.pairs)

    @property
    def exceeds(self) -> bool:
        """Say whether no kernel took more than predicted."""
        return all(said >= took * (1 - _WITHIN) for took, said in self.pairs)

    @property
    def total(self) -> float:
        return sum(said for _, said in self.pairs)


def choose_doubtful(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return what was learned with figures, and their range, of forms that had none.

    Forms without a throughput have the figures of their twin with or without a VEX prefix, if any.
    """
    known, _ = kits.forms(laboratory.isa, laboratory.machine.features)
    learned = _with_twins(learned, known)
    named = {form.name: form for form in forms}
    open_ = [
        named[name]
        for name, uops in learned.uops.items()
        if uops.ports is None and name in named and not learned.throughputs[name].refused
    ]
    trusted = [
        form for form in forms if learned.has_ports(form.name) and not cross_check.waits(form)
    ]
    if not open_ or len(trusted) <= 2:
        return _with_relatives(laboratory, learned)
    listed = Listed(learned.core)
    candidates = {form.name: list(_candidates(learned, form, named, listed)) for form in open_}
    asked = [*cross_check.alone(open_), *_mixtures(open_, trusted)]
    figures = laboratory.time([one.kernel for one in asked])
    tried: dict[str, list[_Tried]] = {form.name: [] for form in open_}
    for turn in range(max(map(len, candidates.values()))):
        some = {name: own[turn] for name, own in candidates.items() if turn < len(own)}
        core = replace(learned, uops={**learned.uops, **some})
        wanted = [n for n, one in enumerate(asked) if one.form in some]
        said = cross_check.core_predicts(laboratory, core, [asked[n] for n in wanted])
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in some}
        for n, one in zip(wanted, said, strict=True):
            if figures[n] and one:
                pairs[asked[n].form].append((figures[n].cycles, one.cycles))
        for name, uops in some.items():
            tried[name].append(_Tried(uops, pairs[name]))
    out, doubts = dict(learned.uops), dict(learned.doubts)
    for name, every in tried.items():
        if told := [one for one in every if one.pairs]:
            out[name], doubt = _chosen(learned.core, told, learned.uops[name].why)
            if doubt.least != doubt.most:
                doubts[name] = doubt
    learned = _with_twins(replace(learned, uops=out, doubts=doubts), known)
    return _with_relatives(laboratory, learned)


def _mixtures(forms: Sequence[Form], trusted: Sequence[Form]) -> Iterator[Mixture]:
    draw = random.Random(_SEED)
    for form in forms:
        for _ in range(_MIXTURES):
            yield cross_check.mixed(draw, form, trusted)


def _candidates(
    learned: CoreModel, form: Form, named: Mapping[str, Form], listed: Listed
) -> Iterator[Uops]:
    """Yield uops that a form may have, each of them once, with a unit as busy as it seems alone."""
    core, rate = learned.core, learned.throughputs[form.name]
    seen: set[tuple[int, tuple[tuple[int, ...], ...], int]] = set()
    for slots, ports in _ports(learned, form, named, listed):
        narrow = min(map(len, core.computing(ports)), default=0)
        alone = max(bound_cycles(Counter(ports)), slots / core.width)
        busy = round(rate.cycles * narrow) if rate.clean and rate.cycles > alone else 0
        for one in dict.fromkeys((busy if busy > 1 else 0, 0)):
            key = slots, tuple(sorted(tuple(sorted(p)) for p in ports)), one
            if key not in seen:
                seen.add(key)
                yield Uops(slots, ports, one)


def _ports(
    learned: CoreModel, form: Form, named: Mapping[str, Form], listed: Listed
) -> Iterator[tuple[int, tuple[Ports, ...]]]:
    core, rejected = learned.core, learned.uops[form.name]
    if rejected.rejected is not None:
        yield max(rejected.slots, 1), rejected.rejected
    others: Counter[tuple[int, tuple[Ports, ...]]] = Counter()
    for name, uops in learned.uops.items():
        other = named.get(name)
        if uops.ports is not None and other and other.mnemonic == form.mnemonic:
            others[uops.slots, uops.ports] += bool(other.memory) == bool(form.memory)
    yield from (one for one, times in others.most_common(_ALIKE) if times)
    memory = _memory(core, form)
    twin = learned.uops.get(form.twin)
    if form.memory and twin and twin.ports is not None:
        yield twin.slots, (*twin.ports, *memory)
    case = Case(form, 0, 1, Numbers(1, MOST), learned.throughputs[form.name].cycles)
    for choice in islice(listed.fitting(case), _LISTED):
        yield max(1, choice.computing), choice.uops
    yield 1, (core.all_arithmetic, *memory)


def _memory(core: Core, form: Form) -> tuple[Ports, ...]:
    """Return the ports of uops that load and store for a form."""
    if form.memory is None:
        return ()
    load = core.load_ports(form)
    return ((load,) if form.memory.read and load else ()) + core.store_uops * form.memory.written


def _chosen(core: Core, tried: Sequence[_Tried], why: str) -> tuple[Uops, Doubt]:
    """Return the uops of a form, and the two ends of its range."""
    best = min(tried, key=lambda one: one.error)
    under = [one for one in tried if one.undercuts]
    over = [one for one in tried if one.exceeds]
    least = max(under, key=lambda one: one.total).uops if under else _cheapest(tried)
    most = min(over, key=lambda one: one.total).uops if over else _dearer(core, best)
    said = f"{len(best.pairs)} kernels do not agree, mean error {100 * best.error:.0f} %; {why}"
    return replace(best.uops, why=said), Doubt(least, most, said)


def _cheapest(tried: Sequence[_Tried]) -> Uops:
    return min(tried, key=lambda one: one.total).uops


def _dearer(core: Core, best: _Tried) -> Uops:
    """Return uops with a unit so busy that no kernel takes longer than predicted."""
    ports = best.uops.ports or ()
    narrow = min(map(len, core.computing(ports)), default=len(core.all_arithmetic))
    ratio = max(took / max(said, 1 / core.width) for took, said in best.pairs)
    own = max(bound_cycles(Counter(ports)), best.uops.slots / core.width)
    cycles = max(best.uops.busy / narrow, own) * ratio
    computing = ports if core.computing(ports) else (*ports, core.all_arithmetic)
    return replace(best.uops, ports=computing, busy=ceil(cycles * narrow))


def _with_twins(learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return what was learned with forms that have no figures: as their twins, or a place more.

    They have no one speed, or were not asked for. A twin computes the same with or without a VEX
    prefix, on vectors.
    """
    uops, latencies, doubts = dict(learned.uops), dict(learned.latencies), dict(learned.doubts)
    for form in forms:
        name = form.name
        stored = form.memory is not None and form.memory.written
        rate = learned.throughputs.get(name)
        if name in uops or stored or (rate and not rate.refused):
            continue
        for twin, shift in vex_twins(name):
            known = uops.get(twin)
            if known is None or known.ports is None:
                continue
            most = doubts[twin].most if twin in doubts else known
            why = f"assumption: as {twin}; {rate.refused if rate else 'not measured'}"
            uops[name] = replace(known, why=why)
            latencies[name] = _shifted(learned.latencies[twin], shift)
            least = doubts[twin].least if twin in doubts else known
            doubts[name] = Doubt(least, replace(most, slots=most.slots + 1), why)
            break
    return replace(learned, uops=uops, latencies=latencies, doubts=doubts)


def vex_twins(name: str) -> Iterator[tuple[str, int]]:
    """Yield the names that a form has with or without a VEX prefix.

    Beside each is by how much its operands stand behind: with a prefix the first source is another
    operand than the result.
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
    """Return latencies from operands that stand so many places further in front."""
    return [
        replace(one, source=str(int(one.source) - shift)) if one.source.isdigit() else one
        for one in latencies
        if not one.source.isdigit() or int(one.source) - shift >= 0
    ]


def _with_relatives(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return what was learned with forms that no microbenchmark has: as others, or slower.

    They have high-byte registers, which chains and instances exclude, or widths that `quick` leaves
    out.
    """
    more: dict[str, Doubt] = {}
    every, _ = kits.forms(laboratory.isa, laboratory.machine.features)
    asked = {form.name for form in every} - learned.throughputs.keys() - learned.uops.keys()
    for name in sorted(asked):
        for relative, doubled in _relatives(name):
            if learned.has_ports(relative):
                more[name] = _relative(learned, relative, doubled=doubled)
                break
    for name, doubt in {**dict.fromkeys(learned.uops), **more}.items():
        if doubt or learned.has_ports(name):
            like = doubt.like if doubt else name
            for other in _high(name):
                more[other] = _relative(learned, like, doubled=False)
    return replace(learned, doubts={**learned.doubts, **more})


def _relative(learned: CoreModel, name: str, *, doubled: bool) -> Doubt:
    """Return the range of a form that is taken for another: as that, a slot more, or all twice."""
    uops = learned.uops[name]
    known = learned.doubts.get(name, Doubt(uops, uops, ""))
    most = known.most
    ports = (most.ports or ()) * 2 if doubled else most.ports
    dear = replace(most, slots=most.slots * 2 if doubled else most.slots + 1, ports=ports)
    return Doubt(known.least, dear, f"not measured: as {name}", name, _LATER)


def _relatives(name: str) -> Iterator[tuple[str, bool]]:
    """Yield the names that a form has with other widths, and whether it may take all uops twice."""
    half = _FULL.sub(lambda found: _HALVES[found[0]], name)
    if half != name:
        yield half, True
    for other in memory_rules.wide_forms(name):
        if other != name:
            yield other, False


def _high(name: str) -> Iterator[str]:
    """Yield the names that a form has with high-byte registers in the place of low ones."""
    mnemonic, _, operands = name.partition(" ")
    parts = operands.split(",")
    slots = [n for n, part in enumerate(parts) if part == "r8"]
    for mask in range(1, 1 << len(slots)):
        high = [n for bit, n in enumerate(slots) if mask >> bit & 1]
        yield f"{mnemonic} " + ",".join("r8h" if n in high else p for n, p in enumerate(parts))
