"""The verb mca: llvm-mca's command line, read by the simulator (models/pipeline/src/mca)."""

import sys
from pathlib import Path

import click


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mca(arguments: tuple[str, ...]) -> int:
    """Read what llvm-mca reads and print its sections.

    With what its model leaves out beside them: code alignment, front end.

    \b
    loopwright mca -mcpu=znver2 loop.s
    loopwright mca -mcpu=neoverse-n1 -timeline -bottleneck-analysis < loop.s
    loopwright mca --help
    """
    from loopwright import files, paths
    from loopwright.code import binding
    from loopwright.machine import hosts

    for argument in arguments:
        files.finite(Path(argument))
    named = any(argument.lstrip("-").startswith("mcpu") for argument in arguments)
    host = None if named else hosts.microarch()
    code, out, err = binding.mca(arguments, paths.models_root(), host)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code


VERBS = (mca,)
