"""Loops and routines of public libraries that others measured, beside what two models predict.

usage: python validation/public_loops.py [--loops FILE.csv] [CORE ...]
The rows are read from $LOOPWRIGHT_SHARED/data/measured/public-loops/loops.csv (default:
../shared/data/...) or from FILE: id, core, hex, offset, cycles, source. Code that ends in a branch
to its own start is predicted as a loop, other code as calls that follow each other. Without the
file it prints what is missing and exits with 0.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import derive_path  # noqa: F401
import pandas as pd
from inputs import DATA

from loopwright import microarchs
from loopwright.predicting.model import Block
from loopwright.predicting.models import select

FILE = DATA / "measured" / "public-loops" / "loops.csv"
MODELS = "pipeline,llvm-mca"
# Rows that set a figure of the simulator, and so do not check it, with that figure.
SET = {
    "s2n_bignum_montmul_p384_neon_d3a7b195": "scheduler.pool_entries",
    "s2n_bignum_montsqr_p521_65f046ec": "scheduler.pool_entries",
    "s2n_bignum_mul_p521_02df8e4d": "scheduler.pool_entries",
    "s2n_p256_montjdouble_02df8e4d": "scheduler.pool_entries",
    "sm4_cbc_inner": "tbl of four registers",
    **dict.fromkeys(
        (
            "gmp_sbr_atom_mul_2",
            "gmp_sbr_bd1_mul_2",
            "gmp_sbr_bt1_aorsmul_1_addmul_1",
            "gmp_sbr_coreinhm_aorsmul_1_addmul_1",
            "gmp_sbr_coreisbr_addmul_2",
            "gmp_sbr_coreisbr_mul_1",
            "gmp_sbr_div_qr_1n_pi1",
            "gmp_sbr_k8_aorrlsh_n_addlsh_n",
            "gmp_sbr_mod_1_1",
            "gmp_sbr_mul_1",
        ),
        "ports.result_cycles",
    ),
}


def block(row: pd.Series) -> Block:
    """Return the code of a row: a loop on x86, on AArch64 a routine without its return."""
    isa = microarchs.load(row["core"]).isa
    notion = "unrolled" if isa == "arm64" else "loop"
    return Block(isa, bytes.fromhex(row["hex"]), notion, int(row["offset"]))


def predicted(rows: pd.DataFrame, models: str = MODELS) -> pd.DataFrame:
    """Return one line for each row and model: measured and predicted cycles, error in percent.

    Cycles and error are NaN where a model has no answer; `why` then says why.
    """
    lines = []
    for name, group in rows.groupby("core", sort=False):
        core = microarchs.load(str(name))
        blocks = [block(row) for _, row in group.iterrows()]
        for model in select(models):
            answers = model.predict(blocks, core)
            for (_, row), answer in zip(group.iterrows(), answers, strict=True):
                cycles = float("nan") if answer.cycles is None else answer.cycles
                lines.append(
                    {
                        "core": name,
                        "loop": row["id"],
                        "set": SET.get(row["id"], ""),
                        "measured": float(row["cycles"]),
                        "model": model.id,
                        "cycles": cycles,
                        "error": 100 * (cycles / float(row["cycles"]) - 1),
                        "why": answer.error,
                    }
                )
    return pd.DataFrame(lines)


def summary(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return one line for each core, model and kind of row (set a figure or not): errors in %."""
    keys = ["core", "set_a_figure", "model"]
    marked = predictions.assign(
        size=predictions["error"].abs(), set_a_figure=predictions["set"].ne("")
    )
    groups = marked.groupby(keys, sort=False)
    return groups.agg(
        rows=("size", "size"),
        answered=("size", "count"),
        median_error=("size", "median"),
        mean_error=("size", "mean"),
    ).reset_index()


def show(path: Path = FILE, cores: tuple[str, ...] = ()) -> None:
    """Print each row with both models' answers, then the errors of each core."""
    print("\nLoops and routines of public libraries as others measured them, cycles")
    if not path.is_file():
        print(f"  skipped: {path} is not here; set LOOPWRIGHT_SHARED or give --loops FILE.csv")
        return
    rows = pd.read_csv(path)
    if cores:
        rows = rows[rows["core"].isin(cores)]
    if rows.empty:
        print(f"  no row of {', '.join(cores)} in {path}")
        return
    predictions = predicted(rows)
    wide = predictions.pivot(index=["core", "loop", "set", "measured"], columns="model")
    columns = {
        f"{model} {what}".replace("error", "error %"): wide[what][model]
        for model in predictions["model"].unique()
        for what in ("cycles", "error")
    }
    print(pd.DataFrame(columns).reset_index().to_string(index=False, float_format="{:.1f}".format))
    for _, row in predictions[predictions["why"].ne("")].iterrows():
        print(f"  {row['model']}: {row['loop']}: {row['why']}")
    print(
        "\nerrors by core, in percent; rows that set a figure of the simulator's are no check of it"
    )
    print(summary(predictions).to_string(index=False, float_format="{:.1f}".format))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Public loops beside the models' predictions.")
    parser.add_argument("--loops", type=Path, default=FILE, metavar="FILE.csv")
    parser.add_argument("core", nargs="*", metavar="CORE")
    options = parser.parse_args()
    show(options.loops, tuple(options.core))


if __name__ == "__main__":
    main()
