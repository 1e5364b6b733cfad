"""Throughput: cycles of an instance among others of its form.

Microbenchmark: instances that write different registers. Dependencies through implied registers and
flags are broken before each instance, whose cost is then part of the figure. There are no more
instances than registers. Where an instance still waits for the previous writer of its register,
because it reads it, the figure is an upper bound. So it is where chains of such instances compete
for ports that were bound before; kernels with fewer instances then take other cycles each.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.microbench import form_instances
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.latency import Latency

_MOST_INSTANCES = 12
_WRITING_INSTANCES = 16  # instances that write memory, before an address is written again
_FEWER = (1, 3)  # instances to leave out, to find chains that meet
_LATE = 0.2  # relative excess of loads that another measurement may not show, at most
_SAME = 0.02  # relative difference of two kernels that ports alone limit, at most


@dataclass(frozen=True)
class Throughput:
    """Cycles an instance; clean says that the kernel has nothing but the form.

    meets says that chains of instances compete for ports, so that more instances could start.
    """

    cycles: float
    uncertainty: float
    clean: bool
    refused: str = ""
    meets: bool = False


def measure(
    laboratory: Laboratory, forms: Sequence[Form], notion: str = "loop"
) -> dict[str, Throughput]:
    """Return the throughput of each form; notion "slope" excludes the loop's branch.

    Where all instances have no stable speed, fewer may: chains of them then compete for ports.
    Loads that take a little more than their ports need are measured again, as one measurement in
    ten is so much slower on some cores (Zen 4: 0.35 cycles for 0.33).
    """
    figures = laboratory.time([kernel(form) for form in forms], notion)
    out = {f.name: _throughput(f, figure) for f, figure in zip(forms, figures, strict=True)}
    late = [form for form in forms if _is_late(form, out[form.name])]
    figures = laboratory.time_least([kernel(form) for form in late], notion) if late else []
    for form, figure in zip(late, figures, strict=True):
        if figure:
            out[form.name] = _throughput(form, figure)
    for fewer in _FEWER:
        refused = [form for form in forms if out[form.name].refused and count(form) > fewer]
        figures = laboratory.time([kernel(form)[fewer:] for form in refused], notion)
        for form, figure in zip(refused, figures, strict=True):
            if figure:
                out[form.name] = replace(_throughput(form, figure, fewer), meets=True)
    return out


def _is_late(form: Form, rate: Throughput) -> bool:
    """True if a form that only reads memory takes a little more than its ports may need."""
    if rate.refused or form.memory is None or form.memory.written or rate.cycles <= 0:
        return False
    return _SAME < rate.cycles * max(round(1 / rate.cycles), 1) - 1 < _LATE


def with_fewer_instances(laboratory: Laboratory, forms: Sequence[Form]) -> dict[str, Throughput]:
    """Return the throughput of each form in a kernel with one instance fewer."""
    measurable = [form for form in forms if count(form) > 1]
    figures = laboratory.time([kernel(form)[1:] for form in measurable])
    timed = zip(measurable, figures, strict=True)
    return {form.name: _throughput(form, figure, 1) for form, figure in timed}


def mark_meeting_chains(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    width: int,
) -> dict[str, Throughput]:
    """Return the throughputs, with forms marked whose chains of instances compete for ports.

    Chains arise where a form reads the register that it writes. The fastest kernel counts.
    """
    chained = [f for f in forms if _chained(f, rates[f.name], latencies[f.name], width)]
    kernels = [(form, fewer) for form in chained for fewer in _FEWER]
    figures = laboratory.time([kernel(form)[fewer:] for form, fewer in kernels])
    out = dict(rates)
    for (form, fewer), figure in zip(kernels, figures, strict=True):
        rate, other = out[form.name], _throughput(form, figure, fewer)
        if figure and abs(rate.cycles - other.cycles) > _SAME * rate.cycles:
            out[form.name] = replace(min(rate, other, key=lambda t: t.cycles), meets=True)
    return out


def _chained(form: Form, rate: Throughput, latencies: Sequence[Latency], width: int) -> bool:
    """True if instances read what they write, and more than one starts a cycle.

    Instances so few that each waits for the previous one tell nothing.
    """
    fewest = count(form) - max(_FEWER)
    if rate.refused or not rate.clean or form.memory or fewest <= 0:
        return False
    in_place = any(operand.read and operand.written for operand in form.chosen)
    dependency_bound = max(1 / width, dependency_cycles(form, latencies) * count(form) / fewest)
    return in_place and dependency_bound * (1 + _SAME) < rate.cycles < 1 - _SAME


def cycles(rates: Mapping[str, Throughput]) -> dict[str, float]:
    """Return the cycles of each form."""
    return {name: rate.cycles for name, rate in rates.items()}


def kernel(form: Form) -> list[bytes]:
    """Return the kernel of independent instances."""
    instances = form_instances.Instances(alone=True)
    before = form_instances.break_dependencies(
        form.kit, form_instances.implied_dependencies(form), {}
    )
    return [b"".join([*before, instances.of(form)]) for _ in range(count(form))]


def count(form: Form) -> int:
    """Return the instances in a kernel: as many as write different registers or addresses."""
    if form.memory and form.memory.written:
        return _WRITING_INSTANCES
    written = Counter(o.kind for o in form.chosen if o.written)
    registers = {kind: form_instances.registers_of(form, kind, alone=True) for kind in written}
    return min((len(registers[kind]) // n for kind, n in written.items()), default=_MOST_INSTANCES)


def dependency_cycles(form: Form, latencies: Sequence[Latency]) -> float:
    """Return the cycles of an instance if each waits for the previous writer of its register."""
    both = {o.label for o in form.chosen if o.read and o.written}
    most = max((x.cycles for x in latencies if {x.source, x.target} <= both), default=0)
    return most / count(form)


def _throughput(form: Form, figure: Figure, fewer: int = 0) -> Throughput:
    """Return the throughput that a kernel with so many instances fewer shows."""
    clean = not form_instances.implied_dependencies(form)
    n = count(form) - fewer
    return Throughput(figure.cycles / n, figure.uncertainty / n, clean, figure.refused)
