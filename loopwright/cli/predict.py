"""The verbs predict, trace and mca."""

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from loopwright.cli import options, output
from loopwright.errors import InputError
from loopwright.rows import Rows


@click.command()
@options.spec("[KERNEL[/VARIANT]|all|-]", required=False)
@options.loops
@options.blocks
@options.isa()
@options.microarch()
@click.option(
    "--model",
    metavar="ID[,ID]|all",
    shell_complete=options.complete_models,
    help="Models to ask (default: pipeline, the simulator).",
)
@click.option(
    "--notion",
    metavar="loop|unrolled|call",
    help="Prediction kind. loop: the code repeats by its own branch. unrolled: copies back to "
    "back. call: whole calls of --sizes.",
)
@click.option(
    "--sizes",
    metavar="N[,N]|FILE[:MAP]",
    help="Predict whole calls of these sizes in bytes (or records), or of a bpftrace histogram "
    "of sizes.",
)
@click.option(
    "--align",
    metavar="D:S[,D:S]",
    help="Whole calls: data alignment of destination and source, in bytes from a page start.",
)
@click.option("--offset", metavar="N|all", help="Code offset of the loop, in bytes mod 64.")
@options.settings("Set a parameter of the simulator, e.g. front_end=ideal or uop_cache.lines=2.")
@click.option(
    "--timeline",
    "iterations",
    type=int,
    metavar="N",
    help="Show the stage of each uop in each cycle of the first N iterations.",
)
@click.option(
    "--ports",
    is_flag=True,
    help="Show a listing with the ports of each instruction, the critical path, and the "
    "boundaries of 64-byte lines.",
)
@click.option(
    "--sources",
    is_flag=True,
    help="Show the source of each figure, and the assumptions that would change the cycles.",
)
@output.formats
def predict(
    own_loops: options.Loops,
    iterations: int | None,
    ports: bool,
    sources: bool,
    **arguments: Any,
) -> int:
    """Predict cycles an iteration of loops, or of whole calls.

    The code is a kernel's main loops, loops of your own, or many blocks.

    Exit code 1 if no row has a figure.

    \b
    loopwright predict x86_64/copy_user
    loopwright predict arm64/copy_user/to_user_batched --microarch tsv110
    loopwright predict --hex 4883c0014839c875f7 --microarch zen2 --json
    loopwright predict --blocks blocks.csv --microarch skylake --csv
    loopwright predict --asm loop.s --microarch host,zen2
    objdump -d loop.o | loopwright predict - --microarch zen2
    loopwright predict x86_64/copy_user --sizes 64,256,4096 --align 0:0,1:0
    loopwright predict --obj lib/string.o:memcpy --microarch zen2
    loopwright predict x86_64/clear_user --model all
    loopwright predict x86_64/clear_user --offset all --set front_end=ideal
    loopwright predict x86_64/clear_user/stores --microarch zen2 --timeline 3
    loopwright predict x86_64/copy_user/loop32 --microarch sandybridge --ports
    loopwright predict x86_64/copy_user/movsq --microarch zen2 --sources
    loopwright predict all --microarch all --offset all --csv
    """
    from loopwright.cli import prediction_views
    from loopwright.predicting.explain import (
        TimelineQuestion,
        answer_ports,
        answer_sources,
        answer_timeline,
    )
    from loopwright.predicting.models import SIMULATOR
    from loopwright.predicting.predict import answer
    from loopwright.predicting.question import Question

    if sum((iterations is not None, ports, sources)) > 1:
        raise InputError("--timeline, --ports and --sources exclude each other")
    if arguments["sizes"] is not None and (iterations is not None or ports or sources):
        raise InputError("--timeline, --ports and --sources are of loops: leave --sizes out")
    models = (arguments["model"] or "all").split(",")
    if arguments["parameters"] and "all" not in models and SIMULATOR not in models:
        raise InputError(f"--set is of the simulator: ask model {SIMULATOR}, too")
    arguments |= own_loops
    if iterations is not None:
        rows = answer_timeline(TimelineQuestion(**arguments, iterations=iterations))
        view = prediction_views.show_timeline
    elif ports:
        rows, view = answer_ports(Question(**arguments)), prediction_views.show_ports
    elif sources:
        rows, view = answer_sources(Question(**arguments)), prediction_views.show_sources
    elif arguments["sizes"] is not None:
        with output.progress("predicting") as step:
            rows = answer(Question(**arguments, progress=step))
        view = prediction_views.show_calls
    else:
        rows, view = answer(Question(**arguments)), prediction_views.show_predictions
    output.emit(rows, view)
    answered = not all(rows.column("error"))
    if arguments["sizes"] is not None:  # a range counts as an answer
        answered = answered or any(low is not None for low in rows.column("low"))
    return output.exit_code(answered, "no prediction")


Row = dict[str, Any]


def show_trace(rows: Rows) -> None:
    """Print a call as one table, or a loop as a table for each iteration."""
    for title, group in groupby(rows.records(), key=_title):
        if title:
            output.say(title, style="bold")
        output.draw(Rows.of(_line(row) for row in group))
        print()
    if "iteration" in rows.columns:
        output.say(
            "A register that addresses memory starts in a buffer named like it, all others at "
            "zero; memory holds zeros; exits are not taken."
        )


def _title(row: Row) -> str:
    return f"{row['id']}, iteration {row['iteration']}" if "iteration" in row else ""


def _line(row: Row) -> Row:
    from loopwright.cli.prediction_views import plain

    text = plain(row["text"])
    repeats = row["repeats"]
    return {
        "address": row["address"],
        "offset": row["offset"],
        "text": text if repeats == 1 else f"{text}, {repeats} times",
        "taken": row["taken"],
        "load": _access(row, "load"),
        "store": _access(row, "store"),
        "fault": row["fault"],
    }


def _access(row: Row, kind: str) -> str:
    return f"{row[kind]}, {row[f'{kind}_bytes']} B" if row[kind] else ""


@click.command()
@options.spec("[KERNEL/VARIANT|-]", required=False)
@options.loops
@click.option(
    "--size",
    type=int,
    metavar="N",
    help="KERNEL/VARIANT: size of the call in bytes, or in records for a routine that stores "
    "records.",
)
@click.option(
    "--align",
    default="0:0",
    metavar="D:S",
    help="Data alignment of destination and source, in bytes from a page start.",
)
@click.option(
    "--fault",
    metavar="dst:N|src:N",
    help="Make only the first N bytes of that buffer accessible, and trace the fixup, too.",
)
@options.microarch("Take the ALTERNATIVEs that this core takes (default: all).", metavar="ID")
@click.option("--offset", type=int, metavar="N", help="Code offset of the loop, in bytes mod 64.")
@click.option(
    "--iterations",
    type=int,
    metavar="N",
    help="Number of iterations of each loop of --asm, --obj or --hex (default: 2).",
)
@options.isa("Instruction set of --asm or --hex.")
@output.formats
def trace(own_loops: options.Loops, align: str, fault: str | None, **arguments: Any) -> None:
    """Show each instruction that a call or a loop executes.

    Each line has the branch taken and the memory accesses.

    In a loop of your own, each register that addresses memory starts as a pointer to a buffer of
    its name. All other registers and all memory are zero, and exits are not taken.

    \b
    loopwright trace x86_64/copy_user/movsq_aligned --size 100 --align 1:0
    loopwright trace arm64/copy_user/to_user_pairs --size 200 --fault dst:130
    loopwright trace x86_64/csum/adc4 --size 1500 --csv
    loopwright trace --asm loop.s --iterations 3
    """
    from loopwright.machine.trace import TraceQuestion, answer_trace

    pairs = options.alignments(align)
    if len(pairs) != 1:
        raise InputError(f"--align {align!r}: one call has one alignment; give it as 1:0")
    side, _, accessible = (fault or "").partition(":")
    if fault and not accessible.isdecimal():
        raise InputError(f"--fault {fault!r} is not dst:N or src:N, e.g. dst:37")
    fault_at = (side, int(accessible)) if fault else None
    rows = answer_trace(TraceQuestion(**arguments, **own_loops, align=pairs[0], fault=fault_at))
    hidden = ("kernel", "variant", "load_address", "store_address")
    output.emit(rows, show_trace, hide=hidden, on_terminal_alone=True)


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mca(arguments: tuple[str, ...]) -> int:
    """Analyze assembly with llvm-mca's flags and sections.

    The output adds the cycles of code alignment and the front end, which llvm-mca does not model.

    \b
    loopwright mca -mcpu=znver2 loop.s
    loopwright mca -mcpu=neoverse-n1 -timeline -bottleneck-analysis < loop.s
    loopwright mca --help
    """
    from loopwright import files, paths
    from loopwright.code import binding
    from loopwright.machine import hosts

    for argument in arguments:
        files.finite(Path(argument))
    core_named = any(argument.lstrip("-").startswith("mcpu") for argument in arguments)
    host = None if core_named else hosts.microarch()
    code, out, err = binding.mca(arguments, paths.models_root(), host)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code
