"""Every core held to what others measured of it: which figures the simulator reproduces.

A source that a core's table was made from shows how well the table carries it, and is no check.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import arm64_singles
import instlatx64
import pandas as pd
import uops_info
from singles import Figure, answers, unknown

from loopwright.predicting.llvm_mca import LlvmMca
from loopwright.predicting.osaca import Osaca
from loopwright.predicting.pipeline import Pipeline

REASONS = Path(__file__).parent / "reasons.csv"
# OSACA takes ten milliseconds a block.
MOST_FOR_OSACA = 800


class BriefLlvmMca(LlvmMca):
    """llvm-mca for the many short blocks here, of which 100 iterations tell as much."""

    iterations = 100


@dataclass(frozen=True)
class Source:
    """Measured figures of a core; made: its table was made from them, so they check nothing."""

    core: str
    isa: str
    name: str
    made: bool
    figures: Callable[[], list[Figure]]


SOURCES = (
    Source("zen2", "x86_64", "InstLatx64", False, lambda: instlatx64.figures("zen2")),
    Source("zen2", "x86_64", "uops.info", True, lambda: uops_info.figures("zen2")),
    Source("sandybridge", "x86_64", "InstLatx64", False, lambda: instlatx64.figures("snb")),
    Source(
        "neoverse-n1",
        "arm64",
        "insn_bench, Ampere Altra",
        False,
        lambda: arm64_singles.insn_bench_figures("gcp_ampere_altra"),
    ),
    Source(
        "neoverse-n1",
        "arm64",
        "insn_bench, Graviton2",
        True,
        lambda: arm64_singles.insn_bench_figures("aws_graviton2"),
    ),
    Source("tsv110", "arm64", "jiegec", True, arm64_singles.jiegec_figures),
    Source("tsv110", "arm64", "asmbench", True, arm64_singles.asmbench_figures),
    Source("zen3", "x86_64", "InstLatx64", False, lambda: instlatx64.figures("zen3")),
    Source("zen3", "x86_64", "uops.info", True, lambda: uops_info.figures("zen3")),
    Source("zen4", "x86_64", "InstLatx64", False, lambda: instlatx64.figures("zen4")),
    Source("zen4", "x86_64", "uops.info", True, lambda: uops_info.figures("zen4")),
)


def share(rows: pd.DataFrame) -> str:
    """Return how many rows hold, of those with an answer, and how many have none."""
    answered = int(rows["cycles"].notna().sum())
    if not answered:
        return "no answers"
    silent = f", {len(rows) - answered} no answer" if answered < len(rows) else ""
    return f"{100 * rows['holds'].sum() / answered:.1f} %{silent}"


def line(source: Source, figures: Sequence[Figure]) -> tuple[dict[str, object], pd.DataFrame]:
    """Return the line of a source, and the simulator's rows."""
    ours = answers(figures, source.core, source.isa, Pipeline())
    mca = answers(figures, source.core, source.isa, BriefLlvmMca())
    few = len(ours) <= MOST_FOR_OSACA
    osaca = answers(figures, source.core, source.isa, Osaca()) if few else None
    return {
        "core": source.core,
        "source": source.name,
        "made from": "yes" if source.made else "no",
        "figures": len(figures),
        "code known": len(ours),
        "pipeline": share(ours),
        "llvm-mca": share(mca),
        "osaca": share(osaca) if osaca is not None else "too many",
    }, ours


@cache
def reasons() -> list[dict[str, str]]:
    """Return the known reasons of misses, the first that fits counts."""
    with REASONS.open(newline="") as lines:
        return list(csv.DictReader(lines))


def reason(source: str, row: dict[str, object]) -> str:
    """Return why a figure is not reproduced."""
    if row["cycles"] != row["cycles"]:
        return f"no answer: {re.sub('for .*', 'for the form', str(row['error']))}"
    for known in reasons():
        if known["source"] not in ("*", source.split(",")[0]):
            continue
        if known["notion"] in ("*", row["notion"]) and re.fullmatch(
            known["name"], str(row["name"])
        ):
            return known["reason"]
    return "not explained"


def misses(source: str, rows: pd.DataFrame) -> Counter[str]:
    """Count the rows that do not hold by reason."""
    missed = rows[~rows["holds"]].to_dict("records")
    return Counter(reason(source, {str(k): v for k, v in row.items()}) for row in missed)


def show() -> None:
    """Print the table of all sources, then for each what is not known and what is missed."""
    lines, notes = [], []
    for source in SOURCES:
        figures = source.figures()
        made, rows = line(source, figures)
        lines.append(made)
        notes.append(f"\n{source.core}, {source.name}")
        for why, count in sorted(unknown(figures).items(), key=lambda item: -item[1]):
            notes.append(f"  {count:5d} without code: {why}")
        for why, count in misses(source.name, rows).most_common():
            notes.append(f"  {count:5d} missed: {why}")
    print(pd.DataFrame(lines).to_string(index=False))
    print("\n".join(notes))
