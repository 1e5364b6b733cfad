"""Rules for loads and stores that cross boundaries or meet: those that explain kernels best.

Asked: what experiments.meetings asks, and whether another change of the stack pointer costs pops
and pushes beside it a uop. Answer: of each kind of kernels the rule of the simulator
with which what was learned predicts them with the least error, the plainest of those as good; what
no rule explains stays an assumption.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from loopwright.calibrating import parameters, write
from loopwright.calibrating.experiments import meetings
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.learn import Learned
from loopwright.calibrating.machines.machine import COUNTER, Machine
from loopwright.calibrating.ports import stack
from loopwright.code import binding
from loopwright.measuring.blocks import trips

Rule = Mapping[str, object]

_AS_GOOD = 0.002  # of the mean error: what noise makes of it
_MOST = 0.15  # mean error of what explains kernels
_LONGER = range(1, 9)  # cycles that an access across a boundary keeps its port for
_LEAST = 2  # cycles that the simulator takes of a forwarded value
_SOONER = range(4)  # cycles of a failed forward that are of the store's own way into the cache


def choose(laboratory: Laboratory, learned: Learned, forms: Sequence[Form]) -> Learned:
    """Return what was learned with the rules of memory; the same where no form accesses it."""
    kit = laboratory.kit
    named = {form.name: form for form in forms if _known(learned, form)}
    if kit.LOAD not in named or kit.STORE not in named:
        return learned
    load, store = named[kit.LOAD], named[kit.STORE]
    if all((uops := learned.uops.get(name)) and uops.ports for name in (kit.PUSH, kit.POP)):
        rules: list[Rule] = [{}, {"rename.stack_sync": True}]
        learned = _explained(laboratory, learned, stack.moved(kit), rules)
    learned = _explained(laboratory, learned, meetings.loads(load), list(_crossing("load")))
    stored = sorted(_stored(), key=len)
    learned = _explained(laboratory, learned, meetings.stores(store), stored)
    learned = _forwarded(laboratory, learned, meetings.vectors(named))
    some = meetings.parts(named)
    found = dict(zip(some, laboratory.time(list(some.values())), strict=True))
    if not some or not all(found.values()):
        return learned
    return _explained(laboratory, learned, some, list(_met(found)))


def _forwarded(
    laboratory: Laboratory, learned: Learned, kernels: Mapping[str, list[bytes]]
) -> Learned:
    """Return what was learned with the cycles of vectors, less those that uops compute for."""
    figures = laboratory.time(list(kernels.values()))
    if not kernels or not all(figures) or figures[0].cycles < _LEAST:
        return learned
    most = round(figures[0].cycles)
    name = "memory.forward_vector_cycles"
    rules: list[Rule] = [{name: most - n} for n in _SOONER if most - n >= _LEAST]
    return _explained(laboratory, learned, kernels, rules)


def _known(learned: Learned, form: Form) -> bool:
    uops = learned.uops.get(form.name)
    return uops is not None and uops.ports is not None


def _crossing(what: str) -> Iterator[Rule]:
    """Yield what accesses across a boundary may cost, nothing first."""
    yield {}
    for boundary, cycles in product(reversed(meetings.BOUNDARIES), _LONGER):
        yield {f"memory.split_{what}_bytes": boundary, f"memory.split_{what}_cycles": cycles}


def _stored() -> Iterator[Rule]:
    """Yield what stores across a boundary may cost, and which are written together."""
    written: list[Rule] = [{}]
    for boundary, middle in product(reversed(meetings.BOUNDARIES), (False, True)):
        written.append({"memory.commit_bytes": boundary, "memory.commit_middle": middle})
    for together in written:
        for rule in _crossing("store"):
            yield {**together, **rule}


def _met(found: Mapping[str, Figure]) -> Iterator[Rule]:
    """Yield what loads may take of a part of a store, or of more than one has."""
    upper, more = (found[name] for name in (meetings.UPPER, meetings.MORE))
    later = [0, *(n for n in [round(upper.cycles)] if n >= _LEAST)]
    failed = [0, *(n for n in (round(more.cycles) - s for s in _SOONER) if n >= _LEAST)]
    for parts, part, fail, waits in product((False, True), later, failed, (False, True)):
        if waits and not fail:
            continue
        rule = {"memory.forward_parts": parts, "memory.forward_part_cycles": part}
        rule |= {"memory.failed_forward_cycles": fail, "memory.failed_forward_waits": waits}
        yield {name: value for name, value in rule.items() if value}


def _explained(
    laboratory: Laboratory,
    learned: Learned,
    kernels: Mapping[str, list[bytes]],
    rules: Sequence[Rule],
) -> Learned:
    """Return what was learned with the rule that explains kernels, where one does."""
    figures = laboratory.time(list(kernels.values()))
    timed = dict(learned.figures) | dict(zip(kernels, figures, strict=True))
    learned = replace(learned, figures=timed)
    if not all(figures):
        return learned
    machine = laboratory.machine
    errors = [_error(learned, machine, rule, list(kernels.values()), figures) for rule in rules]
    least = min(errors)
    best = next(n for n, error in enumerate(errors) if error <= least + _AS_GOOD)
    if not least <= _MOST:
        return learned
    said = f"{len(kernels)} kernels of {next(iter(kernels))} and alike, mean error "
    said += f"{100 * errors[best]:.1f} %, {100 * errors[0]:.1f} % without"
    return _with(learned, rules[best], parameters.fitted(said))


def _with(learned: Learned, rule: Rule, said: str) -> Learned:
    return replace(learned, rules=dict(learned.rules) | {n: (v, said) for n, v in rule.items()})


def _error(
    learned: Learned,
    machine: Machine,
    rule: Rule,
    kernels: Sequence[Sequence[bytes]],
    figures: Sequence[Figure],
) -> float:
    """Return the mean relative error of kernels with a rule, on a core of their forms alone."""
    closing = trips.closing(machine.isa, COUNTER[machine.isa], 0)
    some = {name for kernel in [[closing], *kernels] for name in _forms(machine.isa, kernel)}
    uops = {name: one for name, one in learned.uops.items() if name in some}
    tried = _with(replace(learned, uops=uops), rule, "tried")
    said = write.laboratory(tried, machine).time(kernels)
    return fmean(
        min(abs(a.cycles - b.cycles) / b.cycles, 1.0) if a else 1.0
        for a, b in zip(said, figures, strict=True)
    )


def _forms(isa: str, kernel: Sequence[bytes]) -> Iterator[str]:
    for names in binding.forms(isa, kernel):
        yield from names or ()
