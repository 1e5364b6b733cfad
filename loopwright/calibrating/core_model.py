"""The model of a core that is being learned: classes, ports, uops and all other findings.

Every pass reads it and adds to it. All mixtures of uops that ports limit obey one rule:
cycles = max over sets Q of ports of (uops whose ports all lie in Q) / |Q|: Ritter and Hack,
"Explainable Port Mapping Inference with Sparse Performance Counters for AMD's Zen
Architectures", ASPLOS 2024. Sets that are unions of the uops' own suffice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure

if TYPE_CHECKING:
    from loopwright.calibrating.branches import Branches
    from loopwright.calibrating.front_end import FrontEnd, Parameters
    from loopwright.calibrating.passes import Special
    from loopwright.calibrating.port_classes import Class
    from loopwright.microbench.dispatch_width import Width
    from loopwright.microbench.latency import Constants, Idiom, Latency
    from loopwright.microbench.memory_timing import Accesses
    from loopwright.microbench.throughput import Throughput
    from loopwright.microbench.windows import Windows


Ports = frozenset[int]


class Confidence(Enum):
    """How sure a value is, in the words of core.toml."""

    MEASURED = "high"  # microbenchmarks tell it from all others
    FITTED = "medium"  # it explains microbenchmarks best, together with others
    ASSUMED = "low"  # no microbenchmark tells


class Evidence(str):
    """What a value rests on, in words, and how sure that makes it."""

    confidence: Confidence

    def __new__(cls, said: str, confidence: Confidence) -> "Evidence":
        """Take the words and the confidence."""
        made = super().__new__(cls, said)
        made.confidence = confidence
        return made

    @property
    def assumed(self) -> bool:
        """Say whether no microbenchmark tells the value."""
        return self.confidence is Confidence.ASSUMED


def measured(said: str) -> Evidence:
    """Return the evidence of a value that microbenchmarks tell from all others."""
    return Evidence(f"{said} [{SOURCE}]", Confidence.MEASURED)


def fitted(said: str) -> Evidence:
    """Return the evidence of a value that was chosen with others for what microbenchmarks take."""
    return Evidence(f"{_FITTED}: {said} [{SOURCE}]", Confidence.FITTED)


def assumed(said: str) -> Evidence:
    """Return the evidence of a value that no microbenchmark tells."""
    return Evidence(f"assumption: {said}", Confidence.ASSUMED)


SOURCE = "calibrated"  # the key of a learned core in sources.toml
_FITTED = "fitted to kernels together with others"
TRIED = measured("tried")  # of a candidate that is never written
UNKNOWN = assumed("not measured")


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

    places: int
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
class Core:
    """The core that forms run on: classes of forms, their ports, dispatch slots."""

    classes: Sequence["Class"]
    ports: Sequence[Ports]
    width: int
    load: str = ""  # names of the forms that only load and only store a register
    store: str = ""
    renamed: frozenset[str] = frozenset()  # names of forms that rename does for small constants
    # Ports of loads to vectors, by their bits, where these are others.
    vectors: Mapping[int, Ports] = field(default_factory=dict)
    written: Ports | None = None  # ports of arithmetic that what a store writes takes
    early_binding: bool = False  # ports are bound early, as early_binding.measure tells

    def of(self, name: str) -> Ports | None:
        """Return the ports of the class that a form is of."""
        number = self.class_of(name)
        return None if number is None else self.ports[number]

    def class_of(self, name: str) -> int | None:
        """Return the number of the class that a form is of."""
        return next((n for n, one in enumerate(self.classes) if name in one.members), None)

    @cached_property
    def data(self) -> Ports | None:
        """Return the ports of what stores write, where those of their class are of addresses.

        They are so where loads use some of them, too. Then blockers of stores alone show what needs
        no address of its own, as changes of memory do whose load has computed it. Where loads use
        just the same, no blocking kernel tells them apart.
        """
        load, store = self.of(self.load), self.of(self.store)
        if not load or not store or load == store or not load & store:
            return None
        return frozenset(range(self._unseen, self._unseen + len(store)))

    @cached_property
    def stored(self) -> tuple[Ports, ...]:
        """Return the ports of the uops of a store of a register; none where no such is known."""
        store = self.of(self.store)
        return tuple(one for one in (store, self.written) if one)

    def blocked(self, number: int) -> tuple[Ports, ...]:
        """Return the ports of the uops of what blocks a class."""
        return self.stored if number == self._storing else (self.ports[number],)

    @cached_property
    def memory(self) -> tuple[Ports, ...]:
        """Return the ports of uops that load and store, as far as they are known."""
        return tuple(one for one in (self.of(self.load), self.of(self.store), self.data) if one)

    def accesses(self, ports: Ports) -> bool:
        """Say whether a uop of these ports loads or stores."""
        return ports == self.written or any(ports <= one for one in self.memory)

    def computing(self, uops: Sequence[Ports]) -> list[Ports]:
        """Return the ports of uops that neither load nor store."""
        return [ports for ports in uops if not self.accesses(ports)]

    def loads(self, form: Form) -> Ports | None:
        """Return the ports of what a form loads."""
        bits = max((one.bits for one in form.operands if one.kind == "vector"), default=0)
        return self.vectors.get(bits, self.of(self.load))

    def within(self, uops: Sequence[Ports]) -> tuple[int, ...]:
        """Return how many uops blockers of each class show."""
        shown = [sum(one <= ports for one in uops) for ports in self.ports]
        if self._storing is not None:
            shown[self._storing] += sum(one == self.data for one in uops)
            if self.written:
                own = sum(one <= self.written for one in uops)
                shown[self._storing] = max(shown[self._storing], own)
        return tuple(shown)

    @property
    def sets(self) -> Sequence[Ports]:
        """Return the ports that uops that compute may have.

        Those of classes, those of all arithmetic, and what any of these share: where no instruction
        has just these, no class shows them.
        """
        memory = self.memory
        found = list(dict.fromkeys(p for p in (*self.ports, self.wide) if p not in memory))
        for one in found:  # grows as it goes
            found += dict.fromkeys(one & other for other in found if one & other not in found)
        return [one for one in found if one]

    @property
    def wide(self) -> Ports:
        """Return the ports of what no blocking kernel can show: all that arithmetic has.

        Where these are fewer than a cycle's dispatch, there are others, which no class uses.
        """
        memory = self.memory
        known = frozenset().union(*(ports for ports in self.ports if ports not in memory))
        first = self._unseen + len(self.data or ())
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
    def integer(self) -> Ports:
        """Return the ports of what computes in general registers."""
        return frozenset().union(*self.integer_classes)

    @cached_property
    def _unseen(self) -> int:
        """Return the number of the first port that no class has."""
        return max(frozenset().union(*self.ports, self.written or ())) + 1

    @cached_property
    def _storing(self) -> int | None:
        return self.class_of(self.store)


@dataclass(frozen=True)
class Microcode:
    """Microcode: of forms of so many slots or more, all uops but those that are decoded.

    own has forms of which another number is decoded, stall are the cycles of a switch to it and
    back, and why says what that rests on.
    """

    fewest: int
    decoded: int
    stall: int
    own: Mapping[str, int] = field(default_factory=dict, hash=False)
    why: str = ""

    def sent(self, name: str, places: int) -> int:
        """Return how many places of a form the sequencer sends."""
        decoded = self.own.get(name, self.decoded)
        return max(0, places - decoded) if places >= self.fewest else 0


@dataclass(frozen=True)
class CoreModel:
    """A core as timing shows it: by the names of forms what was measured and concluded of each.

    waits is what an instance among those of its throughput would take if it waited for itself
    alone; assigned is how uops get their ports, where several can run one, and what that rests on;
    idioms are forms that wait for nothing where all operands are one register; rules are of
    accesses that cross boundaries or meet, and of the stack, and figures the evidence of these;
    special is what is no matter of ports; decoders are the simple ones that forms leave in a cycle;
    stores are the names of forms that write memory; indexed those of forms that take a dispatch
    slot more where their address has a base and an index; doubts are the ranges of forms whose
    kernels do not agree.
    """

    width: "Width"
    core: Core
    throughputs: Mapping[str, "Throughput"]
    latencies: Mapping[str, Sequence["Latency"]]
    uops: Mapping[str, Uops]
    accesses: "Accesses"
    branches: "Branches"
    fusion: Mapping[str, str]
    waits: Mapping[str, float]
    windows: "Windows"
    front_end: "FrontEnd"
    constants: "Constants"
    assigned: tuple[Mapping[str, str], Evidence] = {"assign": "least_loaded"}, UNKNOWN
    microcode: Microcode | None = None
    decoders: Mapping[str, str] = field(default_factory=dict)
    idioms: Mapping[str, "Idiom"] = field(default_factory=dict)
    rules: "Parameters" = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    special: "Special | None" = None
    stores: frozenset[str] = frozenset()
    indexed: frozenset[str] = frozenset()
    doubts: Mapping[str, Doubt] = field(default_factory=dict)

    def has_ports(self, name: str) -> bool:
        """Say whether the uops of a form are known."""
        uops = self.uops.get(name)
        return uops is not None and uops.ports is not None
