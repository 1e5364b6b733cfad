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
    """Return rows of the first loops with a candidate, and what became of each on the way."""
    isa = toolchain.host_isa()
    asked = LoopsQuestion(obj=str(file), settings=Settings(depth=4, tried=160))
    found = [(s, p) for s, p in loops.loops_of(str(file)) if p.notion == "loop" and p.isa == isa]
    found.sort(
        key=lambda pair: hashlib.sha256(f"{seed}{file.name} {pair[1].id}".encode()).hexdigest()
    )
    rows: list[dict[str, Any]] = []
    looked_at = []
    for section, piece in found:
        if len(rows) == each:
            break
        try:
            one = improve_loop(section, piece, [core], asked)
        except InputError as error:
            said = str(error).split(": ", 1)[-1]
            looked_at.append(
                {"file": file.name, "loop": piece.id, "outcome": f"left alone: {said}"}
            )
            continue
        if not one.named:
            outcome = one.refused[0] if one.refused else "no candidate"
            looked_at.append({"file": file.name, "loop": piece.id, "outcome": outcome})
            continue
        best = next(iter(one.named.values()))
        base = one.search.base
        looked_at.append({"file": file.name, "loop": piece.id, "outcome": "candidate"})
        rows.append(
            {
                "file": file.name, "loop": piece.id, "offset": base.offset, "hex": base.main.hex(),
                "steps": "; ".join(best.listing.steps), "turns": best.listing.iterations,
                "new_offset": best.offset, "new_hex": best.main.hex(), "bytes": best.bytes,
                "proof": str(next(iter(one.proofs.values()))),
            }
        )  # fmt: skip
        print(f"{file.name} {piece.id}: {rows[-1]['steps']}", flush=True)
    return rows, looked_at


def measure(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with what this machine measures of each pair that has no figures yet."""
    isa = toolchain.host_isa()
    blocks = []
    lacking = table.index[table["cycles"].isna() | table["new_cycles"].isna()]
    for n in lacking:
        row = table.loc[n]
        for kind in ("", "new_"):
            code, offset = bytes.fromhex(row[f"{kind}hex"]), int(row[f"{kind}offset"])
            blocks.append(block.of_code(f"{kind}{n}", code, offset, isa, "loop"))
    rows = measure_blocks.measure_in_turns(isa, blocks, measure_blocks.TURNS)
    out = table.copy()
    for at, n in enumerate(lacking):
        old, new = rows[2 * at : 2 * at + 2]
        turns = int(table.loc[n, "turns"])
        out.loc[n, ["cycles", "uncertainty"]] = [old["cycles"], old["uncertainty"]]
        scaled = [new["cycles"] / turns, new["uncertainty"] / turns]
        out.loc[n, ["new_cycles", "new_uncertainty"]] = scaled
        refused = [one["reason"] for one in (old, new) if one["status"] == "refused"]
        out.loc[n, ["clock", "reason"]] = [new["clock"], "; ".join(dict.fromkeys(refused))]
        out.loc[n, "note"] = new["note"]
    return out


def predicted(table: pd.DataFrame, core: Microarch) -> pd.DataFrame:
    """Return the table with today's predictions: cycles an iteration, before and after."""
    isa = toolchain.host_isa()
    out = table.copy()
    asked = []
    for kind in ("", "new_"):
        blocks = [
            Block(isa, bytes.fromhex(row[f"{kind}hex"]), "loop", int(row[f"{kind}offset"]))
            for row in table.to_dict("records")
        ]
        asked.append(blocks)
        cycles = [answer.cycles for answer in models.simulated(blocks, core)]
        out[f"{kind}predicted"] = cycles
    out["new_predicted"] /= out["turns"]
    out["gain"] = out["predicted"] / out["new_predicted"]
    out["least"] = [
        least_gain(old, new, turns, core, {}).gain
        for old, new, turns in zip(asked[0], asked[1], out["turns"], strict=True)
    ]
    out["measured"] = out["cycles"] / out["new_cycles"]
    return out


def report(table: pd.DataFrame, looked_at: pd.DataFrame, core: Microarch) -> Iterator[str]:
    """Yield the lines of the table."""
    asked = shown_gain(core.id)
    today = table[table["least"] >= asked]
    known = today[today["measured"].notna()]
    share = (known["measured"] - 1) >= HALF * (known["gain"] - 1)
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
    percent = f"{100 * asked - 100:.0f} %"
    where = "today, at all ends of what nobody has measured"
    yield f"- a gain of {percent} or more {where}: {len(today)}"
    both = known["gain"].mean(), known["measured"].mean()
    yield f"- mean predicted gain of those measured: {both[0]:.2f}; measured: {both[1]:.2f}"
    of = f"{int(share.sum())} of {len(known)} ({100 * share.mean():.0f} %"
    middle = known["gain"].median(), known["measured"].median()
    yield f"- median predicted gain of those measured: {middle[0]:.2f}; measured: {middle[1]:.2f}"
    proven = table["proof"].str.contains("by SMT;").sum()
    yield f"- proven for all inputs by SMT: {proven} of {len(table)}"
    yield f"- measured: {len(known)} of {len(today)}"
    yield f"- at least half of the predicted gain: {of}, asked {100 * ASKED:.0f} %)"
    errors = known["uncertainty"] / known["cycles"] + known["new_uncertainty"] / known["new_cycles"]
    left = known["measured"] * (1 - errors) > 1
    of = f"{int(share[left].sum())} of {int(left.sum())}"
    yield f"- improve withdraws what this machine does not show; of the rest it is {of}"
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
        said = f"{row['predicted']:.2f} to {row['new_predicted']:.2f}, {row['gain']:.2f}"
        if row["least"] < asked:
            said += f", at the least {row['least']:.2f}: not shown today"
        which = f"{row['file']} | {row['loop']} | {row['steps']} | {row['bytes']}"
        yield f"| {which} | {said} | {figure} |"
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
# Of stac and clac on a target core nobody has measured the cycles: those of Zen 4.
GATES = {"serial.stac_clac": "20"}
NEAR = 0.03
X86_CORES = "zen2,sandybridge,zen3,zen4"


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it waited for."""
    return sum(os.times()[:4])


def families() -> Iterator[str]:
    """Yield the lines of the table of families, each of which is searched from a plain variant."""
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
        began = cpu_seconds()
        of_x86 = spec.startswith("x86_64")
        found = improve.answer(
            spec,
            microarch=X86_CORES if of_x86 else None,
            sizes=None,
            out=None,
            parameters=GATES if "put_event" in spec else None,
            measured=False,
            settings=Settings(),
        )
        seconds = cpu_seconds() - began
        for core, (name, cycles) in found.fastest.items():
            mine = [row for row in found.rows.records() if row["microarch"] == core]
            best = min((row for row in mine if row["status"]), key=lambda row: row["cycles"])
            path = [row for row in mine if row["candidate"] == best["candidate"] and row["step"]]
            steps = "; ".join(row["transformation"] for row in path) or "none"
            yield (
                f"| {spec} | {core} | {mine[0]['cycles']:.1f} | {best['cycles']:.1f} | {steps} "
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
    asked = parser.parse_args()
    if asked.families:
        (asked.o / "families.md").write_text("\n".join(families()) + "\n")
        return
    name = asked.core or hosts.microarch()
    if name is None:
        raise SystemExit("this machine's core is none of `loopwright list microarchs`")
    core = microarchs.load(name)
    kept, others = asked.o / f"{name}.csv", asked.o / f"{name}_looked_at.csv"
    asked.o.mkdir(parents=True, exist_ok=True)
    if asked.core and (asked.find or asked.measure):
        raise SystemExit(
            "--core is for the kept rows of another core: nothing is found or measured"
        )
    if asked.find:
        found = [find(file, asked.each, core, asked.seed) for file in asked.find]
        rows = [row for some, _ in found for row in some]
        pd.DataFrame(rows, columns=COLUMNS).to_csv(kept, index=False)
        pd.DataFrame([one for _, some in found for one in some]).to_csv(others, index=False)
    table = pd.read_csv(kept, dtype=dict.fromkeys(("clock", "reason", "note"), object))
    if asked.measure:
        table = measure(table)
        table.to_csv(kept, index=False)
    lines = report(predicted(table, core), pd.read_csv(others), core)
    (asked.o / f"{name}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
