"""Classes of instructions of one uop: those that can use the same ports.

Two that run p of each a cycle alone are of one class where p of each take two cycles together,
and share no port where they take one. One blocking instruction stands for each class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from loopwright.calibrating import kernels
from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.ports import blockers
from loopwright.calibrating.ports.blockers import Asked, Blocking, Surplus

_NEAR = 0.04  # relative: how far a rate may lie from that of a whole number of ports
TIMES = 4  # cycles that each class of a mixture takes alone
_SPAN = 6  # cycles that ports are blocked for
_ONE = 1.4  # uops: more than one
_APART = 1.6  # cycles, of 2 that forms of the same ports take together
_LATE = 0.12  # by how much more than the rule allows a mixture may take: ports are bound early


@dataclass(frozen=True)
class Class:
    """A set of ports, known by its size and by the instruction that blocks it; and its members."""

    blocker: Form
    size: int
    members: tuple[str, ...]

    @property
    def blocking(self) -> Blocking:
        """Return what keeps its ports busy."""
        return Blocking(self.size, ((self.blocker, self.size),))


@dataclass(frozen=True)
class Union:
    """Ports that some classes have together, by their numbers: so many, or at least so many."""

    of: tuple[int, ...]
    ports: int
    least: bool
    figure: Figure


def candidates(
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    width: int,
) -> dict[str, int]:
    """Return the forms that may be one uop, with their number of ports, by what they take alone.

    As many as are dispatched in a cycle stands for at least as many. What uses implied registers,
    is long, is eliminated, writes several registers, waits longer than a cycle for what it wrote
    itself, or meets others in ports, is left to later.
    """
    out = {}
    for form in forms:
        rate = rates[form.name]
        if rate.refused or not rate.clean or rate.meets or rate.cycles <= 0 or not form.chosen:
            continue
        if any(operand.fixed is not None for operand in form.operands) or kernels.long(form):
            continue
        if sum(operand.written for operand in form.chosen) > 1:
            continue
        known = latencies[form.name]
        if any(one.source == one.target and one.cycles > 1 for one in known):
            continue
        if any(one.cycles == 0 and one.target != "f" for one in known if not one.refused):
            continue
        ports = max(round(1 / rate.cycles), 1)
        if ports <= width and abs(rate.cycles * ports - 1) <= _NEAR:
            out[form.name] = ports
    return out


def mixture(parts: Sequence[tuple[Form, int]]) -> list[bytes]:
    """Return a kernel of so many instances of each form, spread over it."""
    makers = [kernels.Instances(n, len(parts)) for n in range(len(parts))]
    some = [
        [make.of(form) for _ in range(n)] for make, (form, n) in zip(makers, parts, strict=True)
    ]
    return kernels.spread(*some)


def together(classes: Sequence[Class]) -> list[tuple[Form, int]]:
    """Return as many instances of each class as keep its ports busy for as long as the others'."""
    return [(one.blocker, TIMES * one.size) for one in classes]


def find(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    places: Mapping[str, Surplus],
    width: int,
) -> list[Class]:
    """Return the classes of forms of one uop, those of many ports first.

    What takes more than one place at dispatch is of no class. What puts more than one uop on the
    ports of a class that is known already founds none.
    """
    sizes = candidates(forms, rates, latencies, width)
    light = [form for form in forms if places[form.name].uops == 1]
    out: list[Class] = []
    for size in range(width - 1, 0, -1):
        left = sorted((f for f in light if sizes.get(f.name) == size), key=_blocks_badly)
        out += _split(laboratory, left, size, width, tuple(out))
        # What a mixture with another class did not tell from it is a class all the same.
        lost = [f for f in left if f.memory and f not in (one.blocker for one in out)]
        out += _split(laboratory, lost, size, width, tuple(out))
    return out


def _split(
    laboratory: Laboratory, forms: Sequence[Form], size: int, width: int, known: Sequence[Class]
) -> list[Class]:
    """Return the classes of forms with so many ports each.

    A load or a store is a class by itself, as no other form here accesses memory. Else one is
    founded by what clearly shares some, or none, of the ports of those before it. What
    leaves more forms unclear than it has members is bound by something else than ports.
    """
    out: list[Class] = []
    left = list(forms)
    while left:
        blocker, *rest = left
        shown = blockers.measure(laboratory, [Asked(blocker, one.blocking, _SPAN) for one in known])
        if any(one.measured >= _ONE for one in shown):
            left = rest
            continue
        if blocker.memory:
            out.append(Class(blocker, size, (blocker.name,)))
            left = rest
            continue
        asked = [mixture([(blocker, TIMES * size), (f, TIMES * size)]) for f in rest]
        figures = list(zip(rest, laboratory.time(asked), strict=True))
        same = [form for form, figure in figures if _same(figure, size, width)]
        others = [form for form, figure in figures if _other(figure, size, width)]
        if len(rest) - len(same) - len(others) > len(same) + 1:
            left = rest
            continue
        out.append(Class(blocker, size, tuple(f.name for f in (blocker, *same))))
        left = others
    return out


def _same(figure: Figure, size: int, width: int) -> bool:
    """Say whether as many uops of two forms as either has ports take them all for two cycles."""
    found = figure and _together(figure.cycles / TIMES, (size, size), width)
    return bool(found) and found == (size, False)


def _other(figure: Figure, size: int, width: int) -> bool:
    """Say whether two forms clearly have not the same ports, how many ever they have together."""
    if not figure or _same(figure, size, width):
        return False
    known = _together(figure.cycles / TIMES, (size, size), width)
    if known is None and 2 * size >= width:  # dispatch, which both keep busy, may be late, too
        return figure.cycles / TIMES < _APART
    return known is not None


def _blocks_badly(form: Form) -> tuple[int, ...]:
    """Order forms by how well they keep ports busy: without waiting, by plain registers.

    Of those of vectors, what can stand beside any other comes first.
    """
    return (
        form.legacy,
        sum(o.fixed is not None or (o.kind == "flags" and o.read) for o in form.operands),
        sum(o.read and o.written for o in form.operands),
        sum((o.kind == "vector" and o.bits > 128) or 0 < o.bits < 32 for o in form.operands),
        len(form.operands),
        len(form.name),
    )


def unions(
    laboratory: Laboratory,
    classes: Sequence[Class],
    wanted: Sequence[tuple[int, ...]],
    width: int,
) -> list[Union]:
    """Measure how many ports classes have together; where the figure does not say, none.

    One wrong figure among these leaves no answer, or a wrong one, to all forms.
    """
    asked = [mixture(together([classes[n] for n in one])) for one in wanted]
    out = []
    for of, figure in zip(wanted, laboratory.time_least(asked), strict=True):
        sizes = [classes[n].size for n in of]
        if figure and (found := _together(figure.cycles / TIMES, sizes, width)):
            out.append(Union(of, *found, figure))
    return out


def _together(cycles: float, sizes: Sequence[int], width: int) -> tuple[int, bool] | None:
    """Return how many ports take so many uops of each class in so many cycles.

    Ports that are bound early take longer than they need, but none take less. As many as are
    dispatched in a cycle may be more.
    """
    total = sum(sizes)
    bound = max(1.0, total / width)
    if cycles <= bound * (1 + _LATE / 2):
        return (total, False) if total <= width else (width, True)
    ports = ceil(total / cycles * (1 - _NEAR / 2))
    if max(sizes) <= ports <= total and cycles <= total / ports * (1 + _LATE):
        return min(ports, width), ports >= width
    return None
