"""The verb scan."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopwright.cli import options, output
from loopwright.errors import InputError

if TYPE_CHECKING:
    from loopwright.scanning.scan import Scan

_SHOWN = 20  # rows of the table where --top is left out


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@options.microarch("Cores to predict for; the targets of the code's ISA where left out.")
@click.option(
    "--symbols",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A System.map, or what /proc/kallsyms shows, of the same kernel: names of routines.",
)
@click.option(
    "--features",
    metavar="NAME[,NAME]",
    help="Scan a kernel's text as it patches it on a CPU with just these features, by their names "
    "in /proc/cpuinfo; as linked where left out.",
)
@click.option(
    "--top",
    metavar="N|all",
    help=f"How many rows; {_SHOWN} of the table where left out, and all of --csv and --json.",
)
@output.formats
def scan(
    file: Path,
    microarch: str | None,
    symbols: Path | None,
    features: str | None,
    top: str | None,
    as_json: bool,
    as_csv: bool,
) -> int:
    """Find all loops of a binary, and say which of them their place hurts.

    FILE is a kernel (vmlinux, vmlinuz, an arm64 Image), a module, an object or archive, a library
    or a program, also packed. Rows are ranked by the cycles that an iteration loses where the loop
    lies. What was found and left out is said below the table, with --csv and --json on stderr.

    \b
    loopwright scan vmlinux
    loopwright scan /boot/vmlinuz-6.1.0-50-cloud-amd64 --microarch zen2,skylake --top 50
    loopwright scan net/core/skbuff.o --csv
    loopwright scan /usr/lib/x86_64-linux-gnu/libcrypto.so.3 --json
    loopwright scan vmlinux --symbols System.map --features erms,fsrm,smap
    """
    from loopwright.cli.views import scanned as view
    from loopwright.scanning.scan import Question, scanned

    rows = _top(top, None if as_json or as_csv else _SHOWN)
    with output.progress("predicting") as step:
        found: Scan = scanned(
            Question(file, microarch=microarch, symbols=symbols, features=features, progress=step)
        )
    if as_json or as_csv:
        output.emit(found.rows(rows), as_json=as_json, as_csv=as_csv)
    else:
        view.show(found.rows(rows))
    print(*found.summary(), sep="\n", file=sys.stderr if as_json or as_csv else sys.stdout)
    return 0


def _top(text: str | None, otherwise: int | None) -> int | None:
    """Return how many rows are asked for, None for all."""
    if text is None:
        return otherwise
    if text == "all":
        return None
    if text.isdecimal() and int(text):
        return int(text)
    raise InputError(f"--top {text!r} is no number of rows; give one from 1 on, or all")


VERBS = (scan,)
