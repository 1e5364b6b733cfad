"""Width: how many instructions are dispatched in a cycle.

Asked: the most that no port limits. Kernel: instructions that do nothing. Answer: a whole number a
cycle. A core that dispatches more uops than instructions shows the latter. Where nops beside other
instructions take no longer than these alone, they share places, and the others are counted.
"""

from dataclasses import dataclass

from loopwright.calibrating.laboratory import Laboratory
from loopwright.errors import InputError

_NEAR = 0.05  # of an instruction a cycle
_FREE = 1.1  # times what others take alone that they take with nops between, which cost nothing
_COPIES = 8


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
    nop, other = laboratory.kit.nop(), laboratory.kit.MOVE
    figure, moves, both = laboratory.time(
        [[nop] * _COPIES, [other] * _COPIES, [nop, other] * _COPIES], "slope"
    )
    if not figure:
        raise InputError(f"{laboratory.machine.name}: nops were not measured: {figure.refused}")
    nops = not (moves and both and both.cycles <= _FREE * moves.cycles)
    figure = figure if nops else moves
    rate = _COPIES / figure.cycles
    if abs(rate - round(rate)) > _NEAR * rate:
        raise InputError(
            f"{laboratory.machine.name}: {rate:.2f} {'nops' if nops else 'moves'} a cycle are no "
            "width; measure on a quiet machine"
        )
    error = rate * figure.uncertainty / figure.cycles
    return Width(round(rate), rate, error, nop if nops else other, nops)
