"""Latency fit: latencies to flags and bounded latencies, by the chains that showed them.

No further kernel is timed. The learned core is simulated on the kernels by which latencies and
throughputs were measured. A chain that also waits for ports, which its own uops keep busy, takes
longer than its latencies, and the measured latency includes that wait. Such a latency is shortened
by the excess of the prediction, where that brings the prediction closer. Where a chain showed only
a bound, the core needs a latency below it. All whole cycles up to the bounds are tried together,
and those that predict all kernels of the form best are taken if they are clearly better.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isnan

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.ports import Core, Uops
from loopwright.microbench import chains, throughput
from loopwright.microbench.forms import Form, Operand
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.latency import Latency

_LATE = 0.5  # cycles of a link by which a prediction is too long
_ROUNDS = 3
# bounded latencies of a form that are chosen together, and the most cycles tried
_JOINED, _MOST = 2, 4

Latencies = Mapping[str, Sequence[Latency]]


@dataclass(frozen=True)
class _Link:
    """A kernel of a form, and the number of the latency that it shows.

    number is None if no lower latency may be tried: for bounds, and for latencies to other
    operands than flags.
    """

    form: str
    number: int | None
    kernel: tuple[bytes, ...]
    notion: str
    copies: int


def refine_latencies(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with latencies that predict their own chains."""
    links = [link for form in forms for link in _links(learned, form)]
    figures = _time_links(laboratory, links)
    timed = [(link, figure) for link, figure in zip(links, figures, strict=True) if figure]
    adjustable = [(link, figure) for link, figure in timed if link.number is not None]
    best = learned.latencies
    excess = _excess(laboratory, learned, best, adjustable)
    for _ in range(_ROUNDS):
        shorter = _shorter(best, [link for link, _ in adjustable], excess)
        if shorter == best:
            break
        new_excess = _excess(laboratory, learned, shorter, adjustable)
        improved = {
            (link.form, link.number)
            for (link, _), old, new in zip(adjustable, excess, new_excess, strict=True)
            if old >= _LATE and abs(new) < abs(old)
        }
        best = _with_improved(best, shorter, improved)
        excess = _excess(laboratory, learned, best, adjustable)
    return replace(learned, latencies=_resolve_bounds(laboratory, learned, best, timed))


def _resolve_bounds(
    laboratory: Laboratory,
    learned: CoreModel,
    latencies: Latencies,
    timed: Sequence[tuple[_Link, Figure]],
) -> Latencies:
    """Return latencies with whole cycles for bounded ones, as all kernels of a form suggest."""
    names = {link.form for link, _ in timed}
    choices = {name: own for name in names if (own := list(_whole_cycles(latencies[name])))}
    deciding = [(link, figure) for link, figure in timed if link.form in choices]

    def errors(candidate: Latencies) -> dict[str, float]:
        sums = dict.fromkeys(choices, 0.0)
        excess = _excess(laboratory, learned, candidate, deciding)
        for (link, _), cycles in zip(deciding, excess, strict=True):
            sums[link.form] += abs(cycles)
        return sums

    best, least = latencies, errors(latencies)
    for turn in range(max(map(len, choices.values()), default=0)):
        batch = {name: own[turn] for name, own in choices.items() if turn < len(own)}
        for name, error in errors({**latencies, **batch}).items():
            if name in batch and error < least[name] - _LATE:
                best = {**best, name: batch[name]}
                least[name] = error
    return best


def _whole_cycles(latencies: Sequence[Latency]) -> Iterator[Sequence[Latency]]:
    """Yield latencies with whole cycles for all bounded ones, the longest first."""
    bounded = [n for n, latency in enumerate(latencies) if latency.limited]
    if not 0 < len(bounded) <= _JOINED:
        return
    for cycles in product(
        *(range(min(int(latencies[n].measured), _MOST), -1, -1) for n in bounded)
    ):
        chosen = list(latencies)
        for n, value in zip(bounded, cycles, strict=True):
            chosen[n] = replace(chosen[n], cycles=value, bound=True, refused="")
        yield chosen


def _links(learned: CoreModel, form: Form) -> Iterator[_Link]:
    """Yield the kernels of a multi-uop form: that of its throughput, and each latency's chain."""
    uops = learned.uops.get(form.name)
    if uops is None or uops.ports is None or len(uops.ports) < 2:
        return
    instances = tuple(throughput.kernel(form))
    yield _Link(form.name, None, instances, "loop", len(instances))
    pairs = _pairs(form)
    for number, latency in enumerate(learned.latencies[form.name]):
        ends = latency.source, latency.target
        if isnan(latency.measured) or latency.twin not in ("", form.name) or ends not in pairs:
            continue
        chain = chains.chain(form, *pairs[ends])
        to_flags = latency.target == "f" and latency.plain and latency.cycles
        adjustable = number if to_flags else None
        yield _Link(form.name, adjustable, tuple(chain.waiting), chain.notion, chain.copies)


def assumed_latencies(
    core: Core, latencies: Latencies, uops: Mapping[str, Uops], forms: Sequence[Form]
) -> Latencies:
    """Return latencies with estimates for one-uop forms whose chains showed none.

    An estimate is the most common latency of the mnemonic's other forms, or one from or to the same
    operand, or 1 cycle.
    """
    single = [form for form in forms if _is_single(core, form, uops[form.name])]
    estimated = dict(latencies)
    for form in single:
        own = latencies[form.name]
        estimated[form.name] = [_bounded(latency, own) for latency in own]
    common: dict[tuple[str, bool, str, str], Counter[int]] = defaultdict(Counter)
    for form in single:
        for latency in estimated[form.name]:
            if not latency.refused and latency.cycles:
                common[_key(form, latency)][latency.cycles] += 1
    for form in single:
        own = list(estimated[form.name])
        for number, latency in enumerate(own):
            if latency.refused and (latency.source, latency.target) in _pairs(form):
                usual = [cycles for cycles, _ in common[_key(form, latency)].most_common(1)]
                cycles = next(iter([*usual, *_similar(own, latency), 1]))
                own[number] = replace(latency, cycles=cycles, bound=True, refused="")
        estimated[form.name] = own
    return estimated


def _key(form: Form, latency: Latency) -> tuple[str, bool, str, str]:
    """Return what latencies of a mnemonic have to share for one to be an estimate of another."""
    return form.mnemonic, form.memory is None, latency.source, latency.target


def _is_single(core: Core, form: Form, uops: Uops) -> bool:
    """True if a form computes in one uop and stores nothing."""
    stored = form.memory is not None and form.memory.written
    return not stored and uops.ports is not None and len(core.computing(uops.ports)) == 1


def _pairs(form: Form) -> dict[tuple[str, str], tuple[Operand, Operand]]:
    """Return the pairs of operands that have a latency, by their labels."""
    return {(source.label, target.label): (source, target) for source, target in chains.pairs(form)}


def _bounded(latency: Latency, others: Sequence[Latency]) -> Latency:
    """Return a bounded latency as that bound, at most a cycle more than similar latencies."""
    if not latency.limited or latency.measured < _LATE:
        return latency
    upper = max(_similar(others, latency), default=round(latency.measured)) + 1
    cycles = max(min(round(latency.measured), upper), 1)
    return replace(latency, cycles=cycles, bound=True, refused="")


def _similar(latencies: Sequence[Latency], latency: Latency) -> list[int]:
    """Return known latencies from the same operand, or else to the same one."""
    known = [other for other in latencies if other.plain and other.cycles]
    same = [other.cycles for other in known if other.source == latency.source]
    return same or [other.cycles for other in known if other.target == latency.target]


def _time_links(laboratory: Laboratory, links: Sequence[_Link]) -> list[Figure]:
    """Time the kernels of links, in order."""
    figures: dict[int, Figure] = {}
    for notion in ("loop", "unrolled"):
        numbers = [n for n, link in enumerate(links) if link.notion == notion]
        timed = laboratory.time([links[n].kernel for n in numbers], notion)
        figures |= dict(zip(numbers, timed, strict=True))
    return [figures[n] for n in range(len(links))]


def _excess(
    laboratory: Laboratory,
    learned: CoreModel,
    latencies: Latencies,
    timed: Sequence[tuple[_Link, Figure]],
) -> list[float]:
    """Return the cycles a link by which each kernel is predicted too slow."""
    links = [link for link, _ in timed]
    parts = (part for link in links for part in link.kernel)
    candidate = replace(learned, latencies=latencies)
    core = fit.candidate_laboratory(candidate, laboratory.machine, parts)
    return [
        (prediction.cycles - figure.cycles) / link.copies if prediction else 0.0
        for prediction, (link, figure) in zip(_time_links(core, links), timed, strict=True)
    ]


def _shorter(latencies: Latencies, links: Sequence[_Link], excess: Sequence[float]) -> Latencies:
    """Return latencies shortened by the excess of their chains, to a cycle at least."""
    shorter = {name: list(own) for name, own in latencies.items()}
    for link, cycles in zip(links, excess, strict=True):
        if link.number is not None and cycles >= _LATE:
            own = shorter[link.form]
            latency = own[link.number]
            own[link.number] = replace(latency, cycles=max(1, latency.cycles - round(cycles)))
    return shorter


def _with_improved(
    latencies: Latencies, tried: Latencies, improved: set[tuple[str, int | None]]
) -> Latencies:
    """Return latencies, with the improved ones as tried."""
    return {
        name: [tried[name][n] if (name, n) in improved else one for n, one in enumerate(own)]
        for name, own in latencies.items()
    }
