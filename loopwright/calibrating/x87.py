"""x87 instructions: measured latencies of their arithmetic; all else as for vector instructions.

Microbenchmarks: chains of additions, products, quotients and register exchanges of the x87 stack,
between a load of an integer and a store to the same address, which makes iterations depend on each
other. The latency is the difference of a long and a short chain by their lengths. Ports and slots
are assumed to be those of scalar vector instructions, with a range of up to twice as many, and so
are other latencies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from loopwright.calibrating.core_model import CoreModel, assumed
from loopwright.calibrating.ports import Doubt, Ports, Uops
from loopwright.microbench.forms import BASE
from loopwright.microbench.laboratory import Figure, Laboratory, closed
from loopwright.microbench.latency import ALL, Latency
from loopwright.microbench.oracle import Trial

_PAIR = "other,other"  # operands in two registers of the stack
_FEW, _MANY = 8, 32  # instructions of a short and of a long chain
_SETUP = bytes.fromhex("d9e8 41db4640")  # fld1; fild dword ptr [r14 + 64]
_ENDING = bytes.fromhex("41db5e40 ddd8")  # fistp dword ptr [r14 + 64]; fstp st(0)
_CHAINED = {
    "fadd": bytes.fromhex("d8c1"),  # fadd st(0), st(1)
    "fmul": bytes.fromhex("d8c9"),
    "fdiv": bytes.fromhex("d8f1"),
    "fxch": bytes.fromhex("d9c9"),  # fxch st(1)
}
_VECTOR = 128  # width of the vector loads that x87 loads are taken for
_EXTRA_LATENCY = 4  # cycles by which a latency may exceed the assumed one
_FREE_EXCHANGE = 0.5  # cycles of an exchange, at most, that rename performs


@dataclass(frozen=True)
class _Group:
    """A group of forms that are taken for a vector form, with further accesses to memory."""

    vector: str
    chained: str  # the chain that measures the latency, or nothing
    mnemonics: Sequence[str]
    operands: Sequence[str]
    loads: bool = False
    stores: bool = False
    times: int = 1  # multiplier of all uops


def _arithmetic(vector: str, chained: str, names: Sequence[str]) -> Iterator[_Group]:
    """Yield the groups of operations on the stack, which may pop it, and on memory."""
    yield _Group(vector, chained, [name + pop for name in names for pop in ("", "p")], [_PAIR])
    yield _Group(vector, chained, names, ["m32", "m64"], loads=True)


_GROUPS: Sequence[_Group] = (
    *_arithmetic("addsd x,x", "fadd", ["fadd", "fsub", "fsubr"]),
    *_arithmetic("mulsd x,x", "fmul", ["fmul"]),
    *_arithmetic("divsd x,x", "fdiv", ["fdiv", "fdivr"]),
    _Group("comisd x,x", "", ["fcomi", "fcomip", "fucomi", "fucomip"], [_PAIR]),
    _Group("xorps x,x", "", ["fchs", "fabs", "fld1", "fldz"], [""]),
    _Group("xorps x,x", "", ["fld", "fstp"], ["other"]),
    _Group("", "", ["fld"], ["m32", "m64"], loads=True),
    _Group("", "", ["fld"], ["m80"], loads=True, times=2),
    _Group("cvtdq2pd x,x", "", ["fild"], ["m16", "m32", "m64"], loads=True),
    _Group("", "", ["fst", "fstp"], ["m32", "m64"], stores=True),
    _Group("", "", ["fstp"], ["m80"], stores=True, times=2),
    _Group("cvtpd2dq x,x", "", ["fist", "fistp"], ["m16", "m32", "m64"], stores=True),
)


def choose_x87(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with x87 forms; unchanged where no chain of them was timed."""
    if laboratory.isa != "x86_64":
        return learned
    chains = list(product(_CHAINED, (_FEW, _MANY)))
    bodies = [_SETUP + _CHAINED[name] * count + _ENDING for name, count in chains]
    figures = _time_bodies(laboratory, bodies)
    if not all(figures):
        return learned
    timed = dict(zip(chains, figures, strict=True))
    cycles = {
        name: (timed[name, _MANY].cycles - timed[name, _FEW].cycles) / (_MANY - _FEW)
        for name in _CHAINED
    }
    labelled = {f"a chain of {count} {name}": figure for (name, count), figure in timed.items()}
    learned = replace(learned, figures={**learned.figures, **labelled})
    for group in _GROUPS:
        learned = _with_group(learned, group, cycles)
    return _with_exchange(learned, cycles["fxch"])


def _time_bodies(laboratory: Laboratory, bodies: Sequence[bytes]) -> list[Figure]:
    """Time loops of x87 instructions."""
    trials = [Trial(closed(laboratory.isa, body), "loop", x87=True) for body in bodies]
    timings = laboratory.timings(trials)
    return [Figure(one.cycles or 0.0, one.uncertainty, one.refused) for one in timings]


def _with_group(learned: CoreModel, group: _Group, cycles: dict[str, float]) -> CoreModel:
    """Return the learned core with a group of forms; cycles are latencies by chain."""
    core = learned.core
    vector = learned.uops.get(group.vector, Uops(1, ()))
    if vector.ports is None:
        return learned
    load = core.vector_loads.get(_VECTOR, core.class_ports(core.load))
    ports = (
        vector.ports + ((load,) if group.loads and load else ()) + core.store_uops * group.stores
    )
    uops = Uops(vector.slots * group.times, ports * group.times, vector.busy)
    computing = round(cycles[group.chained]) if group.chained else _vector_latency(learned, group)
    latencies = [Latency(ALL, ALL, computing, computing, 0.0)] if computing else []
    if group.loads:
        load_latency = computing + learned.accesses.loads.get("load_vector_cycles", 0)
        latencies.append(Latency(BASE, ALL, load_latency, load_latency, 0.0))
    names = [f"{one} {operand}".rstrip() for one in group.mnemonics for operand in group.operands]
    return _with_forms(learned, names, uops, latencies, group)


def _vector_latency(learned: CoreModel, group: _Group) -> int:
    """Return the latency of the vector form of a group, 0 without one, 1 if it is unknown."""
    latencies = learned.latencies.get(group.vector, ())
    return max((one.cycles for one in latencies), default=1 if group.vector else 0)


def _with_forms(
    learned: CoreModel,
    names: Sequence[str],
    uops: Uops,
    latencies: Sequence[Latency],
    group: _Group,
) -> CoreModel:
    """Return the learned core with forms of a group, and their range."""
    why = f"as {group.vector}" if group.vector else "as few uops as can be"
    chained = f", latency from a chain of {group.chained}" if group.chained else ""
    note = assumed(f"{why}{chained}")
    ports: tuple[Ports, ...] = (uops.ports or ()) * 2
    most = replace(uops, slots=2 * uops.slots, ports=ports)
    doubt = Doubt(uops, most, note, extra_latency=0 if group.chained else _EXTRA_LATENCY)
    stores = frozenset(names) if group.stores else frozenset()
    return replace(
        learned,
        uops={**learned.uops, **dict.fromkeys(names, replace(uops, why=note))},
        latencies={**learned.latencies, **dict.fromkeys(names, latencies)},
        doubts={**learned.doubts, **dict.fromkeys(names, doubt)},
        stores=learned.stores | stores,
    )


def _with_exchange(learned: CoreModel, cycles: float) -> CoreModel:
    """Return the learned core with the register exchange, by rename or as a uop."""
    free = cycles <= _FREE_EXCHANGE
    latency = Latency(ALL, ALL, 0 if free else max(1, round(cycles)), cycles, 0.0)
    uops = Uops(1, () if free else (learned.core.all_arithmetic,))
    group = _Group("", "fxch", ["fxch"], [_PAIR])
    return _with_forms(learned, [f"fxch {_PAIR}"], uops, [latency], group)
