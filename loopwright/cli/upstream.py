"""The verbs patch and report: what leaves loopwright."""

import sys
from pathlib import Path

import click

from loopwright import kernels
from loopwright.compare import table
from loopwright.errors import InputError
from loopwright.histogram import read
from loopwright.patch import make
from loopwright.patch import tree as linux_tree
from loopwright.recommend import judge
from loopwright.report import patches
from loopwright.report import report as write_report
from loopwright.report.findings import Finding
from loopwright.study import gather


def _said(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@click.command()
@click.argument("spec", metavar="KERNEL[/VARIANT]")
@click.option(
    "--tree",
    metavar="LINUX_TREE",
    required=True,
    help="A Linux source tree, or debian:6.12 for Debian's package.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Where the patch goes.",
)
@click.option("--sizes", metavar="FILE[:MAP]", help="A bpftrace histogram of sizes.")
@click.option("--no-measure", is_flag=True, help="Leave this host's measurement out.")
def patch(spec: str, tree: str, out: Path, sizes: str | None, no_measure: bool) -> int:
    """Make a kernel patch of a variant, or of each routine's winner.

    Exit code 1 where there is no winner to make one of.
    """
    kernel, variants = kernels.select(spec)
    found = linux_tree.find(tree)
    assert found.path is not None
    histogram = read(sizes) if sizes else None
    gathered = gather(kernel.id, sizes=histogram, quick=no_measure)
    judged = judge(gathered, histogram)
    finding = Finding(gathered, table(gathered), judged)
    if spec.rstrip("/") == kernel.id:
        winners = [w for w in judged["winner"] if w]
        for row in judged[judged["winner"] == ""].to_dict("records"):
            _said(f"{row['routine']}: no winner: {row['reason']}")
        variants = [kernel.variants[w] for w in winners]
    for variant in variants:
        checks = gathered.checks.set_index("variant").loc[variant.name]
        if not checks["passed"]:
            raise InputError(
                f"{variant.id} breaks its contract and gets no patch: {checks['failure']}"
            )
        made = make(variant, found.path, out, patches.evidence(finding))
        if made.status == "written":
            print("\n".join(str(f) for f in made.files))
        else:
            print(f"{variant.id}: {made.status} in {found.note}; nothing written")
        for note in made.notes:
            _said(f"note: {note}")
    return 0 if variants else 1


@click.command()
@click.argument("kernel_ids", metavar="[KERNEL ...]", nargs=-1)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Where report.txt and the tables go.",
)
@click.option("--sizes", metavar="FILE[:MAP]", help="A bpftrace histogram of sizes.")
@click.option("--no-measure", is_flag=True, help="Leave this host's measurement out.")
@click.option("--patch", "with_patch", is_flag=True, help="Make a patch of each winner, too.")
@click.option(
    "--tree",
    metavar="LINUX_TREE",
    help="The tree to patch; Debian's linux-source-6.12 where left out.",
)
def report(
    kernel_ids: tuple[str, ...],
    out: Path,
    sizes: str | None,
    no_measure: bool,
    with_patch: bool,
    tree: str | None,
) -> None:
    """Study kernels (all where none is named) and write a report, tables and patches.

    \b
    loopwright report -o out --patch --tree ~/src/linux
    """
    findings = write_report(
        kernel_ids,
        out,
        sizes=sizes,
        quick=no_measure,
        patch=with_patch or tree is not None,
        tree=tree,
        said=_said,
    )
    for finding in findings:
        for row in finding.recommendation.to_dict("records"):
            winner = row["winner"] or "no winner"
            margin = f" {row['margin_percent']:+.1f} %" if row["winner"] else ""
            print(
                f"{row['kernel']} {row['routine']}: {winner}{margin}"
                f" ({row['confidence'] or row['reason']})"
            )


VERBS = (patch, report)
