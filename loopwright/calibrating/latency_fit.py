"""Latency fit: latencies to flags and bounded latencies, by the chains that showed them.

No further kernel is timed. The learned core is simulated on the kernels by which latencies and
throughputs were measured. A chain that also waits for ports, which its own uops keep busy, takes
longer than its latencies, and the measured latency includes that wait. Such a latency is shortened
by the excess of the prediction, where that brings the prediction closer. Where a chain showed only
a bound, the core needs a latency below it. All whole cycles up to the bounds are tried together,
and those that predict all kernels of the form best are taken if they are clearly better.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.ports import Core, Uops
from loopwright.microbench import chains, throughput
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.latency import Latency

_LATE = 0.5  # cycles of a link by which a prediction is too long
_ROUNDS = 3
# bounded latencies of a form that are chosen together, and the most cycles tried
_JOINED, _MOST = 2, 4

Known = Mapping[str, Sequence[Latency]]


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
    figures = _times(laboratory, links)
    measured = [(one, figure) for one, figure in zip(links, figures, strict=True) if figure]
    adjustable = [(link, figure) for link, figure in measured if link.number is not None]
    best = learned.latencies
    excess = _excess(laboratory, learned, best, adjustable)
    for _ in range(_ROUNDS):
        shorter = _shorter(best, [link for link, _ in adjustable], excess)
        if shorter == best:
            break
        new_excess = _excess(laboratory, learned, shorter, adjustable)
        improved = {
            (link.form, link.number)
            for (link, _), one, other in zip(adjustable, excess, new_excess, strict=True)
            if one >= _LATE and abs(other) < abs(one)
        }
        best = _with_improved(best, shorter, improved)
        excess = _excess(laboratory, learned, best, adjustable)
    return replace(learned, latencies=_resolve_bounds(laboratory, learned, best, measured))


def _resolve_bounds(
    laboratory: Laboratory,
    learned: CoreModel,
    known: Known,
    measured: Sequence[tuple[_Link, Figure]],
) -> Known:
    """Return latencies with whole cycles for bounded ones, as all kernels of a form suggest."""
    names = {link.form for link, _ in measured}
    choices = {name: found for name in names if (found := list(_choices(known[name])))}
    timed = [(link, figure) for link, figure in measured if link.form in choices]

    def off(candidate: Known) -> dict[str, float]:
        out = dict.fromkeys(choices, 0.0)
        excess = _excess(laboratory, learned, candidate, timed)
        for (link, _), cycles in zip(timed, excess, strict=True):
            out[link.form] += abs(cycles)
        return out

    best, least = known, off(known)
    for turn in range(max(map(len, choices.values()), default=0)):
        candidates = {name: own[turn] for name, own in choices.items() if turn < len(own)}
        candidate = {**known, **candidates}
        for name, cycles in off(candidate).items():
            if name in candidates and cycles < least[name] - _LATE:
                best = {**best, name: candidates[name]}
                least[name] = cycles
    return best


def _choices(latencies: Sequence[Latency]) -> Iterator[Sequence[Latency]]:
    """Yield latencies with whole cycles for all bounded ones, the longest first."""
    bounded = [n for n, one in enumerate(latencies) if one.limited]
    if not 0 < len(bounded) <= _JOINED:
        return
    for cycles in product(
        *(range(min(int(latencies[n].measured), _MOST), -1, -1) for n in bounded)
    ):
        out = list(latencies)
        for n, value in zip(bounded, cycles, strict=True):
            out[n] = replace(out[n], cycles=value, bound=True, refused="")
        yield out


def _links(learned: CoreModel, form: Form) -> Iterator[_Link]:
    """Yield the kernels of a multi-uop form: that of its throughput, and each latency's chain."""
    uops = learned.uops.get(form.name)
    if uops is None or uops.ports is None or len(uops.ports) < 2:
        return
    instances = tuple(throughput.kernel(form))
    yield _Link(form.name, None, instances, "loop", len(instances))
    pairs = {(s.label, t.label): (s, t) for s, t in chains.pairs(form)}
    for number, one in enumerate(learned.latencies[form.name]):
        known = one.measured == one.measured
        if known and one.twin in ("", form.name) and (one.source, one.target) in pairs:
            chain = chains.chain(form, *pairs[one.source, one.target])
            adjustable = number if one.target == "f" and one.plain and one.cycles else None
            yield _Link(form.name, adjustable, tuple(chain.waiting), chain.notion, chain.copies)


def assumed_latencies(
    core: Core, known: Known, uops: Mapping[str, Uops], forms: Sequence[Form]
) -> Known:
    """Return latencies with estimates for one-uop forms whose chains showed none.

    An estimate is the most common latency of the mnemonic's other forms, or one from or to the same
    operand, or 1 cycle.
    """
    single = [form for form in forms if _is_single(core, form, uops[form.name])]
    out = dict(known)
    for form in single:
        out[form.name] = [_bounded(latency, known[form.name]) for latency in known[form.name]]
    common: dict[tuple[str, bool, str, str], Counter[int]] = {}
    for form in single:
        for latency in out[form.name]:
            if not latency.refused and latency.cycles:
                key = form.mnemonic, form.memory is None, latency.source, latency.target
                common.setdefault(key, Counter())[latency.cycles] += 1
    for form in single:
        mine = list(out[form.name])
        for number, latency in enumerate(mine):
            if latency.refused and (latency.source, latency.target) in _pairs(form):
                key = form.mnemonic, form.memory is None, latency.source, latency.target
                estimates = [cycles for cycles, _ in common.get(key, Counter()).most_common(1)]
                cycles = next(iter([*estimates, *_similar(mine, latency), 1]))
                mine[number] = replace(latency, cycles=cycles, bound=True, refused="")
        out[form.name] = mine
    return out


def _is_single(core: Core, form: Form, uops: Uops) -> bool:
    """True if a form computes in one uop and stores nothing."""
    stored = form.memory is not None and form.memory.written
    return not stored and uops.ports is not None and len(core.computing(uops.ports)) == 1


def _pairs(form: Form) -> set[tuple[str, str]]:
    """Return the pairs of operands that have a latency."""
    return {(s.label, t.label) for s, t in chains.pairs(form)}


def _bounded(latency: Latency, others: Sequence[Latency]) -> Latency:
    """Return a bounded latency as that bound, at most a cycle more than similar latencies."""
    if not latency.limited or latency.measured < _LATE:
        return latency
    upper = max(_similar(others, latency), default=round(latency.measured)) + 1
    cycles = max(min(round(latency.measured), upper), 1)
    return replace(latency, cycles=cycles, bound=True, refused="")


def _similar(latencies: Sequence[Latency], one: Latency) -> list[int]:
    """Return known latencies from the same operand, or else to the same one."""
    known = [other for other in latencies if other.plain and other.cycles]
    same = [other.cycles for other in known if other.source == one.source]
    return same or [other.cycles for other in known if other.target == one.target]


def _times(laboratory: Laboratory, links: Sequence[_Link]) -> list[Figure]:
    found: dict[int, Figure] = {}
    for notion in ("loop", "unrolled"):
        numbers = [n for n, link in enumerate(links) if link.notion == notion]
        figures = laboratory.time([links[n].kernel for n in numbers], notion)
        found |= dict(zip(numbers, figures, strict=True))
    return [found[n] for n in range(len(links))]


def _excess(
    laboratory: Laboratory,
    learned: CoreModel,
    tried: Known,
    measured: Sequence[tuple[_Link, Figure]],
) -> list[float]:
    """Return the cycles a link by which each chain is predicted too slow."""
    links = [link for link, _ in measured]
    parts = (part for link in links for part in link.kernel)
    core = fit.candidate_laboratory(replace(learned, latencies=tried), laboratory.machine, parts)
    predictions = _times(core, links)
    return [
        (one.cycles - figure.cycles) / link.copies if one else 0.0
        for one, (link, figure) in zip(predictions, measured, strict=True)
    ]


def _shorter(known: Known, links: Sequence[_Link], excess: Sequence[float]) -> Known:
    """Return latencies shortened by the excess of their chains, to a cycle at least."""
    out = {name: list(latencies) for name, latencies in known.items()}
    for link, cycles in zip(links, excess, strict=True):
        if link.number is not None and cycles >= _LATE:
            latency = out[link.form][link.number]
            out[link.form][link.number] = replace(
                latency, cycles=max(1, latency.cycles - round(cycles))
            )
    return out


def _with_improved(known: Known, tried: Known, better: set[tuple[str, int | None]]) -> Known:
    """Return the known latencies, with the improved ones as tried."""
    return {
        name: [tried[name][n] if (name, n) in better else one for n, one in enumerate(latencies)]
        for name, latencies in known.items()
    }
