"""The verb calibrate."""

from pathlib import Path

import click

from loopwright.cli import options, output


@click.command()
@options.out("Where the core goes: DIR/ID, for LOOPWRIGHT_MODELS=DIR.")
@click.option(
    "--machine",
    default="host",
    metavar="host|simulated:ID|FILE",
    help="This host, a core of the simulator with noise, or answers that a run left behind.",
)
@click.option("--quick", is_flag=True, help="Leave out operands of 8, 16 and 256 bits.")
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
    """Learn a core from timing alone: its width, latencies, and what runs on which ports.

    Forms that compute in registers, of x86-64 and AArch64. What is not known for sure is left out
    and listed. A run that was killed goes on where it was.

    \b
    loopwright calibrate -o cores
    loopwright calibrate -o cores --quick --compare goldencove
    loopwright calibrate -o cores --machine simulated:skylake
    loopwright calibrate -o cores --machine simulated:skylake --set rename.width=6
    loopwright calibrate -o again --machine cores/host/answers.jsonl
    """
    from loopwright.calibrating import verb

    rows = verb.calibrate(
        out,
        machine=machine,
        quick=quick,
        compare=compare,
        settings=options.parameters(settings),
        step=lambda what: click.echo(f"learning: {what}", err=True),
    )
    output.emit(rows, as_json=as_json, as_csv=as_csv)
    return 0


VERBS = (calibrate,)
