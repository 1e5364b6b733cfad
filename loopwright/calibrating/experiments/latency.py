"""Latency from each operand that a form reads to each that it writes.

Asked: after how many cycles a result can be used. Kernel: a chain, the form and, where result and
operand cannot be one register, an instruction that carries the result back; all else that the form
waits for is given a new value before it. Answer: the cycles of a copy, less those of what carries.
From an address: what makes the base wait for what was loaded leaves its value, so that the chain
goes on reading one place. A form with memory takes between registers what its twin takes.
What crosses between kinds of registers is known as a round trip alone: that from general-purpose
registers to flags is taken to be 1 cycle, and trips to vectors to take as long as those from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopwright.calibrating import kernels
from loopwright.calibrating.forms.form import Form, Operand
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.laboratory import Figure, Laboratory

_WHOLE = 0.12  # cycles: how far from a whole number a latency may lie
_APART = 0.95  # share of a chain's cycles that its kernel takes without it, where the chain binds
_MOST_OPERANDS = 8
_BASE = "a"
ALL = "*"  # the target of a latency to all that is written


@dataclass(frozen=True)
class Latency:
    """Cycles from one operand to another by their labels, or why they are not known.

    bound says that it is no more than these: the kernel takes as long without the chain. twin names
    the form that they were measured of, if it was another.
    """

    source: str
    target: str
    cycles: int
    measured: float
    uncertainty: float
    bound: bool = False
    refused: str = ""
    twin: str = ""


@dataclass(frozen=True)
class _Chain:
    """Kernels in which the form waits for its own result, and in which it does not."""

    form: Form
    source: Operand
    target: Operand
    waiting: list[bytes]
    free: list[bytes]

    @property
    def notion(self) -> str:
        """Return how copies are repeated: the branch of a loop would come between flags."""
        return "unrolled" if self.source.kind == self.target.kind == "flags" else "loop"

    @property
    def of_address(self) -> bool:
        """Say whether it goes through the address of what the form loads."""
        return self.form.memory is not None and self.source.label == _BASE


def measure(laboratory: Laboratory, forms: Sequence[Form]) -> dict[str, list[Latency]]:
    """Return the latencies of each form, by its name."""
    carrying = _carrying(laboratory)
    out: dict[str, list[Latency]] = {form.name: [] for form in forms}
    chains = [chain(form, s, t) for form in forms for s, t in pairs(form)]
    for notion in ("loop", "unrolled"):
        some = [one for one in chains if one.notion == notion]
        waiting = laboratory.time([one.waiting for one in some], notion)
        free = laboratory.time([one.free for one in some], notion)
        for one, long, short in zip(some, waiting, free, strict=True):
            back = 0.0
            if one.of_address:
                back = carrying[one.target.kind, _BASE]
            elif one.source is not one.target:
                back = carrying[one.target.kind, one.source.kind]
            out[one.form.name].append(_latency(one, long, short, back))
    loads = [one for one in out.get(laboratory.kit.LOAD, []) if not one.refused and not one.bound]
    for form in forms:
        out[form.name] += _of_twin(form, out.get(form.twin, []))
        if loads and form.memory and form.memory.read and form.memory.written:
            out[form.name] += _of_update(form, loads[0], out.get(form.twin, []))
    return out


def _of_update(form: Form, load: Latency, known: Sequence[Latency]) -> list[Latency]:
    """Return the latency from an address to what is stored there: a load, then the twin."""
    named = {operand.label for operand in form.operands}
    some = [one for one in known if {one.source, one.target} - named and not one.refused]
    through = [one for one in some if one.source == one.target]
    if not through:
        return []
    most = max(through, key=lambda one: one.cycles)
    cycles = load.cycles + most.cycles
    error = (load.uncertainty**2 + most.uncertainty**2) ** 0.5
    said = f"{form.kit.LOAD} and {form.twin}"
    return [Latency(_BASE, ALL, cycles, float(cycles), error, most.bound, "", said)]


def _of_twin(form: Form, known: Sequence[Latency]) -> list[Latency]:
    """Return the latencies between registers of a form with memory."""
    read = {o.label for o in form.operands if o.read}
    written = {o.label for o in form.operands if o.written}
    return [
        replace(one, twin=form.twin)
        for one in known
        if one.source in read and one.target in written
    ]


def pairs(form: Form) -> list[tuple[Operand, Operand]]:
    """Return the pairs of operands that have a latency; none where they are too many to tell."""
    if len(form.operands) > _MOST_OPERANDS:
        return []
    every = [(s, t) for s in form.operands if s.read for t in form.operands if t.written]
    if form.memory is None:
        return every
    if form.memory.written:  # the next copy waits for what this one stores
        return []
    return [(s, t) for s, t in every if s.label == _BASE or not form.twin]


def chain(form: Form, source: Operand, target: Operand) -> _Chain:
    """Return the kernels of a pair of operands."""
    given = {}
    if source.kind != "flags" and source.fixed is None:
        given[source.label] = form.kit.POOLS[source.kind].back[0]
    if target.kind != "flags" and target.fixed is None and target is not source:
        given[target.label] = form.kit.POOLS[target.kind].back[1]
    numbers = kernels.registers(form, given)

    def number(operand: Operand) -> int:
        return operand.fixed if operand.fixed is not None else numbers.get(operand.label, 0)

    first, last = number(source), number(target)
    others = [
        o
        for o in form.operands
        if o.read and o.written and (o.kind, number(o)) != (source.kind, first)
    ]
    body = [*kernels.fresh(form.kit, others, numbers), form.encode(numbers)]
    cut = [*kernels.fresh(form.kit, [source], numbers), *body]
    if source is target or source.kind == target.kind == "flags":
        if source.kind != "flags" and source.fixed is None:
            instances = kernels.Instances()
            cut = [b"".join([*body[:-1], instances.of(form)]) for _ in range(6)]
            return _Chain(form, source, target, [b"".join(body)] * 6, cut)
        return _Chain(form, source, target, body, cut)
    if form.memory and source.label == _BASE:
        back = _hold(form.kit, target.kind, last, first)
    else:
        back = _carry(form.kit, target.kind, source.kind, last, first)
    # The branch of a loop writes flags: the value is in a register where copies meet.
    if source.kind == "flags":
        return _Chain(form, source, target, [*back, *body], [*back, *cut])
    return _Chain(form, source, target, [*body, *back], [*cut, *back])


def _carry(kit: Kit, source: str, target: str, read: int, write: int) -> list[bytes]:
    """Return what carries a value; between flags and vectors by way of a general register."""
    if (source, target) == ("flags", "gpr"):
        return [kit.set_anew("gpr", write), kit.carry(source, target, read, write)]
    if {source, target} == {"flags", "vector"}:
        middle = kit.POOLS["gpr"].own[-1]
        return [
            *_carry(kit, source, "gpr", read, middle),
            *_carry(kit, "gpr", target, middle, write),
        ]
    return [kit.carry(source, target, read, write)]


def _hold(kit: Kit, source: str, read: int, base: int) -> list[bytes]:
    """Return what makes the base of an address wait for a value."""
    if source == "gpr":
        return kit.hold(base, read)
    middle = kit.POOLS["gpr"].own[-1]
    return [*_carry(kit, source, "gpr", read, middle), *kit.hold(base, middle)]


def _carrying(laboratory: Laboratory) -> dict[tuple[str, str], float]:
    """Return the cycles of what carries values from kind to kind."""
    kit = laboratory.kit
    gpr, vector = kit.POOLS["gpr"].back, kit.POOLS["vector"].back
    there, here = gpr[0], vector[0]
    trips = {
        "gpr": [kit.carry("gpr", "gpr", *gpr), kit.carry("gpr", "gpr", *gpr[::-1])],
        "vector": [
            kit.carry("vector", "vector", *vector),
            kit.carry("vector", "vector", *vector[::-1]),
        ],
        "cross": [kit.carry("gpr", "vector", there, here), kit.carry("vector", "gpr", here, there)],
        "flags": [*_carry(kit, "gpr", "flags", there, 0), *_carry(kit, "flags", "gpr", 0, there)],
        "hold": [kit.carry("gpr", "gpr", *gpr), *kit.hold(gpr[0], gpr[1])],
    }
    figures = dict(zip(trips, laboratory.time(list(trips.values())), strict=True))
    cycles = {name: float(round(figure.cycles)) for name, figure in figures.items() if figure}
    nan = float("nan")
    to_vector = cycles.get("cross", nan) // 2
    from_vector = cycles.get("cross", nan) - to_vector
    to_flags, from_flags = 1.0, cycles.get("flags", nan) - 1.0
    hold = cycles.get("hold", nan) - cycles.get("gpr", nan) / 2
    return {
        ("gpr", _BASE): hold,
        ("vector", _BASE): from_vector + hold,
        ("flags", _BASE): from_flags + hold,
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


def _latency(one: _Chain, figure: Figure, free: Figure, back: float) -> Latency:
    copies = 6 if one.source is one.target and len(one.waiting) == 6 else 1
    cycles, error = figure.cycles / copies, figure.uncertainty / copies
    measured = cycles - back
    names = (one.source.label, one.target.label)
    if not figure or measured != measured:
        why = figure.refused or "what carries its result back is not known"
        return Latency(*names, 0, float("nan"), 0.0, refused=why)
    whole = abs(measured - round(measured)) <= max(_WHOLE, 3 * error)
    bound = not whole or not free or free.cycles / copies > _APART * cycles - _WHOLE
    value = round(measured) if whole else int(measured)
    return Latency(*names, max(value, 0), measured, error, bound)
