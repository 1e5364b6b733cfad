"""Corrections of derived tables: figures that another source, or reason, puts right.

corrections/<core>.csv has a row for each: mnemonic and operands (regular expressions that match
whole), the column, what it has to be before (empty: anything), its value, the key of the source
(models/sources.toml) and the reason.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from table import Form, Row, Table

FOLDER = Path(__file__).parent / "corrections"
NUMBERS = ("slots", "mite", "ms")


@dataclass(frozen=True)
class Correction:
    """Change of one row."""

    mnemonic: re.Pattern[str]
    operands: re.Pattern[str]
    column: str
    was: str
    value: str
    source: str

    def meets(self, form: Form, row: Row) -> bool:
        """Say whether a row is one that this is for."""
        names = self.mnemonic.fullmatch(form.mnemonic) and self.operands.fullmatch(form.operands)
        return bool(names) and self.was in ("", str(getattr(row, self.column)))


def read(core: str) -> list[Correction]:
    """Return the corrections of a core, none where it has no file."""
    path = FOLDER / f"{core}.csv"
    if not path.is_file():
        return []
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        if row["column"] not in Row._fields or not row["reason"]:
            raise ValueError(f"{path}: {row}")
    return [
        Correction(
            re.compile(r["mnemonic"]),
            re.compile(r["operands"]),
            *(r[name] for name in ("column", "was", "value", "source")),
        )
        for r in rows
    ]


def corrected(core: str, table: Table) -> Table:
    """Return the table with its corrections; ValueError where one matches no row."""
    out = dict(table)
    for change in read(core):
        found = [form for form, row in out.items() if change.meets(form, row)]
        if not found:
            raise ValueError(f"{core}: no row for the correction {change}")
        for form in found:
            value = int(change.value) if change.column in NUMBERS else change.value
            row = out[form]._replace(**{change.column: value})
            if change.source not in row.source.split("+"):
                row = row._replace(source=f"{row.source}+{change.source}")
            out[form] = row
    return out
