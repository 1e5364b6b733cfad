"""Software pipelining: the loads of an iteration are done at the end of the previous one."""

from dataclasses import dataclass

from loopwright.improving.counted import Counted
from loopwright.improving.listing import MEMORY
from loopwright.improving.unrolling import AHEAD, AheadOfLoop, Copies


@dataclass(frozen=True)
class PipelineLoads(AheadOfLoop):
    """A loop that loads for the next iteration; the original loop does the last iteration."""

    factor: int = 2

    @property
    def name(self) -> str:
        """Return the name of the transformation."""
        return "loads one iteration ahead"

    @property
    def stem(self) -> str:
        """Return the prefix of its labels."""
        return f"{AHEAD}_ahead"

    @property
    def stride(self) -> int:
        """Return the number of iterations that one of its iterations does."""
        return 1

    condition = "the body begins with loads, which then are its last ones; and as for unrolling"

    def copies(self, loop: Counted) -> Copies | None:
        """Return the first loads, and an iteration that loads for the next one at its end."""
        loads = first_loads(loop)
        rest = [at for at in loop.body if at not in loads]
        if not loads or not rest:
            return None
        next_ones = [(1, at) for at in loads]
        return Copies([(0, at) for at in loads], [*((0, at) for at in rest), *next_ones])


def first_loads(loop: Counted) -> list[int]:
    """Return the positions of the loads at the start of a body."""
    found: list[int] = []
    for at in loop.body:
        effects = loop.listing.effects[at]
        if effects is None or MEMORY not in effects.reads or MEMORY in effects.writes:
            break
        found.append(at)
    return found
