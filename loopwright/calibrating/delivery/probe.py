"""A kernel of the front end: code at a place, and what it is called."""

from collections.abc import Callable
from dataclasses import dataclass

from loopwright.calibrating.machines.machine import Trial

Nop = Callable[[int], bytes]  # one nop of so many bytes, 1 to 15

STRAIGHT, LOOPS = "straight code", "loops"


@dataclass(frozen=True)
class Probe:
    """Code to time, by what it shows.

    part is the kind of code; aside says that nothing is chosen by it, so that it tests the choice.
    """

    part: str
    name: str
    trial: Trial
    aside: bool = False
