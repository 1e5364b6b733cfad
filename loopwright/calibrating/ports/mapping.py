"""The ports of each class: what explains how many ports classes have together.

A counter-example-guided search: an SMT solver proposes ports, then other ports that explain as
much but differ in how many some classes have together; those are measured, until no other answer
is left but the same with other names.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from loopwright.calibrating.ports.classes import Union
from loopwright.calibrating.ports.rule import Ports, subsets
from loopwright.errors import InputError

_MOST_PORTS = 16
_ROUNDS = 200
_WRONG = 0.1  # share of mixtures that may take longer than their ports ask for
_NONE = "no ports explain what mixtures take; measure into another folder on a quiet machine"
_SPARE = 1  # ports more than needed that another answer may have

Measure = Callable[[Sequence[tuple[int, ...]]], list[Union]]


def find(sizes: Sequence[int], width: int, measure: Measure) -> tuple[list[Ports], list[Union]]:
    """Return the ports of each class by numbers, and what was measured to find them.

    measure tells how many ports some classes have together, and leaves out what the figure does
    not say. Groups of classes that are not seen to share any have ports of their own. InputError
    without the solver or any class, and where no ports explain what was measured.
    """
    if not sizes:
        raise InputError("no class of forms was found: too few forms, or too few of them answered")
    known = measure(subsets(len(sizes), 2))
    found: dict[int, Ports] = {}
    first = 0
    groups = parts(sizes, known)
    out = [one for one in known if not any(set(one.of) <= set(group) for group in groups)]
    for group in groups:
        own = [_within(one, group) for one in known if set(one.of) <= set(group)]

        def ask(wanted: Sequence[tuple[int, ...]], group: tuple[int, ...] = group) -> list[Union]:
            answers = measure([tuple(group[n] for n in one) for one in wanted])
            return [_within(one, group) for one in answers]

        solved, more = _solve([sizes[n] for n in group], width, own, ask)
        for n, ports in zip(group, solved, strict=True):
            found[n] = frozenset(first + port for port in ports)
        first += len(frozenset().union(*solved))
        out += [replace(one, of=tuple(group[n] for n in one.of)) for one in more]
    return [found[n] for n in range(len(sizes))], out


def _within(one: Union, group: Sequence[int]) -> Union:
    """Return what classes have together, by their places in a group."""
    return replace(one, of=tuple(group.index(n) for n in one.of))


def _solve(
    sizes: Sequence[int], width: int, known: list[Union], measure: Measure
) -> tuple[list[Ports], list[Union]]:
    """Return the ports of classes of a group, and what is known of them."""
    open_ = [one for one in subsets(len(sizes), 3) if len(one) > 2]
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
            if min(_size(other, some), width) != min(_size(found, some), width)
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
            more = [_size(found, one.of) > one.ports and not one.least for one in known]
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


def parts(sizes: Sequence[int], pairs: Sequence[Union]) -> list[tuple[int, ...]]:
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


def _size(found: Sequence[Ports], some: Sequence[int]) -> int:
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
    """Which classes a port serves, as a question to the solver: a bit for each class."""

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
            size, other = _size(found, some), self._together(some)
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
