"""Usage of instruction forms: how many of a million instructions in libraries are of each."""

import csv
from collections.abc import Mapping
from functools import cache

from loopwright import paths

_TABLE = paths.HOME / "models" / "form_usage.csv"  # of x86-64, by models/derive/form_usage.py


@cache
def per_million() -> Mapping[str, float]:
    """Return instructions of each form, by its name; rarer ones than 1 in a million have none."""
    with _TABLE.open(newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["form"]: float(row["per_million"]) for row in rows}
