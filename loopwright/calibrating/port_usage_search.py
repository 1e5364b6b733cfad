"""Port usage search: the multisets of ports that explain what blocking instructions show.

All multisets of ports with few uops are candidates at first. What is known without blocking
restricts them: the number of uops where dispatch counts them, the form's throughput, and its load
and store uops. Next, the class is blocked for which the likeliest candidate differs from the most
others, until one candidate is left.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, product
from math import isnan

from loopwright.calibrating.ports import Core, Ports, bound_cycles
from loopwright.microbench import blockers
from loopwright.microbench.blockers import BlockingKernel, Surplus
from loopwright.microbench.forms import Form, Memory
from loopwright.microbench.laboratory import Laboratory

MOST = 4  # computing uops, at most, of the candidates
NEAR = 0.08  # relative: by how much the port bound may exceed the form's throughput
UNCLEAR = 0.02  # cycles: the same as an absolute tolerance

Multiset = tuple[Ports, ...]


@dataclass(frozen=True)
class UopBounds:
    """Bounds of a form's number of uops; most is None if no limit is known."""

    least: int
    most: int | None = None


@dataclass
class Case:
    """A form whose port usage is searched, with what is known of it.

    span is for how many cycles to block ports; slots are the form's dispatch slots; cycles is its
    throughput; guess holds the ports of a similar form; late says that its latency exceeds a cycle.
    seen has the surplus by class number. found is the port usage, None if no candidate, or more
    than one, explains the surpluses.
    """

    form: Form
    span: int
    slots: int
    numbers: UopBounds
    cycles: float
    guess: Multiset | None = None
    late: bool = False
    seen: dict[int, Surplus] = field(default_factory=dict)
    found: Multiset | None = None


@dataclass(frozen=True)
class Candidate:
    """A candidate: ports of each uop, port-bound cycles, uops that blockers of each class show."""

    uops: Multiset
    cycles: float
    shown: tuple[int, ...]
    sorted: tuple[tuple[int, ...], ...]
    computing: int


def ordered(uops: Multiset) -> tuple[tuple[int, ...], ...]:
    """Return uops in a canonical order."""
    return tuple(sorted(tuple(sorted(one)) for one in uops))


class Candidates:
    """Generator of all multisets of few uops on a core."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._load, self._store = core.class_ports(core.load), core.class_ports(core.store)
        self._sets = core.candidate_ports
        self._known: dict[tuple[bool, bool, int], list[Candidate]] = {}

    def fitting(self, case: Case) -> Iterator[Candidate]:
        """Yield the candidates that are possible without blocking, the likeliest first."""
        most_cycles = case.cycles * (1 + NEAR) + UNCLEAR
        least, most = case.numbers.least, case.numbers.most
        guess = ordered(case.guess) if case.guess is not None else None
        candidates = self._with_memory(case.form.memory)
        if case.guess and all(candidate.sorted != guess for candidate in candidates):
            candidates = [self._candidate(case.guess), *candidates]
        yield from sorted(
            (
                candidate
                for candidate in candidates
                if candidate.cycles <= most_cycles
                and least <= len(candidate.uops) <= (most or len(candidate.uops))
            ),
            key=lambda candidate: (
                candidate.sorted != guess,
                len(candidate.uops),
                round(abs(case.cycles - candidate.cycles), 2),
            ),
        )

    def _with_memory(self, memory: Memory | None) -> list[Candidate]:
        """Return all candidates of few computing uops, with the accesses of a memory operand."""
        accesses = (memory is not None and memory.read, memory is not None and memory.written)
        parts = memory.parts if memory else 0
        key = (*accesses, parts)
        if key not in self._known:
            loads = _times(self._load, accesses[0], parts)
            stores = _times(self._store, accesses[1], parts)
            if accesses[1] and self._core.shared_store_data:
                stores = [self._core.store_uops, self._core.store_uops * 2, *stores]
            # The result of a read-modify-write is stored by the store-data ports, or by those of
            # stores.
            rmw_stores = [
                (one,)
                for one in (self._core.store_data, self._core.shared_store_data)
                if one and all(accesses)
            ]
            self._known[key] = [
                self._candidate(one)
                for count in range(MOST + 1)
                for computing in combinations_with_replacement(self._sets, count)
                for load in loads
                for store in [*stores, *rmw_stores]
                if count or not all(accesses) or not self._core.shared_store_data
                for one in [(*computing, *load, *store)]
            ]
        return self._known[key]

    def _candidate(self, uops: Multiset) -> Candidate:
        computing = len(self._core.computing(uops))
        return Candidate(
            uops,
            bound_cycles(Counter(uops)),
            self._core.shown_by_blockers(uops),
            ordered(uops),
            computing,
        )


def _times(ports: Ports | None, needed: bool, most: int) -> list[Multiset]:
    """Return the possible multiplicities of a memory uop: one to most where one is needed."""
    return [(ports,) * n for n in range(1, most + 1)] if needed and ports else [()]


_FEW_FREE = 1  # dispatch slots that a blocking kernel leaves free in a cycle
_FEWER_UOPS = 0.5  # uops that a longer blocking kernel has to show fewer
_SLACK = 0.4  # uops: tolerance of a surplus around a whole number
_LONGER = 1.2  # cycles: upper tolerance where no other candidate explains a surplus
_EARLY = 0.21  # cycles that early binding may add to a blocking kernel


def search(laboratory: Laboratory, core: Core, cases: Sequence[Case]) -> None:
    """Find the port usage of each case; one without an explanation has all classes blocked."""
    listed = Candidates(core)
    _solve(laboratory, core, listed, cases)
    _solve(laboratory, core, listed, _changed(laboratory, core, cases))


def _solve(laboratory: Laboratory, core: Core, listed: Candidates, cases: Sequence[Case]) -> None:
    open_cases = {n: _agreeing(core, case, listed.fitting(case)) for n, case in enumerate(cases)}
    while open_cases:
        blocked = []
        for n, candidates in list(open_cases.items()):
            class_number = _next(core, cases[n], candidates)
            if class_number is None:
                del open_cases[n]
                if cases[n].found is None:
                    cases[n].found = (
                        _all_shown(core, cases[n])
                        or _occupied_longer(listed, core, cases[n])
                        or bound_early(listed, core, cases[n])
                        or bound_late(listed, core, cases[n])
                    )
            else:
                blocked.append((n, class_number))
        kernels = [_blocking_kernel(core, cases[n], class_number) for n, class_number in blocked]
        answers = iter(blockers.measure(laboratory, [one for one in kernels if one]))
        for (n, class_number), blocking in zip(blocked, kernels, strict=True):
            cases[n].seen[class_number] = (
                next(answers) if blocking else Surplus(None, float("nan"), 0.0)
            )
            open_cases[n] = _agreeing(core, cases[n], open_cases[n])


def _changed(laboratory: Laboratory, core: Core, cases: Sequence[Case]) -> list[Case]:
    """Return cases for which longer blocking kernels show fewer uops, with that result in place.

    These are forms of several slots among blockers that leave few slots free. Where such blockers
    show uops that no others show, or no whole number, the front end may interfere; longer blocking
    kernels compensate for that.
    """
    doubtful = [
        (case, number)
        for case in cases
        for number, shown in case.seen.items()
        if len(core.ports[number]) in range(core.width - _FEW_FREE, core.width)
        and (shown.uops is None or core.ports[number] in (case.found or ()))
        and (case.slots > 1 or case.found is None)
    ]
    kernels = [blockers.longest(case.form, core.classes[n].blocking) for case, n in doubtful]
    out: dict[str, Case] = {}
    for (case, n), surplus in zip(doubtful, blockers.measure(laboratory, kernels), strict=True):
        if surplus.measured < case.seen[n].measured - max(_FEWER_UOPS, 2.5 * surplus.uncertainty):
            # Uops do not vanish: only those remain that other blockers show.
            case.seen[n], case.found = replace(surplus, uops=_shown_by_subsets(core, case, n)), None
            out[case.form.name] = case
    return list(out.values())


def _shown_by_subsets(core: Core, case: Case, number: int) -> int:
    """Return the most uops that blockers of subsets of a class's ports show."""
    parts = (one.uops for n, one in case.seen.items() if core.ports[n] < core.ports[number])
    return max((uops for uops in parts if uops is not None), default=0)


def _blocking_kernel(core: Core, case: Case, number: int) -> BlockingKernel | None:
    blocking = core.classes[number].blocking
    span, slots = case.span, case.slots
    return blockers.within(case.form, blocking, span, slots, core.width, case.cycles)


def _next(core: Core, case: Case, fitting: Sequence[Candidate]) -> int | None:
    """Return the class to block next, None with one candidate left or all classes blocked."""
    unblocked = [n for n in range(len(core.classes)) if n not in case.seen]
    shown = {one.shown for one in fitting}
    few = case.numbers.most is not None or (bool(fitting) and fitting[0].computing < MOST)
    if len(shown) == 1 and (few or not unblocked):
        case.found = fitting[0].uops
        return None
    if not fitting or len(shown) == 1:
        return unblocked[0] if unblocked else None
    likeliest = fitting[0].shown

    def ambiguity(number: int) -> tuple[int, int]:
        counts = [one[number] for one in shown]
        return counts.count(likeliest[number]), -len(set(counts))

    return min(unblocked, key=ambiguity) if unblocked else None


def _all_shown(core: Core, case: Case) -> Multiset | None:
    """Return the uops of a form of many, as blockers of all classes show; others run anywhere."""
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


def _occupied_longer(listed: Candidates, core: Core, case: Case) -> Multiset | None:
    """Return the ports that explain the surpluses if uops occupy their ports for a cycle more.

    A uop with a long latency can conflict on the result bus with single-cycle uops that start
    later. Golden Cove's multiplications take two cycles of a port that is full of those.
    """
    if not case.late or len(case.seen) < len(core.classes):
        return None
    fitting = [
        one
        for one in listed.fitting(case)
        if all(
            seen.uops is not None and one.shown[n] <= seen.uops <= 2 * one.shown[n]
            for n, seen in case.seen.items()
        )
    ]
    return fitting[0].uops if len({one.shown for one in fitting}) == 1 else None


def bound_early(listed: Candidates, core: Core, case: Case) -> Multiset | None:
    """Return the ports that explain surpluses which early binding prolongs and never shortens.

    Of several explanations, the guess is taken.
    """
    seen = _early_surpluses(core, case)
    if seen is None:
        return None
    fitting = [
        one
        for one in listed.fitting(case)
        if all(
            -_EARLY * core.classes[n].size <= one.shown[n] - blocking <= _SLACK
            for n, blocking in seen.items()
        )
    ]
    if not fitting:
        return None
    guessed = case.guess is not None and fitting[0].sorted == ordered(case.guess)
    return fitting[0].uops if guessed or len({one.shown for one in fitting}) == 1 else None


def bound_late(listed: Candidates, core: Core, case: Case) -> Multiset | None:
    """Return the fewest uops that explain which surpluses are non-zero, under early binding.

    The amounts then say little, but no surplus is below the port bound. Each dispatch slot is at
    least one uop. Of several explanations, the one that agrees with the most surpluses is taken.
    """
    seen = _early_surpluses(core, case)
    if seen is None:
        return None

    def explains(one: Candidate) -> bool:
        return one.computing >= case.slots and all(
            (one.shown[n] > 0) == (blocking > _SLACK)
            and -_SLACK <= blocking - one.shown[n] <= _LONGER * core.classes[n].size
            for n, blocking in seen.items()
        )

    def rank(one: Candidate) -> tuple[int, int]:
        return len(one.uops), sum(blocking - one.shown[n] > _SLACK for n, blocking in seen.items())

    fitting = [one for one in listed.fitting(case) if explains(one)]
    least = min(map(rank, fitting), default=None)
    best = [one for one in fitting if rank(one) == least]
    return best[0].uops if len({one.shown for one in best}) == 1 else None


def _early_surpluses(core: Core, case: Case) -> dict[int, float] | None:
    """Return the surpluses of a form on a core that binds early, once all classes are blocked."""
    if not core.early_binding or len(case.seen) < len(core.classes):
        return None
    return {n: one.measured for n, one in case.seen.items() if not isnan(one.measured)}


def _agreeing(core: Core, case: Case, choices: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that explain the surpluses."""
    return [one for one in choices if all(_agrees(core, case, one, n) for n in case.seen)]


def _agrees(core: Core, case: Case, choice: Candidate, number: int) -> bool:
    """True if a candidate explains the surplus of one class."""
    shown, seen = choice.shown[number], case.seen[number]
    written = case.form.memory is not None and case.form.memory.written
    load = core.class_ports(core.load)
    if written and core.ports[number] == load != core.class_ports(core.store):
        # Store-address uops may use load ports, and choose them unpredictably.
        return shown - _SLACK <= seen.measured <= shown + 1 + _SLACK
    if seen.uops is None and case.slots > 1 and len(core.ports[number]) >= core.width - _FEW_FREE:
        # A form dispatched as a unit leaves slots empty among such blockers, which show too many
        # uops.
        return shown <= seen.measured + _SLACK
    return seen.uops == shown


def counted(core: Core, seen: Sequence[Surplus], alone: float = float("inf")) -> Multiset | None:
    """Return the uops that blockers of all classes show, None if nothing fits.

    Blockers do not tell how many uops are in the ports that classes share. Of what fits, the port
    usage is taken whose bound is closest to the form's throughput, or else the one with the lowest
    bound.
    """
    if any(one.uops is None for one in seen):
        return None
    shown = {ports: one.uops or 0 for ports, one in zip(core.ports, seen, strict=True)}
    shared = [
        one for one in core.candidate_ports if one not in shown and one != core.all_arithmetic
    ]
    most = [min(n for subset, n in shown.items() if one < subset) for one in shared]
    fitting = []
    for numbers in product(*(range(n + 1) for n in most)):
        count = Counter(dict(zip(shared, numbers, strict=True)))
        for ports, uops in sorted(shown.items(), key=lambda subset: len(subset[0])):
            count[ports] = uops - sum(n for subset, n in count.items() if subset < ports)
        if min(count.values()) >= 0:
            fitting.append((bound_cycles(count), tuple(count.elements())))
    fitting = [one for one in fitting if one[0] <= alone * (1 + NEAR) + UNCLEAR] or fitting
    if not fitting:
        return None
    choose = min if alone == float("inf") else max
    return choose(fitting, key=lambda one: one[0])[1]
