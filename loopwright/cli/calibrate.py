"""The verb calibrate."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopwright.cli import options, output

if TYPE_CHECKING:
    import pandas as pd


_QUICK = (
    "Leave out operands of 8, 16 and 256 bits (not of movzx, movsx, setcc), extensions beyond "
    "AVX2, BMI and ADX (FMA and AES, too), rcl, rcr, sal, dpps, dppd, mpsadbw, compares of "
    "strings, and selectors of segments."
)


@click.command()
@options.out("Where the core goes: DIR/ID, for LOOPWRIGHT_MODELS=DIR.")
@click.option(
    "--machine",
    default="host",
    metavar="host|simulated:ID|FILE",
    help="This host, a core of the simulator with noise, or answers that a run left behind.",
)
@click.option("--quick", is_flag=True, help=_QUICK)
@click.option(
    "--compare",
    metavar="ID",
    shell_complete=options.complete_microarchs,
    help="List where measurements differ from what a core of models/ answers.",
)
@options.settings
@output.formats
def calibrate(
    out: Path,
    machine: str,
    quick: bool,
    compare: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
) -> int:
    """Learn a core from timing alone: width, latencies, ports.

    Forms of x86-64 and AArch64 that compute in registers, load or store, and branches. What is not
    known for sure is left out and listed. A run that was killed goes on where it was.

    \b
    loopwright calibrate -o cores
    loopwright calibrate -o cores --quick --compare goldencove
    loopwright calibrate -o cores --machine simulated:skylake
    loopwright calibrate -o cores --machine simulated:skylake --set rename.width=6
    loopwright calibrate -o again --machine cores/host/answers.jsonl
    """
    asked: dict[str, Any] = {
        "machine": machine,
        "quick": quick,
        "compare": compare,
        "settings": options.parameters(settings),
    }
    rows = _of_one(out, asked)
    output.emit(rows, as_json=as_json, as_csv=as_csv)
    return 0


def _of_one(out: Path, asked: Mapping[str, Any]) -> "pd.DataFrame":
    """Calibrate one machine; say what is learned."""
    from loopwright.calibrating.calibrate import calibrate as learn

    with output.progress("calibrating") as step:

        def learning(what: str) -> None:
            click.echo(f"learning: {what}", err=True)

        return learn(out, **asked, step=learning, progress=step)


VERBS = (calibrate,)
