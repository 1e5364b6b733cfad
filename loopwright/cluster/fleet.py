"""One worker of each of several machines does its part; what they bring is joined."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import pandas as pd

from loopwright.cluster import tasks
from loopwright.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

R = TypeVar("R")


def gather(
    client: "Client",
    work: Mapping[str, Callable[[], R]],
    keep: Callable[[R], pd.DataFrame],
    left_out: Sequence[str],
    *,
    called: Mapping[str, str],
    nothing: str,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Return what workers did, as rows with the worker behind them.

    work is what each has to do, by its address; keep makes rows of a result. attrs["left_out"] has
    what was left out before, and what kept a worker from its part, which says how it is called.
    progress is called with workers done and all. InputError, nothing and why, where none did its
    part.
    """
    left = list(left_out)
    addresses = list(work)
    tables = []
    for ended, (number, done) in enumerate(tasks.pinned(client, list(work.items())), 1):
        address = addresses[number]
        if isinstance(done, str):
            left.append(f"{called[address]}: {done}")
        else:
            tables.append(keep(done).assign(worker=address))
        if progress:
            progress(ended, len(addresses))
    if not tables:
        raise InputError(f"{nothing}: {'; '.join(left)}")
    found = pd.concat(tables, ignore_index=True)
    found.attrs["left_out"] = left
    return found
