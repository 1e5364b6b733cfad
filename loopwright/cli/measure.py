"""The verbs of measuring: measure, calibrate, results; and kit, kmod, import for other machines."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import loopwright as lw
from loopwright.cli import options, output
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd


_OK = "ok"

_FEW_LINES = 6  # lines up to which the limits of every core are printed


def show_measured(rows: Rows) -> None:
    """Print measured rows, then their common facts, and the reasons for missing numbers."""
    records = rows.records()
    output.draw(_shown_columns(records))
    if any(row["verdict"] for row in records):
        output.say("speed: by bytes moved, against the variant named there; 95 % interval")
    _say_where(records, "measured on")
    for line in _reasons(records):
        output.say(line)
    output.say_notes(row["note"] for row in records)
    for result in dict.fromkeys(row["self_test"] for row in records if row["self_test"]):
        output.say(f"self-test, cycles an instruction: {result}")


def _say_where(rows: Iterable[Mapping[str, Any]], prefix: str) -> None:
    """Print each machine and clock of measured rows."""
    for machine, clock in dict.fromkeys((r["machine"], r["clock"]) for r in rows if r["clock"]):
        output.say(f"{prefix} {machine}, clock {clock}")


def show_blocks(rows: Rows) -> None:
    """Print measured loops on a terminal: cycles an iteration, or the reason for none."""
    records = rows.records()
    output.draw(
        Rows.of(
            {
                "id": row["id"],
                "offset": row["offset"],
                "cycles": row["cycles"],
                "±": row["uncertainty"],
                "status": "" if row["status"] == _OK else row["status"],
            }
            for row in records
        )
    )
    _say_each((row["id"], row["reason"]) for row in records)
    kind = " and ".join(dict.fromkeys(output.CYCLES_OF[row["notion"]] for row in records))
    _say_where(records, f"cycles {kind}, measured on")
    output.say_notes(row["note"] for row in records)


def show_compared(rows: Rows) -> None:
    """Print predicted and measured loops by core and offset, then limits and errors."""
    from loopwright.judging.call_costs import signed_percent

    records = rows.records()
    lines = [
        {
            "id": row["id"],
            "microarch": row["microarch"] or "this machine",
            "offset": row["offset"],
            "predicted": _digits(row["predicted"], 2),
            "measured": _digits(row["measured"], 3),
            "±": _digits(row["uncertainty"], 3),
            "error": "" if row["error_percent"] is None else signed_percent(row["error_percent"]),
        }
        for row in records
    ]
    output.draw(Rows.of(output.folded(lines)))
    of_host = [row for row in records if row["microarch"] in ("", hosts.microarch())]
    explained = of_host if of_host and len(records) > _FEW_LINES else records
    _say_each(
        (f"{row['id']} on {row['microarch'] or 'this machine'}", row[column])
        for column in ("bottleneck", "error")
        for row in explained
    )
    if len(explained) < len(records):
        output.say("predict says what limits each on the other cores")
    _say_where(records, "cycles an iteration; measured on")


def _say_each(texts: Iterable[tuple[str, str]]) -> None:
    """Print each distinct text of a subject once."""
    for subject, text in dict.fromkeys(texts):
        if text:
            output.say(f"{subject}: {text}")


def _digits(value: float | None, digits: int) -> output.Figure:
    return output.Figure("-" if value is None else f"{value:.{digits}f}")


def _shown_columns(rows: list[dict[str, Any]]) -> Rows:
    """Return the columns to show, without those that have their usual value in all rows."""
    several_caches = len({row["cache"] for row in rows}) > 1
    against = {row["against"] for row in rows if row["against"]}
    return Rows.of(
        {
            "variant": row["variant"],
            "cycles per": str(row["unit"]).removeprefix("cycles/"),
            "bytes": row["size_bytes"],
            "align": f"{row['dst_align']}:{row['src_align']}",
            "skew": row["skew_bytes"],
            "cache": row["cache"] if several_caches or row["cache"] != "hot" else "",
            "offset": row["offset"],
            "cycles": row["cycles"],
            "±": row["uncertainty"],
            f"speed, {' or '.join(sorted(against))} = 1": _speed(row),
            "status": "" if row["status"] == _OK else row["status"],
        }
        for row in rows
    )


def _speed(row: Mapping[str, Any]) -> str:
    """Return the interval of the ratio, or the reason for none."""
    if row["ratio"] is None:
        return str(row["verdict"] or "")
    interval = f"{row['ratio_low']:.3f} to {row['ratio_high']:.3f}"
    return f"{interval}, {row['verdict']}"


def _reasons(rows: list[dict[str, Any]]) -> list[str]:
    """Return the reasons for refused or bimodal rows: each once, with its variants."""
    by_reason: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        if row["status"] != _OK:
            by_reason.setdefault((row["status"], row["reason"]), {})[row["variant"]] = None
    return [
        f"{status} ({', '.join(variants)}): {reason}"
        for (status, reason), variants in by_reason.items()
    ]


_HIDDEN_COLUMNS = ("samples", "dropped", "dropped_from", "dropped_to", "machine", "code")


@click.command()
@options.spec("[KERNEL[/VARIANT]|-]", required=False)
@options.loops
@click.option("--sizes", metavar="N[,N...]", help="Sizes of calls, in bytes.")
@click.option(
    "--offset",
    metavar="N[,N...]|all",
    help="Code offsets of the loop, in bytes mod 64. With several, calls are measured only at "
    "sizes given by --sizes.",
)
@click.option(
    "--align",
    metavar="D:S[,D:S...]",
    help="Data alignments of destination and source, in bytes from a page start.",
)
@click.option(
    "--skew",
    metavar="N[,N...]",
    help="(destination - source) mod 4096; loads alias stores at 0 and small values.",
)
@click.option(
    "--cache",
    metavar="hot|cold|all",
    help="cold: each call has buffers of its own that are in no cache, and follows a fence.",
)
@options.against
@click.option(
    "--estimate",
    metavar="NAME",
    help="Estimate an unmeasured parameter of this core from the calls.",
)
@click.option(
    "--stored",
    is_flag=True,
    help="With --estimate: use the results store and measure nothing.",
)
@click.option("--resume", is_flag=True, help="Continue the run that was interrupted.")
@click.option("--raw", is_flag=True, help="Also print the samples, as JSON or CSV.")
@options.blocks
@click.option(
    "--notion",
    metavar="loop|unrolled|all",
    help="Prediction kind of blocks. loop: a branch repeats the block. unrolled: copies back to "
    "back.",
)
@options.isa("Instruction set of blocks (default: this machine's).")
@click.option(
    "--processes",
    type=int,
    help="Blocks: number of processes that have to agree on a figure (default: 3; 1 is quickest).",
)
@output.formats
def measure(
    spec: str | None,
    sizes: str | None,
    offset: str | None,
    align: str | None,
    skew: str | None,
    cache: str | None,
    against: str | None,
    estimate: str | None,
    stored: bool,
    resume: bool,
    raw: bool,
    blocks: Path | None,
    own_loops: options.Loops,
    notion: str | None,
    isa: str | None,
    processes: int | None,
) -> int:
    """Measure variants or loops of your own on this machine.

    Variants give cycles an iteration, and cycles a call over sizes. Loops and blocks of any code
    give cycles an iteration or a copy, each in a sealed process. A variant that breaks its contract
    is not measured. Each point of a variant is kept in the results store at once (`loopwright
    results`). Exit code 1 if no row has a figure.

    \b
    loopwright measure x86_64/copy_user --sizes 64,256,4096
    loopwright measure x86_64/clear_user/plain --offset all --csv
    loopwright measure x86_64/copy_user --sizes 4096 --skew 0,8,2048
    loopwright measure x86_64/copy_user --sizes 64,4096 --align 0:0,1:0 --cache all
    loopwright measure x86_64/clear_user/immediates --against plain
    loopwright measure x86_64/clear_user/rep_stosq --estimate string.stos_odd_line_cycles
    loopwright measure --asm loop.s
    loopwright measure --obj lib/string.o:memcpy --offset 0,32
    loopwright measure --blocks blocks.csv --notion all --csv
    """
    from loopwright.measuring import measure_blocks
    from loopwright.measuring.readings import CACHES

    offsets = offset if offset in (None, "all") else options.numbers("--offset", offset, "0,16,32")
    if blocks is not None or any(x is not None for x in own_loops.values()):
        if spec is not None:
            raise InputError("KERNEL, --blocks, --hex, --asm and --obj exclude each other")
        call_options = (sizes, align, skew, cache, against, estimate)
        if resume or raw or stored or any(x is not None for x in call_options):
            raise InputError(
                "loops and blocks of your own take --notion, --offset, --isa and --processes only"
            )
        with output.progress("measuring") as step:
            block_rows = lw.measure_blocks(
                blocks,
                **own_loops,
                notion=notion,
                offset=offsets,
                isa=isa,
                processes=measure_blocks.TURNS if processes is None else processes,
                progress=step,
            )
        output.emit(block_rows, show_blocks, hide=_HIDDEN_COLUMNS, on_terminal_alone=True)
        return _exit_code(block_rows)
    if spec is None:
        raise InputError(
            "give KERNEL[/VARIANT], --asm FILE, --obj FILE[:SYMBOL], --hex HEX or --blocks FILE.csv"
        )
    if notion is not None or isa is not None or processes is not None:
        raise InputError("--notion, --isa and --processes are for --asm, --obj, --hex and --blocks")
    if stored and estimate is None:
        raise InputError("--stored goes with --estimate NAME")
    if estimate is not None and (offset, skew, cache) != (None,) * 3:
        raise InputError("--estimate takes --sizes, --align and --against only")
    if estimate is not None and stored:
        output.emit(lw.estimate(spec, estimate))
        return 0
    pairs = None if align is None else options.alignments(align)
    if estimate is not None:
        from loopwright.judging.unmeasured import alignments, unmeasured_here

        unmeasured_here(estimate)
        pairs = pairs or [*alignments(estimate)]  # those that show the parameter
    with _resume_noted(), output.progress("measuring") as step:
        rows = lw.measure(
            spec,
            resume=resume,
            sizes=None if sizes is None else options.numbers("--sizes", sizes, "64,256,4096"),
            offset=offsets,
            alignments=pairs,
            skews=None if skew is None else options.numbers("--skew", skew, "0,64,2048"),
            caches=CACHES if cache == "all" else (cache or "hot",),
            against=against,
            progress=step,
        )
    if estimate is not None and rows["cycles"].notna().any():
        output.emit(lw.estimate(spec, estimate, rows))
    else:
        output.emit(rows if raw else rows.drop(columns="raw"), show_measured)
    return _exit_code(rows)


@contextmanager
def _resume_noted() -> Iterator[None]:
    """Add a note to an interrupt: the measured points are kept."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note("what is measured is kept: the same command with --resume goes on from there")
        raise


def _exit_code(rows: "pd.DataFrame") -> int:
    return output.exit_code(bool(rows["cycles"].notna().any()), "no measurement")


_QUICK_HELP = (
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
@click.option("--quick", is_flag=True, help=_QUICK_HELP)
@click.option(
    "--compare",
    metavar="ID",
    shell_complete=options.complete_microarchs,
    help="List the differences between the measurements and a core of models/.",
)
@options.settings()
@output.formats
def calibrate(out: Path, parameters: dict[str, str], **arguments: Any) -> None:
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
            **arguments,
            settings=parameters,
            step=lambda what: click.echo(f"learning: {what}", err=True),
            progress=step,
        )
    output.emit(rows)


_FIRST_ROUND = ""  # first round of trials, without answers of a machine


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
    flag_value=_FIRST_ROUND,
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
    answers = None if calibrate in (None, _FIRST_ROUND) else calibrate
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
    from loopwright.portable.kit import holds_calibration, holds_core

    for is_kind, content, import_one in (
        (holds_core, "core", _import_core),
        (holds_calibration, "calibration", _import_calibration),
    ):
        if chosen := [path for path in files if is_kind(path)]:
            if others := [path for path in files if path not in chosen]:
                raise InputError(f"{others[0]} holds no {content}; import it by itself")
            for path in chosen:
                import_one(path)
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
    answers = rows["answers"].iloc[0]
    next_step = f"learn the core: loopwright calibrate -o cores --machine {answers}"
    output.emit(
        rows,
        then=f"{next_step}\nwhat it lacks:  loopwright kit --calibrate {answers} -o kit.tar.gz",
    )


def _import_core(path: Path) -> None:
    """Import the folder of a learned core and print how to use it."""
    from loopwright.portable.kit import import_core

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
    day, _, clock = time.partition("T")
    return f"{day} {clock[:5]} UTC"


_OUT_OPTION = options.out("Folder to write: a new one, or one that this command wrote.")
_OFFSET_OPTION = click.option(
    "--offset",
    default="0",
    metavar="N[,N...]|all",
    help="Code offsets at which each variant is built: of 0, 16, 32 and 48 (mod 64).",
)
_SPECS_ARGUMENT = options.spec("[KERNEL[/VARIANT] ...]", name="specs", nargs=-1)


@click.group()
def kmod() -> None:
    """Build a module that checks and measures inside the kernel.

    The folder has all that a test machine needs: `make` builds the module there, and `./run` loads
    it, measures and unloads it.
    """


@kmod.command()
@_SPECS_ARGUMENT
@_OUT_OPTION
@_OFFSET_OPTION
@options.isa("Instruction set (default: this machine's).")
@output.formats
def source(specs: tuple[str, ...], out: Path, offset: str, isa: str | None) -> None:
    """Write the module's sources, which need only make and kernel headers.

    \b
    loopwright kmod source -o kmod-arm64 --isa arm64
    """
    from loopwright import toolchain
    from loopwright.portable import kmod as module

    variants = module.write(out, isa or toolchain.host_isa(), specs, _offsets(offset))
    rows = Rows.of({"variant": p.variant.id, "offset": p.offset} for p in variants)
    output.emit(rows, then=f"next, on the machine to be measured: cd {out} && make && sudo ./run")


@kmod.command()
@_SPECS_ARGUMENT
@click.option(
    "--kernel",
    "headers",
    type=click.Path(path_type=Path),
    required=True,
    metavar="HEADERS_DIR",
    help="Kernel headers, e.g. /lib/modules/$(uname -r)/build, or a configured build folder.",
)
@_OUT_OPTION
@_OFFSET_OPTION
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
    return options.numbers("--offset", text, "0,16 or all", noun="offsets")
