"""Hold what improve finds for loops of libraries to what this machine measures of it.

usage: python validation/improved.py [--find FILE ... [--each N] [--seed TEXT]] [--measure]
       [--core ID] [--families] [-o FOLDER]
--find: take the innermost loops of each file in the order of a hash of file name and loop, until N
of them (default 5) have a candidate on this machine's core; keep rows in FOLDER/<core>.csv, in
place of those of before, and in FOLDER/<core>_looked_at.csv what became of every loop on the way.
--seed, which stands before what is hashed, draws others.
--measure: measure each kept candidate in turns with its loop, if they have no figures yet: of one
that was refused for what else the machine did, a further run may bring some.
Then FOLDER/<core>.md (default FOLDER: validation/improved) says how much of the predicted gains was
measured; --core writes that of another core's rows. Today's model is asked anew, so that the rows
stay data for it: of some a gain may not be shown today.
--families: search from a plain variant of each family, and write FOLDER/families.md: what the best
candidate costs on each target core beside the family's fastest variant that is written by hand.
"""

import argparse
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import derive_path  # noqa: F401
import pandas as pd
from inputs import REPO

from loopwright import microarchs, toolchain
from loopwright.code import loops
from loopwright.errors import InputError
from loopwright.improving import improve
from loopwright.improving.loops import LoopsQuestion, improve_loop, least_gain, shown_gain
from loopwright.improving.search import Settings
from loopwright.machine import hosts
from loopwright.measuring import block, measure_blocks
from loopwright.microarchs import Microarch
from loopwright.predicting import models
from loopwright.predicting.model import Block

COLUMNS = [
    "file", "loop", "offset", "hex", "steps", "turns", "new_offset", "new_hex", "bytes", "proof",
    "cycles", "uncertainty", "new_cycles", "new_uncertainty", "clock", "reason", "note",
]  # fmt: skip
HALF, ASKED, SLOWER = 0.5, 0.8, 0.02


def find(
    file: Path, each: int, core: Microarch, seed: str
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Return rows of the first loops with a candidate, and the outcome of each loop looked at."""
    isa = toolchain.host_isa()
    question = LoopsQuestion(obj=str(file), settings=Settings(depth=4, tried=160))
    pieces = [(s, p) for s, p in loops.loops_of(str(file)) if p.notion == "loop" and p.isa == isa]
    pieces.sort(
        key=lambda pair: hashlib.sha256(f"{seed}{file.name} {pair[1].id}".encode()).hexdigest()
    )
    rows: list[dict[str, Any]] = []
    looked_at = []
    for section, piece in pieces:
        if len(rows) == each:
            break
        try:
            improvement = improve_loop(section, piece, [core], question)
        except InputError as error:
            reason = str(error).split(": ", 1)[-1]
            looked_at.append(
                {"file": file.name, "loop": piece.id, "outcome": f"left alone: {reason}"}
            )
            continue
        if not improvement.named:
            outcome = improvement.refused[0] if improvement.refused else "no candidate"
            looked_at.append({"file": file.name, "loop": piece.id, "outcome": outcome})
            continue
        best = next(iter(improvement.named.values()))
        base = improvement.search.base
        looked_at.append({"file": file.name, "loop": piece.id, "outcome": "candidate"})
        rows.append(
            {
                "file": file.name, "loop": piece.id, "offset": base.offset, "hex": base.main.hex(),
                "steps": "; ".join(best.listing.steps), "turns": best.listing.iterations,
                "new_offset": best.offset, "new_hex": best.main.hex(), "bytes": best.bytes,
                "proof": str(next(iter(improvement.proofs.values()))),
            }
        )  # fmt: skip
        print(f"{file.name} {piece.id}: {rows[-1]['steps']}", flush=True)
    return rows, looked_at


def measure(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with figures of this machine for each pair that had none."""
    isa = toolchain.host_isa()
    blocks = []
    lacking = table.index[table["cycles"].isna() | table["new_cycles"].isna()]
    for label in lacking:
        row = table.loc[label]
        for kind in ("", "new_"):
            code, offset = bytes.fromhex(row[f"{kind}hex"]), int(row[f"{kind}offset"])
            blocks.append(block.of_code(f"{kind}{label}", code, offset, isa, "loop"))
    rows = measure_blocks.measure_in_turns(isa, blocks, measure_blocks.TURNS)
    updated = table.copy()
    for index, label in enumerate(lacking):
        old, new = rows[2 * index : 2 * index + 2]
        turns = int(table.loc[label, "turns"])
        updated.loc[label, ["cycles", "uncertainty"]] = [old["cycles"], old["uncertainty"]]
        scaled = [new["cycles"] / turns, new["uncertainty"] / turns]
        updated.loc[label, ["new_cycles", "new_uncertainty"]] = scaled
        refused = [result["reason"] for result in (old, new) if result["status"] == "refused"]
        updated.loc[label, ["clock", "reason"]] = [new["clock"], "; ".join(dict.fromkeys(refused))]
        updated.loc[label, "note"] = new["note"]
    return updated


def predicted(table: pd.DataFrame, core: Microarch) -> pd.DataFrame:
    """Return the table with today's predictions: cycles an iteration, before and after."""
    isa = toolchain.host_isa()
    updated = table.copy()
    blocks_by_kind = []
    for kind in ("", "new_"):
        blocks = [
            Block(isa, bytes.fromhex(row[f"{kind}hex"]), "loop", int(row[f"{kind}offset"]))
            for row in table.to_dict("records")
        ]
        blocks_by_kind.append(blocks)
        cycles = [answer.cycles for answer in models.simulated(blocks, core)]
        updated[f"{kind}predicted"] = cycles
    updated["new_predicted"] /= updated["turns"]
    updated["gain"] = updated["predicted"] / updated["new_predicted"]
    updated["least"] = [
        least_gain(old, new, turns, core, {}).gain
        for old, new, turns in zip(
            blocks_by_kind[0], blocks_by_kind[1], updated["turns"], strict=True
        )
    ]
    updated["measured"] = updated["cycles"] / updated["new_cycles"]
    return updated


def report(table: pd.DataFrame, looked_at: pd.DataFrame, core: Microarch) -> Iterator[str]:
    """Yield the lines of the page."""
    least_shown = shown_gain(core.id)
    today = table[table["least"] >= least_shown]
    known = today[today["measured"].notna()]
    halfway = (known["measured"] - 1) >= HALF * (known["gain"] - 1)
    slower = known["measured"] < 1 - SLOWER
    yield f"# Loops of libraries that improve made faster, on {core.id}"
    yield ""
    yield (
        "Made by `python validation/improved.py`; which loops are taken is said there. Gains are "
        "cycles an iteration before, divided by those after: predicted by the pipeline simulator, "
        "and measured in turns."
    )
    yield ""
    yield f"- loops looked at, by a hash: {len(looked_at)}; with a candidate: {len(table)}"
    percent = f"{100 * least_shown - 100:.0f} %"
    where = "today, at all ends of what nobody has measured"
    yield f"- a gain of {percent} or more {where}: {len(today)}"
    means = known["gain"].mean(), known["measured"].mean()
    yield f"- mean predicted gain of those measured: {means[0]:.2f}; measured: {means[1]:.2f}"
    counts = f"{int(halfway.sum())} of {len(known)} ({100 * halfway.mean():.0f} %"
    medians = known["gain"].median(), known["measured"].median()
    yield f"- median predicted gain of those measured: {medians[0]:.2f}; measured: {medians[1]:.2f}"
    proven = table["proof"].str.contains("by SMT;").sum()
    yield f"- proven for all inputs by SMT: {proven} of {len(table)}"
    yield f"- measured: {len(known)} of {len(today)}"
    yield f"- at least half of the predicted gain: {counts}, asked {100 * ASKED:.0f} %)"
    relative = (
        known["uncertainty"] / known["cycles"] + known["new_uncertainty"] / known["new_cycles"]
    )
    shown_here = known["measured"] * (1 - relative) > 1
    counts = f"{int(halfway[shown_here].sum())} of {int(shown_here.sum())}"
    yield f"- improve withdraws what this machine does not show; of the rest it is {counts}"
    yield f"- slower by more than {100 * SLOWER:.0f} %: {int(slower.sum())}"
    yield ""
    yield "| file | loop | transformations | bytes | predicted | measured |"
    yield "|---|---|---|---|---|---|"
    for row in table.to_dict("records"):
        shared = isinstance(row["note"], str) and "shared" in row["note"]
        figure = (
            f"{row['cycles']:.2f} to {row['new_cycles']:.2f}, {row['measured']:.2f}"
            f"{'; memory shared by pages' if shared else ''}"
            if row["measured"] == row["measured"]
            else f"not: {str(row['reason']).split(';')[0].split(' (in')[0]}"
        )
        prediction = f"{row['predicted']:.2f} to {row['new_predicted']:.2f}, {row['gain']:.2f}"
        if row["least"] < least_shown:
            prediction += f", at the least {row['least']:.2f}: not shown today"
        cells = f"{row['file']} | {row['loop']} | {row['steps']} | {row['bytes']}"
        yield f"| {cells} | {prediction} | {figure} |"
    yield ""
    yield "What became of the others:"
    yield ""
    yield "| outcome | loops |"
    yield "|---|---|"
    others = looked_at[looked_at["outcome"] != "candidate"]["outcome"]
    classes = others.str.replace(r"0x[0-9a-f]+|%\w+|\d+", "N", regex=True)
    for outcome, count in classes.value_counts().items():
        yield f"| {outcome} | {count} |"


FAMILIES = (
    "x86_64/clear_user/plain",
    "x86_64/copy_user/loop32",
    "x86_64/copy_user/negative_index",
    "x86_64/csum/adc1",
    "x86_64/put_event/put_user_twice",
    "arm64/copy_user/to_user_batched",
)
# Cycles of stac and clac as on Zen 4: nobody has measured them on a target core.
GATES = {"serial.stac_clac": "20"}
NEAR = 0.03
X86_CORES = "zen2,sandybridge,zen3,zen4"


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it waited for."""
    return sum(os.times()[:4])


def families() -> Iterator[str]:
    """Yield the lines of the page of families, each searched from a plain variant."""
    yield "# Families that improve searches from a plain variant"
    yield ""
    yield (
        "Made by `python validation/improved.py --families`. Cycles are of a call, the geometric "
        "mean from 64 to 4096 B (put_event: 96 to 768 B), by the pipeline simulator: of the plain "
        "variant, of the best "
        "candidate that honours the contract, and of the family's fastest variant that is written "
        f"by hand. Within {100 * NEAR:.0f} % is asked. CPU time is that of search and proofs, but "
        "for proofs of code that passed before. "
        "`put_event` is with 20 cycles for stac and clac, which nobody has measured on Zen 2."
    )
    yield ""
    yield "| from | core | before | best found | transformations | by hand | of that | CPU time |"
    yield "|---|---|---|---|---|---|---|---|"
    for spec in FAMILIES:
        start = cpu_seconds()
        of_x86 = spec.startswith("x86_64")
        result = improve.answer(
            spec,
            microarch=X86_CORES if of_x86 else None,
            sizes=None,
            out=None,
            parameters=GATES if "put_event" in spec else None,
            measured=False,
            settings=Settings(),
        )
        seconds = cpu_seconds() - start
        for core, (name, cycles) in result.fastest.items():
            rows = [row for row in result.rows.records() if row["microarch"] == core]
            best = min((row for row in rows if row["status"]), key=lambda row: row["cycles"])
            path = [row for row in rows if row["candidate"] == best["candidate"] and row["step"]]
            steps = "; ".join(row["transformation"] for row in path) or "none"
            yield (
                f"| {spec} | {core} | {rows[0]['cycles']:.1f} | {best['cycles']:.1f} | {steps} "
                f"| {name}, {cycles:.1f} | {100 * best['cycles'] / cycles - 100:+.1f} % "
                f"| {seconds:.0f} s |"
            )


def main() -> None:
    """Find, measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--find", nargs="+", type=Path, default=[])
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("--seed", default="")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("-o", type=Path, default=REPO / "validation" / "improved")
    parser.add_argument("--core")
    parser.add_argument("--families", action="store_true")
    options = parser.parse_args()
    if options.families:
        (options.o / "families.md").write_text("\n".join(families()) + "\n")
        return
    name = options.core or hosts.microarch()
    if name is None:
        raise SystemExit("this machine's core is none of `loopwright list microarchs`")
    core = microarchs.load(name)
    kept, looked_at = options.o / f"{name}.csv", options.o / f"{name}_looked_at.csv"
    options.o.mkdir(parents=True, exist_ok=True)
    if options.core and (options.find or options.measure):
        raise SystemExit(
            "--core is for the kept rows of another core: nothing is found or measured"
        )
    if options.find:
        finds = [find(file, options.each, core, options.seed) for file in options.find]
        rows = [row for part, _ in finds for row in part]
        pd.DataFrame(rows, columns=COLUMNS).to_csv(kept, index=False)
        pd.DataFrame([looked for _, part in finds for looked in part]).to_csv(
            looked_at, index=False
        )
    table = pd.read_csv(kept, dtype=dict.fromkeys(("clock", "reason", "note"), object))
    if options.measure:
        table = measure(table)
        table.to_csv(kept, index=False)
    lines = report(predicted(table, core), pd.read_csv(looked_at), core)
    (options.o / f"{name}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
