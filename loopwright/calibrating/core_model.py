"""Model of a core that is being learned: forms, ports, latencies, rules and their evidence.

Every pass reads it and adds to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from loopwright.calibrating.branches import Branches
from loopwright.calibrating.ports import Core, Doubt, Ports, Uops
from loopwright.microbench.dispatch_width import Width
from loopwright.microbench.front_end import FrontEndTimings
from loopwright.microbench.laboratory import Figure
from loopwright.microbench.latency import Constants, Idiom, Latency
from loopwright.microbench.memory_timing import Accesses, Aliased
from loopwright.microbench.throughput import Throughput
from loopwright.microbench.windows import Windows


class Confidence(Enum):
    """Confidence in a value, in the words of core.toml."""

    MEASURED = "high"  # microbenchmarks tell it from all other values
    FITTED = "medium"  # it explains microbenchmarks best, together with other values
    ASSUMED = "low"  # no microbenchmark tells it


class Evidence(str):
    """Basis of a value in words, with the confidence that follows from it."""

    confidence: Confidence

    def __new__(cls, basis: str, confidence: Confidence) -> "Evidence":
        """Make evidence of words and a confidence."""
        made = super().__new__(cls, basis)
        made.confidence = confidence
        return made

    @property
    def assumed(self) -> bool:
        """True if no microbenchmark tells the value."""
        return self.confidence is Confidence.ASSUMED


def measured(basis: str) -> Evidence:
    """Return the evidence of a value that microbenchmarks tell from all others."""
    return Evidence(f"{basis} [{SOURCE}]", Confidence.MEASURED)


def fitted(basis: str) -> Evidence:
    """Return the evidence of a value that was fitted to measurements together with others."""
    return Evidence(f"{_FITTED}: {basis} [{SOURCE}]", Confidence.FITTED)


def assumed(basis: str) -> Evidence:
    """Return the evidence of a value that no microbenchmark tells."""
    return Evidence(f"assumption: {basis}", Confidence.ASSUMED)


SOURCE = "calibrated"  # the key of a learned core in sources.toml
_FITTED = "fitted to kernels together with others"
TRIED = measured("tried")  # of a candidate that is never written
UNKNOWN = assumed("not measured")

# Simple decoders left in a cycle to what follows an instruction of so many uops: a column of
# instructions.csv.
AFTER = "decoders after"

# Value and evidence of the simulator's parameters, by dotted name.
Parameters = Mapping[str, tuple[object, Evidence]]


@dataclass(frozen=True)
class FrontEnd(FrontEndTimings):
    """Front-end microbenchmarks, and the front end that explains them once chosen.

    summaries describe the fit by kind of code. ends are the front ends that limit least and most of
    those that microbenchmarks leave open; None if they leave none.
    """

    parameters: Parameters
    summaries: Mapping[str, str]
    left: Mapping[str, str]
    ends: tuple[Parameters, Parameters] | None = None


MISPREDICTION = "a misprediction"
ALIASING = "a load 4 KiB on from a store"


@dataclass(frozen=True)
class Repeated:
    """A repeated string instruction: bytes, and the offsets of source and destination in a line."""

    name: str
    size: int
    source: int
    destination: int


@dataclass(frozen=True)
class TimedString:
    """Cycles of one repeated string instruction."""

    case: Repeated
    figure: Figure


@dataclass(frozen=True)
class Serialising:
    """Cycles of serialising instructions by mnemonic and code beside them; reasons of omissions."""

    figures: Mapping[str, Mapping[str, Figure]]
    left: Mapping[str, str]


@dataclass(frozen=True)
class Mispredicted:
    """Cycles an iteration with branches by random and by constant bits, and of a misprediction.

    cost is refused where random bits cost nothing, or one of the two was not measured.
    """

    random: Figure
    known: Figure
    cost: Figure
    branches: int  # of an iteration


@dataclass(frozen=True)
class Special:
    """Measurements unrelated to ports, and the reasons why instructions are left out."""

    serialising: Serialising
    mispredicted: Mispredicted
    strings: Sequence[TimedString]
    aliased: Mapping[str, Aliased]
    left: Mapping[str, str]

    def rows(self) -> Iterator[tuple[str, str, Figure, str]]:
        """Yield rows: a mnemonic or nothing, the name of the figure, cycles, a note."""
        for name, beside in self.serialising.figures.items():
            for label, figure in beside.items():
                yield name, label, figure, "a copy, by slope"
        iteration = f"an iteration of {self.mispredicted.branches} branches and their bits"
        yield "", "branches by random bits", self.mispredicted.random, iteration
        yield "", "branches by bits that never change", self.mispredicted.known, iteration
        half = "of half of the random branches"
        yield "", MISPREDICTION, self.mispredicted.cost, self.mispredicted.cost.refused or half
        for label, aliased in self.aliased.items():
            note = f"{aliased.cost:.1f} cycles for looking alike"
            yield "", f"{ALIASING}, {label}", aliased.same, note
            yield "", f"{ALIASING}, and a line, {label}", aliased.other, ""


@dataclass(frozen=True)
class Microcode:
    """Microcode: forms of `fewest` slots or more, all of whose uops but the decoded ones it sends.

    own has forms with another number of decoded uops. stall has the cycles of a switch to the
    sequencer and back. why is the basis of the rule.
    """

    fewest: int
    decoded: int
    stall: int
    own: Mapping[str, int] = field(default_factory=dict, hash=False)
    why: str = ""

    def sent(self, name: str, slots: int) -> int:
        """Return the number of slots of a form that the microcode sequencer sends."""
        decoded = self.own.get(name, self.decoded)
        return max(0, slots - decoded) if slots >= self.fewest else 0


@dataclass(frozen=True)
class CoreModel:
    """Model of a core as timing shows it: what was measured and concluded, by form.

    - waits: cycles of an instance in the throughput kernel if it waited for itself alone
    - assigned: port binding, where several ports can run a uop, with its evidence
    - decoders: simple decoders left in a cycle after a form
    - idioms: forms that have no dependency where all operands are one register
    - rules: parameters of the simulator outside of the front end, with their evidence
    - figures: the measurements behind rules
    - special: measurements unrelated to ports
    - stores: forms that write memory
    - indexed: forms with one dispatch slot more where the address has a base and an index
    - beside_loads: ports that compute with a load in one entry of a scheduler; empty: any
    - result_buses: ports of moves from vectors to general registers, and those whose bus they take
    - doubts: ranges of forms whose kernels do not agree
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
    beside_loads: Ports = frozenset()
    result_buses: Mapping[int, int] = field(default_factory=dict)
    doubts: Mapping[str, Doubt] = field(default_factory=dict)

    @property
    def every_port(self) -> Ports:
        """Return all ports of uops and branches."""
        core = self.core
        known = (*core.ports, *self.branches.ports.values(), core.shared_store_data or ())
        return core.all_arithmetic.union(*known, core.store_data or (), self.result_buses)

    def has_ports(self, name: str) -> bool:
        """True if the ports of a form are known."""
        uops = self.uops.get(name)
        return uops is not None and uops.ports is not None
