"""Serialising instructions: microbenchmarks and fit.

Copies of an instruction are timed alone, among nops, among loads, and among chains of moves. The
slope between loops of two and of four copies excludes the loop. A chain that overlaps the
instruction adds nothing to its cycles; one that waits for it adds all of its own.

AVX-SSE transitions are timed likewise, by copies of an instruction of 256 bits and a legacy one.

For an instruction that drains the simulated pipeline, the cycles after the drain are fitted. Any
other one is fitted with dispatch slots and cycles of a busy unit. An instruction that neither
explains is left out, with its figures.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from statistics import fmean

from loopwright.calibrating import fit
from loopwright.calibrating.core_files import Between
from loopwright.calibrating.core_model import CoreModel, Serialising, assumed, fitted
from loopwright.calibrating.fit import Hypothesis
from loopwright.calibrating.ports import Doubt, Uops
from loopwright.code import binding
from loopwright.microbench.forms import BASE, DISPLACEMENT, Form, Kit
from loopwright.microbench.laboratory import Figure, Laboratory

ALONE = "alone"
_COPIES = (2, 4)  # few, as a trial of 80 slow copies would take too long
_NOPS = (12, 48)
_CHAINS = (12, 36)
_LOADS = 6
_LEAST = 4  # kernels of an instruction that need a figure
_GUEST = "hypervisor"  # what /proc/cpuinfo lists in a guest


def measure_serialising(laboratory: Laboratory, forms: Mapping[str, Form]) -> Serialising:
    """Measure all serialising instructions of user mode."""
    kit, features = laboratory.kit, laboratory.machine.features
    left_out = dict.fromkeys(kit.PRIVILEGED, "privileged: user mode cannot execute it")
    measurable = []
    for name, instruction in kit.SERIAL.items():
        if instruction.needs and instruction.needs not in features:
            continue
        if instruction.traps and _GUEST in features:
            left_out[name] = "a hypervisor answers it in the place of this guest's CPU"
        else:
            measurable.append(name)
    figures_by_name = {}
    for name in measurable:
        kernels = kernels_of(kit, name, forms.get(kit.LOAD))
        timed = dict(zip(kernels, slopes(laboratory, list(kernels.values())), strict=True))
        figures = {label: figure for label, figure in timed.items() if figure}
        if len(figures) < min(_LEAST, len(timed)):
            left_out[name] = next(figure.refused for figure in timed.values() if not figure)
        else:
            figures_by_name[name] = figures
    return Serialising(figures_by_name, left_out)


def kernels_of(kit: Kit, name: str, load: Form | None) -> dict[str, bytes]:
    """Return kernels of a copy and its neighbouring code, by the kind of that code."""
    instruction = kit.SERIAL[name]
    code = instruction.before + instruction.code
    kernels = {ALONE: code}
    for number in _NOPS:
        kernels[f"beside {number} nops"] = code + kit.nop() * number
    register = kit.POOLS["gpr"].own[0]
    link = kit.transfer("gpr", "gpr", register, register)
    for number in _CHAINS:
        kernels[f"beside a chain of {number} moves"] = code + link * number
    if load:
        (result,) = (operand for operand in load.chosen if operand.written)
        base = kit.POOLS["gpr"].constant[0]
        loads = [
            load.encode({result.label: number, BASE: base, DISPLACEMENT: 64 * line})
            for line, number in enumerate(kit.POOLS["gpr"].others[:_LOADS])
        ]
        kernels[f"beside {len(loads)} loads"] = code + b"".join(loads)
    return kernels


def _alone(figures: Mapping[str, Figure]) -> float:
    """Return the cycles of a copy alone, or else those beside the cheapest neighbours."""
    least = min(figures.values(), key=lambda figure: figure.cycles)
    return figures.get(ALONE, least).cycles


def slopes(laboratory: Laboratory, kernels: Sequence[bytes]) -> list[Figure]:
    """Return the cycles of a copy in each kernel, by the slope between loops of few and many."""
    few, many = _COPIES
    timed = laboratory.iterations([kernel * times for kernel in kernels for times in _COPIES])
    out = []
    for short, long in zip(timed[::2], timed[1::2], strict=True):
        refused = short.refused or long.refused
        error = (short.uncertainty**2 + long.uncertainty**2) ** 0.5 / (many - few)
        out.append(Figure((long.cycles - short.cycles) / (many - few), error, refused))
    return out


_WORST = 0.15  # relative error of one kernel of an explained instruction, at most
_PARAMETER = "serial.{}"  # the cycles of an instruction that drains the simulated pipeline
_BELOW, _ABOVE = 40, 3  # cycles around those of a copy alone that are tried
_MOST_SLOTS = 255  # slots that the simulator takes, at most


def fit_serialising(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with the serialising instructions that the simulator explains."""
    special = learned.special
    if special is None:
        return learned
    named = {form.name: form for form in forms}
    left_out = dict(special.left)
    for name, figures in special.serialising.figures.items():
        kernels = kernels_of(laboratory.kit, name, named.get(laboratory.kit.LOAD))
        codes = [kernels[label] for label in figures]
        if _PARAMETER.format(name) in binding.parameters():
            result = _with_drain(laboratory, learned, name, codes, figures)
        else:
            result = _with_uops(laboratory, learned, name, codes, figures)
        if isinstance(result, str):
            left_out[name] = result
        else:
            learned = result
    return replace(learned, special=replace(special, left=left_out))


def _with_drain(
    laboratory: Laboratory,
    learned: CoreModel,
    name: str,
    codes: Sequence[bytes],
    figures: Mapping[str, Figure],
) -> CoreModel | str:
    """Return the learned core with the cycles of an instruction that drains, or a refusal.

    Where no single number of cycles explains all kernels, the numbers that explain each kernel best
    are its range.
    """
    instruction, parameter = laboratory.kit.SERIAL[name], _PARAMETER.format(name)
    alone = ceil(_alone(figures) / instruction.times)
    cycles = range(max(0 if instruction.free else 1, alone - _BELOW), alone + _ABOVE)
    overlap = f"{parameter}_overlap"
    plain = [Hypothesis(learned, {parameter: n}) for n in cycles]
    best_fit = _fit(laboratory, codes, figures, plain)
    plain_errors = best_fit.errors
    if overlap in binding.parameters():
        drain = best_fit.hypothesis.rules
        overlaps = range(1, cycles[best_fit.best])
        hypotheses = [*plain, *(Hypothesis(learned, {**drain, overlap: n}) for n in overlaps)]
        best_fit = _fit(laboratory, codes, figures, hypotheses)
    errors = best_fit.errors[best_fit.best]
    if min(errors) >= 1.0:
        return _unexplained(figures, "", errors)
    rules = dict(best_fit.hypothesis.rules)
    if _explains(errors):
        why = f"{len(codes)} kernels, alone and beside others, {best_fit.error_note}"
        return fit.with_rules(learned, rules, fitted(why))
    value = int(str(rules[parameter]))
    best_of_each = [
        min(range(len(cycles)), key=lambda n: (plain_errors[n][kernel], abs(cycles[n] - value)))
        for kernel, error in enumerate(errors)
        if error < 1.0
    ]
    ends = sorted({value, *(cycles[n] for n in best_of_each)})
    # A range has two ends, and the simulator counts whole cycles.
    most = max(ends[-1], ends[0] + 1)
    rules[parameter] = Between(value, ends[0], most, "what each of the kernels asks for")
    doubt = _unexplained(figures, "waits otherwise than the simulator has it", errors)
    return fit.with_rules(learned, rules, assumed(doubt))


def _fit(
    laboratory: Laboratory,
    codes: Sequence[bytes],
    figures: Mapping[str, Figure],
    hypotheses: Sequence[Hypothesis],
) -> fit.Fit:
    """Fit hypotheses to the kernels of an instruction, which were timed."""
    measured = list(figures.values())
    best_fit = fit.fit(laboratory, codes, lambda core: slopes(core, codes), hypotheses, measured)
    assert best_fit is not None, "all of these were timed"
    return best_fit


def _with_uops(
    laboratory: Laboratory,
    learned: CoreModel,
    name: str,
    codes: Sequence[bytes],
    figures: Mapping[str, Figure],
) -> CoreModel | str:
    """Return the learned core with the uops of an instruction in the table, or a refusal.

    Where no uops explain all kernels, the range is the whole set of candidates, the most expensive
    one slowed to the slowest kernel.
    """
    (names,) = binding.forms(laboratory.isa, [laboratory.kit.SERIAL[name].code])
    if not names:
        return "the simulator has no form for it"
    form = names[0]
    latencies = {**learned.latencies, form: ()}
    hypotheses = [
        Hypothesis(replace(learned, uops={**learned.uops, form: uops}, latencies=latencies))
        for uops in _uops(learned, _alone(figures))
    ]
    best_fit = _fit(laboratory, codes, figures, hypotheses)
    errors, best = best_fit.errors[best_fit.best], best_fit.hypothesis.learned
    if min(errors) >= 1.0:
        return _unexplained(figures, "", errors)
    if _explains(errors):
        return best
    why = assumed(_unexplained(figures, "neither its slots nor a unit explain it", errors))
    candidates = [hypothesis.learned.uops[form] for hypothesis in hypotheses]
    least = min(candidates, key=lambda uops: (uops.busy, uops.slots))
    most = max(candidates, key=lambda uops: (uops.busy, uops.slots))
    chosen = replace(best.uops[form], why=why)
    doubt = Doubt(least, _slowest(most, figures), why)
    return replace(best, uops={**best.uops, form: chosen}, doubts={**best.doubts, form: doubt})


def _slowest(uops: Uops, figures: Mapping[str, Figure]) -> Uops:
    """Return uops with a unit as busy as the slowest kernel of a copy asks for."""
    slowest = max(figure.cycles for figure in figures.values())
    return replace(uops, busy=max(uops.busy, ceil(slowest)))


def _uops(learned: CoreModel, cycles: float) -> Iterator[Uops]:
    """Yield uops with which a copy takes so long: by dispatch slots, or by a busy unit."""
    core = learned.core
    busy = round(cycles)
    slots_at_width = min(busy * core.width, _MOST_SLOTS)
    why = "what it takes beside nops, loads and a chain"
    # A busy single port acts as a unit; several ports take turns.
    single_port = frozenset([max(core.all_arithmetic)])
    for ports in dict.fromkeys(
        (single_port, core.all_arithmetic, core.class_ports(core.store) or core.all_arithmetic)
    ):
        for slots in sorted({1, 2, max(slots_at_width, 1)}):
            yield Uops(slots, (ports,), busy if busy > 1 else 0, why)


def _explains(errors: Sequence[float]) -> bool:
    """True if kernels are explained on average, and none of them badly."""
    return fmean(errors) <= fit.EXPLAINED and max(errors) <= _WORST


def _unexplained(figures: Mapping[str, Figure], why: str, errors: Sequence[float]) -> str:
    """Return in words that nothing explains the kernels, with why and their cycles."""
    if min(errors) >= 1.0:
        return "the learned core has no figures for the code beside it"
    timing = ", ".join(f"{label} {figure.cycles:.1f}" for label, figure in figures.items())
    return f"{why}: {100 * max(errors):.0f} % off at best; cycles {timing}"
