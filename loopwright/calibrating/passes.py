"""Passes of calibrate, in their order: measurements first, then the fits that need several of them.

`learn` runs all microbenchmarks. `learn_core` adds the fits and the cross-checks. A `Special` holds
what has nothing to do with ports: serialising instructions, mispredictions, strings and aliasing.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.calibrating import (
    absorbed_moves,
    branches,
    calls,
    cross_check,
    decoding,
    dispatch_rules,
    doubtful_forms,
    front_end,
    front_end_fit,
    latency_fit,
    memory_rules,
    mispredictions,
    port_classes,
    port_usage,
    serialising,
    strings,
    x87,
)
from loopwright.calibrating.core_model import (
    ALIASING,
    MISPREDICTION,
    CoreModel,
    Special,
)
from loopwright.calibrating.ports import Core, Uops
from loopwright.microbench import (
    blockers,
    dispatch_width,
    latency,
    memory_timing,
    throughput,
    windows,
)
from loopwright.microbench.blockers import Surplus
from loopwright.microbench.dispatch_width import Width
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.latency import Constants, Latency
from loopwright.microbench.throughput import Throughput


def measure_special(laboratory: Laboratory, forms: Mapping[str, Form]) -> Special:
    """Do these experiments; forms are those that are learned, by name."""
    serial, branches = (
        serialising.measure_serialising(laboratory, forms),
        mispredictions.measure_mispredictions(laboratory),
    )
    left = dict(serial.left)
    if branches.cost.refused:
        left[MISPREDICTION] = branches.cost.refused
    repeated = strings.measure_strings(laboratory, list(strings.every(laboratory.kit)))
    aliased = memory_timing.measure_aliasing(laboratory, forms)
    costs = [f"{one.cost:.1f} cycles {said}" for said, one in aliased.items() if one.cost]
    if costs:
        left[ALIASING] = f"it costs {' and '.join(costs)}; the simulator has no rule for it"
    return Special(serial, branches, repeated, aliased, left)


Step = Callable[[str], None]

_COUNT, _NARROW = "dec r64", "dec r32"  # what counts a loop's iterations, and its twin


@dataclass(frozen=True)
class Sorted:
    """State before the uops of forms are known: runs are the forms that the machine has.

    singles are those of runs that use no memory, or do nothing but load or store.
    """

    width: Width
    throughputs: Mapping[str, Throughput]
    latencies: Mapping[str, Sequence[Latency]]
    slots: Mapping[str, Surplus]
    runs: Sequence[Form]
    singles: Sequence[Form]
    core: Core
    constants: Constants


def sort(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> Sorted:
    """Do the experiments up to the classes of forms that share ports, and these ports."""
    step("dispatch width")
    wide = dispatch_width.measure(laboratory)
    step(f"throughput of {len(forms)} forms")
    rates = throughput.measure(laboratory, forms)
    runs = [form for form in forms if not rates[form.name].refused]
    step("latencies")
    kit = laboratory.kit
    adding = latency.renamed_constants(
        laboratory, next((f for f in runs if f.name == kit.ADDED), None)
    )
    latencies = latency.computed_latencies(
        latency.measure(laboratory, runs, throughput.cycles(rates)), adding, kit.RENAMED
    )
    rates = throughput.meeting(laboratory, runs, rates, latencies, wide.instructions)
    step("places at dispatch")
    blocked = blockers.dispatch_slots(laboratory, runs, rates, latencies, wide)
    slots = blockers.unmasked(laboratory, runs, rates, blocked, wide)
    slots = blockers.possible_slots(slots, rates, wide)
    step("classes of forms that share ports")
    singles = [form for form in runs if form.memory is None or form.name in (kit.LOAD, kit.STORE)]
    sure = blockers.agreed_slots(blocked, slots)
    found = port_classes.find_classes(
        laboratory, singles, rates, latencies, sure, wide.instructions
    )
    step(f"ports of {len(found)} classes")
    ports, written = port_classes.find_ports(laboratory, found, wide.instructions)
    renamed = frozenset(kit.RENAMED if adding.limit else ())
    core = Core(
        found, ports, wide.instructions, kit.LOAD, kit.STORE, renamed, shared_store_data=written
    )
    core = replace(core, early_binding=port_classes.binds_early(laboratory, core))
    return Sorted(wide, rates, latencies, slots, runs, singles, core, adding)


def _count(known: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return the uops of a loop's count where blockers do not tell them: those of its narrow twin.

    Without them no loop is predicted.
    """
    like = known.get(_NARROW)
    told = _COUNT not in known or known[_COUNT].ports is not None
    if told or like is None or like.ports is None:
        return {}
    return {_COUNT: replace(like, why=f"assumption: what {_NARROW} needs; {known[_COUNT].why}")}


def _narrow(forms: Sequence[Form], known: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return the uops of forms that store bytes or words and show more slots than wide ones.

    Stores to one place that a cache merges pass for slots there.
    """
    out = {}
    for form in forms:
        wide = known.get(re.sub(r"\b([mr])(8|16)\b", r"\g<1>32", form.name))
        if form.memory and form.memory.narrow and wide and wide.ports is not None:
            own = known[form.name]
            if own.ports is None or own.slots > wide.slots:
                out[form.name] = replace(wide, why=f"as 32 bits; {own.why}")
    return out


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
        out[form.name] = Uops(max(1, both.slots - 1), ports, both.busy, why)
    return out


def learn(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> CoreModel:
    """Do all experiments; step hears what is being learned."""
    kit = laboratory.kit
    base = sort(laboratory, forms, step)
    core, rates, latencies = base.core, base.throughputs, base.latencies
    step("uops of each form")
    shown = port_usage.find(laboratory, base.singles, core, rates, latencies, base.slots)
    step("uops of forms with memory")
    rest = [form for form in base.runs if form.name not in shown.uops]
    with_memory = port_usage.find_with_memory(
        laboratory, rest, core, rates, latencies, base.slots, shown
    )
    known = shown.uops | with_memory
    known |= _count(known) | _undone(base.runs, known)
    known |= _narrow(base.runs, known)
    latencies = latency_fit.assumed_latencies(core, latencies, known, base.runs)
    step("front end")
    delivery = front_end.measure_front_end(laboratory, base.singles, known)
    step("loads, stores and branches")
    named = {form.name: form for form in forms}
    stacked = port_usage.stack_uops(laboratory, core)
    fusing = [form for form in base.runs if known[form.name].slots == 1]
    accessed = memory_timing.measure(laboratory, named, latencies)
    fused = branches.fused_pairs(laboratory, fusing, base.width)
    branching = branches.measure(laboratory, core, fused)
    step("serialising instructions, mispredictions, strings, aliasing")
    apart = measure_special(laboratory, named)
    step("windows")
    held = windows.measure(laboratory, named, base.width)
    return CoreModel(
        base.width,
        core,
        rates,
        {**latencies, **port_usage.stack_latencies(kit, stacked, latencies)},
        known | stacked,
        accessed,
        branching,
        fused,
        {form.name: throughput.waits(form, latencies[form.name]) for form in base.runs},
        held,
        delivery,
        base.constants,
        idioms=latency.zero_idioms(laboratory, base.runs, latencies, base.width.instructions),
        special=apart,
        stores=frozenset(f.name for f in forms if f.memory and f.memory.written) | {kit.PUSH},
    )


Fitting = Callable[[Laboratory, CoreModel, Sequence[Form]], CoreModel]


@dataclass(frozen=True)
class Pass:
    """A fit of several measurements: the parts of CoreModel that it needs, and that it provides.

    Of what it needs, parts that an earlier pass provides are fitted, and others measured. step is
    the name of the work that begins with it, where one does.
    """

    fitting: Fitting
    needs: frozenset[str]
    provides: frozenset[str]
    step: str = ""


def _of_core(fitting: Callable[[Laboratory, CoreModel], CoreModel]) -> Fitting:
    """Return a fit that needs no forms as one that takes them."""
    return lambda laboratory, learned, _: fitting(laboratory, learned)


def _merged(_: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    return memory_rules.merged_store_uops(learned, forms)


def _front_end(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    return front_end_fit.choose_front_end(laboratory.machine, learned)


def _pass(fitting: Fitting, needs: str, provides: str, step: str = "") -> Pass:
    return Pass(fitting, _parts(needs), _parts(provides), step)


def _parts(names: str) -> frozenset[str]:
    return frozenset(names.split())


MEASURED = _parts(
    "width core throughputs latencies uops accesses branches fusion waits windows constants idioms "
    "special stores probes"
)
"""Parts that `learn` provides; probes are those of the front end."""

PASSES: Sequence[Pass] = (
    _pass(_of_core(dispatch_rules.choose_taken_ports), "core branches", "rules"),
    _pass(memory_rules.choose_memory_rules, "core uops accesses", "rules figures"),
    _pass(_merged, "uops rules", "uops"),
    _pass(cross_check.choose_assignment, "uops throughputs", "assigned"),
    _pass(
        dispatch_rules.choose_dispatch_rules,
        "uops throughputs waits rules assigned",
        "rules uops indexed figures",
    ),
    _pass(_of_core(absorbed_moves.choose_absorbed), "core", "rules"),
    _pass(
        _of_core(_front_end),
        "uops branches probes rules assigned",
        "front_end",
        "front end that explains what was timed",
    ),
    _pass(
        dispatch_rules.choose_turns,
        "uops branches throughputs windows rules assigned front_end",
        "rules branches figures",
    ),
    _pass(
        latency_fit.refine_latencies,
        "latencies uops front_end assigned",
        "latencies",
        "mixtures",
    ),
    _pass(decoding.choose_microcode, "uops front_end", "microcode uops"),
    _pass(decoding.choose_decoders, "uops front_end microcode", "decoders front_end"),
    _pass(cross_check.hold_to_mixtures, "uops rules front_end microcode decoders", "uops"),
    _pass(
        doubtful_forms.choose_doubtful,
        "uops throughputs latencies front_end",
        "uops latencies doubts",
        "forms whose kernels do not agree",
    ),
    _pass(
        _of_core(calls.choose_calls),
        "core branches uops front_end doubts",
        "uops latencies stores rules figures doubts front_end branches",
        "calls",
    ),
    _pass(
        _of_core(x87.choose_x87),
        "core uops latencies doubts",
        "uops latencies stores figures doubts",
    ),
    _pass(
        serialising.fit_serialising,
        "special uops latencies",
        "rules uops latencies doubts special",
    ),
    _pass(_of_core(mispredictions.fit_mispredictions), "special uops", "rules"),
    _pass(_of_core(mispredictions.fit_exits), "special uops", "rules"),
    _pass(_of_core(strings.fit_strings), "special uops", "rules special"),
)


def learn_core(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> CoreModel:
    """Return what was learned of a machine by these forms; step hears what is being learned."""
    learned = learn(laboratory, forms, step)
    for one in PASSES:
        if one.step:
            step(one.step)
        learned = one.fitting(laboratory, learned, forms)
    return learned
