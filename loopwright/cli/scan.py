"""The verb scan: tables of loops and of two builds, its page."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopwright.cli import options, output
from loopwright.errors import InputError
from loopwright.rows import Rows

if TYPE_CHECKING:
    from loopwright.scanning.scan import Question, Scan


_ROWS_SHOWN = 20  # rows of the table where --top is left out


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.argument("file_b", type=click.Path(path_type=Path), metavar="[FILE_B]", required=False)
@options.microarch()
@options.path(
    "--symbols",
    "FILE",
    "Names of routines: a System.map, or a copy of /proc/kallsyms, of the same kernel.",
)
@click.option(
    "--features",
    metavar="NAME[,NAME]",
    help="Scan the text of a kernel as patched at boot on a CPU with these features, by their "
    "names in /proc/cpuinfo (default: as linked).",
)
@options.path(
    "--profile",
    "FILE",
    "Rank by the share of all cycles that the best code offset would save. FILE is a "
    "perf.data, or the output of perf script, perf report --sort symbol,srcline or bpftrace.",
)
@click.option(
    "--top",
    metavar="N|all",
    help=f"Number of rows (default: {_ROWS_SHOWN} in the table, all with --csv and --json).",
)
@click.option(
    "--hurt/--lost",
    default=True,
    help="Rank the loops that are hurt by their offset first (default), or all by lost cycles.",
)
@click.option(
    "--fail-over",
    type=click.FloatRange(0),
    metavar="PERCENT",
    help="With two files: exit code 1 if a loop in both got slower by more than PERCENT.",
)
@click.option(
    "--patch",
    "function",
    metavar="FUNCTION",
    help="Make a patch that aligns the hurt loops of an assembly function in --tree.",
)
@options.tree()
@click.option(
    "--verify",
    "tier",
    metavar="object|boot",
    help="Verification of --patch. object (default): build the object and scan it again. boot: "
    "also boot kernels with it.",
)
@options.dask(
    "Scan a folder on the workers of a Dask scheduler; local starts processes on this machine."
)
@options.path(
    "--out",
    "DIR|FILE",
    "Folder for --patch; with a folder to scan, the table to write, FILE.csv or FILE.parquet.",
)
@click.option(
    "--measure",
    type=click.IntRange(min=1),
    metavar="N",
    help="Measure the N loops that lose most on this machine's core, at their code offset and at "
    "their best one, and list only these.",
)
@click.option(
    "--improve",
    type=click.IntRange(min=1),
    metavar="N",
    help="Search faster code for N loops, by their share of --profile or by rank, and show the "
    "two best candidates of each as a diff. Measured if this machine's core is among "
    "--microarch.",
)
@click.option("--no-measure", is_flag=True, help="With --improve: measure nothing on this machine.")
@options.path(
    "--html",
    "FILE.html",
    "Also write a self-contained page: a map of all loops, a table to filter, and the "
    "instructions, code offsets and timeline of each loop.",
)
@output.formats
def scan(
    file: Path,
    file_b: Path | None,
    microarch: str | None,
    symbols: Path | None,
    features: str | None,
    profile: Path | None,
    top: str | None,
    hurt: bool,
    fail_over: float | None,
    function: str | None,
    tree: str | None,
    tier: str | None,
    dask: str | None,
    out: Path | None,
    measure: int | None,
    improve: int | None,
    no_measure: bool,
    html: Path | None,
) -> int:
    """Find the loops of a binary that their code offset hurts.

    FILE is a kernel (vmlinux, vmlinuz, an arm64 Image), a module, an object or archive, a library
    or a program; it may be compressed. Loops that are hurt by their code offset come first, ranked
    by the cycles lost an iteration. The lines below the table list the fixes of the first ones, and
    the loops found and left out; with --csv and --json they go to stderr. If FILE is a folder, all
    files with code below it are scanned into the table -o.

    With FILE_B, another build, the table lists the loops that got hurt or were fixed between the
    two. --patch makes a kernel patch of the fixes of a function, after its object was built with
    them and scanned again. With --verify boot, a kernel with them also has to boot and run the
    loops. Exit code 1 if the verification fails.

    \b
    loopwright scan vmlinux
    loopwright scan /boot/vmlinuz-6.1.0-50-cloud-amd64 --microarch zen2,skylake --top 50
    loopwright scan net/core/skbuff.o --csv
    loopwright scan /usr/lib/x86_64-linux-gnu/libcrypto.so.3 --json
    loopwright scan vmlinux --symbols System.map --features erms,fsrm,smap
    loopwright scan old/vmlinux new/vmlinux --fail-over 25
    loopwright scan /usr/lib -o loops.parquet --dask 10.0.0.7:8786
    loopwright scan vmlinux --patch rep_stos_alternative --tree debian:6.12 -o patches --verify boot
    perf script > profile.txt && loopwright scan vmlinux --profile profile.txt
    loopwright scan vmlinux --measure 20
    loopwright scan vmlinux --improve 10 --profile profile.txt --microarch zen2
    loopwright scan vmlinux --html scan.html
    """
    from loopwright.scanning.scan import Question, scanned

    if file.is_dir():
        others = (file_b, function, tree, tier, symbols, top, profile, measure, improve, html)
        if any((*others, output.row_format())):
            raise InputError(f"{file} is a folder: it takes --microarch, --features, --dask and -o")
        return _folder(file, out, microarch, features, dask)
    if dask:
        raise InputError(f"--dask is for a folder of files, and {file} is none; leave it out")
    rows = _top(top, None if output.row_format() else _ROWS_SHOWN)
    one_file = "takes one FILE"
    for refused, why in (
        (fail_over is not None and file_b is None,
         "--fail-over compares two builds: give both, as FILE FILE_B"),
        (profile is not None and (file_b or function),
         "--profile weighs the loops of one FILE: leave FILE_B and --patch out"),
        (function and (file_b or not tree or not out), f"--patch {one_file}, with --tree and -o"),
        (measure is not None and (file_b or function), f"--measure {one_file}, without --patch"),
        (improve is not None and (file_b or function or measure or html),
         f"--improve {one_file}, without --patch, --measure and --html"),
        (no_measure and improve is None, "--no-measure is for --improve"),
        (html is not None and (function or measure),
         "--html is for a scan or two builds: leave --patch and --measure out"),
        (not function and (tree or out or tier),
         "--tree, --verify and -o are for --patch FUNCTION, -o for a folder of files, too"),
    ):  # fmt: skip
        if refused:
            raise InputError(why)
    if html is not None:
        from loopwright.reporting.html import check as check_page

        check_page(html)
    if file_b:
        a, b = (
            Question(build, microarch=microarch, symbols=symbols, features=features)
            for build in (file, file_b)
        )
        return _compare(a, b, fail_over, rows, html)
    question = Question(
        file, microarch=microarch, symbols=symbols, features=features, profile=profile, hurt=hurt
    )
    with output.progress("predicting") as step:
        result: Scan = scanned(replace(question, progress=step))
    if function and tree and out:
        return _patch(result, function, tree, out, tier)
    if measure is not None:
        return _measured(result, measure)
    if improve is not None:
        return _improved(result, improve, measured=not no_measure)
    output.emit(result.rows(rows), show_scan)
    _say(result.summary())
    if html is not None:
        from loopwright.reporting import scan_page

        output.write_page(scan_page.of_scan(result, scan_page.command(question, html)), html)
    return 0


def _folder(
    folder: Path, out: Path | None, microarch: str | None, features: str | None, dask: str | None
) -> int:
    from loopwright.rows import counted
    from loopwright.scanning.folder_scan import scan_folder

    if out is None:
        raise InputError(f"{folder} is a folder: name the table of its loops, -o FILE.csv")
    with output.progress("scanning") as step:
        result = scan_folder(
            folder, out, microarch=microarch, features=features, dask=dask, progress=step
        )
    for path, why in result.refused.items():
        print(f"{path}: left out: {why}", file=sys.stderr)
    for path, other in result.same.items():
        print(f"{path}: the same as {other}", file=sys.stderr)
    left_out = f"; {len(result.refused):,} left out" if result.refused else ""
    rows, files = counted(result.rows, "row"), counted(result.files, "file")
    print(f"{out}: {rows} of {files}{left_out}")
    return output.exit_code(result.files > 0, "no file")


def _compare(
    a: "Question", b: "Question", percent: float | None, top: int | None, html: Path | None
) -> int:
    from loopwright.rows import counted
    from loopwright.scanning.builds import scan_both

    comparison = scan_both(a, b)
    rows = comparison.rows(changed=not output.row_format())
    rows = replace(rows, values=rows.values[:top])
    output.emit(rows, show_builds)
    _say(comparison.summary())
    if html is not None:
        from loopwright.reporting import scan_page

        output.write_page(scan_page.of_builds(comparison, scan_page.command(a, html, b.file)), html)
    slower = comparison.slower(percent) if percent is not None else []
    if slower:
        loops = counted(len({row["address_b"] for row in slower}), "loop")
        print(f"{loops} got slower by more than {percent:g} %", file=sys.stderr)
    return 1 if slower else 0


def _patch(scan_result: "Scan", function: str, tree: str, out: Path, tier: str | None) -> int:
    """Make a patch; exit code 1 where there is none, or a check does not prove it."""
    from loopwright.linux.verification import NOT_PROVEN
    from loopwright.scanning.alignment_patches import OBJECT, patch

    patched = patch(scan_result, function, tree, out, output.say_check, tier=tier or OBJECT)
    if output.row_format():
        output.emit(Rows.of(patched.checks))
    elif patched.file:
        print(patched.file)
    for note in patched.notes:
        print(f"note: {note}", file=sys.stderr)
    proven = all(row["status"] != NOT_PROVEN for row in patched.checks)
    return 0 if patched.file and proven else 1


def _measured(scan_result: "Scan", count: int) -> int:
    """Measure the first suspects; exit code 1 where none of them has a figure."""
    from loopwright.scanning import suspects

    with output.progress("measuring") as step:
        rows = suspects.measure_suspects(scan_result, count, progress=step)
    output.emit(rows)
    _say(suspects.measured_summary(rows))
    return output.exit_code(bool(rows.empty or rows["measured"].notna().any()), "no measurement")


def _improved(scan_result: "Scan", count: int, *, measured: bool) -> int:
    """Search faster code for the first loops; exit code 1 where there is none."""
    from loopwright.scanning.suspects import improve_suspects

    with output.progress("improving") as step:
        improved = improve_suspects(scan_result, count, measured=measured, progress=step)
    output.emit(improved.rows, show_improved_loops)
    _say(improved.summary())
    return 0 if improved.found else 1


def show_improved_loops(rows: Rows) -> None:
    """Print the candidates of each loop: a table with a column for each core, and diffs."""
    for _, group in groupby(rows.records(), key=lambda row: (row["file"], row["address"])):
        of_loop = list(group)
        first = of_loop[0]
        where = _where(first["function"], first["into"]) or first["address"]
        line = f" ({first['line']})" if first["line"] else ""
        share = "" if first["share"] is None else f": {first['share']:.1f} % of all cycles"
        output.say(f"{where}{line}{share}", style="bold")
        by_candidate = [
            list(of_candidate)
            for _, of_candidate in groupby(of_loop, key=lambda row: row["candidate"])
        ]
        output.draw(Rows.of(map(_candidate, by_candidate)))
        for of_candidate in by_candidate:
            row = of_candidate[0]
            print()
            output.say(f"{row['candidate']}: {row['proof']}")
            if row["note"]:
                output.say(row["note"])
            print(row["diff"].rstrip("\n"))
        print()


def _candidate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the line of a candidate: cycles before and after on each core, with the gain."""
    first = rows[0]
    line = {
        "candidate": first["candidate"],
        "transformations": first["transformations"],
        "bytes": " to ".join(map(str, dict.fromkeys((first["bytes_before"], first["bytes"])))),
        "status": first["status"],
    }
    for row in rows:
        line[row["microarch"]] = (
            f"{row['cycles']:.2f} to {row['improved']:.2f} ({row['gain']:.2f}x)"
        )
    if first["saved"] is not None:
        line["saved %"] = ", ".join(f"{row['saved']:.1f}" for row in rows)
    return line


def _say(lines: Iterable[str]) -> None:
    """Print a summary: below a table, or on stderr where rows are JSON or CSV."""
    for line in lines:
        if output.row_format():
            print(line, file=sys.stderr)
        else:
            output.say(line)


def _top(text: str | None, default: int | None) -> int | None:
    """Return the requested number of rows, None for all."""
    if text is None:
        return default
    if text == "all":
        return None
    if text.isdecimal() and int(text):
        return int(text)
    raise InputError(f"--top {text!r} is not a number of rows; give one from 1 on, or all")


_SCAN_COLUMNS = (
    "file", "function", "line", "offset", "microarch", "cycles", "best", "worst", "lost",
)  # fmt: skip
_CYCLES = ("cycles", "best", "worst", "lost")
_SPARE = ("lost", "limit", "boundary", "worst", "line", "address")  # in a narrow window


def show_scan(rows: Rows) -> None:
    """Print rows, with a column for the place of each loop and one for its boundary.

    Below the table the fix of the first loop is printed in full.
    """
    records = output.folded(
        {
            "address": row["address"],
            **{name: row[name] for name in _SCAN_COLUMNS},
            **{name: _cycles(row[name]) for name in _CYCLES},
            "function": _where(row["function"], row["into"]),
            "times": None if row["times"] is None else f"{row['times']:.2f}",
            "share %": row["share"],
            "saved %": row["saved"],
            "share of": row["share_of"],
            "limit": row["limit"].partition(" through ")[0],
            "boundary": f"{row['boundary'] or ''} {row['crossed']}".strip(),
            "fix": row["fix"],
            "error": row["error"],
        }
        for row in rows.records()
    )
    if records:
        output.draw(
            Rows.of(records), _SPARE if all(r["function"] for r in records) else _SPARE[:-1]
        )
        print()
    fixed = [row for row in rows.records() if row["how"]]
    for row in fixed[:1]:
        output.say(f"{_where(row['function'], row['into']) or row['address']}: {row['how']}")
        if len({row["address"] for row in fixed}) > 1:
            output.say("how to fix the others: column how of --csv")
        print()


def _cycles(value: float | None) -> output.Figure | None:
    return None if value is None else output.Figure(f"{value:.2f}")


def _where(function: str, into: int) -> str:
    return f"{function}+{into:#x}" if function and into else function


_BUILD_COLUMNS = (
    "file", "function", "line", "change", "microarch", "offset_a", "cycles_a", "offset_b",
)  # fmt: skip


def show_builds(rows: Rows) -> None:
    """Print the loops that changed between two builds."""
    records = output.folded(
        {
            **{name: row[name] for name in _BUILD_COLUMNS},
            "cycles_a": _cycles(row["cycles_a"]),
            "cycles_b": _cycles(row["cycles_b"]),
            "slower": None if row["percent"] is None else f"{row['percent']:+.0f} %",
            "best": _cycles(row["best_a"] if row["best_b"] is None else row["best_b"]),
            "error": row["error"],
        }
        for row in rows.records()
    )
    if records:
        output.draw(Rows.of(records), ("best", "line", "offset_a", "offset_b"))
        print()
