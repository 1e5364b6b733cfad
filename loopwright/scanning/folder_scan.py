"""Scan a folder of files, one after another or on a Dask cluster, into one table."""

import csv
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from loopwright import cluster, files
from loopwright.cluster import connected
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.rows import Rows
from loopwright.scanning import images, scan
from loopwright.scanning.costs import Progress
from loopwright.scanning.scan import Question, answer

Write = Callable[[Sequence[Sequence[Any]]], None]


@contextmanager
def written_table(path: Path, columns: Mapping[str, str]) -> Iterator[Write]:
    """Yield a writer of rows for a file of these columns; it appears when all are there.

    path ends in .csv or .parquet; columns have their Arrow types, "string", "int64", "uint64" or
    "float64". InputError where it ends otherwise, cannot be written, or pyarrow is missing.
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


Scan = Callable[[Path], Rows]

_TYPES = {name: kind.lower() for name, kind in scan.TYPES.items()} | dict.fromkeys(
    ("into", "offset", "bytes"), "int64"
)
COLUMNS = {name: _TYPES.get(name, "string") for name in scan.COLUMNS}
"""The columns of a scan, with their Arrow types."""


@dataclass
class Scanned:
    """The result of a folder's scan: files scanned, rows written, files left out with the reason.

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
    files, same = images.listed_files(folder)
    found = Scanned(same=same)
    with (
        written_table(out, {"binary": "string", **columns}) as write,
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
    """Yield a scanner of files: numbers with rows, or with the reason for none, in any order."""
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
