"""Latencies to flags of forms of several uops, held to the chains that they were measured by.

Asked: does the core that would be written take as long for each chain as the machine did. Kernel:
those that latencies were measured by; nothing is timed. Answer: where a chain also waits for ports
that its own uops keep busy, it takes longer than its latencies say, and what was measured has that
wait in it. Such a latency is taken to be shorter by what the core would take too long, if the chain
is predicted better so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.calibrating import write
from loopwright.calibrating.experiments import chains
from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.learn import Learned

_LATE = 0.5  # cycles of a link that are too many
_ROUNDS = 3

Known = Mapping[str, Sequence[Latency]]


@dataclass(frozen=True)
class _Link:
    """A latency by its form and place, the kernel that shows it, and how often it is in there."""

    form: str
    number: int
    kernel: tuple[bytes, ...]
    notion: str
    copies: int


def latencies(laboratory: Laboratory, learned: Learned, forms: Sequence[Form]) -> Learned:
    """Return what was learned with latencies that predict their own chains."""
    links = [link for form in forms for link in _links(learned, form)]
    measured = _times(laboratory, links)
    known = [n for n, figure in enumerate(measured) if figure]
    best = learned.latencies
    late = _late(laboratory, learned, best, [(links[n], measured[n]) for n in known])
    for _ in range(_ROUNDS):
        tried = _shorter(best, [links[n] for n in known], late)
        if tried == best:
            break
        then = _late(laboratory, learned, tried, [(links[n], measured[n]) for n in known])
        better = {
            (links[n].form, links[n].number)
            for n, one, other in zip(known, late, then, strict=True)
            if one >= _LATE and abs(other) < abs(one)
        }
        best = _with(best, tried, better)
        late = _late(laboratory, learned, best, [(links[n], measured[n]) for n in known])
    return replace(learned, latencies=best)


def _links(learned: Learned, form: Form) -> Iterator[_Link]:
    """Yield latencies to flags of a form of several uops, each with the chain that showed it."""
    uops = learned.uops.get(form.name)
    if uops is None or uops.ports is None or len(uops.ports) < 2:
        return
    pairs = {(s.label, t.label): (s, t) for s, t in chains.pairs(form)}
    for number, one in enumerate(learned.latencies[form.name]):
        if not one.plain or not one.cycles or one.twin not in ("", form.name):
            continue
        if one.target == "f" and (one.source, one.target) in pairs:
            chain = chains.chain(form, *pairs[one.source, one.target])
            yield _Link(form.name, number, tuple(chain.waiting), chain.notion, chain.copies)


def _times(laboratory: Laboratory, links: Sequence[_Link]) -> list[Figure]:
    found: dict[int, Figure] = {}
    for notion in ("loop", "unrolled"):
        some = [n for n, link in enumerate(links) if link.notion == notion]
        figures = laboratory.time([links[n].kernel for n in some], notion)
        found |= dict(zip(some, figures, strict=True))
    return [found[n] for n in range(len(links))]


def _late(
    laboratory: Laboratory,
    learned: Learned,
    tried: Known,
    measured: Sequence[tuple[_Link, Figure]],
) -> list[float]:
    """Return by how many cycles a link each chain is predicted too late."""
    core = write.laboratory(replace(learned, latencies=tried), laboratory.machine)
    said = _times(core, [link for link, _ in measured])
    return [
        (one.cycles - figure.cycles) / link.copies if one else 0.0
        for one, (link, figure) in zip(said, measured, strict=True)
    ]


def _shorter(known: Known, links: Sequence[_Link], late: Sequence[float]) -> Known:
    """Return latencies without the cycles that links are too late by; none ends at nothing."""
    out = {name: list(some) for name, some in known.items()}
    for link, cycles in zip(links, late, strict=True):
        if cycles >= _LATE:
            one = out[link.form][link.number]
            out[link.form][link.number] = replace(one, cycles=max(1, one.cycles - round(cycles)))
    return out


def _with(known: Known, tried: Known, better: set[tuple[str, int]]) -> Known:
    """Return latencies, those that are better as tried."""
    return {
        name: [tried[name][n] if (name, n) in better else one for n, one in enumerate(some)]
        for name, some in known.items()
    }
