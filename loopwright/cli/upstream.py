"""The verbs that look at a Linux tree: patch, baseline, report."""

import sys
from pathlib import Path

import click

import loopwright as lw
from loopwright.cli import options, output
from loopwright.errors import unknown


def _said(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@click.command()
@options.spec("KERNEL[/VARIANT]")
@options.tree(required=True)
@options.out("Where the patch goes.")
@options.sizes
@options.microarch("Cores that it has to win on; the targets of the kernel's ISA where left out.")
@options.settings
@options.no_measure
@options.stored
@click.option(
    "--verify",
    "tier",
    metavar="apply|object|boot",
    help="Apply it; also build its objects and run them; also boot kernels with it.",
)
@output.formats
def patch(
    spec: str,
    tree: str,
    out: Path,
    sizes: str | None,
    microarch: str | None,
    settings: tuple[str, ...],
    no_measure: bool,
    stored: bool,
    tier: str | None,
    as_json: bool,
    as_csv: bool,
) -> int:
    """Make a Linux patch of a variant, or of each routine's winner.

    A variant asked for by name that is no winner is an RFC, whose message says why first.
    Exit code 1 where there is no winner to make one of, or a check of --verify fails or cannot
    prove what it is for.

    \b
    loopwright patch arm64/copy_user --tree ~/src/linux -o patches/
    loopwright patch x86_64/put_event/masked --tree debian:6.12 -o patches/ --verify object
    """
    from loopwright.linux.verification import FAIL, NOT_PROVEN
    from loopwright.linux.verify import TIERS

    if tier is not None and tier not in TIERS:
        raise unknown("tier", tier, TIERS)
    rows = lw.patch(
        spec,
        tree,
        out,
        sizes=sizes,
        quick=no_measure,
        stored=stored,
        microarch=microarch,
        parameters=options.parameters(settings),
        tier=tier,
        said=output.said_check,
    )
    if as_json or as_csv:
        output.emit(rows, as_json=as_json, as_csv=as_csv)
    else:
        for row in rows.to_dict("records"):
            print("\n".join(row["files"]) or f"{row['variant'] or row['kernel']}: {row['status']}")
            for note in row["notes"]:
                _said(f"note: {note}")
    short = (FAIL, NOT_PROVEN)
    failed = [row for checks in rows["checks"] for row in checks if row["status"] in short]
    return 0 if rows["variant"].ne("").any() and not failed else 1


@click.command()
@options.spec("KERNEL", name="kernel")
@options.tree(required=True)
@options.no_measure
@output.formats
def baseline(kernel: str, tree: str, no_measure: bool, as_json: bool, as_csv: bool) -> int:
    """Compare functions of a Linux tree with a kernel's variants.

    They are called tree:VERSION, and are assembled, predicted, checked and measured as variants
    are. Exit code 1 where one of them breaks the contract.

    \b
    loopwright baseline x86_64/copy_user --tree ~/src/linux
    """
    from loopwright.kernels import is_own_code
    from loopwright.linux.baseline import run
    from loopwright.reporting.text import by_core

    found = run(kernel, tree, quick=no_measure)
    if as_json or as_csv:
        output.emit(found.rows, as_json=as_json, as_csv=as_csv)
    else:
        print(by_core(found.rows))
    for note in found.notes:
        _said(f"note: {note}")
    checks = found.checks.to_dict("records")
    broken = [row for row in checks if is_own_code(row["variant"]) and not row["passed"]]
    for row in broken:
        _said(f"{row['variant']} breaks the contract: {row['failure']}")
    return 1 if len(broken) else 0


@click.command()
@options.spec("[KERNEL ...]", name="kernel_ids", nargs=-1)
@options.out("Where index.html, report.txt and the tables go.")
@options.sizes
@options.microarch("Cores to judge for; the targets of each kernel's ISA where left out.")
@options.no_measure
@click.option("--patch", "with_patch", is_flag=True, help="Make a patch of each winner, too.")
@options.tree("The tree to compare with and to patch; with --patch, else Debian's 6.12.")
@output.formats
def report(
    kernel_ids: tuple[str, ...],
    out: Path,
    sizes: str | None,
    microarch: str | None,
    no_measure: bool,
    with_patch: bool,
    tree: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Write a report on kernels: a page, text, tables, patches.

    All kernels where none is named.

    DIR/index.html is one page to open in a browser, DIR/report.txt the same for a mailing list.
    With --tree the baseline is what that tree has.

    \b
    loopwright report -o out
    loopwright report x86_64/copy_user arm64/copy_user -o out --no-measure
    loopwright report -o out --microarch zen2
    loopwright report -o out --tree ~/src/linux
    """
    import pandas as pd

    from loopwright.reporting import report as write

    with output.progress("measuring") as step:
        findings = write(
            kernel_ids,
            out,
            sizes=sizes,
            quick=no_measure,
            microarch=microarch,
            patch=with_patch or tree is not None,
            tree=tree,
            said=_said,
            progress=step,
        )
    rows = pd.concat([f.recommendation for f in findings], ignore_index=True)
    if as_json or as_csv:
        output.emit(rows, as_json=as_json, as_csv=as_csv)
        return
    for row in rows.to_dict("records"):
        output.say(f"{row['kernel']} {row['routine']}: {row['said']}")


VERBS = (patch, baseline, report)
