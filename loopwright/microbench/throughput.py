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

_MOST = 12  # instances
_WRITING = 16  # instances that write memory, before an address is written again
_LEFT_OUT = (1, 3)  # instances to leave out, to find chains that meet
_SAME = 0.02  # relative difference of two kernels that ports alone limit, at most


@dataclass(frozen=True)
class Throughput:
    """Cycles an instance; clean says that the kernel has nothing but the form.

    meets says that chains of instances compete for ports, so that more could start.
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
    """
    figures = laboratory.time([kernel(form) for form in forms], notion)
    out = {f.name: _of(f, figure) for f, figure in zip(forms, figures, strict=True)}
    for left in _LEFT_OUT:
        again = [form for form in forms if out[form.name].refused and count(form) > left]
        figures = laboratory.time([kernel(form)[left:] for form in again], notion)
        for form, figure in zip(again, figures, strict=True):
            if figure:
                out[form.name] = replace(_of(form, figure, left), meets=True)
    return out


def with_fewer_instances(laboratory: Laboratory, forms: Sequence[Form]) -> dict[str, Throughput]:
    """Return the throughput of each form in a kernel with one instance fewer."""
    measurable = [form for form in forms if count(form) > 1]
    figures = laboratory.time([kernel(form)[1:] for form in measurable])
    return {f.name: _of(f, figure, 1) for f, figure in zip(measurable, figures, strict=True)}


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
    kernels = [(form, left) for form in chained for left in _LEFT_OUT]
    figures = laboratory.time([kernel(form)[left:] for form, left in kernels])
    out = dict(rates)
    for (form, left), figure in zip(kernels, figures, strict=True):
        known, other = out[form.name], _of(form, figure, left)
        if figure and abs(known.cycles - other.cycles) > _SAME * known.cycles:
            out[form.name] = replace(min(known, other, key=lambda o: o.cycles), meets=True)
    return out


def _chained(form: Form, rate: Throughput, latencies: Sequence[Latency], width: int) -> bool:
    """True if instances read what they write, and more than one starts a cycle.

    Instances so few that each waits for the previous one tell nothing.
    """
    left = count(form) - max(_LEFT_OUT)
    if rate.refused or not rate.clean or form.memory or left <= 0:
        return False
    in_place = any(one.read and one.written for one in form.chosen)
    dependency_bound = max(1 / width, dependency_cycles(form, latencies) * count(form) / left)
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
        return _WRITING
    written = Counter(o.kind for o in form.chosen if o.written)
    return min(
        (
            len(form_instances.registers_of(form, kind, alone=True)) // n
            for kind, n in written.items()
        ),
        default=_MOST,
    )


def dependency_cycles(form: Form, latencies: Sequence[Latency]) -> float:
    """Return the cycles of an instance if each waits for the previous writer of its register."""
    both = {o.label for o in form.chosen if o.read and o.written}
    most = max((one.cycles for one in latencies if {one.source, one.target} <= both), default=0)
    return most / count(form)


def _of(form: Form, figure: Figure, fewer: int = 0) -> Throughput:
    clean = not form_instances.implied_dependencies(form)
    times = count(form) - fewer
    return Throughput(figure.cycles / times, figure.uncertainty / times, clean, figure.refused)
