"""Hold whole calls to what was measured on a machine, by rows that any machine can compare.

usage: python validation/host_calls.py [--measure]   (part of make cross-validate and make validate)
--measure: measure every variant of this machine's ISA first (some 15 minutes), and keep the rows in
validation/calls/<core>.csv. Then, for each such file, writes validation/calls/<core>.md: predicted
beside measured, by variant, and the largest errors. Rows whose code has changed since are left out.
"""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import host_blocks
import pandas as pd
from markdown_table import table

from loopwright import kernels, microarchs
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.reporting import cross_validation

FOLDER = Path(__file__).resolve().parent / "calls"
SIZES = (0, 1, 7, 8, 15, 16, 24, 31, 32, 48, 63, 64, 65, 100, 128, 200, 256, 333, 512, 777, 1024,
         1500, 2048, 3000, 4096)  # fmt: skip
RECORDS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 64)
ALIGNMENTS = ((0, 0), (1, 0), (0, 1), (5, 3), (8, 8), (32, 16), (63, 62))
KEPT = ["kernel", "variant", "sha256", "offset", "count", "dst_align", "src_align", "cycles",
        "uncertainty", "status", "clock", "date"]  # fmt: skip
WORST = 20


def measure() -> pd.DataFrame:
    """Return a row for each call measured here that gave a figure."""
    rows = cross_validation.calls_here(SIZES, RECORDS, ALIGNMENTS)
    return keep(rows, datetime.now(UTC).strftime("%Y-%m-%d"))


def keep(rows: pd.DataFrame, date: str) -> pd.DataFrame:
    """Return measured calls as they are kept: named by their code."""
    rows = rows.copy()
    variants = [_variant(*key) for key in zip(rows["kernel"], rows["variant"], strict=True)]
    rows["sha256"] = [_sha256(v) for v in variants]
    record_bytes = [kernels.contract_of(v).count_bytes for v in variants]
    rows["count"] = [s // r for s, r in zip(rows["size_bytes"], record_bytes, strict=True)]
    rows["date"] = date
    return rows[KEPT].round({"cycles": 3, "uncertainty": 3})


def _variant(kernel: str, name: str) -> Variant:
    return kernels.load(kernel).variants[name]


def _sha256(variant: Variant) -> str:
    return assemble.user_code(variant).sha256[:16]


def compare(rows: pd.DataFrame, core: str) -> pd.DataFrame:
    """Return the rows whose code is still the same, as cross_validation.paired_calls has them."""
    same = []
    for (kernel, name), group in rows.groupby(["kernel", "variant"], sort=False):
        variant = kernels.load(str(kernel)).variants.get(str(name))
        if variant and (group["sha256"] == _sha256(variant)).all():
            size = group["count"] * kernels.contract_of(variant).count_bytes
            same.append(group.assign(size_bytes=size))
    return cross_validation.paired_calls(pd.concat(same, ignore_index=True), core)


def summary(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the counts and errors of all rows, in sentences."""
    answered = rows[rows["why"] == ""]
    errors, outside = cross_validation.error_figures(answered), answered["outside_percent"].abs()
    between = (outside == 0) & (answered["error_percent"] != 0)
    close = outside <= cross_validation.NEAR_PERCENT
    cycle = outside / 100 * answered["measured_cycles"] <= 1
    near, or_cycle = 100 * close.mean(), 100 * (close | cycle).mean()
    unanswered = len(rows) - len(answered)
    yield f"{len(answered)} calls predicted and measured; {unanswered} have no prediction."
    yield (
        f"Median error {errors['median_percent']:.1f} %; within 15 %: "
        f"{errors['within_15_percent']:.1f} %; all branches predicted."
    )
    yield (
        f"With mispredicted exits as a range: median {errors['median_in_range_percent']:.1f} %, "
        f"within 15 %: {near:.1f} %, within 15 % or a cycle: {or_cycle:.1f} %; {between.sum()} "
        "calls lie inside of it."
    )


def report(rows: pd.DataFrame, core: str) -> str:
    """Return the page of a core's calls."""
    answered = rows[rows["why"] == ""]
    dates, clocks = (", ".join(sorted(set(map(str, rows[c])))) for c in ("date", "clock"))
    parts = [
        f"# Whole calls on {microarchs.load(core).name}: predicted beside measured",
        f"Measured on {dates} by {clocks}, on a shared machine; the rows are in {core}.csv. Of all "
        "variants of its ISA, hot, as user space runs them.",
        *summary(rows),
        "## By variant, percent",
        table(
            ["variant", "calls", "median", "within 15 %", "median with range", "bias"],
            map(_row, cross_validation.call_errors(answered).to_dict("records")),
        ),
        "## The largest errors, with mispredicted exits as a range",
        table(
            ["variant", "count", "dst", "src", "measured", "predicted", "mispredicted"],
            map(_call, cross_validation.worst_calls(answered, WORST).to_dict("records")),
        ),
    ]
    if reasons := sorted(set(rows["why"]) - {""}):
        parts += ["## Without a prediction", *(f"- {why}" for why in reasons)]
    return "\n\n".join(parts) + "\n"


def _row(row: dict[Any, Any]) -> list[str]:
    figures = (row[name] for name in cross_validation.CALL_ERRORS[3:])
    name = f"{row['kernel']}/{row['variant']}"
    return [name, str(row["calls"]), *(f"{figure:.1f}" for figure in figures)]


def _call(row: dict[Any, Any]) -> list[str]:
    names = ("measured_cycles", "predicted_cycles", "mispredicted_cycles")
    place = (str(row[name]) for name in ("count", "dst_align", "src_align"))
    return [f"{row['kernel']}/{row['variant']}", *place, *(f"{row[n]:.1f}" for n in names)]


def main() -> None:
    """Measure if asked to, compare, and write."""
    parser = argparse.ArgumentParser(description="Hold whole calls to what was measured.")
    parser.add_argument("--measure", action="store_true", help="measure on this machine first")
    if parser.parse_args().measure:
        core = host_blocks.host_core()  # before 15 minutes of measuring
        measure().to_csv(FOLDER / f"{core}.csv", index=False)
    for path in sorted(FOLDER.glob("*.csv")):
        rows = compare(pd.read_csv(path), path.stem)
        path.with_suffix(".md").write_text(report(rows, path.stem))
        print(f"{path.stem}: {' '.join(summary(rows))}")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"validation/host_calls.py: {error}") from None
