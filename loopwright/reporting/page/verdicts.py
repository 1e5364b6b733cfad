"""The verdict on each routine in a few words, for the page's first screen."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from loopwright.judging.recommend import Kind
from loopwright.judging.verdicts import CONTESTED, EVERY, OPEN, WINS
from loopwright.machine import hosts
from loopwright.reporting.findings import Finding

_BY_CORE = (Kind.SPLIT, Kind.OPEN, Kind.CONTESTED)
_WORDS = {
    Kind.WINNER: "ship",
    Kind.SPLIT: "split",
    Kind.OPEN: "open",
    Kind.CONTESTED: "contested",
    Kind.BASELINE: "keep",
    Kind.SHORT: "unknown",
    Kind.SILENT: "unknown",
}


@dataclass(frozen=True)
class RoutineVerdict:
    """A routine's verdict: word is "ship", "split", "open", "contested", "keep" or "unknown", said
    the rest of it.

    cores has for cores, and conditions on them, which variants win there by size, or "open".
    """

    kernel: str
    routine: str
    word: str
    said: str
    cores: tuple[tuple[str, str], ...]

    @property
    def section(self) -> str:
        """Return the id of the section that has the details."""
        return kernel_name(self.kernel)


def kernel_name(kernel: str) -> str:
    """Return the id of a kernel's section on the page."""
    return kernel.replace("/", "-").replace("_", "-")


def verdicts(findings: Sequence[Finding]) -> list[RoutineVerdict]:
    """Return the verdict on every routine of a report."""
    return [
        _verdict(found, {str(key): value for key, value in row.items()})
        for found in findings
        for row in found.recommendation.to_dict("records")
    ]


def _verdict(found: Finding, row: dict[str, object]) -> RoutineVerdict:
    routine, winner, baseline = (str(row[key]) for key in ("routine", "winner", "baseline"))
    bands = found.bands
    if len(bands):
        bands = bands[(bands["routine"] == routine) & (bands["microarch"] != EVERY)]
    kind = Kind(str(row["answer"]))
    if kind is Kind.WINNER:
        said = f"{winner}, {row['margin_percent']:+.0f} % against {baseline}"
    elif kind is Kind.BASELINE:
        said = f"{baseline}: no variant is proven faster"
    elif kind in _BY_CORE:
        said = f"against {baseline}"
    else:
        said = str(kind)
    cores = tuple(_cores(bands)) if kind in _BY_CORE and len(bands) else ()
    word = _WORDS[kind]
    return RoutineVerdict(found.kernel.id, routine, word, said, cores)


def _cores(bands: pd.DataFrame) -> list[tuple[str, str]]:
    """Return cores with what is won or contested on them by size, then those where it is open.

    Cores with the same bands share an entry, and a condition that changes nothing has none.
    """
    said: dict[tuple[str, str], str] = {}
    for (core, condition), mine in bands.groupby(["microarch", "condition"], sort=False):
        every = mine.to_dict("records")
        parts = _bands([band for band in every if band["status"] in (WINS, CONTESTED)])
        is_open = OPEN in set(mine["status"]) and not condition
        said[str(core), str(condition)] = ", ".join(parts) or ("open" if is_open else "")
    of_text: dict[str, list[str]] = {}
    for (core, condition), text in said.items():
        if text and not (condition and text == said.get((core, ""))):
            name = hosts.marked(core)
            where = f"{name} if {condition}" if condition else name
            of_text.setdefault(text, []).append(where)
    order = sorted(of_text, key=lambda text: text == "open")
    return [(", ".join(of_text[text]), text) for text in order]


def _bands(won: Sequence[Mapping[Hashable, object]]) -> list[str]:
    """Return variants with the sizes that each wins, or is contested at."""
    sizes: dict[str, list[str]] = {}
    for band in won:
        low, high = band["from_bytes"], band["to_bytes"]
        mark = " contested" if band["status"] == CONTESTED else ""
        sizes.setdefault(f"{band['variant']}{mark}", []).append(
            f"{low}" if low == high else f"{low} to {high}"
        )
    return [f"{variant} {' and '.join(some)} B" for variant, some in sizes.items()]
