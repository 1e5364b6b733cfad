"""Loads and what they take from stores.

Asked: after how many cycles a loaded value can be used, sooner where a load gave the address, and
when a load can be used that reads what was stored just before. Kernels: a load whose own result is
its address; a store and a load of one place, through which a value goes round, by width, by
address and by part of what was stored; an addition to memory. Answer: the cycles of a copy. All
memory holds pointers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.calibrating.experiments import banks
from loopwright.calibrating.experiments.banks import Banks
from loopwright.calibrating.experiments.latency import Latency, of_address
from loopwright.calibrating.forms.form import Form, Operand
from loopwright.calibrating.laboratory import Figure, Laboratory

_RENAMED = 2.5  # cycles: less than any way through a cache
STEPS = (1, 2, 4, 8)  # bytes from a place that is aligned
FAR = 4088  # bytes: further than any core renames that does not rename them all


@dataclass(frozen=True)
class Access:
    """A figure of memory: cycles as measured, or why there are none."""

    name: str
    figure: Figure

    @property
    def cycles(self) -> int:
        """Return whole cycles."""
        return round(self.figure.cycles)


@dataclass(frozen=True)
class Accesses:
    """Latencies of loads by kind of register; figures of pointer chases and forwarding; banks.

    reach are displacements of loads that rename sees, and does not see, to read what was stored,
    the largest and the least; none where it is not known.
    """

    loads: Mapping[str, int]
    figures: Mapping[str, Access]
    banks: Banks | None
    reach: tuple[int, int] | None = None

    def known(self, name: str) -> int | None:
        """Return whole cycles of a figure, None where it was refused or not asked for."""
        one = self.figures.get(name)
        return one.cycles if one and one.figure else None

    def renamed(self, name: str) -> bool | None:
        """Say whether a value comes back sooner than through the cache; None if not known."""
        one = self.figures.get(name)
        return one.figure.cycles < _RENAMED if one and one.figure else None


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
        asked["pointer chase"] = [_chase(load)]
        asked |= banks.asked(load, forms.get(kit.FORWARDS["8 bits"][1]))
    if load and store:
        asked |= {
            "forwarded": pair(store, load),
            "forwarded, indexed": pair(store, load, {"x": kit.POOLS["gpr"].constant[1]}),
        }
        asked |= {at(disp): pair(store, load, {"disp": disp}) for disp in (*STEPS, FAR)}
    for said, (one, other) in kit.FORWARDS.items():
        if one in forms and other in forms:
            asked[f"forwarded, {said}"] = pair(forms[one], forms[other])
    for said, name in kit.UPDATES.items():
        if name in forms:
            asked[f"updated, {said}"] = [_update(forms[name])]
    found = dict(zip(asked, laboratory.time(list(asked.values())), strict=True))
    cycles = {kind: of_address(latencies.get(name, ())) for kind, name in kit.LOADS.items()}
    loads = {kind: one for kind, one in cycles.items() if one}
    figures = {name: Access(name, figure) for name, figure in found.items()}
    known = Accesses(loads, figures, banks.found(found))
    if load and store and known.renamed(at(STEPS[-1])) and known.renamed(at(FAR)) is False:
        return replace(known, reach=_reach(laboratory, store, load))
    return known


def _reach(laboratory: Laboratory, store: Form, load: Form) -> tuple[int, int]:
    """Halve the displacements between one that rename sees and one that it does not."""
    step = sees = STEPS[-1]
    unseen = FAR
    while unseen - sees > step:
        middle = (sees + unseen) // (2 * step) * step
        (figure,) = laboratory.time([pair(store, load, {"disp": middle})])
        if not figure:
            break
        if figure.cycles < _RENAMED:
            sees = middle
        else:
            unseen = middle
    return sees, unseen


def _value(form: Form) -> Operand:
    """Return the register of a form with memory that is no part of the address."""
    (value,) = (o for o in form.chosen if o.label not in ("a", "x"))
    return value


def at(disp: int) -> str:
    """Return the name of the figure of a store and a load at a displacement."""
    return f"forwarded, at {disp}"


def pair(
    store: Form,
    load: Form,
    at: Mapping[str, int] | None = None,
    of: Mapping[str, int] | None = None,
) -> list[bytes]:
    """Return a store and a load through one register, of the same place but for `of`."""
    base = store.kit.POOLS["gpr"].constant[0]
    value = _value(store)
    (result,) = (o for o in load.chosen if o.written)
    register = store.kit.POOLS[value.kind].back[0]
    place = {"a": base, **(at or {})}
    return [
        store.encode({value.label: register, **place}),
        load.encode({result.label: register, **place, **(of or {})}),
    ]


def stores(form: Form, places: Sequence[int]) -> list[bytes]:
    """Return stores of these places, of what nothing writes."""
    value = _value(form)
    base, constant = form.kit.POOLS["gpr"].constant[:2]
    given = {value.label: constant, "a": base}
    return [form.encode({**given, "disp": place}) for place in places]


def _update(form: Form) -> bytes:
    """Return what changes a place by something that nothing writes."""
    value = _value(form)
    base, constant = form.kit.POOLS["gpr"].constant
    return form.encode({value.label: constant, "a": base})


def _chase(load: Form) -> bytes:
    """Return a load of a register from where it points to."""
    (result,) = (o for o in load.chosen if o.written)
    register = load.kit.POOLS["gpr"].back[0]
    return load.encode({result.label: register, "a": register})
