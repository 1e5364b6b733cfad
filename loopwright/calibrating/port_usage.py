"""Port usage of each form: computing, accessing memory, or moving the stack.

What uops a form may have, to be asked first: those of its class, its twin, or forms like it.

The uops of each form: from its class, or from what it adds to blockers of classes' ports.

What is found has to predict what the form takes alone, and where that leaves doubt, in mixtures
with each class; where it does not, nothing is said of the form.

The uops of forms with memory: of those whose loads and stores are known.

The stack: whether moves to it and from it are a store and a load, and nothing else.

Kernel: registers that are moved to the stack, and others that are moved from there. Answer: where
the cycles of a copy are those of as many stores and loads, pushes and pops are such. Where they
are not, as loads of what was just stored may take longer, each kind stands alone beside what moves
the stack pointer back; where one takes another time then, nothing is said of it.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isnan

from loopwright.calibrating import port_usage_check, port_usage_search
from loopwright.calibrating.port_usage_search import Case, Listed, Numbers
from loopwright.calibrating.ports import Core, Ports, Uops, bound_cycles
from loopwright.microbench import blockers
from loopwright.microbench.blockers import Asked, Surplus
from loopwright.microbench.form_instances import DeliveryFloor
from loopwright.microbench.forms import Form, Kit
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.latency import Latency, of_address
from loopwright.microbench.throughput import Throughput


class Likely:
    """Uops of forms, by which those of others are guessed."""

    def __init__(
        self,
        core: Core,
        known: Mapping[str, Uops],
        latencies: Mapping[str, Sequence[Latency]],
    ) -> None:
        self._core, self.known, self._latencies = core, dict(known), latencies
        self._seen: dict[tuple[object, ...], str] = {}

    def split(self, forms: Sequence[Form]) -> tuple[list[Form], list[Form]]:
        """Return one form of each kind, if possible one whose twin is known, and the others."""
        first = []
        for form in sorted(forms, key=lambda one: one.twin not in self.known):
            if _kind_of(form) not in self._seen:
                self._seen[_kind_of(form)] = form.name
                first.append(form)
        names = {form.name for form in first}
        return first, [form for form in forms if form.name not in names]

    def learn(self, uops: Mapping[str, Uops]) -> None:
        """Take uops that were found."""
        self.known.update(uops)

    def guess(self, form: Form) -> tuple[Ports, ...] | None:
        """Return the uops that a form may have, None where no other is like it."""
        if form.name == self._core.store:
            return self._core.store_uops or None
        if own := self._core.class_ports(form.name):
            return (own,)
        twin = self.known.get(form.twin)
        if form.memory and twin and twin.ports is not None:
            load = self._core.load_ports(form)
            more = [load] * form.memory.read + [*self._core.store_uops] * form.memory.written
            plain = form.name in form.kit.LOADS.values()
            computing = () if plain or self._only_loads(form) else twin.ports
            return computing + tuple(one for one in more if one)
        other = self.known.get(self._seen.get(_kind_of(form), ""))
        if other and other.ports is not None:
            return other.ports
        memory, load = form.memory, self._core.load_ports(form)
        only = memory is not None and memory.read and not memory.written
        return (
            (load,) if only and load and load != self._core.class_ports(self._core.load) else None
        )

    def _only_loads(self, form: Form) -> bool:
        """Say whether what a form loads is there as soon as what a load alone loads."""
        kinds = {one.label: one.kind for one in form.operands}
        plain = of_address(self._latencies.get(self._core.load, ()))
        some = [one for one in self._latencies[form.name] if kinds.get(one.target) == "gpr"]
        found = of_address(some)
        return plain is not None and found is not None and found <= plain


def _kind_of(form: Form) -> tuple[object, ...]:
    kinds = tuple(operand.kind for operand in form.operands)
    return form.mnemonic, kinds, form.memory is not None and (form.memory.read, form.memory.written)


_FUSED = 2  # uops that may share a place
_CHANGING = 4  # uops of a change of memory, which may all share one
_ALONE = 0.04  # relative: how far what a form takes alone may lie from what dispatch takes
_FEW = 4  # forms of the same uops, that tell nothing of the places of another
_SAMPLE = 24  # forms of which all blockers are asked, to see what dispatch counts
_SAID = 2 / 3  # of those that tell it: what is bound early seems to have more uops
_DOUBT = 0.25, 0.85  # share of them between which as many more are asked


@dataclass(frozen=True)
class Found:
    """Uops by the names of forms, and whether dispatch counts them, or instructions."""

    uops: dict[str, Uops]
    counts: bool


def find(
    laboratory: Laboratory,
    forms: Sequence[Form],
    core: Core,
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    slots: Mapping[str, Surplus],
    known: Found | None = None,
    floor: DeliveryFloor | None = None,
) -> Found:
    """Return the uops of each form; known are those of forms that others are like.

    brought is what blockers showed of all forms with memory, where there are more than these.
    """
    if core.early_binding:
        slots = {name: replace(one, uops=one.early_binding) for name, one in slots.items()}
    spans = blockers.spans(laboratory, forms, rates, latencies)
    lasting = {name: said for name, said in spans.items() if isinstance(said, int)}
    out = {name: Uops(0, None, why=said) for name, said in spans.items() if isinstance(said, str)}
    left = [form for form in forms if form.name in lasting]
    counts = known.counts if known else _counts(laboratory, core, left, lasting, slots, rates)
    if counts:
        out |= {
            form.name: Uops(0, None, why="nops beside it show no whole number of places")
            for form in left
            if slots[form.name].uops is None
        }
        left = [form for form in left if form.name not in out]
    if floor is None:
        floor = port_usage_check.floor(forms, rates, slots)
    others = Likely(core, known.uops if known else {}, latencies)
    for some in others.split(left):
        cases = [
            Case(
                form,
                lasting[form.name],
                _slots(slots[form.name]),
                _numbers(form, slots[form.name].uops if counts else None, latencies[form.name]),
                rates[form.name].cycles,
                () if _idle(form, latencies[form.name]) else others.guess(form),
                any(one.plain and one.cycles > 1 for one in latencies[form.name]),
                {} if (own := core.class_of(form.name)) is None else {own: Surplus(1, 1.0, 0.0)},
            )
            for form in some
        ]
        port_usage_search.search(laboratory, core, cases)
        found = {one.form.name: _of(core, one, slots[one.form.name], counts) for one in cases}
        hold = partial(
            port_usage_check.hold_to_measured,
            laboratory,
            core,
            rates=rates,
            latencies=latencies,
            floor=floor,
            known=others.known,
        )
        held_ = hold([one.form for one in cases], found)
        if not counts:
            # It may count instructions, or pairs of uops; where that does not explain it, uops.
            failed = [one.form for one in cases if one.found and held_[one.form.name].ports is None]
            again = {form.name: _counted(found[form.name]) for form in failed}
            held_ |= {n: one for n, one in hold(failed, again).items() if one.ports is not None}
        others.learn(held_)
        out |= held_
    return Found(out if counts else _agreed(core, out, known.uops if known else {}), counts)


def _agreed(core: Core, found: dict[str, Uops], known: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return uops with as many places as most forms have whose uops compute on the same ports.

    What delivers code may hide some of them; known are those of forms without memory.
    """

    every = {**known, **found}
    like = {
        n: tuple(sorted(core.computing(one.ports or ()), key=sorted)) for n, one in every.items()
    }
    slots: dict[tuple[Ports, ...], Counter[int]] = defaultdict(Counter)
    for name, one in every.items():
        if len(like[name]) > 1:
            slots[like[name]][one.slots] += 1
    out = dict(found)
    for name, one in found.items():
        seen = slots[like[name]]
        for most, times in seen.most_common(1):
            if 2 * times > seen.total() > _FEW:
                out[name] = replace(one, slots=most)
    return out


def _numbers(form: Form, slots: int | None, latencies: Sequence[Latency]) -> Numbers:
    """Return how many uops a form may have; places are none where dispatch does not count them.

    A uop of memory and one that computes may share a place. What takes a cycle or more to its
    result needs one at least, also where dispatch hides it.
    """
    idle = _idle(form, latencies)
    if slots is None:
        return Numbers(0 if idle else 1)
    least = 0 if slots == 1 and idle else slots
    most = (_FUSED if form.memory else 1) * slots
    changing = form.memory and form.memory.read and form.memory.written
    return Numbers(least, max(most, _CHANGING) if changing else most)


def _counts(
    laboratory: Laboratory,
    core: Core,
    forms: Sequence[Form],
    spans: Mapping[str, int],
    slots: Mapping[str, Surplus],
    rates: Mapping[str, Throughput],
) -> bool:
    """Say whether places at dispatch are uops, of nearly all that blockers show several of."""
    several = [form for form in forms if core.class_of(form.name) is None]
    step = max(1, len(several) // _SAMPLE)
    votes: list[bool] = []
    for start in dict.fromkeys((0, step // 2)):
        votes += _votes(laboratory, core, several[start::step], spans, slots, rates)
        if not votes or not _DOUBT[0] < sum(votes) / len(votes) < _DOUBT[1]:
            break
    return sum(votes) > _SAID * len(votes)


def _votes(
    laboratory: Laboratory,
    core: Core,
    some: Sequence[Form],
    spans: Mapping[str, int],
    slots: Mapping[str, Surplus],
    rates: Mapping[str, Throughput],
) -> list[bool]:
    """Say of forms that blockers show several uops of whether places at dispatch are as many."""
    numbers = range(len(core.classes))
    asked = [
        Asked(form, core.classes[n].blocking, spans[form.name], rate=rates[form.name].cycles)
        for form in some
        for n in numbers
    ]
    answers = iter(blockers.measure(laboratory, asked))
    listed = Listed(core)
    counted = []
    for form in some:
        seen = [next(answers) for _ in numbers]
        uops = port_usage_search.counted(core, seen)
        if not uops or len(uops) < 2:
            continue
        taken = slots[form.name].uops or 0
        enough = Numbers(0, taken)
        cycles = rates[form.name].cycles
        case = Case(form, spans[form.name], taken, enough, cycles, seen=dict(enumerate(seen)))
        # Ports that are chosen badly look like uops more.
        counted.append(
            taken >= len(uops) or port_usage_search.bound_early(listed, core, case) is not None
        )
    return counted


def _slots(shown: Surplus) -> int:
    """Return how many places a form takes at dispatch, at least."""
    return 1 if isnan(shown.measured) else max(1, ceil(shown.measured - 0.5))


def _idle(form: Form, latencies: Sequence[Latency]) -> bool:
    """Say whether a form may need no port: its result is there at once, or it has none."""
    if not any(operand.written for operand in form.operands):
        return True
    known = [one for one in latencies if one.plain]
    return bool(known) and all(one.cycles == 0 for one in known)


def _of(core: Core, case: Case, slots: Surplus, counts: bool) -> Uops:
    """Return the uops of a form with its places at dispatch, or why they are not known."""
    uops = case.found
    if uops is None:
        doubt = any(one.uops is None for one in case.seen.values())
        why = "show no whole number of uops" if doubt else "contradict each other"
        return Uops(0, None, why=f"blockers of ports {why}")
    if not uops:
        return Uops(1 if counts else slots.uops or 1, (), why="no port is needed")
    if core.class_of(case.form.name) is not None and uops == (core.class_ports(case.form.name),):
        return Uops(1, uops, why="of a class")
    if counts:
        return Uops(slots.uops or 1, uops, why="by blockers and dispatch")
    # What is bound early seems to take more.
    most = len(core.computing(uops) if core.early_binding else uops)
    if slots.uops and abs(case.cycles * core.width - slots.uops) <= _ALONE * slots.uops:
        most = max(most, slots.uops)  # alone it takes just as long as dispatch of as many
    return Uops(max(1, min(slots.uops or most, most)), uops, why="by blockers")


def _counted(uops: Uops) -> Uops:
    """Return uops that take a place each."""
    return replace(uops, slots=len(uops.ports or ()))


def find_with_memory(
    laboratory: Laboratory,
    forms: Sequence[Form],
    core: Core,
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    slots: Mapping[str, Surplus],
    known: Found,
) -> dict[str, Uops]:
    """Return the uops of forms with memory; known are those of registers.

    Plain loads of vectors come first: what else loads vectors has the ports that they have.
    """
    load, store = core.class_ports(core.load), core.class_ports(core.store)
    out = {}
    for form in forms:
        if form.memory and ((form.memory.read and not load) or (form.memory.written and not store)):
            out[form.name] = Uops(0, None, why="no form that loads or stores alone is known")
    rest = [form for form in forms if form.name not in out]
    plain = [form for form in rest if form.name in laboratory.kit.LOADS.values()]
    floor = port_usage_check.floor(forms, rates, slots)
    for some in (plain, [form for form in rest if form not in plain]):
        found = find(laboratory, some, core, rates, latencies, slots, known, floor).uops
        out |= found
        core = replace(core, vector_loads=_vector_loads(core, plain, out))
        known = replace(known, uops=known.uops | found)
    return out


def _vector_loads(core: Core, forms: Sequence[Form], found: Mapping[str, Uops]) -> dict[int, Ports]:
    """Return the ports of loads to vectors by their bits, as far as such loads are one uop."""
    out: dict[int, Ports] = {}
    for form in forms:
        ports = found[form.name].ports or ()
        if len(ports) == 1 and core.accesses_memory(ports[0]):
            out |= {one.bits: ports[0] for one in form.chosen if one.kind == "vector"}
    return out


_STACK_TIMES = 3  # of each in a copy
_STACK_BYTES = 8
_STACK_NEAR = 0.08  # relative: how far what a copy takes may lie from what the rule says
_STACK_LATE = 0.15  # relative: by how much longer it may take beside changes of the stack pointer


def stack_uops(laboratory: Laboratory, core: Core) -> dict[str, Uops]:
    """Return the uops of pushes and pops, or why they are not known; nothing without the forms."""
    kit = laboratory.kit
    load, store = core.class_ports(core.load), core.class_ports(core.store)
    if not kit.PUSH or not load or not store:
        return {}
    pool = kit.POOLS["gpr"]
    pairs = [kit.stacked(pool.constant[0], pool.others[n]) for n in range(_STACK_TIMES)]
    (figure,) = laboratory.time([[push for push, _ in pairs] + [pop for _, pop in pairs]])
    said = max(
        bound_cycles(Counter([load, *core.store_uops] * _STACK_TIMES)),
        2 * _STACK_TIMES / core.width,
    )
    if figure and abs(figure.cycles - said) <= _STACK_NEAR * said:
        took = f"{_STACK_TIMES} pushes and pops take {figure.cycles:.2f} cycles"
        why = f"{took}, as stores and loads do"
        return {kit.PUSH: Uops(1, core.store_uops, why=why), kit.POP: Uops(1, (load,), why=why)}
    took = f"take {figure.cycles:.2f} cycles" if figure else f"were refused: {figure.refused}"
    both = f"{_STACK_TIMES} pushes and pops {took}, as many stores and loads {said:.2f}"
    pushes, pops = _stack_apart(kit, len(pool.others))
    return {
        kit.PUSH: _stack_alone(laboratory, core, "pushes", pushes, core.store_uops, both),
        kit.POP: _stack_alone(laboratory, core, "pops", pops, (load,), both),
    }


def _stack_alone(
    laboratory: Laboratory,
    core: Core,
    what: str,
    kernel: list[bytes],
    uops: Sequence[Ports],
    both: str,
) -> Uops:
    """Return the uops of pushes or pops where they take as long as these without the others."""
    (figure,) = laboratory.time([kernel])
    times = len(kernel) - 1
    said = max(bound_cycles(Counter([*uops] * times)), len(kernel) / core.width, 1.0)
    took = f"{times} {what} alone "
    if not figure:
        return Uops(0, None, why=f"{both}; {took}were refused: {figure.refused}")
    took += f"{figure.cycles:.2f}"
    if -_STACK_NEAR * said <= figure.cycles - said <= _STACK_LATE * said:
        return Uops(1, tuple(uops), why=f"{took}, as it is of stores and loads; {both}")
    return Uops(0, None, why=f"{took}, not {said:.2f}; {both}")


def stack_moves(kit: Kit) -> dict[str, list[bytes]]:
    """Return pops and pushes beside what changes the stack pointer otherwise, by what they are."""
    pushes, pops = _stack_apart(kit, 2)
    return {
        "pops behind a change of the stack pointer": pops,
        "pushes before a change of the stack pointer": pushes,
    }


def _stack_apart(kit: Kit, times: int) -> tuple[list[bytes], list[bytes]]:
    """Return so many pushes and so many pops, each with what moves the stack pointer back."""
    pool = kit.POOLS["gpr"]
    pairs = [kit.stacked(pool.constant[0], register) for register in pool.others[:times]]
    pushes, pops = ([pair[n] for pair in pairs] for n in range(2))
    size = _STACK_BYTES * times
    return [*pushes, kit.stack_moved(size)], [kit.stack_moved(-size), *pops]


def stack_latencies(
    kit: Kit, found: Mapping[str, Uops], known: Mapping[str, Sequence[Latency]]
) -> dict[str, Sequence[Latency]]:
    """Return the latencies of pushes and pops: from the address those of a plain load."""
    return {name: known[kit.LOAD] if name == kit.POP else () for name in found}
