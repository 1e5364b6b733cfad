"""Hold the models to what machines measured: all kernels' loops, and blocks of the BHive suite.

usage: python validation/host.py [-o FOLDER] [--measure [--blocks FILE]]
--measure: measure this machine first, and keep its rows (make cross-validate). FILE: rows of
`measure --blocks` for those blocks on this machine, if they were measured before.
Then, for each machine of which rows are kept in FOLDER (default: validation/hosts), predicts them
with today's models and writes FOLDER/<core>.md, the table for people, and FOLDER/<core>.csv, one
row a block and notion. The blocks are those of $LOOPWRIGHT_SHARED/data/bhive_public.csv (default:
../shared/data; skipped, saying so, where absent): rows name them by a hash of their bytes. What is
measured here never mixes with BHive's own figures, which are of other machines.
"""

import argparse
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import derive_path  # noqa: F401
import host_blocks
import host_kept
import host_text
import pandas as pd
from every_model import MODEL_IDS, predicted, write
from inputs import DATA, REPO

import loopwright as lw
from loopwright import kernels, microarchs, toolchain
from loopwright.checking.check import user_space_note
from loopwright.errors import InputError
from loopwright.judging.model_accuracy import Accuracy
from loopwright.machine import harness, hosts
from loopwright.predicting import question
from loopwright.predicting.question import NOTIONS

PUBLIC = "bhive_public.csv"
_ONE_CALL = 8  # bytes or records of the calls that are measured beside the loops


def measured_loops(core: str) -> pd.DataFrame:
    """Return a row for each main loop of this ISA measured here, as host_kept keeps them.

    cycles are of an iteration; they are missing, with a reason, where the measurement was refused
    or covers only a part of the routine.
    """
    rows = []
    for kernel in kernels.every():
        if kernel.isa != toolchain.host_isa():
            continue
        readings = lw.measure(kernel.id, sizes=(_ONE_CALL,))
        readings = readings[readings["quantity"] == "loop"].set_index("variant")
        for subject in question.variant_subjects(
            [kernel.variants[name] for name in readings.index], microarchs.load(core)
        ):
            name = subject.key["variant"]
            row = readings.loc[name]
            note = user_space_note(kernel.variants[name])
            refused = row["status"] == "refused"
            rows.append(
                {
                    "kernel": kernel.id,
                    "variant": name,
                    "offset": subject.natural,
                    "hex": subject.code.hex(),
                    "cycles": float("nan") if note or refused else row["cycles"],
                    "uncertainty": float("nan") if note or refused else row["uncertainty"],
                    "reason": f"measured {note}" if note else row["reason"] if refused else "",
                }
            )
    return pd.DataFrame(rows, columns=host_kept.LOOPS)


def measured_blocks(codes: list[str], before: Path | None) -> pd.DataFrame:
    """Return a row for each block and notion, measured now or before, as host_kept keeps them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blocks.csv"
        write(path, codes)
        rows = pd.read_csv(before) if before else lw.measure_blocks(path, notion="all")
    digests = rows["code"].map(lambda code: host_blocks.digest(bytes.fromhex(code)))
    return rows.assign(sha256=digests)[host_kept.BLOCKS]


def machine(core: str, before: Path | None) -> dict[str, str]:
    """Return the facts of the measurement: machine, clock, protocol, date."""
    facts = hosts.describe()
    description = {
        "core": f"{microarchs.load(core).name} ({core})",
        "machine": facts["machine"],
        "CPUID": f"{facts['vendor']} family {facts['family']} model {facts['model']} "
        f"stepping {facts['stepping']}, microcode {facts['microcode']}",
        "hypervisor": facts["hypervisor"] or "none",
        "clock": f"{facts['clock']} ({facts['pmu_refused']})",
        "protocol": f"version {harness.protocol()} (harness/README.md)",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "load": f"{os.getloadavg()[2]:.1f} on {os.cpu_count()} CPUs, mean of 15 minutes",
    }
    if before:
        day = datetime.fromtimestamp(before.stat().st_mtime, UTC)
        description["blocks"] = f"measured before the loops, on {day:%Y-%m-%d} at {day:%H:%M} UTC"
    return {key: str(value) for key, value in description.items()}


def published(rows: pd.DataFrame) -> list[list[str]]:
    """Return each model's errors against BHive's own figures, of other machines."""
    lines = []
    for arch, core in host_blocks.BHIVE.items():
        group = rows[rows["arch"] == arch].reset_index(drop=True)
        if group.empty:
            continue
        predictions = predicted(list(group["hex"]), core, "unrolled").assign(
            cycles=group["measured"]
        )
        lines += errors(predictions, core, "BHive's (published)")
    return lines


def errors(rows: pd.DataFrame, core: str, name: str) -> list[list[str]]:
    """Return a line for each model: its errors against cycles of rows, as text."""
    lines = []
    for model in MODEL_IDS:
        accuracy = Accuracy.of(rows[model], rows["cycles"])
        known = accuracy.mape == accuracy.mape
        figures = [f"{accuracy.mape:.1f}", f"{accuracy.tau:.3f}"] if known else ["-", "-"]
        lines.append([core, name, model, str(accuracy.count), *figures])
    return lines


def write_both(folder: Path, core: str, public: pd.DataFrame | None) -> None:
    """Predict the kept rows of a core, and write its page and the rows of its blocks.

    public has BHive's blocks. Where blocks are kept and public is None, nothing is written.
    """
    has_blocks = (folder / f"{core}.csv").is_file()
    if has_blocks and public is None:
        print(f"kept as it is, {PUBLIC} is not in {DATA}; set LOOPWRIGHT_SHARED: {core}.md")
        return
    loops = host_kept.loops(folder, core)
    scores, blocks = errors(loops, core, "kernels' loops"), None
    if has_blocks and public is not None:
        blocks = host_kept.blocks(folder, core, public["hex"])
        for notion in NOTIONS:
            of_notion = blocks[blocks["notion"] == notion]
            scores += errors(of_notion, core, f"BHive's blocks, {notion}")
        scores += published(public)
        host_kept.keep_blocks(folder, core, blocks)
    facts = host_kept.machine(folder, core)
    text = host_text.page(microarchs.load(core).name, facts, scores, loops, blocks)
    (folder / f"{core}.md").write_text(text)
    print(f"wrote {folder / core}.md")


def main() -> None:
    """Measure if asked to, predict, and write."""
    parser = argparse.ArgumentParser(description="Hold the models to what machines measured.")
    parser.add_argument("-o", type=Path, default=REPO / "validation" / "hosts", metavar="FOLDER")
    parser.add_argument("--measure", action="store_true", help="measure this machine first")
    parser.add_argument("--blocks", type=Path, metavar="FILE", help="blocks measured before")
    options = parser.parse_args()
    folder, before = options.o, options.blocks
    path = DATA / PUBLIC
    public = pd.read_csv(path) if path.is_file() else None
    if before and not options.measure:
        raise InputError("--blocks is of what was measured before: give it with --measure")
    if options.measure:
        core = host_blocks.host_core()
        facts = machine(core, before)
        loops = measured_loops(core)
        host_kept.keep_machine(folder, core, facts)
        host_kept.keep_loops(folder, core, loops)
        if public is not None:
            blocks = measured_blocks(list(dict.fromkeys(public["hex"])), before)
            host_kept.keep_blocks(folder, core, blocks.reindex(columns=[*blocks, *MODEL_IDS]))
    for core in host_kept.cores(folder):
        write_both(folder, core, public)


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        raise SystemExit(f"validation/host.py: {error}") from None
