"""The verb measure."""

import click

from loopwright.api import measure as run_measurements
from loopwright.cli import output
from loopwright.errors import InputError

_HIDDEN = ("kernel", "samples", "machine", "self_test", "milliseconds")


@click.command()
@click.argument("spec", metavar="KERNEL[/VARIANT]")
@click.option("--sizes", metavar="N[,N...]", help="Sizes of calls in bytes.")
@click.option(
    "--offset",
    metavar="N[,N...]|all",
    help="Code offsets of the loop, mod 64. At several, calls of the --sizes given alone.",
)
@click.option("--resume", is_flag=True, help="Go on with the run that was interrupted.")
@output.formats
def measure(
    spec: str, sizes: str | None, offset: str | None, resume: bool, as_json: bool, as_csv: bool
) -> None:
    """Measure variants on this host: cycles an iteration and cycles a call over sizes.

    A variant that breaks its contract is not measured. Every point is kept in the results store
    as soon as it is measured (`loopwright results`).

    \b
    loopwright measure x86_64/copy_user --sizes 64,256,4096
    loopwright measure x86_64/clear_user/plain --offset all --csv
    """
    with output.progress("measuring") as step:
        rows = run_measurements(
            spec,
            sizes=None if sizes is None else _numbers("--sizes", sizes, "64,256,4096"),
            offset=offset if offset in (None, "all") else _numbers("--offset", offset, "0,16,32"),
            resume=resume,
            progress=step,
        )
    output.emit(rows, as_json=as_json, as_csv=as_csv, hide=_HIDDEN)
    if not (as_json or as_csv):
        for line in sorted(set(rows["self_test"]) - {""}):
            print(f"self-test, cycles an instruction: {line}")


def _numbers(option: str, text: str, example: str) -> list[int]:
    parts = [p.strip() for p in text.split(",") if p.strip()]
    if not parts or not all(p.isdecimal() for p in parts):
        raise InputError(f"{option} {text!r} is no list of numbers; give it as {example}")
    return [int(p) for p in parts]


VERBS = (measure,)
