"""Write rows to a file as they come, CSV or Parquet, which is there whole or not at all."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loopwright import files
from loopwright.errors import InputError

Write = Callable[[Sequence[Sequence[Any]]], None]


@contextmanager
def written(path: Path, columns: Mapping[str, str]) -> Iterator[Write]:
    """Yield what takes rows for a file of these columns; it appears when all of them are there.

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
