"""Serialising instructions: microbenchmarks and fit.

Copies of an instruction run alone, among nops, among loads, and among chains of moves. The slope
between loops of two and of four copies leaves the loop out. What overlaps a chain adds nothing to
it; what waits for it takes the sum.

The fit of an instruction for which the simulator drains the pipeline is the cycles after the drain.
Of any other it is dispatch slots and cycles of a unit. An instruction that neither explains is left
out, with its figures.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from statistics import fmean

from loopwright.calibrating import fit
from loopwright.calibrating.core_files import Between
from loopwright.calibrating.core_model import CoreModel, Serialising
from loopwright.calibrating.evidence import assumed, fitted
from loopwright.calibrating.fit import Hypothesis
from loopwright.calibrating.ports import Doubt, Uops
from loopwright.code import binding
from loopwright.microbench.forms import Form, Kit
from loopwright.microbench.laboratory import Figure, Laboratory

ALONE = "alone"
_COPIES = (2, 4)  # few: a slow one of 80 takes longer than a trial may
_NOPS = (12, 48)
_CHAINS = (12, 36)
_LOADS = 6
_TOLD = 4  # kernels of an instruction that have to have a figure
_GUEST = "hypervisor"  # what /proc/cpuinfo says of a guest


def measure_serialising(laboratory: Laboratory, forms: Mapping[str, Form]) -> Serialising:
    """Return what is known of all of them that user mode has."""
    kit, features = laboratory.kit, laboratory.machine.features
    left = dict.fromkeys(kit.PRIVILEGED, "privileged: user mode cannot execute it")
    chosen = []
    for name, one in kit.SERIAL.items():
        if one.needs and one.needs not in features:
            continue
        if one.traps and _GUEST in features:
            left[name] = "a hypervisor answers it in the place of this guest's CPU"
        else:
            chosen.append(name)
    found = {}
    for name in chosen:
        kernels = asked(kit, name, forms.get(kit.LOAD))
        timed = dict(zip(kernels, slopes(laboratory, list(kernels.values())), strict=True))
        figures = {said: figure for said, figure in timed.items() if figure}
        if len(figures) < min(_TOLD, len(timed)):
            left[name] = next(figure.refused for figure in timed.values() if not figure)
        else:
            found[name] = figures
    return Serialising(found, left)


def asked(kit: Kit, name: str, load: Form | None) -> dict[str, bytes]:
    """Return a copy and the code beside it, by the kind of that code."""
    one = kit.SERIAL[name]
    code = one.before + one.code
    out = {ALONE: code}
    for number in _NOPS:
        out[f"beside {number} nops"] = code + kit.nop() * number
    register = kit.POOLS["gpr"].own[0]
    link = kit.carry("gpr", "gpr", register, register)
    for number in _CHAINS:
        out[f"beside a chain of {number} moves"] = code + link * number
    if load:
        (result,) = (operand for operand in load.chosen if operand.written)
        base = kit.POOLS["gpr"].constant[0]
        loads = [
            load.encode({result.label: number, "a": base, "disp": 64 * place})
            for place, number in enumerate(kit.POOLS["gpr"].others[:_LOADS])
        ]
        out[f"beside {len(loads)} loads"] = code + b"".join(loads)
    return out


def _alone(figures: Mapping[str, Figure]) -> float:
    """Return the cycles of a copy alone; without them those beside the least."""
    least = min(figures.values(), key=lambda one: one.cycles)
    return figures.get(ALONE, least).cycles


def slopes(laboratory: Laboratory, kernels: Sequence[bytes]) -> list[Figure]:
    """Return the cycles of a copy of each kernel."""
    few, many = _COPIES
    timed = laboratory.turns([kernel * times for kernel in kernels for times in _COPIES])
    out = []
    for short, long in zip(timed[::2], timed[1::2], strict=True):
        refused = short.refused or long.refused
        error = (short.uncertainty**2 + long.uncertainty**2) ** 0.5 / (many - few)
        out.append(Figure((long.cycles - short.cycles) / (many - few), error, refused))
    return out


_WORST = 0.15  # relative error of a kernel of an instruction that is explained
_LESS, _MORE = 40, 3  # cycles around those of a copy alone that are tried
_MOST_PLACES = 255  # that the simulator takes


def fit_serialising(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return what was learned with what serialises, as far as the simulator explains it."""
    special = learned.special
    if special is None:
        return learned
    named = {form.name: form for form in forms}
    left = dict(special.left)
    for name, figures in special.serialising.figures.items():
        kernels = asked(laboratory.kit, name, named.get(laboratory.kit.LOAD))
        codes = [kernels[said] for said in figures]
        parameter = f"serial.{name}"
        if parameter in binding.parameters():
            found = _waiting(laboratory, learned, parameter, codes, figures)
        else:
            found = _row(laboratory, learned, name, codes, figures)
        if isinstance(found, str):
            left[name] = found
        else:
            learned = found
    return replace(learned, special=replace(special, left=left))


def _waiting(
    laboratory: Laboratory,
    learned: CoreModel,
    parameter: str,
    codes: Sequence[bytes],
    figures: Mapping[str, Figure],
) -> CoreModel | str:
    """Return what was learned with the cycles of what waits for all before it, or why without.

    Where one number of cycles does not explain all kernels, those that explain each of them best
    are its range.
    """
    alone = ceil(_alone(figures))
    cycles = range(max(1, alone - _LESS), alone + _MORE)
    overlap = f"{parameter}_overlap"
    plain = [Hypothesis(learned, {parameter: n}) for n in cycles]
    found = _fitted(laboratory, codes, figures, plain)
    off = found.errors
    if overlap in binding.parameters():
        near = found.hypothesis.rules
        more = [{**near, overlap: n} for n in range(1, cycles[found.best])]
        tried = [*plain, *(Hypothesis(learned, one) for one in more)]
        found = _fitted(laboratory, codes, figures, tried)
    errors = found.errors[found.best]
    if min(errors) >= 1.0:
        return _unlike(figures, "", errors)
    rules = dict(found.hypothesis.rules)
    if _explains(errors):
        said = (
            f"{len(codes)} kernels, alone and beside others, mean error {100 * found.error:.1f} %"
        )
        return fit.with_rules(learned, rules, fitted(said))
    value = int(str(rules[parameter]))
    each = [
        min(range(len(cycles)), key=lambda n: (off[n][kernel], abs(cycles[n] - value)))
        for kernel, error in enumerate(errors)
        if error < 1.0
    ]
    ends = sorted({value, *(cycles[n] for n in each)})
    rules[parameter] = Between(value, ends[0], ends[-1], "what each of the kernels asks for")
    doubt = _unlike(figures, "waits otherwise than the simulator has it", errors)
    return fit.with_rules(learned, rules, assumed(doubt))


def _fitted(
    laboratory: Laboratory,
    codes: Sequence[bytes],
    figures: Mapping[str, Figure],
    tried: Sequence[Hypothesis],
) -> fit.Fit:
    took = list(figures.values())
    found = fit.fit(laboratory, codes, lambda core: slopes(core, codes), tried, took)
    assert found is not None, "all of these were timed"
    return found


def _row(
    laboratory: Laboratory,
    learned: CoreModel,
    name: str,
    codes: Sequence[bytes],
    figures: Mapping[str, Figure],
) -> CoreModel | str:
    """Return what was learned with the uops of what the table has, or why without.

    Where no uops explain all kernels, the range is from the dearest that exceed none of them to the
    cheapest that undercut none.
    """
    (forms,) = binding.forms(laboratory.isa, [laboratory.kit.SERIAL[name].code])
    if not forms:
        return "the simulator has no form for it"
    form = forms[0]
    tried = [
        Hypothesis(
            replace(
                learned,
                uops={**learned.uops, form: uops},
                latencies={**learned.latencies, form: ()},
            )
        )
        for uops in _uops(learned, _alone(figures))
    ]
    found = _fitted(laboratory, codes, figures, tried)
    errors, best = found.errors[found.best], found.hypothesis.learned
    if min(errors) >= 1.0:
        return _unlike(figures, "", errors)
    if _explains(errors):
        return best
    why = assumed(_unlike(figures, "neither its places nor a unit explain it", errors))
    every = [one.learned.uops[form] for one in tried]
    least = min(every, key=lambda one: (one.busy, one.slots))
    most = max(every, key=lambda one: (one.busy, one.slots))
    chosen = replace(best.uops[form], why=why)
    doubt = Doubt(least, _slower(most, figures), why)
    return replace(best, uops={**best.uops, form: chosen}, doubts={**best.doubts, form: doubt})


def _slower(uops: Uops, figures: Mapping[str, Figure]) -> Uops:
    """Return uops with a unit as busy as the dearest code beside a copy asks for."""
    first = next(iter(figures.values())).cycles
    more = max(one.cycles - first for one in figures.values())
    return replace(uops, busy=max(uops.busy, ceil(first + more)))


def _uops(learned: CoreModel, alone: float) -> Iterator[Uops]:
    """Yield what may make a copy take so long: dispatch, or a unit of its own beside a port."""
    core = learned.core
    busy = round(alone)
    sent = min(busy * core.width, _MOST_PLACES)
    why = "what it takes beside nops, loads and a chain"
    # One port is busy as a unit is; several take turns.
    one = frozenset([max(core.all_arithmetic)])
    for ports in dict.fromkeys(
        (one, core.all_arithmetic, core.class_ports(core.store) or core.all_arithmetic)
    ):
        for slots in sorted({1, 2, max(sent, 1)}):
            yield Uops(slots, (ports,), busy if busy > 1 else 0, why)


def _explains(errors: Sequence[float]) -> bool:
    return fmean(errors) <= fit.EXPLAINED and max(errors) <= _WORST


def _unlike(figures: Mapping[str, Figure], why: str, errors: Sequence[float]) -> str:
    if min(errors) >= 1.0:
        return "the learned core has no figures for the code beside it"
    took = ", ".join(f"{said} {one.cycles:.1f}" for said, one in figures.items())
    return f"{why}: {100 * max(errors):.0f} % off at best; cycles {took}"
