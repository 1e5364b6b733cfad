"""A trial as a job of the harness, and what the harness read of it as an answer.

A host and a kit elsewhere ask the same and hear the same.
"""

from collections.abc import Sequence

from loopwright.calibrating.machines.machine import COUNTER, Timing, Trial
from loopwright.measuring.blocks import slopes
from loopwright.measuring.blocks.block import Block
from loopwright.measuring.blocks.slopes import BlockReading

_SAMPLES = 10  # the least that the harness makes a reading of: there are tens of thousands
_UNSTEADY = 8  # tries without one speed, though nothing disturbed them, after which there is none


def block(isa: str, name: str, trial: Trial) -> Block:
    """Return a trial as a block that has that name."""
    counter = COUNTER[isa] if trial.notion == "loop" else ""
    # Pointers are aligned to lines, so that displacements say what lies in one.
    return Block(name, trial.notion, trial.offset, trial.code, counter, wide=True, samples=_SAMPLES)


def timing(readings: Sequence[BlockReading]) -> Timing:
    """Return the figure that one of some tries brought, or the refusal of the last.

    A refusal is passing where the code is no reason for it. Code that had no one speed again and
    again has none.
    """
    known = [one for one in readings if not one.refused]
    if known:
        found = slopes.result(known[-1:], 1)
        return Timing(found["cycles"], found["uncertainty"])
    last = readings[-1]
    unsteady = sum(one.unsteady for one in readings)
    if last.unsteady and unsteady >= _UNSTEADY:
        return Timing(None, refused=f"{last.refused}; so in {unsteady} tries")
    return Timing(None, refused=last.refused, passing=last.disturbed)
