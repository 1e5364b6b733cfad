"""Passes of calibrate in order: measurements, then fits that need several of them.

`learn` runs all microbenchmarks. `learn_core` adds the fits and the cross-checks. `measure_special`
runs those unrelated to ports: serialising instructions, mispredictions, strings and aliasing.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from loopwright.calibrating import (
    branches,
    calls,
    cross_check,
    decoding,
    dispatch_rules,
    doubtful_forms,
    front_end_fit,
    latency_fit,
    memory_rules,
    mispredictions,
    port_choice,
    port_classes,
    port_usage,
    rename_rules,
    result_buses,
    serialising,
    strings,
    x87,
)
from loopwright.calibrating.core_model import (
    ALIASING,
    MISPREDICTION,
    CoreModel,
    FrontEnd,
    Special,
)
from loopwright.calibrating.ports import Core, Uops
from loopwright.microbench import (
    blockers,
    dispatch_width,
    front_end,
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
    """Run the microbenchmarks that are unrelated to ports; forms are those to learn, by name."""
    serial = serialising.measure_serialising(laboratory, forms)
    mispredicted = mispredictions.measure_mispredictions(laboratory)
    left_out = dict(serial.left)
    if mispredicted.cost.refused:
        left_out[MISPREDICTION] = mispredicted.cost.refused
    timed = strings.measure_strings(laboratory, list(strings.all_cases(laboratory.kit)))
    aliased = memory_timing.measure_aliasing(laboratory, forms)
    costs = [f"{one.cost:.1f} cycles {label}" for label, one in aliased.items() if one.cost]
    if costs:
        left_out[ALIASING] = f"it costs {' and '.join(costs)}; the simulator has no rule for it"
    return Special(serial, mispredicted, timed, aliased, left_out)


Step = Callable[[str], None]

# the instruction that counts a loop's iterations, and its 32-bit twin
_COUNT, _NARROW = "dec r64", "dec r32"


@dataclass(frozen=True)
class Basis:
    """State before port usages are known; executable are the forms that the machine executes.

    simple are those of them without memory operands, and the plain load and store.
    """

    width: Width
    throughputs: Mapping[str, Throughput]
    latencies: Mapping[str, Sequence[Latency]]
    slots: Mapping[str, Surplus]
    executable: Sequence[Form]
    simple: Sequence[Form]
    core: Core
    constants: Constants


def measure_basis(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> Basis:
    """Run the microbenchmarks up to the port classes and their ports."""
    step("dispatch width")
    width = dispatch_width.measure(laboratory)
    step(f"throughput of {len(forms)} forms")
    throughputs = throughput.measure(laboratory, forms)
    executable = [form for form in forms if not throughputs[form.name].refused]
    step("latencies")
    kit = laboratory.kit
    added = next((form for form in executable if form.name == kit.ADDED), None)
    constants = latency.renamed_constants(laboratory, added)
    latencies = latency.computed_latencies(
        latency.measure(laboratory, executable, throughput.cycles(throughputs)),
        constants,
        kit.RENAMED,
    )
    throughputs = throughput.mark_meeting_chains(
        laboratory, executable, throughputs, latencies, width.instructions
    )
    step("slots at dispatch")
    blocked_slots = blockers.dispatch_slots(laboratory, executable, throughputs, latencies, width)
    slots = blockers.unmasked(laboratory, executable, throughputs, blocked_slots, width)
    slots = blockers.possible_slots(slots, throughputs, width)
    step("classes of forms that share ports")
    simple = [
        form for form in executable if form.memory is None or form.name in (kit.LOAD, kit.STORE)
    ]
    sure_slots = blockers.agreed_slots(blocked_slots, slots)
    classes = port_classes.find_classes(
        laboratory, simple, throughputs, latencies, sure_slots, width.instructions
    )
    step(f"ports of {len(classes)} classes")
    ports, written = port_classes.find_ports(laboratory, classes, width.instructions)
    renamed = frozenset(kit.RENAMED if constants.limit else ())
    core = Core(
        classes, ports, width.instructions, kit.LOAD, kit.STORE, renamed, shared_store_data=written
    )
    core = replace(core, early_binding=port_classes.binds_early(laboratory, core))
    return Basis(width, throughputs, latencies, slots, executable, simple, core, constants)


def _counting_usage(usages: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return the port usage of a loop's counting instruction from its 32-bit twin, if unknown.

    Without it no loop can be predicted.
    """
    count, twin = usages.get(_COUNT), usages.get(_NARROW)
    if count is None or count.ports is not None or twin is None or twin.ports is None:
        return {}
    return {_COUNT: replace(twin, why=f"assumption: what {_NARROW} needs; {count.why}")}


def _narrow_store_usages(forms: Sequence[Form], usages: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return port usages of byte and word stores that show more slots than their wide relatives.

    The cache may merge such stores to one line, which looks like additional slots.
    """
    narrow = {}
    for form in forms:
        wide = usages.get(re.sub(r"\b([mr])(8|16)\b", r"\g<1>32", form.name))
        if form.memory and form.memory.narrow and wide and wide.ports is not None:
            own = usages[form.name]
            if own.ports is None or own.slots > wide.slots:
                narrow[form.name] = replace(wide, why=f"as 32 bits; {own.why}")
    return narrow


def _without_base_resets(forms: Sequence[Form], usages: Mapping[str, Uops]) -> dict[str, Uops]:
    """Return port usages of forms that update their base, without the reset of the base."""
    updating = {}
    for form in forms:
        total, reset = usages[form.name], usages.get(form.undone)
        if not form.undone or total.ports is None:
            continue
        reset_ports = reset.ports if reset else None
        if reset_ports is None or Counter(reset_ports) - Counter(total.ports):
            ports, why = None, f"beside {form.undone} not known"
        else:
            ports = tuple((Counter(total.ports) - Counter(reset_ports)).elements())
            why = f"less {form.undone}; {total.why}"
        updating[form.name] = Uops(max(1, total.slots - 1), ports, total.busy, why)
    return updating


def learn(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> CoreModel:
    """Run all microbenchmarks; step is called with the name of each step."""
    kit = laboratory.kit
    basis = measure_basis(laboratory, forms, step)
    core, rates, latencies = basis.core, basis.throughputs, basis.latencies
    step("uops of each form")
    register_usages = port_usage.find(laboratory, basis.simple, core, rates, latencies, basis.slots)
    step("uops of forms with memory")
    memory_forms = [form for form in basis.executable if form.name not in register_usages.uops]
    with_memory = port_usage.find_with_memory(
        laboratory, memory_forms, core, rates, latencies, basis.slots, register_usages
    )
    usages = register_usages.uops | with_memory
    usages |= _counting_usage(usages) | _without_base_resets(basis.executable, usages)
    usages |= _narrow_store_usages(basis.executable, usages)
    latencies = latency_fit.assumed_latencies(core, latencies, usages, basis.executable)
    step("front end")
    multi_uop = [*front_end_fit.multi_uop_forms(basis.simple, usages)]
    timings = front_end.measure_front_end(laboratory, multi_uop, basis.width)
    step("loads, stores and branches")
    named = {form.name: form for form in forms}
    stack_usages = port_usage.stack_uops(laboratory, core)
    fusing = [form for form in basis.executable if usages[form.name].slots == 1]
    accesses = memory_timing.measure(laboratory, named, latencies)
    fusion = branches.fused_pairs(laboratory, fusing, basis.width)
    measured_branches = branches.measure(laboratory, core, fusion)
    step("serialising instructions, mispredictions, strings, aliasing")
    special = measure_special(laboratory, named)
    step("windows")
    sizes = windows.measure(laboratory, named, basis.width)
    waits = {
        form.name: throughput.dependency_cycles(form, latencies[form.name])
        for form in basis.executable
    }
    idioms = latency.zero_idioms(laboratory, basis.executable, latencies, basis.width.instructions)
    written = frozenset(form.name for form in forms if form.memory and form.memory.written)
    return CoreModel(
        basis.width,
        core,
        rates,
        {**latencies, **port_usage.stack_latencies(kit, stack_usages, latencies)},
        usages | stack_usages,
        accesses,
        measured_branches,
        fusion,
        waits,
        sizes,
        FrontEnd(**vars(timings), parameters={}, summaries={}, left={}),
        basis.constants,
        idioms=idioms,
        special=special,
        stores=written | {kit.PUSH},
    )


Fitting = Callable[[Laboratory, CoreModel, Sequence[Form]], CoreModel]


@dataclass(frozen=True)
class Pass:
    """A fit of several measurements: the parts of CoreModel that it needs and those it provides.

    Parts that it needs come from earlier passes or from measurements. step names the work that
    begins with it, if it begins a step.
    """

    fitting: Fitting
    needs: frozenset[str]
    provides: frozenset[str]
    step: str = ""


def _of_core(fitting: Callable[[Laboratory, CoreModel], CoreModel]) -> Fitting:
    """Adapt a fit that takes no forms to the signature of passes."""
    return lambda laboratory, learned, _: fitting(laboratory, learned)


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
    _pass(
        lambda _, learned, forms: memory_rules.merged_store_uops(learned, forms),
        "uops rules",
        "uops",
    ),
    _pass(cross_check.choose_assignment, "uops throughputs", "assigned"),
    _pass(
        dispatch_rules.choose_dispatch_rules,
        "uops throughputs waits rules assigned",
        "rules uops indexed figures",
    ),
    _pass(_of_core(rename_rules.choose_absorbed), "core width", "rules"),
    _pass(_of_core(rename_rules.choose_nop_bytes), "width rules", "rules"),
    _pass(
        lambda lab, learned, _: front_end_fit.choose_front_end(lab.machine, learned),
        "uops branches probes rules assigned",
        "front_end",
        "front end that explains what was timed",
    ),
    _pass(
        dispatch_rules.choose_balanced,
        "uops branches throughputs windows rules assigned front_end",
        "rules branches figures",
    ),
    _pass(
        rename_rules.choose_shared,
        "uops branches windows rules assigned front_end",
        "rules",
    ),
    _pass(
        dispatch_rules.choose_load_entries,
        "uops rules assigned front_end",
        "beside_loads figures",
    ),
    _pass(
        dispatch_rules.choose_loading_pairs,
        "uops branches fusion rules assigned front_end",
        "fusion rules figures",
    ),
    _pass(
        rename_rules.choose_rename_rules,
        "uops width windows rules assigned front_end",
        "rules",
        "rules of rename",
    ),
    _pass(
        port_choice.choose_port_choice,
        "uops branches throughputs windows rules assigned front_end",
        "rules",
    ),
    _pass(
        port_choice.choose_late_results,
        "uops latencies rules assigned front_end",
        "rules",
    ),
    _pass(
        result_buses.choose_result_buses,
        "uops throughputs rules assigned front_end",
        "uops rules result_buses",
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
    _pass(_of_core(strings.fit_hold), "special uops rules", "rules"),
)


def learn_core(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> CoreModel:
    """Learn a core by these forms; step is called with the name of each step."""
    learned = learn(laboratory, forms, step)
    for next_pass in PASSES:
        if next_pass.step:
            step(next_pass.step)
        learned = next_pass.fitting(laboratory, learned, forms)
    return learned
