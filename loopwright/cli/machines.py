"""The verbs of machines: calibrate, kit, kmod, import, results."""

from pathlib import Path
from typing import Any

import click

import loopwright as lw
from loopwright.cli import options, output
from loopwright.errors import InputError
from loopwright.rows import Rows

_QUICK = (
    "Leave out operands of 8, 16 and 256 bits (not of movzx, movsx, setcc), extensions beyond "
    "AVX2, BMI and ADX (FMA and AES, too), rcl, rcr, sal, dpps, dppd, mpsadbw, compares of "
    "strings, and selectors of segments."
)


@click.command()
@options.out("Write the core to DIR/ID; LOOPWRIGHT_MODELS=DIR then uses it.")
@click.option(
    "--machine",
    default="host",
    metavar="host|simulated:ID|FILE",
    help="Machine to learn: this host (default), a core of the simulator with noise, or the "
    "answers that a run wrote.",
)
@click.option("--quick", is_flag=True, help=_QUICK)
@click.option(
    "--compare",
    metavar="ID",
    shell_complete=options.complete_microarchs,
    help="List the differences between the measurements and a core of models/.",
)
@options.settings()
@output.formats
def calibrate(out: Path, parameters: dict[str, str], **asked: Any) -> None:
    """Learn a core from timing alone: width, latencies, ports.

    Covers forms of x86-64 and AArch64 that compute in registers, load or store, and branches.
    Forms without certain figures are left out and listed. A run that was killed continues.

    \b
    loopwright calibrate -o cores
    loopwright calibrate -o cores --quick --compare goldencove
    loopwright calibrate -o cores --machine simulated:skylake
    loopwright calibrate -o cores --machine simulated:skylake --set rename.width=6
    loopwright calibrate -o again --machine cores/host/answers.jsonl
    """
    from loopwright.calibrating.calibrate import calibrate as learn

    with output.progress("calibrating", timed=False) as step:
        rows = learn(
            out,
            **asked,
            settings=parameters,
            step=lambda what: click.echo(f"learning: {what}", err=True),
            progress=step,
        )
    output.emit(rows)


_FIRST = ""  # first round of trials, without answers of a machine


@click.command()
@click.option(
    "-o",
    "target",
    metavar="FILE.tar.gz",
    type=click.Path(path_type=Path),
    default=Path("loopwright-kit.tar.gz"),
    help="Archive to write; .tar.xz is smaller, but an old system may lack xz.",
)
@click.option(
    "--calibrate",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_FIRST,
    help="Add the trials that a core is learned from. With FILE, the answers that import wrote: "
    "add only those that it lacks.",
)
@output.formats
def kit(target: Path, calibrate: str | None) -> None:
    """Pack a kit that measures on machines with no compiler.

    Unpack it on that machine, start `./run`, and import the file of results with `loopwright
    import FILE`. With --calibrate, `./run --calibrate` answers the trials from which `calibrate
    --machine FILE` learns the core.

    \b
    loopwright kit -o kit.tar.gz
    loopwright kit --calibrate -o kit.tar.gz
    """
    answers = None if calibrate in (None, _FIRST) else calibrate
    rows = lw.kit(target, calibrate=calibrate is not None, answers=answers)
    output.emit(rows)


@click.command("import")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@output.formats
def import_(files: tuple[Path, ...]) -> int:
    """Import measurements of a kit into the results store.

    compare and recommend use them for the core of that machine. A file imported before adds
    nothing; of a truncated file the whole lines are imported. Exit code 1 if lines are damaged or
    inconsistent; the others are kept. Answers of `./run --calibrate`, for `calibrate --machine`,
    are accepted only as a whole. So is a folder with a core by `calibrate`: it has to reproduce
    its predictions of its held-out loops.

    \b
    loopwright import loopwright-x86_64-20261121-120000.jsonl
    loopwright import cores/host
    """
    from loopwright.portable.imports import holds_calibration, holds_core

    for holds, what, bring in (
        (holds_core, "core", _import_core),
        (holds_calibration, "calibration", _import_calibration),
    ):
        if mine := [path for path in files if holds(path)]:
            if others := [path for path in files if path not in mine]:
                raise InputError(f"{others[0]} holds no {what}; import it by itself")
            for path in mine:
                bring(path)
            return 0
    rows = lw.import_results(files)
    output.emit(rows, _show_imported)
    return int(rows["damaged"].any())


def _show_imported(rows: Rows) -> None:
    for row in rows.records():
        where = row["microarch"] or "no core.toml describes it"
        clock = f", {row['clock']}" if row["clock"] else ""
        output.say(f"{row['file']}: {row['machine']} ({where}{clock})")
        output.say(f"  {row['new']} new, {row['there']} already there, {row['refused']} refused")
        for note in filter(None, str(row["note"]).split("; ")):
            output.say(f"  {note}")


def _import_calibration(path: Path) -> None:
    """Import a file of answers and print what can be done with them."""
    rows = lw.import_calibration(path)
    where = rows["answers"].iloc[0]
    learn = f"learn the core: loopwright calibrate -o cores --machine {where}"
    output.emit(
        rows, then=f"{learn}\nwhat it lacks:  loopwright kit --calibrate {where} -o kit.tar.gz"
    )


def _import_core(path: Path) -> None:
    """Import the folder of a learned core and print how to use it."""
    from loopwright.portable.imports import import_core

    rows = import_core(path)
    output.emit(rows, then=f"use it: LOOPWRIGHT_MODELS={rows.attrs['models']}")


@click.command()
@click.option("--kernel", metavar="KERNEL[/VARIANT]", help="List only this kernel or variant.")
@click.option(
    "--withdraw",
    metavar="RUN",
    help="Withdraw a run, by its name in --csv: it stays listed and is no longer used.",
)
@click.option("--reason", metavar="TEXT", help="Reason for --withdraw; kept with the run.")
@output.formats
def results(kernel: str | None, withdraw: str | None, reason: str | None) -> None:
    """List the runs in the results store.

    They are listed by machine, clock and variant, newest first.

    \b
    loopwright results --kernel x86_64/copy_user
    loopwright results --withdraw 3f2a --reason "the machine was someone else's"
    """
    if reason is not None and withdraw is None:
        raise InputError("--reason is for --withdraw RUN")
    if withdraw is not None and kernel is not None:
        raise InputError("--withdraw and --kernel exclude each other: a run is withdrawn whole")
    rows = lw.results(kernel) if withdraw is None else lw.withdraw(withdraw, reason or "")
    if rows.empty and not output.row_format():
        output.say(
            "no result yet: `loopwright measure KERNEL` and `loopwright import FILE` add some"
        )
    else:
        if not output.row_format():
            rows = rows.assign(started=rows["started"].map(_to_the_minute))
        output.emit(
            rows,
            hide=("protocol", "fingerprint", "run", "origin", "code"),
            spare=("processes", "records", "kernel", "clock"),
        )


def _to_the_minute(time: str) -> str:
    """Return a time such as "2026-11-24T14:45:59Z" to the minute."""
    day, _, rest = time.partition("T")
    return f"{day} {rest[:5]} UTC"


_OUT = options.out("Folder to write: a new one, or one that this command wrote.")
_OFFSET = click.option(
    "--offset",
    default="0",
    metavar="N[,N...]|all",
    help="Code offsets at which each variant is built: of 0, 16, 32 and 48 (mod 64).",
)
_SPECS = options.spec("[KERNEL[/VARIANT] ...]", name="specs", nargs=-1)


@click.group()
def kmod() -> None:
    """Build a module that checks and measures inside the kernel.

    The folder has all that a test machine needs: `make` builds the module there, and `./run` loads
    it, measures and unloads it.
    """


@kmod.command()
@_SPECS
@_OUT
@_OFFSET
@options.isa("Instruction set (default: this machine's).")
@output.formats
def source(specs: tuple[str, ...], out: Path, offset: str, isa: str | None) -> None:
    """Write the module's sources, which need only make and kernel headers.

    \b
    loopwright kmod source -o kmod-arm64 --isa arm64
    """
    from loopwright import toolchain
    from loopwright.portable import kmod as module

    parts = module.write(out, isa or toolchain.host_isa(), specs, _offsets(offset))
    rows = Rows.of({"variant": p.variant.id, "offset": p.offset} for p in parts)
    output.emit(rows, then=f"next, on the machine to be measured: cd {out} && make && sudo ./run")


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
def build(specs: tuple[str, ...], headers: Path, out: Path, offset: str) -> None:
    """Build the module for a kernel and its architecture.

    \b
    loopwright kmod build --kernel /lib/modules/$(uname -r)/build -o kmod
    """
    from loopwright.portable import kmod as module

    built = module.build(headers, out, specs, _offsets(offset))
    row = {
        "module": str(built.module),
        "isa": built.isa,
        "release": built.release,
        "variants": len(built.variants),
        "left_out": ", ".join(built.left_out),
        "warnings": "; ".join(built.warnings),
    }
    output.emit(
        Rows.of([row]), then=f"next, on a machine that runs {built.release}: cd {out} && sudo ./run"
    )


def _offsets(text: str) -> list[int]:
    if text == "all":
        from loopwright.portable.kmod import OFFSETS

        return list(OFFSETS)
    return options.numbers("--offset", text, "0,16 or all", of="offsets")
