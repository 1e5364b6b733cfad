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
    out = {}
    for form in forms:
        rate = rates[form.name]
        if rate.refused or not rate.clean or rate.meets or rate.cycles <= 0 or not form.chosen:
            continue
        if any(operand.fixed is not None for operand in form.operands) or form_instances.is_long(
            form
        ):
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
    """Return a kernel of so many instances of each form, interleaved."""
    factories = [form_instances.Instances(n, len(parts)) for n in range(len(parts))]
    instances = [
        [instances_of.of(form) for _ in range(n)]
        for instances_of, (form, n) in zip(factories, parts, strict=True)
    ]
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
        missing = [
            f for f in unclassified if f.memory and f not in (one.blocker for one in classes)
        ]
        classes += _split(laboratory, missing, size, width, tuple(classes))
        founded = {one.blocker.name for one in classes}
        classes += [PortClass(f, size, (f.name,)) for f in missing if f.name not in founded]
    return classes


def _split(
    laboratory: Laboratory, forms: Sequence[Form], size: int, width: int, known: Sequence[PortClass]
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
        blocker, *rest = unclassified
        surpluses = blockers.measure(
            laboratory, [BlockingKernel(blocker, one.blocking, _SPAN) for one in known]
        )
        if any(one.measured >= _MORE_THAN_ONE for one in surpluses):
            unclassified = rest
            continue
        if blocker.memory:
            classes.append(PortClass(blocker, size, (blocker.name,)))
            unclassified = rest
            continue
        mixtures = [mixture([(blocker, TIMES * size), (f, TIMES * size)]) for f in rest]
        figures = list(zip(rest, laboratory.time(mixtures), strict=True))
        members = [form for form, figure in figures if _same_ports(figure, size, width)]
        others = [form for form, figure in figures if _different_ports(figure, size, width)]
        if len(rest) - len(members) - len(others) > len(members) + 1:
            unclassified = rest
            continue
        classes.append(PortClass(blocker, size, tuple(f.name for f in (blocker, *members))))
        unclassified = others
    return classes


def _same_ports(figure: Figure, size: int, width: int) -> bool:
    """True if two forms with so many ports each share all of them."""
    found = figure and _ports_of_mixture(figure.cycles / TIMES, (size, size), width)
    return bool(found) and found == (size, False)


def _different_ports(figure: Figure, size: int, width: int) -> bool:
    """True if two forms clearly have different ports, however many they share."""
    if not figure or _same_ports(figure, size, width):
        return False
    told = _ports_of_mixture(figure.cycles / TIMES, (size, size), width)
    if told is None and 2 * size >= width:  # dispatch, which both keep busy, may be late, too
        return figure.cycles / TIMES < _APART
    return told is not None


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


def unions(
    laboratory: Laboratory,
    classes: Sequence[PortClass],
    groups: Sequence[tuple[int, ...]],
    width: int,
) -> list[Union]:
    """Measure how many ports classes have together; groups without a clear answer are left out.

    A single wrong answer among these makes the mapping wrong, or impossible, for all forms.
    """
    mixtures = [mixture(together([classes[n] for n in one])) for one in groups]
    result = []
    for group, figure in zip(groups, laboratory.time_least(mixtures), strict=True):
        sizes = [classes[n].size for n in group]
        if figure and (ports_and_bound := _ports_of_mixture(figure.cycles / TIMES, sizes, width)):
            result.append(Union(group, *ports_and_bound, figure))
    return result


def _ports_of_mixture(cycles: float, sizes: Sequence[int], width: int) -> tuple[int, bool] | None:
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
    known = measure(index_subsets(len(sizes), 2))
    found: dict[int, Ports] = {}
    first = 0
    groups = groups_sharing_ports(sizes, known)
    all_unions = [
        union for union in known if not any(set(union.classes) <= set(group) for group in groups)
    ]
    for group in groups:
        within = [_renumbered(union, group) for union in known if set(union.classes) <= set(group)]

        def ask(wanted: Sequence[tuple[int, ...]], group: tuple[int, ...] = group) -> list[Union]:
            answers = measure([tuple(group[n] for n in classes) for classes in wanted])
            return [_renumbered(union, group) for union in answers]

        solved, more = _solve_group([sizes[n] for n in group], width, within, ask)
        for n, ports in zip(group, solved, strict=True):
            found[n] = frozenset(first + port for port in ports)
        first += len(frozenset().union(*solved))
        all_unions += [
            replace(union, classes=tuple(group[n] for n in union.classes)) for union in more
        ]
    return [found[n] for n in range(len(sizes))], all_unions


def _renumbered(union: Union, group: Sequence[int]) -> Union:
    """Return a union with classes numbered within a group."""
    return replace(union, classes=tuple(group.index(n) for n in union.classes))


def _solve_group(
    sizes: Sequence[int], width: int, known: list[Union], measure: Measure
) -> tuple[list[Ports], list[Union]]:
    """Return the ports of the classes of a group, and the unions they explain."""
    untold = [one for one in index_subsets(len(sizes), 3) if len(one) > 2]
    known = _agreeing(sizes, known)
    for _ in range(_ROUNDS):
        count, found = _fewest(sizes, known)
        problem = _Problem(sizes, count + _SPARE)
        problem.explain(known)
        problem.differ(found, untold, width)
        other = problem.solve()
        if other is None:
            return found, known
        (counter_example, *_) = (
            classes
            for classes in untold
            if min(_ports_together(other, classes), width)
            != min(_ports_together(found, classes), width)
        )
        untold.remove(counter_example)
        known = _agreeing(sizes, [*known, *measure([counter_example])])
    return found, known


def _agreeing(sizes: Sequence[int], known: list[Union]) -> list[Union]:
    """Return unions, some of them relaxed to lower bounds where no mapping explains all.

    Early binding makes a mixture slower than its ports ask for, never faster. Of unions that
    contradict the rest, the fewest are relaxed.
    """
    if _explained(sizes, known):
        return known
    best: tuple[int, list[Union]] | None = None
    for count in range(max(sizes), _MOST_PORTS + 1):
        problem = _Problem(sizes, count, soft=True)
        if found := problem.nearly(known):
            more = [
                _ports_together(found, one.classes) > one.ports and not one.least for one in known
            ]
            if best and sum(more) >= best[0]:  # a port more explains no more
                break
            pairs = zip(known, more, strict=True)
            best = sum(more), [replace(one, least=one.least or yes) for one, yes in pairs]
    if best is None or best[0] > _WRONG * len(known):
        raise InputError(_NONE)
    return best[1]


def _explained(sizes: Sequence[int], known: Sequence[Union]) -> bool:
    """True if some mapping explains the unions; one of fewer ports is one with idle ports."""
    problem = _Problem(sizes, _MOST_PORTS)
    problem.explain(known)
    return problem.solve() is not None


def groups_sharing_ports(sizes: Sequence[int], pairs: Sequence[Union]) -> list[tuple[int, ...]]:
    """Return the classes in groups that share no ports with each other, as far as pairs show it.

    Where two classes together have more ports than dispatch keeps busy, nothing shows that they
    share.
    """
    group = {n: {n} for n in range(len(sizes))}
    for one in pairs:
        if not one.least and one.ports < sum(sizes[n] for n in one.classes):
            joined = frozenset().union(*(group[n] for n in one.classes))
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


def _ports_together(found: Sequence[Ports], classes: Sequence[int]) -> int:
    """Return the number of ports that some classes have together."""
    return len(frozenset().union(*(found[n] for n in classes)))


def _fewest(sizes: Sequence[int], known: Sequence[Union]) -> tuple[int, list[Ports]]:
    """Return the fewest ports that explain the unions, and those of each class."""
    for count in range(max(sizes), _MOST_PORTS + 1):
        problem = _Problem(sizes, count)
        problem.explain(known)
        if found := problem.solve():
            return count, found
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
            self._solver.add(self._ports_of_mixture([n]) == size)

    def _ports_of_mixture(self, classes: Sequence[int]) -> Any:
        mask = sum(1 << n for n in classes)
        return self._z3.Sum([self._z3.If(one & mask != 0, 1, 0) for one in self._serves])

    def explain(self, known: Sequence[Union]) -> None:
        """Require the measured unions."""
        for one in known:
            together = self._ports_of_mixture(one.classes)
            self._solver.add(together >= one.ports if one.least else together == one.ports)

    def nearly(self, known: Sequence[Union]) -> list[Ports] | None:
        """Return ports that meet as many unions as possible; other unions are lower bounds."""
        for one in known:
            together = self._ports_of_mixture(one.classes)
            self._solver.add(together >= one.ports)
            if not one.least:
                self._solver.add_soft(together == one.ports)
        return self.solve()

    def differ(self, found: Sequence[Ports], groups: Sequence[tuple[int, ...]], width: int) -> None:
        """Require another number of ports for some group, as far as the dispatch width shows it."""
        differing = []
        for group in groups:
            size, other = _ports_together(found, group), self._ports_of_mixture(group)
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
    laboratory: Laboratory, found: Sequence[PortClass], width: int
) -> tuple[list[Ports], Ports | None]:
    """Return the ports of each class, and those of store data if they are others.

    InputError as for find_mapping.
    """
    kit = laboratory.kit

    def measure(wanted: Sequence[tuple[int, ...]]) -> list[Union]:
        return unions(laboratory, found, wanted, width)

    sizes = [one.size for one in found]
    named = {one.blocker.name: n for n, one in enumerate(found)}
    load, store = named.get(kit.LOAD), named.get(kit.STORE)
    if load is None or store is None or not _two_uop_store(measure, sizes, load, store):
        return find_mapping(sizes, width, measure)[0], None

    def apart(wanted: Sequence[tuple[int, ...]]) -> list[Union]:
        return measure([one for one in wanted if load not in one])

    ports, _ = find_mapping(sizes, width, apart)
    written = ports[store]
    ports[store] = frozenset(sorted(ports[load])[: sizes[store]])
    return ports, written


def _two_uop_store(measure: Measure, sizes: Sequence[int], load: int, store: int) -> bool:
    """True if stores share ports with loads, and with a class that loads share none with."""
    rest = [n for n in range(len(sizes)) if n not in (load, store)]
    pairs = [tuple(sorted(pair)) for n in rest for pair in ((n, store), (n, load))]
    seen = measure([tuple(sorted((load, store))), *pairs])
    less = {
        one.classes
        for one in seen
        if one.ports < sum(sizes[n] for n in one.classes) and not one.least
    }
    apart = {one.classes for one in seen} - less
    return tuple(sorted((load, store))) in less and any(
        tuple(sorted((n, store))) in less and tuple(sorted((n, load))) in apart for n in rest
    )


_MANY_PAIRS = 0.9  # quantile of the pairs
_LONGER_PAIRS = 0.04  # relative: by how much pairs are slower where ports are bound early


def binds_early(laboratory: Laboratory, core: Core) -> bool:
    """True if ports are bound early; False with fewer than two classes."""
    classes = core.classes
    pairs = index_subsets(len(classes), 2)
    asked = [mixture(together([classes[n] for n in pair])) for pair in pairs]
    excess = []
    for pair, figure in zip(pairs, laboratory.time(asked), strict=True):
        uops: Counter[frozenset[int]] = Counter()
        for n in pair:
            uops.update(dict.fromkeys(core.blocker_uops(n), TIMES * classes[n].size))
        slots = TIMES * sum(classes[n].size for n in pair)
        predicted = max(bound_cycles(uops), slots / core.width)
        if figure:
            excess.append(figure.cycles / predicted - 1)
    return bool(excess) and sorted(excess)[int(_MANY_PAIRS * len(excess))] > _LONGER_PAIRS
