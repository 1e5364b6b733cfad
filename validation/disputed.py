"""Figures of public tables that a learned core does not reproduce, timed where it was learned.

Asked of each: who is right, the table or the core. The very code that the table is held to is
timed on this host, which has to be the machine that the core was learned on. What no table and no
core can be held to (the harness refuses it) is counted apart.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pandas as pd

_NEAR, _CYCLES = 0.05, 0.1  # issue by issue: 5 percent or a tenth of a cycle


def near(said: pd.Series, real: pd.Series) -> pd.Series:
    """Say of each pair whether both lie within 5 % of the second or a tenth of a cycle."""
    return (said - real).abs() <= (_NEAR * real).clip(lower=_CYCLES) + 1e-9


def disputed(core: str, table: str) -> pd.DataFrame:
    """Return what public tables and the core say of code on which they differ, and this host."""
    import instlatx64
    import uops_info
    from singles import answers

    from loopwright.calibrating.laboratory import Laboratory
    from loopwright.calibrating.machines.host import Host
    from loopwright.calibrating.machines.machine import Trial
    from loopwright.predicting.pipeline import Pipeline

    found = []
    for source, known in (("InstLatx64", instlatx64), ("uops.info", uops_info)):
        figures = known.figures(table)
        rows = answers(figures, core, "x86_64", Pipeline())
        rows["code"] = [figure.code for figure in figures if figure.code]
        rows["copies"] = [figure.copies for figure in figures if figure.code]
        found.append(rows[rows["cycles"].notna()].assign(source=source))
    every = pd.concat(found, ignore_index=True)
    every["agrees"] = near(every["cycles"], every["measured"])
    open_ = every[~every["agrees"]].copy()
    timed = Laboratory(Host()).trials([Trial(code, "unrolled") for code in open_["code"]])
    open_["here"] = [one.cycles for one in timed]
    open_["here"] /= open_["copies"]
    open_["refused"] = [one.refused for one in timed]
    every.loc[open_.index, "here"] = open_["here"]
    every.loc[open_.index, "refused"] = open_["refused"]
    return every


def main() -> None:
    """Print who is right, by table and notion, and the rows on which the core is wrong."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("core")
    asked.add_argument("table")
    said = asked.parse_args()
    os.environ["LOOPWRIGHT_MODELS"] = str(said.folder)
    every = disputed(said.core, said.table)
    every.to_pickle("/tmp/disputed.pkl")
    open_ = every[~every["agrees"]]
    known = open_[open_["here"].notna()]
    right = near(known["cycles"], known["here"])
    print(len(every), len(open_), len(known), "core right", right.sum())
    print("table right", near(known["measured"], known["here"]).sum())
    pd.set_option("display.width", 200, "display.max_rows", 900)
    print(known[~right][["source", "name", "notion", "measured", "cycles", "here"]].to_string())


if __name__ == "__main__":
    main()
