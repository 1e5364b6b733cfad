"""Dispatch width: instructions a cycle, by copies and behind a fence.

Width: how many instructions are dispatched in a cycle.

Asked: the most that no port limits. Kernel: instructions that do nothing. Answer: a whole number a
cycle. A core that dispatches more uops than instructions shows the latter. Where nops beside other
instructions take no longer than these alone, they share places, and the others are counted, unless
two beside each take as long as so many nops.

Caches of decoded code deliver regions of code, some of them more slowly by what lies in one. So a
nop of another length among many has to take a place, as it does where dispatch binds; where it does
not, nops of other lengths are tried.

Bursts: how many instructions are dispatched in a cycle, whatever delivers or retires them.

Asked: the same as the width, where copies of what does nothing show no more than the slowest of
fetch, dispatch and retirement. Kernel: the iteration of a loop is n instructions that do nothing, a
slow chain that waits for none of them, and a fence. While the fence waits, the queue in front of
dispatch fills; while the chain runs, the n retire. So an iteration is longer by what dispatching
them takes before the chain. Answer: the width of the steps that iterations make by n; none where no
steps are seen, or where steps of other widths fit nearly as well. A form among the n shifts the
steps by the places that it takes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from loopwright.errors import InputError
from loopwright.microbench import form_instances
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Figure, Laboratory, copies
from loopwright.microbench.window_size import Chain

_NEAR = 0.05  # of an instruction a cycle
_FREE = 1.1  # times what others take alone that they take with nops between, which cost nothing
_COPIES = 8
_LENGTHS = (8, 2, 4, 6, 3, 9, 7, 1)  # bytes of nops that are tried where the usual one does not do
# Bytes of what stands among nops, and for how many cycles there are nops.
_AMONG = ((2, 4), (3, 5), (4, 4), (6, 6), (7, 5), (8, 6), (9, 4), (6, 4), (7, 4))
_ENDS = 2  # places that the end of a loop takes
_PLACE, _WORST = 0.08, 0.4  # of a place that may be missed, on average and at most


@dataclass(frozen=True)
class Width:
    """Instructions a cycle, as measured and as a whole number, and an instruction that counts."""

    instructions: int
    measured: float
    uncertainty: float
    counted: bytes
    nops: bool = True
    notion: str = "loop"  # how copies that dispatch bounds are repeated


def measure(laboratory: Laboratory) -> Width:
    """Return the width; InputError where the machine gives no whole number."""
    notion = laboratory.kit.DISPATCHED
    other = laboratory.kit.MOVE
    nop, figure = _timed(laboratory)
    moves, both = laboratory.time([[other] * _COPIES, [nop, other] * _COPIES], "slope")
    nops = not (moves and both and both.cycles <= _FREE * moves.cycles)
    if not nops and round(_rate(figure)) > round(_rate(moves)):
        # Ports may bind moves and leave room for nops: then two beside each take as long as nops.
        (two,) = laboratory.time([[nop, nop, other] * _COPIES], "slope")
        nops = bool(two) and abs(two.cycles / (3 * figure.cycles) - 1) <= _NEAR
    if nops:
        nop, figure, notion = _plain(laboratory, nop, figure)
    else:
        figure = moves
    rate = _rate(figure)
    if not _whole(rate):
        raise InputError(
            f"{laboratory.machine.name}: {rate:.2f} {'nops' if nops else 'moves'} a cycle are no "
            "width; measure on a quiet machine"
        )
    error = rate * figure.uncertainty / figure.cycles
    return Width(round(rate), rate, error, nop if nops else other, nops, notion)


def _timed(laboratory: Laboratory) -> tuple[bytes, Figure]:
    """Return the first nop that has one speed, the usual one before all, and what copies take."""
    refused = ""
    for nop in [laboratory.kit.nop(), *_others(laboratory.kit)]:
        (figure,) = laboratory.time([[nop] * _COPIES], "slope")
        if figure:
            return nop, figure
        refused = refused or figure.refused
    raise InputError(f"{laboratory.machine.name}: nops were not measured: {refused}")


def _whole(rate: float) -> bool:
    return abs(rate - round(rate)) <= _NEAR * rate


def _plain(laboratory: Laboratory, nop: bytes, figure: Figure) -> tuple[bytes, Figure, str]:
    """Return a nop that dispatch alone binds, what copies take, and how they are to be repeated.

    Where there is none, the nearest one. Loops come first; on Redwood Cove they have two speeds, by
    whether a group of dispatch goes on behind the branch, and straight code from the op cache one.
    """
    usual = laboratory.kit.DISPATCHED
    if _off(laboratory, nop, figure, usual) <= _PLACE:
        return nop, figure, usual
    others = [nop, *_others(laboratory.kit)]
    figures = _figures(laboratory, others)
    tried = [(o, f) for o, f in zip(others, figures, strict=True) if f and _whole(_rate(f))]
    # What delivers code may make a smaller number of the width, never a larger one.
    most = max((round(_rate(f)) for _, f in tried), default=0)
    best, least = (nop, figure, usual), float("inf")
    for notion in (usual, "unrolled"):
        for other, found in tried:
            if round(_rate(found)) != most or least <= _PLACE:
                continue
            if (off := _off(laboratory, other, found, notion)) < least:
                best, least = (other, found, notion), off
    return best


def _rate(figure: Figure) -> float:
    return _COPIES / figure.cycles


def _figures(laboratory: Laboratory, nops: Sequence[bytes]) -> list[Figure]:
    """Return what copies take: a slope, but all of a loop, its end too, where that is another."""
    same = [[nop] * _COPIES for nop in nops]
    out = laboratory.time(same, "slope")
    for number, (kernel, loop) in enumerate(zip(same, laboratory.time(same), strict=True)):
        inside = _COPIES * copies(kernel)
        whole = replace(loop, cycles=loop.cycles * inside / (inside + _ENDS))
        slope = out[number]
        if loop and not (slope and abs(whole.cycles - slope.cycles) <= _NEAR * slope.cycles):
            out[number] = whole
    return out


def _others(kit: Kit) -> Sequence[bytes]:
    """Return nops of other lengths, none where all instructions have one."""
    if len(kit.nop()) == len(kit.pad(max(_LENGTHS))[0]):
        return []
    return [kit.pad(size)[0] for size in _LENGTHS]


def _off(laboratory: Laboratory, nop: bytes, figure: Figure, notion: str) -> float:
    """Return by how much of a place nops of any length among such nops miss one.

    Infinite where the nops alone, or most that have another among them, have no one speed.
    """
    if not _whole(_rate(figure)):
        return float("inf")
    kit, width = laboratory.kit, round(_rate(figure))
    among = _AMONG if _others(kit) else ()
    rows = {cycles: [nop] * (width * cycles) for _, cycles in among}
    alone = dict(zip(rows, laboratory.time(list(rows.values()), notion), strict=True))
    bound = (one.cycles > cycles * (1 + _NEAR) for cycles, one in alone.items() if one)
    if notion != kit.DISPATCHED and any(bound):  # by what delivers straight code
        return float("inf")
    mixed = [form_instances.spread([kit.pad(size)[0]], rows[cycles]) for size, cycles in among]
    slots = []
    for (_, cycles), one, found in zip(among, mixed, laboratory.time(mixed, notion), strict=True):
        if found and alone[cycles]:
            ends = (alone[cycles].cycles - cycles) * copies(rows[cycles]) / copies(one)
            slots.append(width * (found.cycles - cycles - ends))
    if 2 * len(slots) <= len(among):
        return float("inf") if among else 0.0
    worst = max(abs(one - 1) for one in slots)
    return max(abs(fmean(slots) - 1), worst - _WORST)


_MOST_FILLERS = 27  # instructions: what queues hold
_WIDTHS = range(1, 17)
_KNOWN = 0.75  # of the iterations
_ROUGH = 0.5  # cycles that iterations may lie from steps, root mean square
_CLEAR = 1.25  # times as far that steps of any other width lie: of 28 iterations nearly four errors
_RETIRED = 2  # instructions a cycle that any core retires
_PLACES = 16  # of a form: what looks like as many, or more, is not told
_GROUPS = 3  # of fillers before the chain that are tried
_SHIFTED = 0.5  # cycles, squared: by how much steps of other places have to be further off

Iterations = Sequence[tuple[int, float]]  # fillers and cycles


@dataclass(frozen=True)
class Steps:
    """Cycles of iterations over fillers: a step each `width`, the first step, cycles without any.

    off is how far iterations lie from them, cycles, root mean square.
    """

    width: int
    first: int
    level: float
    off: float


def idle(kit: Kit, width: Width) -> bytes:
    """Return the shortest instruction that does nothing and takes a place."""
    return kit.SHORT if width.nops else kit.MOVE


def measure_burst(laboratory: Laboratory, chain: Chain, filler: bytes) -> Steps | None:
    """Return what fillers are dispatched in; None where that is not seen."""
    if not laboratory.kit.FENCE:
        return None
    behind = _behind(laboratory, chain)
    figures = laboratory.turns([filler * n + behind for n in range(_MOST_FILLERS + 1)])
    known = [(n, one.cycles) for n, one in enumerate(figures) if one]
    if len(known) < _KNOWN * len(figures):
        return None
    best, second = sorted((_steps(known, w) for w in _WIDTHS), key=lambda one: one.off)[:2]
    return best if best.off <= _ROUGH and second.off >= _CLEAR * best.off else None


def burst_slots(
    laboratory: Laboratory, chain: Chain, filler: bytes, steps: Steps, tested: Mapping[str, bytes]
) -> dict[str, int]:
    """Return how many places instructions take at dispatch, those that steps tell, by their names.

    None of them may use for long what the chain needs. One that keeps the chain waiting for a cycle
    does so behind some numbers of fillers alone: two groups of these have to show the same.
    """
    behind = _behind(laboratory, chain)
    most = max(_MOST_FILLERS // steps.width - 1, 1)
    votes: dict[str, Counter[int]] = {name: Counter() for name in tested}
    for before in range(most, max(most - _GROUPS, -1), -1):
        left = {name: tested[name] for name, some in votes.items() if _two_agree(some) is None}
        numbers = range(before * steps.width, (before + 1) * steps.width)
        bodies = [one + filler * n + behind for one in left.values() for n in numbers]
        figures = iter(laboratory.turns(bodies))
        for name in left:
            iterations = [(n, one.cycles) for n in numbers if (one := next(figures))]
            found = _shift(iterations, steps) if len(iterations) == len(numbers) else None
            if found is not None:
                votes[name][found] += 1
    shown = {name: _two_agree(some) for name, some in votes.items()}
    return {name: some for name, some in shown.items() if some is not None and some < _PLACES}


def _two_agree(votes: Counter[int]) -> int | None:
    """Return the places that two groups of fillers show."""
    return next((slots for slots, times in votes.items() if times > 1), None)


def _behind(laboratory: Laboratory, chain: Chain) -> bytes:
    links = max(round(_MOST_FILLERS / _RETIRED / chain.cycles), 1)
    return chain.start + chain.link * links + chain.last + laboratory.kit.FENCE


def _steps(iterations: Iterations, width: int) -> Steps:
    """Return the steps of a width that lie nearest to iterations."""
    some = []
    for first in range(width):
        rest = [cycles - (n + first) // width for n, cycles in iterations]
        level = fmean(rest)
        off = fmean((one - level) ** 2 for one in rest) ** 0.5
        some.append(Steps(width, first, level, off))
    return min(some, key=lambda one: one.off)


def _shift(iterations: Iterations, steps: Steps) -> int | None:
    """Return the places by which iterations lie behind steps; None where others are as likely."""

    def off(more: int) -> float:
        said = ((n, steps.level + (n + steps.first + more) // steps.width) for n, _ in iterations)
        return sum(
            (cycles - one) ** 2 for (_, one), (_, cycles) in zip(said, iterations, strict=True)
        )

    (least, found), (second, _) = sorted((off(more), more) for more in range(_PLACES + 1))[:2]
    clear = least <= _ROUGH**2 * len(iterations) and second >= least + _SHIFTED
    return found if clear else None
