"""Branches: which ports those use that are not taken, and how often one is taken.

Kernels: branches to what follows them, two in 16 aligned bytes, alone and among the instructions
that keep each class of ports busy; a loop of nothing but its count and branch. Answer: the ports
that explain what all mixtures take; what does not tell ports apart leaves any of them. Opposites of
those that are measured, and jumps, are taken to use the same ports. A mixture that takes longer
than its parts one after the other tells nothing: what keeps the class busy writes the flags by
which its branches are taken. Where no ports explain them, what delivers code may bind mixtures:
nops in the places of the branches show it.
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
_LATE = 0.5  # share of it that counts where they take longer: ports are chosen in haste
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
    own = [max(_TIMES, len(kernel) / core.width) for kernel in asked]
    for notion in ("loop", "slope"):
        figures = laboratory.time(asked, notion)
        if found := _explained(core, own, own, figures, count, core.wide):
            return found
    (nop,) = kit.pad(len(branch.code))
    idle = laboratory.time([[nop if c == branch.code else c for c in one] for one in asked])
    slower = [max(o, one.cycles) if one else o for o, one in zip(own, idle, strict=True)]
    first = 1 + max(frozenset().union(core.wide, core.data or (), *core.ports))
    unseen = core.wide | set(range(first, first + count))  # of what no class shows
    for pool in (core.wide, unseen):
        if found := _explained(core, own, slower, laboratory.time(asked), count, pool):
            return found
    return "no ports explain what it takes beside others"


def _explained(
    core: Core,
    own: Sequence[float],
    slower: Sequence[float],
    figures: Sequence[Figure],
    count: int,
    pool: Ports,
) -> Ports | None:
    """Return so many ports of a pool that explain what branches take beside each class.

    own are cycles that each mixture takes at least, slower those that it takes with nops in the
    branches' places: where these are more, one that takes longer than its ports says nothing.
    """
    best, least = None, _NEAR
    for some in map(frozenset, combinations(sorted(pool), count)):
        off = 0.0
        for n, (*least_of, figure) in enumerate(zip(own, slower, figures, strict=True)):
            uops = Counter({some: _TIMES * count})
            uops.update(dict.fromkeys(core.blocked(n), _TIMES * core.classes[n].size))
            said = max(cycles(uops), *least_of)
            bound = least_of[1] > (1 + _NEAR) * least_of[0] and figure.cycles > said
            if figure and figure.cycles <= _BOTH and not bound:
                error = (figure.cycles - said) / said
                off = max(off, error * (_LATE if core.hasty else 1.0), -error)
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
