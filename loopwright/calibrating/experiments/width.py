"""Width: how many instructions are dispatched in a cycle.

Asked: the most that no port limits. Kernel: instructions that do nothing. Answer: a whole number a
cycle. A core that dispatches more uops than instructions shows the latter.
"""

from dataclasses import dataclass

from loopwright.calibrating.laboratory import Laboratory
from loopwright.errors import InputError

_NEAR = 0.05  # of an instruction a cycle


@dataclass(frozen=True)
class Width:
    """Instructions a cycle, as measured and as a whole number."""

    instructions: int
    measured: float
    uncertainty: float


def measure(laboratory: Laboratory) -> Width:
    """Return the width; InputError where the machine gives no whole number."""
    (figure,) = laboratory.time([[laboratory.kit.nop()] * 8])
    if not figure:
        raise InputError(f"{laboratory.machine.name}: nops were not measured: {figure.refused}")
    rate = 8 / figure.cycles
    if abs(rate - round(rate)) > _NEAR * rate:
        raise InputError(
            f"{laboratory.machine.name}: {rate:.2f} nops a cycle are no width; "
            "measure on a quiet machine"
        )
    return Width(round(rate), rate, rate * figure.uncertainty / figure.cycles)
