"""Port usage on a learned core, and the throughput bound that it implies.

Port-bound throughput of a mixture: cycles = max over sets Q of ports of (uops whose ports all lie
in Q) / |Q| (Ritter and Hack, "Explainable Port Mapping Inference with Sparse Performance Counters
for AMD's Zen Architectures", ASPLOS 2024). It suffices to take unions of the uops' own port sets
for Q.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

from loopwright.microbench.blockers import Blocking
from loopwright.microbench.forms import Form

Ports = frozenset[int]


def bound_cycles(uops: Mapping[Ports, float]) -> float:
    """Return the port-bound throughput in cycles; uops has the number of uops by their ports."""
    bounds = (
        sum(number for ports, number in uops.items() if ports <= union) / len(union)
        for union in port_unions(uops)
    )
    return max(bounds, default=0)


def port_unions(sets: Iterable[Ports]) -> set[Ports]:
    """Return all unions of one or more of the sets."""
    unions: set[Ports] = set()
    for ports in set(sets):
        if ports:
            unions |= {ports} | {ports | other for other in unions}
    return unions


def index_subsets(count: int, most: int) -> list[tuple[int, ...]]:
    """Return all subsets of range(count) of 2 to most elements."""
    sizes = range(2, most + 1)
    return [classes for size in sizes for classes in combinations(range(count), size)]


@dataclass(frozen=True)
class Uops:
    """Resources of a form: dispatch slots, ports of each uop, cycles that it keeps a unit busy.

    why states how the ports are known or, where ports is None, the reason for the refusal. rejected
    then holds the ports that were found and failed their check.
    """

    slots: int
    ports: tuple[Ports, ...] | None
    busy: int = 0
    why: str = ""
    rejected: tuple[Ports, ...] | None = None

    def refused(self, why: str) -> "Uops":
        """Return these uops as rejected, with the reason."""
        return replace(self, ports=None, why=why, rejected=self.ports)


@dataclass(frozen=True)
class Doubt:
    """Range of a form's uops, the least and the most that it may need, with the reason.

    like names the form whose latencies and flags it takes, if that is another form; extra_latency
    is by how many cycles its latencies may exceed those.
    """

    least: Uops
    most: Uops
    why: str
    like: str = ""
    extra_latency: int = 0


@dataclass(frozen=True)
class PortClass:
    """Forms of one uop with the same ports: how many ports, a blocking instruction, all members."""

    blocker: Form
    size: int
    members: tuple[str, ...]

    @property
    def blocking(self) -> Blocking:
        """Return the blocking instructions that keep all ports of the class busy."""
        return Blocking(self.size, ((self.blocker, self.size),))


@dataclass(frozen=True)
class Core:
    """Port model of the core: classes of forms, their ports, the dispatch width.

    load and store name the forms that only load and only store a register. renamed_additions are
    additions of small constants that rename may perform. vector_loads has the ports of vector loads
    by register width in bits, where they differ from those of other loads. shared_store_data are
    ports that store data shares with arithmetic. early_binding: see port_classes.
    """

    classes: Sequence[PortClass]
    ports: Sequence[Ports]
    width: int
    load: str = ""
    store: str = ""
    renamed_additions: frozenset[str] = frozenset()
    vector_loads: Mapping[int, Ports] = field(default_factory=dict)
    shared_store_data: Ports | None = None
    early_binding: bool = False

    def class_ports(self, name: str) -> Ports | None:
        """Return the ports of a form's class, None if it has no class."""
        number = self.class_of(name)
        return None if number is None else self.ports[number]

    def class_of(self, name: str) -> int | None:
        """Return the number of a form's class, None if it has no class."""
        return next((n for n, one in enumerate(self.classes) if name in one.members), None)

    def blocker_of(self, ports: Ports | None) -> Form | None:
        """Return the blocking instruction of exactly these ports that does not access memory."""
        blockers = (one.blocker for one, own in self._pairs if own == ports)
        return next((form for form in blockers if not form.memory), None)

    @cached_property
    def store_data(self) -> Ports | None:
        """Return the ports of store data, where the class of stores shows those of addresses.

        It does so where loads use some of the same ports. A store-data uop without an address uop
        of its own, as in a read-modify-write whose load has computed the address, then shows among
        blocking stores alone. Where loads use exactly the ports of stores, no blocking kernel
        separates the two.
        """
        load, store = self.class_ports(self.load), self.class_ports(self.store)
        if not load or not store or load == store or not load & store:
            return None
        return frozenset(range(self._unseen, self._unseen + len(store)))

    @cached_property
    def store_uops(self) -> tuple[Ports, ...]:
        """Return the ports of each uop of a register store; none if no store is known."""
        store = self.class_ports(self.store)
        return tuple(filter(None, (store, self.shared_store_data)))

    def blocker_uops(self, number: int) -> tuple[Ports, ...]:
        """Return the ports of each uop of a class's blocking instruction."""
        return self.store_uops if number == self._storing else (self.ports[number],)

    @cached_property
    def memory_ports(self) -> tuple[Ports, ...]:
        """Return the ports of load and store uops, as far as they are known."""
        load, store = self.class_ports(self.load), self.class_ports(self.store)
        return tuple(filter(None, (load, store, self.store_data)))

    def accesses_memory(self, ports: Ports) -> bool:
        """True if a uop with these ports loads or stores."""
        return ports == self.shared_store_data or any(ports <= one for one in self.memory_ports)

    def out_of_reach(self, form: Form) -> list[int]:
        """Return the numbers of the classes whose ports a form without a memory operand cannot use.

        They are those of loads and stores that share no port with arithmetic.
        """
        if form.memory:
            return []
        plain = frozenset().union(*(ports for one, ports in self._pairs if not one.blocker.memory))
        return [n for n, ports in enumerate(self.ports) if not ports & plain]

    def computing(self, uops: Sequence[Ports]) -> list[Ports]:
        """Return the ports of the uops that neither load nor store."""
        return [ports for ports in uops if not self.accesses_memory(ports)]

    def load_ports(self, form: Form) -> Ports | None:
        """Return the ports of the load uop of a form."""
        bits = max((one.bits for one in form.operands if one.kind == "vector"), default=0)
        return self.vector_loads.get(bits, self.class_ports(self.load))

    def shown_by_blockers(self, uops: Sequence[Ports]) -> tuple[int, ...]:
        """Return the number of these uops that the blocking instructions of each class show."""
        shown = [sum(one <= ports for one in uops) for ports in self.ports]
        if self._storing is not None:
            shown[self._storing] += sum(one == self.store_data for one in uops)
            if self.shared_store_data:
                own = sum(one <= self.shared_store_data for one in uops)
                shown[self._storing] = max(shown[self._storing], own)
        return tuple(shown)

    @property
    def candidate_ports(self) -> Sequence[Ports]:
        """Return the port sets that a computing uop may have.

        They are those of the classes, all arithmetic ports, and the intersections of any of these:
        a set that no instruction of one uop has is the set of no class.
        """
        memory = self.memory_ports
        candidates = list(
            dict.fromkeys(p for p in (*self.ports, self.all_arithmetic) if p not in memory)
        )
        for ports in candidates:  # the list grows meanwhile
            candidates += dict.fromkeys(
                ports & other for other in candidates if ports & other not in candidates
            )
        return [ports for ports in candidates if ports]

    @property
    def all_arithmetic(self) -> Ports:
        """Return all arithmetic ports, at least as many as are dispatched in a cycle.

        Ports beyond those of the classes are ones that no class uses, so no blocking kernel shows
        them.
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
            for one, ports in self._pairs
            if not one.blocker.memory and all(o.kind != "vector" for o in one.blocker.operands)
        ]

    @cached_property
    def vector_classes(self) -> list[Ports]:
        """Return the ports of each class that computes in vectors."""
        return [
            ports
            for one, ports in self._pairs
            if not one.blocker.memory and any(o.kind == "vector" for o in one.blocker.operands)
        ]

    @cached_property
    def vector_ports(self) -> Ports:
        """Return the ports that compute in vectors alone; empty if general registers share any."""
        ports = frozenset().union(*self.vector_classes)
        return frozenset() if ports & self.integer_ports else ports

    @property
    def integer_ports(self) -> Ports:
        """Return all ports that compute in general registers."""
        return frozenset().union(*self.integer_classes)

    @cached_property
    def _unseen(self) -> int:
        """Return the number of the first port that no class uses."""
        return max(frozenset().union(*self.ports, self.shared_store_data or ())) + 1

    @cached_property
    def _storing(self) -> int | None:
        """Return the number of the class of stores, None without one."""
        return self.class_of(self.store)

    @cached_property
    def _pairs(self) -> list[tuple[PortClass, Ports]]:
        """Return the classes, each with its ports."""
        return list(zip(self.classes, self.ports, strict=True))
