"""Kept measurements of hosts, from which every derived file can be made again.

hosts/<core>.csv: blocks of BHive, named by a hash of their code, with what models say of them.
hosts/loops/<core>.csv: main loops of kernels as they were at that time: their code in hex and its
offset. hosts/machines/<core>.csv: the machine, its clock, the day.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import host_blocks
import pandas as pd
from every_model import MODEL_IDS, predicted

LOOPS = ["kernel", "variant", "offset", "hex", "cycles", "uncertainty", "reason"]
BLOCKS = ["sha256", "notion", "cycles", "uncertainty", "status", "reason", "note", "clock"]


def cores(folder: Path) -> list[str]:
    """Return the cores whose loops are kept."""
    return sorted(path.stem for path in (folder / "loops").glob("*.csv"))


def keep_machine(folder: Path, core: str, facts: dict[str, str]) -> None:
    """Write the facts of a measurement: machine, clock, date."""
    path = folder / "machines" / f"{core}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(facts.items(), columns=["what", "value"]).to_csv(path, index=False)


def machine(folder: Path, core: str) -> dict[str, str]:
    """Return the facts of a measurement: machine, clock, date."""
    rows = pd.read_csv(folder / "machines" / f"{core}.csv", dtype=str, keep_default_na=False)
    return dict(zip(rows["what"], rows["value"], strict=True))


def keep_loops(folder: Path, core: str, rows: pd.DataFrame) -> None:
    """Write measured loops."""
    path = folder / "loops" / f"{core}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows[LOOPS].to_csv(path, index=False, float_format="%.4f")


def loops(folder: Path, core: str) -> pd.DataFrame:
    """Return measured loops with the predictions of each model today."""
    rows = pd.read_csv(folder / "loops" / f"{core}.csv").fillna({"reason": ""})
    return rows.join(predicted(list(rows["hex"]), core, None, list(rows["offset"])))


def keep_blocks(folder: Path, core: str, rows: pd.DataFrame) -> None:
    """Write measured blocks with the models' predictions."""
    path = folder / f"{core}.csv"
    rows[[*BLOCKS, *MODEL_IDS]].to_csv(path, index=False, float_format="%.4f")


def blocks(folder: Path, core: str, public: Iterable[str]) -> pd.DataFrame:
    """Return kept blocks with today's predictions of each model; public has their code in hex."""
    texts = ("reason", "note", "clock")
    kept = pd.read_csv(folder / f"{core}.csv", dtype=dict.fromkeys(texts, "str"))
    return answered(kept[BLOCKS].fillna(dict.fromkeys(texts, "")), core, public)


def answered(rows: pd.DataFrame, core: str, public: Iterable[str]) -> pd.DataFrame:
    """Return measured blocks with each model's predictions, without blocks not in public (hex)."""
    codes_by_digest = host_blocks.codes(public)
    rows = rows[rows["sha256"].isin(list(codes_by_digest))].reset_index(drop=True)
    parts = []
    for notion, group in rows.groupby("notion", sort=False):
        codes = [codes_by_digest[name][0] for name in group["sha256"]]
        predictions = predicted(codes, core, str(notion)).set_index(group.index)
        parts.append(group.join(predictions))
    return pd.concat(parts).sort_index()
