"""Port usage of each form: register forms, forms with memory operands, pushes and pops.

Candidates for a form come from its class, its twin, or forms like it. Blocking instructions of the
classes' ports choose among them (port_usage_search). The result has to predict the throughput of
the form and, where that leaves doubt, mixtures with each class (port_usage_check); a form that
fails has no ports. Forms with memory operands follow once loads and stores are known.

Stack. Microbenchmark: pushes of registers, and pops into others. They are stores and loads where a
copy takes the cycles of as many stores and loads. A load of data just stored may take longer.
Otherwise pushes and pops are therefore timed alone, beside an instruction that moves the stack
pointer back. Where these cycles differ as well, pushes and pops have no ports.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isnan

from loopwright.calibrating import port_usage_check, port_usage_search
from loopwright.calibrating.port_usage_search import Candidates, Case, UopBounds
from loopwright.calibrating.ports import Core, Ports, Uops, bound_cycles
from loopwright.microbench import blockers
from loopwright.microbench.blockers import BlockingKernel, Surplus
from loopwright.microbench.form_instances import DeliveryFloor
from loopwright.microbench.forms import Form, Kit
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.latency import Latency, of_address
from loopwright.microbench.throughput import Throughput


class Guesses:
    """Port usages of known forms, from which those of others are guessed."""

    def __init__(
        self,
        core: Core,
        known: Mapping[str, Uops],
        latencies: Mapping[str, Sequence[Latency]],
    ) -> None:
        self._core, self.known, self._latencies = core, dict(known), latencies
        self._representatives: dict[tuple[object, ...], str] = {}

    def split(self, forms: Sequence[Form]) -> tuple[list[Form], list[Form]]:
        """Return one form of each kind, preferably with a known twin, and the remaining forms."""
        chosen = []
        for form in sorted(forms, key=lambda form: form.twin not in self.known):
            if _kind_of(form) not in self._representatives:
                self._representatives[_kind_of(form)] = form.name
                chosen.append(form)
        names = {form.name for form in chosen}
        return chosen, [form for form in forms if form.name not in names]

    def learn(self, uops: Mapping[str, Uops]) -> None:
        """Add known port usages."""
        self.known.update(uops)

    def guess(self, form: Form) -> tuple[Ports, ...] | None:
        """Return the likely ports of a form's uops, None if no known form is like it."""
        if form.name == self._core.store:
            return self._core.store_uops or None
        if own := self._core.class_ports(form.name):
            return (own,)
        twin = self.known.get(form.twin)
        if form.memory and twin and twin.ports is not None:
            load = self._core.load_ports(form)
            loads = (load,) * form.memory.read if load else ()
            stores = self._core.store_uops * form.memory.written
            plain = form.name in form.kit.LOADS.values()
            computing = () if plain or self._only_loads(form) else twin.ports
            return computing + loads + stores
        other = self.known.get(self._representatives.get(_kind_of(form), ""))
        if other and other.ports is not None:
            return other.ports
        memory, load = form.memory, self._core.load_ports(form)
        if not memory or memory.written or load == self._core.class_ports(self._core.load):
            return None
        return (load,) if memory.read and load else None

    def _only_loads(self, form: Form) -> bool:
        """True if the loaded result has the latency of a plain load."""
        return _as_fast(self._latencies, form, "gpr", self._core.load)


def loads_plainly(
    latencies: Mapping[str, Sequence[Latency]], rates: Mapping[str, Throughput], form: Form
) -> bool:
    """True if a form loads a vector with the latency and the throughput of a plain load."""
    if not form.memory or form.memory.written or form.undone:
        return False
    plain = form.kit.LOADS["load_vector_cycles"]
    if plain not in rates or not _as_fast(latencies, form, "vector", plain):
        return False
    return rates[form.name].cycles <= (1 + _ALONE) * rates[plain].cycles


def _as_fast(latencies: Mapping[str, Sequence[Latency]], form: Form, kind: str, plain: str) -> bool:
    """True if what a form loads to a register of a kind has the latency of a plain load."""
    labels = {operand.label for operand in form.operands if operand.kind == kind}
    cycles = of_address([one for one in latencies[form.name] if one.target in labels])
    least = of_address(latencies.get(plain, ()))
    return cycles is not None and least is not None and cycles <= least


def _kind_of(form: Form) -> tuple[object, ...]:
    """Return a key that is the same for forms with likely the same uops."""
    kinds = tuple(operand.kind for operand in form.operands)
    return form.mnemonic, kinds, form.memory is not None and (form.memory.read, form.memory.written)


_FUSED = 2  # uops that may share a dispatch slot by micro-fusion
_CHANGING = 4  # uops of a read-modify-write, which may all share one slot
_ALONE = 0.04  # relative tolerance of a form's throughput against that of its dispatch slots
_FEW = 4  # forms with the same uops: so few tell nothing of the slots of another
_SAMPLE = 24  # forms whose blocking kernels are all timed, to find what dispatch counts
_MAJORITY = 2 / 3  # share of the votes: early binding makes uops seem more
_UNDECIDED = 0.25, 0.85  # shares of the votes between which a second sample is taken


@dataclass(frozen=True)
class PortUsages:
    """Port usages by form, and whether dispatch counts uops rather than instructions."""

    uops: dict[str, Uops]
    counts: bool


def find(
    laboratory: Laboratory,
    forms: Sequence[Form],
    core: Core,
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    slots: Mapping[str, Surplus],
    known: PortUsages | None = None,
    floor: DeliveryFloor | None = None,
) -> PortUsages:
    """Return the port usage of each form; known has those of forms that may be like it.

    floor has the least delivery cycles of all forms with memory operands, if forms are only some.
    """
    if core.early_binding:
        slots = {name: replace(shown, uops=shown.early_binding) for name, shown in slots.items()}
    spans = blockers.spans(laboratory, forms, rates, latencies)
    block_cycles = {name: span for name, span in spans.items() if isinstance(span, int)}
    usages = {
        name: Uops(0, None, why=span) for name, span in spans.items() if isinstance(span, str)
    }
    open_forms = [form for form in forms if form.name in block_cycles]
    counts = (
        known.counts
        if known
        else _dispatch_counts_uops(laboratory, core, open_forms, block_cycles, slots, rates)
    )
    if counts:
        usages |= {
            form.name: Uops(0, None, why="nops beside it show no whole number of slots")
            for form in open_forms
            if slots[form.name].uops is None
        }
        open_forms = [form for form in open_forms if form.name not in usages]
    if floor is None:
        floor = port_usage_check.delivery_floor(forms, rates, slots)
    guesses = Guesses(core, known.uops if known else {}, latencies)
    check = partial(
        port_usage_check.hold_to_measured,
        laboratory,
        core,
        rates=rates,
        latencies=latencies,
        floor=floor,
        known=guesses.known,
    )

    def bounds(form: Form) -> UopBounds:
        if core.vector_loads and loads_plainly(latencies, rates, form):
            return UopBounds(1, 1)
        shown = slots[form.name].uops if counts else None
        return _uop_bounds(form, shown, latencies[form.name])

    for batch in guesses.split(open_forms):
        cases = [
            Case(
                form,
                block_cycles[form.name],
                _least_slots(slots[form.name]),
                bounds(form),
                rates[form.name].cycles,
                () if _may_be_idle(form, latencies[form.name]) else guesses.guess(form),
                any(one.plain and one.cycles > 1 for one in latencies[form.name]),
                _known_surpluses(core, form),
            )
            for form in batch
        ]
        port_usage_search.search(laboratory, core, cases)
        batch_usages = {
            case.form.name: _usage(core, case, slots[case.form.name], counts) for case in cases
        }
        checked = check(batch, batch_usages)
        if not counts:
            # Dispatch may count instructions, or pairs of uops. Where that fails, each uop takes a
            # slot.
            failed = [
                case.form for case in cases if case.usage and checked[case.form.name].ports is None
            ]
            retried = {
                form.name: replace(uops, slots=len(uops.ports or ()))
                for form in failed
                for uops in [batch_usages[form.name]]
            }
            checked |= {
                name: uops
                for name, uops in check(failed, retried).items()
                if uops.ports is not None
            }
        guesses.learn(checked)
        usages |= checked
    if not counts:
        usages = _agreed(core, usages, known.uops if known else {})
    return PortUsages(usages, counts)


def _known_surpluses(core: Core, form: Form) -> dict[int, Surplus]:
    """Return the uops of a form on the ports of classes that need no blocking kernel to show them.

    A computing uop may hold up loads with which it shares a scheduler, as if it were one of them.
    """
    surpluses = {number: Surplus(0, 0.0, 0.0) for number in core.out_of_reach(form)}
    own = core.class_of(form.name)
    return surpluses if own is None else {**surpluses, own: Surplus(1, 1.0, 0.0)}


def _agreed(core: Core, own: dict[str, Uops], known: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return port usages with the dispatch slots of most forms with the same computing uops.

    The front end may hide slots of some forms. known are the forms without memory operands.
    """
    usages = {**known, **own}
    computing = {
        name: tuple(sorted(core.computing(uops.ports or ()), key=sorted))
        for name, uops in usages.items()
    }
    slots: dict[tuple[Ports, ...], Counter[int]] = defaultdict(Counter)
    for name, uops in usages.items():
        if len(computing[name]) > 1:
            slots[computing[name]][uops.slots] += 1
    agreed = dict(own)
    for name, uops in own.items():
        votes = slots[computing[name]]
        for majority, times in votes.most_common(1):
            if 2 * times > votes.total() > _FEW:
                agreed[name] = replace(uops, slots=majority)
    return agreed


def _uop_bounds(form: Form, slots: int | None, latencies: Sequence[Latency]) -> UopBounds:
    """Return bounds of a form's number of uops; slots is None if dispatch does not count uops.

    A memory uop and a computing uop may share a slot. A form with a latency of a cycle or more
    needs a uop, even where the front end hides it.
    """
    idle = _may_be_idle(form, latencies)
    if slots is None:
        return UopBounds(0 if idle else 1)
    least = 0 if slots == 1 and idle else slots
    most = (_FUSED if form.memory else 1) * slots
    changing = form.memory and form.memory.read and form.memory.written
    return UopBounds(least, max(most, _CHANGING) if changing else most)


def _dispatch_counts_uops(
    laboratory: Laboratory,
    core: Core,
    forms: Sequence[Form],
    spans: Mapping[str, int],
    slots: Mapping[str, Surplus],
    rates: Mapping[str, Throughput],
) -> bool:
    """True if dispatch slots are uops for nearly all forms of several uops."""
    multi_uop = [form for form in forms if core.class_of(form.name) is None]
    step = max(1, len(multi_uop) // _SAMPLE)
    votes: list[bool] = []
    for start in dict.fromkeys((0, step // 2)):
        votes += _votes(laboratory, core, multi_uop[start::step], spans, slots, rates)
        if not votes or not _UNDECIDED[0] < sum(votes) / len(votes) < _UNDECIDED[1]:
            break
    return sum(votes) > _MAJORITY * len(votes)


def _votes(
    laboratory: Laboratory,
    core: Core,
    sample: Sequence[Form],
    spans: Mapping[str, int],
    slots: Mapping[str, Surplus],
    rates: Mapping[str, Throughput],
) -> list[bool]:
    """Return, for each form with several uops, whether it takes as many dispatch slots."""
    classes = range(len(core.classes))
    known = {form.name: _known_surpluses(core, form) for form in sample}
    kernels = [
        BlockingKernel(
            form, core.classes[n].blocking, spans[form.name], rate=rates[form.name].cycles
        )
        for form in sample
        for n in classes
        if n not in known[form.name]
    ]
    answers = iter(blockers.measure(laboratory, kernels))
    generator = Candidates(core)
    votes = []
    for form in sample:
        own = known[form.name]
        surpluses = [own[n] if n in own else next(answers) for n in classes]
        uops = port_usage_search.counted(core, surpluses)
        if not uops or len(uops) < 2:
            continue
        slots_taken = slots[form.name].uops or 0
        bounds = UopBounds(0, slots_taken)
        cycles = rates[form.name].cycles
        shown = dict(enumerate(surpluses))
        case = Case(form, spans[form.name], slots_taken, bounds, cycles, surpluses=shown)
        # Early binding looks like additional uops.
        votes.append(
            slots_taken >= len(uops)
            or port_usage_search.bound_early(generator, core, case) is not None
        )
    return votes


def _least_slots(slots: Surplus) -> int:
    """Return the least number of dispatch slots of a form."""
    return 1 if isnan(slots.measured) else max(1, ceil(slots.measured - 0.5))


def _may_be_idle(form: Form, latencies: Sequence[Latency]) -> bool:
    """True if a form may need no port: its latency is 0, or it has no result."""
    if not any(operand.written for operand in form.operands):
        return True
    known = [one for one in latencies if one.plain]
    return bool(known) and all(one.cycles == 0 for one in known)


def _usage(core: Core, case: Case, slots: Surplus, counts: bool) -> Uops:
    """Return the port usage of a form, or a refusal."""
    uops = case.usage
    if uops is None:
        unclear = any(surplus.uops is None for surplus in case.surpluses.values())
        why = "show no whole number of uops" if unclear else "contradict each other"
        return Uops(0, None, why=f"blockers of ports {why}")
    if not uops:
        return Uops(1 if counts else slots.uops or 1, (), why="no port is needed")
    if core.class_of(case.form.name) is not None and uops == (core.class_ports(case.form.name),):
        return Uops(1, uops, why="of a class")
    if counts:
        return Uops(slots.uops or 1, uops, why="by blockers and dispatch")
    # Early binding makes uops seem more.
    most = len(core.computing(uops) if core.early_binding else uops)
    if slots.uops and abs(case.cycles * core.width - slots.uops) <= _ALONE * slots.uops:
        most = max(most, slots.uops)  # its throughput is that of dispatch of as many
    return Uops(max(1, min(slots.uops or most, most)), uops, why="by blockers")


def find_with_memory(
    laboratory: Laboratory,
    forms: Sequence[Form],
    core: Core,
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    slots: Mapping[str, Surplus],
    known: PortUsages,
) -> dict[str, Uops]:
    """Return the port usage of forms with memory operands; known has that of register forms.

    Plain vector loads come first: other forms that load vectors have the same load ports.
    """
    load, store = core.class_ports(core.load), core.class_ports(core.store)
    usages = {}
    for form in forms:
        if form.memory and ((form.memory.read and not load) or (form.memory.written and not store)):
            usages[form.name] = Uops(0, None, why="no form that loads or stores alone is known")
    open_forms = [form for form in forms if form.name not in usages]
    plain = [form for form in open_forms if form.name in laboratory.kit.LOADS.values()]
    floor = port_usage_check.delivery_floor(forms, rates, slots)
    for batch in (plain, [form for form in open_forms if form not in plain]):
        own = find(laboratory, batch, core, rates, latencies, slots, known, floor).uops
        usages |= own
        core = replace(core, vector_loads=_vector_loads(core, plain, usages))
        known = replace(known, uops=known.uops | own)
    return usages


def _vector_loads(
    core: Core, forms: Sequence[Form], usages: Mapping[str, Uops]
) -> dict[int, Ports]:
    """Return the ports of vector loads by width in bits, where such a load is one uop."""
    loads: dict[int, Ports] = {}
    for form in forms:
        ports = usages[form.name].ports or ()
        if len(ports) == 1 and core.accesses_memory(ports[0]):
            loads |= {o.bits: ports[0] for o in form.chosen if o.kind == "vector"}
    return loads


_STACK_TIMES = 3  # pushes and pops of a copy
_STACK_BYTES = 8
_STACK_NEAR = 0.08  # relative tolerance of the predicted cycles of a copy
_STACK_LATE = 0.15  # relative tolerance upwards beside changes of the stack pointer


def stack_uops(laboratory: Laboratory, core: Core) -> dict[str, Uops]:
    """Return the port usage of pushes and pops, or a refusal; empty if the ISA has none."""
    kit = laboratory.kit
    load, store = core.class_ports(core.load), core.class_ports(core.store)
    if not kit.PUSH or not load or not store:
        return {}
    pool = kit.POOLS["gpr"]
    pairs = [kit.push_and_pop(pool.constant[0], pool.others[n]) for n in range(_STACK_TIMES)]
    pushes, pops = ([pair[n] for pair in pairs] for n in range(2))
    (figure,) = laboratory.time([pushes + pops])
    predicted = max(
        bound_cycles(Counter([load, *core.store_uops] * _STACK_TIMES)),
        2 * _STACK_TIMES / core.width,
    )
    if figure and abs(figure.cycles - predicted) <= _STACK_NEAR * predicted:
        timing = f"{_STACK_TIMES} pushes and pops take {figure.cycles:.2f} cycles"
        why = f"{timing}, as stores and loads do"
        return {kit.PUSH: Uops(1, core.store_uops, why=why), kit.POP: Uops(1, (load,), why=why)}
    timing = f"take {figure.cycles:.2f} cycles" if figure else f"were refused: {figure.refused}"
    both = f"{_STACK_TIMES} pushes and pops {timing}, as many stores and loads {predicted:.2f}"
    pushes, pops = _stack_apart(kit, len(pool.others))
    return {
        kit.PUSH: _stack_alone(laboratory, core, "pushes", pushes, core.store_uops, both),
        kit.POP: _stack_alone(laboratory, core, "pops", pops, (load,), both),
    }


def _stack_alone(
    laboratory: Laboratory,
    core: Core,
    name: str,
    kernel: list[bytes],
    uops: Sequence[Ports],
    both: str,
) -> Uops:
    """Return these uops for pushes or pops if they predict those timed alone, else a refusal."""
    (figure,) = laboratory.time([kernel])
    times = len(kernel) - 1
    predicted = max(bound_cycles(Counter([*uops] * times)), len(kernel) / core.width, 1.0)
    timing = f"{times} {name} alone "
    if not figure:
        return Uops(0, None, why=f"{both}; {timing}were refused: {figure.refused}")
    timing += f"{figure.cycles:.2f}"
    if -_STACK_NEAR * predicted <= figure.cycles - predicted <= _STACK_LATE * predicted:
        return Uops(1, tuple(uops), why=f"{timing}, as it is of stores and loads; {both}")
    return Uops(0, None, why=f"{timing}, not {predicted:.2f}; {both}")


def stack_moves(kit: Kit) -> dict[str, list[bytes]]:
    """Return kernels of pops and of pushes beside another change of the stack pointer."""
    pushes, pops = _stack_apart(kit, 2)
    return {
        "pops behind a change of the stack pointer": pops,
        "pushes before a change of the stack pointer": pushes,
    }


def _stack_apart(kit: Kit, times: int) -> tuple[list[bytes], list[bytes]]:
    """Return kernels of pushes alone and of pops alone, each with a reset of the stack pointer."""
    pool = kit.POOLS["gpr"]
    pairs = [kit.push_and_pop(pool.constant[0], register) for register in pool.others[:times]]
    pushes, pops = ([pair[n] for pair in pairs] for n in range(2))
    size = _STACK_BYTES * times
    return [*pushes, kit.adjust_stack(size)], [kit.adjust_stack(-size), *pops]


def stack_latencies(
    kit: Kit, usages: Mapping[str, Uops], latencies: Mapping[str, Sequence[Latency]]
) -> dict[str, Sequence[Latency]]:
    """Return the latencies of pushes and pops; a pop has that of a plain load from its address."""
    return {name: latencies[kit.LOAD] if name == kit.POP else () for name in usages}
