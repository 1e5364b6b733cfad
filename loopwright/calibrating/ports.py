"""Execution ports of a learned core: which uops use which, and the cycles that they bound.

All mixtures of uops that ports limit obey one rule: cycles = max over sets Q of ports of (uops
whose ports all lie in Q) / |Q|: Ritter and Hack, "Explainable Port Mapping Inference with Sparse
Performance Counters for AMD's Zen Architectures", ASPLOS 2024. Sets that are unions of the uops'
own suffice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

from loopwright.microbench.blockers import Blocking
from loopwright.microbench.forms import Form

Ports = frozenset[int]


def bound_cycles(uops: Mapping[Ports, float]) -> float:
    """Return the cycles that uops take by their ports, how many of each."""
    return max(
        (sum(n for p, n in uops.items() if p <= q) / len(q) for q in port_unions(uops)), default=0
    )


def port_unions(sets: Iterable[Ports]) -> set[Ports]:
    """Return all unions of some of the sets."""
    out: set[Ports] = set()
    for one in set(sets):
        if one:
            out |= {one} | {one | other for other in out}
    return out


def index_subsets(count: int, most: int) -> list[tuple[int, ...]]:
    """Return the choices of 2 to most out of so many."""
    return [c for size in range(2, most + 1) for c in combinations(range(count), size)]


@dataclass(frozen=True)
class Uops:
    """Needs of a form: dispatch slots, ports of each uop, cycles that its unit is busy.

    why says how it is known, or, without ports, why nothing is said; rejected are then the ports
    that were found and did not hold.
    """

    slots: int
    ports: tuple[Ports, ...] | None
    busy: int = 0
    why: str = ""
    rejected: tuple[Ports, ...] | None = None

    def refused(self, why: str) -> "Uops":
        """Return these uops as ones that did not hold."""
        return replace(self, ports=None, why=why, rejected=self.ports)


@dataclass(frozen=True)
class Doubt:
    """The range of a form's figures: the least and the most that it may need, and why.

    like names the form whose latencies it has, and all figures but these uops, if it is another;
    later are cycles that they may be longer.
    """

    least: Uops
    most: Uops
    why: str
    like: str = ""
    later: int = 0


@dataclass(frozen=True)
class PortClass:
    """A set of ports, known by its size and by the instruction that blocks it; and its members."""

    blocker: Form
    size: int
    members: tuple[str, ...]

    @property
    def blocking(self) -> Blocking:
        """Return what keeps its ports busy."""
        return Blocking(self.size, ((self.blocker, self.size),))


@dataclass(frozen=True)
class Core:
    """The core that forms run on: classes of forms, their ports, dispatch slots."""

    classes: Sequence[PortClass]
    ports: Sequence[Ports]
    width: int
    load: str = ""  # names of the forms that only load and only store a register
    store: str = ""
    renamed_additions: frozenset[str] = (
        frozenset()
    )  # names of forms that rename does for small constants
    # Ports of loads to vectors, by their bits, where these are others.
    vector_loads: Mapping[int, Ports] = field(default_factory=dict)
    shared_store_data: Ports | None = None  # ports of arithmetic that what a store writes takes
    early_binding: bool = False  # ports are bound early, as early_binding.measure tells

    def class_ports(self, name: str) -> Ports | None:
        """Return the ports of the class that a form is of."""
        number = self.class_of(name)
        return None if number is None else self.ports[number]

    def class_of(self, name: str) -> int | None:
        """Return the number of the class that a form is of."""
        return next((n for n, one in enumerate(self.classes) if name in one.members), None)

    def blocker_of(self, ports: Ports | None) -> Form | None:
        """Return what blocks just these ports without an access to memory."""
        pairs = zip(self.classes, self.ports, strict=True)
        some = (one.blocker for one, mine in pairs if mine == ports)
        return next((form for form in some if not form.memory), None)

    @cached_property
    def store_data(self) -> Ports | None:
        """Return the ports of what stores write, where those of their class are of addresses.

        They are so where loads use some of them, too. Then blockers of stores alone show what needs
        no address of its own, as changes of memory do whose load has computed it. Where loads use
        just the same, no blocking kernel tells them apart.
        """
        load, store = self.class_ports(self.load), self.class_ports(self.store)
        if not load or not store or load == store or not load & store:
            return None
        return frozenset(range(self._unseen, self._unseen + len(store)))

    @cached_property
    def store_uops(self) -> tuple[Ports, ...]:
        """Return the ports of the uops of a store of a register; none where no such is known."""
        store = self.class_ports(self.store)
        return tuple(one for one in (store, self.shared_store_data) if one)

    def blocker_uops(self, number: int) -> tuple[Ports, ...]:
        """Return the ports of the uops of what blocks a class."""
        return self.store_uops if number == self._storing else (self.ports[number],)

    @cached_property
    def memory_ports(self) -> tuple[Ports, ...]:
        """Return the ports of uops that load and store, as far as they are known."""
        return tuple(
            one
            for one in (self.class_ports(self.load), self.class_ports(self.store), self.store_data)
            if one
        )

    def accesses_memory(self, ports: Ports) -> bool:
        """Say whether a uop of these ports loads or stores."""
        return ports == self.shared_store_data or any(ports <= one for one in self.memory_ports)

    def computing(self, uops: Sequence[Ports]) -> list[Ports]:
        """Return the ports of uops that neither load nor store."""
        return [ports for ports in uops if not self.accesses_memory(ports)]

    def load_ports(self, form: Form) -> Ports | None:
        """Return the ports of what a form loads."""
        bits = max((one.bits for one in form.operands if one.kind == "vector"), default=0)
        return self.vector_loads.get(bits, self.class_ports(self.load))

    def shown_by_blockers(self, uops: Sequence[Ports]) -> tuple[int, ...]:
        """Return how many uops blockers of each class show."""
        shown = [sum(one <= ports for one in uops) for ports in self.ports]
        if self._storing is not None:
            shown[self._storing] += sum(one == self.store_data for one in uops)
            if self.shared_store_data:
                own = sum(one <= self.shared_store_data for one in uops)
                shown[self._storing] = max(shown[self._storing], own)
        return tuple(shown)

    @property
    def candidate_ports(self) -> Sequence[Ports]:
        """Return the ports that uops that compute may have.

        Those of classes, those of all arithmetic, and what any of these share: where no instruction
        has just these, no class shows them.
        """
        memory = self.memory_ports
        found = list(
            dict.fromkeys(p for p in (*self.ports, self.all_arithmetic) if p not in memory)
        )
        for one in found:  # grows as it goes
            found += dict.fromkeys(one & other for other in found if one & other not in found)
        return [one for one in found if one]

    @property
    def all_arithmetic(self) -> Ports:
        """Return the ports of what no blocking kernel can show: all that arithmetic has.

        Where these are fewer than a cycle's dispatch, there are others, which no class uses.
        """
        memory = self.memory_ports
        known = frozenset().union(*(ports for ports in self.ports if ports not in memory))
        first = self._unseen + len(self.store_data or ())
        return known | frozenset(range(first, first + max(0, self.width - len(known))))

    @cached_property
    def integer_classes(self) -> list[Ports]:
        """Return the ports of each class that computes in general registers."""
        return [
            ports
            for one, ports in zip(self.classes, self.ports, strict=True)
            if not one.blocker.memory and all(o.kind != "vector" for o in one.blocker.operands)
        ]

    @property
    def integer_ports(self) -> Ports:
        """Return the ports of what computes in general registers."""
        return frozenset().union(*self.integer_classes)

    @cached_property
    def _unseen(self) -> int:
        """Return the number of the first port that no class has."""
        return max(frozenset().union(*self.ports, self.shared_store_data or ())) + 1

    @cached_property
    def _storing(self) -> int | None:
        return self.class_of(self.store)
