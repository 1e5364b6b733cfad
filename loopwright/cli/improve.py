"""The verb improve, and its tables."""

from itertools import groupby
from pathlib import Path
from typing import Any

import click

from loopwright.cli import options, output
from loopwright.errors import InputError
from loopwright.rows import Rows

Row = dict[str, Any]


def show_improved(rows: Rows) -> None:
    """Print each candidate as a table: a line for each transformation, a column for each core.

    Code without a better candidate shares one table behind them.
    """
    loops = len(dict.fromkeys(row.get("id") for row in rows.records())) > 1
    kept: list[Row] = []
    for (loop, candidate), group in groupby(
        rows.records(), key=lambda row: (row.get("id"), row["candidate"])
    ):
        steps = [list(step) for _, step in groupby(group, key=lambda row: row["step"])]
        if len(steps) == 1:
            kept.append(_line(steps[0]))
            continue
        last = steps[-1][0]
        where = f"{loop}: " if loops else ""
        output.say(f"{where}{candidate}: {last['status']}, {last['bytes']} B", style="bold")
        output.draw(Rows.of(map(_line, steps)))
        if last["note"]:
            output.say(last["note"])
        print()
    if kept:
        output.say("nothing better found", style="bold")
        output.draw(Rows.of({"code": line.pop("transformation"), **line} for line in kept))
        print()


_CALL_CYCLES = 20  # cycles from which a figure has one decimal


def _line(step: list[Row]) -> Row:
    line: Row = {"transformation": step[0]["transformation"], "bytes": step[0]["bytes"]}
    for row in step:
        worst = "" if row["worst"] <= row["cycles"] * 1.01 else f" ({row['worst']:.1f})"
        digits = 1 if row["cycles"] >= _CALL_CYCLES else 2
        line[row["microarch"]] = f"{row['cycles']:.{digits}f}{worst}"
    return line


@click.command()
@options.spec("[KERNEL[/VARIANT]|-]", required=False)
@options.loops
@options.isa("Of --asm; else the one that it assembles for.")
@click.option(
    "--free",
    metavar="REG[,REG]",
    help="Of loops: registers, or flags, that nothing behind them reads; else what the code behind "
    "them says.",
)
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
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep there what is simulated: a search that was interrupted goes on, and one with a "
    "larger --tried begins with it.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Of the order they are tried in.")
@output.formats
def improve(
    spec: str | None,
    own: options.Loops,
    isa: str | None,
    free: str | None,
    microarch: str | None,
    sizes: str | None,
    settings: tuple[str, ...],
    out: Path | None,
    no_measure: bool,
    tried: int,
    state: Path | None,
    seed: int,
) -> int:
    """Search better code for a variant, or for loops of a file.

    Candidates are made by named transformations, compared by the simulator on every core, held to
    the contract with a fault at every position, and measured in turns with the variant where this
    machine can. An interrupt ends the search; the best so far is proven and shown. Loops of a
    text or an object are compared by their cycles an iteration, and held equal to the loop by runs
    in an emulated core.

    Exit code 1 where nothing better was found, or what was is withdrawn.

    \b
    loopwright improve x86_64/clear_user/plain --microarch zen2,zen4
    loopwright improve x86_64/copy_user/negative_index -o better
    loopwright improve x86_64/csum/adc1 --tried 2000 --state searched
    loopwright improve --obj /usr/lib/x86_64-linux-gnu/libz.so.1:adler32_z --microarch zen3
    LOOPWRIGHT_KERNELS=better loopwright patch x86_64/copy_user/negative_index_improved ...
    """
    from loopwright.improving.improve import answer
    from loopwright.improving.loops import LoopsQuestion, answer_loops
    from loopwright.improving.search import Settings

    if sum(one is not None for one in (spec, *own.values())) != 1:
        raise InputError(
            "give one of KERNEL/VARIANT, --asm FILE, --obj FILE[:SYMBOL] and --hex HEX"
        )
    parameters = options.parameters(settings)
    if spec is None:
        if sizes is not None:
            raise InputError("--sizes is for KERNEL/VARIANT: a loop's cost is that of an iteration")
        asked = LoopsQuestion(
            asm=own["hex"] if own["asm"] is None else own["asm"],
            obj=own["obj"],
            isa=isa,
            microarch=microarch,
            free=tuple(name.strip() for name in (free or "").split(",") if name.strip()),
            parameters=parameters,
            measured=not no_measure,
            out=out,
            settings=Settings(depth=4, tried=tried, seed=seed),
            state=state,
        )
        with output.progress("searching") as step:
            answered = answer_loops(asked, step)
    else:
        if isa is not None or free is not None:
            raise InputError("--isa and --free are for --asm, --obj and --hex")
        with output.progress("searching") as step:
            answered = answer(
                spec,
                microarch=microarch,
                sizes=sizes,
                out=out,
                parameters=parameters,
                measured=not no_measure,
                settings=Settings(tried=tried, seed=seed),
                progress=step,
                state=state,
            )
    output.emit(answered.rows, show_improved)
    if not output.row_format():
        for line in answered.said:
            output.say(line)
        for path in answered.files:
            print(path)
    steps = [row for row in answered.rows.records() if row["step"]]
    return 0 if any(row["status"] in ("proven", "measured") for row in steps) else 1
