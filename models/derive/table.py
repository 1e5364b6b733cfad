"""instructions.csv: its columns, and how a table is written."""

from __future__ import annotations

import csv
import io
from typing import NamedTuple

from inputs import REPO


class Form(NamedTuple):
    """A mnemonic as the simulator names it, and the signature of its operands."""

    mnemonic: str
    operands: str


class Row(NamedTuple):
    """Figures of a form, in the order of the columns (models/pipeline/README.md)."""

    slots: int
    mite: int
    ms: int
    decoder: str
    ports: str
    latency: str
    flags: str
    indexed: str
    same: str
    source: str


Table = dict[Form, Row]
COLUMNS = [*Form._fields, *Row._fields]


def text(table: Table, title: str) -> str:
    """Return the table as it is kept: forms of a mnemonic with the same figures share a row."""
    groups: dict[tuple[str, Row], list[str]] = {}
    for form, row in table.items():
        groups.setdefault((form.mnemonic, row), []).append(form.operands)
    out = io.StringIO()
    out.write(f"# {title}; layout: models/pipeline/README.md\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for (mnemonic, row), operands in sorted(groups.items(), key=lambda item: item[0]):
        writer.writerow([mnemonic, ";".join(operands), *row])
    return out.getvalue()


def ports_text(uops: dict[str, int]) -> str:
    """Return ports as a table has them: 2*015+23."""
    return "+".join(f"{n}*{p}" if n != 1 else p for p, n in sorted(uops.items()) if n)


def path(core: str) -> str:
    """Return where the table of a core is kept."""
    return str(REPO / "models" / core / "instructions.csv")
