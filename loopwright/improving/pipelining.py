"""Software pipelining: the loads of an iteration at the end of the iteration before it."""

from dataclasses import dataclass

from loopwright.improving.counted import Counted
from loopwright.improving.listing import MEMORY
from loopwright.improving.unrolling import AHEAD, AheadOfLoop, Copies


@dataclass(frozen=True)
class PipelineLoads(AheadOfLoop):
    """A loop whose loads belong to the next iteration; the original does the last iteration.

    Condition: the body begins with loads, and the conditions of unrolling hold.
    """

    factor: int = 2

    @property
    def name(self) -> str:
        """The name."""
        return "loads one iteration ahead"

    @property
    def stem(self) -> str:
        """The beginning of its labels."""
        return f"{AHEAD}_ahead"

    @property
    def stride(self) -> int:
        """The number of original iterations in one of its own."""
        return 1

    def copies(self, loop: Counted) -> Copies | None:
        """Return the first loads, and an iteration that ends with the loads of the next one."""
        loads = first_loads(loop)
        rest = [at for at in loop.body if at not in loads]
        if not loads or not rest:
            return None
        next_ones = [(1, at) for at in loads]
        return Copies([(0, at) for at in loads], [*((0, at) for at in rest), *next_ones])


def first_loads(loop: Counted) -> list[int]:
    """Return the positions of the loads at the beginning of a body."""
    loads: list[int] = []
    for at in loop.body:
        effects = loop.listing.effects[at]
        if effects is None or MEMORY not in effects.reads or MEMORY in effects.writes:
            break
        loads.append(at)
    return loads
