"""Latency chains: kernels in which an instruction waits for its own result.

There is a chain for each pair of operands. Where result and operand cannot be the same register, a
carrier instruction, whose latency depends on the two register kinds, transfers the result back. All
other dependencies of the form are broken before it. In a chain through an address, the base depends
on the loaded value and keeps its own, so that the chain goes on reading one address.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopwright.microbench import form_instances
from loopwright.microbench.forms import BASE, INDEX, Form, Kit, Operand
from loopwright.microbench.laboratory import Laboratory

_UPDATED = 16  # copies of a read-modify-write, before it changes an address again
# cycles, at most, of instructions by themselves: one that breaks a dependency, carriers within a
# register kind and between two, and the carriers that make a chain longer
_BREAKING, _CARRIER, _CROSSING_CARRIER, _PROLONGING_CARRIER = 0.5, 0.5, 1.0, 0.34
_MOST_OPERANDS = 8
COPIES = 6  # copies of a form whose result is its own operand
_MOVES = ("mov", "vmov", "fmov")


@dataclass(frozen=True)
class Chain:
    """Kernels in which the form waits for its own result, and in which it does not: waiting, free.

    other_cycles are those, at most, of all other instructions of the latter per copy of the form;
    copies is the number of copies of the form.
    """

    form: Form
    source: Operand
    target: Operand
    waiting: list[bytes]
    free: list[bytes]
    other_cycles: float
    copies: int = 1

    @property
    def direct(self) -> bool:
        """True if each copy's result is the next one's operand, with nothing between."""
        form, source, target = self.form, self.source, self.target
        return source is target or _direct(form, source, target) or _ringed(form, source, target)

    @property
    def repeated(self) -> bool:
        """True if it consists of copies of the form alone, each waiting for the last."""
        return self.direct and self.copies == COPIES

    @property
    def updates(self) -> bool:
        """True if it consists of read-modify-writes alone, which wait for a register."""
        plain = self.source is self.target and self.source.kind == "gpr"
        return plain and self.copies == len(self.waiting) == _UPDATED

    @property
    def prolongs(self) -> bool:
        """True if a longer chain can be made of it with more carriers."""
        return self.repeated or self.updates

    @property
    def swaps(self) -> bool:
        """True if the result of a copy is in another register than its operand."""
        return self.source is not self.target and not _direct(self.form, self.source, self.target)

    @property
    def notion(self) -> str:
        """The kernel's prediction kind: a loop's branch would disturb a chain of flags."""
        return "unrolled" if self.source.kind == self.target.kind == "flags" else "loop"

    @property
    def of_address(self) -> bool:
        """True if it goes through the address of a load."""
        return self.form.memory is not None and self.source.label == BASE


def pairs(form: Form) -> list[tuple[Operand, Operand]]:
    """Return the pairs of operands that have a latency; none if there are too many.

    The latency from an index is that from the base.
    """
    if len(form.operands) > _MOST_OPERANDS:
        return []
    candidates = [(s, t) for s in form.operands if s.read for t in form.operands if t.written]
    if form.memory is None:
        return candidates
    candidates = [(s, t) for s, t in candidates if s.label != INDEX]
    if form.memory.written:
        return [(s, t) for s, t in candidates if s.label != BASE]
    return [(s, t) for s, t in candidates if s.label == BASE or not form.twin]


def results(form: Form) -> list[Operand]:
    """Return the result of a form that reads registers and only writes another one; none of others.

    Moves are left out: their result waits for the source alone, and rename may eliminate them.
    """
    if form.memory or form.mnemonic.startswith(_MOVES) or not any(o.read for o in form.chosen):
        return []
    written = [operand for operand in form.chosen if operand.written]
    return [] if len(written) != 1 or written[0].read else written


def rewritten(form: Form) -> list[bytes]:
    """Return copies of a form that write one register, and read others that nothing writes."""
    return [form.encode(form_instances.registers_for(form, {}))] * COPIES


def chain(form: Form, source: Operand, target: Operand) -> Chain:
    """Return the kernels of a pair of operands."""
    given = {}
    if source.kind != "flags" and source.fixed is None:
        given[source.label] = form.kit.POOLS[source.kind].back[0]
    if target.kind != "flags" and target.fixed is None and target is not source:
        given[target.label] = form.kit.POOLS[target.kind].back[1]
    numbers = form_instances.registers_for(form, given)
    read, written = (form_instances.register_of(o, numbers) for o in (source, target))
    in_place = [
        o
        for o in form.operands
        if o.read and o.written
        if (o.kind, form_instances.register_of(o, numbers)) != (source.kind, read)
    ]
    if form.memory and form.memory.written:
        return _through_updates(form, source, target, numbers, in_place)
    if _ringed(form, source, target):
        return _ring_kernels(form, source, target, numbers)
    direct = _direct(form, source, target)
    if direct:  # one register is both
        numbers = form_instances.registers_for(form, {source.label: read, target.label: read})
    body = [*form_instances.break_dependencies(form.kit, in_place, numbers), form.encode(numbers)]
    cut = [*form_instances.break_dependencies(form.kit, [source], numbers), *body]
    if source is target or direct or source.kind == target.kind == "flags":
        if source.kind != "flags" and source.fixed is None:
            cut = _independent(form, body[:-1])
            waiting, others = [b"".join(body)] * COPIES, _BREAKING * (len(body) - 1)
            return Chain(form, source, target, waiting, cut, others, COPIES)
        return Chain(form, source, target, body, cut, _BREAKING * (len(cut) - 1))
    if form.memory and source.label == BASE:
        carriers = _make_dependent(form.kit, target.kind, written, read)
    else:
        carriers = transfer(form.kit, target.kind, source.kind, written, read)
    others = _BREAKING * (len(cut) - 1) + _carrier_bound(source, target) * len(carriers)
    # A loop's branch writes flags, so copies meet where the value is in a register.
    if source.kind == "flags":
        return Chain(form, source, target, [*carriers, *body], [*carriers, *cut], others)
    return Chain(form, source, target, [*body, *carriers], [*cut, *carriers], others)


def _carrier_bound(source: Operand, target: Operand) -> float:
    """Return the cycles, at most, of a carrier between two operands by itself."""
    return _CARRIER if source.kind == target.kind else _CROSSING_CARRIER


def _direct(form: Form, source: Operand, target: Operand) -> bool:
    """True if a result is the next copy's operand, without an idiom: another vector is read.

    Some additions have a cycle less between each other than from a carrier.
    """
    read = [operand for operand in form.chosen if operand.kind == "vector" and operand.read]
    vectors = source.kind == target.kind == "vector"
    return vectors and source is not target and not target.read and len(read) > 1


def _ringed(form: Form, source: Operand, target: Operand) -> bool:
    """True if two copies, each the other's operand, form a chain.

    A carrier of vectors may compute in the integer domain, which adds bypass delays. Moves of a
    whole register may be eliminated, and form no chain.
    """
    plain = form.memory is None and (target.read or not form.mnemonic.startswith(_MOVES))
    vectors = source.kind == target.kind == "vector"
    chosen = source in form.chosen and target in form.chosen and source is not target
    return plain and vectors and chosen and not _direct(form, source, target)


def _ring_kernels(
    form: Form, source: Operand, target: Operand, numbers: Mapping[str, int]
) -> Chain:
    """Return the kernels of two copies that are each the other's operand."""
    in_place = [o for o in form.chosen if o.read and o.written and o is not source]
    read, written = numbers[source.label], numbers[target.label]
    waiting = [
        b"".join([*form_instances.break_dependencies(form.kit, in_place, one), form.encode(one)])
        for one in (numbers, {**numbers, source.label: written, target.label: read})
    ]
    breaking = form_instances.break_dependencies(form.kit, [*in_place, source], numbers)
    free, others = _independent(form, breaking), _BREAKING * len(breaking)
    return Chain(form, source, target, waiting * (COPIES // 2), free, others, COPIES)


def _independent(form: Form, before: Sequence[bytes]) -> list[bytes]:
    """Return as many independent copies as are in a chain, each behind other instructions."""
    instances = form_instances.Instances()
    return [b"".join([*before, instances.of(form)]) for _ in range(COPIES)]


def _through_updates(
    form: Form,
    source: Operand,
    target: Operand,
    numbers: Mapping[str, int],
    in_place: Sequence[Operand],
) -> Chain:
    """Return the kernels of register operands of a read-modify-write, with an address per copy.

    A copy with the address of the previous one would wait for its store.
    """
    kit = form.kit
    read, written = (form_instances.register_of(o, numbers) for o in (source, target))
    same = source is target or source.kind == target.kind == "flags"
    carriers = [] if same else transfer(kit, target.kind, source.kind, written, read)
    breaking = form_instances.break_dependencies(kit, in_place, numbers)
    cut = [*form_instances.break_dependencies(kit, [source], numbers), *breaking]
    updates = [
        form.encode({**numbers, **form_instances.address_of(form, n)}) for n in range(_UPDATED)
    ]
    waiting = [code for update in updates for code in (*carriers, *breaking, update)]
    free = [code for update in updates for code in (*carriers, *cut, update)]
    others = _BREAKING * len(cut) + _carrier_bound(source, target) * len(carriers)
    return Chain(form, source, target, waiting, free, others, _UPDATED)


def transfer(kit: Kit, source: str, target: str, read: int, write: int) -> list[bytes]:
    """Return carriers of a value; between flags and vectors they go through a general register."""
    if (source, target) == ("flags", "gpr"):
        return [kit.break_dependency("gpr", write), kit.transfer(source, target, read, write)]
    if {source, target} == {"flags", "vector"}:
        middle = kit.POOLS["gpr"].own[-1]
        return [
            *transfer(kit, source, "gpr", read, middle),
            *transfer(kit, "gpr", target, middle, write),
        ]
    return [kit.transfer(source, target, read, write)]


def _make_dependent(kit: Kit, source: str, read: int, base: int) -> list[bytes]:
    """Return instructions that make an address's base depend on a value of a register kind."""
    if source == "gpr":
        return kit.make_dependent(base, read)
    middle = kit.POOLS["gpr"].own[-1]
    return [*transfer(kit, source, "gpr", read, middle), *kit.make_dependent(base, middle)]


def prolonged(chain: Chain, times: int) -> Chain:
    """Return a chain with so many carriers in each link, and no kernel without it."""
    kind, kit = chain.source.kind, chain.form.kit
    first, other = kit.POOLS[kind].back
    register = first if chain.source.fixed is None else chain.source.fixed
    there = kit.transfer(kind, kind, register, other)
    back = kit.transfer(kind, kind, other, register)
    carriers = [(there, back)[(n + chain.swaps) % 2] for n in range(times)]
    links = chain.waiting if chain.updates else chain.waiting[:1]
    waiting = [code for link in links for code in (link, *carriers)]
    others = chain.other_cycles + _PROLONGING_CARRIER * times
    return Chain(chain.form, chain.source, chain.target, waiting, [], others, len(links))


def measure_carriers(laboratory: Laboratory) -> dict[tuple[str, str], float]:
    """Return the latency of carriers by register kinds, in cycles."""
    kit = laboratory.kit
    gpr, vector = kit.POOLS["gpr"].back, kit.POOLS["vector"].back
    general = gpr[0]
    round_trips = {
        "gpr": [kit.transfer("gpr", "gpr", *gpr), kit.transfer("gpr", "gpr", *gpr[::-1])],
        "vector": [
            kit.transfer("vector", "vector", *vector),
            kit.transfer("vector", "vector", *vector[::-1]),
        ],
        "cross": [
            kit.transfer("gpr", "vector", general, vector[0]),
            kit.transfer("vector", "gpr", vector[0], general),
        ],
        "flags": [
            *transfer(kit, "gpr", "flags", general, 0),
            *transfer(kit, "flags", "gpr", 0, general),
        ],
        "sums": [kit.add_with_carry(general)],
        "summed": [kit.add_with_carry(general), *transfer(kit, "flags", "gpr", 0, general)],
        "hold": [kit.transfer("gpr", "gpr", *gpr), *kit.make_dependent(gpr[0], gpr[1])],
    }
    figures = dict(zip(round_trips, laboratory.time(list(round_trips.values())), strict=True))
    cycles = {name: float(round(figure.cycles)) for name, figure in figures.items() if figure}
    nan = float("nan")
    to_vector = cycles.get("cross", nan) // 2
    from_vector = cycles.get("cross", nan) - to_vector
    to_flags = 1.0
    if cycles.get("sums") == 1.0 and "summed" in cycles:
        # An add with carry takes a cycle by each way, so the rest of the round trip is the way from
        # flags.
        to_flags = cycles.get("flags", nan) - (cycles["summed"] - 1.0)
    from_flags = cycles.get("flags", nan) - to_flags
    hold = cycles.get("hold", nan) - cycles.get("gpr", nan) / 2
    return {
        ("gpr", BASE): hold,
        ("vector", BASE): from_vector + hold,
        ("flags", BASE): from_flags + hold,
        ("gpr", "gpr"): cycles.get("gpr", nan) / 2,
        ("vector", "vector"): cycles.get("vector", nan) / 2,
        ("gpr", "vector"): to_vector,
        ("vector", "gpr"): from_vector,
        ("gpr", "flags"): to_flags,
        ("flags", "gpr"): from_flags,
        ("flags", "flags"): 0.0,
        ("flags", "vector"): from_flags + to_vector,
        ("vector", "flags"): from_vector + to_flags,
    }


def carrier_cycles(chain: Chain, carriers: Mapping[tuple[str, str], float]) -> float:
    """Return the cycles of the carriers of a chain."""
    if chain.of_address:
        return carriers[chain.target.kind, BASE]
    return 0.0 if chain.direct else carriers[chain.target.kind, chain.source.kind]
