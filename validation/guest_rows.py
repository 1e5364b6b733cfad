"""Hold the simulator to rows that guests of a core measured: code offsets, calls, loops, blocks.

usage: python validation/guest_rows.py [--core CORE [--rows CORE]] [--half tune|aside|all]
[--worst N]
Reads validation/guests/<core> and $LOOPWRIGHT_SHARED/data/measured/<core>-guest (default:
../shared), a folder a core, and says which kinds of rows each lacks. Prints the errors of today's
tables, then the worst rows of each kind by class. tune is half of the rows, chosen by a hash of
what names a row; aside is the other half, which sets nothing. --rows holds a core to what a guest
of another one measured.
"""

import argparse
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import derive_path  # noqa: F401
import host_blocks
import host_calls
import pandas as pd
from inputs import DATA

from loopwright import microarchs
from loopwright.errors import InputError
from loopwright.microarchs import Microarch

FOLDERS = DATA / "measured"
SUFFIX = "-guest"
KEPT = Path(__file__).resolve().parent / "guests"
NEAR_PERCENT = 5.0
SLOW = 1.1
"""A code offset is slow where the loop takes this many times its fewest cycles there."""
SHOWN = 48
"""Digits of a loop's code that are printed."""
ONE_FRAME = ("c5fc1006c5fc104e20c5fc1107c5fc114f204883c6404883c74049ffcf75e1",)
"""Loops whose data lay in pages of one frame, which slowed them: the way predictor of AMD goes by
linear addresses. This copy takes 4.4 cycles so, and 2.0 over as many frames as pages."""
QUIET = "ok"
"""The status of rows that the harness is sure of."""


def folders() -> dict[str, tuple[Path, ...]]:
    """Return the folders of rows of each core that has any, the published ones first."""
    folders_by_core: dict[str, tuple[Path, ...]] = {}
    for path in [*sorted(FOLDERS.glob(f"*{SUFFIX}")), *sorted(KEPT.glob("*"))]:
        core = path.name.removesuffix(SUFFIX)
        folders_by_core[core] = (*folders_by_core.get(core, ()), path)
    return dict(sorted(folders_by_core.items()))


def is_aside(*key: object) -> bool:
    """True if the row of these values belongs to the half that sets nothing."""
    return hashlib.sha256("|".join(map(str, key)).encode()).digest()[0] >= 128


def half(rows: pd.DataFrame, key: tuple[str, ...], which: str) -> pd.DataFrame:
    """Return the rows of one half (`tune` or `aside`), or `all`; key are the columns that name one.

    Missing values do not count in the name.
    """
    if which == "all":
        return rows
    named = rows[list(key)].itertuples(index=False)
    aside = [is_aside(*(value for value in values if not pd.isna(value))) for values in named]
    return rows[[row_aside == (which == "aside") for row_aside in aside]].reset_index(drop=True)


def predict_loops(rows: pd.DataFrame, core: Microarch) -> pd.DataFrame:
    """Add `predicted` and `error_percent` to loops in hex at code offsets, else at 0."""
    cycles = host_blocks.predictions(rows, core.id, "loop")
    return rows.assign(predicted=cycles, error_percent=100 * (cycles / rows["cycles"] - 1))


def predict_calls(rows: pd.DataFrame, core: Microarch) -> pd.DataFrame:
    """Add `predicted` and `error_percent` to whole calls, all branches predicted."""
    out = host_calls.compare(rows, core.id)
    return out.rename(columns={"predicted_cycles": "predicted", "measured_cycles": "cycles"})


def answered(rows: pd.DataFrame) -> str:
    """Return the number of rows, and the share of them with a prediction."""
    return f"{len(rows)} rows, {100 * rows['predicted'].notna().mean():.1f} % answered"


def near(rows: pd.DataFrame) -> str:
    """Return the mean error, and the share of rows that are near."""
    error = rows["error_percent"].dropna().abs()
    share = 100 * (error <= NEAR_PERCENT).mean()
    return f"mean error {error.mean():.1f} %, within {NEAR_PERCENT:.0f} %: {share:.1f} %"


def spread(rows: pd.DataFrame) -> str:
    """Return the median error and its 90th percentile."""
    error = rows["error_percent"].dropna().abs()
    return f"median error {error.median():.1f} %, 90th percentile {error.quantile(0.9):.1f} %"


def missed(rows: pd.DataFrame) -> str:
    """Return the number of slow code offsets that are predicted to be fast."""
    slow = rows["cycles"] >= SLOW * rows["fastest"]
    fast = rows["error_percent"] < -NEAR_PERCENT
    return f"{(slow & fast).sum()} of {slow.sum()} slow offsets predicted fast"


def near_without_one_frame(rows: pd.DataFrame) -> str:
    """Return near without the rows that pages of one frame slowed."""
    slowed = rows["hex"].isin(ONE_FRAME)
    return f"without {slowed.sum()} rows slowed by pages of one frame: {near(rows[~slowed])}"


def with_fastest(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the fewest cycles that each loop takes at any code offset."""
    return rows.assign(fastest=rows.groupby("hex")["cycles"].transform("min"))


def quiet(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows that the harness is sure of."""
    return rows[rows["status"] == QUIET].reset_index(drop=True)


def quiet_calls(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the calls that the harness is sure of, with their code offset where they have one."""
    rows = quiet(rows)
    offsets = rows["offset"] if "offset" in rows else pd.Series(pd.NA, rows.index)
    return rows.assign(offset=offsets.astype("Int64"))


def loop_class(row: pd.Series) -> str:
    """Name a loop by its first bytes in hex."""
    code = str(row["hex"])
    return code if len(code) <= SHOWN else f"{code[:SHOWN]}..."


def call_class(row: pd.Series) -> str:
    """Name a call by its variant, and whether its destination is aligned to 8 bytes."""
    aligned = "aligned" if row["dst_align"] % 8 == 0 else "misaligned"
    return f"{row['kernel']}/{row['variant']}, {aligned}"


def block_class(row: pd.Series) -> str:
    """Name a block by its name without its last number."""
    return re.sub(r" (-?\d+)$", "", re.sub(r" (at|from) .*", "", str(row["name"])))


Table = pd.DataFrame


@dataclass(frozen=True)
class Kind:
    """A kind of rows: its file, its subject, and how it is read, predicted and reported.

    key are the columns that name a row, figures the functions whose texts are reported, place the
    columns that are printed of the worst row of a class, classed the name of a row's class.
    """

    file: str
    what: str
    key: tuple[str, ...]
    prepare: Callable[[Table], Table]
    predict: Callable[[Table, Microarch], Table]
    figures: tuple[Callable[[Table], str], ...]
    place: tuple[str, ...]
    classed: Callable[[pd.Series], str]


KINDS = (
    Kind("offsets.csv", "loops at code offsets", ("hex", "offset"), with_fastest, predict_loops,
         (answered, near, near_without_one_frame, missed), ("offset",), loop_class),
    Kind("calls.csv", "whole calls",
         ("kernel", "variant", "offset", "count", "dst_align", "src_align"), quiet_calls,
         predict_calls, (answered, spread), ("count", "dst_align", "src_align", "offset"),
         call_class),
    Kind("library_loops.csv", "loops of libraries", ("hex",), lambda rows: rows, predict_loops,
         (answered, near), ("offset",), loop_class),
    Kind("microbenchmarks.csv", "blocks", ("name",), quiet, predict_loops,
         (answered, near), ("name",), block_class),
)  # fmt: skip


def worst(rows: Table, kind: Kind, count: int) -> Iterator[str]:
    """Yield a line for each class of rows, the largest sum of errors first."""
    if rows.empty:
        return
    rows = rows.assign(size=rows["error_percent"].abs(), of=rows.apply(kind.classed, axis=1))
    rows["size"] = rows["size"].fillna(100.0)
    error_sums = rows.groupby("of")["size"].sum().sort_values(ascending=False)
    for name in error_sums.index[:count]:
        of_class = rows[rows["of"] == name]
        row = of_class.loc[of_class["size"].idxmax()]
        place = ", ".join(f"{column} {row[column]}" for column in kind.place)
        cycles = row["predicted"]
        prediction = "not predicted" if pd.isna(cycles) else f"{cycles:.2f} predicted"
        yield (
            f"    {name}: {len(of_class)} rows, mean error {of_class['size'].mean():.1f} %; "
            f"{place}: {row['cycles']:.2f} cycles measured, {prediction}"
        )


def report(core: Microarch, folder: Path, which: str, count: int) -> Iterator[str]:
    """Yield the lines of a report on a core by the rows of a folder."""
    yield f"{core.name} ({core.id}): rows to {which} of {folder}, cycles by a calibrated clock"
    for kind in KINDS:
        path = folder / kind.file
        if not path.is_file():
            yield f"  {kind.what}: skipped, {path} is missing"
            continue
        rows = half(kind.prepare(pd.read_csv(path)), kind.key, which)
        rows = kind.predict(rows, core)
        yield f"  {kind.what}: " + "; ".join(figure(rows) for figure in kind.figures)
        yield from worst(rows, kind, count)


def main() -> None:
    """Print the report of each measured core."""
    parser = argparse.ArgumentParser(description="Hold the simulator to rows measured on guests.")
    parser.add_argument("--core", help="this core alone")
    parser.add_argument("--rows", metavar="CORE", help="rows of this core's guest, not of its own")
    parser.add_argument("--half", choices=("tune", "aside", "all"), default="all")
    parser.add_argument("--worst", type=int, default=5, metavar="N", help="classes shown")
    options = parser.parse_args()
    folders_by_core = folders()
    names = [options.core] if options.core else list(folders_by_core)
    if not names:
        print(
            f"skipped: no folder of measured rows (*{SUFFIX}) in {FOLDERS}; set LOOPWRIGHT_SHARED"
        )
    for name in names:
        rows = folders_by_core.get(options.rows or name)
        if rows is None:
            raise InputError(
                f"no rows of {options.rows or name}; known: {', '.join(folders_by_core)}"
            )
        for folder in rows:
            print("\n".join(report(microarchs.load(name), folder, options.half, options.worst)))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"validation/guest_rows.py: {error}") from None
