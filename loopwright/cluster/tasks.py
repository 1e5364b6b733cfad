"""Have each of many items worked on once, whatever workers come, go and are lost meanwhile."""

import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from loopwright.cluster.workers import identity
from loopwright.errors import InputError

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 4  # tasks for each thread of a worker: memory stays flat, and nobody waits
_LOOK = 2.0  # s between looks at whether anybody is left
_FETCH = 10.0  # s that a result has to come in
_ALONE = 60.0  # s without a worker after which nobody is waited for


@dataclass(frozen=True)
class Done(Generic[R]):
    """What came of one item, by its number; lost says why nothing did."""

    number: int
    result: R | None = None
    lost: str = ""


def each(
    client: "Client", function: Callable[[T], R], items: Iterable[T], *, alone: float = _ALONE
) -> Iterator[Done[R]]:
    """Yield what function makes of each item, as it comes; each item once.

    What a worker had when it was lost goes to another one. An item that takes four workers with it
    is lost; an error that the function raises is raised here. InputError where no worker is left
    for so many seconds.
    """
    from distributed.scheduler import KilledWorker

    ours = identity()
    left = enumerate(items)
    running: dict[Future[R], int] = {}
    seen = time.monotonic()
    while True:
        threads = sum(_workers(client).values())
        room = _AHEAD * max(1, threads) - len(running)
        for number, item in islice(left, max(0, room)):
            running[client.submit(_checked, ours, function, item, pure=False)] = number
        if not running:
            return
        ended = _ended(running)
        now = time.monotonic()
        seen = now if threads else seen
        if now - seen > alone:
            raise InputError(
                f"no worker has been left for {alone:.0f} s, with {len(running)} tasks under way; "
                "start workers, and the command again"
            )
        for future in ended:
            number = running.pop(future)
            try:
                yield Done(number, future.result(timeout=_FETCH))
            except TimeoutError:  # its worker was lost with what it had made
                running[future] = number
            except KilledWorker:
                yield Done(number, lost="it took every worker with it that tried it")
            except CancelledError:
                raise InputError(
                    "the Dask scheduler was lost; start it, and the command again"
                ) from None


def pinned(
    client: "Client", parts: Sequence[tuple[str, Callable[[], R]]]
) -> Iterator[tuple[int, R | str]]:
    """Yield what functions return, each on the worker at its address and nowhere else.

    Each comes with its number, as it ends; text says why one has nothing: what is bad input there,
    or that its worker was lost.
    """
    running: dict[Future[Any], int] = {
        client.submit(function, workers=[where], allow_other_workers=False, pure=False): number
        for number, (where, function) in enumerate(parts)
    }
    while running:
        ended = _ended(running)
        there = _workers(client)
        for future, number in list(running.items()):
            if future in ended:
                yield number, _outcome(future)
            elif parts[number][0] not in there:
                yield number, "its worker was lost"
            else:
                continue
            del running[future]


def _outcome(future: "Future[Any]") -> Any:
    try:
        return future.result(timeout=_FETCH)
    except InputError as error:
        return str(error)
    except TimeoutError:
        return "its worker was lost"
    except CancelledError:
        return "the Dask scheduler was lost"


def _ended(running: "Iterable[Future[Any]]") -> "set[Future[Any]]":
    """Return those that have ended as soon as one has; none where none does for a while."""
    from distributed import wait

    try:
        done: set[Future[Any]] = wait(
            list(running), timeout=_LOOK, return_when="FIRST_COMPLETED"
        ).done
    except TimeoutError:
        return set()
    return done


def _workers(client: "Client") -> dict[str, int]:
    """Return the workers' addresses and threads; none where the scheduler does not answer."""
    try:
        found: dict[str, int] = client.nthreads()
    except OSError:
        return {}
    return found


def _checked(expected: str, function: Callable[[T], R], item: T) -> R:
    """Run a task; a worker that came late may have another loopwright."""
    if (here := identity()) != expected:
        raise InputError(f"a worker has {here}, and {expected} is asked for; install the same")
    return function(item)
