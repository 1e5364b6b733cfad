"""Loads and what they take from stores.

Asked: after how many cycles a loaded value can be used, sooner where a load gave the address, and
when a load can be used that reads what was stored just before. Kernels: a load whose own result is
its address; a store and a load of one place, through which a value goes round, by width, by
address and by part of what was stored; an addition to memory. Answer: the cycles of a copy. All
memory holds pointers.

A value that comes back as if it had stayed in its register is renamed. Where it is not, the stack
pointer is tried as the base, and loops of few such pairs, whose stores a core may predict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.calibrating.experiments import banks, stored
from loopwright.calibrating.experiments.banks import Banks
from loopwright.calibrating.experiments.latency import Latency, of_address
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.laboratory import Figure, Laboratory

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
        asked["pointer chase"] = [stored.chase(load)]
        asked |= banks.asked(load, forms.get(kit.FORWARDS["8 bits"][1]))
    asked |= _forwarded(kit, forms, kit.POOLS["gpr"].constant[0])
    found = dict(zip(asked, laboratory.time(list(asked.values())), strict=True))
    cycles = {kind: of_address(latencies.get(name, ())) for kind, name in kit.LOADS.items()}
    loads = {kind: one for kind, one in cycles.items() if one}
    known = Accesses(loads, _named(found), banks.found(found))
    if not load or not store:
        return known
    if known.renamed("forwarded") is False:
        known = _otherwise(laboratory, known, forms)
    if known.renamed(at(STEPS[-1])) and known.renamed(at(FAR)) is False:
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
        asked["forwarded"] = stored.pair(store, load, place)
        for disp in (*STEPS, FAR):
            asked[at(disp)] = stored.pair(store, load, {**place, "disp": disp})
    index = {**place, "x": kit.POOLS["gpr"].constant[1]}
    for said, (one, other) in kit.FORWARDS.items():
        if one in forms and other in forms:
            address = index if said == "indexed" else place
            asked[f"forwarded, {said}"] = stored.pair(forms[one], forms[other], address)
    for said, name in kit.UPDATES.items():
        if name in forms:
            asked[f"updated, {said}"] = [stored.update(forms[name], place)]
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
    one = stored.pair(forms[kit.STORE], forms[kit.LOAD])
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
        # What has no one speed is told by its neighbours.
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
        (figure,) = laboratory.time([stored.pair(store, load, {"a": base, "disp": middle})])
        if not figure:
            break
        if figure.cycles < _RENAMED:
            sees = middle
        else:
            unseen = middle
    return sees, unseen


def at(disp: int) -> str:
    """Return the name of the figure of a store and a load at a displacement."""
    return f"forwarded, at {disp}"
