"""The verbs of kernels: check, compare, recommend, improve, patch, baseline, report; self-test."""

import sys
from itertools import count, groupby
from pathlib import Path
from typing import Any

import click

import loopwright as lw
from loopwright.cli import options, output
from loopwright.errors import InputError, unknown
from loopwright.rows import Rows


@click.command()
@options.spec("KERNEL[/VARIANT]")
@output.formats
def check(spec: str) -> int:
    """Run variants against their contract: results, faults, bounds.

    Exit code 1 if a variant breaks its contract, or if the calls do not reach all of its code and
    kernel.toml gives no reason ("not proven").

    \b
    loopwright check x86_64/copy_user
    loopwright check arm64/copy_user/to_user_batched --json
    """
    from loopwright import kernels
    from loopwright.checking.check import holds
    from loopwright.checking.check import run as run_checks

    _, variants = kernels.select(spec)
    with output.progress("checking") as step:
        done = count(1)
        rows = run_checks(variants, lambda _: step(next(done), len(variants)))
    output.emit(rows, _show_checks, on_terminal_alone=True, hide=("kernel",))
    return 0 if holds(rows, variants) else 1


def _show_checks(rows: Rows) -> None:
    """Print a line for each variant, then the failures and missing proofs with reasons."""
    lines = [
        {
            "variant": row["variant"],
            "passed": row["passed"],
            "cases": row["cases"],
            "entries hit": f"{row['entries_hit']} of {row['entries']}" if row["entries"] else "",
            "coverage": str(row["coverage"]).partition(":")[0],
            "over-reported bytes": row["over_report_bytes"],
            "seconds": row["seconds"],
        }
        for row in rows.records()
    ]
    output.draw(Rows.of(lines), spare=("seconds",))
    for row in rows.records():
        for text in (row["failure"], row["coverage"] if ":" in str(row["coverage"]) else ""):
            if not output.blank(text):
                output.say(f"{row['variant']}: {text}")
    output.say_notes(rows.column("note"))


@click.command()
@options.spec("[KERNEL|-]", required=False)
@options.loops
@options.microarch("With --asm, --obj or --hex: cores to predict for, as in predict.")
@click.option(
    "--offset",
    metavar="N|all",
    help="With --asm, --obj or --hex: code offset of the loop, in bytes mod 64.",
)
@options.no_measure
@options.stored
@output.formats
def compare(
    spec: str | None,
    own_loops: options.Loops,
    microarch: str | None,
    offset: str | None,
    quick: bool,
    stored: bool,
) -> int:
    """Show predictions beside this machine's measurement.

    A kernel's variants are predicted by every model, loops of your own by the simulator.

    Exit code 1 if no row has a figure.

    \b
    loopwright compare x86_64/clear_user
    loopwright compare x86_64/copy_user --no-measure --csv
    loopwright compare --asm loop.s --microarch host,zen2
    """
    from loopwright.cli import measure
    from loopwright.reporting.text import by_core

    if any(x is not None for x in own_loops.values()):
        if spec is not None or quick or stored:
            raise InputError("--asm, --obj and --hex are without KERNEL, --no-measure and --stored")
        code_offset = int(offset) if offset is not None and offset.isdecimal() else offset
        with output.progress("measuring") as step:
            loops = lw.compare_loops(
                **own_loops, microarch=microarch, offset=code_offset, progress=step
            )
        output.emit(loops, measure.show_compared, on_terminal_alone=True)
        answered = loops[["predicted", "measured"]].notna().any(axis=None)
        return output.exit_code(bool(answered), "no source")
    if spec is None:
        raise InputError("give KERNEL, --asm FILE, --obj FILE[:SYMBOL] or --hex HEX")
    if microarch is not None or offset is not None:
        raise InputError("--microarch and --offset are for --asm, --obj and --hex")
    with output.progress("measuring") as step:
        rows = lw.compare(spec, quick=quick, stored=stored, progress=step)
    output.emit(rows, lambda _: print(by_core(rows)))
    return output.exit_code(bool(rows["cycles"].notna().any()), "no source")


@click.command()
@options.spec("KERNEL", name="kernel")
@options.sizes
@options.microarch("Cores to judge (default: the target cores of the kernel's ISA).")
@options.settings()
@options.against
@click.option(
    "--align",
    metavar="D:S=WEIGHT[,...]",
    help="Weights of data alignments (destination:source, in bytes from a page start). The "
    "default, 0:0=6,8:0=3,1:0=1, is an assumption.",
)
@options.no_measure
@options.stored
@output.formats
def recommend(kernel: str, align: str | None, **arguments: Any) -> None:
    """Name the variant to ship, or say why there is none.

    A winner is slower at no size on any core that is asked for or was measured.

    \b
    loopwright recommend arm64/copy_user
    loopwright recommend x86_64/copy_user --sizes histogram.txt:memcpy
    loopwright recommend x86_64/copy_user --against movsq --no-measure
    loopwright recommend x86_64/put_event --microarch zen2 --set serial.stac_clac=20
    """
    from loopwright.judging import call_costs
    from loopwright.judging.recommend import concluded
    from loopwright.reporting import text

    alignments = options.weights(align) if align else call_costs.ALIGNMENTS
    with output.progress("simulating" if arguments["quick"] else "measuring") as step:
        conclusion = concluded(kernel, **arguments, alignments=alignments, progress=step)

    def show(rows: Rows) -> None:
        # The reason often begins with the answer's sentence, which is printed already.
        output.describe(
            Rows.of(
                row | {"reason": row["reason"].removeprefix(row["summary"]).lstrip("; ")}
                for row in rows.records()
            )
        )
        if len(conclusion.bands):
            print("", *text.band_lines(conclusion.bands), sep="\n")

    output.emit(conclusion.rows, show)


@click.command("self-test")
@output.formats
def self_test() -> int:
    """Measure loops of known cost, to test measurements here.

    Compares the cycles measured in three processes with documented ones.

    The first five loops are measured before every run. The run is refused if a chain is off, or if
    fewer than two streams hold. Exit code 1 if a loop is outside its tolerance.

    \b
    loopwright self-test
    """
    from loopwright.measuring.measure import self_test as run_self_test

    with output.progress("measuring") as step:
        rows = run_self_test(progress=step)
    hidden = ("machine", "processes", "reason", "unit", "clock", "microarch")
    output.emit(rows, hide=hidden, spare=("basis", "tolerance_percent"))
    if not output.row_format():
        for row in rows[~rows["held"]].to_dict("records"):
            output.say(f"{row['loop']} does not hold: {row['reason']}")
        clock, core, machine = rows.loc[0, ["clock", "microarch", "machine"]]
        measured_on = f"{machine}, {core or 'a core of no table'}"
        output.say(f"cycles an instruction, measured on {measured_on}; clock {clock}")
    return 0 if bool(rows["held"].all()) else 1


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@click.command()
@options.spec("KERNEL[/VARIANT]")
@options.tree(required=True)
@options.out("Folder for the patch.")
@options.sizes
@options.microarch(
    "Cores on which the variant has to win (default: the target cores of the kernel's ISA)."
)
@options.settings()
@options.no_measure
@options.stored
@click.option(
    "--verify",
    "tier",
    metavar="apply|object|boot",
    help="apply: apply the patch. object: also build its objects and run them. boot: also boot "
    "kernels with it.",
)
@output.formats
def patch(spec: str, tree: str, out: Path, tier: str | None, **arguments: Any) -> int:
    """Make a Linux patch of a variant, or of each routine's winner.

    For a variant that is named and is not a winner, the patch is an RFC whose message begins with
    the reason. Exit code 1 without a winner, or if a check of --verify fails or proves nothing.

    \b
    loopwright patch arm64/copy_user --tree ~/src/linux -o patches/
    loopwright patch x86_64/put_event/masked --tree debian:6.12 -o patches/ --verify object
    """
    from loopwright.linux.verification import FAIL, NOT_PROVEN
    from loopwright.linux.verify import TIERS

    if tier is not None and tier not in TIERS:
        raise unknown("tier", tier, TIERS)
    rows = lw.patch(spec, tree, out, **arguments, tier=tier, on_check=output.say_check)

    def show(made: Rows) -> None:
        for row in made.records():
            print("\n".join(row["files"]) or f"{row['variant'] or row['kernel']}: {row['status']}")
            for note in row["notes"]:
                _log(f"note: {note}")

    output.emit(rows, show)
    unsuccessful = (FAIL, NOT_PROVEN)
    failed = [row for checks in rows["checks"] for row in checks if row["status"] in unsuccessful]
    return 0 if rows["variant"].ne("").any() and not failed else 1


@click.command()
@options.spec("KERNEL", name="kernel")
@options.tree(required=True)
@options.no_measure
@output.formats
def baseline(kernel: str, tree: str, quick: bool) -> int:
    """Compare functions of a Linux tree with a kernel's variants.

    Each is named tree:VERSION, and is assembled, predicted, checked and measured like a variant.
    Exit code 1 if one of them breaks the contract.

    \b
    loopwright baseline x86_64/copy_user --tree ~/src/linux
    """
    from loopwright.kernels import is_own_code
    from loopwright.linux.baseline import run as compare_tree
    from loopwright.reporting.text import by_core

    comparison = compare_tree(kernel, tree, quick=quick)
    output.emit(comparison.rows, lambda _: print(by_core(comparison.rows)))
    for note in comparison.notes:
        _log(f"note: {note}")
    checks = comparison.checks.to_dict("records")
    broken = [row for row in checks if is_own_code(row["variant"]) and not row["passed"]]
    for row in broken:
        _log(f"{row['variant']} breaks the contract: {row['failure']}")
    return 1 if broken else 0


@click.command()
@options.spec("[KERNEL ...]", name="kernel_ids", nargs=-1)
@options.out("Folder for index.html, report.txt and the tables.")
@options.sizes
@options.microarch("Cores to judge (default: the target cores of each kernel's ISA).")
@options.no_measure
@click.option("--patch", "with_patch", is_flag=True, help="Also make a patch of each winner.")
@options.tree("Linux tree to compare with and to patch (default with --patch: Debian's 6.12).")
@output.formats
def report(
    kernel_ids: tuple[str, ...], out: Path, with_patch: bool, tree: str | None, **arguments: Any
) -> None:
    """Write a report on kernels: a page, text, tables, patches.

    Without KERNEL the report has all kernels.

    DIR/index.html is a page for a browser, DIR/report.txt the same for a mailing list. With --tree
    the baseline is the code of that tree.

    \b
    loopwright report -o out
    loopwright report x86_64/copy_user arm64/copy_user -o out --no-measure
    loopwright report -o out --microarch zen2
    loopwright report -o out --tree ~/src/linux
    """
    import pandas as pd

    from loopwright.reporting.report import report as write_report

    with output.progress("measuring") as step:
        findings = write_report(
            kernel_ids,
            out,
            **arguments,
            patch=with_patch or tree is not None,
            tree=tree,
            log=_log,
            progress=step,
        )
    rows = pd.concat([f.recommendation for f in findings], ignore_index=True)

    def show(judged: Rows) -> None:
        for row in judged.records():
            output.say(f"{row['kernel']} {row['routine']}: {row['summary']}")

    output.emit(rows, show)


Row = dict[str, Any]


def show_improved(rows: Rows) -> None:
    """Print each candidate as a table: a line for each transformation, a column for each core.

    Code without a better candidate shares one table behind them.
    """
    several_loops = len(dict.fromkeys(row.get("id") for row in rows.records())) > 1
    unimproved: list[Row] = []
    for (loop, candidate), group in groupby(
        rows.records(), key=lambda row: (row.get("id"), row["candidate"])
    ):
        steps = [list(step) for _, step in groupby(group, key=lambda row: row["step"])]
        if len(steps) == 1:
            unimproved.append(_line(steps[0]))
            continue
        last = steps[-1][0]
        prefix = f"{loop}: " if several_loops else ""
        output.say(f"{prefix}{candidate}: {last['status']}, {last['bytes']} B", style="bold")
        output.draw(Rows.of(map(_line, steps)))
        if last["note"]:
            output.say(last["note"])
        print()
    if unimproved:
        output.say("nothing better found", style="bold")
        output.draw(Rows.of({"code": line.pop("transformation"), **line} for line in unimproved))
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
@options.isa()
@click.option(
    "--free",
    metavar="REG[,REG]",
    help="Loops: registers, or flags, that no code after them reads (default: found from the "
    "code after them).",
)
@options.microarch("Cores to optimize for (default: the target cores of the kernel's ISA).")
@options.sizes
@options.settings()
@options.path(
    "--out",
    "DIR",
    "Write the candidates as variants of their kernel; with LOOPWRIGHT_KERNELS=DIR, check, "
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
@options.path(
    "--state",
    "DIR",
    "Keep simulated costs in DIR: an interrupted search continues from them, as does one "
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
    own_loops: options.Loops,
    isa: str | None,
    free: str | None,
    microarch: str | None,
    sizes: str | None,
    parameters: dict[str, str],
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

    if sum(subject is not None for subject in (spec, *own_loops.values())) != 1:
        raise InputError(
            "give one of KERNEL/VARIANT, --asm FILE, --obj FILE[:SYMBOL] and --hex HEX"
        )
    common: dict[str, Any] = {
        "microarch": microarch,
        "parameters": parameters,
        "measured": not no_measure,
        "out": out,
        "state": state,
    }
    if spec is None:
        if sizes is not None:
            raise InputError("--sizes is for KERNEL/VARIANT: a loop's cost is that of an iteration")
        question = LoopsQuestion(
            asm=own_loops["hex"] if own_loops["asm"] is None else own_loops["asm"],
            obj=own_loops["obj"],
            isa=isa,
            free=tuple(name.strip() for name in (free or "").split(",") if name.strip()),
            settings=Settings(depth=4, tried=tried, seed=seed),
            **common,
        )
        with output.progress("searching") as step:
            result = answer_loops(question, step)
    else:
        if isa is not None or free is not None:
            raise InputError("--isa and --free are for --asm, --obj and --hex")
        with output.progress("searching") as step:
            result = answer(
                spec,
                sizes=sizes,
                settings=Settings(tried=tried, seed=seed),
                progress=step,
                **common,
            )
    output.emit(result.rows, show_improved)
    if not output.row_format():
        for line in result.findings:
            output.say(line)
        for path in result.files:
            print(path)
    steps = [row for row in result.rows.records() if row["step"]]
    return 0 if any(row["status"] in ("proven", "measured") for row in steps) else 1
