"""Throughput: cycles of an instance among others of its form.

Asked: how often an instruction can start. Kernel: instances that write different registers; what
all of them wait for (implied registers, flags) is given a new value before each. Answer: the
cycles of one. Where a new value had to be given, its cost is in the figure. There are no more
instances than registers: where an instance still waits for what wrote its register, as it reads it,
the figure is a bound. It is one, too, where chains of such instances meet in ports that were chosen
before: then fewer of them take another time each, of some numbers at least.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.microbench import form_instances
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.latency import Latency

_MOST = 12  # instances
_WRITING = 16  # the same of what writes memory, before a place is written again
_LEFT = (1, 3)  # instances that are left out to see whether chains of them meet
_ALIKE = 0.02  # relative: how far apart two kernels of instances may be that ports alone bind


@dataclass(frozen=True)
class Throughput:
    """Cycles an instance. clean says that nothing but the form was in the kernel.

    meets says that chains of instances meet in ports, which could start more.
    """

    cycles: float
    uncertainty: float
    clean: bool
    refused: str = ""
    meets: bool = False


def measure(
    laboratory: Laboratory, forms: Sequence[Form], notion: str = "loop"
) -> dict[str, Throughput]:
    """Return the throughput of each form; a "slope" has no share of a loop's branch.

    Where all instances have no one speed, fewer may have one: chains of them meet in ports then.
    """
    figures = laboratory.time([kernel(form) for form in forms], notion)
    out = {f.name: _of(f, figure) for f, figure in zip(forms, figures, strict=True)}
    for left in _LEFT:
        again = [form for form in forms if out[form.name].refused and count(form) > left]
        figures = laboratory.time([kernel(form)[left:] for form in again], notion)
        for form, figure in zip(again, figures, strict=True):
            if figure:
                out[form.name] = replace(_of(form, figure, left), meets=True)
    return out


def again(laboratory: Laboratory, forms: Sequence[Form]) -> dict[str, Throughput]:
    """Return the throughput of each form by another kernel, of an instance fewer."""
    some = [form for form in forms if count(form) > 1]
    figures = laboratory.time([kernel(form)[1:] for form in some])
    return {f.name: _of(f, figure, 1) for f, figure in zip(some, figures, strict=True)}


def meeting(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    width: int,
) -> dict[str, Throughput]:
    """Return the throughputs, with those marked whose chains of instances meet in ports.

    Chains are of what reads the register that it writes. The fastest kernel's is kept.
    """
    asked = [f for f in forms if _chained(f, rates[f.name], latencies[f.name], width)]
    fewer = [(form, left) for form in asked for left in _LEFT]
    figures = laboratory.time([kernel(form)[left:] for form, left in fewer])
    out = dict(rates)
    for (form, left), figure in zip(fewer, figures, strict=True):
        one, other = out[form.name], _of(form, figure, left)
        if figure and abs(one.cycles - other.cycles) > _ALIKE * one.cycles:
            out[form.name] = replace(min(one, other, key=lambda o: o.cycles), meets=True)
    return out


def _chained(form: Form, rate: Throughput, latencies: Sequence[Latency], width: int) -> bool:
    """Say whether instances read what they write, and start more than one a cycle.

    So few that each waits for the one before tell nothing.
    """
    left = count(form) - max(_LEFT)
    if rate.refused or not rate.clean or form.memory or left <= 0:
        return False
    both = any(one.read and one.written for one in form.chosen)
    least = max(1 / width, waits(form, latencies) * count(form) / left)
    return both and least * (1 + _ALIKE) < rate.cycles < 1 - _ALIKE


def cycles(rates: Mapping[str, Throughput]) -> dict[str, float]:
    """Return the cycles of each form."""
    return {name: rate.cycles for name, rate in rates.items()}


def kernel(form: Form) -> list[bytes]:
    """Return instances that do not wait for each other."""
    instances = form_instances.Instances(alone=True)
    before = form_instances.fresh(form.kit, form_instances.carried(form), {})
    return [b"".join([*before, instances.of(form)]) for _ in range(count(form))]


def count(form: Form) -> int:
    """Return the instances of a kernel: as many as write different registers, or places."""
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


def waits(form: Form, latencies: Sequence[Latency]) -> float:
    """Return the cycles an instance takes where each waits for what wrote its register before."""
    both = {o.label for o in form.chosen if o.read and o.written}
    most = max((one.cycles for one in latencies if {one.source, one.target} <= both), default=0)
    return most / count(form)


def _of(form: Form, figure: Figure, fewer: int = 0) -> Throughput:
    clean = not form_instances.carried(form)
    times = count(form) - fewer
    return Throughput(figure.cycles / times, figure.uncertainty / times, clean, figure.refused)
