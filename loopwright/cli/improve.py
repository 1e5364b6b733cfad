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
@options.isa("Instruction set of --asm (default: the one that the text assembles for).")
@click.option(
    "--free",
    metavar="REG[,REG]",
    help="Loops: registers, or flags, that no code after them reads (default: found from the "
    "code after them).",
)
@options.microarch("Cores to optimize for (default: the target cores of the kernel's ISA).")
@options.sizes
@options.settings
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the candidates as variants of their kernel; with LOOPWRIGHT_KERNELS=DIR, check, "
    "recommend and patch use them.",
)
@click.option("--no-measure", is_flag=True, help="Measure nothing on this machine.")
@click.option(
    "--tried",
    type=click.IntRange(1),
    default=400,
    metavar="N",
    help="Simulate at most N candidates (default: 400).",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep simulated costs in DIR: an interrupted search continues from them, as does one "
    "with a larger --tried.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    metavar="N",
    help="Seed of the order in which candidates are tried.",
)
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
    """Search faster code for a variant, or for loops of a file.

    Transformations make candidates, and the simulator compares these on every core. Candidates
    for a variant are checked against its contract with a fault at every position, and measured
    alternately with the variant if this machine can run them. Candidates for a loop are compared
    by cycles an iteration, and proven equal by runs in an emulated core. An interrupt ends the
    search; the best candidates so far are then proven and shown.

    Exit code 1 if no better code was found, or if none of it passed.

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
        for line in answered.findings:
            output.say(line)
        for path in answered.files:
            print(path)
    steps = [row for row in answered.rows.records() if row["step"]]
    return 0 if any(row["status"] in ("proven", "measured") for row in steps) else 1
