"""Uops held to what their form takes alone and beside each class.

Where floods show a uop in ports of which it uses some alone, as no class has just those, it takes
longer than floods explain. Then fewer of the ports are tried, as far as floods allow.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from loopwright.calibrating import kernels
from loopwright.calibrating.experiments import throughput
from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.ports.rule import Ports, cycles

_NEAR = 0.08  # relative: how far what a mixture takes may lie from what the rule says
_LATE = 0.15  # relative: by how much longer several uops may take, whose ports are chosen in haste
_UNCLEAR = 0.12  # cycles: the same, absolutely
_TIMES = 3


def hold(
    laboratory: Laboratory,
    core: Core,
    chosen: Sequence[Form],
    found: Mapping[str, Uops],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    brought: Mapping[int, float],
    known: Mapping[str, Uops],
) -> dict[str, Uops]:
    """Return what is found of forms, or why it does not hold.

    Of ports that explain as much those are taken that most other forms have; known are some of
    these. What a form takes alone is asked once more where it contradicts all else: some are of two
    speeds, as moves are that a core eliminates at times. brought is as `brought` has it.
    """

    def by_itself(form: Form, uops: Uops, rate: Throughput) -> Uops:
        return alone(core, form, uops, rate, latencies[form.name], brought)

    forms = {form.name: form for form in chosen}
    rates = {**rates, **_again(laboratory, chosen, found, rates, by_itself)}
    options = {
        name: [
            by_itself(form, one, rates[name])
            for one in (found[name], *_fewer(core, form, found[name], rates[name], brought))
        ]
        for name, form in forms.items()
    }
    asked = [
        (name, n)
        for name in forms
        for n in range(len(core.classes))
        if (len(options[name]) > 1 or options[name][0].busy)
        and any(one.ports and not _unit(core, one) for one in options[name])
        and name not in core.classes[n].members
    ]
    kernels_ = [_beside(core, forms[name], n) for name, n in asked]
    beside: dict[str, list[tuple[int, Figure]]] = {name: [] for name in forms}
    for (name, n), figure in zip(asked, laboratory.time(kernels_), strict=True):
        beside[name] += [(n, figure)] if figure else []
    out = {}
    common = Counter(port for one in known.values() for port in set(one.ports or ()))
    for name in forms:
        held = [_held(core, one, beside[name], latencies[name]) for one in options[name]]
        fitting = [one for one in held[1:] * bool(beside[name]) if one.ports is not None]
        fitting.sort(key=lambda one: -sum(common[ports] for ports in set(one.ports or ())))
        out[name] = held[0] if held[0].ports is not None else next(iter(fitting), held[0])
        common.update(set(out[name].ports or ()))
    return out


def _again(
    laboratory: Laboratory,
    chosen: Sequence[Form],
    found: Mapping[str, Uops],
    rates: Mapping[str, Throughput],
    by_itself: Callable[[Form, Uops, Throughput], Uops],
) -> dict[str, Throughput]:
    """Return what another kernel shows of forms that take another time alone, where it fits."""

    def fits(form: Form, rate: Throughput) -> bool:
        one = by_itself(form, found[form.name], rate)
        return one.ports is not None and not one.busy

    doubtful = [f for f in chosen if found[f.name].ports is not None and not fits(f, rates[f.name])]
    other = throughput.again(laboratory, doubtful)
    return {
        form.name: other[form.name]
        for form in doubtful
        if form.name in other and not other[form.name].refused and fits(form, other[form.name])
    }


def _fewer(
    core: Core, form: Form, uops: Uops, rate: Throughput, brought: Mapping[int, float]
) -> Iterator[Uops]:
    """Yield uops with fewer ports that floods show the same of, and that take as long alone.

    Loads come first: what computes is known of the form with a register in memory's place.
    """
    if not uops.ports or not rate.clean:
        return
    if kernels.long(form) and rate.cycles <= kernels.delivery(form, 1, brought) * (1 + _NEAR):
        return
    late = _LATE if len(uops.ports) > 1 else _NEAR
    if rate.cycles <= max(cycles(Counter(uops.ports)), uops.places / core.width) * (1 + late):
        return
    seen = core.within(uops.ports)
    counted = Counter(uops.ports).items()
    for ports, times in sorted(counted, key=lambda pair: not core.accesses(pair[0])):
        for size in range(len(ports) - 1, 0, -1):
            for some in map(frozenset, combinations(sorted(ports), size)):
                for moved in range(1, times + 1):
                    rest = list(uops.ports)
                    for _ in range(moved):
                        rest.remove(ports)
                    tried = (*rest, *[some] * moved)
                    near = abs(cycles(Counter(tried)) - rate.cycles) <= _NEAR * rate.cycles
                    if near and core.within(tried) == seen:
                        yield replace(uops, ports=tried, why=f"{uops.why} and what it takes alone")


def _beside(core: Core, form: Form, number: int) -> list[bytes]:
    """Return a form among what keeps a class busy; nothing where it waits for itself."""
    memory = form.memory
    if kernels.carried(form) or (memory and memory.read and memory.written):
        return []
    blocker, size = core.classes[number].blocker, core.classes[number].size
    makers, others = (kernels.Instances(n, 2, near=True) for n in range(2))
    tested = [makers.of(form) for _ in range(_TIMES)]
    return kernels.spread(tested, [others.of(blocker) for _ in range(_TIMES * size)])


def _held(
    core: Core, uops: Uops, beside: Sequence[tuple[int, Figure]], latencies: Sequence[Latency]
) -> Uops:
    """Return uops if they explain what their form takes beside each class, else why not."""
    if not uops.ports or _unit(core, uops):
        return uops
    busy = uops.busy / _narrowest(core, uops) if uops.busy else 0.0
    waits = max((one.cycles for one in latencies if one.source == one.target), default=0)
    chain = waits * -(-_TIMES // 3)
    for number, figure in beside:
        size = core.classes[number].size
        load = Counter(uops.ports)
        load[core.ports[number]] += size
        least = max(cycles(load), (uops.places + size) / core.width, busy) * _TIMES
        said = max(least, chain)
        # What brings in a busy form brings in nothing else meanwhile.
        most = said + bool(uops.busy) * kernels.BROUGHT * _TIMES
        store = core.of(core.store)
        if store == core.ports[number] and any(one <= store for one in uops.ports):
            # Stores of few ports wait for others that took these in haste.
            most = max(most, (cycles(Counter(uops.ports)) + 1) * _TIMES)
        slack = max(_NEAR * said, _UNCLEAR * _TIMES)
        if not said - slack <= figure.cycles <= most + slack and least >= chain:
            name = core.classes[number].blocker.name
            why = f"beside {name} it takes {figure.cycles:.2f} cycles, not {said:.2f}"
            return replace(uops, ports=None, why=why)
    return uops


def _unit(core: Core, uops: Uops) -> bool:
    """Say whether a form is one uop that computes, in a unit that it keeps busy."""
    return bool(uops.busy) and len(_computing(core, uops)) == 1


def _narrowest(core: Core, uops: Uops) -> int:
    """Return the ports of the uop that computes with the fewest, which keeps a unit busy."""
    return min(map(len, _computing(core, uops)), default=0)


def _computing(core: Core, uops: Uops) -> list[Ports]:
    return [one for one in uops.ports or () if not core.accesses(one)]


def brought(forms: Sequence[Form], rates: Mapping[str, Throughput]) -> dict[int, float]:
    """Return, by lengths, what those of forms with memory take alone at least."""
    out: dict[int, float] = {}
    for form in forms:
        if form.memory and not rates[form.name].refused:
            size = len(kernels.apart(form))
            out[size] = min(rates[form.name].cycles, out.get(size, float("inf")))
    return out


def alone(
    core: Core,
    form: Form,
    uops: Uops,
    rate: Throughput,
    latencies: Sequence[Latency],
    brought: Mapping[int, float],
) -> Uops:
    """Hold uops to what the form takes alone; one of a unit that is busy longer says so."""
    if not rate.clean or uops.ports is None:
        return uops
    said = max(cycles(Counter(uops.ports)), uops.places / core.width)
    most = kernels.delivery(form, uops.places, brought)
    if said * (1 - _NEAR) <= rate.cycles <= most * (1 + _NEAR):
        return uops
    waits = throughput.waits(form, latencies)
    late = _LATE if len(uops.ports) > 1 else _NEAR
    if -_NEAR * said <= rate.cycles - said <= max(late * said, 0.02):
        return uops
    if rate.cycles <= waits * (1 + _NEAR) or (rate.cycles < said and form.name in core.renamed):
        return uops
    # What is written besides chosen registers may be waited for: then no unit need be busy.
    plain = all(o.fixed is None and (o.kind != "flags" or not o.written) for o in form.operands)
    narrow = _narrowest(core, uops)
    busy = rate.cycles * narrow if plain and narrow else 0.0
    if rate.cycles > said and busy and abs(busy - round(busy)) < _NEAR * busy:
        return replace(uops, busy=round(busy))
    why = f"alone it takes {rate.cycles:.2f} cycles, not {said:.2f}"
    return replace(uops, ports=None, why=why)
