"""All experiments in their order: what is learned of a core."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from loopwright.calibrating import special
from loopwright.calibrating.delivery import front_end
from loopwright.calibrating.delivery.front_end import FrontEnd, Parameters
from loopwright.calibrating.experiments import (
    accesses,
    constants,
    fusion,
    idioms,
    latency,
    throughput,
    width,
    windows,
)
from loopwright.calibrating.experiments.accesses import Accesses
from loopwright.calibrating.experiments.constants import Constants
from loopwright.calibrating.experiments.idioms import Idiom
from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.experiments.throughput import Throughput
from loopwright.calibrating.experiments.width import Width
from loopwright.calibrating.experiments.windows import Windows
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.ports import (
    blockers,
    branches,
    classes,
    early_binding,
    hidden,
    memory,
    stack,
    stores,
    uops,
)
from loopwright.calibrating.ports.blockers import Surplus
from loopwright.calibrating.ports.branches import Branches
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.special import Special

Step = Callable[[str], None]

_COUNT, _NARROW = "dec r64", "dec r32"  # what counts a loop's iterations, and its twin


@dataclass(frozen=True)
class Microcode:
    """What a sequencer sends: of forms of so many places or more, all but those that are decoded.

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
class Learned:
    """A core as timing shows it: by the names of forms what was measured and concluded of each.

    waits is what an instance among those of its throughput would take if it waited for itself
    alone; assigned is how uops get their ports, where several can run one, and what that rests on;
    idioms are forms that wait for nothing where all operands are one register; rules are of
    accesses that cross boundaries or meet, and of the stack, and figures what they were told by;
    special is what is no matter of ports; decoders are the simple ones that forms leave in a cycle;
    stores are the names of forms that write memory.
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
    assigned: tuple[Mapping[str, str], str] = (
        {"assign": "least_loaded"}, "assumption: not measured",
    )  # fmt: skip
    microcode: Microcode | None = None
    decoders: Mapping[str, str] = field(default_factory=dict)
    idioms: Mapping[str, Idiom] = field(default_factory=dict)
    rules: Parameters = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    special: Special | None = None
    stores: frozenset[str] = frozenset()

    def has_ports(self, name: str) -> bool:
        """Say whether the uops of a form are known."""
        uops = self.uops.get(name)
        return uops is not None and uops.ports is not None


@dataclass(frozen=True)
class Sorted:
    """What is known before the uops of forms are: runs are those that the machine has.

    singles are those of runs that use no memory, or do nothing but load or store.
    """

    width: Width
    throughputs: Mapping[str, Throughput]
    latencies: Mapping[str, Sequence[Latency]]
    places: Mapping[str, Surplus]
    runs: Sequence[Form]
    singles: Sequence[Form]
    core: Core
    constants: Constants


def sort(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> Sorted:
    """Do the experiments up to the classes of forms that share ports, and these ports."""
    step("dispatch width")
    wide = width.measure(laboratory)
    step(f"throughput of {len(forms)} forms")
    rates = throughput.measure(laboratory, forms)
    runs = [form for form in forms if not rates[form.name].refused]
    step("latencies")
    kit = laboratory.kit
    adding = constants.measure(laboratory, next((f for f in runs if f.name == kit.ADDED), None))
    latencies = constants.computed(
        latency.measure(laboratory, runs, throughput.cycles(rates)), adding, kit.RENAMED
    )
    rates = throughput.meeting(laboratory, runs, rates, latencies, wide.instructions)
    step("places at dispatch")
    blocked = blockers.dispatched(laboratory, runs, rates, latencies, wide)
    places = hidden.shown(laboratory, runs, rates, blocked, wide)
    places = hidden.possible(places, rates, wide)
    step("classes of forms that share ports")
    singles = [form for form in runs if form.memory is None or form.name in (kit.LOAD, kit.STORE)]
    sure = hidden.agreed(blocked, places)
    found = classes.find(laboratory, singles, rates, latencies, sure, wide.instructions)
    step(f"ports of {len(found)} classes")
    ports, written = stores.find(laboratory, found, wide.instructions)
    renamed = frozenset(kit.RENAMED if adding.limit else ())
    core = Core(found, ports, wide.instructions, kit.LOAD, kit.STORE, renamed, written=written)
    core = replace(core, early_binding=early_binding.measure(laboratory, core))
    return Sorted(wide, rates, latencies, places, runs, singles, core, adding)


def _count(known: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return the uops of a loop's count where blockers do not tell them: those of its narrow twin.

    Without them no loop is predicted.
    """
    like = known.get(_NARROW)
    told = _COUNT not in known or known[_COUNT].ports is not None
    if told or like is None or like.ports is None:
        return {}
    return {_COUNT: replace(like, why=f"assumption: what {_NARROW} needs; {known[_COUNT].why}")}


def _undone(forms: Sequence[Form], known: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return the uops of forms without those of what gives back the value of a base behind them."""
    out = {}
    for form in forms:
        both, behind = known[form.name], known.get(form.undone)
        if not form.undone or both.ports is None:
            continue
        less = behind.ports if behind else None
        if less is None or Counter(less) - Counter(both.ports):
            ports, why = None, f"beside {form.undone} not known"
        else:
            ports = tuple((Counter(both.ports) - Counter(less)).elements())
            why = f"less {form.undone}; {both.why}"
        out[form.name] = Uops(max(1, both.places - 1), ports, both.busy, why)
    return out


def learn(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> Learned:
    """Do all experiments; step hears what is being learned."""
    kit = laboratory.kit
    base = sort(laboratory, forms, step)
    core, rates, latencies = base.core, base.throughputs, base.latencies
    step("uops of each form")
    shown = uops.find(laboratory, base.singles, core, rates, latencies, base.places)
    step("uops of forms with memory")
    rest = [form for form in base.runs if form.name not in shown.uops]
    with_memory = memory.find(laboratory, rest, core, rates, latencies, base.places, shown)
    known = shown.uops | with_memory
    known |= _count(known) | _undone(base.runs, known)
    step("front end")
    delivery = front_end.measure(laboratory, base.singles, known)
    step("loads, stores and branches")
    named = {form.name: form for form in forms}
    stacked = stack.measure(laboratory, core)
    fusing = [form for form in base.runs if known[form.name].places == 1]
    accessed = accesses.measure(laboratory, named, latencies)
    fused = fusion.measure(laboratory, fusing, base.width)
    branching = branches.measure(laboratory, core, fused)
    step("serialising instructions, mispredictions, strings, aliasing")
    apart = special.measure(laboratory, named)
    step("windows")
    held = windows.measure(laboratory, named, base.width)
    return Learned(
        base.width,
        core,
        rates,
        {**latencies, **stack.latencies(kit, stacked, latencies)},
        known | stacked,
        accessed,
        branching,
        fused,
        {form.name: throughput.waits(form, latencies[form.name]) for form in base.runs},
        held,
        delivery,
        base.constants,
        idioms=idioms.measure(laboratory, base.runs, latencies, base.width.instructions),
        special=apart,
        stores=frozenset(f.name for f in forms if f.memory and f.memory.written) | {kit.PUSH},
    )
