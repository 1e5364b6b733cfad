"""Hold what scan says of loops and their places to what this machine measures of them.

usage: python validation/scan_measured.py [--measure NAME=FILE ... [--loops N]] [-o FOLDER]
--measure: scan binaries first; of each pick up to N loops (default 40) at random that scan calls
hurt on this machine's core, and as many that it calls indifferent; measure the hurt ones where they
lie and at their best place, the indifferent ones where they lie and at three other places at
random; and keep the rows in FOLDER/<core>.csv in place of those of the same NAME.
Then today's model is asked about all rows kept (default FOLDER: validation/scan_measured), and
FOLDER/<core>.md says how often it is right. Which loops are called what is decided anew, so that a
row stays a row of the table when the model changes: what was hurt may be called nothing now.

A loop is measured hurt where it takes 1.2 times its best place or more, and indifferent where none
of its places takes 1.2 times another. Rows are in two halves by a hash of their code: causes of
errors are looked for in one, the other is kept aside.
"""

import argparse
import hashlib
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import derive_path  # noqa: F401
import host_blocks
import numpy as np
import pandas as pd
from inputs import REPO

from loopwright import microarchs
from loopwright.errors import InputError
from loopwright.machine import harness, hosts
from loopwright.microarchs import Microarch
from loopwright.scanning import images
from loopwright.scanning.binary_loops import ScannedLoop, find_loops
from loopwright.scanning.costs import CoreCosts, cost, cycles_by_offset
from loopwright.scanning.suspects import CONFIRMED, measure_loops

COLUMNS = [
    "binary", "address", "function", "hex", "path", "chosen", "own", "place", "cycles",
    "uncertainty", "status", "reason", "note",
]  # fmt: skip
_SAMPLED = 5000  # loops of a file from which some are picked
_TRIES, _PAUSE = 6, 5.0  # tries of loops that a busy machine disturbs, and seconds between two
_OTHER_PLACES = 3  # further places of a loop that is called indifferent
_LOOP_KEY = ["binary", "address"]
_FIRST_ROW_ONLY = ("function", "hex", "path")  # written in the first of a loop's rows


def chosen(
    name: str, file: Path, core: Microarch, count: int
) -> Iterator[tuple[ScannedLoop, str, list[int]]]:
    """Yield loops of a file picked at random, their class by scan, and the places to measure."""
    draw = random.Random(name)  # the same loops each time
    loops = find_loops(images.read_image(file)).loops
    loops = draw.sample(loops, min(len(loops), _SAMPLED))
    (costs,) = cost(loops, [core])
    first_of: dict[object, int] = {}
    for n in range(len(loops)):
        first_of.setdefault((loops[n].code, loops[n].path), n)
    predicted = [n for n in first_of.values() if not np.isnan(costs.cycles[n])]
    hurt = [n for n in predicted if costs.hurt[n]][:count]
    indifferent = [n for n in predicted if not costs.depends[n]][:count]
    for n in hurt:
        yield loops[n], "hurt", [loops[n].offset, int(np.nanargmin(costs.table[n]))]
    for n in indifferent:
        others = draw.sample(
            [offset for offset in range(64) if offset != loops[n].offset], _OTHER_PLACES
        )
        yield loops[n], "indifferent", [loops[n].offset, *others]


def measured(name: str, file: Path, core: Microarch, count: int) -> pd.DataFrame:
    """Return a row for each picked loop of a file and each of its places, as they are kept."""
    picked = list(chosen(name, file, core, count))
    rows_of_loop: dict[int, pd.DataFrame] = {}
    for attempt in range(_TRIES):
        remaining = [
            n for n in range(len(picked)) if n not in rows_of_loop or _disturbed(rows_of_loop[n])
        ]
        if not remaining:
            break
        time.sleep(_PAUSE * bool(attempt))
        rows = measure_loops([picked[n][0] for n in remaining], [picked[n][2] for n in remaining])
        rows_of_loop |= {n: rows[rows["loop"] == at] for at, n in enumerate(remaining)}
    parts = []
    for n, (loop, class_, _) in enumerate(picked):
        rows = rows_of_loop[n].copy()
        rows["place"] = rows["offset"]
        for column, value in (
            ("binary", name),
            ("address", f"{loop.address:#x}"),
            ("function", loop.where),
            ("hex", loop.code.hex()),
            ("path", " ".join(f"{start}-{end}" for start, end in loop.path)),
            ("chosen", class_),
            ("own", loop.offset),
        ):
            rows[column] = value
        rows.loc[rows.index[1:], list(_FIRST_ROW_ONLY)] = ""
        parts.append(rows)
    return pd.concat(parts)[COLUMNS] if parts else pd.DataFrame(columns=COLUMNS)


def _disturbed(rows: pd.DataFrame) -> bool:
    """True if a place was refused for a disturbance, not for a property of the loop."""
    return bool(rows["reason"].str.contains(r"self-test failed|in \d+ of \d+ processes").any())


def judged(rows: pd.DataFrame, core: Microarch) -> pd.DataFrame:
    """Return a row for each kept loop: its class by today's model, and the measured ratio.

    times is the ratio of cycles at its own place to those at its best measured one; of a loop
    called indifferent, of its worst place to its best. It is NaN where a place was refused, with
    the reason.
    """
    loops = [loop_rows for _, loop_rows in rows.groupby(_LOOP_KEY, sort=False)]
    firsts = [loop_rows.iloc[0] for loop_rows in loops]
    table, errors = cycles_by_offset(
        [(bytes.fromhex(first["hex"]), _parsed_path(first["path"])) for first in firsts], core
    )
    costs = CoreCosts(core, table, errors, [first["own"] for first in firsts])
    lines = []
    for n, (loop_rows, first) in enumerate(zip(loops, firsts, strict=True)):
        known = loop_rows["cycles"].where(loop_rows["status"] != "refused")
        cycles_at = known.set_axis(loop_rows["place"])
        cycles = table[n]
        hurt, indifferent = bool(costs.hurt[n]), n not in errors and not costs.depends[n]
        slowest = cycles_at.max() if indifferent else cycles_at[first["own"]]
        lines.append(
            {
                **{
                    key: first[key]
                    for key in (*_LOOP_KEY, "function", "chosen", "hex", "path", "own")
                },
                "called": "hurt" if hurt else "indifferent" if indifferent else "between",
                "predicted": " ".join(f"{at}:{cycles[at]:.2f}" for at in cycles_at.index),
                "measured": " ".join(f"{at}:{figure:.2f}" for at, figure in cycles_at.items()),
                "times": slowest / cycles_at.min() if cycles_at.notna().all() else float("nan"),
                "reason": next((why for why in loop_rows["reason"].fillna("") if why), ""),
                "aside": host_blocks.kept_aside(bytes.fromhex(first["hex"])),
            }
        )
    return pd.DataFrame(lines)


def right(rows: pd.DataFrame) -> pd.Series:
    """Return for each judged row whether the measurement confirms its class."""
    return (rows["times"] >= CONFIRMED) == (rows["called"] == "hurt")


def page(rows: pd.DataFrame, core: Microarch, machine: dict[str, str]) -> str:
    """Return the page of a core."""
    decided = rows[rows["times"].notna() & (rows["called"] != "between")]
    lines = [
        f"# Loops hurt by their code offset on {core.name}: predicted and measured",
        "",
        "Made by validation/scan_measured.py of the rows beside it. Loops were picked at random of",
        "those called hurt and of those called indifferent when they were measured; what they are",
        "called here is what today's model says. Measured hurt: 1.2 times the best offset or more.",
        "",
        *(f"- {key}: {value}" for key, value in machine.items()),
        "",
        "| binary | called hurt | are | % | called indifferent | are | % |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = [(f"{name}", group) for name, group in decided.groupby("binary")]
    groups += [("looked at to find causes", decided[~decided["aside"]])]
    groups += [("kept aside", decided[decided["aside"]]), ("**all**", decided)]
    for name, group in groups:
        cells = [name]
        for called in ("hurt", "indifferent"):
            of_class = group[group["called"] == called]
            correct = int(right(of_class).sum())
            cells += [
                str(len(of_class)),
                str(correct),
                f"{100 * correct / len(of_class):.0f}" if len(of_class) else "-",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    between = int((rows["called"] == "between").sum())
    refused = rows[rows["times"].isna()]["reason"].str.split(r": | at \+| \(").str[0].value_counts()
    lines += ["", f"{between} loops picked are called neither today. Not measured:", ""]
    lines += [f"- {count}: {why}" for why, count in refused.items()] or ["- none"]
    wrong = decided[~right(decided)]
    lines += ["", "## Where it is wrong", "", "| binary | loop | called | predicted | measured |"]
    lines += ["|---|---|---|---|---|"]
    for row in wrong.to_dict("records"):
        loop = f"`{row['function']}`"
        figures = f"{row['predicted']} | {row['measured']}"
        lines.append(f"| {row['binary']} | {loop} | {row['called']} | {figures} |")
    return "\n".join(lines) + "\n"


def _parsed_path(text: str) -> tuple[tuple[int, int], ...]:
    return tuple((int(a), int(b)) for a, b in (piece.split("-") for piece in text.split()))


def _machine(files: dict[str, Path]) -> dict[str, str]:
    """Return the facts of the measurement: machine, clock, protocol, date, files."""
    host = hosts.describe()
    return {
        "machine": f"{host['machine']}, family {host['family']} model {host['model']}",
        "clock": str(host["clock"]),
        "protocol": f"version {harness.protocol()} (harness/README.md)",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    } | {
        name: f"{path.name}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
        for name, path in files.items()
    }


def main() -> None:
    """Measure if asked to, judge what is kept, and write the page."""
    parser = argparse.ArgumentParser(description="Hold scan to what this machine measures.")
    parser.add_argument("--measure", nargs="+", default=[], metavar="NAME=FILE")
    parser.add_argument("--loops", type=int, default=40, metavar="N")
    parser.add_argument("-o", type=Path, default=REPO / "validation" / "scan_measured")
    options = parser.parse_args()
    files = dict(argument.split("=", 1) for argument in options.measure)
    for name, file in files.items():
        keep(options.o, host_blocks.host_core(), name, Path(file), options.loops)
    for path in sorted(options.o.glob("*.csv")):
        if path.stem.endswith("_machine"):
            continue
        core = microarchs.load(path.stem)
        rows = judged(pd.read_csv(path), core)
        facts = pd.read_csv(_machine_file(path), dtype=str)
        text = page(rows, core, dict(zip(facts["what"], facts["value"], strict=True)))
        path.with_suffix(".md").write_text(text)
        print(f"wrote {path.with_suffix('.md')}")


def keep(folder: Path, core: str, name: str, file: Path, count: int) -> None:
    """Measure loops of a file, and keep their rows in place of earlier ones of that name."""
    new = measured(name, file, microarchs.load(core), count)
    path = folder / f"{core}.csv"
    folder.mkdir(parents=True, exist_ok=True)
    kept = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)
    rows = pd.concat([kept[kept["binary"] != name], new]) if len(kept) else new
    rows.to_csv(path, index=False, float_format="%.4f")
    machine = _machine({name: file})
    if _machine_file(path).exists():
        known_facts = pd.read_csv(_machine_file(path), dtype=str)
        machine = dict(zip(known_facts["what"], known_facts["value"], strict=True)) | machine
    pd.DataFrame(machine.items(), columns=["what", "value"]).to_csv(
        _machine_file(path), index=False
    )
    print(f"measured {name}: {new.drop_duplicates(_LOOP_KEY).shape[0]} loops", flush=True)


def _machine_file(path: Path) -> Path:
    return path.with_name(f"{path.stem}_machine.csv")


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        raise SystemExit(f"validation/scan_measured.py: {error}") from None
