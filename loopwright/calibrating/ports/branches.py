"""Branches: which ports those use that are not taken, and how often one is taken.

Kernels: branches to what follows them, two in 16 aligned bytes, alone and among the instructions
that keep each class of ports busy; a loop of nothing but its count and branch. Answer: the ports
that explain what all mixtures take; what does not tell ports apart leaves any of them. Opposites of
those that are measured, and jumps, are taken to use the same ports. A mixture that takes longer
than its parts one after the other tells nothing: what keeps the class busy writes the flags by
which its branches are taken.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from loopwright.calibrating import kernels
from loopwright.calibrating.forms.kit import Branch, Kit
from loopwright.calibrating.laboratory import Figure, Laboratory
from loopwright.calibrating.ports.classes import Class
from loopwright.calibrating.ports.core import Core
from loopwright.calibrating.ports.rule import Ports, cycles

_NEAR = 0.08  # relative: how far mixtures may lie from what ports explain
_TIMES = 8  # cycles that a class takes alone
_BOTH = 2 * _TIMES * (1 + _NEAR)  # cycles of a class and the branches one after the other
_BLOCK = 16  # bytes


@dataclass(frozen=True)
class Branches:
    """Ports of each branch by its name, or why they are not known; cycles of a loop's branch."""

    ports: dict[str, Ports]
    left: dict[str, str]
    taken: Figure


def measure(laboratory: Laboratory, core: Core) -> Branches:
    """Return what is known of branches; nothing where the kit has none."""
    kit = laboratory.kit
    found = Branches({}, {}, laboratory.turn())
    for branch in kit.BRANCHES:
        ports = _ports(laboratory, core, branch)
        for name in (branch.name, branch.opposite):
            if isinstance(ports, str):
                found.left[name] = ports
            else:
                found.ports[name] = ports
    if kit.JUMP and found.ports:
        found.ports[kit.JUMP] = next(iter(found.ports.values()))
    return found


def _ports(laboratory: Laboratory, core: Core, branch: Branch) -> Ports | str:
    """Return the ports of a branch, or why they are not known."""
    kit = laboratory.kit
    two = [branch.code, branch.code, *kit.pad(_BLOCK - 2 * len(branch.code))]
    (alone,) = laboratory.time([two * 2])
    if not alone:
        return alone.refused
    count = round(4 / alone.cycles)
    if not count or abs(count * alone.cycles - 4) > _NEAR * 4:
        return f"alone it takes {alone.cycles / 4:.2f} cycles, which no number of ports explains"
    asked = [_mixture(kit, one, branch, count) for one in core.classes]
    # Where branches that are taken are slow, the one that closes a loop has to be in no figure.
    for notion in ("loop", "slope"):
        if found := _explained(core, asked, laboratory.time(asked, notion), count):
            return found
    return "no ports explain what it takes beside others"


def _explained(
    core: Core, asked: Sequence[list[bytes]], figures: Sequence[Figure], count: int
) -> Ports | None:
    """Return so many ports that explain what branches take beside each class."""
    best, least = None, _NEAR
    for some in map(frozenset, combinations(sorted(core.wide), count)):
        off = 0.0
        for kernel, figure, ports in zip(asked, figures, core.ports, strict=True):
            uops = Counter({some: _TIMES * count})
            uops[ports] += _TIMES * len(ports)
            said = max(cycles(uops), len(kernel) / core.width)
            if figure and figure.cycles <= _BOTH:
                off = max(off, abs(figure.cycles - said) / said)
        if off < least:
            best, least = some, off
    return best


def _mixture(kit: Kit, beside: Class, branch: Branch, count: int) -> list[bytes]:
    """Return branches among what keeps a class busy, as many cycles of each."""
    instances = kernels.Instances()
    blockers = [instances.of(beside.blocker) for _ in range(_TIMES * beside.size)]
    return kernels.laid(
        kit, kernels.spread(blockers, [branch.code] * (_TIMES * count)), [branch.code]
    )
