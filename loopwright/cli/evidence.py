"""The verbs check, measure, compare and recommend."""

import click

from loopwright import kernels
from loopwright.api import measure as run_measurements
from loopwright.check import run as run_checks
from loopwright.cli import output
from loopwright.compare import compare as run_comparison
from loopwright.errors import InputError
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
@click.argument("spec", metavar="KERNEL[/VARIANT]")
@click.option("--sizes", metavar="N[,N...]", help="Sizes of calls in bytes.")
@click.option("--offset", type=click.IntRange(0, 63), help="Code offset of the loop, mod 64.")
@output.formats
def measure(spec: str, sizes: str | None, offset: int | None, as_json: bool, as_csv: bool) -> None:
    """Measure variants on this host: cycles an iteration and cycles a call over sizes.

    A variant that breaks its contract is not measured.
    """
    wanted = None if sizes is None else _sizes(sizes)
    with output.progress("measuring") as step:
        rows = run_measurements(spec, sizes=wanted, offset=offset, progress=step)
    output.emit(rows, as_json=as_json, as_csv=as_csv, hide=("kernel", "samples", "machine"))


def _sizes(text: str) -> list[int]:
    parts = [p.strip() for p in text.split(",") if p.strip()]
    if not parts or not all(p.isdecimal() for p in parts):
        raise InputError(f"sizes {text!r} are no numbers of bytes; give them as 64,256,4096")
    return [int(p) for p in parts]


@click.command()
@click.argument("kernel", metavar="KERNEL")
@click.option("--no-measure", is_flag=True, help="Leave this host's measurement out.")
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
@click.option("--no-measure", is_flag=True, help="Leave this host's measurement out.")
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


VERBS = (check, measure, compare, recommend)
