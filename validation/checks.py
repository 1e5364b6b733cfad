"""Every core held to what others measured of it: which figures the simulator reproduces.

A source that a core's table was made from shows how well the table carries it, and is no check.
"""

from __future__ import annotations

import csv
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import arm64_singles
import derive_path  # noqa: F401
import instlatx64
import pandas as pd
import uops_info
from inputs import DATA
from singles import Figure, answers, unknown

from loopwright.paths import models_root
from loopwright.predicting.llvm_mca import LlvmMca
from loopwright.predicting.osaca import Osaca
from loopwright.predicting.pipeline import Pipeline

MEASURED = DATA / "measured"
REASONS = Path(__file__).parent / "reasons.csv"
# Figures that OSACA, which is slow for blocks of many instructions, is asked for: evenly spread.
MOST_FOR_OSACA = 150


class BriefLlvmMca(LlvmMca):
    """llvm-mca for the many short blocks here, of which 100 iterations tell as much."""

    iterations = 100


@dataclass(frozen=True)
class Source:
    """Measured figures of a core: file holds them, public is their entry of sources.toml.

    made says whether the core's table was made from them: "no"; "yes", so that they only check how
    well the table carries them; or "its twin", if it was made from figures that the same program
    measured on another machine.
    """

    core: str
    isa: str
    name: str
    file: str
    public: str
    made: str
    figures: Callable[[], list[Figure]]


def _instlatx64(core: str, dump: str) -> Source:
    file = f"instlatx64_{dump}_consensus"
    figures = partial(instlatx64.figures, dump)
    return Source(core, "x86_64", "InstLatx64", file, "instlatx64", "no", figures)


def _uops_info(core: str) -> Source:
    file, figures = f"uops_info_{core}", partial(uops_info.figures, core)
    return Source(core, "x86_64", "uops.info", file, "uops-info-zen4", "yes", figures)


def _insn_bench(name: str, machine: str, made: str) -> Source:
    file = "insn_bench_aarch64_neoverse-n1"
    figures = partial(arm64_singles.insn_bench_figures, machine)
    return Source("neoverse-n1", "arm64", f"insn_bench, {name}", file, "insn-bench", made, figures)


def _tsv110(name: str, file: str, public: str, figures: Callable[[], list[Figure]]) -> Source:
    return Source("tsv110", "arm64", name, file, public, "yes", figures)


SOURCES = (
    _instlatx64("zen2", "zen2"),
    _uops_info("zen2"),
    _instlatx64("zen3", "zen3"),
    _uops_info("zen3"),
    _instlatx64("zen4", "zen4"),
    _uops_info("zen4"),
    _instlatx64("sandybridge", "snb"),
    _insn_bench("Ampere Altra", "gcp_ampere_altra", "its twin"),
    _insn_bench("Graviton2", "aws_graviton2", "yes"),
    _tsv110("jiegec", "tsv110_jiegec", "jiegec-micro", arm64_singles.jiegec_figures),
    _tsv110("asmbench", "tsv110_osaca_asmbench", "osaca-tsv110", arm64_singles.asmbench_figures),
)


def share(rows: pd.DataFrame) -> str:
    """Return the share of answered rows that hold, and the number of rows without an answer."""
    answered = int(rows["cycles"].notna().sum())
    if rows.empty:
        return "-"
    if not answered:
        return "no answers"
    silent = f", {len(rows) - answered} no answer" if answered < len(rows) else ""
    return f"{100 * rows['holds'].sum() / answered:.1f} %{silent}"


def line(source: Source, figures: Sequence[Figure]) -> tuple[dict[str, object], pd.DataFrame]:
    """Return the line of a source, and the simulator's rows."""
    with_code = [f for f in figures if f.code]
    simulated = answers(with_code, source.core, source.isa, Pipeline())
    mca = answers(with_code, source.core, source.isa, BriefLlvmMca())
    sample = with_code[:: math.ceil(len(with_code) / MOST_FOR_OSACA)]
    osaca = share(answers(sample, source.core, source.isa, Osaca()))
    return {
        "core": source.core,
        "source": source.name,
        "made from it": source.made,
        "figures": len(figures),
        "code known": len(with_code),
        **{n: share(simulated[simulated["notion"] == n]) for n in ("latency", "throughput")},
        "llvm-mca": share(mca),
        "osaca": osaca + (f" (of {len(sample)})" if len(sample) < len(with_code) else ""),
    }, simulated


@cache
def reasons() -> list[dict[str, str]]:
    """Return the known reasons of misses; the first that fits counts."""
    with REASONS.open(newline="") as lines:
        return list(csv.DictReader(lines))


def reason(source: str, row: Mapping[Hashable, object]) -> str:
    """Return the reason why a figure is not reproduced."""
    if row["cycles"] != row["cycles"]:
        return f"no answer: {re.sub('for .*', 'for the form', str(row['error']))}"
    for rule in reasons():
        if rule["source"] not in ("*", source.split(",")[0]):
            continue
        if rule["notion"] in ("*", row["notion"]) and re.fullmatch(rule["name"], str(row["name"])):
            return rule["reason"]
    return "not explained"


def misses(source: str, rows: pd.DataFrame) -> Counter[str]:
    """Count the rows that do not hold by reason."""
    return Counter(reason(source, row) for row in rows[~rows["holds"]].to_dict("records"))


def is_here(source: Source) -> bool:
    """True if the file of a source is here."""
    return (MEASURED / f"{source.file}.csv.gz").is_file()


def public_place(public: str) -> str:
    """Return the title and the address of an entry of sources.toml."""
    known = tomllib.loads((models_root() / "sources.toml").read_text())[public]
    return f"{known['title']} ({known['address']})"


def show() -> None:
    """Print the table of all sources, then the unknown and the missed figures of each."""
    print("\nInstructions as others measured them: share within 10 % or 0.1 cycle, by notion")
    lines, notes = [], []
    for source in SOURCES:
        notes.append(f"\n{source.core}, {source.name}")
        if not is_here(source):
            notes[-1] += f": skipped, {source.file}.csv.gz is not in {MEASURED};"
            notes.append(
                f"  set LOOPWRIGHT_SHARED; the public finds it in {public_place(source.public)}"
            )
            continue
        figures = source.figures()
        cells, rows = line(source, figures)
        lines.append(cells)
        for why, count in sorted(unknown(figures).items(), key=lambda item: -item[1]):
            notes.append(f"  {count:5d} without code: {why}")
        for why, count in misses(source.name, rows).most_common():
            notes.append(f"  {count:5d} missed: {why}")
    if lines:
        print(pd.DataFrame(lines).fillna("-").to_string(index=False))
    print("\n".join(notes))
