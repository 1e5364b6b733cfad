"""The verb trace, and its tables."""

import re
from itertools import groupby
from typing import Any

import click

from loopwright.cli import options, output
from loopwright.errors import InputError
from loopwright.rows import Rows

_LONG_ADDRESS = re.compile(r"\b0x0+(?=[0-9a-f])")

Row = dict[str, Any]


def show_trace(rows: Rows) -> None:
    """Print a call as one table, and of loops a table an iteration."""
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
    text = _LONG_ADDRESS.sub("0x", " ".join(str(row["text"]).split()))
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
    help="Of KERNEL/VARIANT: bytes of the call; records of a routine that stores records.",
)
@click.option(
    "--align",
    default="0:0",
    metavar="D:S",
    help="Where destination and source start, in bytes from a page start.",
)
@click.option(
    "--fault",
    metavar="dst:N|src:N",
    help="Of that side only the first N bytes can be accessed: trace the fixup, too.",
)
@options.microarch(
    "Take the alternatives that this core takes; all of them where left out.", metavar="ID"
)
@click.option("--offset", type=int, metavar="N", help="Code offset of the loop, mod 64.")
@click.option(
    "--iterations",
    type=int,
    metavar="N",
    help="Of --asm, --obj and --hex: how many of each loop, 2 where left out.",
)
@click.option("--isa", metavar="x86_64|arm64", help="Of --asm and --hex.")
@output.formats
def trace(
    spec: str | None,
    hex: str | None,
    asm: str | None,
    obj: str | None,
    size: int | None,
    align: str,
    fault: str | None,
    microarch: str | None,
    offset: int | None,
    iterations: int | None,
    isa: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show each instruction that a call or a loop executes.

    With its branches and memory accesses.

    Of a loop of your own each register that addresses memory starts in a buffer named like it, all
    others at zero, and memory holds zeros; exits are not taken.

    \b
    loopwright trace x86_64/copy_user/movsq_aligned --size 100 --align 1:0
    loopwright trace arm64/copy_user/to_user_pairs --size 200 --fault dst:130
    loopwright trace x86_64/csum/adc4 --size 1500 --csv
    loopwright trace --asm loop.s --iterations 3
    """
    from loopwright.tracing.trace import TraceQuestion, answer_trace

    pairs = options.alignments(align)
    if len(pairs) != 1:
        raise InputError(f"--align {align!r}: one call has one alignment; give it as 1:0")
    side, _, reach = (fault or "").partition(":")
    if fault and not reach.isdecimal():
        raise InputError(f"--fault {fault!r} is not dst:N or src:N, e.g. dst:37")
    asked = TraceQuestion(
        spec,
        size,
        align=pairs[0],
        fault=(side, int(reach)) if fault else None,
        microarch=microarch,
        offset=offset,
        hex=hex,
        asm=asm,
        obj=obj,
        isa=isa,
        iterations=iterations,
    )
    rows = answer_trace(asked)
    if as_json or as_csv or not output.on_terminal():
        hidden = ("kernel", "variant", "load_address", "store_address")
        output.emit(rows, as_json=as_json, as_csv=as_csv, hide=hidden)
    else:
        show_trace(rows)


VERBS = (trace,)
