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

import pandas as pd

import loopwright as lw
from loopwright import kernels, toolchain
from loopwright.code import assemble
from loopwright.cores import microarchs
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.machine import hosts
from loopwright.predicting import calls
from loopwright.predicting.calls import CallCost, CallQuestion

FOLDER = Path(__file__).resolve().parent / "calls"
SIZES = (0, 1, 7, 8, 15, 16, 24, 31, 32, 48, 63, 64, 65, 100, 128, 200, 256, 333, 512, 777, 1024,
         1500, 2048, 3000, 4096)  # fmt: skip
RECORDS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 64)
ALIGNMENTS = ((0, 0), (1, 0), (0, 1), (5, 3), (8, 8), (32, 16), (63, 62))
KEPT = ["kernel", "variant", "sha256", "count", "dst_align", "src_align", "cycles", "uncertainty",
        "status", "clock", "date"]  # fmt: skip
NEAR = 0.15
WORST = 20


def measure() -> pd.DataFrame:
    """Return a row for each call measured here that gave a figure."""
    parts = []
    for kernel in kernels.every():
        if kernel.isa != toolchain.host_isa():
            continue
        records = any(r.contract.effect == "store_fields" for r in kernel.routines.values())
        sizes = RECORDS if records else SIZES
        parts.append(lw.measure(kernel.id, sizes=sizes, alignments=ALIGNMENTS))
    return keep(pd.concat(parts, ignore_index=True), datetime.now(UTC).strftime("%Y-%m-%d"))


def keep(rows: pd.DataFrame, date: str) -> pd.DataFrame:
    """Return rows of measure as they are kept: calls that gave a figure, named by their code."""
    rows = rows[(rows["quantity"] == "call") & (rows["status"] != "refused")].copy()
    variants = [_variant(*key) for key in zip(rows["kernel"], rows["variant"], strict=True)]
    rows["sha256"] = [_sha256(v) for v in variants]
    of_records = [kernels.contract_of(v).count_bytes for v in variants]
    rows["count"] = [s // r for s, r in zip(rows["size_bytes"], of_records, strict=True)]
    rows["date"] = date
    return rows[KEPT].round({"cycles": 3, "uncertainty": 3})


def _variant(kernel: str, name: str) -> Variant:
    return kernels.load(kernel).variants[name]


def _sha256(variant: Variant) -> str:
    return assemble.user_code(variant).sha256[:16]


def compare(rows: pd.DataFrame, core: str) -> pd.DataFrame:
    """Return the rows of code that is still the same, with what is predicted of them.

    error is relative. outside is how far measured lies from what is between cycles, where all
    branches are predicted, and mispredicted: 0 where it lies between them. why says why nothing is
    predicted.
    """
    groups, questions = [], []
    for (kernel, name), mine in rows.groupby(["kernel", "variant"], sort=False):
        known = kernels.load(str(kernel)).variants.get(str(name))
        if known and (mine["sha256"] == _sha256(known)).all():
            places = list(zip(mine["count"], mine["dst_align"], mine["src_align"], strict=True))
            groups.append(mine)
            questions.append(
                CallQuestion(known, microarchs.load(core), places, {}, in_user_space=True)
            )
    found = [one for answers in calls.of_variants(questions) for one in answers]
    out = pd.concat(groups, ignore_index=True)
    out["predicted"] = [one.cycles if isinstance(one, CallCost) else None for one in found]
    out["mispredicted"] = [one.mispredicted if isinstance(one, CallCost) else None for one in found]
    out["why"] = ["" if isinstance(one, CallCost) else str(one) for one in found]
    out = out.astype({"predicted": "float64", "mispredicted": "float64"})
    out["error"] = out["predicted"] / out["cycles"] - 1
    nearest = out["cycles"].clip(lower=out["predicted"], upper=out["mispredicted"])
    out["outside"] = nearest / out["cycles"] - 1
    return out


def summary(rows: pd.DataFrame) -> Iterator[str]:
    """Yield what can be said of all rows, in sentences."""
    known = rows[rows["why"] == ""]
    error, outside = known["error"].abs(), known["outside"].abs()
    between = (outside == 0) & (error > 0)
    yield f"{len(known)} calls predicted and measured; {len(rows) - len(known)} have no prediction."
    yield (
        f"Median error {100 * error.median():.1f} %; within 15 %: "
        f"{100 * (error <= NEAR).mean():.1f} %; all branches predicted."
    )
    yield (
        f"With mispredicted exits as a range: median {100 * outside.median():.1f} %, within 15 %: "
        f"{100 * (outside <= NEAR).mean():.1f} %; {between.sum()} calls lie inside of it."
    )


def report(rows: pd.DataFrame, core: str) -> str:
    """Return the table for people."""
    known = rows[rows["why"] == ""]
    dates, clocks = (", ".join(sorted(set(map(str, rows[c])))) for c in ("date", "clock"))
    parts = [
        f"# Whole calls on {microarchs.load(core).name}: predicted beside measured",
        f"Measured on {dates} by {clocks}, on a shared machine; the rows are in {core}.csv. Of all "
        "variants of its ISA, hot, as user space runs them.",
        *summary(rows),
        "## By variant, percent",
        _table(
            ["variant", "calls", "median", "within 15 %", "median with range", "bias"],
            (_row(f"{k}/{v}", mine) for (k, v), mine in known.groupby(["kernel", "variant"])),
        ),
        "## The largest errors, with mispredicted exits as a range",
        _table(
            ["variant", "count", "dst", "src", "measured", "predicted", "mispredicted"],
            (_call(row) for row in _worst(known).to_dict("records")),
        ),
    ]
    if reasons := sorted(set(rows["why"]) - {""}):
        parts += ["## Without a prediction", *(f"- {why}" for why in reasons)]
    return "\n\n".join(parts) + "\n"


def _worst(known: pd.DataFrame) -> pd.DataFrame:
    order = known["outside"].abs().sort_values(ascending=False).index
    return known.loc[order[:WORST]]


def _row(name: str, mine: pd.DataFrame) -> list[str]:
    outside = mine["outside"].abs()
    figures = (
        mine["error"].abs().median(), (outside <= NEAR).mean(), outside.median(),
        mine["error"].median(),
    )  # fmt: skip
    return [name, str(len(mine)), *(f"{100 * f:.1f}" for f in figures)]


def _call(row: dict[Any, Any]) -> list[str]:
    cycles = (f"{row[name]:.1f}" for name in ("cycles", "predicted", "mispredicted"))
    place = (str(row[name]) for name in ("count", "dst_align", "src_align"))
    return [f"{row['kernel']}/{row['variant']}", *place, *cycles]


def _table(heads: list[str], rows: Iterator[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Measure if asked to, compare, and write."""
    parser = argparse.ArgumentParser(description="Hold whole calls to what was measured.")
    parser.add_argument("--measure", action="store_true", help="measure on this machine first")
    if parser.parse_args().measure:
        core = hosts.microarch()
        if core is None:
            raise InputError("no core.toml knows this machine; add one with a [host] table")
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
