"""Memory microbenchmarks: loads, forwarding, banks, splits and 4 KiB aliasing.

Banks of the cache: loads of one word of which too many cannot start in one cycle.

Asked: how many loads of a cycle can read one word, and how large a word is. Kernels: loads of one
place, of a line and a word each, and of bytes of which one or two lie together and one lies further
on. Answer: the cycles of a load; where those of one place take no longer, no word is known.

Kernels of stores and loads of one place, and of loads that give addresses.

Loads and what they take from stores.

Asked: after how many cycles a loaded value can be used, sooner where a load gave the address, and
when a load can be used that reads what was stored just before. Kernels: a load whose own result is
its address; a store and a load of one place, through which a value goes round, by width, by
address and by part of what was stored; an addition to memory. Answer: the cycles of a copy. All
memory holds pointers.

A value that comes back as if it had stayed in its register is renamed. Where it is not, the stack
pointer is tried as the base, and loops of few such pairs, whose stores a core may predict.

Loads whose address has the low 12 bits of a store's just before, and is another.

Asked: what it costs that they look alike. Kernels: a store and a load of another place, in a chain
through the register that is stored, and free of each other; the load lies 4 KiB on, and 4 KiB and a
line. Answer: the cycles that the one takes longer than the other, nothing on some cores.

Loads and stores that cross a boundary, lie side by side, or meet in part.

Asked: what an access across a boundary costs, which stores are written to the cache together, and
what a load takes that reads a part of what a store stored, or more. Kernels: accesses of places
that differ in this alone, by what they show; no single one tells a rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.microbench import form_instances
from loopwright.microbench.forms import Form, Kit, Operand
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.latency import Latency, of_address

_LOADS = 6  # loads of a kernel
_LINE = 64  # bytes
_WORD = 8  # bytes
_BANK_CONFLICT = 1.2  # times that loads of one place take
_TOGETHER = (1, 2)
_BANK_STEPS = (2, 4, 8, 16, 32)  # bytes
_ONE_PLACE, _LINE_EACH = "loads of one place", "loads of a line each"


@dataclass(frozen=True)
class Banks:
    """So many loads of a cycle can read one word of so many bytes; what that rests on."""

    loads: int
    bytes: int | None
    said: str


def bank_kernels(load: Form, narrow: Form | None) -> dict[str, list[bytes]]:
    """Return kernels by what they show; narrow loads a byte."""
    places = {_ONE_PLACE: [0] * _LOADS, _LINE_EACH: [(_LINE + _WORD) * n for n in range(_LOADS)]}
    out = {name: loads(load, some) for name, some in places.items()}
    if narrow:
        for together in _TOGETHER:
            for step in _BANK_STEPS:
                some = [*[0] * together, step] * (_LOADS // (together + 1))
                out[_bank_name(together, step)] = loads(narrow, some)
    return out


def banks_of(figures: Mapping[str, Figure]) -> Banks | None:
    """Return what figures of the kernels say, None where no word was seen."""
    one, apart = figures.get(_ONE_PLACE), figures.get(_LINE_EACH)
    if not one or not apart or one.cycles <= _BANK_CONFLICT * apart.cycles:
        return None
    loads = round(_LOADS / one.cycles)
    said = f"{_LOADS} {_ONE_PLACE} take {one.cycles:.1f} cycles, {_LINE_EACH} {apart.cycles:.1f}"
    if loads not in _TOGETHER:
        return None
    best = max(apart.cycles / _LOADS, 1 / (2 * loads))
    between = (one.cycles / _LOADS + best) / 2
    others = [
        step
        for step in _BANK_STEPS
        if (other := figures.get(_bank_name(loads, step))) and other.cycles / _LOADS < between
    ]
    return Banks(loads, others[0] if others else None, said)


def _bank_name(together: int, step: int) -> str:
    return f"loads of a byte, one of {together + 1} {step} bytes on"


def loads(form: Form, places: Sequence[int]) -> list[bytes]:
    """Return loads of these places to different registers."""
    (result,) = (one for one in form.chosen if one.written)
    pool = form_instances.registers_of(form, result.kind, alone=True)
    return [
        form.encode({**form_instances.registers(form, {result.label: register}), "disp": place})
        for register, place in zip(pool, places, strict=False)
    ]


def _value(form: Form) -> Operand:
    """Return the register of a form with memory that is no part of the address."""
    (found,) = (o for o in form.chosen if o.label not in ("a", "x"))
    return found


def forward_pair(
    store: Form,
    load: Form,
    at: Mapping[str, int] | None = None,
    of: Mapping[str, int] | None = None,
) -> list[bytes]:
    """Return a store and a load through one register, of the same place but for `of`."""
    base = store.kit.POOLS["gpr"].constant[0]
    stored = _value(store)
    (result,) = (o for o in load.chosen if o.written)
    register = store.kit.POOLS[stored.kind].back[0]
    place = {"a": base, **(at or {})}
    return [
        store.encode({stored.label: register, **place}),
        load.encode({result.label: register, **place, **(of or {})}),
    ]


def stores(form: Form, places: Sequence[int]) -> list[bytes]:
    """Return stores of these places, of what nothing writes."""
    base, constant = form.kit.POOLS["gpr"].constant[:2]
    given = {_value(form).label: constant, "a": base}
    return [form.encode({**given, "disp": place}) for place in places]


def memory_update(form: Form, at: Mapping[str, int]) -> bytes:
    """Return what changes a place by something that nothing writes."""
    base, constant = form.kit.POOLS["gpr"].constant
    return form.encode({_value(form).label: constant, "a": base, **at})


def pointer_chase(load: Form) -> bytes:
    """Return a load of a register from where it points to."""
    (result,) = (o for o in load.chosen if o.written)
    register = load.kit.POOLS["gpr"].back[0]
    return load.encode({result.label: register, "a": register})


_RENAMED = 2.5  # cycles: less than any way through a cache
STEPS = (1, 2, 4, 8)  # bytes from a place that is aligned
FAR = 4088  # bytes: further than any core renames that does not rename them all
BY_STACK = ", by the stack pointer"
_NEIGHBOURS = 3  # numbers of pairs that are tried where one has no one speed
_PAIRS = 40  # of loops that timing takes for other figures: no core predicts so many


@dataclass(frozen=True)
class Access:
    """A figure of memory: cycles as measured, or why there are none."""

    name: str
    figure: Figure

    @property
    def cycles(self) -> int:
        """Return whole cycles."""
        return round(self.figure.cycles)

    @property
    def sooner(self) -> bool:
        """Say whether a value comes back sooner than through the cache."""
        return self.figure.cycles < _RENAMED


@dataclass(frozen=True)
class Accesses:
    """Latencies of loads by kind of register; figures of pointer chases and forwarding; banks.

    by is what the names of figures end in that show what rename knows: those of any base, or
    BY_STACK. reach are displacements of loads that rename sees, and does not see, to read what was
    stored, the largest and the least; none where it is not known. predicted are pairs of a loop
    whose stores are predicted, and that are too many for it; none where no pair is.
    """

    loads: Mapping[str, int]
    figures: Mapping[str, Access]
    banks: Banks | None
    by: str = ""
    reach: tuple[int, int] | None = None
    predicted: tuple[int, int] | None = None

    def known(self, name: str) -> int | None:
        """Return whole cycles of a figure, None where it was refused or not asked for."""
        one = self.figures.get(name)
        return one.cycles if one and one.figure else None

    def through(self, name: str) -> int | None:
        """Return whole cycles of a figure of the way through a cache, None where it shows none."""
        one = self.figures.get(name)
        return one.cycles if one and one.figure and not one.sooner else None

    def renamed(self, name: str) -> bool | None:
        """Say whether a value comes back sooner than through the cache; None if not known."""
        one = self.figures.get(name + self.by)
        return one.sooner if one and one.figure else None


def measure(
    laboratory: Laboratory,
    forms: Mapping[str, Form],
    latencies: Mapping[str, Sequence[Latency]],
) -> Accesses:
    """Return what is known of loads and forwarding; nothing where no form accesses memory."""
    kit = laboratory.kit
    load, store = forms.get(kit.LOAD), forms.get(kit.STORE)
    asked: dict[str, list[bytes]] = {}
    if load:
        asked["pointer chase"] = [pointer_chase(load)]
        asked |= bank_kernels(load, forms.get(kit.FORWARDS["8 bits"][1]))
    asked |= _forwarded(kit, forms, kit.POOLS["gpr"].constant[0])
    found = dict(zip(asked, laboratory.time(list(asked.values())), strict=True))
    cycles = {kind: of_address(latencies.get(name, ())) for kind, name in kit.LOADS.items()}
    loads = {kind: one for kind, one in cycles.items() if one}
    known = Accesses(loads, _named(found), banks_of(found))
    if not load or not store:
        return known
    if known.renamed("forwarded") is False:
        known = _otherwise(laboratory, known, forms)
    if known.renamed(forwarded_at(STEPS[-1])) and known.renamed(forwarded_at(FAR)) is False:
        return replace(known, reach=_reach(laboratory, store, load, _base(kit, known)))
    return known


def _named(figures: Mapping[str, Figure]) -> dict[str, Access]:
    return {name: Access(name, figure) for name, figure in figures.items()}


def _forwarded(kit: Kit, forms: Mapping[str, Form], base: int) -> dict[str, list[bytes]]:
    """Return kernels of what is stored and loaded by a register, by what they show."""
    load, store = forms.get(kit.LOAD), forms.get(kit.STORE)
    place = {"a": base}
    asked: dict[str, list[bytes]] = {}
    if load and store:
        asked["forwarded"] = forward_pair(store, load, place)
        for disp in (*STEPS, FAR):
            asked[forwarded_at(disp)] = forward_pair(store, load, {**place, "disp": disp})
    index = {**place, "x": kit.POOLS["gpr"].constant[1]}
    for said, (one, other) in kit.FORWARDS.items():
        if one in forms and other in forms:
            address = index if said == "indexed" else place
            asked[f"forwarded, {said}"] = forward_pair(forms[one], forms[other], address)
    for said, name in kit.UPDATES.items():
        if name in forms:
            asked[f"updated, {said}"] = [memory_update(forms[name], place)]
    return asked


def _otherwise(laboratory: Laboratory, known: Accesses, forms: Mapping[str, Form]) -> Accesses:
    """Return what is known besides, of a core that does not rename what any base points to."""
    kit = laboratory.kit
    asked = _forwarded(kit, forms, kit.STACK)
    (figure,) = laboratory.time([asked["forwarded"]])
    if figure and figure.cycles < _RENAMED:
        found = dict(zip(asked, laboratory.time(list(asked.values())), strict=True))
        by = {name + BY_STACK: figure for name, figure in found.items()}
        known = replace(known, figures={**known.figures, **_named(by)}, by=BY_STACK)
    one = forward_pair(forms[kit.STORE], forms[kit.LOAD])
    return replace(known, predicted=_predicted(laboratory, one))


def _predicted(laboratory: Laboratory, pair: Sequence[bytes]) -> tuple[int, int] | None:
    """Halve the pairs of a loop between those that are predicted, one at least, and too many."""

    def sooner(count: int) -> bool | None:
        figure = laboratory.turn(b"".join(pair) * count)
        return figure.cycles < _RENAMED * count if figure else None

    if not sooner(1):
        return None
    few, many = 1, _PAIRS
    while many - few > 1:
        middle = (few + many) // 2
        # Code without a single speed takes the figure of its neighbours.
        counts = sorted(range(few + 1, many), key=lambda n: abs(n - middle))[:_NEIGHBOURS]
        told = next(((n, one) for n in counts if (one := sooner(n)) is not None), None)
        if told is None:
            break
        few, many = (told[0], many) if told[1] else (few, told[0])
    return few, many


def _base(kit: Kit, known: Accesses) -> int:
    """Return the base of addresses that rename knows."""
    return kit.STACK if known.by else kit.POOLS["gpr"].constant[0]


def _reach(laboratory: Laboratory, store: Form, load: Form, base: int) -> tuple[int, int]:
    """Halve the displacements between one that rename sees and one that it does not."""
    step = sees = STEPS[-1]
    unseen = FAR
    while unseen - sees > step:
        middle = (sees + unseen) // (2 * step) * step
        (figure,) = laboratory.time([forward_pair(store, load, {"a": base, "disp": middle})])
        if not figure:
            break
        if figure.cycles < _RENAMED:
            sees = middle
        else:
            unseen = middle
    return sees, unseen


def forwarded_at(disp: int) -> str:
    """Return the name of the figure of a store and a load at a displacement."""
    return f"forwarded, at {disp}"


CHAIN, FREE = "in a chain", "free of each other"
_PAGE = 4096  # bytes
_LEAST_ALIASING = 0.2  # cycles: less is what loops of the same instructions differ by
_SURE = 3.0  # standard deviations


@dataclass(frozen=True)
class Aliased:
    """Cycles of a store and a load, 4 KiB on and a line further."""

    same: Figure
    other: Figure

    @property
    def cost(self) -> float:
        """Return the cycles that it costs to look alike; 0 where that does not show."""
        more = self.same.cycles - self.other.cycles
        error = (self.same.uncertainty**2 + self.other.uncertainty**2) ** 0.5
        return more if more > max(_LEAST_ALIASING, _SURE * error) else 0.0


def measure_aliasing(laboratory: Laboratory, forms: Mapping[str, Form]) -> dict[str, Aliased]:
    """Return what was timed in a chain and free; nothing where that was refused or has no forms."""
    load, store = (forms.get(name) for name in (laboratory.kit.LOAD, laboratory.kit.STORE))
    if load is None or store is None:
        return {}
    asked = [
        kernel
        for place in (_PAGE, _PAGE + _LINE)
        for kernel in _aliasing_kernels(store, load, place)
    ]
    chain, free, chained, freed = laboratory.time(asked)
    found = {CHAIN: Aliased(chain, chained), FREE: Aliased(free, freed)}
    return {said: one for said, one in found.items() if one.same and one.other}


def _aliasing_kernels(store: Form, load: Form, place: int) -> Sequence[list[bytes]]:
    """Return a store and a load so many bytes on, in a chain and free of each other."""
    chain = forward_pair(store, load, of={"disp": place})
    return chain, [*stores(store, [0]), *loads(load, [place])]


BOUNDARIES = (16, 32, 64)  # bytes
VECTOR = "a chain by vectors"
UPPER, MORE = "a chain by the upper half", "a chain by more than was stored"
_HALF = 4  # bytes of an access before a boundary that it crosses
_ACCESSES = 6  # accesses of a kernel


def split_loads(load: Form) -> dict[str, list[bytes]]:
    """Return loads of 8 bytes by the boundary that they cross."""
    steps = [(_LINE + 8) * n for n in range(_ACCESSES)]
    out = {"loads across nothing": loads(load, steps)}
    for boundary in BOUNDARIES:
        places = [_LINE * (n - _ACCESSES // 2) + boundary - _HALF for n in range(_ACCESSES)]
        out[f"loads across {boundary} bytes"] = loads(load, places)
    for every in (2, 4):
        across = [_LINE * (n - _ACCESSES // 2 + 1) - _HALF for n in range(_ACCESSES)]
        mixed = [steps[n] if n % every else across[n] for n in range(_ACCESSES)]
        out[f"loads, 1 of {every} across {_LINE} bytes"] = loads(load, mixed)
    return out


def adjacent_stores(store: Form) -> dict[str, list[bytes]]:
    """Return stores of 8 bytes by the boundary that lies between them, or that they cross."""
    out = {
        "stores of one place": stores(store, [0] * _ACCESSES),
        "stores side by side": stores(store, [8 * n for n in range(16)]),
        "stores a line apart": stores(store, [(_LINE + 8) * n for n in range(16)]),
    }
    for boundary in BOUNDARIES:
        beside = [boundary - 8, boundary] * (_ACCESSES // 2)
        out[f"stores on either side of {boundary} bytes"] = stores(store, beside)
        across = [boundary - _HALF] * _ACCESSES
        out[f"stores across {boundary} bytes"] = stores(store, across)
    out["misaligned stores side by side"] = stores(store, [8 * n + _HALF + 1 for n in range(16)])
    return out


def narrow_stores(store: Form) -> dict[str, list[bytes]]:
    """Return stores of a form to some lines in turn, and side by side."""
    out = {
        f"bytes stored to {lines} lines in turn": stores(store, [_LINE * n for n in some])
        for lines in (2, _ACCESSES)
        for some in [[n % lines for n in range(_ACCESSES)]]
    }
    return out | {"bytes stored side by side": stores(store, list(range(_ACCESSES)))}


def partial_forwards(kit: Kit, forms: Mapping[str, Form]) -> dict[str, list[bytes]]:
    """Return stores and loads of a part or of more; those that are no chain wait for nothing."""
    names = (*kit.FORWARDS["a part"], *kit.FORWARDS["more than was stored"])
    if not all(name in forms for name in names):
        return {}
    store, half, short, load = (forms[name] for name in names)
    return {
        "a chain by the lower half": forward_pair(store, half),
        UPPER: forward_pair(store, half, of={"disp": _HALF}),
        MORE: forward_pair(short, load),
        "a half of what was stored": _free_of_chain([store], half),
        "more than was stored": _free_of_chain([short], load),
        "what was stored as halves": _free_of_chain([short, short], load),
    }


def vector_forwards(kit: Kit, forms: Mapping[str, Form]) -> dict[str, list[bytes]]:
    """Return a store and a load of a vector, as a chain."""
    store, load = (forms.get(name) for name in kit.FORWARDS["vector"])
    return {VECTOR: forward_pair(store, load)} if store and load else {}


def _free_of_chain(written: Sequence[Form], load: Form) -> list[bytes]:
    """Return stores side by side of what nothing writes, and a load to a register of its own."""
    out = []
    for n, store in enumerate(written):
        out += stores(store, [_HALF * n])
    return [*out, *loads(load, [0])]
