"""Port usage check: against the form's throughput and mixtures with each class.

Where blockers show a uop in a set of ports of which it uses only a part, because no class has
exactly that part, the form is slower than blockers explain. Subsets of the ports are then tried, as
far as blockers allow them.
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

_NEAR = 0.08  # relative tolerance of the predicted cycles of a mixture
_COMPETING = 0.15  # relative tolerance upwards for several uops, which compete for ports
_COMPETING_EARLY = 0.22  # the same where ports are bound early
_MIXTURE_EARLY = 0.3  # the same in mixtures, where ports are bound early
# classes beside which a form may be slower still, and the factor by which
_BOUNDS, _LONGEST = 1, 1.5
_NEAR_CYCLES = 0.12  # cycles: the same as an absolute tolerance
_MEETING = 0.3  # relative tolerance upwards of a form whose chains meet in ports
_RMW = 0.45  # the same of a read-modify-write, whose store waits for its load
_LOST_SLOTS = 2  # slots by which throughput without ports may fall short of the dispatch width
_TIMES = 3
_SHORT, _NOPS = 8, 8  # bytes of the longest nop, and nops of a kernel


def hold_to_measured(
    laboratory: Laboratory,
    core: Core,
    forms: Sequence[Form],
    usages: Mapping[str, Uops],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    floor: DeliveryFloor,
    known: Mapping[str, Uops],
) -> dict[str, Uops]:
    """Return the port usage of each form, or the reason for its refusal.

    usages are those to check. Of port sets that explain as much, the most common one is taken;
    known has those of other forms. A throughput that contradicts all else is measured again by
    another kernel, as some forms have two speeds, such as moves that are eliminated at times. floor
    is as `delivery_floor` returns it.
    """
    slow_nops = _slow_nops(laboratory, core)

    def by_itself(form: Form, uops: Uops, rate: Throughput) -> Uops:
        size = len(form_instances.under_test(form)) if uops.slots == 1 else 0
        return alone(core, form, uops, rate, latencies[form.name], floor, slow_nops.get(size, 0.0))

    named = {form.name: form for form in forms}
    rates = {**rates, **_remeasured(laboratory, forms, usages, rates, by_itself)}
    options = {
        name: [
            by_itself(form, uops, rates[name])
            for uops in (usages[name], *_subsets(core, form, usages[name], rates[name], floor))
        ]
        for name, form in named.items()
    }
    pairs = [
        (name, n)
        for name in named
        for n in range(len(core.classes))
        if (len(options[name]) > 1 or options[name][0].busy)
        and any(uops.ports and not _busy_unit(core, uops) for uops in options[name])
        and name not in core.classes[n].members
        and n not in core.out_of_reach(named[name])
    ]
    mixtures = [_mixture(core, named[name], n) for name, n in pairs]
    beside: dict[str, list[tuple[int, Figure]]] = {name: [] for name in named}
    for (name, n), figure in zip(pairs, laboratory.time(mixtures), strict=True):
        beside[name] += [(n, figure)] if figure else []
    chosen = {}
    popularity = Counter(ports for uops in known.values() for ports in set(uops.ports or ()))
    for name in named:
        first, *others = (
            _checked(core, uops, beside[name], latencies[name]) for uops in options[name]
        )
        passing = [uops for uops in others if beside[name] and uops.ports is not None]
        passing.sort(key=lambda uops: -sum(popularity[ports] for ports in set(uops.ports or ())))
        chosen[name] = first if first.ports is not None or not passing else passing[0]
        popularity.update(set(chosen[name].ports or ()))
    return chosen


def _slow_nops(laboratory: Laboratory, core: Core) -> dict[int, float]:
    """Return the cycles of nops by length in bytes, where the front end is slower than dispatch."""
    codes = {size: laboratory.kit.pad(size) for size in range(1, _SHORT + 1)}
    # Where an ISA has no nop of a length, the padding is of several or of another one.
    single = {size: nops for size, nops in codes.items() if list(map(len, nops)) == [size]}
    figures = laboratory.time([nops * _NOPS for nops in single.values()])
    each = {n: figure.cycles / _NOPS for n, figure in zip(single, figures, strict=True) if figure}
    return {size: cycles for size, cycles in each.items() if cycles * core.width > 1 + _NEAR}


def _remeasured(
    laboratory: Laboratory,
    forms: Sequence[Form],
    usages: Mapping[str, Uops],
    rates: Mapping[str, Throughput],
    by_itself: Callable[[Form, Uops, Throughput], Uops],
) -> dict[str, Throughput]:
    """Return other throughputs of forms whose port usage contradicts the first, where these fit."""

    def fits(form: Form, rate: Throughput) -> bool:
        uops = by_itself(form, usages[form.name], rate)
        return uops.ports is not None and not uops.busy

    known = [form for form in forms if usages[form.name].ports is not None]
    doubtful = [form for form in known if not fits(form, rates[form.name])]
    others = throughput.with_fewer_instances(laboratory, doubtful)
    return {
        form.name: others[form.name]
        for form in doubtful
        if form.name in others and not others[form.name].refused and fits(form, others[form.name])
    }


def _subsets(
    core: Core, form: Form, uops: Uops, rate: Throughput, floor: DeliveryFloor
) -> Iterator[Uops]:
    """Yield uops with fewer ports that the same blockers show and that explain the throughput.

    Loads come first: computing uops are known from the twin with a register in the place of memory.
    """
    if not uops.ports or not rate.clean:
        return
    if form_instances.is_long(form) and rate.cycles <= floor.delivery(form, 1) * (1 + _NEAR):
        return
    tolerance = _COMPETING if len(uops.ports) > 1 else _NEAR
    bound = max(bound_cycles(Counter(uops.ports)), uops.slots / core.width)
    if rate.cycles <= bound * (1 + tolerance):
        return
    shown = core.shown_by_blockers(uops.ports)
    counted = Counter(uops.ports).items()
    for ports, times in sorted(counted, key=lambda pair: not core.accesses_memory(pair[0])):
        for size in range(len(ports) - 1, 0, -1):
            for subset in map(frozenset, combinations(sorted(ports), size)):
                for moved in range(1, times + 1):
                    others = list(uops.ports)
                    for _ in range(moved):
                        others.remove(ports)
                    candidate = (*others, *[subset] * moved)
                    error = abs(bound_cycles(Counter(candidate)) - rate.cycles)
                    predicts = error <= _NEAR * rate.cycles
                    if predicts and core.shown_by_blockers(candidate) == shown:
                        why = f"{uops.why} and what it takes alone"
                        yield replace(uops, ports=candidate, why=why)


def _mixture(core: Core, form: Form, number: int) -> list[bytes]:
    """Return a mixture of a form with blocking instructions; empty if the form waits for itself."""
    memory = form.memory
    if form_instances.implied_dependencies(form) or (memory and memory.read and memory.written):
        return []
    blocker, size = core.classes[number].blocker, core.classes[number].size
    factory, blocking_factory = (form_instances.Instances(n, 2, near=True) for n in range(2))
    tested = [factory.of(form) for _ in range(_TIMES)]
    blocking = [blocking_factory.of(blocker) for _ in range(_TIMES * size)]
    return form_instances.interleaved(tested, blocking)


def _checked(
    core: Core, uops: Uops, mixtures: Sequence[tuple[int, Figure]], latencies: Sequence[Latency]
) -> Uops:
    """Return uops if they predict the form beside each class, else the refusal."""
    if not uops.ports or _busy_unit(core, uops):
        return uops
    busy = uops.busy / _narrowest(core, uops) if uops.busy else 0.0
    waits = max((one.cycles for one in latencies if one.source == one.target), default=0)
    exceptions = _BOUNDS * core.early_binding
    chain = waits * -(-_TIMES // 3)
    for number, figure in mixtures:
        size = core.classes[number].size
        uop_counts = Counter(uops.ports)
        uop_counts.update(dict.fromkeys(core.blocker_uops(number), size))
        port_bound = max(bound_cycles(uop_counts), (uops.slots + size) / core.width, busy) * _TIMES
        predicted = max(port_bound, chain)
        # While the front end delivers such a form, it delivers nothing else.
        upper = predicted + bool(uops.busy) * form_instances.SLOWEST_DELIVERY * _TIMES
        store = core.class_ports(core.store)
        if store == core.ports[number] and any(one & store for one in uops.ports):
            # Accesses with few ports wait for others that were bound to these early.
            upper = max(upper, (bound_cycles(Counter(uops.ports)) + 1) * _TIMES)
        slack = max(_NEAR * predicted, _NEAR_CYCLES * _TIMES)
        tolerance = max(slack, _MIXTURE_EARLY * upper * core.early_binding)
        if figure.cycles > upper + tolerance and figure.cycles <= _LONGEST * upper and exceptions:
            exceptions -= 1  # more than ports binds the form beside that class
        elif not predicted - slack <= figure.cycles <= upper + tolerance and port_bound >= chain:
            name = core.classes[number].blocker.name
            why = f"beside {name} it takes {figure.cycles:.2f} cycles, not {predicted:.2f}"
            return uops.refused(why)
    return uops


def _busy_unit(core: Core, uops: Uops) -> bool:
    """True if a form is one computing uop in a unit that it keeps busy."""
    return bool(uops.busy) and len(core.computing(uops.ports or ())) == 1


def _narrowest(core: Core, uops: Uops) -> int:
    """Return the number of ports of the computing uop with the fewest, which keeps a unit busy."""
    return min(map(len, core.computing(uops.ports or ())), default=0)


def delivery_floor(
    forms: Sequence[Form], rates: Mapping[str, Throughput], slots: Mapping[str, Surplus]
) -> DeliveryFloor:
    """Return the least cycles a form takes alone, by code length and by dispatch slots."""
    by_length: dict[int, float] = {}
    by_slots: dict[int, float] = {}
    for form in forms:
        rate, taken = rates[form.name], slots[form.name].uops
        if rate.refused:
            continue
        if form.memory:
            _least(by_length, len(form_instances.under_test(form)), rate.cycles)
        if taken and rate.clean:
            _least(by_slots, taken, rate.cycles)
    return DeliveryFloor(by_length, by_slots)


def _least(floor: dict[int, float], key: int, cycles: float) -> None:
    """Lower a floor to these cycles, if they are less."""
    floor[key] = min(cycles, floor.get(key, cycles))


def _upper_tolerance(core: Core, form: Form, uops: Uops, rate: Throughput) -> float:
    """Return the relative tolerance by which a form's throughput may exceed its port bound."""
    if core.early_binding and form.memory and form.memory.read and form.memory.written:
        return _RMW
    if rate.meets:
        return _MEETING
    if len(uops.ports or ()) > 1:
        return _COMPETING_EARLY if core.early_binding else _COMPETING
    return _COMPETING if core.early_binding and form.memory else _NEAR


def alone(
    core: Core,
    form: Form,
    uops: Uops,
    rate: Throughput,
    latencies: Sequence[Latency],
    floor: DeliveryFloor,
    delivered: float = 0.0,
) -> Uops:
    """Return uops that predict the form's throughput, with a busy unit if needed, or the refusal.

    delivered is the throughput of nops as long as the form, in cycles.
    """
    if not rate.clean or uops.ports is None:
        return uops
    predicted = max(bound_cycles(Counter(uops.ports)), uops.slots / core.width)
    delivery = max(floor.delivery(form, uops.slots), delivered)
    if predicted * (1 - _NEAR) <= rate.cycles <= delivery * (1 + _NEAR):
        return uops
    slowest_dispatch = uops.slots / (core.width - _LOST_SLOTS)
    if not uops.ports and predicted < rate.cycles <= slowest_dispatch * (1 + _NEAR):
        return replace(uops, why=f"{uops.why}; {1 / rate.cycles:.1f} a cycle")
    waits = throughput.dependency_cycles(form, latencies)
    tolerance = _upper_tolerance(core, form, uops, rate)
    close = -_NEAR * predicted <= rate.cycles - predicted <= max(tolerance * predicted, 0.02)
    if close and (tolerance < _RMW or rate.cycles <= predicted * (1 + _COMPETING_EARLY)):
        return uops
    if rate.cycles <= waits * (1 + _NEAR) or (
        rate.cycles < predicted and form.name in core.renamed_additions
    ):
        return uops
    # Results besides chosen registers may make an instance wait; then no unit need be busy. Vector
    # forms and microcode write all flags.
    all_flags = uops.slots > 1 or any(one.kind == "vector" for one in form.operands)
    independent = all(
        o.fixed is None and (o.kind != "flags" or not (o.read if all_flags else o.written))
        for o in form.operands
    )
    narrow = _narrowest(core, uops)
    busy = rate.cycles * narrow if independent and narrow else 0.0
    if rate.cycles > predicted and busy and abs(busy - round(busy)) < _NEAR * busy:
        return replace(uops, busy=round(busy))
    if close:
        return uops
    why = f"alone it takes {rate.cycles:.2f} cycles, not {predicted:.2f}"
    return uops.refused(why)
