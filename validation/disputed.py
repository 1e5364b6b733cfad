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


def near(said: pd.Series, real: pd.Series) -> pd.Series:
    """Say of each pair whether they agree; of those that lack one, not."""
    return (said - real).abs() <= (NEAR * real).clip(lower=CYCLES) + 1e-9


def held(core: str, table: str) -> pd.DataFrame:
    """Return all figures that a core answers, by source, with whether it agrees."""
    found = []
    for source, figures in SOURCES.items():
        known: list[Figure] = [one for one in figures(table) if one.code]
        rows = answers(known, core, "x86_64", Pipeline())
        rows = rows.assign(
            source=source, code=[f.code for f in known], copies=[f.copies for f in known]
        )
        found.append(rows[rows["cycles"].notna()])
    every = pd.concat(found, ignore_index=True)
    return every.assign(agrees=near(every["cycles"], every["measured"]))


def judged(every: pd.DataFrame, timings: list[Timing]) -> pd.DataFrame:
    """Return the figures on which core and table differ, with what this host takes for them.

    verdict is core, table or neither, after what agrees with the host, or not timed.
    """
    open_ = every[~every["agrees"]].copy()
    open_["here"] = [float("nan") if one.cycles is None else one.cycles for one in timings]
    open_["here"] /= open_["copies"]
    open_["verdict"] = "neither"
    open_.loc[near(open_["measured"], open_["here"]), "verdict"] = "table"
    open_.loc[near(open_["cycles"], open_["here"]), "verdict"] = "core"
    open_.loc[open_["here"].isna(), "verdict"] = "not timed"
    return open_


def page(every: pd.DataFrame, open_: pd.DataFrame, table: str, host: str) -> str:
    """Return what came out, for people."""
    out = [
        "# Public tables and a calibrated core: who is right\n",
        f"Made by `validation/disputed.py` on {host}, against the tables of {table}. Right is",
        "what lies within 5 % or 0.1 cycle of what this host takes for the code that the table is",
        "held to.\n",
        "| source | figures that the core answers | agree | differ | core right | table right "
        "| neither | not timed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for source, some in every.groupby("source"):
        mine = open_[open_["source"] == source]["verdict"].value_counts()
        counts = [mine.get(name, 0) for name in ("core", "table", "neither", "not timed")]
        cells = [len(some), some["agrees"].sum(), (~some["agrees"]).sum(), *counts]
        out.append(f"| {source} | {' | '.join(map(str, cells))} |")
    wrong = open_[open_["verdict"].isin(["table", "neither"])]
    out += [
        "\nFigures of which the core is wrong, cycles an instruction:\n",
        "| source | instruction | notion | table | core | this host |",
        "|---|---|---|---|---|---|",
    ]
    out += [
        f"| {one['source']} | `{one['name']}` | {one['notion']} | {one['measured']:.2f} "
        f"| {one['cycles']:.2f} | {one['here']:.2f} |"
        for one in wrong.to_dict("records")
    ]
    return "\n".join([*out, ""])


def main() -> None:
    """Time what tables dispute and write the page."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("folder", type=Path, help="of learned cores, as LOOPWRIGHT_MODELS")
    asked.add_argument("core", help="its name there")
    asked.add_argument("table", help="core of the public tables, e.g. zen3")
    asked.add_argument("-o", "--out", type=Path, required=True, help="the page")
    said = asked.parse_args()
    os.environ["LOOPWRIGHT_MODELS"] = str(said.folder)
    every = held(said.core, said.table)
    codes = every.loc[~every["agrees"], "code"]
    timings = Laboratory(Host()).timings([Trial(code, "unrolled") for code in codes])
    open_ = judged(every, timings)
    about = hosts.describe()
    host = f"{about['machine']} of family {about['family']}, model {about['model']}"
    said.out.write_text(page(every, open_, said.table, host))
    print(f"wrote {said.out}")


if __name__ == "__main__":
    main()
