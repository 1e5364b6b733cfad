"""The model of a core that is being learned: forms, ports, latencies and all other findings.

Every pass reads it and adds to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loopwright.calibrating.branches import Branches
from loopwright.calibrating.evidence import UNKNOWN, Evidence
from loopwright.calibrating.front_end import FrontEnd, Parameters
from loopwright.calibrating.ports import Core, Doubt, Uops
from loopwright.microbench.dispatch_width import Width
from loopwright.microbench.laboratory import Figure
from loopwright.microbench.latency import Constants, Idiom, Latency
from loopwright.microbench.memory_timing import Accesses, Aliased
from loopwright.microbench.throughput import Throughput
from loopwright.microbench.windows import Windows

MISPREDICTION = "a misprediction"
ALIASING = "a load 4 KiB on from a store"


@dataclass(frozen=True)
class Repeated:
    """A string instruction of so many bytes, and how far both sides lie behind a line."""

    name: str
    size: int
    source: int
    destination: int


@dataclass(frozen=True)
class Timed:
    """Cycles of one repeated string instruction."""

    what: Repeated
    figure: Figure


@dataclass(frozen=True)
class Serialising:
    """Cycles of a copy by its mnemonic and the code beside it; the reasons for those not asked."""

    figures: Mapping[str, Mapping[str, Figure]]
    left: Mapping[str, str]


@dataclass(frozen=True)
class Mispredicted:
    """The cycles of an iteration by random bits and by others, and of a misprediction.

    cost is refused where nothing is lost, or where that is not known.
    """

    random: Figure
    known: Figure
    cost: Figure
    branches: int  # of an iteration


@dataclass(frozen=True)
class Special:
    """Measurements that have nothing to do with ports, and why the rest is left out."""

    serialising: Serialising
    gone: Mispredicted
    strings: Sequence[Timed]
    aliased: Mapping[str, Aliased]
    left: Mapping[str, str]

    def rows(self) -> Iterator[tuple[str, str, Figure, str]]:
        """Yield what was measured: a mnemonic or none, what of it, the cycles, a note."""
        for name, beside in self.serialising.figures.items():
            for said, figure in beside.items():
                yield name, said, figure, "a copy, by slope"
        iteration = f"an iteration of {self.gone.branches} branches and their bits"
        yield "", "branches by random bits", self.gone.random, iteration
        yield "", "branches by bits that never change", self.gone.known, iteration
        half = "of half of the random branches"
        yield "", MISPREDICTION, self.gone.cost, self.gone.cost.refused or half
        for said, one in self.aliased.items():
            yield "", f"{ALIASING}, {said}", one.same, f"{one.cost:.1f} cycles for looking alike"
            yield "", f"{ALIASING}, and a line, {said}", one.other, ""


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

    def sent(self, name: str, slots: int) -> int:
        """Return how many places of a form the sequencer sends."""
        decoded = self.own.get(name, self.decoded)
        return max(0, slots - decoded) if slots >= self.fewest else 0


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

    width: Width
    core: Core
    throughputs: Mapping[str, Throughput]
    latencies: Mapping[str, Sequence[Latency]]
    uops: Mapping[str, Uops]
    accesses: Accesses
    branches: Branches
    fusion: Mapping[str, str]
    waits: Mapping[str, float]
    windows: Windows
    front_end: FrontEnd
    constants: Constants
    assigned: tuple[Mapping[str, str], Evidence] = {"assign": "least_loaded"}, UNKNOWN
    microcode: Microcode | None = None
    decoders: Mapping[str, str] = field(default_factory=dict)
    idioms: Mapping[str, Idiom] = field(default_factory=dict)
    rules: Parameters = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    special: Special | None = None
    stores: frozenset[str] = frozenset()
    indexed: frozenset[str] = frozenset()
    doubts: Mapping[str, Doubt] = field(default_factory=dict)

    def has_ports(self, name: str) -> bool:
        """Say whether the uops of a form are known."""
        uops = self.uops.get(name)
        return uops is not None and uops.ports is not None
