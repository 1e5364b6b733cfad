"""The verb kmod: the sources of the kernel module, and building it."""

from pathlib import Path

import click

from loopwright.cli import options, output
from loopwright.errors import InputError
from loopwright.rows import Rows

_OUT = options.out("A new folder, or one that this verb wrote.")
_OFFSET = click.option(
    "--offset",
    default="0",
    metavar="N[,N...]|all",
    help="Code offsets, mod 64: 0, 16, 32, 48. Each variant is built at each of them.",
)
_SPECS = options.spec("[KERNEL[/VARIANT] ...]", name="specs", nargs=-1)


@click.group()
def kmod() -> None:
    """Build a module that checks and measures in the kernel itself.

    The folder holds what a test machine needs: `make` builds it there, `./run` does the rest.
    """


@kmod.command()
@_SPECS
@_OUT
@_OFFSET
@click.option("--isa", type=click.Choice(["x86_64", "arm64"]), help="This machine's if left out.")
@output.formats
def source(
    specs: tuple[str, ...], out: Path, offset: str, isa: str | None, as_json: bool, as_csv: bool
) -> None:
    """Write the module's sources: make and kernel headers alone build them.

    \b
    loopwright kmod source -o kmod-arm64 --isa arm64
    """
    from loopwright import toolchain
    from loopwright.portable import kmod as module

    parts = module.write(out, isa or toolchain.host_isa(), specs, _offsets(offset))
    rows = Rows.of({"variant": p.variant.id, "offset": p.offset} for p in parts)
    output.emit(rows, as_json=as_json, as_csv=as_csv)
    if not (as_json or as_csv):
        print(f"next, on the machine to be measured: cd {out} && make && sudo ./run")


@kmod.command()
@_SPECS
@click.option(
    "--kernel",
    "headers",
    type=click.Path(path_type=Path),
    required=True,
    metavar="HEADERS_DIR",
    help="Kernel headers, e.g. /lib/modules/$(uname -r)/build, or a configured build folder.",
)
@_OUT
@_OFFSET
@output.formats
def build(
    specs: tuple[str, ...], headers: Path, out: Path, offset: str, as_json: bool, as_csv: bool
) -> None:
    """Build the module against the headers of a kernel; their architecture is the module's.

    \b
    loopwright kmod build --kernel /lib/modules/$(uname -r)/build -o kmod
    """
    from loopwright.portable import kmod as module

    built = module.build(headers, out, specs, _offsets(offset))
    rows = Rows.of(
        [
            {
                "module": str(built.module),
                "isa": built.isa,
                "release": built.release,
                "variants": len(built.variants),
                "left_out": ", ".join(built.left_out),
                "warnings": "; ".join(built.warnings),
            }
        ]
    )
    output.emit(rows, as_json=as_json, as_csv=as_csv)
    if not (as_json or as_csv):
        print(f"next, on a machine that runs {built.release}: cd {out} && sudo ./run")


def _offsets(text: str) -> list[int]:
    if text == "all":
        from loopwright.portable.kmod import OFFSETS

        return list(OFFSETS)
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--offset {text!r} is no list of offsets; give it as 0,16 or all")
    return [int(part) for part in parts]


VERBS = (kmod,)
