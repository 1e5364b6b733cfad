"""Scan of a folder's files, one after another or on a Dask cluster, into one table."""

import csv
import hashlib
import heapq
import logging
import re
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from loopwright import files, paths
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.paths import VERSION
from loopwright.rows import Rows
from loopwright.scanning import images, scan
from loopwright.scanning.costs import Progress
from loopwright.scanning.scan import Question, answer

if TYPE_CHECKING:
    from distributed import Client, Future


LOCAL = "local"
_ADDRESS = re.compile(r"(\w+://)?(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):\d{1,5}")
_SCHEDULER_TIMEOUT = 10  # s to wait for a scheduler's answer
_FIRST_WORKER_TIMEOUT = 30  # s to wait for the first worker


@contextmanager
def connected(where: str) -> Iterator["Client"]:
    """Yield a client of the Dask scheduler at HOST:PORT, or of workers here where it is "local".

    InputError if Dask is not installed, no scheduler answers or has a worker, or if a worker
    lacks loopwright, or has another version or other cores.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            "dask.distributed is not here: pip install 'loopwright[cluster]', or leave --dask out"
        ) from None
    # The rows name the lost workers; Dask's warnings would repeat them.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if where == LOCAL:
        with (
            LocalCluster(
                threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    if not _ADDRESS.fullmatch(where):
        raise InputError(f"{where!r} is no Dask scheduler; give its HOST:PORT, or local")
    try:
        client = Client(where, timeout=_SCHEDULER_TIMEOUT)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else "no answer"
        raise InputError(
            f"no Dask scheduler at {where}: {reason}; start one with `dask scheduler`, or "
            "say --dask local"
        ) from None
    with client:
        _wait_for_worker(client, where)
        _require_same_loopwright(client)
        yield client


def identity() -> str:
    """Return the version and a digest of the cores: equal ones give equal figures."""
    return _identity(str(paths.models_root()))


@lru_cache(maxsize=1)
def _identity(models: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in Path(models).glob("*/*") if p.is_file()):
        if path.suffix in (".toml", ".csv") and path.parent.name not in ("derive", "pipeline"):
            digest.update(path.parent.name.encode() + b"\0" + path.name.encode() + b"\0")
            digest.update(path.read_bytes())
    return f"loopwright {VERSION}, cores {digest.hexdigest()[:12]}"


def _wait_for_worker(client: "Client", where: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_FIRST_WORKER_TIMEOUT)
    except TimeoutError:
        raise InputError(
            f"the Dask scheduler at {where} has no worker; start one with `dask worker {where}`"
        ) from None


def _require_same_loopwright(client: "Client") -> None:
    """Raise InputError unless all workers have this machine's loopwright and cores."""
    ours = identity()
    for worker, reply in client.run(identity, on_error="return").items():
        if isinstance(reply, ModuleNotFoundError):
            raise InputError(f"worker {worker} has no loopwright; install {ours} there")
        if isinstance(reply, Exception):
            raise InputError(f"worker {worker} does not answer: {type(reply).__name__}: {reply}")
        if reply != ours:
            raise InputError(f"worker {worker} has {reply}, and here is {ours}; install the same")


T = TypeVar("T")
R = TypeVar("R")

_TASKS_PER_THREAD = 4  # tasks for each thread of a worker: bounds memory, and keeps workers busy
_CHECK_INTERVAL = 2.0  # s between checks for workers, at most
_RESULT_TIMEOUT = 10.0  # s to wait for a result
_WORKER_TIMEOUT = 60.0  # s to wait for a new worker after the last one is lost


@dataclass(frozen=True)
class Done(Generic[R]):
    """The result of one item, by its number; lost is the reason where there is none."""

    number: int
    result: R | None = None
    lost: str = ""


def each(
    client: "Client",
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    worker_timeout: float = _WORKER_TIMEOUT,
) -> Iterator[Done[R]]:
    """Yield the function's result for each item once, in the order of completion.

    The items of a lost worker go to another one. An item that ends four workers is lost; an error
    of the function is raised here. InputError after worker_timeout seconds without a worker.
    """
    from distributed.scheduler import KilledWorker

    ours = identity()
    pending = enumerate(items)
    running: dict[Future[R], int] = {}
    worker_seen = time.monotonic()
    while True:
        threads = sum(_workers(client).values())
        room = _TASKS_PER_THREAD * max(1, threads) - len(running)
        for number, item in islice(pending, max(0, room)):
            running[client.submit(_checked, ours, function, item, pure=False)] = number
        if not running:
            return
        ended = _ended(running)
        now = time.monotonic()
        worker_seen = now if threads else worker_seen
        if now - worker_seen > worker_timeout:
            raise InputError(
                f"no worker has been left for {worker_timeout:.0f} s, with {len(running)} tasks "
                "under way; start workers, and the command again"
            )
        for future in ended:
            number = running.pop(future)
            try:
                yield Done(number, future.result(timeout=_RESULT_TIMEOUT))
            except TimeoutError:  # its worker was lost together with the result
                running[future] = number
            except KilledWorker:
                yield Done(number, lost="it took every worker with it that tried it")
            except CancelledError:
                raise InputError(
                    "the Dask scheduler was lost; start it, and the command again"
                ) from None


def _ended(running: "Iterable[Future[Any]]") -> "set[Future[Any]]":
    """Return the futures that have ended, as soon as one has; none after a while."""
    from distributed import wait

    try:
        done: set[Future[Any]] = wait(
            list(running), timeout=_CHECK_INTERVAL, return_when="FIRST_COMPLETED"
        ).done
    except TimeoutError:
        return set()
    return done


def _workers(client: "Client") -> dict[str, int]:
    """Return the workers' addresses and threads; none if the scheduler does not answer."""
    try:
        threads: dict[str, int] = client.nthreads()
    except OSError:
        return {}
    return threads


def _checked(expected: str, function: Callable[[T], R], item: T) -> R:
    """Run a task; a worker that joined late may have another loopwright."""
    if (here := identity()) != expected:
        raise InputError(f"a worker has {here}, and {expected} is asked for; install the same")
    return function(item)


Write = Callable[[Sequence[Sequence[Any]]], None]


@contextmanager
def written_table(path: Path, columns: Mapping[str, str]) -> Iterator[Write]:
    """Yield a writer of rows for a file of these columns; the file appears when it is complete.

    path ends in .csv or .parquet; columns have their Arrow types, "string", "int64", "uint64" or
    "float64". InputError if it ends otherwise, cannot be written, or pyarrow is missing.
    """
    formats = {".csv": _csv, ".parquet": _parquet}
    if path.suffix not in formats:
        raise InputError(f"{path} does not end in .csv or .parquet; name the table so")
    with files.replaced(path) as part, formats[path.suffix](part, columns) as write:
        yield write


@contextmanager
def _csv(path: Path, columns: Mapping[str, str]) -> Iterator[Write]:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        yield writer.writerows


@contextmanager
def _parquet(path: Path, columns: Mapping[str, str]) -> Iterator[Write]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            "pyarrow is not here: pip install 'loopwright[cluster]', or name the table .csv"
        ) from None
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in columns.items()])

    def write(rows: Sequence[Sequence[Any]]) -> None:
        values = zip(*rows, strict=True) if rows else [()] * len(columns)
        arrays = [pa.array(list(v), field.type) for v, field in zip(values, schema, strict=True)]
        writer.write_table(pa.table(arrays, schema=schema))

    with parquet.ParquetWriter(path, schema) as writer:
        yield write


ScanFile = Callable[[Path], Rows]

_TYPES = {name: kind.lower() for name, kind in scan.TYPES.items()} | dict.fromkeys(
    ("into", "offset", "bytes"), "int64"
)
COLUMNS = {name: _TYPES.get(name, "string") for name in scan.COLUMNS}
"""The columns of a scan, with their Arrow types."""


@dataclass
class Scanned:
    """The result of a folder's scan: files scanned, rows written, files left out with the reason.

    same are files with the content of another one, whose rows count for both.
    """

    files: int = 0
    rows: int = 0
    same: dict[Path, Path] = field(default_factory=dict)
    refused: dict[Path, str] = field(default_factory=dict)


def scan_folder(
    folder: Path | str,
    out: Path | str,
    *,
    microarch: str | None = None,
    features: str | None = None,
    dask: str | None = None,
    progress: Progress | None = None,
) -> Scanned:
    """Scan every file with code below a folder into out, a CSV or Parquet file.

    Rows are those of scan of each file, with its path in the folder before them (binary), in the
    order of paths; microarch left out are the targets, which are the same on every worker. A file
    that cannot be scanned has no rows, and one with the content of another is not scanned again.
    With dask, HOST:PORT or "local", workers scan; the folder has to have the same name there.
    progress is called with the number of files done and of all. InputError if the folder holds
    no code or out cannot be written.
    """
    scan_file = partial(_scan_file, microarch or hosts.TARGETS, features)
    return gather(Path(folder), Path(out), scan_file, COLUMNS, dask, progress)


def _scan_file(microarch: str, features: str | None, path: Path) -> Rows:
    return answer(Question(path, microarch=microarch, features=features))


def gather(
    folder: Path,
    out: Path,
    scan_file: ScanFile,
    columns: Mapping[str, str],
    dask: str | None = None,
    progress: Progress | None = None,
) -> Scanned:
    """Write the rows of scan_file for each file of a folder; columns have their Arrow types."""
    files, same = images.listed_files(folder)
    scanned = Scanned(same=same)
    task = partial(_rows_or_error, scan_file)
    with ExitStack() as stack:
        write = stack.enter_context(written_table(out, {"binary": "string", **columns}))
        if dask is None:
            results: Iterable[tuple[int, Rows | str]] = enumerate(map(task, files))
        else:
            client = stack.enter_context(connected(dask))
            done = each(client, task, [path.absolute() for path in files])
            results = ((x.number, x.lost if x.result is None else x.result) for x in done)
        for number, result in _in_order(results):
            name = files[number].relative_to(folder)
            if isinstance(result, str):
                scanned.refused[name] = result
            else:
                write([(str(name), *row) for row in result.only(columns).values])
                scanned.files += 1
                scanned.rows += len(result.values)
            if progress:
                progress(number + 1, len(files))
    return scanned


def _rows_or_error(scan_file: ScanFile, path: Path) -> Rows | str:
    try:
        return scan_file(path)
    except InputError as error:
        return str(error)


def _in_order(results: Iterable[tuple[int, Rows | str]]) -> Iterator[tuple[int, Rows | str]]:
    """Yield results by number, each as soon as all before it are complete."""
    waiting: list[tuple[int, Rows | str]] = []
    next_number = 0
    for result in results:
        heapq.heappush(waiting, result)
        while waiting and waiting[0][0] == next_number:
            yield heapq.heappop(waiting)
            next_number += 1
