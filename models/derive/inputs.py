"""The public measurements that tables are made from: where they lie here, and how each is read.

models/derive/README.md says what every file holds and where the public finds it.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("LOOPWRIGHT_SHARED", REPO.parent / "shared"))
DATA = SHARED / "data"
Record = dict[str, Any]


class MissingError(Exception):
    """A file that a table is made from is not here."""


def _open(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise MissingError(f"{path} is not here: set LOOPWRIGHT_SHARED (models/derive/README.md)")
    with gzip.open(path, "rt") as lines:
        yield from lines


def uops_info(arch: str) -> list[Record]:
    """Return the records of one architecture, as uops.info's XML has them."""
    return [json.loads(line) for line in _open(DATA / "uops" / f"{arch}.jsonl.gz")]


def measured(name: str) -> list[dict[str, str]]:
    """Return the rows of one file of measurements: source, core, asm, notion, cycles, note."""
    return list(csv.DictReader(_open(DATA / "measured" / f"{name}.csv.gz")))


@dataclass
class Summary:
    """Row of uops.info's HTML table for a form: strings as published, empty if not measured."""

    throughput: str = ""
    latency: str = ""
    uops: str = ""
    ports: str = ""
    family: str = ""
    computed: str = ""

    def cycles(self) -> float | None:
        """Return the measured reciprocal throughput."""
        return float(self.throughput) if self.throughput else None

    def bounds(self) -> tuple[int, int] | None:
        """Return the least and the largest latency of any operand pair, bounds as they are."""
        numbers = [round(float(n)) for n in re.findall(r"\d+(?:\.\d+)?", self.latency)]
        return (min(numbers), max(numbers)) if numbers else None


def summaries(core: str) -> dict[str, Summary]:
    """Return uops.info's table of one AMD core by the string of the form."""
    out: dict[str, Summary] = {}
    for row in measured(f"uops_info_{core}"):
        entry = out.setdefault(row["asm"], Summary())
        found = re.match(r"family (\S+); uops (\S*); ports (.*)", row["note"])
        if found:
            entry.family, entry.uops, entry.ports = found.groups()
        if row["notion"].startswith("latency"):
            entry.latency = row["cycles"]
        elif row["notion"].endswith("measured"):
            entry.throughput = row["cycles"]
        elif "computed from ports" in row["notion"]:
            entry.computed = row["cycles"]
    return out
