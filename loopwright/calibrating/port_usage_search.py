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

    span is the number of cycles to block ports for; slots are the form's dispatch slots, at least;
    bounds are those of its uops; cycles is its throughput; guess holds the ports of a similar form;
    late says that its latency exceeds a cycle. surpluses are by class number. usage has the ports
    of each uop, None if no candidate, or more than one, explains the surpluses.
    """

    form: Form
    span: int
    slots: int
    bounds: UopBounds
    cycles: float
    guess: Multiset | None = None
    late: bool = False
    surpluses: dict[int, Surplus] = field(default_factory=dict)
    usage: Multiset | None = None


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
    return tuple(sorted(tuple(sorted(ports)) for ports in uops))


class Candidates:
    """Generator of all multisets of few uops on a core."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._load, self._store = core.class_ports(core.load), core.class_ports(core.store)
        self._sets = core.candidate_ports
        self._by_accesses: dict[tuple[bool, bool, int], list[Candidate]] = {}

    def fitting(self, case: Case) -> Iterator[Candidate]:
        """Yield the candidates that are possible without blocking, the likeliest first."""
        most_cycles = case.cycles * (1 + NEAR) + UNCLEAR
        least, most = case.bounds.least, case.bounds.most
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
        accesses = (memory.read, memory.written) if memory else (False, False)
        parts = memory.parts if memory else 0
        key = (*accesses, parts)
        if key not in self._by_accesses:
            loads = _multiplicities(self._load, accesses[0], parts)
            stores = _multiplicities(self._store, accesses[1], parts)
            if accesses[1] and self._core.shared_store_data:
                stores = [self._core.store_uops, self._core.store_uops * 2, *stores]
            # The result of a read-modify-write is stored by the store-data ports, or by those of
            # stores.
            rmw_stores = [
                (ports,)
                for ports in (self._core.store_data, self._core.shared_store_data)
                if ports and all(accesses)
            ]
            self._by_accesses[key] = [
                self._candidate((*computing, *load, *store))
                for count in range(MOST + 1)
                for computing in combinations_with_replacement(self._sets, count)
                for load in loads
                for store in [*stores, *rmw_stores]
                if count or not all(accesses) or not self._core.shared_store_data
            ]
        return self._by_accesses[key]

    def _candidate(self, uops: Multiset) -> Candidate:
        computing = len(self._core.computing(uops))
        return Candidate(
            uops,
            bound_cycles(Counter(uops)),
            self._core.shown_by_blockers(uops),
            ordered(uops),
            computing,
        )


def _multiplicities(ports: Ports | None, needed: bool, most: int) -> list[Multiset]:
    """Return the possible multiplicities of a memory uop: one to most where one is needed."""
    return [(ports,) * n for n in range(1, most + 1)] if needed and ports else [()]


_FEW_FREE = 1  # dispatch slots that a blocking kernel leaves free in a cycle
_FEWER_UOPS = 0.5  # uops that a longer blocking kernel has to show fewer
_SLACK = 0.4  # uops: tolerance of a surplus around a whole number
_LONGER = 1.2  # cycles: upper tolerance where no other candidate explains a surplus
_EARLY = 0.21  # cycles that early binding may add to a blocking kernel


def search(laboratory: Laboratory, core: Core, cases: Sequence[Case]) -> None:
    """Find the port usage of each case; one without an explanation has all classes blocked."""
    generator = Candidates(core)
    _solve(laboratory, core, generator, cases)
    _solve(laboratory, core, generator, _remeasured(laboratory, core, cases))


def _solve(
    laboratory: Laboratory, core: Core, generator: Candidates, cases: Sequence[Case]
) -> None:
    """Block classes until each case has a usage, or all of its classes are blocked."""
    open_cases = {n: _agreeing(core, case, generator.fitting(case)) for n, case in enumerate(cases)}
    while open_cases:
        blocked = []
        for n, candidates in list(open_cases.items()):
            case = cases[n]
            class_number = _next_class(core, case, candidates)
            if class_number is not None:
                blocked.append((n, class_number))
                continue
            del open_cases[n]
            case.usage = single_uop(generator, core, case) or case.usage
            if case.usage is None:
                case.usage = (
                    _all_shown(core, case)
                    or _occupied_longer(generator, core, case)
                    or bound_early(generator, core, case)
                    or bound_late(generator, core, case)
                )
        kernels = [_blocking_kernel(core, cases[n], class_number) for n, class_number in blocked]
        answers = iter(blockers.measure(laboratory, [kernel for kernel in kernels if kernel]))
        for (n, class_number), kernel in zip(blocked, kernels, strict=True):
            surplus = next(answers) if kernel else Surplus(None, float("nan"), 0.0)
            cases[n].surpluses[class_number] = surplus
            open_cases[n] = _agreeing(core, cases[n], open_cases[n])


def _remeasured(laboratory: Laboratory, core: Core, cases: Sequence[Case]) -> list[Case]:
    """Return cases for which longer blocking kernels show fewer uops, with that result in place.

    These are forms of several slots among blockers that leave few slots free. Where such blockers
    show uops that no others show, or no whole number, the front end may interfere; longer blocking
    kernels compensate for that.
    """
    doubtful = [
        (case, number)
        for case in cases
        for number, surplus in case.surpluses.items()
        if len(core.ports[number]) in range(core.width - _FEW_FREE, core.width)
        and (surplus.uops is None or core.ports[number] in (case.usage or ()))
        and (case.slots > 1 or case.usage is None)
    ]
    kernels = [blockers.longest(case.form, core.classes[n].blocking) for case, n in doubtful]
    remeasured: dict[str, Case] = {}
    for (case, n), surplus in zip(doubtful, blockers.measure(laboratory, kernels), strict=True):
        noise = max(_FEWER_UOPS, 2.5 * surplus.uncertainty)
        if surplus.measured < case.surpluses[n].measured - noise:
            # Uops do not vanish: only those remain that other blockers show.
            case.surpluses[n] = replace(surplus, uops=_shown_by_subsets(core, case, n))
            case.usage = None
            remeasured[case.form.name] = case
    return list(remeasured.values())


def _shown_by_subsets(core: Core, case: Case, number: int) -> int:
    """Return the most uops that blockers of subsets of a class's ports show."""
    parts = (one.uops for n, one in case.surpluses.items() if core.ports[n] < core.ports[number])
    return max((uops for uops in parts if uops is not None), default=0)


def _blocking_kernel(core: Core, case: Case, number: int) -> BlockingKernel | None:
    """Return the kernel that blocks the ports of a class, None if none is possible."""
    blocking = core.classes[number].blocking
    return blockers.within(case.form, blocking, case.span, case.slots, core.width, case.cycles)


def _next_class(core: Core, case: Case, fitting: Sequence[Candidate]) -> int | None:
    """Return the class to block next; None with all classes blocked or one candidate left.

    That candidate becomes the case's usage.
    """
    unblocked = [n for n in range(len(core.classes)) if n not in case.surpluses]
    shown = {one.shown for one in fitting}
    is_bounded = case.bounds.most is not None or (bool(fitting) and fitting[0].computing < MOST)
    if len(shown) == 1 and (is_bounded or not unblocked):
        case.usage = fitting[0].uops
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
    if len(case.surpluses) < len(core.classes):
        return None
    uops = counted(core, [case.surpluses[n] for n in range(len(core.classes))], case.cycles)
    if uops is None or len(uops) <= MOST:
        return None
    if case.bounds.most is not None and len(uops) > case.bounds.most:
        return None
    if core.early_binding and bound_cycles(Counter(uops)) > case.cycles * (1 + NEAR) + UNCLEAR:
        return None
    return uops + (core.all_arithmetic,) * max(0, case.bounds.least - len(uops))


def _occupied_longer(generator: Candidates, core: Core, case: Case) -> Multiset | None:
    """Return the ports that explain the surpluses if uops occupy their ports for a cycle more.

    A uop with a long latency can conflict on the result bus with single-cycle uops that start
    later. Golden Cove's multiplications take two cycles of a port that is full of those.
    """
    if not case.late or len(case.surpluses) < len(core.classes):
        return None
    fitting = [
        one
        for one in generator.fitting(case)
        if all(
            seen.uops is not None and one.shown[n] <= seen.uops <= 2 * one.shown[n]
            for n, seen in case.surpluses.items()
        )
    ]
    return fitting[0].uops if len({one.shown for one in fitting}) == 1 else None


def single_uop(generator: Candidates, core: Core, case: Case) -> Multiset | None:
    """Return the ports of a form's one uop, where some blocking instructions show another number.

    They are those of more ports than it has. Its result can keep theirs out of its cycle, and a
    move to a general register those of a port that it does not use. On Zen 4 blocking instructions
    of all four ALUs show 1.4 or 4.8 uops of imul, and 3.8 of movd. One uop more means two.
    """
    memory = case.form.memory
    shows_all = len(case.surpluses) == len(core.classes)
    if not case.late or case.slots > 1 or not shows_all or (memory and memory.written):
        return None
    if case.usage and len(core.computing(case.usage)) <= 1:
        return None
    known = {n: seen for n, seen in case.surpluses.items() if not isnan(seen.measured)}
    fitting = [
        one
        for one in generator.fitting(case)
        if one.computing == 1
        and all(
            (one.shown[n] > 0) == (seen.measured > _SLACK)
            and seen.measured > one.shown[n] - _SLACK
            and (seen.uops is None or abs(seen.uops - one.shown[n]) != 1)
            for n, seen in known.items()
        )
    ]
    if len({one.shown for one in fitting}) != 1:
        return None
    return tuple(_one_port(core, ports, case.cycles) for ports in fitting[0].uops)


def _one_port(core: Core, ports: Ports, cycles: float) -> Ports:
    """Return one of two ports of a computing uop that starts once a cycle, else its ports.

    Nothing tells which, as no instruction of one uop has either alone.
    """
    computing = core.computing((ports,))
    two = len(ports) == 2 and not any(one < ports for one in core.candidate_ports)
    return frozenset({min(ports)}) if computing and two and abs(cycles - 1) <= NEAR else ports


def bound_early(generator: Candidates, core: Core, case: Case) -> Multiset | None:
    """Return the ports that explain surpluses which early binding prolongs and never shortens.

    Of several explanations, the guess is taken.
    """
    seen = _early_surpluses(core, case)
    if seen is None:
        return None
    fitting = [
        one
        for one in generator.fitting(case)
        if all(
            -_EARLY * core.classes[n].size <= one.shown[n] - blocking <= _SLACK
            for n, blocking in seen.items()
        )
    ]
    if not fitting:
        return None
    guessed = case.guess is not None and fitting[0].sorted == ordered(case.guess)
    return fitting[0].uops if guessed or len({one.shown for one in fitting}) == 1 else None


def bound_late(generator: Candidates, core: Core, case: Case) -> Multiset | None:
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

    fitting = [one for one in generator.fitting(case) if explains(one)]
    least = min(map(rank, fitting), default=None)
    best = [one for one in fitting if rank(one) == least]
    return best[0].uops if len({one.shown for one in best}) == 1 else None


def _early_surpluses(core: Core, case: Case) -> dict[int, float] | None:
    """Return the surpluses of a form on a core that binds early, once all classes are blocked."""
    if not core.early_binding or len(case.surpluses) < len(core.classes):
        return None
    return {n: one.measured for n, one in case.surpluses.items() if not isnan(one.measured)}


def _agreeing(core: Core, case: Case, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that explain the surpluses."""
    return [one for one in candidates if all(_agrees(core, case, one, n) for n in case.surpluses)]


def _agrees(core: Core, case: Case, candidate: Candidate, number: int) -> bool:
    """True if a candidate explains the surplus of one class."""
    shown, seen = candidate.shown[number], case.surpluses[number]
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


def counted(
    core: Core, surpluses: Sequence[Surplus], alone: float = float("inf")
) -> Multiset | None:
    """Return the uops that blockers of all classes show, None if nothing fits.

    alone is the form's throughput, infinite if unknown. Blockers do not tell how many uops are in
    the ports that classes share. Of what fits, the port usage is taken whose bound is closest to
    the throughput, or else the one with the lowest bound.
    """
    if any(surplus.uops is None for surplus in surpluses):
        return None
    shown = {p: surplus.uops or 0 for p, surplus in zip(core.ports, surpluses, strict=True)}
    shared = [p for p in core.candidate_ports if p not in shown and p != core.all_arithmetic]
    most = [min(n for ports, n in shown.items() if subset < ports) for subset in shared]
    fitting = []
    for numbers in product(*(range(n + 1) for n in most)):
        count = Counter(dict(zip(shared, numbers, strict=True)))
        for ports, uops in sorted(shown.items(), key=lambda pair: len(pair[0])):
            count[ports] = uops - sum(n for subset, n in count.items() if subset < ports)
        if min(count.values()) >= 0:
            fitting.append((bound_cycles(count), tuple(count.elements())))
    fitting = [pair for pair in fitting if pair[0] <= alone * (1 + NEAR) + UNCLEAR] or fitting
    if not fitting:
        return None
    choose = min if alone == float("inf") else max
    return choose(fitting, key=lambda pair: pair[0])[1]
