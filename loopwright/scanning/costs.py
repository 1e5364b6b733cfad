"""What loops cost on each core: where they lie, and at every other place."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from loopwright.code.outline import Outline, lacking, outlines
from loopwright.microarchs import Microarch
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.places import LINE, places

HURT = 1.3  # times the best place, from which on the place of a loop hurts it
INDIFFERENT = 1.05  # of the worst place to the best, below which no place matters

_AT_ONCE = 2048  # loops between two words of how far it has got
_BYTES_AT_ONCE = 1 << 25  # of loops whose parts lie far apart

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CoreCosts:
    """What loops cost on one core: a row each of tables, and by their number why some have none."""

    core: Microarch
    table: np.ndarray
    errors: dict[int, str]
    offsets: np.ndarray = field(repr=False)

    @cached_property
    def cycles(self) -> np.ndarray:
        """Return the cycles an iteration of each loop where it lies."""
        found: np.ndarray = self.table[np.arange(len(self.table)), self.offsets]
        return found

    @cached_property
    def best(self) -> np.ndarray:
        """Return the cycles an iteration of each loop at its best place."""
        return _of_rows(np.fmin, self.table)

    @cached_property
    def worst(self) -> np.ndarray:
        """Return the cycles an iteration of each loop at its worst place."""
        return _of_rows(np.fmax, self.table)

    @cached_property
    def hurt(self) -> np.ndarray:
        """Say of each loop whether its place hurts it."""
        return _over(self.cycles, self.best, HURT)

    @cached_property
    def depends(self) -> np.ndarray:
        """Say of each loop whether its cycles depend on its place."""
        return _over(self.worst, self.best, INDIFFERENT)


def cost(
    loops: Sequence[ScannedLoop], cores: Sequence[Microarch], progress: Progress | None = None
) -> list[CoreCosts]:
    """Return what loops cost on each core at every code offset.

    A loop has no figures on a core that lacks a feature which it needs, or of which an instruction
    is not known. progress is called with loops done and all of them, over all cores.
    """
    outlined: list[Outline | None] = [None] * len(loops)
    if loops:
        seen = outlines(loops[0].isa, [loop.executed for loop in loops])
        outlined = [one if isinstance(one, Outline) else None for one in seen]
    offsets = np.array([loop.offset for loop in loops], dtype=np.intp)
    out = []
    for number, core in enumerate(cores):
        table = np.full((len(loops), LINE), np.nan)
        errors: dict[int, str] = {}
        able = []
        for n, (loop, outline) in enumerate(zip(loops, outlined, strict=True)):
            if outline is None:
                errors[n] = "it holds bytes that are no instruction"
            elif outline.needs <= core.features:
                able.append(n)
            else:
                missing = lacking(core.isa, loop.executed, outline.needs, core.features)
                errors[n] = f"{missing}, which {core.id} lacks"
        # Loops alike in code are simulated once where they come in one call.
        able.sort(key=lambda n: (loops[n].executed, loops[n].path))
        done = number * len(loops)
        for some in _batches(able, loops):
            rows, why = places([(loops[n].code, loops[n].path) for n in some], core)
            table[some] = rows
            errors |= {some[n]: said for n, said in why.items()}
            done += len(some)
            if progress:
                progress(done, len(cores) * len(loops))
        out.append(CoreCosts(core, table, errors, offsets))
    return out


def _batches(numbers: Sequence[int], loops: Sequence[ScannedLoop]) -> Iterator[list[int]]:
    """Yield some loops after the other, as many as one call takes."""
    some: list[int] = []
    size = 0
    for n in numbers:
        some.append(n)
        size += loops[n].length
        if len(some) == _AT_ONCE or size > _BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _of_rows(choose: np.ufunc, table: np.ndarray) -> np.ndarray:
    """Return the least or most of each row, NaN where it has no figure."""
    found: np.ndarray = choose.reduce(table, axis=1)
    return found


def _over(some: np.ndarray, others: np.ndarray, times: float) -> np.ndarray:
    found: np.ndarray = some >= times * others - 1e-9
    return found
