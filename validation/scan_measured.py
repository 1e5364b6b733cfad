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
_AMONG = 5000  # loops of a file from which some are picked
_TRIES, _REST = 6, 5.0  # of loops that a busy machine disturbed, and seconds between two
_OTHERS = 3  # further places of a loop that is called indifferent
_LOOP = ["binary", "address"]
_ONCE = ("function", "hex", "path")  # written in the first of a loop's rows


def chosen(
    name: str, file: Path, core: Microarch, count: int
) -> Iterator[tuple[ScannedLoop, str, list[int]]]:
    """Yield loops of a file picked at random, what they are called, and the places to measure."""
    chance = random.Random(name)  # the same loops each time
    loops = find_loops(images.read_image(file)).loops
    loops = chance.sample(loops, min(len(loops), _AMONG))
    (costs,) = cost(loops, [core])
    once: dict[object, int] = {}
    for n in range(len(loops)):
        once.setdefault((loops[n].code, loops[n].path), n)
    known = [n for n in once.values() if not np.isnan(costs.cycles[n])]
    hurt = [n for n in known if costs.hurt[n]][:count]
    alike = [n for n in known if not costs.depends[n]][:count]
    for n in hurt:
        yield loops[n], "hurt", [loops[n].offset, int(np.nanargmin(costs.table[n]))]
    for n in alike:
        others = chance.sample([at for at in range(64) if at != loops[n].offset], _OTHERS)
        yield loops[n], "indifferent", [loops[n].offset, *others]


def measured(name: str, file: Path, core: Microarch, count: int) -> pd.DataFrame:
    """Return a row for each loop picked of a file and place, as they are kept."""
    picked = list(chosen(name, file, core, count))
    kept: dict[int, pd.DataFrame] = {}
    for again in range(_TRIES):
        left = [n for n in range(len(picked)) if n not in kept or _disturbed(kept[n])]
        if not left:
            break
        time.sleep(_REST * bool(again))
        rows = measure_loops([picked[n][0] for n in left], [picked[n][2] for n in left])
        kept |= {n: rows[rows["loop"] == at] for at, n in enumerate(left)}
    out = []
    for n, (loop, called, _) in enumerate(picked):
        rows = kept[n].copy()
        rows["place"] = rows["offset"]
        for column, value in (
            ("binary", name),
            ("address", f"{loop.address:#x}"),
            ("function", loop.where),
            ("hex", loop.code.hex()),
            ("path", " ".join(f"{start}-{end}" for start, end in loop.path)),
            ("chosen", called),
            ("own", loop.offset),
        ):
            rows[column] = value
        rows.loc[rows.index[1:], list(_ONCE)] = ""
        out.append(rows)
    return pd.concat(out)[COLUMNS] if out else pd.DataFrame(columns=COLUMNS)


def _disturbed(rows: pd.DataFrame) -> bool:
    """Say whether a place was refused for what the machine did, and not for what the loop is."""
    return bool(rows["reason"].str.contains(r"self-test failed|in \d+ of \d+ processes").any())


def judged(rows: pd.DataFrame, core: Microarch) -> pd.DataFrame:
    """Return a row for each loop kept: what it is called today, and how many times it was measured.

    times is what it takes where it lies to its best place measured, of one called indifferent its
    worst place to its best; NaN where a place was refused, with the reason.
    """
    loops = [mine for _, mine in rows.groupby(_LOOP, sort=False)]
    firsts = [mine.iloc[0] for mine in loops]
    table, errors = cycles_by_offset(
        [(bytes.fromhex(one["hex"]), _path(one["path"])) for one in firsts], core
    )
    costs = CoreCosts(core, table, errors, [one["own"] for one in firsts])
    out = []
    for n, (mine, one) in enumerate(zip(loops, firsts, strict=True)):
        real = mine["cycles"].where(mine["status"] != "refused").set_axis(mine["place"])
        cycles = table[n]
        hurt, alike = bool(costs.hurt[n]), n not in errors and not costs.depends[n]
        most = real.max() if alike else real[one["own"]]
        out.append(
            {
                **{key: one[key] for key in (*_LOOP, "function", "chosen", "hex", "path", "own")},
                "called": "hurt" if hurt else "indifferent" if alike else "between",
                "predicted": " ".join(f"{at}:{cycles[at]:.2f}" for at in real.index),
                "measured": " ".join(f"{at}:{one:.2f}" for at, one in real.items()),
                "times": most / real.min() if real.notna().all() else float("nan"),
                "reason": next((why for why in mine["reason"].fillna("") if why), ""),
                "aside": host_blocks.kept_aside(bytes.fromhex(one["hex"])),
            }
        )
    return pd.DataFrame(out)


def right(rows: pd.DataFrame) -> pd.Series:
    """Say of each judged row whether it was measured to be what it is called."""
    return (rows["times"] >= CONFIRMED) == (rows["called"] == "hurt")


def page(rows: pd.DataFrame, core: Microarch, machine: dict[str, str]) -> str:
    """Return the table for people."""
    known = rows[rows["times"].notna() & (rows["called"] != "between")]
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
    groups = [(f"{name}", mine) for name, mine in known.groupby("binary")]
    groups += [("looked at to find causes", known[~known["aside"]])]
    groups += [("kept aside", known[known["aside"]]), ("**all**", known)]
    for name, mine in groups:
        cells = [name]
        for called in ("hurt", "indifferent"):
            some = mine[mine["called"] == called]
            good = int(right(some).sum())
            cells += [
                str(len(some)),
                str(good),
                f"{100 * good / len(some):.0f}" if len(some) else "-",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    between = int((rows["called"] == "between").sum())
    refused = rows[rows["times"].isna()]["reason"].str.split(r": | at \+| \(").str[0].value_counts()
    lines += ["", f"{between} loops picked are called neither today. Not measured:", ""]
    lines += [f"- {count}: {why}" for why, count in refused.items()] or ["- none"]
    wrong = known[~right(known)]
    lines += ["", "## Where it is wrong", "", "| binary | loop | called | predicted | measured |"]
    lines += ["|---|---|---|---|---|"]
    for row in wrong.to_dict("records"):
        loop = f"`{row['function']}`"
        figures = f"{row['predicted']} | {row['measured']}"
        lines.append(f"| {row['binary']} | {loop} | {row['called']} | {figures} |")
    return "\n".join(lines) + "\n"


def _path(text: str) -> tuple[tuple[int, int], ...]:
    return tuple((int(a), int(b)) for a, b in (one.split("-") for one in text.split()))


def _machine(files: dict[str, Path]) -> dict[str, str]:
    """Return what was measured, by what, when."""
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
    files = dict(one.split("=", 1) for one in options.measure)
    core_id = hosts.microarch() if files else None
    if files and core_id is None:
        raise InputError("no core.toml knows this machine; add one with a [host] table")
    for name, file in files.items():
        keep(options.o, str(core_id), name, Path(file), options.loops)
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
    """Measure loops of a file, and keep them in place of those kept by that name."""
    new = measured(name, file, microarchs.load(core), count)
    path = folder / f"{core}.csv"
    folder.mkdir(parents=True, exist_ok=True)
    old = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)
    rows = pd.concat([old[old["binary"] != name], new]) if len(old) else new
    rows.to_csv(path, index=False, float_format="%.4f")
    machine = _machine({name: file})
    if _machine_file(path).exists():
        before = pd.read_csv(_machine_file(path), dtype=str)
        machine = dict(zip(before["what"], before["value"], strict=True)) | machine
    pd.DataFrame(machine.items(), columns=["what", "value"]).to_csv(
        _machine_file(path), index=False
    )
    print(f"measured {name}: {new.drop_duplicates(_LOOP).shape[0]} loops", flush=True)


def _machine_file(path: Path) -> Path:
    return path.with_name(f"{path.stem}_machine.csv")


if __name__ == "__main__":
    try:
        main()
    except (InputError, OSError) as error:
        raise SystemExit(f"validation/scan_measured.py: {error}") from None
