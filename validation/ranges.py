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

TABLE = ROOT / "models" / RANGES

SHARE = 0.98
"""Share of the rows that set a range which lie in it: a little more than the other half needs."""
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
    table = pd.concat(parts, ignore_index=True)
    return table[ROW].dropna(subset=["cycles", "predicted"])


def _bhive(public: pd.DataFrame) -> Iterator[pd.DataFrame]:
    for path in sorted(host_blocks.HOSTS.glob("*.csv")):
        for notion, group in host_blocks.rows(path.stem, list(public["hex"])).groupby("notion"):
            predictions = _predicted(path.stem, group["code"], str(notion))
            yield predictions.assign(
                rows_of="BHive's blocks on a guest", aside=group["aside"].to_list(),
                cycles=group["cycles"].to_list(),
            )  # fmt: skip
    for arch, core in host_blocks.BHIVE.items():
        group = public[public["arch"] == arch]
        aside = [host_blocks.kept_aside(bytes.fromhex(code)) for code in group["hex"]]
        predictions = _predicted(core, group["hex"], "unrolled")
        yield predictions.assign(rows_of="BHive", aside=aside, cycles=group["measured"].to_list())


def _guests() -> Iterator[pd.DataFrame]:
    """Yield the rows of guests. Those of one frame and microbenchmarks set nothing."""
    for core, folders in guest_rows.folders().items():
        for folder, kind in itertools.product(folders, guest_rows.KINDS):
            if not (folder / kind.file).is_file():
                continue
            group = kind.prepare(pd.read_csv(folder / kind.file))
            keys = group[list(kind.key)].itertuples(index=False)
            group["aside"] = [guest_rows.is_aside(*values) for values in keys]
            group = kind.predict(group, microarchs.load(core))
            if "hex" in group:
                group = group[~group["hex"].isin(guest_rows.ONE_FRAME)]
                group = group.assign(kind="loop", memory=_memory(core, group["hex"]))
                if kind.file != "library_loops.csv":
                    group["aside"] = True
            else:
                group = group.assign(kind=CALL, memory=WHOLE_CALLS)
            yield group.assign(core=core, rows_of=kind.what)


def _calls() -> Iterator[pd.DataFrame]:
    for path in sorted(host_calls.FOLDER.glob("*.csv")):
        group = host_calls.compare(pd.read_csv(path), path.stem)
        keys = group[["kernel", "variant", "count", "dst_align", "src_align"]]
        yield group.assign(
            core=path.stem, kind=CALL, memory=WHOLE_CALLS, rows_of="whole calls",
            aside=[guest_rows.is_aside(*values) for values in keys.itertuples(index=False)],
            predicted=group["predicted_cycles"], cycles=group["measured_cycles"],
        )  # fmt: skip


def _others() -> Iterator[pd.DataFrame]:
    """Yield loops of others, which set no range."""
    predictions = whole_loops.rows("pipeline")
    for core, group in predictions.groupby("core"):
        yield group.assign(
            kind="loop", memory=_memory(str(core), group["hex"]), rows_of="loops of others",
            aside=True, predicted=group["cycles"], cycles=group["measured"],
        )  # fmt: skip
    if not public_loops.FILE.is_file():
        return
    table = pd.read_csv(public_loops.FILE)
    predictions = public_loops.predicted(table, "pipeline")
    blocks = {row["id"]: public_loops.block(row) for _, row in table.iterrows()}
    yield predictions.assign(
        kind=[blocks[name].notion for name in predictions["loop"]],
        memory=[memory_of(blocks[name]) for name in predictions["loop"]],
        rows_of="public loops", aside=True,
        predicted=predictions["cycles"], cycles=predictions["measured"],
    )  # fmt: skip


def _memory(core: str, codes: pd.Series) -> list[str]:
    isa = microarchs.load(core).isa
    return [memory_of(Block(isa, bytes.fromhex(code), "loop", 0)) for code in codes]


def _predicted(core: str, codes: pd.Series, notion: str) -> pd.DataFrame:
    cycles = host_blocks.predictions(pd.DataFrame({"hex": codes.to_list()}), core, notion)
    memory = _memory(core, codes)
    return pd.DataFrame({"core": core, "kind": notion, "memory": memory, "predicted": cycles})


def spans(measured: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield the rows of models/ranges.csv."""
    setting = measured[~measured["aside"]]
    ratio = setting["cycles"] / setting["predicted"]
    for core in microarchs.ids():
        for kind, classes in KINDS.items():
            for memory in classes:
                of_class = setting["kind"].eq(kind) & setting["memory"].eq(memory)
                selected = of_class & setting["core"].eq(core)
                other = setting["kind"].ne(CALL) & setting["memory"].eq(memory)
                of_other_kind = other & setting["core"].eq(core) & (kind != CALL)
                if selected.sum() >= LEAST_ROWS:
                    source = " and ".join(sorted(setting[selected]["rows_of"].unique()))
                elif of_other_kind.sum() >= LEAST_ROWS:
                    selected, source = of_other_kind, "its blocks of the other kind"
                else:
                    selected, source = of_class, "all measured cores"
                least, most = shortest(ratio[selected].to_numpy())
                figures = f"{min(least, 1 - NOISE):.3f}", f"{max(most, 1 + NOISE):.3f}"
                cells = (core, kind, memory, *figures, int(selected.sum()), source)
                yield dict(zip(RANGE_COLUMNS, cells, strict=True))


def shortest(ratios: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the shortest range that holds SHARE of the ratios."""
    ordered = np.sort(ratios)
    inside = int(np.ceil(SHARE * len(ordered)))
    starts = np.arange(len(ordered) - inside + 1)
    narrowest = int(np.argmin(ordered[starts + inside - 1] / ordered[starts]))
    return float(ordered[narrowest]), float(ordered[narrowest + inside - 1])


def checked(measured: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of rows inside their range, of those that set none, by core and source."""
    keys = ["core", "kind", "memory"]
    aside = measured[measured["aside"]].merge(table, on=keys, how="left")
    ratio = aside["cycles"] / aside["predicted"]
    aside["inside"] = 100 * ratio.between(aside["least"], aside["most"])
    aside["width"] = 100 * (aside["most"] - aside["least"])
    summary = aside.groupby(["core", "kind", "rows_of"]).agg(
        rows_checked=("inside", "size"), inside_percent=("inside", "mean"),
        median_width_percent=("width", "median"),
    )  # fmt: skip
    return summary.reset_index()


def main() -> None:
    """Write the ranges, without --check, and print how they hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    if not (DATA / "bhive_public.csv").is_file():
        print(f"skipped: no measured rows in {DATA}; set LOOPWRIGHT_SHARED")
        return
    measured = rows()
    if not check:
        with TABLE.open("w", newline="") as file:
            out = csv.DictWriter(file, RANGE_COLUMNS, lineterminator="\n")
            out.writeheader()
            out.writerows(spans(measured))
    table = pd.read_csv(TABLE, keep_default_na=False)
    print(checked(measured, table).to_string(index=False, float_format="{:.1f}".format))


if __name__ == "__main__":
    main()
