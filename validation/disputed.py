"""Figures of public tables that a calibrated core does not reproduce: who is right.

A table may be of another stepping, or its kernel of something else than its name says. Here the
very code that a table is held to is timed on this host, which has to be the machine that the core
was learned on. The core is right where it says what the host takes, within 5 % or 0.1 cycle.

    .venv/bin/python validation/disputed.py cores host zen3 -o validation/disputed.md
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import instlatx64
import pandas as pd
import uops_info
from singles import Figure, answers

from loopwright.machine import hosts
from loopwright.microbench.host import Host
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Timing, Trial
from loopwright.predicting.pipeline import Pipeline

NEAR, CYCLES = 0.05, 0.1  # relative, and absolute
SOURCES = {"InstLatx64": instlatx64.figures, "uops.info": uops_info.figures}


def near(predicted: pd.Series, measured: pd.Series) -> pd.Series:
    """Return for each pair whether it agrees; a pair with a missing figure does not."""
    return (predicted - measured).abs() <= (NEAR * measured).clip(lower=CYCLES) + 1e-9


def held(core: str, table: str) -> pd.DataFrame:
    """Return the figures that a core answers, of all sources, and whether the core agrees."""
    tables = []
    for source, figures in SOURCES.items():
        with_code: list[Figure] = [figure for figure in figures(table) if figure.code]
        rows = answers(with_code, core, "x86_64", Pipeline())
        rows = rows.assign(
            source=source, code=[f.code for f in with_code], copies=[f.copies for f in with_code]
        )
        tables.append(rows[rows["cycles"].notna()])
    figures_ = pd.concat(tables, ignore_index=True)
    return figures_.assign(agrees=near(figures_["cycles"], figures_["measured"]))


def judged(figures: pd.DataFrame, timings: list[Timing]) -> pd.DataFrame:
    """Return the figures on which core and table differ, with the cycles of this host.

    verdict names the one that agrees with the host: core, table, neither, or "not timed".
    """
    disputed = figures[~figures["agrees"]].copy()
    disputed["here"] = [
        float("nan") if timing.cycles is None else timing.cycles for timing in timings
    ]
    disputed["here"] /= disputed["copies"]
    disputed["verdict"] = "neither"
    disputed.loc[near(disputed["measured"], disputed["here"]), "verdict"] = "table"
    disputed.loc[near(disputed["cycles"], disputed["here"]), "verdict"] = "core"
    disputed.loc[disputed["here"].isna(), "verdict"] = "not timed"
    return disputed


def page(figures: pd.DataFrame, disputed: pd.DataFrame, table: str, host: str) -> str:
    """Return the page of counts by source, and of figures of which the core is wrong."""
    lines = [
        "# Public tables and a calibrated core: who is right\n",
        f"Made by `validation/disputed.py` on {host}, against the tables of {table}. Right is",
        "what lies within 5 % or 0.1 cycle of what this host takes for the code that the table is",
        "held to.\n",
        "| source | figures that the core answers | agree | differ | core right | table right "
        "| neither | not timed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for source, group in figures.groupby("source"):
        verdicts = disputed[disputed["source"] == source]["verdict"].value_counts()
        counts = [verdicts.get(name, 0) for name in ("core", "table", "neither", "not timed")]
        cells = [len(group), group["agrees"].sum(), (~group["agrees"]).sum(), *counts]
        lines.append(f"| {source} | {' | '.join(map(str, cells))} |")
    wrong = disputed[disputed["verdict"].isin(["table", "neither"])]
    lines += [
        "\nFigures of which the core is wrong, cycles an instruction:\n",
        "| source | instruction | notion | table | core | this host |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['source']} | `{row['name']}` | {row['notion']} | {row['measured']:.2f} "
        f"| {row['cycles']:.2f} | {row['here']:.2f} |"
        for row in wrong.to_dict("records")
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Time the disputed figures and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of learned cores, as LOOPWRIGHT_MODELS")
    parser.add_argument("core", help="its name there")
    parser.add_argument("table", help="core of the public tables, e.g. zen3")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the page")
    options = parser.parse_args()
    os.environ["LOOPWRIGHT_MODELS"] = str(options.folder)
    figures = held(options.core, options.table)
    codes = figures.loc[~figures["agrees"], "code"]
    timings = Laboratory(Host()).timings([Trial(code, "unrolled") for code in codes])
    disputed = judged(figures, timings)
    description = hosts.describe()
    host = (
        f"{description['machine']} of family {description['family']}, model {description['model']}"
    )
    options.out.write_text(page(figures, disputed, options.table, host))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
