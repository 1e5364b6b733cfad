"""How close the pipeline simulator comes to measurements and to uiCA.

usage: python validation/accuracy.py   (make validate)
Reads the public measurements in $LOOPWRIGHT_SHARED/data (default: ../shared/data) and skips,
saying so, what is absent: BHive's figures are those of github.com/ithemal/bhive, uiCA's come from
running github.com/andreas-abel/uiCA on the same code.
"""

import os
from pathlib import Path

import pandas as pd

from loopwright import microarchs
from loopwright.accuracy import Accuracy
from loopwright.paths import ROOT
from loopwright.predict.model import Block
from loopwright.predict.pipeline import Pipeline

DATA = Path(os.environ.get("LOOPWRIGHT_SHARED", ROOT.parent / "shared")) / "data"
BHIVE = {"IVB": "ivybridge", "HSW": "haswell", "SKL": "skylake"}
ROUNDING = 0.005  # uiCA's figures have two decimals


def predictions(rows: pd.DataFrame, core: str, notion: str) -> pd.Series:
    """Return the simulator's cycles for rows with hex and optionally offset; NaN for no answer."""
    offsets = rows["offset"] if "offset" in rows else [0] * len(rows)
    blocks = [
        Block("x86_64", bytes.fromhex(code), notion, int(offset))
        for code, offset in zip(rows["hex"], offsets, strict=True)
    ]
    answers = Pipeline().predict(blocks, microarchs.load(core))
    return pd.Series([a.cycles for a in answers], index=rows.index, dtype="float64")


def against_measurements(rows: pd.DataFrame) -> pd.DataFrame:
    """Return errors (MAPE in percent, Kendall's tau) of the simulator and of uiCA on BHive."""
    out = []
    for arch, core in BHIVE.items():
        mine = rows[rows["arch"] == arch]
        ours = predictions(mine, core, "unrolled")
        both = mine[ours.notna() & mine["uica"].notna()]
        line = {"core": core, "blocks": len(mine), "no answer": int(ours.isna().sum())}
        for name, said in (("pipeline", ours), ("uiCA", mine["uica"])):
            found = Accuracy.of(said[both.index], both["measured"])
            line |= {f"{name} MAPE %": found.mape, f"{name} tau": found.tau}
        out.append(line)
    return pd.DataFrame(out)


def agreement(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the shares of rows, in percent, that come within 1 and 5 % of uiCA's cycles."""
    out = []
    for key, mine in rows.groupby(keys, sort=False):
        core = mine["microarch"].iloc[0]
        notion = mine["notion"].iloc[0] if "notion" in mine else "loop"
        off = (predictions(mine, core, notion) - mine["cycles"]).abs() - ROUNDING
        shares = {
            f"within {limit} %": 100 * (off <= limit / 100 * mine["cycles"]).mean()
            for limit in (1, 5)
        }
        out.append({**dict(zip(keys, key, strict=True)), "rows": len(mine), **shares})
    return pd.DataFrame(out)


def show(title: str, name: str, table_of: object) -> None:
    """Print one table, or that its data is not here."""
    print(f"\n{title}")
    path = DATA / name
    if not path.is_file():
        print(f"  skipped: {name} is not in {DATA}; set LOOPWRIGHT_SHARED")
        return
    assert callable(table_of)
    print(table_of(pd.read_csv(path)).to_string(index=False, float_format=lambda v: f"{v:.2f}"))


def main() -> None:
    """Print all tables."""
    show("BHive's measurements, unrolled", "baselines.csv", against_measurements)
    show(
        "uiCA's cycles: copy, clear and checksum loops at every code offset",
        "uica_loops_public.csv",
        lambda rows: agreement(rows, ["microarch"]),
    )
    show(
        "uiCA's cycles: BHive's blocks",
        "uica_blocks_public.csv",
        lambda rows: agreement(rows, ["microarch", "notion"]),
    )


if __name__ == "__main__":
    main()
