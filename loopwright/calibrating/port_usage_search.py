"""Port usage search: which multisets of ports explain what blocking instructions show.

What uops a form may have, before blockers tell: all multisets of ports of few uops.

Which blockers tell the uops of a form: each is asked for what those before it left open.

All multisets of ports that explain what is known stand side by side. The class for which the
likeliest one differs from the most others is asked next, until one is left. Known are how many uops
a form has, where dispatch counts them, that no ports are needed for longer than it takes alone, and
which uops of memory it must have.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, product
from math import isnan

from loopwright.calibrating.ports import Core, Ports, bound_cycles
from loopwright.microbench import blockers
from loopwright.microbench.blockers import Asked, Surplus
from loopwright.microbench.forms import Form, Memory
from loopwright.microbench.laboratory import Laboratory

MOST = 4  # uops that compute, of which all multisets are listed
NEAR = 0.08  # relative: by how much more than it takes alone ports may be needed
UNCLEAR = 0.02  # cycles: the same, absolutely

Multiset = tuple[Ports, ...]


@dataclass(frozen=True)
class Numbers:
    """Bounds of a form's number of uops: None says that there is no known limit."""

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
    slots: int
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
        self._load, self._store = core.class_ports(core.load), core.class_ports(core.store)
        self._sets = core.candidate_ports
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
            if moves[1] and self._core.shared_store_data:
                stores = [self._core.store_uops, self._core.store_uops * 2, *stores]
            # What is computed is written by ports of its own, or by those that stores have.
            own = [
                (one,)
                for one in (self._core.store_data, self._core.shared_store_data)
                if one and all(moves)
            ]
            self._known[key] = [
                self._choice(one)
                for count in range(MOST + 1)
                for some in combinations_with_replacement(self._sets, count)
                for load in loads
                for store in [*stores, *own]
                if count or not all(moves) or not self._core.shared_store_data
                for one in [(*some, *load, *store)]
            ]
        return self._known[key]

    def _choice(self, uops: Multiset) -> Choice:
        computing = len(self._core.computing(uops))
        return Choice(
            uops,
            bound_cycles(Counter(uops)),
            self._core.shown_by_blockers(uops),
            ordered(uops),
            computing,
        )


def _times(ports: Ports | None, needed: bool, most: int) -> list[Multiset]:
    """Return how often uops of memory may be there: once and more where one is needed."""
    return [(ports,) * n for n in range(1, most + 1)] if needed and ports else [()]


_FEW = 1  # places at dispatch that a blocking kernel leaves in a cycle
_LESS = 0.5  # uops that a longer blocking kernel has to show less
_SLACK = 0.4  # uops: how far from a whole number a surplus may lie
_LONGER = 1.2  # cycles: the same of what no other uops explain
_EARLY = 0.21  # cycles: what a blocking kernel may take more where ports are chosen badly


def search(laboratory: Laboratory, core: Core, cases: Sequence[Case]) -> None:
    """Find the uops of each form; where nothing explains them, all blockers are asked."""
    listed = Listed(core)
    _solve(laboratory, core, listed, cases)
    _solve(laboratory, core, listed, _changed(laboratory, core, cases))


def _solve(laboratory: Laboratory, core: Core, listed: Listed, cases: Sequence[Case]) -> None:
    left = {n: _agreeing(core, case, listed.fitting(case)) for n, case in enumerate(cases)}
    while left:
        asked = []
        for n, some in list(left.items()):
            number = _next(core, cases[n], some)
            if number is None:
                del left[n]
                if cases[n].found is None:
                    cases[n].found = (
                        _all(core, cases[n])
                        or _blocking(listed, core, cases[n])
                        or bound_early(listed, core, cases[n])
                        or bound_late(listed, core, cases[n])
                    )
            else:
                asked.append((n, number))
        wanted = [_asked(core, cases[n], c) for n, c in asked]
        answers = iter(blockers.measure(laboratory, [one for one in wanted if one]))
        for (n, c), blocking in zip(asked, wanted, strict=True):
            cases[n].seen[c] = next(answers) if blocking else Surplus(None, float("nan"), 0.0)
            left[n] = _agreeing(core, cases[n], left[n])


def _changed(laboratory: Laboratory, core: Core, cases: Sequence[Case]) -> list[Case]:
    """Return cases of which longer blockers show something else, with that in its place.

    Asked are blockers that leave few places at dispatch, of forms of several uops: where these show
    uops that no others do, or no whole number, delivery may be in the way, which more blockers
    make up for.
    """
    asked = [
        (case, number)
        for case in cases
        for number, shown in case.seen.items()
        if len(core.ports[number]) in range(core.width - _FEW, core.width)
        and (shown.uops is None or core.ports[number] in (case.found or ()))
        and (case.slots > 1 or case.found is None)
    ]
    wanted = [blockers.longest(case.form, core.classes[n].blocking) for case, n in asked]
    out: dict[str, Case] = {}
    for (case, n), one in zip(asked, blockers.measure(laboratory, wanted), strict=True):
        if one.measured < case.seen[n].measured - max(_LESS, 2.5 * one.uncertainty):
            # Uops do not get fewer: none but those that other blockers show.
            case.seen[n], case.found = replace(one, uops=_within(core, case, n)), None
            out[case.form.name] = case
    return list(out.values())


def _within(core: Core, case: Case, number: int) -> int:
    """Return the uops that blockers of parts of a class show."""
    parts = (one.uops for n, one in case.seen.items() if core.ports[n] < core.ports[number])
    return max((uops for uops in parts if uops is not None), default=0)


def _asked(core: Core, case: Case, number: int) -> Asked | None:
    blocking = core.classes[number].blocking
    span, slots = case.span, case.slots
    return blockers.within(case.form, blocking, span, slots, core.width, case.cycles)


def _next(core: Core, case: Case, fitting: Sequence[Choice]) -> int | None:
    """Return the class to block next, None where one choice is left or nothing can be asked."""
    unasked = [n for n in range(len(core.classes)) if n not in case.seen]
    shown = {one.shown for one in fitting}
    few = case.numbers.most is not None or (bool(fitting) and fitting[0].computing < MOST)
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
    """Return what blockers of all classes show of a form of many uops; the rest runs anywhere."""
    if len(case.seen) < len(core.classes):
        return None
    found = counted(core, [case.seen[n] for n in range(len(core.classes))], case.cycles)
    if found is None or len(found) <= MOST:
        return None
    if case.numbers.most is not None and len(found) > case.numbers.most:
        return None
    if core.early_binding and bound_cycles(Counter(found)) > case.cycles * (1 + NEAR) + UNCLEAR:
        return None
    return found + (core.all_arithmetic,) * max(0, case.numbers.least - len(found))


def _blocking(listed: Listed, core: Core, case: Case) -> Multiset | None:
    """Return what explains blockers if uops keep others from their ports for a cycle more.

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


def bound_early(listed: Listed, core: Core, case: Case) -> Multiset | None:
    """Return what explains blockers if ports that are chosen badly make them longer, never shorter.

    Of several explanations it is the one that was guessed.
    """
    seen = _bound_early(core, case)
    if seen is None:
        return None
    some = [
        one
        for one in listed.fitting(case)
        if all(
            -_EARLY * core.classes[n].size <= one.shown[n] - blocking <= _SLACK
            for n, blocking in seen.items()
        )
    ]
    if not some:
        return None
    guessed = case.guess is not None and some[0].sorted == ordered(case.guess)
    return some[0].uops if guessed or len({one.shown for one in some}) == 1 else None


def bound_late(listed: Listed, core: Core, case: Case) -> Multiset | None:
    """Return the fewest uops that explain which blockers are longer, where ports are chosen badly.

    By how much they are longer says little then, but none takes less than ports ask for. A place at
    dispatch is a uop at least. Of several explanations, that one counts to which more agree.
    """
    seen = _bound_early(core, case)
    if seen is None:
        return None

    def explains(one: Choice) -> bool:
        return one.computing >= case.slots and all(
            (one.shown[n] > 0) == (blocking > _SLACK)
            and -_SLACK <= blocking - one.shown[n] <= _LONGER * core.classes[n].size
            for n, blocking in seen.items()
        )

    def rank(one: Choice) -> tuple[int, int]:
        return len(one.uops), sum(blocking - one.shown[n] > _SLACK for n, blocking in seen.items())

    some = [one for one in listed.fitting(case) if explains(one)]
    least = min(map(rank, some), default=None)
    best = [one for one in some if rank(one) == least]
    return best[0].uops if len({one.shown for one in best}) == 1 else None


def _bound_early(core: Core, case: Case) -> dict[int, float] | None:
    """Return what blockers show of a form, all asked, of a core that binds ports early."""
    if not core.early_binding or len(case.seen) < len(core.classes):
        return None
    return {n: one.measured for n, one in case.seen.items() if not isnan(one.measured)}


def _agreeing(core: Core, case: Case, choices: Iterable[Choice]) -> list[Choice]:
    """Return the choices that explain what was seen."""
    return [one for one in choices if all(_agrees(core, case, one, n) for n in case.seen)]


def _agrees(core: Core, case: Case, choice: Choice, number: int) -> bool:
    """Say whether a blocking kernel shows what a choice has."""
    shown, seen = choice.shown[number], case.seen[number]
    written = case.form.memory is not None and case.form.memory.written
    load = core.class_ports(core.load)
    if written and core.ports[number] == load != core.class_ports(core.store):
        # Address uops of stores may use ports of loads, and do so at random.
        return shown - _SLACK <= seen.measured <= shown + 1 + _SLACK
    if seen.uops is None and case.slots > 1 and len(core.ports[number]) >= core.width - _FEW:
        # What is dispatched as one leaves places among such blockers empty: they show too many.
        return shown <= seen.measured + _SLACK
    return seen.uops == shown


def counted(core: Core, seen: Sequence[Surplus], alone: float = float("inf")) -> Multiset | None:
    """Return the uops that blockers of all classes show, None where nothing fits.

    How many there are in what classes share, no blockers tell alone: of what fits, that which
    keeps ports busy for the time closest to what the form takes alone, or else the least.
    """
    if any(one.uops is None for one in seen):
        return None
    shown = {ports: one.uops or 0 for ports, one in zip(core.ports, seen, strict=True)}
    shared = [
        one for one in core.candidate_ports if one not in shown and one != core.all_arithmetic
    ]
    most = [min(n for p, n in shown.items() if one < p) for one in shared]
    fitting = []
    for numbers in product(*(range(n + 1) for n in most)):
        count = Counter(dict(zip(shared, numbers, strict=True)))
        for ports, uops in sorted(shown.items(), key=lambda p: len(p[0])):
            count[ports] = uops - sum(n for p, n in count.items() if p < ports)
        if min(count.values()) >= 0:
            fitting.append((bound_cycles(count), tuple(count.elements())))
    fitting = [one for one in fitting if one[0] <= alone * (1 + NEAR) + UNCLEAR] or fitting
    if not fitting:
        return None
    pick = min if alone == float("inf") else max
    return pick(fitting, key=lambda one: one[0])[1]
