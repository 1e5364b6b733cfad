"""Latency chains: kernels in which an instruction waits for its own result.

There is one for each pair of operands. Where result and operand cannot be one register, an
instruction carries the result back, in cycles that depend on the kinds of both; all else that the
form waits for is given a new value before it. To an address: what makes its base wait for a value
leaves it as it is, so that the chain goes on reading one place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopwright.microbench import form_instances
from loopwright.microbench.forms import BASE, INDEX, Form, Kit, Operand
from loopwright.microbench.laboratory import Laboratory

_UPDATED = 16  # copies of what changes memory, before it changes a place again
_ONE, _CROSSING = 0.5, 1.0  # cycles at most of what gives new values or carries them, by itself
_FEW = 0.34  # the same of what carries within a kind
_MOST_OPERANDS = 8
TURNS = 6  # copies of a form whose result is its own operand
_MOVES = ("mov", "vmov", "fmov")


@dataclass(frozen=True)
class Chain:
    """Kernels in which the form waits for its own result, and in which it does not.

    others are the cycles that all else in the latter takes at most, for each of so many copies of
    the form.
    """

    form: Form
    source: Operand
    target: Operand
    waiting: list[bytes]
    free: list[bytes]
    others: float
    copies: int = 1

    @property
    def direct(self) -> bool:
        """Say whether the result of each copy is the operand of the next, and nothing between."""
        form, source, target = self.form, self.source, self.target
        return source is target or _direct(form, source, target) or _ringed(form, source, target)

    @property
    def repeated(self) -> bool:
        """Say whether it has copies of the form alone, of which each waits for the one before."""
        return self.direct and self.copies == TURNS

    @property
    def updates(self) -> bool:
        """Say whether copies are of a form alone that changes memory and waits for a register."""
        plain = self.source is self.target and self.source.kind == "gpr"
        return plain and self.copies == len(self.waiting) == _UPDATED

    @property
    def prolongs(self) -> bool:
        """Say whether a longer chain can be made of it, which has more of what carries."""
        return self.repeated or self.updates

    @property
    def swaps(self) -> bool:
        """Say whether a copy has its result in another register than its operand."""
        return self.source is not self.target and not _direct(self.form, self.source, self.target)

    @property
    def notion(self) -> str:
        """Return how copies are repeated: the branch of a loop would come between flags."""
        return "unrolled" if self.source.kind == self.target.kind == "flags" else "loop"

    @property
    def of_address(self) -> bool:
        """Say whether it goes through the address of what the form loads."""
        return self.form.memory is not None and self.source.label == BASE


def pairs(form: Form) -> list[tuple[Operand, Operand]]:
    """Return the pairs of operands that have a latency; none where they are too many to tell.

    From an index a loaded value takes as long as from the base.
    """
    if len(form.operands) > _MOST_OPERANDS:
        return []
    every = [(s, t) for s in form.operands if s.read for t in form.operands if t.written]
    if form.memory is None:
        return every
    every = [(s, t) for s, t in every if s.label != INDEX]
    if form.memory.written:
        return [(s, t) for s, t in every if s.label != BASE]
    return [(s, t) for s, t in every if s.label == BASE or not form.twin]


def results(form: Form) -> list[Operand]:
    """Return the result of a form that reads registers and only writes another, none of others.

    Moves are left out: what moves a register waits for it alone, and may be gone at rename.
    """
    if form.memory or form.mnemonic.startswith(_MOVES) or not any(o.read for o in form.chosen):
        return []
    written = [one for one in form.chosen if one.written]
    return [] if len(written) != 1 or written[0].read else written


def rewritten(form: Form) -> list[bytes]:
    """Return copies of a form that write one register, and read others that are never written."""
    return [form.encode(form_instances.registers(form, {}))] * TURNS


def chain(form: Form, source: Operand, target: Operand) -> Chain:
    """Return the kernels of a pair of operands."""
    given = {}
    if source.kind != "flags" and source.fixed is None:
        given[source.label] = form.kit.POOLS[source.kind].back[0]
    if target.kind != "flags" and target.fixed is None and target is not source:
        given[target.label] = form.kit.POOLS[target.kind].back[1]
    numbers = form_instances.registers(form, given)

    def number(operand: Operand) -> int:
        return operand.fixed if operand.fixed is not None else numbers.get(operand.label, 0)

    first, last = number(source), number(target)
    others = [
        o
        for o in form.operands
        if o.read and o.written and (o.kind, number(o)) != (source.kind, first)
    ]
    if form.memory and form.memory.written:
        return _through_updates(form, source, target, numbers, others)
    if _ringed(form, source, target):
        return _ring(form, source, target, numbers)
    direct = _direct(form, source, target)
    if direct:  # one register is both
        numbers = form_instances.registers(form, {source.label: first, target.label: first})
    body = [*form_instances.fresh(form.kit, others, numbers), form.encode(numbers)]
    cut = [*form_instances.fresh(form.kit, [source], numbers), *body]
    if source is target or direct or source.kind == target.kind == "flags":
        if source.kind != "flags" and source.fixed is None:
            cut = _free(form, body[:-1])
            more = _ONE * (len(body) - 1)
            return Chain(form, source, target, [b"".join(body)] * TURNS, cut, more, TURNS)
        return Chain(form, source, target, body, cut, _ONE * (len(cut) - 1))
    if form.memory and source.label == BASE:
        back = _hold(form.kit, target.kind, last, first)
    else:
        back = carry(form.kit, target.kind, source.kind, last, first)
    each = _ONE if source.kind == target.kind else _CROSSING
    more = _ONE * (len(cut) - 1) + each * len(back)
    # The branch of a loop writes flags: the value is in a register where copies meet.
    if source.kind == "flags":
        return Chain(form, source, target, [*back, *body], [*back, *cut], more)
    return Chain(form, source, target, [*body, *back], [*cut, *back], more)


def _direct(form: Form, source: Operand, target: Operand) -> bool:
    """Say whether a result is the next copy's operand, and no idiom: another vector is read, too.

    Some additions take a cycle less from each other than from what would carry the result.
    """
    read = [one for one in form.chosen if one.kind == "vector" and one.read]
    kinds = source.kind == target.kind == "vector"
    return kinds and source is not target and not target.read and len(read) > 1


def _ringed(form: Form, source: Operand, target: Operand) -> bool:
    """Say whether two copies of a form, each the other's operand, are a chain by themselves.

    What carries a vector may compute in integers, and wait for floating point and back. Moves of
    all of a register may be gone at rename, and are no chain.
    """
    plain = form.memory is None and (target.read or not form.mnemonic.startswith(_MOVES))
    kinds = source.kind == target.kind == "vector"
    chosen = source in form.chosen and target in form.chosen and source is not target
    return plain and kinds and chosen and not _direct(form, source, target)


def _ring(form: Form, source: Operand, target: Operand, numbers: Mapping[str, int]) -> Chain:
    """Return the kernels of such a pair of operands."""
    others = [o for o in form.chosen if o.read and o.written and o is not source]
    first, last = numbers[source.label], numbers[target.label]
    waiting = [
        b"".join([*form_instances.fresh(form.kit, others, one), form.encode(one)])
        for one in (numbers, {**numbers, source.label: last, target.label: first})
    ]
    anew = form_instances.fresh(form.kit, [*others, source], numbers)
    more = _ONE * len(anew)
    return Chain(form, source, target, waiting * (TURNS // 2), _free(form, anew), more, TURNS)


def _free(form: Form, before: Sequence[bytes]) -> list[bytes]:
    """Return as many copies as are in a chain that do not wait for each other."""
    instances = form_instances.Instances()
    return [b"".join([*before, instances.of(form)]) for _ in range(TURNS)]


def _through_updates(
    form: Form,
    source: Operand,
    target: Operand,
    numbers: Mapping[str, int],
    others: Sequence[Operand],
) -> Chain:
    """Return the kernels of registers of what changes memory, another place in each copy.

    Where each copy changed the same place, it would wait for what the one before it stored.
    """
    kit = form.kit
    read, written = (
        one.fixed if one.fixed is not None else numbers.get(one.label, 0)
        for one in (source, target)
    )
    same = source is target or source.kind == target.kind == "flags"
    back = [] if same else carry(kit, target.kind, source.kind, written, read)
    anew, cut = (
        form_instances.fresh(kit, others, numbers),
        form_instances.fresh(kit, [source], numbers),
    )
    tested = [form.encode({**numbers, **form_instances.place(form, n)}) for n in range(_UPDATED)]
    waiting = [one for code in tested for one in (*back, *anew, code)]
    free = [one for code in tested for one in (*back, *cut, *anew, code)]
    each = _ONE if source.kind == target.kind else _CROSSING
    more = _ONE * len([*cut, *anew]) + each * len(back)
    return Chain(form, source, target, waiting, free, more, _UPDATED)


def carry(kit: Kit, source: str, target: str, read: int, write: int) -> list[bytes]:
    """Return what carries a value; between flags and vectors by way of a general register."""
    if (source, target) == ("flags", "gpr"):
        return [kit.set_anew("gpr", write), kit.carry(source, target, read, write)]
    if {source, target} == {"flags", "vector"}:
        middle = kit.POOLS["gpr"].own[-1]
        return [
            *carry(kit, source, "gpr", read, middle),
            *carry(kit, "gpr", target, middle, write),
        ]
    return [kit.carry(source, target, read, write)]


def _hold(kit: Kit, source: str, read: int, base: int) -> list[bytes]:
    """Return what makes the base of an address wait for a value."""
    if source == "gpr":
        return kit.hold(base, read)
    middle = kit.POOLS["gpr"].own[-1]
    return [*carry(kit, source, "gpr", read, middle), *kit.hold(base, middle)]


def prolonged(one: Chain, times: int) -> Chain:
    """Return a chain in which so many instructions carry the value on."""
    kind, kit = one.source.kind, one.form.kit
    first, other = kit.POOLS[kind].back
    register = first if one.source.fixed is None else one.source.fixed
    there = kit.carry(kind, kind, register, other)
    again = kit.carry(kind, kind, other, register)
    carried = [(there, again)[(n + one.swaps) % 2] for n in range(times)]
    links = one.waiting if one.updates else one.waiting[:1]
    waiting = [code for link in links for code in (link, *carried)]
    others = one.others + _FEW * times
    return Chain(one.form, one.source, one.target, waiting, [], others, len(links))


def measure_carriers(laboratory: Laboratory) -> dict[tuple[str, str], float]:
    """Return the cycles of what carries values from kind to kind."""
    kit = laboratory.kit
    gpr, vector = kit.POOLS["gpr"].back, kit.POOLS["vector"].back
    there, here = gpr[0], vector[0]
    round_trips = {
        "gpr": [kit.carry("gpr", "gpr", *gpr), kit.carry("gpr", "gpr", *gpr[::-1])],
        "vector": [
            kit.carry("vector", "vector", *vector),
            kit.carry("vector", "vector", *vector[::-1]),
        ],
        "cross": [kit.carry("gpr", "vector", there, here), kit.carry("vector", "gpr", here, there)],
        "flags": [
            *carry(kit, "gpr", "flags", there, 0),
            *carry(kit, "flags", "gpr", 0, there),
        ],
        "sums": [kit.add_with_carry(there)],
        "summed": [kit.add_with_carry(there), *carry(kit, "flags", "gpr", 0, there)],
        "hold": [kit.carry("gpr", "gpr", *gpr), *kit.hold(gpr[0], gpr[1])],
    }
    figures = dict(zip(round_trips, laboratory.time(list(round_trips.values())), strict=True))
    cycles = {name: float(round(figure.cycles)) for name, figure in figures.items() if figure}
    nan = float("nan")
    to_vector = cycles.get("cross", nan) // 2
    from_vector = cycles.get("cross", nan) - to_vector
    to_flags = 1.0
    if cycles.get("sums") == 1.0 and "summed" in cycles:
        # A sum takes a cycle by each way, so that the rest of the round trip is the way from flags.
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


def carrier_cycles(one: Chain, carrying: Mapping[tuple[str, str], float]) -> float:
    """Return the cycles of what carries a result back."""
    if one.of_address:
        return carrying[one.target.kind, BASE]
    return 0.0 if one.direct else carrying[one.target.kind, one.source.kind]
