"""Latencies to flags of forms of several uops, held to the chains that they were measured by.

Asked: does the core that would be written take as long for each chain as the machine did. Kernel:
those that latencies and throughputs were measured by; nothing is timed. Answer: where a chain also
waits for ports that its own uops keep busy, it takes longer than its latencies say, and what was
measured has that wait in it. Such a latency is taken to be shorter by what the core would take too
long, if the chain is predicted better so. Where a chain showed no more than a bound, the core takes
latencies of its own for those; of all whole cycles up to the bounds those are taken, together, with
which all kernels of the form are predicted best, if that is clearly better.
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

_LATE = 0.5  # cycles of a link that are too many
_ROUNDS = 3
_JOINED, _MOST = 2, 4  # bounds of a form that are chosen together, and their cycles at most

Known = Mapping[str, Sequence[Latency]]


@dataclass(frozen=True)
class _Link:
    """A kernel of a form, how often the form is in there, and the place of the latency it shows.

    Latencies alone have a place of which fewer cycles may be tried: those to flags, no bounds.
    """

    form: str
    number: int | None
    kernel: tuple[bytes, ...]
    notion: str
    copies: int


def refine_latencies(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return what was learned with latencies that predict their own chains."""
    links = [link for form in forms for link in _links(learned, form)]
    timed = _times(laboratory, links)
    measured = [(one, figure) for one, figure in zip(links, timed, strict=True) if figure]
    open_ = [(link, figure) for link, figure in measured if link.number is not None]
    best = learned.latencies
    late = _late(laboratory, learned, best, open_)
    for _ in range(_ROUNDS):
        tried = _shorter(best, [link for link, _ in open_], late)
        if tried == best:
            break
        then = _late(laboratory, learned, tried, open_)
        better = {
            (link.form, link.number)
            for (link, _), one, other in zip(open_, late, then, strict=True)
            if one >= _LATE and abs(other) < abs(one)
        }
        best = _with(best, tried, better)
        late = _late(laboratory, learned, best, open_)
    return replace(learned, latencies=_limited(laboratory, learned, best, measured))


def _limited(
    laboratory: Laboratory,
    learned: CoreModel,
    known: Known,
    measured: Sequence[tuple[_Link, Figure]],
) -> Known:
    """Return latencies with those that are no more than bounds as all kernels of a form say."""
    names = {link.form for link, _ in measured}
    choices = {name: found for name in names if (found := list(_choices(known[name])))}
    asked = [(link, figure) for link, figure in measured if link.form in choices]

    def off(tried: Known) -> dict[str, float]:
        out = dict.fromkeys(choices, 0.0)
        late = _late(laboratory, learned, tried, asked)
        for (link, _), cycles in zip(asked, late, strict=True):
            out[link.form] += abs(cycles)
        return out

    best, least = known, off(known)
    for turn in range(max(map(len, choices.values()), default=0)):
        left = {name: own[turn] for name, own in choices.items() if turn < len(own)}
        tried = {**known, **left}
        for name, cycles in off(tried).items():
            if name in left and cycles < least[name] - _LATE:
                best = {**best, name: left[name]}
                least[name] = cycles
    return best


def _choices(latencies: Sequence[Latency]) -> Iterator[Sequence[Latency]]:
    """Yield latencies with whole cycles for all that are no more than bounds, the longest first."""
    open_ = [n for n, one in enumerate(latencies) if one.limited]
    if not 0 < len(open_) <= _JOINED:
        return
    for cycles in product(*(range(min(int(latencies[n].measured), _MOST), -1, -1) for n in open_)):
        out = list(latencies)
        for n, value in zip(open_, cycles, strict=True):
            out[n] = replace(out[n], cycles=value, bound=True, refused="")
        yield out


def _links(learned: CoreModel, form: Form) -> Iterator[_Link]:
    """Yield what is known of a form of several uops, each with the kernel that showed it."""
    uops = learned.uops.get(form.name)
    if uops is None or uops.ports is None or len(uops.ports) < 2:
        return
    instances = tuple(throughput.kernel(form))
    yield _Link(form.name, None, instances, "loop", len(instances))
    pairs = {(s.label, t.label): (s, t) for s, t in chains.pairs(form)}
    for number, one in enumerate(learned.latencies[form.name]):
        told = one.measured == one.measured
        if told and one.twin in ("", form.name) and (one.source, one.target) in pairs:
            chain = chains.chain(form, *pairs[one.source, one.target])
            place = number if one.target == "f" and one.plain and one.cycles else None
            yield _Link(form.name, place, tuple(chain.waiting), chain.notion, chain.copies)


def assumed_latencies(
    core: Core, known: Known, uops: Mapping[str, Uops], forms: Sequence[Form]
) -> Known:
    """Return latencies with those of one uop that no chain told."""
    single = [form for form in forms if _is_single(core, form, uops[form.name])]
    out = dict(known)
    for form in single:
        out[form.name] = [_bounded(one, known[form.name]) for one in known[form.name]]
    alike: dict[tuple[str, bool, str, str], Counter[int]] = {}
    for form in single:
        for one in out[form.name]:
            if not one.refused and one.cycles:
                key = form.mnemonic, form.memory is None, one.source, one.target
                alike.setdefault(key, Counter())[one.cycles] += 1
    for form in single:
        mine = list(out[form.name])
        for number, one in enumerate(mine):
            if one.refused and (one.source, one.target) in _waiting(form):
                key = form.mnemonic, form.memory is None, one.source, one.target
                usual = [cycles for cycles, _ in alike.get(key, Counter()).most_common(1)]
                cycles = next(iter([*usual, *_others(mine, one), 1]))
                mine[number] = replace(one, cycles=cycles, bound=True, refused="")
        out[form.name] = mine
    return out


def _is_single(core: Core, form: Form, uops: Uops) -> bool:
    """Say whether a form computes in one uop, and stores nothing."""
    stored = form.memory is not None and form.memory.written
    return not stored and uops.ports is not None and len(core.computing(uops.ports)) == 1


def _waiting(form: Form) -> set[tuple[str, str]]:
    """Return the pairs of operands of which one may wait for the other."""
    return {(s.label, t.label) for s, t in chains.pairs(form)}


def _bounded(one: Latency, others: Sequence[Latency]) -> Latency:
    """Return a latency as the bound that its chain showed, a cycle more than others at most."""
    if not one.limited or one.measured < _LATE:
        return one
    most = max(_others(others, one), default=round(one.measured)) + 1
    cycles = max(min(round(one.measured), most), 1)
    return replace(one, cycles=cycles, bound=True, refused="")


def _others(latencies: Sequence[Latency], one: Latency) -> list[int]:
    """Return known latencies from the same operand, or else to the same one."""
    known = [other for other in latencies if other.plain and other.cycles]
    same = [other.cycles for other in known if other.source == one.source]
    return same or [other.cycles for other in known if other.target == one.target]


def _times(laboratory: Laboratory, links: Sequence[_Link]) -> list[Figure]:
    found: dict[int, Figure] = {}
    for notion in ("loop", "unrolled"):
        some = [n for n, link in enumerate(links) if link.notion == notion]
        figures = laboratory.time([links[n].kernel for n in some], notion)
        found |= dict(zip(some, figures, strict=True))
    return [found[n] for n in range(len(links))]


def _late(
    laboratory: Laboratory,
    learned: CoreModel,
    tried: Known,
    measured: Sequence[tuple[_Link, Figure]],
) -> list[float]:
    """Return by how many cycles a link each chain is predicted too late."""
    links = [link for link, _ in measured]
    parts = (part for link in links for part in link.kernel)
    core = fit.candidate_laboratory(replace(learned, latencies=tried), laboratory.machine, parts)
    said = _times(core, links)
    return [
        (one.cycles - figure.cycles) / link.copies if one else 0.0
        for one, (link, figure) in zip(said, measured, strict=True)
    ]


def _shorter(known: Known, links: Sequence[_Link], late: Sequence[float]) -> Known:
    """Return latencies without the cycles that links are too late by; none ends at nothing."""
    out = {name: list(some) for name, some in known.items()}
    for link, cycles in zip(links, late, strict=True):
        if link.number is not None and cycles >= _LATE:
            one = out[link.form][link.number]
            out[link.form][link.number] = replace(one, cycles=max(1, one.cycles - round(cycles)))
    return out


def _with(known: Known, tried: Known, better: set[tuple[str, int | None]]) -> Known:
    """Return latencies, those that are better as tried."""
    return {
        name: [tried[name][n] if (name, n) in better else one for n, one in enumerate(some)]
        for name, some in known.items()
    }
