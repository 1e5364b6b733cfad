"""Software pipelining: the loads of an iteration done at the end of the one before it."""

from dataclasses import dataclass

from loopwright.improving.counted import Counted
from loopwright.improving.listing import MEMORY
from loopwright.improving.unrolling import AHEAD, AheadOfLoop, Copies


@dataclass(frozen=True)
class PipelineLoads(AheadOfLoop):
    """A loop whose loads are of the next iteration; the last iteration is left to the loop."""

    factor: int = 2

    @property
    def name(self) -> str:
        """Return its name."""
        return "loads one iteration ahead"

    @property
    def stem(self) -> str:
        """Return what its labels begin with."""
        return f"{AHEAD}_ahead"

    @property
    def stride(self) -> int:
        """Return how many iterations one of its own does."""
        return 1

    condition = "the body begins with loads, which then are its last ones; and as for unrolling"

    def copies(self, loop: Counted) -> Copies | None:
        """Return the first loads, and an iteration with the loads of the next one behind it."""
        loads = first_loads(loop)
        rest = [at for at in loop.body if at not in loads]
        if not loads or not rest:
            return None
        next_ones = [(1, at) for at in loads]
        return Copies([(0, at) for at in loads], [*((0, at) for at in rest), *next_ones])


def first_loads(loop: Counted) -> list[int]:
    """Return the positions of the loads that a body begins with."""
    found: list[int] = []
    for at in loop.body:
        effects = loop.listing.effects[at]
        if effects is None or MEMORY not in effects.reads or MEMORY in effects.writes:
            break
        found.append(at)
    return found
