"""Rules of rename and schedulers that no single form shows: late sums, kept moves, pairs a cycle.

Sums. Microbenchmarks: chains of floating-point additions and products. On some cores an addition
waits longer for an operand that no addition made.

Kept moves. Microbenchmarks: chains of a zero extension of a byte and an addition, by the register
of the byte. Some cores eliminate such moves only from the registers that old code names.

Pairs. Microbenchmarks: loops of nops and of instructions that rename divides in two, as their
address has an index. On some cores few of them begin in a cycle, and only among its first slots.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import product

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.fit import Rules
from loopwright.microbench import form_instances, kits
from loopwright.microbench.forms import INDEX, Form, Kit
from loopwright.microbench.laboratory import Figure, Laboratory

SUMS, KEPT = "scheduler.sum_cycles", "rename.odd_bytes_kept"
PLACES, PAIRS = "rename.apart_places", "rename.apart"
_SEED, _CHAINS, _LINKS = 73, 16, (2, 5)
_LESS = 0.8  # share of the error without a rule that is left, at most
_NOPS, _PAIRED = range(2, 20), (1, 2, 3)
_LATER = (1, 2)  # cycles


def choose_rename_rules(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with these rules, where they explain what was timed."""
    kit = laboratory.kit
    named = {form.name: form for form in forms if learned.has_ports(form.name)}
    sums: list[Rules] = [{SUMS: cycles} for cycles in _LATER]
    learned = _chosen(laboratory, learned, dict(_sums(kit, named)), sums)
    learned = _chosen(laboratory, learned, dict(_extensions(kit, named)), [{KEPT: True}])
    width = range(1, learned.width.instructions + 1)
    pairs: list[Rules] = [{PLACES: places, PAIRS: most} for places, most in product(width, _PAIRED)]
    return _chosen(laboratory, learned, dict(_pairs(learned, named)), pairs)


def _chosen(
    laboratory: Laboratory, learned: CoreModel, bodies: dict[str, bytes], rules: Sequence[Rules]
) -> CoreModel:
    loops = list(bodies.values())
    kind = f"loops such as {next(iter(bodies), '')}"

    def time(core: Laboratory) -> list[Figure]:
        return core.iterations(loops)

    return fit.with_less_error(laboratory, learned, loops, time, [{}, *rules], kind, _LESS)


def _sums(kit: Kit, named: dict[str, Form]) -> Iterator[tuple[str, bytes]]:
    """Yield chains of additions and products in random order."""
    draw = random.Random(_SEED)
    links = [named[name] for name in kit.SUMMING if name in named]
    register = kit.POOLS["vector"].others[0] if links else 0
    for _ in range(_CHAINS if len(links) > 1 else 0):
        drawn = draw.choices(links, k=draw.randint(*_LINKS))
        chained = [(form, {form.chosen[0].label: register}) for form in drawn]
        parts = [one.encode(form_instances.registers_for(one, given)) for one, given in chained]
        yield " ".join(form.mnemonic for form in drawn), b"".join(parts)


def _extensions(kit: Kit, named: dict[str, Form]) -> Iterator[tuple[str, bytes]]:
    """Yield chains of a zero extension and an addition."""
    form, pool = named.get(kit.EXTENSION), kit.POOLS["gpr"]
    if not form:
        return
    wide, narrow = (one.label for one in form.chosen)
    for byte in pool.others:
        extended = form.encode({wide: pool.own[1], narrow: byte})
        link = kit.transfer("gpr", "gpr", pool.own[1], byte)
        yield f"{form.name} from register {byte}", extended + link


def _pairs(learned: CoreModel, named: dict[str, Form]) -> Iterator[tuple[str, bytes]]:
    """Yield loops of nops behind instructions whose address has a base and an index."""
    usage = kits.per_million()
    indexed = [
        one
        for name, one in named.items()
        if name in learned.indexed and one.memory and not one.memory.written
    ]
    if not indexed or not learned.width.nops:
        return
    form = max(indexed, key=lambda one: usage.get(one.name, 0.0))
    index = {INDEX: form.kit.POOLS["gpr"].constant[1]}
    pair = form.encode({**form_instances.registers_for(form, {}), **index})
    for number, nops in product(_PAIRED, _NOPS):
        yield f"{number} of {form.name} and {nops} nops", pair * number + form.kit.SHORT * nops
