"""Ask a model about blocks: in this process, or in parts on the workers of a Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

from loopwright import cluster
from loopwright.cluster import connected
from loopwright.microarchs import Microarch
from loopwright.predicting.model import Answer, Block, Model

Ask = Callable[[Model, Sequence[Block], Microarch], list[Answer]]

_PART = 1000  # blocks of a task: some seconds of the slowest model


@contextmanager
def asking(dask: str | None) -> Iterator[Ask]:
    """Yield what asks a model; dask is HOST:PORT of a scheduler, "local", or None for nobody."""
    if dask is None:
        yield _here
        return
    with connected(dask) as client:

        def there(model: Model, blocks: Sequence[Block], core: Microarch) -> list[Answer]:
            parts = _parts(model, blocks, core)
            found: list[list[Answer]] = [[] for _ in parts]
            for done in cluster.each(client, _answer, parts):
                lost = [Answer.none(done.lost) for _ in parts[done.number].blocks]
                found[done.number] = lost if done.result is None else done.result
            return [answer for part in found for answer in part]

        yield there


class _Part(NamedTuple):
    model: Model
    blocks: Sequence[Block]
    core: Microarch


def _here(model: Model, blocks: Sequence[Block], core: Microarch) -> list[Answer]:
    return model.predict(blocks, core)


def _parts(model: Model, blocks: Sequence[Block], core: Microarch) -> list[_Part]:
    """Return parts of one size, nearly, so that a model treats none as it would not treat all."""
    number = max(1, len(blocks) // _PART)
    edges = [len(blocks) * n // number for n in range(number + 1)]
    return [_Part(model, blocks[a:b], core) for a, b in pairwise(edges)]


def _answer(part: _Part) -> list[Answer]:
    return part.model.predict(part.blocks, part.core)
