"""Port classes: forms that share ports, and the ports of each class.

Classes of instructions of one uop: those that can use the same ports.

Two that run p of each a cycle alone are of one class where p of each take two cycles together,
and share no port where they take one. One blocking instruction stands for each class.

The ports of each class: what explains how many ports classes have together.

A counter-example-guided search: an SMT solver proposes ports, then other ports that explain as
much but differ in how many some classes have together; those are measured, until no other answer
is left but the same with other names.

The ports of each class where a store may be two uops: an address, and what is written.

A store that shares ports with loads and with arithmetic, which share none with each other, is two:
its address uses ports of loads, and what it writes ports of arithmetic (Zen 5 takes stores of
general registers from there). Then loads are taken to share ports with addresses alone.

Whether a core bind uops to ports early: as they are dispatched, before it is known when.

Asked: how much longer pairs of classes take together than their ports ask for. Kernels: those that
told the ports. Answer: early, where one of ten takes longer by more than noise. Then what blockers
show more than whole uops counts for nothing, and forms may take longer than their ports ask for.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Any

from loopwright.calibrating.ports import Core, PortClass, Ports, bound_cycles, index_subsets
from loopwright.errors import InputError
from loopwright.microbench import blockers, form_instances
from loopwright.microbench.blockers import Asked, Surplus
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.latency import Latency
from loopwright.microbench.throughput import Throughput

_NEAR = 0.04  # relative: how far a rate may lie from that of a whole number of ports
TIMES = 4  # cycles that each class of a mixture takes alone
_SPAN = 6  # cycles that ports are blocked for
_ONE = 1.4  # uops: more than one
_APART = 1.6  # cycles, of 2 that forms of the same ports take together
_LATE = 0.12  # by how much more than the rule allows a mixture may take: ports are bound early


@dataclass(frozen=True)
class Union:
    """Ports that some classes have together, by their numbers: so many, or at least so many."""

    of: tuple[int, ...]
    ports: int
    least: bool
    figure: Figure


def candidates(
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    width: int,
) -> dict[str, int]:
    """Return the forms that may be one uop, with their number of ports, by what they take alone.

    As many as are dispatched in a cycle stands for at least as many. What uses implied registers,
    is long, is eliminated, writes several registers, waits longer than a cycle for what it wrote
    itself, or meets others in ports, is left to later.
    """
    out = {}
    for form in forms:
        rate = rates[form.name]
        if rate.refused or not rate.clean or rate.meets or rate.cycles <= 0 or not form.chosen:
            continue
        if any(operand.fixed is not None for operand in form.operands) or form_instances.long(form):
            continue
        if sum(operand.written for operand in form.chosen) > 1:
            continue
        known = latencies[form.name]
        if any(one.source == one.target and one.cycles > 1 for one in known):
            continue
        if any(one.cycles == 0 and one.target != "f" for one in known if not one.refused):
            continue
        ports = max(round(1 / rate.cycles), 1)
        if ports <= width and abs(rate.cycles * ports - 1) <= _NEAR:
            out[form.name] = ports
    return out


def mixture(parts: Sequence[tuple[Form, int]]) -> list[bytes]:
    """Return a kernel of so many instances of each form, spread over it."""
    makers = [form_instances.Instances(n, len(parts)) for n in range(len(parts))]
    some = [
        [make.of(form) for _ in range(n)] for make, (form, n) in zip(makers, parts, strict=True)
    ]
    return form_instances.spread(*some)


def together(classes: Sequence[PortClass]) -> list[tuple[Form, int]]:
    """Return as many instances of each class as keep its ports busy for as long as the others'."""
    return [(one.blocker, TIMES * one.size) for one in classes]


def find_classes(
    laboratory: Laboratory,
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    slots: Mapping[str, Surplus],
    width: int,
) -> list[PortClass]:
    """Return the classes of forms of one uop, those of many ports first.

    What takes more than one place at dispatch is of no class. What puts more than one uop on the
    ports of a class that is known already founds none. A plain load and a plain store found one all
    the same: without them nothing is known of forms with memory.
    """
    sizes = candidates(forms, rates, latencies, width)
    light = [form for form in forms if form.memory or slots[form.name].uops == 1]
    out: list[PortClass] = []
    for size in range(width - 1, 0, -1):
        left = sorted((f for f in light if sizes.get(f.name) == size), key=_blocks_badly)
        out += _split(laboratory, left, size, width, tuple(out))
        # What a mixture with another class did not tell from it is a class all the same.
        lost = [f for f in left if f.memory and f not in (one.blocker for one in out)]
        out += _split(laboratory, lost, size, width, tuple(out))
        founded = {one.blocker.name for one in out}
        out += [PortClass(f, size, (f.name,)) for f in lost if f.name not in founded]
    return out


def _split(
    laboratory: Laboratory, forms: Sequence[Form], size: int, width: int, known: Sequence[PortClass]
) -> list[PortClass]:
    """Return the classes of forms with so many ports each.

    A load or a store is a class by itself, as no other form here accesses memory. Else one is
    founded by what clearly shares some, or none, of the ports of those before it. What
    leaves more forms unclear than it has members is bound by something else than ports.
    """
    out: list[PortClass] = []
    left = list(forms)
    while left:
        blocker, *rest = left
        shown = blockers.measure(laboratory, [Asked(blocker, one.blocking, _SPAN) for one in known])
        if any(one.measured >= _ONE for one in shown):
            left = rest
            continue
        if blocker.memory:
            out.append(PortClass(blocker, size, (blocker.name,)))
            left = rest
            continue
        asked = [mixture([(blocker, TIMES * size), (f, TIMES * size)]) for f in rest]
        figures = list(zip(rest, laboratory.time(asked), strict=True))
        same = [form for form, figure in figures if _same(figure, size, width)]
        others = [form for form, figure in figures if _other(figure, size, width)]
        if len(rest) - len(same) - len(others) > len(same) + 1:
            left = rest
            continue
        out.append(PortClass(blocker, size, tuple(f.name for f in (blocker, *same))))
        left = others
    return out


def _same(figure: Figure, size: int, width: int) -> bool:
    """Say whether as many uops of two forms as either has ports take them all for two cycles."""
    found = figure and _together(figure.cycles / TIMES, (size, size), width)
    return bool(found) and found == (size, False)


def _other(figure: Figure, size: int, width: int) -> bool:
    """Say whether two forms clearly have not the same ports, how many ever they have together."""
    if not figure or _same(figure, size, width):
        return False
    known = _together(figure.cycles / TIMES, (size, size), width)
    if known is None and 2 * size >= width:  # dispatch, which both keep busy, may be late, too
        return figure.cycles / TIMES < _APART
    return known is not None


def _blocks_badly(form: Form) -> tuple[int, ...]:
    """Order forms by how well they keep ports busy: without waiting, by plain registers.

    Vector forms that mix with any other come first.
    """
    return (
        form.legacy,
        sum(o.fixed is not None or (o.kind == "flags" and o.read) for o in form.operands),
        sum(o.read and o.written for o in form.operands),
        sum((o.kind == "vector" and o.bits > 128) or 0 < o.bits < 32 for o in form.operands),
        len(form.operands),
        len(form.name),
    )


def unions(
    laboratory: Laboratory,
    classes: Sequence[PortClass],
    wanted: Sequence[tuple[int, ...]],
    width: int,
) -> list[Union]:
    """Measure how many ports classes have together; where the figure does not say, none.

    One wrong figure among these leaves no answer, or a wrong one, to all forms.
    """
    asked = [mixture(together([classes[n] for n in one])) for one in wanted]
    out = []
    for of, figure in zip(wanted, laboratory.time_least(asked), strict=True):
        sizes = [classes[n].size for n in of]
        if figure and (found := _together(figure.cycles / TIMES, sizes, width)):
            out.append(Union(of, *found, figure))
    return out


def _together(cycles: float, sizes: Sequence[int], width: int) -> tuple[int, bool] | None:
    """Return how many ports take so many uops of each class in so many cycles.

    Ports that are bound early take longer than they need, but none take less. As many as are
    dispatched in a cycle may be more.
    """
    total = sum(sizes)
    bound = max(1.0, total / width)
    if cycles <= bound * (1 + _LATE / 2):
        return (total, False) if total <= width else (width, True)
    ports = ceil(total / cycles * (1 - _NEAR / 2))
    if max(sizes) <= ports <= total and cycles <= total / ports * (1 + _LATE):
        return min(ports, width), ports >= width
    return None


_MOST_PORTS = 16
_ROUNDS = 200
_WRONG = 0.1  # share of mixtures that may take longer than their ports ask for
_NONE = "no ports explain what mixtures take; measure into another folder on a quiet machine"
_SPARE = 1  # ports more than needed that another answer may have

Measure = Callable[[Sequence[tuple[int, ...]]], list[Union]]


def find_mapping(
    sizes: Sequence[int], width: int, measure: Measure
) -> tuple[list[Ports], list[Union]]:
    """Return the ports of each class by numbers, and what was measured to find them.

    measure tells how many ports some classes have together, and leaves out what the figure does
    not say. Groups of classes that are not seen to share any have ports of their own. InputError
    without the solver or any class, and where no ports explain what was measured.
    """
    if not sizes:
        raise InputError("no class of forms was found: too few forms, or too few of them answered")
    known = measure(index_subsets(len(sizes), 2))
    found: dict[int, Ports] = {}
    first = 0
    groups = groups_sharing_ports(sizes, known)
    out = [one for one in known if not any(set(one.of) <= set(group) for group in groups)]
    for group in groups:
        own = [_by_place(one, group) for one in known if set(one.of) <= set(group)]

        def ask(wanted: Sequence[tuple[int, ...]], group: tuple[int, ...] = group) -> list[Union]:
            answers = measure([tuple(group[n] for n in one) for one in wanted])
            return [_by_place(one, group) for one in answers]

        solved, more = _solve_group([sizes[n] for n in group], width, own, ask)
        for n, ports in zip(group, solved, strict=True):
            found[n] = frozenset(first + port for port in ports)
        first += len(frozenset().union(*solved))
        out += [replace(one, of=tuple(group[n] for n in one.of)) for one in more]
    return [found[n] for n in range(len(sizes))], out


def _by_place(one: Union, group: Sequence[int]) -> Union:
    """Return what classes have together, by their places in a group."""
    return replace(one, of=tuple(group.index(n) for n in one.of))


def _solve_group(
    sizes: Sequence[int], width: int, known: list[Union], measure: Measure
) -> tuple[list[Ports], list[Union]]:
    """Return the ports of classes of a group, and what is known of them."""
    open_ = [one for one in index_subsets(len(sizes), 3) if len(one) > 2]
    known = _agreeing(sizes, known)
    for _ in range(_ROUNDS):
        count, found = _fewest(sizes, known)
        problem = _Problem(sizes, count + _SPARE)
        problem.explain(known)
        problem.differ(found, open_, width)
        other = problem.solve()
        if other is None:
            return found, known
        (asked, *_) = (
            some
            for some in open_
            if min(_ports_together(other, some), width) != min(_ports_together(found, some), width)
        )
        open_.remove(asked)
        known = _agreeing(sizes, [*known, *measure([asked])])
    return found, known


def _agreeing(sizes: Sequence[int], known: list[Union]) -> list[Union]:
    """Return what is known, as bounds where all of it together has no explanation.

    A core that gives uops their ports badly takes longer for a mixture than its ports ask for,
    never less: of what contradicts the rest the fewest are taken for numbers of ports at least.
    """
    if _explained(sizes, known):
        return known
    best: tuple[int, list[Union]] | None = None
    for count in range(max(sizes), _MOST_PORTS + 1):
        problem = _Problem(sizes, count, soft=True)
        if found := problem.nearly(known):
            more = [_ports_together(found, one.of) > one.ports and not one.least for one in known]
            if best and sum(more) >= best[0]:  # a port more explains no more
                break
            pairs = zip(known, more, strict=True)
            best = sum(more), [replace(one, least=one.least or yes) for one, yes in pairs]
    if best is None or best[0] > _WRONG * len(known):
        raise InputError(_NONE)
    return best[1]


def _explained(sizes: Sequence[int], known: Sequence[Union]) -> bool:
    for count in range(max(sizes), _MOST_PORTS + 1):
        problem = _Problem(sizes, count)
        problem.explain(known)
        if problem.solve():
            return True
    return False


def groups_sharing_ports(sizes: Sequence[int], pairs: Sequence[Union]) -> list[tuple[int, ...]]:
    """Return the classes in groups, of which none is seen to share ports with another.

    Where two together have more ports than dispatch keeps busy, nothing shows that they share.
    """
    group = {n: {n} for n in range(len(sizes))}
    for one in pairs:
        if not one.least and one.ports < sum(sizes[n] for n in one.of):
            joined = frozenset().union(*(group[n] for n in one.of))
            for n in joined:
                group[n] = set(joined)
    return sorted({tuple(sorted(some)) for some in group.values()}, key=min)


def solver() -> Any:
    """Return the solver's module; InputError where it is not installed."""
    try:
        import z3
    except ImportError:
        raise InputError("no z3: install loopwright with its extra `calibrate`") from None
    return z3


def _ports_together(found: Sequence[Ports], some: Sequence[int]) -> int:
    """Return how many ports some classes have together."""
    return len(frozenset().union(*(found[n] for n in some)))


def _fewest(sizes: Sequence[int], known: Sequence[Union]) -> tuple[int, list[Ports]]:
    """Return the fewest ports that explain what is known, and those of each class."""
    for count in range(max(sizes), _MOST_PORTS + 1):
        problem = _Problem(sizes, count)
        problem.explain(known)
        if found := problem.solve():
            return count, found
    raise InputError(_NONE)


class _Problem:
    """The classes that a port serves, as a question to the solver: a bit for each class."""

    def __init__(self, sizes: Sequence[int], count: int, *, soft: bool = False) -> None:
        self._z3 = z3 = solver()
        self._classes = len(sizes)
        self._serves = [z3.BitVec(f"port{n}", self._classes) for n in range(count)]
        self._solver = z3.Optimize() if soft else z3.Solver()
        # Ports have no names: any order of them is the same answer.
        for one, other in pairwise(self._serves):
            self._solver.add(z3.UGE(one, other))
        for n, size in enumerate(sizes):
            self._solver.add(self._together([n]) == size)

    def _together(self, classes: Sequence[int]) -> Any:
        mask = sum(1 << n for n in classes)
        return self._z3.Sum([self._z3.If(one & mask != 0, 1, 0) for one in self._serves])

    def explain(self, known: Sequence[Union]) -> None:
        """Ask for what was measured."""
        for one in known:
            together = self._together(one.of)
            self._solver.add(together >= one.ports if one.least else together == one.ports)

    def nearly(self, known: Sequence[Union]) -> list[Ports] | None:
        """Return ports that explain as much as any do, and of the rest no fewer than measured."""
        for one in known:
            together = self._together(one.of)
            self._solver.add(together >= one.ports)
            if not one.least:
                self._solver.add_soft(together == one.ports)
        return self.solve()

    def differ(self, found: Sequence[Ports], groups: Sequence[tuple[int, ...]], width: int) -> None:
        """Ask for another number of ports of some group, as far as dispatch lets it show."""
        differing = []
        for some in groups:
            size, other = _ports_together(found, some), self._together(some)
            differing.append(other < width if size >= width else other != size)
        self._solver.add(self._z3.Or(*differing))

    def solve(self) -> list[Ports] | None:
        """Return the ports of each class, None where there is no answer."""
        if self._solver.check() != self._z3.sat:
            return None
        model = self._solver.model()
        values = [model.eval(one, model_completion=True).as_long() for one in self._serves]
        return [
            frozenset(port for port, value in enumerate(values) if value >> n & 1)
            for n in range(self._classes)
        ]


def find_ports(
    laboratory: Laboratory, found: Sequence[PortClass], width: int
) -> tuple[list[Ports], Ports | None]:
    """Return the ports of each class, and those of what stores write, if they are others.

    InputError as mapping.find has it.
    """
    kit = laboratory.kit

    def measure(wanted: Sequence[tuple[int, ...]]) -> list[Union]:
        return unions(laboratory, found, wanted, width)

    sizes = [one.size for one in found]
    named = {one.blocker.name: n for n, one in enumerate(found)}
    load, store = named.get(kit.LOAD), named.get(kit.STORE)
    if load is None or store is None or not _two(measure, sizes, load, store):
        return find_mapping(sizes, width, measure)[0], None

    def apart(wanted: Sequence[tuple[int, ...]]) -> list[Union]:
        return measure([one for one in wanted if load not in one])

    ports, _ = find_mapping(sizes, width, apart)
    written = ports[store]
    ports[store] = frozenset(sorted(ports[load])[: sizes[store]])
    return ports, written


def _two(measure: Measure, sizes: Sequence[int], load: int, store: int) -> bool:
    """Say whether stores share ports with loads, and with a class that shares none with loads."""
    rest = [n for n in range(len(sizes)) if n not in (load, store)]
    pairs = [tuple(sorted(pair)) for n in rest for pair in ((n, store), (n, load))]
    seen = measure([tuple(sorted((load, store))), *pairs])
    less = {one.of for one in seen if one.ports < sum(sizes[n] for n in one.of) and not one.least}
    apart = {one.of for one in seen} - less
    return tuple(sorted((load, store))) in less and any(
        tuple(sorted((n, store))) in less and tuple(sorted((n, load))) in apart for n in rest
    )


_MANY_PAIRS = 0.9  # share of pairs
_LONGER_PAIRS = 0.04  # relative: by how much longer pairs take where ports are bound early


def binds_early(laboratory: Laboratory, core: Core) -> bool:
    """Say whether ports are bound early; not where there are no two classes."""
    found = core.classes
    pairs = index_subsets(len(found), 2)
    asked = [mixture(together([found[n] for n in pair])) for pair in pairs]
    longer = []
    for pair, figure in zip(pairs, laboratory.time(asked), strict=True):
        uops: Counter[frozenset[int]] = Counter()
        for n in pair:
            uops.update(dict.fromkeys(core.blocker_uops(n), TIMES * found[n].size))
        slots = TIMES * sum(found[n].size for n in pair)
        said = max(bound_cycles(uops), slots / core.width)
        if figure:
            longer.append(figure.cycles / said - 1)
    return bool(longer) and sorted(longer)[int(_MANY_PAIRS * len(longer))] > _LONGER_PAIRS
