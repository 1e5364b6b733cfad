"""A trial as a job of the harness, and what the harness read of it as an answer.

A host and a kit elsewhere ask the same and hear the same.
"""

from collections.abc import Sequence

from loopwright.calibrating.machines.machine import COUNTER, Timing, Trial
from loopwright.measuring.blocks import slopes
from loopwright.measuring.blocks.block import Block
from loopwright.measuring.blocks.slopes import BlockReading

_SAMPLES = 16  # the least that the harness makes a reading of: there are tens of thousands


def block(isa: str, name: str, trial: Trial) -> Block:
    """Return a trial as a block that has that name."""
    counter = COUNTER[isa] if trial.notion == "loop" else ""
    # Pointers are aligned to lines, so that displacements say what lies in one.
    return Block(name, trial.notion, trial.offset, trial.code, counter, wide=True, samples=_SAMPLES)


def timing(readings: Sequence[BlockReading]) -> Timing:
    """Return the figure of one process; a refusal is passing where the code is no reason for it."""
    found = slopes.result(readings, 1)
    if found["status"] == "refused":
        return Timing(None, refused=found["reason"], passing=readings[-1].disturbed)
    return Timing(found["cycles"], found["uncertainty"])
