"""Memory rules: splits, store commit, store-to-load forwarding and stack synchronisation.

Microbenchmarks: accesses across 16, 32 and 64 bytes, stores side by side and apart, loads of a part
of a store or of more than one, pops and pushes around a change of the stack pointer. Of the
simulator's rules for each kind, the plainest one with the least error is taken. It is an assumption
where another rule as plain explains as much, or where much of the error is left.

Where the cache merges stores of bytes and words slowly, blocking instructions show uops that do not
exist. Narrow stores then have the uops of their wide relatives.
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

_LEFT = 0.8  # share of the error without a rule, up to which a rule is taken that explains little
_LONGER = range(1, 9)  # cycles for which a split access keeps its port
_NARROW = range(2, 13)  # cycles before a byte can be stored next to another one
_LEAST = 2  # the fewest cycles that the simulator takes for a forwarded value
_SOONER = range(4)  # cycles of a failed forward that belong to the store's commit


def choose_memory_rules(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with memory rules; unchanged without forms that access memory."""
    kit = laboratory.kit
    named = {form.name: form for form in forms if learned.has_ports(form.name)}
    if kit.LOAD not in named or kit.STORE not in named:
        return learned
    load, store = named[kit.LOAD], named[kit.STORE]
    if learned.has_ports(kit.PUSH) and learned.has_ports(kit.POP):
        sync_rules: list[Rules] = [{}, {"rename.stack_sync": True}]
        learned = _with_best_rule(laboratory, learned, port_usage.stack_moves(kit), sync_rules)
    learned = _with_best_rule(
        laboratory, learned, memory_timing.split_loads(load), list(_splits("load"))
    )
    commit_rules = sorted(_commits(), key=len)
    learned = _with_best_rule(
        laboratory, learned, memory_timing.adjacent_stores(store), commit_rules
    )
    narrow = named.get(kit.FORWARDS["8 bits"][0])
    if narrow and "memory.commit_bytes" in learned.rules:
        rules: list[Rules] = [{}, *({"memory.commit_narrow_cycles": n} for n in _NARROW)]
        learned = _with_best_rule(laboratory, learned, memory_timing.narrow_stores(narrow), rules)
    learned = _with_vector_forwarding(
        laboratory, learned, memory_timing.vector_forwards(kit, named)
    )
    partial = memory_timing.partial_forwards(kit, named)
    figures = dict(zip(partial, laboratory.time(list(partial.values())), strict=True))
    if not partial or not all(figures.values()):
        return learned
    return _with_best_rule(laboratory, learned, partial, list(_partial_forwards(figures)))


def _with_vector_forwarding(
    laboratory: Laboratory, learned: CoreModel, kernels: Mapping[str, list[bytes]]
) -> CoreModel:
    """Return the learned core with the latency of forwarded vectors, less that of other uops."""
    figures = laboratory.time(list(kernels.values()))
    if not kernels or not all(figures) or figures[0].cycles < _LEAST:
        return learned
    most = round(figures[0].cycles)
    name = "memory.forward_vector_cycles"
    rules: list[Rules] = [{name: most - n} for n in _SOONER if most - n >= _LEAST]
    return _with_best_rule(laboratory, learned, kernels, rules)


def _splits(kind: str) -> Iterator[Rules]:
    """Yield the possible costs of accesses across a boundary, none first."""
    yield {}
    for boundary, cycles in product(reversed(memory_timing.BOUNDARIES), _LONGER):
        split = {f"memory.split_{kind}_bytes": boundary, f"memory.split_{kind}_cycles": cycles}
        yield split
        if kind == "load":
            yield {**split, "ports.load_turns": True}


def _commits() -> Iterator[Rules]:
    """Yield the possible costs of stores across a boundary, and which stores commit together."""
    commits: list[Rules] = [{}]
    for boundary, middle in product(reversed(memory_timing.BOUNDARIES), (False, True)):
        commit = {"memory.commit_bytes": boundary, "memory.commit_middle": middle}
        commits += [commit, {**commit, "memory.commit_parts": True}]
    yield from ({**commit, **split} for commit, split in product(commits, _splits("store")))


def _partial_forwards(figures: Mapping[str, Figure]) -> Iterator[Rules]:
    """Yield the possible costs of loads of a part of a store, or of more than one has."""
    upper, wider = (figures[name] for name in (memory_timing.UPPER, memory_timing.MORE))
    halves = figures[memory_timing.HALVES]
    part_cycles = [0, *(n for n in [round(upper.cycles)] if n >= _LEAST)]
    failed_cycles = [0, *(n for n in (round(wider.cycles) - s for s in _SOONER) if n >= _LEAST)]
    wait_cycles = [0, *(n for n in (round(halves.cycles) - s for s in _SOONER) if n >= _LEAST)]
    plain = [
        {"memory.forward_parts": parts, "memory.forward_part_cycles": part}
        | {"memory.failed_forward_cycles": failed, "memory.failed_forward_waits": waits}
        for parts, part, failed, waits in product(
            (False, True), part_cycles, failed_cycles, (False, True)
        )
        if failed or not waits
    ]
    waiting = [
        {**rule, "memory.merges_lower": merges, "memory.failed_forward_wait_cycles": wait}
        for rule in plain
        for merges, wait in product((False, True), wait_cycles)
        if rule["memory.failed_forward_waits"] and (merges or wait)
    ]
    for rule in (*plain, *waiting):
        yield {name: value for name, value in rule.items() if value}


def _with_best_rule(
    laboratory: Laboratory,
    learned: CoreModel,
    kernels: Mapping[str, list[bytes]],
    rules: Sequence[Rules],
) -> CoreModel:
    """Return the learned core with the rule that explains these kernels, if one does."""
    codes = list(kernels.values())
    figures = laboratory.time(codes)
    timed = dict(zip(kernels, figures, strict=True))
    learned = replace(learned, figures={**learned.figures, **timed})
    if 2 * sum(map(bool, figures)) <= len(figures):
        return learned
    parts = [part for kernel in codes for part in kernel]
    hypotheses = [Hypothesis(learned, rule) for rule in rules]
    best_fit = fit.fit(laboratory, parts, lambda core: core.time(codes), hypotheses, figures)
    if best_fit is None:
        return learned
    if not best_fit.explained and best_fit.error >= _LEFT * best_fit.error_of(0):
        return learned
    basis = f"{len(kernels)} kernels of {next(iter(kernels))} and alike, {best_fit.gain_note}"
    return fit.with_chosen_rules(learned, best_fit, basis)


_NARROW_OPERANDS = r"(?<=[mr])(?:8|16)\b"  # widths of memory and registers in the name of a form
_NARROW_CONSTANTS = r"(?<=[mri])(?:8|16)\b"  # widths of constants as well
_WIDE_BITS = "32", "64"


def merged_store_uops(learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with narrow stores that have the uops of their wide relatives."""
    cycles, _ = learned.rules.get("memory.commit_narrow_cycles", (0, ""))
    if not cycles:
        return learned
    uops = dict(learned.uops)
    for form in forms:
        if form.memory is None or not form.memory.narrow or form.name not in uops:
            continue
        for name in wide_forms(form.name):
            wide = learned.uops.get(name)
            if wide is not None and wide.ports is not None:
                uops[form.name] = replace(wide, why=f"as {name}; {wide.why}")
                break
    return replace(learned, uops=uops)


def wide_forms(name: str) -> Iterator[str]:
    """Yield the names of a form with wider operands."""
    for narrow in (_NARROW_OPERANDS, _NARROW_CONSTANTS):
        for bits in _WIDE_BITS:
            yield re.sub(narrow, bits, name)
