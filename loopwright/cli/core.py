"""The verb core."""

import sys
from pathlib import Path

import click

from loopwright.cli import options, output


@click.command()
@click.argument("microarch", metavar="ID", shell_complete=options.complete_microarchs)
@click.option(
    "--beside",
    metavar="ID",
    shell_complete=options.complete_microarchs,
    help="The same of another core beside it.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Also write one page that needs no network: ports drawn, instructions, offsets that hurt, "
    "calls by size, every parameter with its source.",
)
@output.formats
def core(
    microarch: str, beside: str | None, html: Path | None, as_json: bool, as_csv: bool
) -> None:
    """Show parameters, ports and common instructions of a core.

    \b
    loopwright core zen2
    loopwright core zen2 --beside zen4 --html zen2.html
    LOOPWRIGHT_MODELS=cores loopwright core host --html host.html
    """
    from loopwright.reporting import core_sheet

    if html is not None:
        from loopwright.reporting import core_page
        from loopwright.reporting.page.made import check, write

        check(html)
    rows = core_sheet.core(microarch, beside=beside)
    if html is not None:
        write(core_page.render(rows, microarch, beside), html)
        print(f"written: {html}", file=sys.stderr)
    output.emit(rows, as_json=as_json, as_csv=as_csv, hide=("source",))


VERBS = (core,)
