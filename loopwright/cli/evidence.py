"""The verbs check, compare and recommend."""

import click

from loopwright import kernels
from loopwright.check import run as run_checks
from loopwright.cli import output
from loopwright.compare import compare as run_comparison
from loopwright.recommend import recommend as run_recommendation
from loopwright.report.sides import by_core


@click.command()
@click.argument("spec", metavar="KERNEL[/VARIANT]")
@output.formats
def check(spec: str, as_json: bool, as_csv: bool) -> int:
    """Run variants against their contract: results, faults, bounds, registers.

    Exit code 1 where a variant breaks it.
    """
    _, variants = kernels.select(spec)
    with output.progress("checking") as step:
        done = iter(range(1, len(variants) + 1))
        rows = run_checks(variants, lambda _: step(next(done), len(variants)))
    output.emit(rows, as_json=as_json, as_csv=as_csv, hide=("kernel",))
    return 0 if bool(rows["passed"].all()) else 1


@click.command()
@click.argument("kernel", metavar="KERNEL")
@click.option("--no-measure", is_flag=True, help="Measure nothing now; use what is stored.")
@output.formats
def compare(kernel: str, no_measure: bool, as_json: bool, as_csv: bool) -> None:
    """Put predictions and this host's measurement side by side, with errors and spread."""
    rows = run_comparison(kernel, quick=no_measure)
    if as_json or as_csv:
        output.emit(rows, as_json=as_json, as_csv=as_csv)
    else:
        print(by_core(rows))


@click.command()
@click.argument("kernel", metavar="KERNEL")
@click.option(
    "--sizes",
    metavar="FILE[:MAP]",
    help="A bpftrace histogram of sizes that weighs the measured costs.",
)
@click.option("--no-measure", is_flag=True, help="Measure nothing now; use what is stored.")
@output.formats
def recommend(
    kernel: str, sizes: str | None, no_measure: bool, as_json: bool, as_csv: bool
) -> None:
    """Name the variant to ship for each routine of a kernel, or say why there is none."""
    rows = run_recommendation(kernel, sizes=sizes, quick=no_measure)
    if as_json or as_csv:
        output.emit(rows, as_json=as_json, as_csv=as_csv)
    else:
        output.describe(rows)


VERBS = (check, compare, recommend)
