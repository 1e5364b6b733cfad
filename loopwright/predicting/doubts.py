"""Figures in doubt: the ranges that a calibrated core has for some forms and for its front end.

`doubtful.csv` in a core's folder has rows of instructions.csv behind a column `end`: least or most.
`front-end-least.toml` and `front-end-most.toml` are core.toml with the front ends that bind least
and most. The simulator takes either in the place of the likeliest figures.
"""

import csv
import io
from collections.abc import Sequence
from functools import cache

from loopwright import paths
from loopwright.code import binding
from loopwright.microarchs import Microarch

FILE = "doubtful.csv"
END = "instructions.doubt"  # by what name an end is asked for among the values of parameters
FRONT_END = "front_end.doubt"  # the same of the front end
LEAST, MOST = "least", "most"
FRONT_ENDS = {LEAST: "front-end-least.toml", MOST: "front-end-most.toml"}


def front_end_open(core: Microarch) -> bool:
    """Say whether the front end of a core is a range."""
    folder = paths.models_root() / core.id
    return all((folder / name).is_file() for name in FRONT_ENDS.values())


def listed(core: Microarch) -> frozenset[str]:
    """Return the names of the forms of a core whose figures are in doubt."""
    return frozenset(
        f"{row[1]} {operands}".rstrip() for row in _rows(core) for operands in row[2].split(";")
    )


def concern(core: Microarch, code: bytes) -> bool:
    """Say whether a form of some code is in doubt on a core."""
    known = listed(core)
    if not known:
        return False
    (found,) = binding.forms(core.isa, [code])
    return any(name in known for name in found or ())


def at_end(core: Microarch, table: str, end: str) -> str:
    """Return the text of instructions.csv with the figures of one end of all ranges."""
    path = paths.models_root() / core.id / FILE
    return with_rows(table, path.read_text() if path.is_file() else "", end)


def with_rows(table: str, doubtful: str, end: str) -> str:
    """Return a table of instructions with those rows of doubtful.csv that are of one end."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerows(row[1:] for row in list(csv.reader(io.StringIO(doubtful)))[1:] if row[0] == end)
    lines = table.splitlines(keepends=True)
    head = next(n for n, line in enumerate(lines) if not line.startswith("#"))
    # The simulator takes the first row of a form.
    return "".join([*lines[: head + 1], out.getvalue(), *lines[head + 1 :]])


def _rows(core: Microarch) -> Sequence[Sequence[str]]:
    path = paths.models_root() / core.id / FILE
    return _read(core.id, path.stat().st_mtime_ns) if path.is_file() else ()


@cache
def _read(core: str, changed: int) -> Sequence[Sequence[str]]:
    del changed  # when the file was: it may change while this process lives
    with (paths.models_root() / core / FILE).open(newline="") as file:
        return list(csv.reader(file))[1:]
