"""Dispatch width in instructions a cycle, by copies of nops and behind a fence.

Width. Microbenchmark: nops, which no port limits; their throughput is a whole number a cycle. On a
core that dispatches more uops than instructions, it is the number of instructions. Where nops
beside other instructions add no cycles, they share dispatch slots, and moves are counted instead,
unless two nops beside each move take the time of three nops.

Op caches deliver some regions of code more slowly, depending on their content. A nop of another
length among many therefore has to take one slot, as it does where dispatch limits; where it does
not, nops of other lengths are tried.

Bursts show the dispatch width where fetch or retirement limits copies. Microbenchmark: a loop whose
iteration is n nops, a slow chain that waits for none of them, and a fence. While the fence waits,
the queue in front of dispatch fills; while the chain runs, the nops retire. An iteration is
therefore longer by the dispatch of the nops before the chain, in steps of the width. There is no
answer where no steps are seen, or where other widths fit nearly as well. A form among the nops
shifts the steps by its slots.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from loopwright.errors import InputError
from loopwright.microbench import form_instances
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Figure, Laboratory, copies
from loopwright.microbench.window_corner import Chain

_TOLERANCE = 0.05  # relative tolerance of nops a cycle around a whole number
_FREE_NOPS = 1.1  # factor over moves alone, at most, where nops between them cost nothing
_COPIES = 8
_LENGTHS = (8, 2, 4, 6, 3, 9, 7, 1)  # bytes of nops to try where the usual one is not suitable
# Bytes of the nop among others, and cycles of those others.
_AMONG = ((2, 4), (3, 5), (4, 4), (6, 6), (7, 5), (8, 6), (9, 4), (6, 4), (7, 4))
_ENDS = 2  # slots of the end of a loop
# slots by which a nop among others may miss one, on average and at most
_SLOT_TOLERANCE, _WORST = 0.08, 0.4


@dataclass(frozen=True)
class Width:
    """Instructions dispatched a cycle, rounded and as measured, and an instruction of one slot.

    counted is that instruction: a nop if nops is true, else a move. notion names a repetition of
    copies that dispatch alone limits, as Laboratory has it.
    """

    instructions: int
    measured: float
    uncertainty: float
    counted: bytes
    nops: bool = True
    notion: str = "loop"


def measure(laboratory: Laboratory) -> Width:
    """Return the dispatch width; InputError if it is no whole number."""
    notion = laboratory.kit.DISPATCHED
    move = laboratory.kit.MOVE
    nop, figure = _timed_nop(laboratory)
    moves, both = laboratory.time([[move] * _COPIES, [nop, move] * _COPIES], "slope")
    nops = not (moves and both and both.cycles <= _FREE_NOPS * moves.cycles)
    if not nops and round(_rate(figure)) > round(_rate(moves)):
        # Ports may limit moves and leave room for nops: two nops a move then take the time of three
        # nops.
        (two_nops,) = laboratory.time([[nop, nop, move] * _COPIES], "slope")
        nops = bool(two_nops) and abs(two_nops.cycles / (3 * figure.cycles) - 1) <= _TOLERANCE
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
    return Width(round(rate), rate, error, nop if nops else move, nops, notion)


def _timed_nop(laboratory: Laboratory) -> tuple[bytes, Figure]:
    """Return the first nop with a stable speed, and the cycles of its copies."""
    refused = ""
    for nop in [laboratory.kit.nop(), *_other_nops(laboratory.kit)]:
        (figure,) = laboratory.time([[nop] * _COPIES], "slope")
        if figure:
            return nop, figure
        refused = refused or figure.refused
    raise InputError(f"{laboratory.machine.name}: nops were not measured: {refused}")


def _whole(rate: float) -> bool:
    return abs(rate - round(rate)) <= _TOLERANCE * rate


def _plain(laboratory: Laboratory, nop: bytes, figure: Figure) -> tuple[bytes, Figure, str]:
    """Return a nop that dispatch alone limits, the cycles of its copies, and their kind.

    Without such a nop, it is the closest one. Loops come first. On Redwood Cove they have two
    speeds, depending on whether a dispatch group continues behind the branch; straight code from
    the op cache has one.
    """
    usual = laboratory.kit.DISPATCHED
    if _slot_error(laboratory, nop, figure, usual) <= _SLOT_TOLERANCE:
        return nop, figure, usual
    others = [nop, *_other_nops(laboratory.kit)]
    figures = _figures(laboratory, others)
    timed = zip(others, figures, strict=True)
    whole = [(other, cycles) for other, cycles in timed if cycles and _whole(_rate(cycles))]
    # The front end may lower the width, never raise it.
    width = max((round(_rate(cycles)) for _, cycles in whole), default=0)
    best, least = (nop, figure, usual), float("inf")
    for notion in (usual, "unrolled"):
        for other, cycles in whole:
            if round(_rate(cycles)) != width or least <= _SLOT_TOLERANCE:
                continue
            if (error := _slot_error(laboratory, other, cycles, notion)) < least:
                best, least = (other, cycles, notion), error
    return best


def _rate(figure: Figure) -> float:
    return _COPIES / figure.cycles


def _figures(laboratory: Laboratory, nops: Sequence[bytes]) -> list[Figure]:
    """Return the cycles of copies: the slope, or the whole loop with its end where that differs."""
    kernels = [[nop] * _COPIES for nop in nops]
    out = laboratory.time(kernels, "slope")
    for number, (kernel, loop) in enumerate(zip(kernels, laboratory.time(kernels), strict=True)):
        instructions = _COPIES * copies(kernel)
        whole = replace(loop, cycles=loop.cycles * instructions / (instructions + _ENDS))
        slope = out[number]
        if loop and not (slope and abs(whole.cycles - slope.cycles) <= _TOLERANCE * slope.cycles):
            out[number] = whole
    return out


def _other_nops(kit: Kit) -> Sequence[bytes]:
    """Return nops of other lengths, none if all instructions have one length."""
    if len(kit.nop()) == len(kit.pad(max(_LENGTHS))[0]):
        return []
    return [kit.pad(size)[0] for size in _LENGTHS]


def _slot_error(laboratory: Laboratory, nop: bytes, figure: Figure, notion: str) -> float:
    """Return by how many slots a nop among others misses one.

    Infinite if the nops alone, or most mixtures, have no stable speed.
    """
    if not _whole(_rate(figure)):
        return float("inf")
    kit, width = laboratory.kit, round(_rate(figure))
    among = _AMONG if _other_nops(kit) else ()
    rows = {cycles: [nop] * (width * cycles) for _, cycles in among}
    alone = dict(zip(rows, laboratory.time(list(rows.values()), notion), strict=True))
    slower = (f.cycles > cycles * (1 + _TOLERANCE) for cycles, f in alone.items() if f)
    if notion != kit.DISPATCHED and any(slower):  # the front end of straight code limits them
        return float("inf")
    mixed = [form_instances.interleaved([kit.pad(size)[0]], rows[cycles]) for size, cycles in among]
    slots = []
    timed = zip(among, mixed, laboratory.time(mixed, notion), strict=True)
    for (_, cycles), kernel, figure in timed:
        if figure and alone[cycles]:
            ends = (alone[cycles].cycles - cycles) * copies(rows[cycles]) / copies(kernel)
            slots.append(width * (figure.cycles - cycles - ends))
    if 2 * len(slots) <= len(among):
        return float("inf") if among else 0.0
    worst = max(abs(n - 1) for n in slots)
    return max(abs(fmean(slots) - 1), worst - _WORST)


_MOST_FILLERS = 27  # instructions that the queue in front of dispatch holds
_WIDTHS = range(1, 17)
_ANSWERED = 0.75  # share of the iterations that need a figure
_MOST_OFF = 0.5  # cycles by which iterations may miss steps, root mean square
_CLEAR = 1.25  # factor, at least, by which the next best width misses more
_RETIRED = 2  # instructions a cycle that any core retires
_MOST_SLOTS = 16  # slots of a form: so many or more are not told apart
_GROUPS = 3  # groups of fillers before the chain that are tried
_SHIFTED = 0.5  # squared cycles by which other numbers of slots have to be further off

Iterations = Sequence[tuple[int, float]]  # fillers and cycles


@dataclass(frozen=True)
class Steps:
    """Steps of iterations over fillers: width, first step, cycles without fillers.

    off is by how much iterations miss the steps, in cycles, root mean square.
    """

    width: int
    first: int
    level: float
    off: float


def idle(kit: Kit, width: Width) -> bytes:
    """Return the shortest nop, or move, of one dispatch slot."""
    return kit.SHORT if width.nops else kit.MOVE


def measure_burst(laboratory: Laboratory, chain: Chain, filler: bytes) -> Steps | None:
    """Return the steps in which fillers are dispatched; None if no steps are seen."""
    if not laboratory.kit.FENCE:
        return None
    behind = _behind(laboratory, chain)
    figures = laboratory.iterations([filler * n + behind for n in range(_MOST_FILLERS + 1)])
    iterations = [(n, figure.cycles) for n, figure in enumerate(figures) if figure]
    if len(iterations) < _ANSWERED * len(figures):
        return None
    fits = sorted((_steps(iterations, width) for width in _WIDTHS), key=lambda steps: steps.off)
    best, second = fits[:2]
    return best if best.off <= _MOST_OFF and second.off >= _CLEAR * best.off else None


def burst_slots(
    laboratory: Laboratory, chain: Chain, filler: bytes, steps: Steps, tested: Mapping[str, bytes]
) -> dict[str, int]:
    """Return the dispatch slots of instructions by name, where the steps tell them.

    They must not use for long what the chain needs. An instruction that delays the chain by a cycle
    does so for some numbers of fillers alone, so two groups of fillers have to agree.
    """
    behind = _behind(laboratory, chain)
    most_groups = max(_MOST_FILLERS // steps.width - 1, 1)
    votes: dict[str, Counter[int]] = {name: Counter() for name in tested}
    for group in range(most_groups, max(most_groups - _GROUPS, -1), -1):
        unsure = [name for name, counts in votes.items() if _two_agree(counts) is None]
        numbers = range(group * steps.width, (group + 1) * steps.width)
        bodies = [tested[name] + filler * n + behind for name in unsure for n in numbers]
        figures = iter(laboratory.iterations(bodies))
        for name in unsure:
            iterations = [(n, figure.cycles) for n in numbers if (figure := next(figures))]
            slots = _shift(iterations, steps) if len(iterations) == len(numbers) else None
            if slots is not None:
                votes[name][slots] += 1
    agreed = {name: _two_agree(counts) for name, counts in votes.items()}
    return {name: n for name, n in agreed.items() if n is not None and n < _MOST_SLOTS}


def _two_agree(votes: Counter[int]) -> int | None:
    """Return the slots on which two groups of fillers agree."""
    return next((slots for slots, times in votes.items() if times > 1), None)


def _behind(laboratory: Laboratory, chain: Chain) -> bytes:
    """Return the chain and the fence behind the fillers."""
    links = max(round(_MOST_FILLERS / _RETIRED / chain.cycles), 1)
    return chain.start + chain.link * links + chain.last + laboratory.kit.FENCE


def _steps(iterations: Iterations, width: int) -> Steps:
    """Return the steps of a width that are closest to the iterations."""
    candidates = []
    for first in range(width):
        levels = [cycles - (n + first) // width for n, cycles in iterations]
        level = fmean(levels)
        off = fmean((one - level) ** 2 for one in levels) ** 0.5
        candidates.append(Steps(width, first, level, off))
    return min(candidates, key=lambda steps: steps.off)


def _shift(iterations: Iterations, steps: Steps) -> int | None:
    """Return the slots by which iterations lag behind steps; None if others are as likely."""

    def error(slots: int) -> float:
        first = steps.first + slots
        predicted = [steps.level + (n + first) // steps.width for n, _ in iterations]
        return sum((c - p) ** 2 for (_, c), p in zip(iterations, predicted, strict=True))

    (least, best), (second, _) = sorted((error(n), n) for n in range(_MOST_SLOTS + 1))[:2]
    clear = least <= _MOST_OFF**2 * len(iterations) and second >= least + _SHIFTED
    return best if clear else None
