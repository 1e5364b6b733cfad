"""The verdict on each routine in a few words, for the page's first screen."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from loopwright.judging.bands import CONTESTED, EVERY, KEEPS, OPEN
from loopwright.judging.recommend import Kind
from loopwright.reporting.findings import Finding

_BEST = {KEEPS: "baseline", OPEN: "open", CONTESTED: "contested"}
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

    cores has for each core, and each condition on one, what is best there by size.
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
    """Return for each core and condition its bands that are not the baseline's."""
    out = []
    for (core, condition), mine in bands.groupby(["microarch", "condition"], sort=False):
        if set(mine["status"]) == {KEEPS}:
            continue
        parts: list[str] = []
        last = ""
        for band in mine.to_dict("records"):
            best = _BEST.get(band["status"], band["variant"])
            if best != last:
                parts.append(f"{best} from {band['from_bytes']} B")
            last = best
        where = f"{core} if {condition}" if condition else str(core)
        out.append((where, ", ".join(parts)))
    return out
