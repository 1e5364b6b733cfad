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
_TURNS = {"gpr": (8, 9), "vector": (1, 2)}  # registers that values of a chain go through


@dataclass(frozen=True)
class Kernel:
    """Instructions to repeat, and the forms that they are of, the one that it is made for first."""

    forms: tuple[str, ...]
    code: tuple[bytes, ...]


def mixtures(forms: Sequence[Form], each: int, seed: int) -> list[Kernel]:
    """Return so many mixtures for each form: 1 to 4 instances of it and of two others."""
    draw = random.Random(seed)
    out = []
    for form in forms:
        others = [other for other in forms if other is not form]
        for _ in range(each):
            chosen = [form, *draw.sample(others, 2)]
            parts = [(one, draw.randint(1, _MOST)) for one in chosen]
            names = tuple(one.name for one in chosen)
            out.append(Kernel(names, tuple(port_classes.mixture(parts))))
    return out


def chains(forms: Sequence[Form], seed: int) -> list[Kernel]:
    """Return a chain through each pair of operands: the form and others that carry the value back.

    Pairs of one operand stand between two forms. Implied registers and flags are in no chain here,
    nor are the forms that no other leads back from.
    """
    draw = random.Random(seed)
    ways: dict[tuple[str, str], list[_Way]] = defaultdict(list)
    turns: list[_Way] = []
    for way in _ways(forms):
        if way.source is way.target:
            turns.append(way)
        else:
            ways[way.source.kind, way.target.kind].append(way)
    out = []
    for (source, target), some in ways.items():
        back = ways.get((target, source), [])
        out += [_chain([way, draw.choice(back)]) for way in some if back]
    for turn in turns:
        kind = turn.source.kind
        out.append(_chain([turn, *(draw.choice(ways[kind, kind]) for _ in range(2))]))
    return out


@dataclass(frozen=True)
class _Way:
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
    at = 1 if ways[0].source is ways[0].target and len(ways) > 2 else 0
    moving = ways[at:]
    held = _TURNS[moving[0].source.kind][0]
    code = []
    for number, way in enumerate(moving):
        target = _TURNS[way.target.kind][1 - number % 2]
        given = {way.source.label: held, way.target.label: target}
        code.append(way.form.encode(form_instances.registers_for(way.form, given)))
        held = target
        if at and number == 0:
            turn = ways[0]
            code.append(
                turn.form.encode(form_instances.registers_for(turn.form, {turn.source.label: held}))
            )
    return Kernel(tuple(way.form.name for way in ways), tuple(code))
