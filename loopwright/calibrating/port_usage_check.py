"""Uops held to what their form takes alone and beside each class.

Where blockers show a uop in ports of which it uses some alone, as no class has just those, it takes
longer than blockers explain. Then fewer of the ports are tried, as far as blockers allow.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from loopwright.calibrating.ports import Core, Uops, bound_cycles
from loopwright.microbench import form_instances, throughput
from loopwright.microbench.blockers import Surplus
from loopwright.microbench.form_instances import DeliveryFloor
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.latency import Latency
from loopwright.microbench.throughput import Throughput

_NEAR = 0.08  # relative: how far what a mixture takes may lie from what the rule says
_LATE = 0.15  # relative: by how much longer several uops may take, which others are in the way of
_EARLY = 0.22  # relative: the same where ports are bound early
_BESIDE = 0.3  # relative: the same, beside others
_BOUNDS, _LONGEST = 1, 1.5  # classes beside which it may take longer still, and how many times
_UNCLEAR = 0.12  # cycles: the same, absolutely
_MEETING = 0.3  # relative: by how much longer a form may take whose chains meet in ports
_CHANGING = 0.45  # relative: the same of what changes memory, whose stores wait for its loads
_FEWER = 2  # instances that need no port, of a cycle, than dispatch has places
_TIMES = 3
_SHORT, _NOPS = 8, 8  # bytes of nops, at most, and nops of a kernel


def hold_to_measured(
    laboratory: Laboratory,
    core: Core,
    chosen: Sequence[Form],
    found: Mapping[str, Uops],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    floor: DeliveryFloor,
    known: Mapping[str, Uops],
) -> dict[str, Uops]:
    """Return what is found of forms, or why it does not hold.

    Of ports that explain as much those are taken that most other forms have; known are some of
    these. What a form takes alone is asked once more where it contradicts all else: some are of two
    speeds, as moves are that a core eliminates at times. brought is as `brought` has it.
    """

    slow = _delivered(laboratory, core)

    def by_itself(form: Form, uops: Uops, rate: Throughput) -> Uops:
        size = len(form_instances.apart(form)) if uops.slots == 1 else 0
        return alone(core, form, uops, rate, latencies[form.name], floor, slow.get(size, 0.0))

    forms = {form.name: form for form in chosen}
    rates = {**rates, **_again(laboratory, chosen, found, rates, by_itself)}
    options = {
        name: [
            by_itself(form, one, rates[name])
            for one in (found[name], *_fewer(core, form, found[name], rates[name], floor))
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


def _delivered(laboratory: Laboratory, core: Core) -> dict[int, float]:
    """Return what nops take by their lengths, bytes, where that is longer than dispatch says."""
    codes = {size: laboratory.kit.pad(size) for size in range(1, _SHORT + 1)}
    sizes = [size for size, some in codes.items() if sum(map(len, some)) == size and len(some) == 1]
    figures = laboratory.time([codes[size] * _NOPS for size in sizes])
    each = {n: one.cycles / _NOPS for n, one in zip(sizes, figures, strict=True) if one}
    return {size: one for size, one in each.items() if one * core.width > 1 + _NEAR}


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
    core: Core, form: Form, uops: Uops, rate: Throughput, floor: DeliveryFloor
) -> Iterator[Uops]:
    """Yield uops with fewer ports that blockers show the same of, and that take as long alone.

    Loads come first: what computes is known of the form with a register in memory's place.
    """
    if not uops.ports or not rate.clean:
        return
    if form_instances.long(form) and rate.cycles <= floor.delivery(form, 1) * (1 + _NEAR):
        return
    late = _LATE if len(uops.ports) > 1 else _NEAR
    if rate.cycles <= max(bound_cycles(Counter(uops.ports)), uops.slots / core.width) * (1 + late):
        return
    seen = core.shown_by_blockers(uops.ports)
    counted = Counter(uops.ports).items()
    for ports, times in sorted(counted, key=lambda pair: not core.accesses_memory(pair[0])):
        for size in range(len(ports) - 1, 0, -1):
            for some in map(frozenset, combinations(sorted(ports), size)):
                for moved in range(1, times + 1):
                    rest = list(uops.ports)
                    for _ in range(moved):
                        rest.remove(ports)
                    tried = (*rest, *[some] * moved)
                    near = abs(bound_cycles(Counter(tried)) - rate.cycles) <= _NEAR * rate.cycles
                    if near and core.shown_by_blockers(tried) == seen:
                        yield replace(uops, ports=tried, why=f"{uops.why} and what it takes alone")


def _beside(core: Core, form: Form, number: int) -> list[bytes]:
    """Return a form among what keeps a class busy; nothing where it waits for itself."""
    memory = form.memory
    if form_instances.carried(form) or (memory and memory.read and memory.written):
        return []
    blocker, size = core.classes[number].blocker, core.classes[number].size
    makers, others = (form_instances.Instances(n, 2, near=True) for n in range(2))
    tested = [makers.of(form) for _ in range(_TIMES)]
    return form_instances.spread(tested, [others.of(blocker) for _ in range(_TIMES * size)])


def _held(
    core: Core, uops: Uops, beside: Sequence[tuple[int, Figure]], latencies: Sequence[Latency]
) -> Uops:
    """Return uops if they explain what their form takes beside each class, else why not."""
    if not uops.ports or _unit(core, uops):
        return uops
    busy = uops.busy / _narrowest(core, uops) if uops.busy else 0.0
    waits = max((one.cycles for one in latencies if one.source == one.target), default=0)
    bounds = _BOUNDS * core.early_binding
    chain = waits * -(-_TIMES // 3)
    for number, figure in beside:
        size = core.classes[number].size
        load = Counter(uops.ports)
        load.update(dict.fromkeys(core.blocker_uops(number), size))
        least = max(bound_cycles(load), (uops.slots + size) / core.width, busy) * _TIMES
        said = max(least, chain)
        # What brings in a busy form brings in nothing else meanwhile.
        most = said + bool(uops.busy) * form_instances.SLOWEST_DELIVERY * _TIMES
        store = core.class_ports(core.store)
        if store == core.ports[number] and any(one & store for one in uops.ports):
            # Accesses of few ports wait for others that took these early.
            most = max(most, (bound_cycles(Counter(uops.ports)) + 1) * _TIMES)
        slack = max(_NEAR * said, _UNCLEAR * _TIMES)
        late = max(slack, _BESIDE * most * core.early_binding)
        if figure.cycles > most + late and figure.cycles <= _LONGEST * most and bounds:
            bounds -= 1  # ports are not all that binds it beside that class
        elif not said - slack <= figure.cycles <= most + late and least >= chain:
            name = core.classes[number].blocker.name
            why = f"beside {name} it takes {figure.cycles:.2f} cycles, not {said:.2f}"
            return uops.refused(why)
    return uops


def _unit(core: Core, uops: Uops) -> bool:
    """Say whether a form is one uop that computes, in a unit that it keeps busy."""
    return bool(uops.busy) and len(core.computing(uops.ports or ())) == 1


def _narrowest(core: Core, uops: Uops) -> int:
    """Return the ports of the uop that computes with the fewest, which keeps a unit busy."""
    return min(map(len, core.computing(uops.ports or ())), default=0)


def floor(
    forms: Sequence[Form], rates: Mapping[str, Throughput], slots: Mapping[str, Surplus]
) -> DeliveryFloor:
    """Return what forms take alone at least, by lengths and by places at dispatch."""
    lengths: dict[int, float] = {}
    taking: dict[int, float] = {}
    for form in forms:
        rate, taken = rates[form.name], slots[form.name].uops
        if rate.refused:
            continue
        if form.memory:
            _least(lengths, len(form_instances.apart(form)), rate.cycles)
        if taken and rate.clean:
            _least(taking, taken, rate.cycles)
    return DeliveryFloor(lengths, taking)


def _least(known: dict[int, float], key: int, cycles: float) -> None:
    known[key] = min(cycles, known.get(key, cycles))


def _late(core: Core, form: Form, uops: Uops, rate: Throughput) -> float:
    """Return by how much longer a form may take alone than its ports ask for."""
    if core.early_binding and form.memory and form.memory.read and form.memory.written:
        return _CHANGING
    if rate.meets:
        return _MEETING
    if len(uops.ports or ()) > 1:
        return _EARLY if core.early_binding else _LATE
    return _LATE if core.early_binding and form.memory else _NEAR


def alone(
    core: Core,
    form: Form,
    uops: Uops,
    rate: Throughput,
    latencies: Sequence[Latency],
    floor: DeliveryFloor,
    delivered: float = 0.0,
) -> Uops:
    """Hold uops to what the form takes alone; one of a unit that is busy longer says so.

    delivered are cycles that what delivers code needs for an instruction as long.
    """
    if not rate.clean or uops.ports is None:
        return uops
    said = max(bound_cycles(Counter(uops.ports)), uops.slots / core.width)
    most = max(floor.delivery(form, uops.slots), delivered)
    if said * (1 - _NEAR) <= rate.cycles <= most * (1 + _NEAR):
        return uops
    least = uops.slots / (core.width - _FEWER)
    if not uops.ports and said < rate.cycles <= least * (1 + _NEAR):
        return replace(uops, why=f"{uops.why}; {1 / rate.cycles:.1f} a cycle")
    waits = throughput.waits(form, latencies)
    late = _late(core, form, uops, rate)
    near = -_NEAR * said <= rate.cycles - said <= max(late * said, 0.02)
    if near and (late < _CHANGING or rate.cycles <= said * (1 + _EARLY)):
        return uops
    if rate.cycles <= waits * (1 + _NEAR) or (
        rate.cycles < said and form.name in core.renamed_additions
    ):
        return uops
    # What is written besides chosen registers may be waited for: then no unit need be busy. Vectors
    # and microcode write all flags.
    every = uops.slots > 1 or any(one.kind == "vector" for one in form.operands)
    plain = all(
        o.fixed is None and (o.kind != "flags" or not (o.read if every else o.written))
        for o in form.operands
    )
    narrow = _narrowest(core, uops)
    busy = rate.cycles * narrow if plain and narrow else 0.0
    if rate.cycles > said and busy and abs(busy - round(busy)) < _NEAR * busy:
        return replace(uops, busy=round(busy))
    if near:
        return uops
    why = f"alone it takes {rate.cycles:.2f} cycles, not {said:.2f}"
    return uops.refused(why)
