"""Width: how many instructions are dispatched in a cycle.

Asked: the most that no port limits. Kernel: instructions that do nothing. Answer: a whole number a
cycle. A core that dispatches more uops than instructions shows the latter. Where nops beside other
instructions take no longer than these alone, they share places, and the others are counted, unless
two beside each take as long as so many nops.

Caches of decoded code deliver regions of code, some of them more slowly by what lies in one. So a
nop of another length among many has to take a place, as it does where dispatch binds; where it does
not, nops of other lengths are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from loopwright.calibrating import kernels
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.laboratory import Figure, Laboratory, copies
from loopwright.errors import InputError

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


def measure(laboratory: Laboratory) -> Width:
    """Return the width; InputError where the machine gives no whole number."""
    kit = laboratory.kit
    nop, other = kit.nop(), kit.MOVE
    figure, moves, both = laboratory.time(
        [[nop] * _COPIES, [other] * _COPIES, [nop, other] * _COPIES], "slope"
    )
    if not figure:
        raise InputError(f"{laboratory.machine.name}: nops were not measured: {figure.refused}")
    nops = not (moves and both and both.cycles <= _FREE * moves.cycles)
    if not nops and round(_rate(figure)) > round(_rate(moves)):
        # Ports may bind moves and leave room for nops: then two beside each take as long as nops.
        (two,) = laboratory.time([[nop, nop, other] * _COPIES], "slope")
        nops = bool(two) and abs(two.cycles / (3 * figure.cycles) - 1) <= _NEAR
    if nops:
        nop, figure = _plain(laboratory, nop, figure)
    else:
        figure = moves
    rate = _rate(figure)
    if not _whole(rate):
        raise InputError(
            f"{laboratory.machine.name}: {rate:.2f} {'nops' if nops else 'moves'} a cycle are no "
            "width; measure on a quiet machine"
        )
    error = rate * figure.uncertainty / figure.cycles
    return Width(round(rate), rate, error, nop if nops else other, nops)


def _whole(rate: float) -> bool:
    return abs(rate - round(rate)) <= _NEAR * rate


def _plain(laboratory: Laboratory, nop: bytes, figure: Figure) -> tuple[bytes, Figure]:
    """Return a nop that dispatch alone binds, and what copies of it take; else the nearest one."""
    if _off(laboratory, nop, figure) <= _PLACE:
        return nop, figure
    others = [nop, *_others(laboratory.kit)]
    figures = _figures(laboratory, others)
    tried = [(o, f) for o, f in zip(others, figures, strict=True) if f and _whole(_rate(f))]
    # What delivers code may make a smaller number of the width, never a larger one.
    most = max((round(_rate(f)) for _, f in tried), default=0)
    best, least = (nop, figure), float("inf")
    for other, found in tried:
        if round(_rate(found)) == most and (off := _off(laboratory, other, found)) < least:
            best, least = (other, found), off
            if off <= _PLACE:
                break
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


def _off(laboratory: Laboratory, nop: bytes, figure: Figure) -> float:
    """Return by how much of a place nops of any length among such nops miss one."""
    if not _whole(_rate(figure)):
        return float("inf")
    kit, width = laboratory.kit, round(_rate(figure))
    among = _AMONG if _others(kit) else ()
    rows = {cycles: [nop] * (width * cycles) for _, cycles in among}
    alone = dict(zip(rows, laboratory.time(list(rows.values()), kit.DISPATCHED), strict=True))
    mixed = [kernels.spread([kit.pad(size)[0]], rows[cycles]) for size, cycles in among]
    places = []
    for (_, cycles), one, found in zip(
        among, mixed, laboratory.time(mixed, kit.DISPATCHED), strict=True
    ):
        if found and alone[cycles]:
            ends = (alone[cycles].cycles - cycles) * copies(rows[cycles]) / copies(one)
            places.append(width * (found.cycles - cycles - ends))
    if not places:
        return 0.0
    worst = max(abs(one - 1) for one in places)
    return max(abs(fmean(places) - 1), worst - _WORST)
