"""The verb results: what was measured, here and elsewhere."""

import click

from loopwright.cli import output
from loopwright.results import results as run_listing


@click.command()
@click.option("--kernel", metavar="KERNEL[/VARIANT]", help="List that kernel or variant alone.")
@output.formats
def results(kernel: str | None, as_json: bool, as_csv: bool) -> None:
    """List what the results store holds: runs by machine, clock and variant, newest first."""
    rows = run_listing(kernel)
    if rows.empty and not (as_json or as_csv):
        print("nothing yet: `loopwright measure KERNEL` or `loopwright import FILE` adds results")
    else:
        output.emit(
            rows, as_json=as_json, as_csv=as_csv, hide=("protocol", "fingerprint", "run", "origin")
        )


VERBS = (results,)
