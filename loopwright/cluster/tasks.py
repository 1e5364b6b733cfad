"""Have each of many items worked on once, whatever workers come, go and are lost meanwhile."""

import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    from distributed import wait
    from distributed.scheduler import KilledWorker

    ours = identity()
    left = enumerate(items)
    running: dict[Future[R], int] = {}
    seen = time.monotonic()
    while True:
        for number, item in left:
            running[client.submit(_checked, ours, function, item, pure=False)] = number
            if len(running) >= _AHEAD * max(1, _threads(client)):
                break
        if not running:
            return
        try:
            ended = wait(list(running), timeout=_LOOK, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            ended = set()
        now = time.monotonic()
        seen = now if _threads(client) else seen
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
    from distributed import wait

    running: dict[Future[Any], int] = {
        client.submit(function, workers=[where], allow_other_workers=False, pure=False): number
        for number, (where, function) in enumerate(parts)
    }
    while running:
        try:
            ended = wait(list(running), timeout=_LOOK, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            ended = set()
        there = _addresses(client)
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


def _addresses(client: "Client") -> set[str]:
    try:
        return set(client.nthreads())
    except OSError:
        return set()


def _threads(client: "Client") -> int:
    """Return how many threads the workers have; none where the scheduler does not answer."""
    try:
        return sum(client.nthreads().values())
    except OSError:
        return 0


def _checked(expected: str, function: Callable[[T], R], item: T) -> R:
    """Run a task; a worker that came late may have another loopwright."""
    if (here := identity()) != expected:
        raise InputError(f"a worker has {here}, and {expected} is asked for; install the same")
    return function(item)
