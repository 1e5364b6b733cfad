"""Kernels that no experiment of `calibrate` times: mixtures and chains of forms at random."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopwright.calibrating import port_classes
from loopwright.microbench import form_instances
from loopwright.microbench.chains import pairs
from loopwright.microbench.forms import Form, Operand

_MOST = 4  # instances of a form in a mixture
_REGISTERS = {"gpr": (8, 9), "vector": (1, 2)}  # by which values of a chain go, in turn


@dataclass(frozen=True)
class Kernel:
    """Instructions to repeat, and the forms that they are of, the one that it is made for first."""

    forms: tuple[str, ...]
    code: tuple[bytes, ...]


def mixtures(forms: Sequence[Form], each: int, seed: int) -> list[Kernel]:
    """Return mixtures, each of them for each form: 1 to 4 instances of it and of two others."""
    draw = random.Random(seed)
    kernels = []
    for form in forms:
        others = [other for other in forms if other is not form]
        for _ in range(each):
            chosen = [form, *draw.sample(others, 2)]
            parts = [(part, draw.randint(1, _MOST)) for part in chosen]
            names = tuple(part.name for part in chosen)
            kernels.append(Kernel(names, tuple(port_classes.mixture(parts))))
    return kernels


def chains(forms: Sequence[Form], seed: int) -> list[Kernel]:
    """Return a chain through each pair of operands: the form and others that carry the value back.

    Pairs of one operand stand between two forms. Implied registers and flags are in no chain here,
    nor are forms whose value no other form carries back.
    """
    draw = random.Random(seed)
    ways: dict[tuple[str, str], list[_Way]] = defaultdict(list)
    turns: list[_Way] = []
    for way in _ways(forms):
        if way.source is way.target:
            turns.append(way)
        else:
            ways[way.source.kind, way.target.kind].append(way)
    kernels = []
    for (source, target), forward in ways.items():
        back = ways.get((target, source), [])
        kernels += [_chain([way, draw.choice(back)]) for way in forward if back]
    for turn in turns:
        kind = turn.source.kind
        kernels.append(_chain([turn, *(draw.choice(ways[kind, kind]) for _ in range(2))]))
    return kernels


@dataclass(frozen=True)
class _Way:
    """A way of a value through a form."""

    form: Form
    source: Operand
    target: Operand


def _ways(forms: Sequence[Form]) -> Iterator[_Way]:
    for form in forms:
        for source, target in pairs(form):
            if source in form.chosen and target in form.chosen:
                yield _Way(form, source, target)


def _chain(ways: Sequence[_Way]) -> Kernel:
    """Return forms of which each reads what the one before it wrote, in a ring."""
    first = 1 if ways[0].source is ways[0].target and len(ways) > 2 else 0
    path = ways[first:]
    register = _REGISTERS[path[0].source.kind][0]
    code = []
    for number, way in enumerate(path):
        target = _REGISTERS[way.target.kind][1 - number % 2]
        registers = {way.source.label: register, way.target.label: target}
        code.append(way.form.encode(form_instances.registers_for(way.form, registers)))
        register = target
        if first and number == 0:
            turn = ways[0]
            code.append(
                turn.form.encode(
                    form_instances.registers_for(turn.form, {turn.source.label: register})
                )
            )
    return Kernel(tuple(way.form.name for way in ways), tuple(code))
