"""Memory rules: splits, store commit, forwarding and stack synchronisation.

Microbenchmarks: accesses across 16, 32 and 64 bytes, stores side by side and apart, loads of a part
of a store or of more, pops and pushes around a change of the stack pointer. Of the simulator's
rules for each kind, the plainest with the least error is taken. It is an assumption where another
rule as plain explains as much, or where much of the error is left.

A cache that merges bytes and words slowly makes blocking instructions show uops that do not exist.
The uops of narrow stores are those of their wide relatives there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from loopwright.calibrating import fit, port_usage
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.fit import Hypothesis, Rules
from loopwright.microbench import memory_timing
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Figure, Laboratory

_LEFT = 0.8  # of the error without a rule that one leaves that is taken although it explains little
_LONGER = range(1, 9)  # cycles that an access across a boundary keeps its port for
_NARROW = range(2, 13)  # cycles after which a byte may be stored beside another
_LEAST = 2  # cycles that the simulator takes of a forwarded value
_SOONER = range(4)  # cycles of a failed forward that are of the store's own way into the cache


def choose_memory_rules(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return what was learned with the rules of memory; the same where no form accesses it."""
    kit = laboratory.kit
    named = {form.name: form for form in forms if learned.has_ports(form.name)}
    if kit.LOAD not in named or kit.STORE not in named:
        return learned
    load, store = named[kit.LOAD], named[kit.STORE]
    if learned.has_ports(kit.PUSH) and learned.has_ports(kit.POP):
        synced: list[Rules] = [{}, {"rename.stack_sync": True}]
        learned = _explained(laboratory, learned, port_usage.stack_moves(kit), synced)
    learned = _explained(
        laboratory, learned, memory_timing.split_loads(load), list(_crossing("load"))
    )
    stored = sorted(_stored(), key=len)
    learned = _explained(laboratory, learned, memory_timing.adjacent_stores(store), stored)
    narrow = named.get(kit.FORWARDS["8 bits"][0])
    if narrow and "memory.commit_bytes" in learned.rules:
        rules: list[Rules] = [{}, *({"memory.commit_narrow_cycles": n} for n in _NARROW)]
        learned = _explained(laboratory, learned, memory_timing.narrow_stores(narrow), rules)
    learned = _forwarded(laboratory, learned, memory_timing.vector_forwards(kit, named))
    some = memory_timing.partial_forwards(kit, named)
    found = dict(zip(some, laboratory.time(list(some.values())), strict=True))
    if not some or not all(found.values()):
        return learned
    return _explained(laboratory, learned, some, list(_met(found)))


def _forwarded(
    laboratory: Laboratory, learned: CoreModel, kernels: Mapping[str, list[bytes]]
) -> CoreModel:
    """Return what was learned with the cycles of vectors, less those that uops compute for."""
    figures = laboratory.time(list(kernels.values()))
    if not kernels or not all(figures) or figures[0].cycles < _LEAST:
        return learned
    most = round(figures[0].cycles)
    name = "memory.forward_vector_cycles"
    rules: list[Rules] = [{name: most - n} for n in _SOONER if most - n >= _LEAST]
    return _explained(laboratory, learned, kernels, rules)


def _crossing(what: str) -> Iterator[Rules]:
    """Yield what accesses across a boundary may cost, nothing first."""
    yield {}
    for boundary, cycles in product(reversed(memory_timing.BOUNDARIES), _LONGER):
        rule = {f"memory.split_{what}_bytes": boundary, f"memory.split_{what}_cycles": cycles}
        yield rule
        if what == "load":
            yield {**rule, "ports.load_turns": True}


def _stored() -> Iterator[Rules]:
    """Yield what stores across a boundary may cost, and which are written together."""
    written: list[Rules] = [{}]
    for boundary, middle in product(reversed(memory_timing.BOUNDARIES), (False, True)):
        one = {"memory.commit_bytes": boundary, "memory.commit_middle": middle}
        written += [one, {**one, "memory.commit_parts": True}]
    for together in written:
        for rule in _crossing("store"):
            yield {**together, **rule}


def _met(found: Mapping[str, Figure]) -> Iterator[Rules]:
    """Yield what loads may take of a part of a store, or of more than one has."""
    upper, more = (found[name] for name in (memory_timing.UPPER, memory_timing.MORE))
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
    learned: CoreModel,
    kernels: Mapping[str, list[bytes]],
    rules: Sequence[Rules],
) -> CoreModel:
    """Return what was learned with the rule that explains kernels, where one does."""
    codes = list(kernels.values())
    figures = laboratory.time(codes)
    timed = dict(learned.figures) | dict(zip(kernels, figures, strict=True))
    learned = replace(learned, figures=timed)
    if not all(figures):
        return learned
    parts = [part for one in codes for part in one]
    tried = [Hypothesis(learned, rule) for rule in rules]
    found = fit.fit(laboratory, parts, lambda core: core.time(codes), tried, figures)
    if found is None:
        return learned
    without = found.error_of(0)
    if not found.explained and found.error >= _LEFT * without:
        return learned
    said = f"{len(kernels)} kernels of {next(iter(kernels))} and alike, mean error "
    said += f"{100 * found.error:.1f} %, {100 * without:.1f} % without"
    return fit.settled(learned, found, said)


_NARROW_OPERANDS = r"(?<=[mr])(?:8|16)\b"  # of memory and registers, in the name of a form
_NARROW_CONSTANTS = r"(?<=[mri])(?:8|16)\b"  # of constants, too
_WIDE_BITS = "32", "64"


def merged_store_uops(learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return what was learned with the uops of narrow stores as their wide relatives have them."""
    cycles, _ = learned.rules.get("memory.commit_narrow_cycles", (0, ""))
    if not cycles:
        return learned
    known = dict(learned.uops)
    for form in forms:
        if form.memory is None or not form.memory.narrow or form.name not in known:
            continue
        for name in wide_forms(form.name):
            other = learned.uops.get(name)
            if other is not None and other.ports is not None:
                known[form.name] = replace(other, why=f"as {name}; {other.why}")
                break
    return replace(learned, uops=known)


def wide_forms(name: str) -> Iterator[str]:
    """Yield the names that a form has whose memory is wider."""
    for narrow in (_NARROW_OPERANDS, _NARROW_CONSTANTS):
        for bits in _WIDE_BITS:
            yield re.sub(narrow, bits, name)
