"""Scan a folder of files, one after another or on a Dask cluster, into one table."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from loopwright import cluster
from loopwright.cluster import connected
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.rows import Rows
from loopwright.scanning import folders, rank, tables
from loopwright.scanning.costs import Progress
from loopwright.scanning.scan import Question, answer

Scan = Callable[[Path], Rows]

_TYPES = {name: kind.lower() for name, kind in rank.TYPES.items()} | dict.fromkeys(
    ("into", "offset", "bytes"), "int64"
)
COLUMNS = {name: _TYPES.get(name, "string") for name in rank.COLUMNS}
"""The columns of a scan, with their Arrow types."""


@dataclass
class Scanned:
    """What became of a folder: files scanned, rows written, files left out with the reason.

    same are files with the content of another one, whose rows stand for both.
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
    """Scan every file with code below a folder into out, a CSV or Parquet file, as they are done.

    Rows are those of scan of each file, with its path in the folder before them (binary), in the
    order of paths whoever is done first; microarch left out are the targets, which are the same on
    every worker. A file that cannot be scanned has no rows, and one with the content of another is
    not scanned again. With dask, HOST:PORT or "local", workers scan; the folder has to be theirs by
    the same name. progress is called with files done and all of them. InputError where the folder
    holds no code or out cannot be written.
    """
    scan = partial(_scan, microarch or hosts.TARGETS, features)
    return gather(Path(folder), Path(out), scan, COLUMNS, dask, progress)


def _scan(microarch: str, features: str | None, path: Path) -> Rows:
    return answer(Question(path, microarch=microarch, features=features))


def gather(
    folder: Path,
    out: Path,
    scan: Scan,
    columns: Mapping[str, str],
    dask: str | None = None,
    progress: Progress | None = None,
) -> Scanned:
    """Write what scan says of each file of a folder; columns are its, with their Arrow types."""
    files, same = folders.listed(folder)
    found = Scanned(same=same)
    with (
        tables.written(out, {"binary": "string", **columns}) as write,
        _scanning(scan, dask) as scanned,
    ):
        for number, result in _in_order(scanned(files)):
            name = files[number].relative_to(folder)
            if isinstance(result, str):
                found.refused[name] = result
            else:
                write([(str(name), *row) for row in result.only(columns).values])
                found.files += 1
                found.rows += len(result.values)
            if progress:
                progress(number + 1, len(files))
    return found


@contextmanager
def _scanning(
    scan: Scan, dask: str | None
) -> Iterator[Callable[[Sequence[Path]], Iterator[tuple[int, Rows | str]]]]:
    """Yield what scans files: numbers with rows, or why there are none, in any order."""
    one = partial(_one, scan)
    if dask is None:
        yield lambda files: enumerate(map(one, files))
        return
    with connected(dask) as client:

        def there(files: Sequence[Path]) -> Iterator[tuple[int, Rows | str]]:
            for done in cluster.each(client, one, [path.absolute() for path in files]):
                yield done.number, done.lost if done.result is None else done.result

        yield there


def _one(scan: Scan, path: Path) -> Rows | str:
    try:
        return scan(path)
    except InputError as error:
        return str(error)


def _in_order(results: Iterator[tuple[int, Rows | str]]) -> Iterator[tuple[int, Rows | str]]:
    """Yield results by number, each as soon as all before it are there."""
    waiting: list[tuple[int, Rows | str]] = []
    following = 0
    for result in results:
        heapq.heappush(waiting, result)
        while waiting and waiting[0][0] == following:
            yield heapq.heappop(waiting)
            following += 1
