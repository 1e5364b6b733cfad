"""The command line, loopwright VERB ...; each module of this package has a group of verbs.

Exit 0: done. 1: done, and a check does not hold. 2: bad input or a missing tool, named in one line
on stderr.
"""

import gc
import io
import os
import signal
import sys
from typing import NoReturn

import click

from loopwright import files
from loopwright.cli import inventory, kernels, measure, predict, scan
from loopwright.errors import InputError, naming_missing_extra, unknown


class _Verbs(click.Group):
    """A group whose error for an unknown verb names the nearest ones."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise unknown("verb", args[0], self.commands)
        return super().resolve_command(ctx, args)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="loopwright", prog_name="loopwright")
def cli() -> None:
    """Predict, check, measure and patch the assembly loops a kernel lives on."""


_COMMANDS = [
    command
    for module in (inventory, kernels, measure, predict, scan)
    for command in vars(module).values()
    if isinstance(command, click.Command)
]
_SUBCOMMANDS = [c for g in _COMMANDS if isinstance(g, click.Group) for c in g.commands.values()]
for _command in _COMMANDS:
    if _command not in _SUBCOMMANDS:
        cli.add_command(_command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; at SIGTERM and SIGHUP half-written files are removed first."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")  # its encoding may lack the lines of tables
    # Rows are many small objects without cycles: frequent collections would find none.
    gc.set_threshold(200_000)
    sys.exit(run(arguments))


def _end(number: int, frame: object) -> NoReturn:
    del frame
    sys.exit(128 + number)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        with naming_missing_extra():
            done = cli.main(args=arguments, prog_name="loopwright", standalone_mode=False)
        code = int(done or 0)
        sys.stdout.flush()  # an error of the last write is raised here
        return code
    except InputError as error:
        return _refuse(str(error))
    except click.exceptions.NoArgsIsHelpError as no_arguments:
        print(no_arguments.format_message(), file=sys.stderr)
        return 2
    except click.exceptions.Exit as done:
        return int(done.exit_code)
    except click.ClickException as error:
        verb = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else ""
        message = error.format_message().removesuffix(".")
        return _refuse(f"{message} (see `{verb or 'loopwright'} --help`)")
    except (click.Abort, KeyboardInterrupt) as stop:
        notes = getattr(stop.__cause__ or stop, "__notes__", [])
        print("; ".join(["loopwright: interrupted", *notes]), file=sys.stderr)
        return 130
    except BrokenPipeError:
        _discard_output()
        return 0  # the reader left
    except OSError as error:
        code = _refuse(str(files.refusal(error)))
        _discard_output()
        return code


def _discard_output() -> None:
    """Redirect the interpreter's last flush of stdout to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(message: str) -> int:
    print(f"loopwright: {' '.join(message.split())}", file=sys.stderr)
    return 2
