"""The verb trace."""

import click

from loopwright.cli import options, output
from loopwright.errors import InputError


@click.command()
@options.spec("KERNEL/VARIANT")
@click.option(
    "--size",
    type=int,
    required=True,
    metavar="N",
    help="Bytes of the call; records of a routine that stores records.",
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
@click.option("--offset", type=int, metavar="N", help="Code offset of the main loop, mod 64.")
@output.formats
def trace(
    spec: str,
    size: int,
    align: str,
    fault: str | None,
    microarch: str | None,
    offset: int | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show every instruction that one call executes, with its branches and memory accesses.

    \b
    loopwright trace x86_64/copy_user/movsq_aligned --size 100 --align 1:0
    loopwright trace arm64/copy_user/to_user_pairs --size 200 --fault dst:130
    loopwright trace x86_64/csum/adc4 --size 1500 --csv
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
    )
    hidden = ("kernel", "variant", "load_address", "store_address")
    output.emit(answer_trace(asked), as_json=as_json, as_csv=as_csv, hide=hidden)


VERBS = (trace,)
