"""Ranges of predictions, set by one half of all measured rows and checked on the other.

usage: python validation/ranges.py [--check]
Writes models/ranges.csv: for each core, kind of prediction and kind of memory accesses the least
and the most that a measurement comes to, as a multiple of the prediction. --check only counts, for
each core, how many rows that set no range lie inside of theirs, and how wide the ranges are.

Rows are halved by a hash of their code or place (host_blocks.py, guest_rows.py). A class of fewer
than 40 rows takes the range of all cores' rows of its kind, as does a core that nobody measured.
Data is in $LOOPWRIGHT_SHARED/data (default: ../shared/data).
"""

from __future__ import annotations

import argparse
import csv
import itertools
from collections.abc import Iterator

import derive_path  # noqa: F401
import guest_rows
import host_blocks
import host_calls
import numpy as np
import numpy.typing as npt
import pandas as pd
import public_loops
import whole_loops
from inputs import DATA
from inputs import REPO as ROOT

from loopwright import microarchs
from loopwright.predicting.core_figures import (
    CALL,
    MEMORY,
    RANGE_COLUMNS,
    RANGES,
    WHOLE_CALLS,
    memory_of,
)
from loopwright.predicting.model import Block
from loopwright.predicting.pipeline import Pipeline

TABLE = ROOT / "models" / RANGES
BHIVE = {"IVB": "ivybridge", "HSW": "haswell", "SKL": "skylake"}
SHARE = 0.98
"""What the half that sets a range has inside: a little more than is asked of the other half."""
LEAST_ROWS = 40
NOISE = 0.01  # no range is narrower than this to either side
KINDS = {"loop": MEMORY, "unrolled": MEMORY, CALL: (WHOLE_CALLS,)}
ROW = ["core", "kind", "memory", "rows_of", "aside", "cycles", "predicted"]


def rows() -> pd.DataFrame:
    """Return all measured rows that are here, with predictions; those without one are left out."""
    public = DATA / "bhive_public.csv"
    parts = [*_guests(), *_calls()]
    if public.is_file():
        parts += [*_bhive(pd.read_csv(public))]
    parts += [*_others()]
    found = pd.concat(parts, ignore_index=True)
    return found[ROW].dropna(subset=["cycles", "predicted"])


def _bhive(public: pd.DataFrame) -> Iterator[pd.DataFrame]:
    for path in sorted(host_blocks.HOSTS.glob("*.csv")):
        for notion, mine in host_blocks.rows(path.stem, list(public["hex"])).groupby("notion"):
            said = _predicted(path.stem, mine["code"], str(notion))
            yield said.assign(
                rows_of="BHive's blocks on a guest", aside=mine["aside"].to_list(),
                cycles=mine["cycles"].to_list(),
            )  # fmt: skip
    for arch, core in BHIVE.items():
        mine = public[public["arch"] == arch]
        aside = [host_blocks.kept_aside(bytes.fromhex(code)) for code in mine["hex"]]
        said = _predicted(core, mine["hex"], "unrolled")
        yield said.assign(rows_of="BHive", aside=aside, cycles=mine["measured"].to_list())


def _guests() -> Iterator[pd.DataFrame]:
    """Yield the rows of guests. Those of one frame and microbenchmarks set nothing."""
    for core, folders in guest_rows.folders().items():
        for folder, kind in itertools.product(folders, guest_rows.KINDS):
            if not (folder / kind.file).is_file():
                continue
            mine = kind.prepare(pd.read_csv(folder / kind.file))
            keys = mine[list(kind.key)].itertuples(index=False)
            mine["aside"] = [guest_rows.is_aside(*values) for values in keys]
            mine = kind.predict(mine, microarchs.load(core))
            if "hex" in mine:
                mine = mine[~mine["hex"].isin(guest_rows.ONE_FRAME)]
                mine = mine.assign(kind="loop", memory=_memory(core, mine["hex"]))
                if kind.file != "library_loops.csv":
                    mine["aside"] = True
            else:
                mine = mine.assign(kind=CALL, memory=WHOLE_CALLS)
            yield mine.assign(core=core, rows_of=kind.what)


def _calls() -> Iterator[pd.DataFrame]:
    for path in sorted(host_calls.FOLDER.glob("*.csv")):
        mine = host_calls.compare(pd.read_csv(path), path.stem)
        keys = mine[["kernel", "variant", "count", "dst_align", "src_align"]]
        yield mine.assign(
            core=path.stem, kind=CALL, memory=WHOLE_CALLS, rows_of="whole calls",
            aside=[guest_rows.is_aside(*values) for values in keys.itertuples(index=False)],
            predicted=mine["predicted_cycles"], cycles=mine["measured_cycles"],
        )  # fmt: skip


def _others() -> Iterator[pd.DataFrame]:
    """Yield loops of others, which set no range."""
    found = whole_loops.rows("pipeline")
    for core, mine in found.groupby("core"):
        yield mine.assign(
            kind="loop", memory=_memory(str(core), mine["hex"]), rows_of="loops of others",
            aside=True, predicted=mine["cycles"], cycles=mine["measured"],
        )  # fmt: skip
    if not public_loops.FILE.is_file():
        return
    table = pd.read_csv(public_loops.FILE)
    found = public_loops.predicted(table, "pipeline")
    blocks = {row["id"]: public_loops.block(row) for _, row in table.iterrows()}
    yield found.assign(
        kind=[blocks[name].notion for name in found["loop"]],
        memory=[memory_of(blocks[name]) for name in found["loop"]],
        rows_of="public loops", aside=True, predicted=found["cycles"], cycles=found["measured"],
    )  # fmt: skip


def _memory(core: str, codes: pd.Series) -> list[str]:
    isa = microarchs.load(core).isa
    return [memory_of(Block(isa, bytes.fromhex(code), "loop", 0)) for code in codes]


def _predicted(core: str, codes: pd.Series, notion: str) -> pd.DataFrame:
    blocks = [Block("x86_64", bytes.fromhex(code), notion, 0) for code in codes]
    said = [one.cycles for one in Pipeline().predict(blocks, microarchs.load(core), brief=True)]
    memory = [memory_of(one) for one in blocks]
    return pd.DataFrame({"core": core, "kind": notion, "memory": memory, "predicted": said})


def spans(found: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield the rows of models/ranges.csv."""
    setting = found[~found["aside"]]
    ratio = setting["cycles"] / setting["predicted"]
    for core in microarchs.ids():
        for kind, classes in KINDS.items():
            for memory in classes:
                of_class = setting["kind"].eq(kind) & setting["memory"].eq(memory)
                mine = of_class & setting["core"].eq(core)
                other = setting["kind"].ne(CALL) & setting["memory"].eq(memory)
                beside = other & setting["core"].eq(core) & (kind != CALL)
                if mine.sum() >= LEAST_ROWS:
                    source = " and ".join(sorted(setting[mine]["rows_of"].unique()))
                elif beside.sum() >= LEAST_ROWS:
                    mine, source = beside, "its blocks of the other kind"
                else:
                    mine, source = of_class, "all measured cores"
                least, most = shortest(ratio[mine].to_numpy())
                figures = f"{min(least, 1 - NOISE):.3f}", f"{max(most, 1 + NOISE):.3f}"
                cells = (core, kind, memory, *figures, int(mine.sum()), source)
                yield dict(zip(RANGE_COLUMNS, cells, strict=True))


def shortest(ratios: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the shortest range that holds so much of what sets it."""
    ordered = np.sort(ratios)
    inside = int(np.ceil(SHARE * len(ordered)))
    starts = np.arange(len(ordered) - inside + 1)
    at = int(np.argmin(ordered[starts + inside - 1] / ordered[starts]))
    return float(ordered[at]), float(ordered[at + inside - 1])


def checked(found: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return how many rows that set no range lie inside of theirs, by core and what they are."""
    keys = ["core", "kind", "memory"]
    aside = found[found["aside"]].merge(table, on=keys, how="left")
    ratio = aside["cycles"] / aside["predicted"]
    aside["inside"] = 100 * ratio.between(aside["least"], aside["most"])
    aside["width"] = 100 * (aside["most"] - aside["least"])
    said = aside.groupby(["core", "kind", "rows_of"]).agg(
        rows_checked=("inside", "size"), inside_percent=("inside", "mean"),
        median_width_percent=("width", "median"),
    )  # fmt: skip
    return said.reset_index()


def main() -> None:
    """Write the ranges if asked for, and say how they hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    if not (DATA / "bhive_public.csv").is_file():
        print(f"skipped: no measured rows in {DATA}; set LOOPWRIGHT_SHARED")
        return
    found = rows()
    if not check:
        with TABLE.open("w", newline="") as file:
            out = csv.DictWriter(file, RANGE_COLUMNS, lineterminator="\n")
            out.writeheader()
            out.writerows(spans(found))
    table = pd.read_csv(TABLE, keep_default_na=False)
    print(checked(found, table).to_string(index=False, float_format="{:.1f}".format))


if __name__ == "__main__":
    main()
