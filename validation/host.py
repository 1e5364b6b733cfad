"""Hold the models to what this machine measures: all kernels' loops, and blocks of the BHive suite.

usage: python validation/host.py [-o FOLDER] [--blocks FILE]   (make cross-validate)
FILE: rows of `measure --blocks` for those blocks on this machine, if they were measured before.
Writes FOLDER/<core>.md, the table for people, and FOLDER/<core>.csv, one row a block and notion
(default: validation/hosts). The blocks are those of $LOOPWRIGHT_SHARED/data/bhive_public.csv
(default: ../shared/data; skipped, saying so, where absent): rows name them by a hash of their
bytes. What is measured here never mixes with BHive's own figures, which are of other machines.
"""

import argparse
import csv
import hashlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import derive_path  # noqa: F401
import pandas as pd
from inputs import DATA, REPO

import loopwright as lw
from loopwright import harness, kernels, toolchain
from loopwright.cores import microarchs
from loopwright.errors import InputError
from loopwright.judging.accuracy import Accuracy
from loopwright.judging.compare import MEASURED
from loopwright.machine import hosts
from loopwright.measuring.blocks.verb import NOTIONS
from loopwright.predicting.models import MODELS

BHIVE = {"IVB": "ivybridge", "HSW": "haswell", "SKL": "skylake"}
MODEL_IDS = [m.id for m in MODELS]


def measured_loops(core: str) -> pd.DataFrame:
    """Return a row for each variant of this ISA: measured cycles, and each model's."""
    out = []
    for kernel in kernels.every():
        if kernel.isa != toolchain.host_isa():
            continue
        rows = lw.compare(kernel.id)
        mine = rows[rows["microarch"] == core]
        for variant, group in mine.groupby("variant", sort=False):
            said = group.set_index("source")
            real: Mapping[Any, Any] = said.to_dict("index").get(MEASURED, {})
            if real.get("note", ""):  # of a part of the routine, which no model predicts
                real = {"error": f"measured {real['note']}"}
            out.append(
                {
                    "kernel": kernel.id,
                    "variant": variant,
                    "measured": real.get("cycles", float("nan")),
                    "uncertainty": real.get("uncertainty", float("nan")),
                    "reason": real.get("error", ""),
                    **said["cycles"].reindex(MODEL_IDS).to_dict(),
                }
            )
    return pd.DataFrame(out)


def measured_blocks(codes: Sequence[str], core: str, before: Path | None) -> pd.DataFrame:
    """Return a row for each block and notion: measured cycles, now or before, and each model's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blocks.csv"
        _write(path, ((str(n), code) for n, code in enumerate(codes)))
        rows = pd.read_csv(before) if before else lw.measure_blocks(path, notion="all")
        for notion in NOTIONS:
            mine = rows[(rows["notion"] == notion) & rows["cycles"].notna()]
            _write(path, ((str(n), code) for n, code in mine["code"].items()))
            said = lw.predict(blocks=path, microarch=core, model="all", notion=notion)
            for model, answers in said.groupby("model"):
                known = answers.set_index(answers["id"].astype(int))
                rows.loc[mine.index, str(model)] = known["cycles"]
                rows.loc[mine.index, f"{model} error"] = known["error"]
    return rows


def _write(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "hex"), *rows])


def published(rows: pd.DataFrame) -> list[list[str]]:
    """Return each model's errors against BHive's own figures, of other machines."""
    out = []
    for arch, core in BHIVE.items():
        mine = rows[rows["arch"] == arch].reset_index(drop=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "blocks.csv"
            _write(path, ((str(n), code) for n, code in mine["hex"].items()))
            said = lw.predict(blocks=path, microarch=core, model="all", notion="unrolled")
        real = mine["measured"]
        for model in MODEL_IDS:
            answers = said[said["model"] == model]
            cycles = answers.set_index(answers["id"].astype(int))["cycles"]
            out.append([core, "BHive's (published)", model, *_cells(cycles, real)])
    return out


def _cells(said: pd.Series, real: pd.Series) -> list[str]:
    """Return pairs known, MAPE and tau as text."""
    found = Accuracy.of(said, real.reindex(said.index))
    if found.mape != found.mape:
        return [str(found.count), "-", "-"]
    return [str(found.count), f"{found.mape:.1f}", f"{found.tau:.3f}"]


def errors(rows: pd.DataFrame, truth: str, core: str, name: str) -> list[list[str]]:
    """Return each model's errors against the column truth of rows."""
    return [[core, name, model, *_cells(rows[model], rows[truth])] for model in MODEL_IDS]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _number(value: float) -> str:
    return "-" if pd.isna(value) else f"{value:.2f}"


def loops_table(rows: pd.DataFrame) -> str:
    """Return the loops, each with what is measured and each model's error."""
    body = []
    for row in rows.to_dict("records"):
        real = row["measured"]
        cells = [f"{row['kernel']}/{row['variant']}"]
        cells.append("refused" if pd.isna(real) else f"{real:.2f} +- {row['uncertainty']:.2f}")
        for model in MODEL_IDS:
            error = 100 * (row[model] / real - 1)
            cells.append(_number(row[model]) + ("" if pd.isna(error) else f" ({error:+.0f} %)"))
        body.append(cells)
    return table(["loop", "measured", *MODEL_IDS], body)


def _kinds(reasons: Iterable[str]) -> list[list[str]]:
    """Count reasons, numbers in them aside."""
    plain = Counter(re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", reason) for reason in reasons)
    alike: Counter[str] = Counter()
    for reason, count in plain.items():
        alike[re.sub(r"N(, N)+", "N", reason).split(": it's")[0]] += count
    return [[str(count), reason] for reason, count in alike.most_common(12)]


def head(core: str) -> str:
    """Return what the figures are of: machine, clock, protocol, date."""
    said = hosts.describe()
    lines = {
        "core": f"{microarchs.load(core).name} ({core})",
        "machine": said["machine"],
        "CPUID": f"{said['vendor']} family {said['family']} model {said['model']} "
        f"stepping {said['stepping']}, microcode {said['microcode']}",
        "hypervisor": said["hypervisor"] or "none",
        "clock": f"{said['clock']} ({said['pmu_refused']})",
        "protocol": f"version {harness.protocol()} (harness/README.md)",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "load": f"{os.getloadavg()[2]:.1f} on {os.cpu_count()} CPUs, mean of 15 minutes",
    }
    return table(["", ""], [[key, str(value)] for key, value in lines.items()])


def blocks_text(rows: pd.DataFrame) -> str:
    """Return how many blocks gave a figure, and why the others did not."""
    out = []
    for notion in NOTIONS:
        mine = rows[rows["notion"] == notion]
        refused = mine[mine["status"] == "refused"]
        share = 100 * len(refused) / len(mine)
        out += [
            f"{notion}: {len(mine)} blocks, {len(refused)} refused ({share:.1f} %), "
            f"median uncertainty {100 * (mine['uncertainty'] / mine['cycles']).median():.1f} %.",
            "",
        ]
        if len(refused):
            out += [table(["blocks", "refused because"], _kinds(refused["reason"])), ""]
    return "\n".join(out)


def unanswered(rows: pd.DataFrame) -> str:
    """Return why models have no answer for blocks that were measured."""
    body = []
    for model in MODEL_IDS:
        reasons = rows[rows["cycles"].notna()].get(f"{model} error", pd.Series(dtype=str))
        body += [[model, *kind] for kind in _kinds(reasons[reasons.fillna("") != ""])[:5]]
    return table(["model", "rows", "no answer because"], body)


def main() -> None:
    """Measure, predict, and write both files."""
    parser = argparse.ArgumentParser(description="Hold the models to what this machine measures.")
    parser.add_argument("-o", type=Path, default=REPO / "validation" / "hosts", metavar="FOLDER")
    parser.add_argument("--blocks", type=Path, metavar="FILE", help="blocks measured before")
    options = parser.parse_args()
    folder: Path = options.o
    core = hosts.microarch()
    if core is None:
        raise InputError("no core.toml knows this machine; add one with a [host] table")
    loops = measured_loops(core)
    scores = errors(loops, "measured", core, "kernels' loops")
    parts = [f"# The models against {microarchs.load(core).name}, measured", head(core)]
    path = DATA / "bhive_public.csv"
    blocks = pd.DataFrame()
    if path.is_file():
        public = pd.read_csv(path)
        blocks = measured_blocks(list(dict.fromkeys(public["hex"])), core, options.blocks)
        for notion in NOTIONS:
            mine = blocks[blocks["notion"] == notion]
            scores += errors(mine, "cycles", core, f"BHive's blocks, {notion}")
        scores += published(public)
    else:
        print(f"skipped: {path.name} is not in {DATA}; set LOOPWRIGHT_SHARED")
    heads = ["core", "measured", "model", "pairs", "MAPE %", "Kendall's tau"]
    parts += [
        "## Errors",
        table(heads, scores),
        "## Loops, cycles an iteration",
        loops_table(loops),
    ]
    if len(blocks):
        parts.append("## Blocks")
        if options.blocks:
            day = datetime.fromtimestamp(options.blocks.stat().st_mtime, UTC)
            parts.append(f"Measured before the loops, on {day:%Y-%m-%d} at {day:%H:%M} UTC.")
        parts += [blocks_text(blocks), unanswered(blocks)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{core}.md").write_text("\n\n".join(part.strip() for part in parts) + "\n")
    if len(blocks):
        _rows(blocks).to_csv(folder / f"{core}.csv", index=False, float_format="%.4f")
    print(f"wrote {folder / core}.md")


def _rows(blocks: pd.DataFrame) -> pd.DataFrame:
    """Return the blocks' rows as they are kept: named by what their code hashes to."""
    named = blocks["code"].map(lambda code: hashlib.sha256(bytes.fromhex(code)).hexdigest()[:16])
    kept = ["notion", "cycles", "uncertainty", "status", "reason", "note", "clock", *MODEL_IDS]
    return pd.concat([named.rename("sha256"), blocks[kept]], axis=1)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"validation/host.py: {error}") from None
