"""The forms of instructions that the simulator has figures for, as instructions.csv has them."""

import csv
from collections.abc import Mapping
from functools import cache

from loopwright import paths

TABLE = "instructions.csv"


def forms(core: str) -> Mapping[str, dict[str, str]]:
    """Return the row of each form ("imul r64,r64") in a core's table; none where it has no table.

    models/pipeline/README.md says what the columns mean.
    """
    path = paths.models_root() / core / TABLE
    return _read(core, path.stat().st_mtime_ns) if path.is_file() else {}


@cache
def _read(core: str, changed: int) -> Mapping[str, dict[str, str]]:
    del changed  # when the file was: it may change while this process lives
    with (paths.models_root() / core / TABLE).open(newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            f"{row['mnemonic']} {operands}".strip(): row
            for row in rows
            for operands in row["operands"].split(";")
        }
