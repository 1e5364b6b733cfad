"""Memory microbenchmarks: loads, forwarding, bank conflicts, splits and 4 KiB aliasing.

Bank conflicts: loads of one address, of a line and a word each, and of bytes of which one or two
lie together and another lies further on. They show how many loads of a cycle can read one word, and
how large a word is; where loads of one address are no slower, there is no conflict.

Loads and forwarding: a pointer chase, whose load returns its own address; a store and a load of one
address, through which a value circulates, by width, by address and by part of the stored data; a
read-modify-write. The figure is the cycles of a copy. All memory holds pointers.

A value that comes back as if it had stayed in a register is renamed. Where it is not, the stack
pointer is tried as the base, and loops of few such pairs, whose stores a core may predict.

4 KiB aliasing: a store, and a load whose address has the same low 12 bits, in a chain through the
stored register and independent of each other; the load lies 4 KiB further, or 4 KiB and a line. The
cost is the difference, on some cores nothing.

Splits and partial forwarding: accesses that differ only in the boundary they cross, in their
distance, or in their overlap. No single one tells a rule.
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
_BANK_CONFLICT = 1.2  # factor by which loads of one address are slower
_TOGETHER = (1, 2)
_BANK_STEPS = (2, 4, 8, 16, 32)  # bytes
_ONE_PLACE, _LINE_EACH = "loads of one place", "loads of a line each"


@dataclass(frozen=True)
class Banks:
    """Bank conflicts: loads a cycle of one word, bytes of a word, and the evidence."""

    loads: int
    bytes: int | None
    evidence: str


def bank_kernels(load: Form, narrow: Form | None) -> dict[str, list[bytes]]:
    """Return kernels by description; narrow is a form that loads a byte."""
    address_lists = {
        _ONE_PLACE: [0] * _LOADS,
        _LINE_EACH: [(_LINE + _WORD) * n for n in range(_LOADS)],
    }
    out = {name: loads(load, addresses) for name, addresses in address_lists.items()}
    if narrow:
        for together in _TOGETHER:
            for step in _BANK_STEPS:
                addresses = [*[0] * together, step] * (_LOADS // (together + 1))
                out[_bank_name(together, step)] = loads(narrow, addresses)
    return out


def banks_of(figures: Mapping[str, Figure]) -> Banks | None:
    """Return the bank conflicts that figures of bank_kernels show, None without any."""
    same, apart = figures.get(_ONE_PLACE), figures.get(_LINE_EACH)
    if not same or not apart or same.cycles <= _BANK_CONFLICT * apart.cycles:
        return None
    loads = round(_LOADS / same.cycles)
    evidence = (
        f"{_LOADS} {_ONE_PLACE} take {same.cycles:.1f} cycles, {_LINE_EACH} {apart.cycles:.1f}"
    )
    if loads not in _TOGETHER:
        return None
    best = max(apart.cycles / _LOADS, 1 / (2 * loads))
    between = (same.cycles / _LOADS + best) / 2
    others = [
        step
        for step in _BANK_STEPS
        if (other := figures.get(_bank_name(loads, step))) and other.cycles / _LOADS < between
    ]
    return Banks(loads, others[0] if others else None, evidence)


def _bank_name(together: int, step: int) -> str:
    return f"loads of a byte, one of {together + 1} {step} bytes on"


def loads(form: Form, displacements: Sequence[int]) -> list[bytes]:
    """Return loads at these displacements, to different registers."""
    (result,) = (operand for operand in form.chosen if operand.written)
    pool = form_instances.registers_of(form, result.kind, alone=True)
    return [
        form.encode({**form_instances.registers_for(form, {result.label: register}), "disp": disp})
        for register, disp in zip(pool, displacements, strict=False)
    ]


def _value_operand(form: Form) -> Operand:
    """Return the register of a memory form that is no part of the address."""
    (operand,) = (o for o in form.chosen if o.label not in ("a", "x"))
    return operand


def forward_pair(
    store: Form,
    load: Form,
    at: Mapping[str, int] | None = None,
    of: Mapping[str, int] | None = None,
) -> list[bytes]:
    """Return a store and a load through one register, at one address.

    at has the labels of the address, but for the base where that is usual; of changes the load's.
    """
    base = store.kit.POOLS["gpr"].constant[0]
    stored = _value_operand(store)
    (result,) = (o for o in load.chosen if o.written)
    register = store.kit.POOLS[stored.kind].back[0]
    place = {"a": base, **(at or {})}
    return [
        store.encode({stored.label: register, **place}),
        load.encode({result.label: register, **place, **(of or {})}),
    ]


def stores(form: Form, displacements: Sequence[int]) -> list[bytes]:
    """Return stores at these displacements, of a register that nothing writes."""
    base, constant = form.kit.POOLS["gpr"].constant[:2]
    registers = {_value_operand(form).label: constant, "a": base}
    return [form.encode({**registers, "disp": disp}) for disp in displacements]


def memory_update(form: Form, at: Mapping[str, int]) -> bytes:
    """Return a read-modify-write with a register that nothing writes."""
    base, constant = form.kit.POOLS["gpr"].constant
    return form.encode({_value_operand(form).label: constant, "a": base, **at})


def pointer_chase(load: Form) -> bytes:
    """Return a load of a register from the address that it holds."""
    (result,) = (o for o in load.chosen if o.written)
    register = load.kit.POOLS["gpr"].back[0]
    return load.encode({result.label: register, "a": register})


_RENAMED = 2.5  # cycles: less than any way through a cache
STEPS = (1, 2, 4, 8)  # bytes from an aligned address
FAR = 4088  # bytes: beyond the reach of partial memory renaming
BY_STACK = ", by the stack pointer"
_NEIGHBOURS = 3  # numbers of pairs to try where one has no stable speed
_PAIRS = 40  # of loops timed for other figures: no core predicts so many


@dataclass(frozen=True)
class Accesses:
    """Latencies of loads, by the parameter that they set; figures by name; bank conflicts.

    The figures are those of pointer chases, forwarding, and the kernels that show banks. by is the
    suffix of figures that show renaming: empty for any base, or BY_STACK. reach has the largest
    displacement of loads that are renamed, and the least that is not; None if unknown. predicted
    has the number of pairs in a loop whose stores are predicted, and one that is too many; None if
    none is.
    """

    loads: Mapping[str, int]
    figures: Mapping[str, Figure]
    banks: Banks | None
    by: str = ""
    reach: tuple[int, int] | None = None
    predicted: tuple[int, int] | None = None

    def known(self, name: str) -> int | None:
        """Return the rounded cycles of a figure, None if it is missing or refused."""
        figure = self.figures.get(name)
        return round(figure.cycles) if figure else None

    def through(self, name: str) -> int | None:
        """Return the rounded cycles of a figure through the cache, None if renamed or missing."""
        figure = self.figures.get(name)
        return round(figure.cycles) if figure and figure.cycles >= _RENAMED else None

    def renamed(self, name: str) -> bool | None:
        """True if a value comes back sooner than through the cache; None if unknown."""
        figure = self.figures.get(name + self.by)
        return figure.cycles < _RENAMED if figure else None


def measure(
    laboratory: Laboratory,
    forms: Mapping[str, Form],
    latencies: Mapping[str, Sequence[Latency]],
) -> Accesses:
    """Measure loads and forwarding; without forms that access memory nothing is known."""
    kit = laboratory.kit
    load, store = forms.get(kit.LOAD), forms.get(kit.STORE)
    kernels: dict[str, list[bytes]] = {}
    if load:
        kernels["pointer chase"] = [pointer_chase(load)]
        kernels |= bank_kernels(load, forms.get(kit.FORWARDS["8 bits"][1]))
    kernels |= _forwarded(kit, forms, kit.POOLS["gpr"].constant[0])
    figures = dict(zip(kernels, laboratory.time(list(kernels.values())), strict=True))
    cycles = {kind: of_address(latencies.get(name, ())) for kind, name in kit.LOADS.items()}
    loads = {kind: one for kind, one in cycles.items() if one}
    accesses = Accesses(loads, figures, banks_of(figures))
    if not load or not store:
        return accesses
    if accesses.renamed("forwarded") is False:
        accesses = _with_stack_renaming(laboratory, accesses, forms)
    if accesses.renamed(forwarded_at(STEPS[-1])) and accesses.renamed(forwarded_at(FAR)) is False:
        base = kit.STACK if accesses.by else kit.POOLS["gpr"].constant[0]
        return replace(accesses, reach=_reach(laboratory, store, load, base))
    return accesses


def _forwarded(kit: Kit, forms: Mapping[str, Form], base: int) -> dict[str, list[bytes]]:
    """Return kernels of a store and a load with this base, by description."""
    load, store = forms.get(kit.LOAD), forms.get(kit.STORE)
    plain = {"a": base}
    kernels: dict[str, list[bytes]] = {}
    if load and store:
        kernels["forwarded"] = forward_pair(store, load, plain)
        for disp in (*STEPS, FAR):
            kernels[forwarded_at(disp)] = forward_pair(store, load, {**plain, "disp": disp})
    indexed = {**plain, "x": kit.POOLS["gpr"].constant[1]}
    for label, (store_name, load_name) in kit.FORWARDS.items():
        if store_name in forms and load_name in forms:
            address = indexed if label == "indexed" else plain
            pair = forward_pair(forms[store_name], forms[load_name], address)
            kernels[f"forwarded, {label}"] = pair
    for label, name in kit.UPDATES.items():
        if name in forms:
            kernels[f"updated, {label}"] = [memory_update(forms[name], plain)]
    return kernels


def _with_stack_renaming(
    laboratory: Laboratory, accesses: Accesses, forms: Mapping[str, Form]
) -> Accesses:
    """Add the figures of a core that does not rename accesses of any base."""
    kit = laboratory.kit
    kernels = _forwarded(kit, forms, kit.STACK)
    (figure,) = laboratory.time([kernels["forwarded"]])
    if figure and figure.cycles < _RENAMED:
        figures = dict(zip(kernels, laboratory.time(list(kernels.values())), strict=True))
        by_stack = {name + BY_STACK: figure for name, figure in figures.items()}
        accesses = replace(accesses, figures={**accesses.figures, **by_stack}, by=BY_STACK)
    pair = forward_pair(forms[kit.STORE], forms[kit.LOAD])
    return replace(accesses, predicted=_predicted(laboratory, pair))


def _predicted(laboratory: Laboratory, pair: Sequence[bytes]) -> tuple[int, int] | None:
    """Bisect the number of pairs in a loop between predicted ones, at least one, and too many."""

    def renamed(count: int) -> bool | None:
        figure = laboratory.iteration(b"".join(pair) * count)
        return figure.cycles < _RENAMED * count if figure else None

    if not renamed(1):
        return None
    few, many = 1, _PAIRS
    while many - few > 1:
        middle = (few + many) // 2
        # A number of pairs without a stable speed takes the figure of its neighbours.
        counts = sorted(range(few + 1, many), key=lambda n: abs(n - middle))[:_NEIGHBOURS]
        answered = next(((n, one) for n in counts if (one := renamed(n)) is not None), None)
        if answered is None:
            break
        few, many = (answered[0], many) if answered[1] else (few, answered[0])
    return few, many


def _reach(laboratory: Laboratory, store: Form, load: Form, base: int) -> tuple[int, int]:
    """Bisect the displacements between a renamed one and one that is not."""
    step = renamed = STEPS[-1]
    not_renamed = FAR
    while not_renamed - renamed > step:
        middle = (renamed + not_renamed) // (2 * step) * step
        (figure,) = laboratory.time([forward_pair(store, load, {"a": base, "disp": middle})])
        if not figure:
            break
        if figure.cycles < _RENAMED:
            renamed = middle
        else:
            not_renamed = middle
    return renamed, not_renamed


def forwarded_at(disp: int) -> str:
    """Return the name of the figure of a store and a load at a displacement."""
    return f"forwarded, at {disp}"


CHAIN, FREE = "in a chain", "free of each other"
_PAGE = 4096  # bytes
_LEAST_ALIASING = 0.2  # cycles: smaller differences occur between loops of the same instructions
_SURE = 3.0  # standard deviations


@dataclass(frozen=True)
class Aliased:
    """Cycles of a store and a load: 4 KiB further (same), and a line beyond that (other)."""

    same: Figure
    other: Figure

    @property
    def cost(self) -> float:
        """The cost of aliasing in cycles; 0 where it is not significant."""
        cost = self.same.cycles - self.other.cycles
        error = (self.same.uncertainty**2 + self.other.uncertainty**2) ** 0.5
        return cost if cost > max(_LEAST_ALIASING, _SURE * error) else 0.0


def measure_aliasing(laboratory: Laboratory, forms: Mapping[str, Form]) -> dict[str, Aliased]:
    """Return the figures in a chain and independent; without those that were refused."""
    load, store = (forms.get(name) for name in (laboratory.kit.LOAD, laboratory.kit.STORE))
    if load is None or store is None:
        return {}
    kernels = [
        kernel
        for place in (_PAGE, _PAGE + _LINE)
        for kernel in _aliasing_kernels(store, load, place)
    ]
    chain, free, other_chain, other_free = laboratory.time(kernels)
    aliased = {CHAIN: Aliased(chain, other_chain), FREE: Aliased(free, other_free)}
    return {label: one for label, one in aliased.items() if one.same and one.other}


def _aliasing_kernels(store: Form, load: Form, place: int) -> Sequence[list[bytes]]:
    """Return a store and a load so many bytes further, in a chain and independent."""
    chain = forward_pair(store, load, of={"disp": place})
    return chain, [*stores(store, [0]), *loads(load, [place])]


BOUNDARIES = (16, 32, 64)  # bytes
VECTOR = "a chain by vectors"
UPPER, MORE = "a chain by the upper half", "a chain by more than was stored"
HALVES = "what was stored as halves"
_HALF = 4  # bytes of an access before the boundary that it crosses
_ACCESSES = 6  # accesses of a kernel
_LINES = 3  # of loads across a boundary: five and more have no stable speed on Zen 4


def split_loads(load: Form) -> dict[str, list[bytes]]:
    """Return loads of 8 bytes by the boundary that they cross."""
    steps = [(_LINE + 8) * n for n in range(_ACCESSES)]
    out = {"loads across nothing": loads(load, steps)}
    for boundary in BOUNDARIES:
        places = [_LINE * (n % _LINES) + boundary - _HALF for n in range(_ACCESSES)]
        out[f"loads across {boundary} bytes"] = loads(load, places)
    for every in (2, 4):
        across = [_LINE * (n % _LINES + 1) - _HALF for n in range(_ACCESSES)]
        mixed = [steps[n] if n % every else across[n] for n in range(_ACCESSES)]
        out[f"loads, 1 of {every} across {_LINE} bytes"] = loads(load, mixed)
    return out


def adjacent_stores(store: Form) -> dict[str, list[bytes]]:
    """Return stores of 8 bytes by the boundary between them, or that they cross."""
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
    """Return stores of a form to several lines in turn, and side by side."""
    out = {
        f"bytes stored to {lines} lines in turn": stores(store, [_LINE * n for n in lines_in_turn])
        for lines in (2, _ACCESSES)
        for lines_in_turn in [[n % lines for n in range(_ACCESSES)]]
    }
    return out | {"bytes stored side by side": stores(store, list(range(_ACCESSES)))}


def partial_forwards(kit: Kit, forms: Mapping[str, Form]) -> dict[str, list[bytes]]:
    """Return stores and loads of a part or of more, as chains and without a dependency."""
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
        HALVES: _free_of_chain([short, short], load),
    }


def vector_forwards(kit: Kit, forms: Mapping[str, Form]) -> dict[str, list[bytes]]:
    """Return a store and a load of a vector, as a chain."""
    store, load = (forms.get(name) for name in kit.FORWARDS["vector"])
    return {VECTOR: forward_pair(store, load)} if store and load else {}


def _free_of_chain(written: Sequence[Form], load: Form) -> list[bytes]:
    """Return stores side by side, and a load to a register of its own, without dependencies."""
    out = []
    for n, store in enumerate(written):
        out += stores(store, [_HALF * n])
    return [*out, *loads(load, [0])]
