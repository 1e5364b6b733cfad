"""x87 instructions: measured latencies of their arithmetic; all else as for vector instructions.

Microbenchmarks: chains of additions, products, quotients and register exchanges of the x87 stack,
between a load of an integer and a store to the same address, which makes iterations depend on each
other. The latency is the difference of a long and a short chain by their lengths. Ports and slots
are assumed to be those of scalar vector instructions, with a range of up to twice as many, and so
are other latencies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
class _Like:
    """Forms taken for a vector form: mnemonics, operands, and further accesses to memory."""

    vector: str
    chained: str  # the chain that measures the latency, or nothing
    mnemonics: Sequence[str]
    operands: Sequence[str]
    loads: bool = False
    stores: bool = False
    times: int = 1  # multiplier of all uops


def _arithmetic(vector: str, chained: str, names: Sequence[str]) -> Iterator[_Like]:
    every = [name for one in names for name in (one, f"{one}p")]
    yield _Like(vector, chained, every, [_PAIR])
    yield _Like(vector, chained, names, ["m32", "m64"], loads=True)


_FORMS: Sequence[_Like] = (
    *_arithmetic("addsd x,x", "fadd", ["fadd", "fsub", "fsubr"]),
    *_arithmetic("mulsd x,x", "fmul", ["fmul"]),
    *_arithmetic("divsd x,x", "fdiv", ["fdiv", "fdivr"]),
    _Like("comisd x,x", "", ["fcomi", "fcomip", "fucomi", "fucomip"], [_PAIR]),
    _Like("xorps x,x", "", ["fchs", "fabs", "fld1", "fldz"], [""]),
    _Like("xorps x,x", "", ["fld", "fstp"], ["other"]),
    _Like("", "", ["fld"], ["m32", "m64"], loads=True),
    _Like("", "", ["fld"], ["m80"], loads=True, times=2),
    _Like("cvtdq2pd x,x", "", ["fild"], ["m16", "m32", "m64"], loads=True),
    _Like("", "", ["fst", "fstp"], ["m32", "m64"], stores=True),
    _Like("", "", ["fstp"], ["m80"], stores=True, times=2),
    _Like("cvtpd2dq x,x", "", ["fist", "fistp"], ["m16", "m32", "m64"], stores=True),
)


def choose_x87(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with x87 forms; unchanged where no chain of them was timed."""
    if laboratory.isa != "x86_64":
        return learned
    bodies = [
        _SETUP + code * count + _ENDING for code in _CHAINED.values() for count in (_FEW, _MANY)
    ]
    figures = _time(laboratory, bodies)
    if not all(figures):
        return learned
    pairs = zip(figures[::2], figures[1::2], strict=True)
    cycles = {
        name: (many.cycles - few.cycles) / (_MANY - _FEW)
        for name, (few, many) in zip(_CHAINED, pairs, strict=True)
    }
    labels = [f"a chain of {count} {name}" for name in _CHAINED for count in (_FEW, _MANY)]
    timed = dict(zip(labels, figures, strict=True))
    found = replace(learned, figures={**learned.figures, **timed})
    for like in _FORMS:
        found = _with(found, like, cycles)
    return _exchanged(found, cycles["fxch"])


def _time(laboratory: Laboratory, bodies: Sequence[bytes]) -> list[Figure]:
    isa = laboratory.isa
    codes = [closed(isa, body) for body in bodies]
    timings = laboratory.timings([Trial(code, "loop", x87=True) for code in codes])
    return [Figure(one.cycles or 0.0, one.uncertainty, one.refused) for one in timings]


def _with(learned: CoreModel, like: _Like, cycles: dict[str, float]) -> CoreModel:
    core = learned.core
    vector = learned.uops.get(like.vector, Uops(1, ()))
    if vector.ports is None:
        return learned
    load = core.vector_loads.get(_VECTOR, core.class_ports(core.load))
    ports = vector.ports + ((load,) if like.loads and load else ()) + core.store_uops * like.stores
    uops = Uops(vector.slots * like.times, ports * like.times, vector.busy)
    computing = round(cycles[like.chained]) if like.chained else _vector_latency(learned, like)
    latencies = [Latency(ALL, ALL, computing, computing, 0.0)] if computing else []
    if like.loads:
        load_latency = computing + learned.accesses.loads.get("load_vector_cycles", 0)
        latencies.append(Latency(BASE, ALL, load_latency, load_latency, 0.0))
    names = [f"{one} {operand}".rstrip() for one in like.mnemonics for operand in like.operands]
    return _added(learned, names, uops, latencies, like)


def _vector_latency(learned: CoreModel, like: _Like) -> int:
    known = learned.latencies.get(like.vector, ())
    return max((one.cycles for one in known), default=0 if not like.vector else 1)


def _added(
    learned: CoreModel,
    names: Sequence[str],
    uops: Uops,
    latencies: Sequence[Latency],
    like: _Like,
) -> CoreModel:
    why = f"as {like.vector}" if like.vector else "as few uops as can be"
    chained = f", latency from a chain of {like.chained}" if like.chained else ""
    note = assumed(f"{why}{chained}")
    ports: tuple[Ports, ...] = (uops.ports or ()) * 2
    most = replace(uops, slots=2 * uops.slots, ports=ports)
    doubt = Doubt(uops, most, note, extra_latency=0 if like.chained else _EXTRA_LATENCY)
    stores = frozenset(names) if like.stores else frozenset()
    return replace(
        learned,
        uops={**learned.uops, **dict.fromkeys(names, replace(uops, why=note))},
        latencies={**learned.latencies, **dict.fromkeys(names, latencies)},
        doubts={**learned.doubts, **dict.fromkeys(names, doubt)},
        stores=learned.stores | stores,
    )


def _exchanged(learned: CoreModel, cycles: float) -> CoreModel:
    """Return the learned core with the register exchange, by rename or as a uop."""
    free = cycles <= _FREE_EXCHANGE
    latency = Latency(ALL, ALL, 0 if free else max(1, round(cycles)), cycles, 0.0)
    uops = Uops(1, () if free else (learned.core.all_arithmetic,))
    like = _Like("", "fxch", ["fxch"], [_PAIR])
    return _added(learned, [f"fxch {_PAIR}"], uops, [latency], like)
