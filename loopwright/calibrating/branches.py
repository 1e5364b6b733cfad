"""Branches: ports of branches not taken, cycles of taken ones, macro-fusion.

Ports. Microbenchmarks: branches to the next instruction, two in 16 aligned bytes, alone and among
blocking instructions of each class; a loop of only its count and branch. The ports are those that
explain all mixtures; what mixtures do not tell apart may be any. Opposite conditions, and jumps,
are taken to use the same ports. A mixture slower than its parts one after the other does not count,
as the blocking instruction then writes the flags by which its branches are taken. Where no ports
explain the mixtures, the front end may limit them, which nops in the place of the branches show.
Where still none do, the fewest slow mixtures count as upper bounds on throughput: branches may be
limited by more than ports, such as by reads of flags. Nops separate branches from blocking
instructions that fuse with them.

Macro-fusion. Microbenchmarks: many nops with an instruction, a branch, and one more nop that stands
before both or between them; moves replace nops that share slots. Where no pair shows fusion,
shorter nops are tried. A pair fuses where the first kernel is a slot shorter. Of a branch and its
opposite, one is not taken whatever the flags are, and that one tells.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

from loopwright.calibrating.ports import Core, PortClass, Ports, bound_cycles
from loopwright.microbench import form_instances
from loopwright.microbench.dispatch_width import Width
from loopwright.microbench.forms import Branch, Form, Kit
from loopwright.microbench.laboratory import Figure, Laboratory

_NEAR = 0.08  # relative tolerance of predicted mixtures
_EARLY_WEIGHT = 0.5  # weight of a mixture slower than predicted, under early binding
_TIMES = 8  # cycles of a class alone
_SEQUENTIAL = 2 * _TIMES * (1 + _NEAR)  # cycles of a class and the branches one after the other
_BLOCK = 16  # bytes
_NOPS = 4  # cycles of nops
_SURE = 0.3  # slots: tolerance around a whole number
_BOUNDS = 0.4  # share of mixtures that may be slower than their port bound


@dataclass(frozen=True)
class Branches:
    """Ports of each branch by name, or refusals; cycles of a loop's taken branch.

    longer names the instructions beside which branches are slower than their port bound.
    """

    ports: dict[str, Ports]
    left: dict[str, str]
    taken: Figure
    longer: dict[str, str] = field(default_factory=dict)


def measure(laboratory: Laboratory, core: Core, fused: Container[str]) -> Branches:
    """Measure branches; fused are the names of forms that fuse with one."""
    kit = laboratory.kit
    branches = Branches({}, {}, laboratory.iteration())
    for branch in (*kit.BRANCHES, *kit.UNFUSED):
        ports, note = _ports(laboratory, core, branch, fused)
        slots = _slots(laboratory, core, branch) if branch in kit.UNFUSED else 1
        if slots != 1:
            shown = slots or "no whole number of"
            ports, note = None, f"nops beside it show {shown} slots, not one"
        for name in filter(None, (branch.name, branch.opposite)):
            _keep(branches, name, ports, note)
    if branches.ports:
        branches.ports[kit.JUMP] = next(iter(branches.ports.values()))
    return branches


def _keep(branches: Branches, name: str, ports: Ports | None, note: str) -> None:
    """Add the ports of a branch, or the refusal if it has none."""
    if ports is None:
        branches.left[name] = note
    else:
        branches.ports[name] = ports
        branches.longer[name] = note


def _slots(laboratory: Laboratory, core: Core, branch: Branch) -> int | None:
    """Return the dispatch slots of a branch, as nops beside it show."""
    half = [laboratory.kit.nop()] * (_NOPS * core.width // 2)
    within, idle = laboratory.time([[*half, branch.code, *half], [*half, half[0], *half]])
    if not within or not idle:
        return None
    slots = 1 + (within.cycles - idle.cycles) * core.width
    return round(slots) if abs(slots - round(slots)) <= _SURE else None


@dataclass(frozen=True)
class _Mixtures:
    """Mixtures of branches with each class, at so many branches a cycle.

    own are cycles that each mixture takes at least, by dispatch. slower are the cycles with nops in
    the place of the branches, own at least; where these exceed own, a mixture slower than its port
    bound does not count.
    """

    core: Core
    count: int
    own: Sequence[float]
    slower: Sequence[float]
    figures: Sequence[Figure]

    def errors(self, ports: Ports) -> Iterator[tuple[int, float]]:
        """Yield the relative error of each mixture that counts, by class number."""
        rows = zip(self.own, self.slower, self.figures, strict=True)
        for n, (own, slower, figure) in enumerate(rows):
            uops = Counter({ports: _TIMES * self.count})
            cycles = _TIMES * self.core.classes[n].size
            uops.update(dict.fromkeys(self.core.blocker_uops(n), cycles))
            predicted = max(bound_cycles(uops), own, slower)
            front_end_bound = slower > (1 + _NEAR) * own and figure.cycles > predicted
            if figure and figure.cycles <= _SEQUENTIAL and not front_end_bound:
                yield n, (figure.cycles - predicted) / predicted

    def explained(self, pool: Ports) -> Ports | None:
        """Return the ports of a pool that explain all mixtures."""
        best, least = None, _NEAR
        for ports in map(frozenset, combinations(sorted(pool), self.count)):
            weight = _EARLY_WEIGHT if self.core.early_binding else 1.0
            error = max((max(e * weight, -e) for _, e in self.errors(ports)), default=0.0)
            if error < least:
                best, least = ports, error
        return best

    def bounded(self, pool: Ports) -> tuple[Ports, str] | None:
        """Return the ports of a pool with the fewest slow mixtures, and the note on those."""
        best: tuple[Ports, str] | None = None
        least: tuple[float, float] = (_BOUNDS * len(self.figures), 0.0)
        for ports in map(frozenset, combinations(sorted(pool), self.count)):
            errors = dict(self.errors(ports))
            slow = [n for n, e in errors.items() if e >= _NEAR]
            error = max((abs(e) for n, e in errors.items() if n not in slow), default=_NEAR)
            if error < _NEAR and (len(slow), error) < least:
                names = (self.core.classes[n].blocker.name for n in slow)
                best = ports, f"longer than that beside {', '.join(names)}"
                least = len(slow), error
        return best


def _ports(
    laboratory: Laboratory, core: Core, branch: Branch, fused: Container[str]
) -> tuple[Ports | None, str]:
    """Return the ports of a branch with a note on slow mixtures, or the refusal."""
    kit = laboratory.kit
    pair = [branch.code, branch.code, *kit.pad(_BLOCK - 2 * len(branch.code))]
    # Taken branches may be slow: the one that closes a loop must not count then.
    for notion in ("loop", "slope"):
        (alone,) = laboratory.time([pair * 2], notion)
        if not alone:
            return None, alone.refused
        count = round(4 / alone.cycles)
        if count and abs(count * alone.cycles - 4) <= _NEAR * 4:
            break
    else:
        timing = f"{alone.cycles / 4:.2f} cycles"
        return None, f"alone it takes {timing}, which no number of ports explains"
    kernels = [
        _mixture(kit, one, branch, count, apart=one.blocker.name in fused) for one in core.classes
    ]
    own = [max(_TIMES, len(kernel) / core.width) for kernel in kernels]
    for notion in ("loop", "slope"):
        figures = laboratory.time(kernels, notion)
        if ports := _Mixtures(core, count, own, own, figures).explained(core.all_arithmetic):
            return ports, ""
    (nop,) = kit.pad(len(branch.code))
    idle = laboratory.time([[nop if c == branch.code else c for c in kernel] for kernel in kernels])
    pairs = zip(own, idle, strict=True)
    slower = [max(cycles, figure.cycles) if figure else cycles for cycles, figure in pairs]
    first = 1 + max(frozenset().union(core.all_arithmetic, core.store_data or (), *core.ports))
    unseen = core.all_arithmetic | set(range(first, first + count))  # ports of what no class shows
    mixtures = _Mixtures(core, count, own, slower, laboratory.time(kernels))
    for pool in (core.all_arithmetic, unseen):
        if ports := mixtures.explained(pool):
            return ports, ""
    return mixtures.bounded(unseen) or (None, "no ports explain what it takes beside others")


def _mixture(
    kit: Kit, beside: PortClass, branch: Branch, count: int, *, apart: bool
) -> list[bytes]:
    """Return a kernel of branches among a class's blocking instructions, as many cycles of each.

    apart puts a nop between a branch and what precedes it.
    """
    instances = form_instances.Instances()
    blocking = [instances.of(beside.blocker) for _ in range(_TIMES * beside.size)]
    mixed = form_instances.interleaved(blocking, [branch.code] * (_TIMES * count))
    if apart:
        mixed = _apart(mixed, branch.code, kit.nop())
    return form_instances.aligned_in_windows(kit, mixed, [branch.code])


def _apart(code: Sequence[bytes], branch: bytes, nop: bytes) -> list[bytes]:
    """Return code with a nop before each branch that follows another instruction."""
    out: list[bytes] = []
    for one in code:
        if one == branch and out and out[-1] != branch:
            out.append(nop)
        out.append(one)
    return out


_BLOCKING_CYCLES = 3  # cycles of nops
_SHORT_NOP = 3  # bytes of the nop that is tried where no pair shows fusion
_SAVED_SLOT = 0.6  # slots that a fused pair saves, at least


def fused_pairs(laboratory: Laboratory, forms: Sequence[Form], width: Width) -> dict[str, str]:
    """Return the kinds of branches that each form fuses with, as flag `fuse=` spells them.

    Each form is tried with one kind, and one form of each fusing mnemonic with all kinds.
    """
    kit = laboratory.kit
    tried = [form for form in forms if form.mnemonic in kit.FUSING]
    kinds: Mapping[str, Branch] = {branch.kind: branch for branch in reversed(kit.BRANCHES)}
    if not tried:
        return {}
    first = next(iter(kit.BRANCHES))
    fused = _fuses(laboratory, [(form, first) for form in tried], width)
    if not any(fused) and width.nops and not kit.BYTES:
        # Delivery of longer nops may limit the kernel before dispatch does.
        width = replace(width, counted=kit.pad(_SHORT_NOP)[0])
        fused = _fuses(laboratory, [(form, first) for form in tried], width)
    fusing = [form for form, yes in zip(tried, fused, strict=True) if yes]
    samples = {form.mnemonic: form for form in reversed(fusing)}
    pairs = list(product(samples.values(), kinds.values()))
    fused_kinds: dict[str, str] = dict.fromkeys(samples, "")
    for (form, branch), yes in zip(pairs, _fuses(laboratory, pairs, width), strict=True):
        fused_kinds[form.mnemonic] += branch.kind if yes else ""
    return {form.name: "".join(sorted(fused_kinds[form.mnemonic])) for form in fusing}


def _fuses(
    laboratory: Laboratory, pairs: Sequence[tuple[Form, Branch]], width: Width
) -> list[bool]:
    """Return for each form and branch whether they share a slot."""
    plans = [_fusion_kernels(laboratory.kit, form, branch, width) for form, branch in pairs]
    figures = iter(laboratory.time([kernel for plan in plans for kernel in plan]))
    fused = []
    for plan in plans:
        timed = [next(figures) for _ in plan]
        orders = zip(timed[::2], timed[1::2], strict=True)
        saved = [apart.cycles - near.cycles for near, apart in orders if near and apart]
        fused.append(max(saved, default=0.0) > _SAVED_SLOT / width.instructions)
    return fused


def _fusion_kernels(kit: Kit, form: Form, branch: Branch, width: Width) -> list[list[bytes]]:
    """Return kernels with a pair together and apart, for a branch and for its opposite."""
    tested = form_instances.under_test(form)
    filler = width.counted
    out = []
    for code in (branch.code, kit.opposite(branch)):
        blocking = [filler] * (_BLOCKING_CYCLES * width.instructions)
        for order in ([filler, tested, code], [tested, filler, code]):
            out.append(form_instances.aligned_in_windows(kit, [*order, *blocking], [code]))
    return out
