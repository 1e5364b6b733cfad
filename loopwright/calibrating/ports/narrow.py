"""Which floods tell the uops of a form: each is asked for what those before it left open.

All multisets of ports that explain what is known stand side by side. The flood on which the
likeliest one differs from the most others is asked next, until one is left. Known are how many uops
a form has, where dispatch counts them, that no ports are needed for longer than it takes alone, and
which uops of memory it must have.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, product

from loopwright.calibrating.forms.form import Form, Memory
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.ports import floods
from loopwright.calibrating.ports.core import Core
from loopwright.calibrating.ports.floods import Asked, Surplus
from loopwright.calibrating.ports.rule import Ports, cycles

_MOST = 4  # uops that compute, of which all multisets are listed
_NEAR = 0.08  # relative: by how much more than it takes alone ports may be needed
_UNCLEAR = 0.02  # cycles: the same, absolutely
_FEW = 1  # places at dispatch that a flood leaves in a cycle
_LESS = 0.5  # uops that a longer flood has to show less
_SLACK = 0.4  # uops: how far from a whole number a surplus may lie

Multiset = tuple[Ports, ...]


@dataclass(frozen=True)
class Numbers:
    """How many uops a form may have: none says that there is no known limit."""

    least: int
    most: int | None = None


@dataclass
class Case:
    """A form and what is known of its uops.

    span is how long to flood ports; places how many it takes at dispatch; cycles what it takes
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
class _Choice:
    """Uops that a form may have, what they take, and how many of them floods of classes show."""

    uops: Multiset
    cycles: float
    shown: tuple[int, ...]
    sorted: tuple[tuple[int, ...], ...]
    computing: int


def _sorted(uops: Multiset) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(tuple(sorted(one)) for one in uops))


def solve(laboratory: Laboratory, core: Core, cases: Sequence[Case]) -> None:
    """Find the uops of each form; where nothing explains them, all floods are asked."""
    listed = _Listed(core)
    _solve(laboratory, core, listed, cases)
    _solve(laboratory, core, listed, _changed(laboratory, core, cases))


def _solve(laboratory: Laboratory, core: Core, listed: "_Listed", cases: Sequence[Case]) -> None:
    left = {n: _agreeing(core, case, listed.fitting(case)) for n, case in enumerate(cases)}
    while left:
        asked = []
        for n, some in list(left.items()):
            number = _next(core, cases[n], some)
            if number is None:
                del left[n]
                if cases[n].found is None:
                    cases[n].found = _all(core, cases[n]) or _blocking(listed, core, cases[n])
            else:
                asked.append((n, number))
        wanted = [_asked(core, cases[n], c) for n, c in asked]
        answers = iter(floods.measure(laboratory, [one for one in wanted if one]))
        for (n, c), flood in zip(asked, wanted, strict=True):
            cases[n].seen[c] = next(answers) if flood else Surplus(None, float("nan"), 0.0)
            left[n] = _agreeing(core, cases[n], left[n])


def _changed(laboratory: Laboratory, core: Core, cases: Sequence[Case]) -> list[Case]:
    """Return cases of which longer floods show something else, with that in its place.

    Asked are floods that leave few places at dispatch, of forms of several uops: where these show
    uops that no other flood does, or no whole number, delivery may be in the way, which long floods
    make up for.
    """
    asked = [
        (case, number)
        for case in cases
        for number, shown in case.seen.items()
        if len(core.ports[number]) in range(core.width - _FEW, core.width)
        and (shown.uops is None or core.ports[number] in (case.found or ()))
        and (case.places > 1 or case.found is None)
    ]
    wanted = [floods.longest(case.form, core.classes[n].flood) for case, n in asked]
    out: dict[str, Case] = {}
    for (case, n), one in zip(asked, floods.measure(laboratory, wanted), strict=True):
        if one.measured < case.seen[n].measured - max(_LESS, 2.5 * one.uncertainty):
            # Uops do not get fewer: none but those that other floods show.
            case.seen[n], case.found = replace(one, uops=_within(core, case, n)), None
            out[case.form.name] = case
    return list(out.values())


def _within(core: Core, case: Case, number: int) -> int:
    """Return the uops that floods of parts of a class show."""
    parts = (one.uops for n, one in case.seen.items() if core.ports[n] < core.ports[number])
    return max((uops for uops in parts if uops is not None), default=0)


def _asked(core: Core, case: Case, number: int) -> Asked | None:
    flood = core.classes[number].flood
    span, places = case.span, case.places
    return floods.within(case.form, flood, span, places, core.width, case.cycles)


def _next(core: Core, case: Case, fitting: Sequence[_Choice]) -> int | None:
    """Return the class to flood next, None where one choice is left or nothing can be asked."""
    unasked = [n for n in range(len(core.classes)) if n not in case.seen]
    shown = {one.shown for one in fitting}
    few = case.numbers.most is not None or (bool(fitting) and fitting[0].computing < _MOST)
    if len(shown) == 1 and (few or not unasked):
        case.found = fitting[0].uops
        return None
    if not fitting or len(shown) == 1:
        return unasked[0] if unasked else None
    first = fitting[0].shown

    def telling(number: int) -> tuple[int, int]:
        said = [one[number] for one in shown]
        return said.count(first[number]), -len(set(said))

    return min(unasked, key=telling) if unasked else None


def _all(core: Core, case: Case) -> Multiset | None:
    """Return what floods of all classes show of a form of many uops; the rest runs anywhere."""
    if len(case.seen) < len(core.classes):
        return None
    found = counted(core, [case.seen[n] for n in range(len(core.classes))], case.cycles)
    if found is None or len(found) <= _MOST:
        return None
    if case.numbers.most is not None and len(found) > case.numbers.most:
        return None
    return found + (core.wide,) * max(0, case.numbers.least - len(found))


def _blocking(listed: "_Listed", core: Core, case: Case) -> Multiset | None:
    """Return what explains floods if uops keep others from their ports for a cycle more.

    One whose result comes late leaves its port as results of uops do that start later and take a
    cycle: Golden Cove's multiplications take two of a port that is full of such.
    """
    if not case.late or len(case.seen) < len(core.classes):
        return None
    some = [
        one
        for one in listed.fitting(case)
        if all(
            seen.uops is not None and one.shown[n] <= seen.uops <= 2 * one.shown[n]
            for n, seen in case.seen.items()
        )
    ]
    return some[0].uops if len({one.shown for one in some}) == 1 else None


def _agreeing(core: Core, case: Case, choices: Iterable[_Choice]) -> list[_Choice]:
    """Return the choices that explain what was seen."""
    return [one for one in choices if all(_agrees(core, case, one, n) for n in case.seen)]


def _agrees(core: Core, case: Case, choice: _Choice, number: int) -> bool:
    """Say whether a flood shows what a choice has."""
    shown, seen = choice.shown[number], case.seen[number]
    written = case.form.memory is not None and case.form.memory.written
    if written and core.ports[number] == core.of(core.load):
        # Address uops of stores may use ports of loads, and do so at random.
        return shown - _SLACK <= seen.measured <= shown + 1 + _SLACK
    return seen.uops == shown


def counted(core: Core, seen: Sequence[Surplus], alone: float = float("inf")) -> Multiset | None:
    """Return the uops that floods of all classes show, None where nothing fits.

    How many there are in what classes share, no flood tells by itself: of what fits, that which
    keeps ports busy for the time closest to what the form takes alone, or else the least.
    """
    if any(one.uops is None for one in seen):
        return None
    shown = {ports: one.uops or 0 for ports, one in zip(core.ports, seen, strict=True)}
    shared = [one for one in core.sets if one not in shown and one != core.wide]
    most = [min(n for p, n in shown.items() if one < p) for one in shared]
    fitting = []
    for numbers in product(*(range(n + 1) for n in most)):
        count = Counter(dict(zip(shared, numbers, strict=True)))
        for ports, uops in sorted(shown.items(), key=lambda p: len(p[0])):
            count[ports] = uops - sum(n for p, n in count.items() if p < ports)
        if min(count.values()) >= 0:
            fitting.append((cycles(count), tuple(count.elements())))
    fitting = [one for one in fitting if one[0] <= alone * (1 + _NEAR) + _UNCLEAR] or fitting
    if not fitting:
        return None
    pick = min if alone == float("inf") else max
    return pick(fitting, key=lambda one: one[0])[1]


class _Listed:
    """All multisets of few uops on a core."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._load, self._store = core.of(core.load), core.of(core.store)
        self._sets = core.sets
        self._known: dict[tuple[bool, bool], list[_Choice]] = {}

    def fitting(self, case: Case) -> Iterator[_Choice]:
        """Yield what is possible by what is known without floods, the likeliest first."""
        most = case.cycles * (1 + _NEAR) + _UNCLEAR
        least, end = case.numbers.least, case.numbers.most
        guess = _sorted(case.guess) if case.guess is not None else None
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

    def _of(self, memory: Memory | None) -> list[_Choice]:
        """Return all choices of few uops that compute, with the loads and stores of memory."""
        moves = (memory is not None and memory.read, memory is not None and memory.written)
        if moves not in self._known:
            loads = _times(self._load, moves[0])
            stores = _times(self._store, moves[1])
            if all(moves) and self._core.data:
                stores = [*stores, (self._core.data,)]
            self._known[moves] = [
                self._choice(one)
                for count in range(_MOST + 1)
                for some in combinations_with_replacement(self._sets, count)
                for load in loads
                for store in stores
                for one in [(*some, *load, *store)]
            ]
        return self._known[moves]

    def _choice(self, uops: Multiset) -> _Choice:
        computing = sum(not self._core.accesses(one) for one in uops)
        return _Choice(
            uops, cycles(Counter(uops)), self._core.within(uops), _sorted(uops), computing
        )


def _times(ports: Ports | None, needed: bool) -> list[Multiset]:
    """Return how often uops of memory may be there: once or twice where one is needed."""
    return [(ports,), (ports, ports)] if needed and ports else [()]
