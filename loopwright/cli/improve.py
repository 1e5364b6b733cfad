"""The verb improve, and its tables."""

from itertools import groupby
from pathlib import Path
from typing import Any

import click

from loopwright.cli import options, output
from loopwright.rows import Rows

Row = dict[str, Any]


def show_improved(rows: Rows) -> None:
    """Print each candidate as a table: a line a transformation, a column a core."""
    for candidate, group in groupby(rows.records(), key=lambda row: row["candidate"]):
        steps = [list(step) for _, step in groupby(group, key=lambda row: row["step"])]
        last = steps[-1][0]
        output.say(f"{candidate}: {last['status']}, {last['bytes']} B", style="bold")
        output.draw(Rows.of(map(_line, steps)))
        if last["note"]:
            output.say(last["note"])
        print()


def _line(step: list[Row]) -> Row:
    line: Row = {"transformation": step[0]["transformation"], "bytes": step[0]["bytes"]}
    for row in step:
        worst = "" if row["worst"] <= row["cycles"] * 1.01 else f" ({row['worst']:.1f})"
        line[row["microarch"]] = f"{row['cycles']:.1f}{worst}"
    return line


@click.command()
@options.spec("KERNEL[/VARIANT]")
@options.microarch("Cores to be faster on; the targets of the kernel's ISA where left out.")
@options.sizes
@options.settings
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the candidates there as variants of their kernel; LOOPWRIGHT_KERNELS=DIR then has "
    "check, recommend and patch take them.",
)
@click.option("--no-measure", is_flag=True, help="Time nothing on this machine.")
@click.option(
    "--tried",
    type=click.IntRange(1),
    default=400,
    metavar="N",
    help="Simulate at most so many candidates (400).",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Of the order they are tried in.")
@output.formats
def improve(
    spec: str,
    microarch: str | None,
    sizes: str | None,
    settings: tuple[str, ...],
    out: Path | None,
    no_measure: bool,
    tried: int,
    seed: int,
) -> int:
    """Search better code for a variant's contract.

    Candidates are made by named transformations, compared by the simulator on every core, held to
    the contract with a fault at every position, and measured in turns with the variant where this
    machine can. An interrupt ends the search; the best so far is proven and shown.

    Exit code 1 where nothing better was found, or what was is withdrawn.

    \b
    loopwright improve x86_64/clear_user/plain --microarch zen2,zen4
    loopwright improve x86_64/copy_user/negative_index -o better
    LOOPWRIGHT_KERNELS=better loopwright patch x86_64/copy_user/negative_index_improved ...
    """
    from loopwright.improving.improve import answer
    from loopwright.improving.search import Settings

    with output.progress("searching") as step:
        found = answer(
            spec,
            microarch=microarch,
            sizes=sizes,
            out=out,
            parameters=options.parameters(settings),
            measured=not no_measure,
            settings=Settings(tried=tried, seed=seed),
            progress=step,
        )
    if output.row_format():
        output.emit(found.rows)
    else:
        show_improved(found.rows)
        for line in found.said:
            output.say(line)
        for path in found.files:
            print(path)
    steps = [row for row in found.rows.records() if row["step"]]
    return 0 if any(row["status"] in ("proven", "measured") for row in steps) else 1
