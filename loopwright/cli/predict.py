"""The verb predict."""

from pathlib import Path

import click

from loopwright.cli import output
from loopwright.predict import predict as run


@click.command()
@click.argument("spec", metavar="[KERNEL[/VARIANT]]", required=False)
@click.option("--hex", "hex_", metavar="HEX", help="Machine code to predict.")
@click.option(
    "--blocks",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="A CSV with the columns id, hex and optionally offset.",
)
@click.option(
    "--microarch",
    metavar="ID[,ID]|all",
    help="Cores to predict for; the targets of the code's ISA where left out.",
)
@click.option("--model", metavar="ID[,ID]|all", help="Models to ask; all where left out.")
@click.option(
    "--notion",
    metavar="loop|unrolled",
    help="loop: it repeats by its own branch. unrolled: copies stand back to back.",
)
@click.option("--offset", metavar="N|all", help="Code offset in bytes mod 64.")
@output.formats
def predict(
    spec: str | None,
    hex_: str | None,
    blocks: Path | None,
    microarch: str | None,
    model: str | None,
    notion: str | None,
    offset: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Predict cycles an iteration of a kernel's main loops, of a block, or of many.

    \b
    loopwright predict x86_64/copy_user
    loopwright predict arm64/copy_user/to_user_batched --microarch tsv110
    loopwright predict --hex 4883c0014839c875f7 --microarch zen2 --json
    loopwright predict --blocks blocks.csv --microarch skylake --model llvm-mca --csv
    """
    rows = run(
        spec,
        hex=hex_,
        blocks=blocks,
        microarch=microarch,
        model=model,
        notion=notion,
        offset=offset,
    )
    output.emit(rows, as_json=as_json, as_csv=as_csv, hide=("kernel", "routine"))


VERBS = (predict,)
