"""Port classes: the forms of one uop that share ports, and the ports of each class.

Classes. Two forms that run p instances each a cycle alone are of one class where p of each take two
cycles together; they share no port where p of each take one. One blocking instruction stands for
each class.

Ports of each class. The search is guided by counter-examples. An SMT solver proposes a port
mapping, then another one that explains as much and differs in how many ports some classes have
together. Those classes are measured, until only permutations of one mapping are left.

Stores of two uops, address and data. A store that shares ports with loads and with arithmetic,
which share none with each other, uses load ports for its address and arithmetic ports for its data
(Zen 5 stores general registers so). Loads are then taken to share ports with addresses alone.

Early binding. Some cores bind uops to ports at dispatch, before it is known when they can start.
Pairs of classes then take longer together than their ports ask for; a core binds early where one
pair of ten exceeds that by more than noise. Fractions of a uop that blockers show then count for
nothing, and forms may take longer than their port bound.
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
from loopwright.microbench.blockers import BlockingKernel, Surplus
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.latency import Latency
from loopwright.microbench.throughput import Throughput

_NEAR = 0.04  # relative tolerance of a throughput around a whole number of ports
TIMES = 4  # cycles of each class of a mixture alone
_SPAN = 6  # cycles for which ports are blocked
_MORE_THAN_ONE = 1.4  # uops: more than one
_APART = 1.6  # cycles, of the 2 that forms with the same ports take together
_EARLY_TOLERANCE = 0.12  # relative tolerance upwards of a mixture, for early binding


@dataclass(frozen=True)
class Union:
    """Number of ports that several classes have together; least says that it may be more."""

    classes: tuple[int, ...]
    ports: int
    least: bool
    figure: Figure


def candidates(
    forms: Sequence[Form],
    rates: Mapping[str, Throughput],
    latencies: Mapping[str, Sequence[Latency]],
    width: int,
) -> dict[str, int]:
    """Return the forms that may be one uop, with their number of ports by throughput.

    As many ports as the dispatch width means at least as many. Excluded are forms with implied
    registers, long encodings, elimination, several results, a loop-carried latency above a cycle,
    or chains that meet in ports.
    """
    sizes = {}
    for form in forms:
        rate = rates[form.name]
        if rate.refused or not rate.clean or rate.meets or rate.cycles <= 0 or not form.chosen:
            continue
        if form_instances.is_long(form) or any(o.fixed is not None for o in form.operands):
            continue
        if sum(operand.written for operand in form.chosen) > 1:
            continue
        own = latencies[form.name]
        if any(one.source == one.target and one.cycles > 1 for one in own):
            continue
        if any(one.cycles == 0 and one.target != "f" and not one.refused for one in own):
            continue
        ports = max(round(1 / rate.cycles), 1)
        if ports <= width and abs(rate.cycles * ports - 1) <= _NEAR:
            sizes[form.name] = ports
    return sizes


def mixture(parts: Sequence[tuple[Form, int]]) -> list[bytes]:
    """Return a kernel of so many instances of each form, interleaved."""
    instances = []
    for number, (form, count) in enumerate(parts):
        factory = form_instances.Instances(number, len(parts))
        instances.append([factory.of(form) for _ in range(count)])
    return form_instances.interleaved(*instances)


def together(classes: Sequence[PortClass]) -> list[tuple[Form, int]]:
    """Return instances of each class that keep its ports busy for TIMES cycles."""
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

    Forms with more than one dispatch slot are of no class, and forms with more than one uop on the
    ports of a known class found none. A plain load and a plain store always found a class: without
    them nothing is known of forms with memory operands.
    """
    sizes = candidates(forms, rates, latencies, width)
    one_slot = [form for form in forms if form.memory or slots[form.name].uops == 1]
    classes: list[PortClass] = []
    for size in range(width - 1, 0, -1):
        unclassified = sorted((f for f in one_slot if sizes.get(f.name) == size), key=_blocks_badly)
        classes += _split(laboratory, unclassified, size, width, tuple(classes))
        # A load or store that a mixture did not separate from another class is a class all the
        # same.
        missing = _without_class([f for f in unclassified if f.memory], classes)
        classes += _split(laboratory, missing, size, width, tuple(classes))
        missing = _without_class(missing, classes)
        classes += [PortClass(form, size, (form.name,)) for form in missing]
    return classes


def _without_class(forms: Sequence[Form], classes: Sequence[PortClass]) -> list[Form]:
    """Return the forms that are the blocking instruction of no class."""
    blocking = {one.blocker.name for one in classes}
    return [form for form in forms if form.name not in blocking]


def _split(
    laboratory: Laboratory,
    forms: Sequence[Form],
    size: int,
    width: int,
    earlier: Sequence[PortClass],
) -> list[PortClass]:
    """Return the classes of forms with so many ports each.

    A load or a store is a class by itself, as no other form here accesses memory. Otherwise a class
    is founded by a form that clearly shares only some, or none, of the ports of the earlier ones. A
    form that leaves more others unclear than it has members is limited by something other than
    ports.
    """
    classes: list[PortClass] = []
    unclassified = list(forms)
    while unclassified:
        blocker, *others = unclassified
        surpluses = blockers.measure(
            laboratory, [BlockingKernel(blocker, one.blocking, _SPAN) for one in earlier]
        )
        if any(one.measured >= _MORE_THAN_ONE for one in surpluses):
            unclassified = others
            continue
        if blocker.memory:
            classes.append(PortClass(blocker, size, (blocker.name,)))
            unclassified = others
            continue
        count = TIMES * size
        mixtures = [mixture([(blocker, count), (form, count)]) for form in others]
        figures = list(zip(others, laboratory.time(mixtures), strict=True))
        members = [form for form, figure in figures if _same_ports(figure, size, width)]
        different = [form for form, figure in figures if _different_ports(figure, size, width)]
        if len(others) - len(members) - len(different) > len(members) + 1:
            unclassified = others
            continue
        classes.append(PortClass(blocker, size, tuple(f.name for f in (blocker, *members))))
        unclassified = different
    return classes


def _same_ports(figure: Figure, size: int, width: int) -> bool:
    """True if two forms with so many ports each share all of them."""
    if not figure:
        return False
    return _count_ports(figure.cycles / TIMES, (size, size), width) == (size, False)


def _different_ports(figure: Figure, size: int, width: int) -> bool:
    """True if two forms clearly have different ports, however many they share."""
    if not figure or _same_ports(figure, size, width):
        return False
    count = _count_ports(figure.cycles / TIMES, (size, size), width)
    if count is None and 2 * size >= width:  # dispatch, which both keep busy, may be late, too
        return figure.cycles / TIMES < _APART
    return count is not None


def _blocks_badly(form: Form) -> tuple[int, ...]:
    """Return a sort key of how badly a form blocks: dependencies, then implied or narrow registers.

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


def measure_unions(
    laboratory: Laboratory,
    classes: Sequence[PortClass],
    groups: Sequence[tuple[int, ...]],
    width: int,
) -> list[Union]:
    """Measure how many ports classes have together; groups without a clear answer are left out.

    A single wrong answer among these makes the mapping wrong, or impossible, for all forms.
    """
    mixtures = [mixture(together([classes[n] for n in group])) for group in groups]
    measured = []
    for group, figure in zip(groups, laboratory.time_least(mixtures), strict=True):
        sizes = [classes[n].size for n in group]
        if figure and (count := _count_ports(figure.cycles / TIMES, sizes, width)):
            measured.append(Union(group, *count, figure))
    return measured


def _count_ports(cycles: float, sizes: Sequence[int], width: int) -> tuple[int, bool] | None:
    """Return the number of ports that a mixture of classes uses, and whether it is a lower bound.

    Early binding makes mixtures slower than their ports need; nothing makes them faster. The
    dispatch width hides further ports. None if the cycles fit no number of ports.
    """
    total = sum(sizes)
    bound = max(1.0, total / width)
    if cycles <= bound * (1 + _EARLY_TOLERANCE / 2):
        return (total, False) if total <= width else (width, True)
    ports = ceil(total / cycles * (1 - _NEAR / 2))
    if max(sizes) <= ports <= total and cycles <= total / ports * (1 + _EARLY_TOLERANCE):
        return min(ports, width), ports >= width
    return None


_MOST_PORTS = 16
_ROUNDS = 200
_WRONG = 0.1  # share of mixtures that may be slower than their port bound
_NONE = "no ports explain what mixtures take; measure into another folder on a quiet machine"
_SPARE = 1  # further ports that another mapping may have

Measure = Callable[[Sequence[tuple[int, ...]]], list[Union]]


def find_mapping(
    sizes: Sequence[int], width: int, measure: Measure
) -> tuple[list[Ports], list[Union]]:
    """Return the ports of each class, and the measurements that they rest on.

    measure returns how many ports some classes have together, and leaves out what is unclear.
    Groups of classes that share no ports are solved apart. InputError without the solver or any
    class, and where no mapping explains the measurements.
    """
    if not sizes:
        raise InputError("no class of forms was found: too few forms, or too few of them answered")
    pairs = measure(index_subsets(len(sizes), 2))
    ports_of: dict[int, Ports] = {}
    first = 0
    groups = groups_sharing_ports(sizes, pairs)
    all_unions = [
        union for union in pairs if not any(set(union.classes) <= set(group) for group in groups)
    ]
    for group in groups:
        within = [_renumbered(union, group) for union in pairs if set(union.classes) <= set(group)]

        def measure_within(
            wanted: Sequence[tuple[int, ...]], group: tuple[int, ...] = group
        ) -> list[Union]:
            measured = measure([tuple(group[n] for n in classes) for classes in wanted])
            return [_renumbered(union, group) for union in measured]

        own_sizes = [sizes[n] for n in group]
        solved, explained = _solve_group(own_sizes, width, within, measure_within)
        for n, ports in zip(group, solved, strict=True):
            ports_of[n] = frozenset(first + port for port in ports)
        first += len(frozenset().union(*solved))
        all_unions += [
            replace(union, classes=tuple(group[n] for n in union.classes)) for union in explained
        ]
    return [ports_of[n] for n in range(len(sizes))], all_unions


def _renumbered(union: Union, group: Sequence[int]) -> Union:
    """Return a union with classes numbered within a group."""
    return replace(union, classes=tuple(group.index(n) for n in union.classes))


def _solve_group(
    sizes: Sequence[int], width: int, unions: list[Union], measure: Measure
) -> tuple[list[Ports], list[Union]]:
    """Return the ports of the classes of a group, and the unions they explain."""
    triples = [classes for classes in index_subsets(len(sizes), 3) if len(classes) > 2]
    unions = _agreeing(sizes, unions)
    for _ in range(_ROUNDS):
        count, mapping = _fewest(sizes, unions)
        problem = _Problem(sizes, count + _SPARE)
        problem.explain(unions)
        problem.differ(mapping, triples, width)
        other = problem.solve()
        if other is None:
            return mapping, unions
        counter_example = next(
            classes
            for classes in triples
            if min(_ports_together(other, classes), width)
            != min(_ports_together(mapping, classes), width)
        )
        triples.remove(counter_example)
        unions = _agreeing(sizes, [*unions, *measure([counter_example])])
    return mapping, unions


def _agreeing(sizes: Sequence[int], unions: list[Union]) -> list[Union]:
    """Return unions, some of them relaxed to lower bounds where no mapping explains all.

    Early binding makes a mixture slower than its ports ask for, never faster. Of unions that
    contradict the rest, the fewest are relaxed.
    """
    if _explained(sizes, unions):
        return unions
    best: tuple[int, list[Union]] | None = None
    for count in range(max(sizes), _MOST_PORTS + 1):
        problem = _Problem(sizes, count, soft=True)
        if mapping := problem.nearly(unions):
            exceeded = [
                not union.least and _ports_together(mapping, union.classes) > union.ports
                for union in unions
            ]
            if best and sum(exceeded) >= best[0]:  # a port more explains no more
                break
            pairs = zip(unions, exceeded, strict=True)
            relaxed = [replace(union, least=union.least or least) for union, least in pairs]
            best = sum(exceeded), relaxed
    if best is None or best[0] > _WRONG * len(unions):
        raise InputError(_NONE)
    return best[1]


def _explained(sizes: Sequence[int], unions: Sequence[Union]) -> bool:
    """True if some mapping explains the unions; one of fewer ports is one with idle ports."""
    problem = _Problem(sizes, _MOST_PORTS)
    problem.explain(unions)
    return problem.solve() is not None


def groups_sharing_ports(sizes: Sequence[int], pairs: Sequence[Union]) -> list[tuple[int, ...]]:
    """Return the classes in groups that share no ports with each other, as far as pairs show it.

    Where two classes together have more ports than dispatch keeps busy, nothing shows that they
    share.
    """
    group = {n: {n} for n in range(len(sizes))}
    for union in pairs:
        if not union.least and union.ports < sum(sizes[n] for n in union.classes):
            joined = frozenset().union(*(group[n] for n in union.classes))
            for n in joined:
                group[n] = set(joined)
    return sorted({tuple(sorted(members)) for members in group.values()}, key=min)


def solver() -> Any:
    """Return the module of the solver; InputError if it is not installed."""
    try:
        import z3
    except ImportError:
        raise InputError("no z3: install loopwright with its extra `calibrate`") from None
    return z3


def _ports_together(mapping: Sequence[Ports], classes: Sequence[int]) -> int:
    """Return the number of ports that some classes have together."""
    return len(frozenset().union(*(mapping[n] for n in classes)))


def _fewest(sizes: Sequence[int], unions: Sequence[Union]) -> tuple[int, list[Ports]]:
    """Return the fewest ports that explain the unions, and those of each class."""
    for count in range(max(sizes), _MOST_PORTS + 1):
        problem = _Problem(sizes, count)
        problem.explain(unions)
        if mapping := problem.solve():
            return count, mapping
    raise InputError(_NONE)


class _Problem:
    """A port mapping as a question to the solver: for each port a bit per class that it serves."""

    def __init__(self, sizes: Sequence[int], count: int, *, soft: bool = False) -> None:
        self._z3 = z3 = solver()
        self._classes = len(sizes)
        self._serves = [z3.BitVec(f"port{n}", self._classes) for n in range(count)]
        self._solver = z3.Optimize() if soft else z3.Solver()
        # Ports have no names: any permutation is the same answer.
        for one, other in pairwise(self._serves):
            self._solver.add(z3.UGE(one, other))
        for n, size in enumerate(sizes):
            self._solver.add(self._ports_serving([n]) == size)

    def _ports_serving(self, classes: Sequence[int]) -> Any:
        """Return the number of ports that serve any of some classes, as an expression."""
        mask = sum(1 << n for n in classes)
        return self._z3.Sum([self._z3.If(port & mask != 0, 1, 0) for port in self._serves])

    def explain(self, unions: Sequence[Union]) -> None:
        """Require the measured unions."""
        for union in unions:
            ports = self._ports_serving(union.classes)
            self._solver.add(ports >= union.ports if union.least else ports == union.ports)

    def nearly(self, unions: Sequence[Union]) -> list[Ports] | None:
        """Return ports that meet as many unions as possible; other unions are lower bounds."""
        for union in unions:
            ports = self._ports_serving(union.classes)
            self._solver.add(ports >= union.ports)
            if not union.least:
                self._solver.add_soft(ports == union.ports)
        return self.solve()

    def differ(
        self, mapping: Sequence[Ports], groups: Sequence[tuple[int, ...]], width: int
    ) -> None:
        """Require another number of ports for some group, as far as the dispatch width shows it."""
        differing = []
        for group in groups:
            size, other = _ports_together(mapping, group), self._ports_serving(group)
            differing.append(other < width if size >= width else other != size)
        self._solver.add(self._z3.Or(*differing))

    def solve(self) -> list[Ports] | None:
        """Return the ports of each class, None if there is no solution."""
        if self._solver.check() != self._z3.sat:
            return None
        model = self._solver.model()
        values = [model.eval(one, model_completion=True).as_long() for one in self._serves]
        return [
            frozenset(port for port, value in enumerate(values) if value >> n & 1)
            for n in range(self._classes)
        ]


def find_ports(
    laboratory: Laboratory, classes: Sequence[PortClass], width: int
) -> tuple[list[Ports], Ports | None]:
    """Return the ports of each class, and those of store data if they are others.

    InputError as for find_mapping.
    """
    kit = laboratory.kit

    def measure(groups: Sequence[tuple[int, ...]]) -> list[Union]:
        return measure_unions(laboratory, classes, groups, width)

    sizes = [one.size for one in classes]
    named = {one.blocker.name: n for n, one in enumerate(classes)}
    load, store = named.get(kit.LOAD), named.get(kit.STORE)
    if load is None or store is None or not _two_uop_store(measure, sizes, load, store):
        return find_mapping(sizes, width, measure)[0], None

    def without_loads(groups: Sequence[tuple[int, ...]]) -> list[Union]:
        return measure([group for group in groups if load not in group])

    ports, _ = find_mapping(sizes, width, without_loads)
    written = ports[store]
    if not any(written & ports[n] for n in range(len(sizes)) if n not in (load, store)):
        # No mapping bears out that one pair shares ports.
        return find_mapping(sizes, width, measure)[0], None
    ports[store] = frozenset(sorted(ports[load])[: sizes[store]])
    return ports, written


def _two_uop_store(measure: Measure, sizes: Sequence[int], load: int, store: int) -> bool:
    """True if stores share ports with loads, and with a class that loads share none with."""
    others = [n for n in range(len(sizes)) if n not in (load, store)]
    groups = [(load, store), *((n, one) for n in others for one in (store, load))]
    measured = measure([tuple(sorted(group)) for group in groups])
    sharing = {
        frozenset(union.classes): not union.least
        and union.ports < sum(sizes[n] for n in union.classes)
        for union in measured
    }
    both = frozenset((load, store))
    return sharing.get(both, False) and any(
        sharing.get(frozenset((n, store)), False) and not sharing.get(frozenset((n, load)), True)
        for n in others
    )


_QUANTILE = 0.9  # of the excess of pairs
_LONGER = 0.04  # relative: by how much pairs are slower where ports are bound early


def binds_early(laboratory: Laboratory, core: Core) -> bool:
    """True if ports are bound early; False with fewer than two classes."""
    classes = core.classes
    pairs = index_subsets(len(classes), 2)
    mixtures = [mixture(together([classes[n] for n in pair])) for pair in pairs]
    excess = []
    for pair, figure in zip(pairs, laboratory.time(mixtures), strict=True):
        uops: Counter[Ports] = Counter()
        for n in pair:
            uops.update(dict.fromkeys(core.blocker_uops(n), TIMES * classes[n].size))
        slots = TIMES * sum(classes[n].size for n in pair)
        predicted = max(bound_cycles(uops), slots / core.width)
        if figure:
            excess.append(figure.cycles / predicted - 1)
    return bool(excess) and sorted(excess)[int(_QUANTILE * len(excess))] > _LONGER
