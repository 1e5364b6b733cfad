"""Branches: ports of those not taken, cycles of those taken, macro-fusion.

Branches: which ports those use that are not taken, and how often one is taken.

Kernels: branches to what follows them, two in 16 aligned bytes, alone and among the instructions
that keep each class of ports busy; a loop of nothing but its count and branch. Answer: the ports
that explain what all mixtures take; what does not tell ports apart leaves any of them. Opposites of
those that are measured, and jumps, are taken to use the same ports. A mixture that takes longer
than its parts one after the other tells nothing: what keeps the class busy writes the flags by
which its branches are taken. Where no ports explain them, what delivers code may bind mixtures:
nops in the places of the branches show it. Where none do then, the fewest mixtures that take longer
than ports ask for count as bounds: branches may be bound by more than ports, such as by reads of
flags, and no core takes less than its ports ask for. Where what keeps a class busy fuses with
branches, nops stand between them.

Macro-fusion: which instructions take one place at dispatch together with a branch behind them.

Kernels: many nops with an instruction, a branch and one nop more, which stands before them or
between them; where nops share places, moves stand for them. Where no pair shows, all is asked again
with shorter nops. Answer: the one kernel is a place shorter. Of a branch and its opposite one is
not taken, whatever the flags are, and that tells.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from loopwright.calibrating.ports import Core, PortClass, Ports, bound_cycles
from loopwright.microbench import form_instances
from loopwright.microbench.dispatch_width import Width
from loopwright.microbench.forms import Branch, Form, Kit
from loopwright.microbench.laboratory import Figure, Laboratory

_NEAR = 0.08  # relative: how far mixtures may lie from what ports explain
_LATE = 0.5  # share of it that counts where they take longer: ports are bound early
_TIMES = 8  # cycles that a class takes alone
_BOTH = 2 * _TIMES * (1 + _NEAR)  # cycles of a class and the branches one after the other
_BLOCK = 16  # bytes
_NOPS = 4  # cycles of nops
_SURE = 0.3  # of a place: how far from a whole number
_BOUNDS = 0.4  # of the mixtures that may take longer than ports ask for


@dataclass(frozen=True)
class Branches:
    """Ports of each branch by its name, or why they are not known; cycles of a loop's branch.

    longer says beside what branches take longer than their ports ask for.
    """

    ports: dict[str, Ports]
    left: dict[str, str]
    taken: Figure
    longer: dict[str, str] = field(default_factory=dict)


def measure(laboratory: Laboratory, core: Core, fused: Container[str]) -> Branches:
    """Return what is known of branches; fused are the names of forms that fuse with one."""
    kit = laboratory.kit
    found = Branches({}, {}, laboratory.turn())
    for branch in kit.BRANCHES:
        ports, said = _ports(laboratory, core, branch, fused)
        for name in (branch.name, branch.opposite):
            _keep(found, name, ports, said)
    for branch in kit.UNFUSED:
        ports, said = _ports(laboratory, core, branch, fused)
        slots = _slots(laboratory, core, branch)
        if slots != 1:
            shown = slots or "no whole number of"
            ports, said = None, f"nops beside it show {shown} places, not one"
        for name in filter(None, (branch.name, branch.opposite)):
            _keep(found, name, ports, said)
    if found.ports:
        found.ports[kit.JUMP] = next(iter(found.ports.values()))
    return found


def _keep(found: Branches, name: str, ports: Ports | None, said: str) -> None:
    if ports is None:
        found.left[name] = said
    else:
        found.ports[name] = ports
        found.longer[name] = said


def _slots(laboratory: Laboratory, core: Core, branch: Branch) -> int | None:
    """Return how many places a branch takes at dispatch, as nops beside it show."""
    half = [laboratory.kit.nop()] * (_NOPS * core.width // 2)
    within, idle = laboratory.time([[*half, branch.code, *half], [*half, half[0], *half]])
    if not within or not idle:
        return None
    slots = 1 + (within.cycles - idle.cycles) * core.width
    return round(slots) if abs(slots - round(slots)) <= _SURE else None


@dataclass(frozen=True)
class _Mixtures:
    """Throughput of branches beside each class of forms, and how many of the class run in a cycle.

    own are cycles that each mixture takes at least, slower those that it takes with nops in the
    branches' places: where these are more, one that takes longer than its ports says nothing.
    """

    core: Core
    count: int
    own: Sequence[float]
    slower: Sequence[float]
    figures: Sequence[Figure]

    def errors(self, ports: Ports) -> Iterator[tuple[int, float]]:
        """Yield each class whose mixture tells something, and by how much that is off."""
        for n, (*least_of, figure) in enumerate(
            zip(self.own, self.slower, self.figures, strict=True)
        ):
            uops = Counter({ports: _TIMES * self.count})
            uops.update(
                dict.fromkeys(self.core.blocker_uops(n), _TIMES * self.core.classes[n].size)
            )
            said = max(bound_cycles(uops), *least_of)
            bound = least_of[1] > (1 + _NEAR) * least_of[0] and figure.cycles > said
            if figure and figure.cycles <= _BOTH and not bound:
                yield n, (figure.cycles - said) / said

    def explained(self, pool: Ports) -> Ports | None:
        """Return the ports of a pool that explain all."""
        best, least = None, _NEAR
        for some in map(frozenset, combinations(sorted(pool), self.count)):
            late = _LATE if self.core.early_binding else 1.0
            off = max((max(e * late, -e) for _, e in self.errors(some)), default=0.0)
            if off < least:
                best, least = some, off
        return best

    def bounded(self, pool: Ports) -> tuple[Ports, str] | None:
        """Return the ports that contradict nothing and leave the fewest bounds, and these."""
        best, least = None, (_BOUNDS * len(self.figures), 0.0)
        for some in map(frozenset, combinations(sorted(pool), self.count)):
            errors = dict(self.errors(some))
            longer = [n for n, error in errors.items() if error >= _NEAR]
            rest = max((abs(e) for n, e in errors.items() if n not in longer), default=_NEAR)
            if rest < _NEAR and (len(longer), rest) < least:
                best, least = (some, longer), (len(longer), rest)
        if best is None:
            return None
        beside = (self.core.classes[n].blocker.name for n in best[1])
        return best[0], f"longer than that beside {', '.join(beside)}"


def _ports(
    laboratory: Laboratory, core: Core, branch: Branch, fused: Container[str]
) -> tuple[Ports | None, str]:
    """Return the ports of a branch and what they do not explain, or why they are not known."""
    kit = laboratory.kit
    two = [branch.code, branch.code, *kit.pad(_BLOCK - 2 * len(branch.code))]
    # Where branches that are taken are slow, the one that closes a loop has to be in no figure.
    for notion in ("loop", "slope"):
        (alone,) = laboratory.time([two * 2], notion)
        if not alone:
            return None, alone.refused
        count = round(4 / alone.cycles)
        if count and abs(count * alone.cycles - 4) <= _NEAR * 4:
            break
    else:
        took = f"{alone.cycles / 4:.2f} cycles"
        return None, f"alone it takes {took}, which no number of ports explains"
    asked = [
        _mixture(kit, one, branch, count, apart=one.blocker.name in fused) for one in core.classes
    ]
    own = [max(_TIMES, len(kernel) / core.width) for kernel in asked]
    for notion in ("loop", "slope"):
        figures = laboratory.time(asked, notion)
        if found := _Mixtures(core, count, own, own, figures).explained(core.all_arithmetic):
            return found, ""
    (nop,) = kit.pad(len(branch.code))
    idle = laboratory.time([[nop if c == branch.code else c for c in one] for one in asked])
    slower = [max(o, one.cycles) if one else o for o, one in zip(own, idle, strict=True)]
    first = 1 + max(frozenset().union(core.all_arithmetic, core.store_data or (), *core.ports))
    unseen = core.all_arithmetic | set(range(first, first + count))  # of what no class shows
    mixtures = _Mixtures(core, count, own, slower, laboratory.time(asked))
    for pool in (core.all_arithmetic, unseen):
        if found := mixtures.explained(pool):
            return found, ""
    return mixtures.bounded(unseen) or (None, "no ports explain what it takes beside others")


def _mixture(
    kit: Kit, beside: PortClass, branch: Branch, count: int, *, apart: bool
) -> list[bytes]:
    """Return branches among what keeps a class busy, as many cycles of each.

    apart: with nops between the former and what stands before them.
    """
    instances = form_instances.Instances()
    blockers = [instances.of(beside.blocker) for _ in range(_TIMES * beside.size)]
    mixed = form_instances.spread(blockers, [branch.code] * (_TIMES * count))
    if apart:
        mixed = _apart(mixed, branch.code, kit.nop())
    return form_instances.laid(kit, mixed, [branch.code])


def _apart(code: Sequence[bytes], branch: bytes, nop: bytes) -> list[bytes]:
    """Return code with a nop before each branch that follows something else."""
    out: list[bytes] = []
    for one in code:
        if one == branch and out and out[-1] != branch:
            out.append(nop)
        out.append(one)
    return out


_BLOCKING_CYCLES = 3  # cycles of nops
_SHORT_NOP = 3  # bytes of a nop that is tried where no pair shows
_PLACE_LESS = 0.6  # of a place at dispatch that is missed where there is one less


def fused_pairs(laboratory: Laboratory, forms: Sequence[Form], width: Width) -> dict[str, str]:
    """Return the kinds of branches that each form fuses with, as flag `fuse=` has them.

    Each form is tried with one kind, and one form of a mnemonic that fuses with all.
    """
    kit = laboratory.kit
    tried = [form for form in forms if form.mnemonic in kit.FUSING]
    kinds: Mapping[str, Branch] = {branch.kind: branch for branch in reversed(kit.BRANCHES)}
    if not tried:
        return {}
    first = next(iter(kit.BRANCHES))
    fused = _fuses(laboratory, [(form, first) for form in tried], width)
    if not any(fused) and width.nops and not kit.BYTES:
        # What brings in longer nops may bind before dispatch does.
        width = replace(width, counted=kit.pad(_SHORT_NOP)[0])
        fused = _fuses(laboratory, [(form, first) for form in tried], width)
    fusing = [form for form, yes in zip(tried, fused, strict=True) if yes]
    samples = {form.mnemonic: form for form in reversed(fusing)}
    asked = [(form, branch) for form in samples.values() for branch in kinds.values()]
    known: dict[str, str] = dict.fromkeys(samples, "")
    for (form, branch), yes in zip(asked, _fuses(laboratory, asked, width), strict=True):
        known[form.mnemonic] += branch.kind if yes else ""
    return {form.name: "".join(sorted(known[form.mnemonic])) for form in fusing}


def _fuses(
    laboratory: Laboratory, asked: Sequence[tuple[Form, Branch]], width: Width
) -> list[bool]:
    """Say of each form and branch whether they take one place."""
    plans = [_fusion_kernels(laboratory.kit, form, branch, width) for form, branch in asked]
    figures = iter(laboratory.time([kernel for plan in plans for kernel in plan]))
    out = []
    for plan in plans:
        found = [next(figures) for _ in plan]
        pairs = [(found[n], found[n + 1]) for n in range(0, len(found), 2)]
        less = [apart.cycles - near.cycles for near, apart in pairs if near and apart]
        out.append(max(less, default=0.0) > _PLACE_LESS / width.instructions)
    return out


def _fusion_kernels(kit: Kit, form: Form, branch: Branch, width: Width) -> list[list[bytes]]:
    """Return what stands together and apart, for a branch and for its opposite."""
    tested = form_instances.apart(form)
    place = width.counted
    out = []
    for code in (branch.code, kit.opposite(branch)):
        blocking = [place] * (_BLOCKING_CYCLES * width.instructions)
        for some in ([place, tested, code], [tested, place, code]):
            out.append(form_instances.laid(kit, [*some, *blocking], [code]))
    return out
