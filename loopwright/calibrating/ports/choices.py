"""What uops a form may have, before blockers tell: all multisets of ports of few uops."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

from loopwright.calibrating.forms.form import Form, Memory
from loopwright.calibrating.ports.blockers import Surplus
from loopwright.calibrating.ports.core import Core
from loopwright.calibrating.ports.rule import Ports, cycles

MOST = 4  # uops that compute, of which all multisets are listed
NEAR = 0.08  # relative: by how much more than it takes alone ports may be needed
UNCLEAR = 0.02  # cycles: the same, absolutely

Multiset = tuple[Ports, ...]


@dataclass(frozen=True)
class Numbers:
    """How many uops a form may have: none says that there is no known limit."""

    least: int
    most: int | None = None


@dataclass
class Case:
    """A form and what is known of its uops.

    span is how long to block ports; places how many it takes at dispatch; cycles what it takes
    alone; guess the uops that it may have, from others like it; late says that its result comes
    after more than a cycle. seen has surpluses by the numbers of classes; found is what explains
    them, None where nothing or several things do.
    """

    form: Form
    span: int
    places: int
    numbers: Numbers
    cycles: float
    guess: Multiset | None = None
    late: bool = False
    seen: dict[int, Surplus] = field(default_factory=dict)
    found: Multiset | None = None


@dataclass(frozen=True)
class Choice:
    """Uops that a form may have, what they take, and how many of them blockers of classes show."""

    uops: Multiset
    cycles: float
    shown: tuple[int, ...]
    sorted: tuple[tuple[int, ...], ...]
    computing: int


def ordered(uops: Multiset) -> tuple[tuple[int, ...], ...]:
    """Return uops in an order that is the same for equal ones."""
    return tuple(sorted(tuple(sorted(one)) for one in uops))


class Listed:
    """All multisets of few uops on a core."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._load, self._store = core.of(core.load), core.of(core.store)
        self._sets = core.sets
        self._known: dict[tuple[bool, bool, int], list[Choice]] = {}

    def fitting(self, case: Case) -> Iterator[Choice]:
        """Yield what is possible by what is known without blockers, the likeliest first."""
        most = case.cycles * (1 + NEAR) + UNCLEAR
        least, end = case.numbers.least, case.numbers.most
        guess = ordered(case.guess) if case.guess is not None else None
        every = self._of(case.form.memory)
        if case.guess and all(one.sorted != guess for one in every):
            every = [self._choice(case.guess), *every]
        yield from sorted(
            (
                one
                for one in every
                if one.cycles <= most and least <= len(one.uops) <= (end or len(one.uops))
            ),
            key=lambda one: (
                one.sorted != guess,
                len(one.uops),
                round(abs(case.cycles - one.cycles), 2),
            ),
        )

    def _of(self, memory: Memory | None) -> list[Choice]:
        """Return all choices of few uops that compute, with the loads and stores of memory."""
        moves = (memory is not None and memory.read, memory is not None and memory.written)
        parts = memory.parts if memory else 0
        key = (*moves, parts)
        if key not in self._known:
            loads = _times(self._load, moves[0], parts)
            stores = _times(self._store, moves[1], parts)
            if moves[1] and self._core.written:
                stores = [self._core.stored, self._core.stored * 2, *stores]
            # What is computed is written by ports of its own, or by those that stores have.
            own = [(one,) for one in (self._core.data, self._core.written) if one and all(moves)]
            self._known[key] = [
                self._choice(one)
                for count in range(MOST + 1)
                for some in combinations_with_replacement(self._sets, count)
                for load in loads
                for store in [*stores, *own]
                if count or not all(moves) or not self._core.written
                for one in [(*some, *load, *store)]
            ]
        return self._known[key]

    def _choice(self, uops: Multiset) -> Choice:
        computing = len(self._core.computing(uops))
        return Choice(
            uops, cycles(Counter(uops)), self._core.within(uops), ordered(uops), computing
        )


def _times(ports: Ports | None, needed: bool, most: int) -> list[Multiset]:
    """Return how often uops of memory may be there: once and more where one is needed."""
    return [(ports,) * n for n in range(1, most + 1)] if needed and ports else [()]
