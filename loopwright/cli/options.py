"""Shared options and arguments of verbs, and their shell completion."""

import io
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, TextIO, TypedDict, TypeVar, cast

import click

from loopwright.errors import InputError, unknown
from loopwright.toolchain import ISA_NAMES

F = TypeVar("F", bound=Callable[..., Any])
STDIN = "-"  # given in the place of a kernel
_MOST_TEXT = 50_000_000  # characters of a text
Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def path(name: str, metavar: str, text: str, **attrs: Any) -> Callable[[F], F]:
    """Return an option that names a file or a folder; name is the option, "--out" also -o."""
    names = ("-o", name) if name == "--out" else (name,)
    return click.option(
        *names, type=click.Path(path_type=Path), metavar=metavar, help=text, **attrs
    )


blocks = path(
    "--blocks", "FILE.csv", "Blocks of code: a CSV with columns id, hex and optionally offset."
)
sizes = click.option(
    "--sizes",
    metavar="FILE[:MAP]",
    help="Weigh calls by this bpftrace histogram of sizes.",
)
against = click.option(
    "--against", metavar="VARIANT", help="Variant to compare with (default: the baseline)."
)
no_measure = click.option(
    "--no-measure", "quick", is_flag=True, help="Use models alone: no measurements, no stored runs."
)
stored = click.option(
    "--stored", is_flag=True, help="With --no-measure: also use the runs in the results store."
)


class Loops(TypedDict):
    """The user's own loops: machine code, a text, or the name of a file."""

    hex: str | None
    asm: str | None
    obj: str | None


def loops(function: F) -> F:
    """Add --hex, --asm and --obj, which the verb receives as own_loops."""

    @wraps(function)
    def read(
        *args: Any,
        hex: str | None,
        asm: TextIO | None,
        obj: str | None,
        spec: str | None,
        **kwargs: Any,
    ) -> Any:
        text = _whole(asm, asm.name) if asm else None
        if spec == STDIN:
            if text is not None:
                raise InputError("give - or --asm FILE, not both")
            piped = io.TextIOWrapper(sys.stdin.buffer, errors="replace")
            spec, text = None, _whole(piped, "standard input")
            piped.detach()
        return function(*args, own_loops=Loops(hex=hex, asm=text, obj=obj), spec=spec, **kwargs)

    options: tuple[Callable[[Any], Any], ...] = (
        click.option(
            "--hex", metavar="HEX", help="Machine code in hex, also as 0x48,0x01 or 48:01."
        ),
        click.option(
            "--asm",
            type=click.File(errors="replace"),
            metavar="FILE",
            help="Assembly, a listing by objdump, gdb or perf annotate, or hex (- for standard "
            "input); takes each loop in it.",
        ),
        click.option(
            "--obj",
            metavar="FILE[:SYMBOL]",
            help="Object, archive or program; takes each loop in it or in SYMBOL.",
        ),
    )
    verb: Any = read
    for option in options:
        verb = option(verb)
    return cast(F, verb)


def _whole(file: TextIO, name: str) -> str:
    """Return a text; InputError if it is endless, far too long or binary."""
    text = file.read(_MOST_TEXT + 1)
    if len(text) > _MOST_TEXT:
        raise InputError(f"{name} has more than {_MOST_TEXT:,} characters; give the loops alone")
    if "\0" in text:
        raise InputError(f"{name} is not text; give an object or a program by --obj")
    return text


def spec(metavar: str, *, name: str = "spec", **attrs: Any) -> Callable[[F], F]:
    """Return the argument for a kernel, a variant or several of them; metavar shows its form."""
    return click.argument(name, metavar=metavar, shell_complete=complete_specs, **attrs)


def microarch(
    text: str = "Cores to predict for; host is this machine's (default: the target cores of the "
    "code's ISA and this machine's core).",
    *,
    metavar: str = "ID[,ID]|all",
) -> Callable[[F], F]:
    """Return the option --microarch."""
    return click.option(
        "--microarch", metavar=metavar, shell_complete=complete_microarchs, help=text
    )


class _Isa(click.ParamType[str]):
    """An instruction set by any of its usual names."""

    name = "ISA"

    def convert(self, value: Any, param: object, ctx: object) -> str:  # noqa: ARG002, click's
        """Return the project's name of an instruction set."""
        if value.lower() not in ISA_NAMES:
            raise unknown("ISA", value, dict.fromkeys(ISA_NAMES.values()))
        return ISA_NAMES[value.lower()]


def isa(
    text: str = "Instruction set of --asm (default: the one that the text assembles for).",
) -> Callable[[F], F]:
    """Return the option --isa."""
    return click.option("--isa", type=_Isa(), metavar="x86_64|arm64", help=text)


def dask(text: str) -> Callable[[F], F]:
    """Return the option that names a Dask cluster."""
    return click.option("--dask", metavar="HOST:PORT|local", help=text)


def tree(
    text: str = "A Linux source tree, or debian:6.12 for Debian's package.",
    *,
    required: bool = False,
) -> Callable[[F], F]:
    """Return the option --tree."""
    return click.option("--tree", metavar="LINUX_TREE", required=required, help=text)


def out(text: str) -> Callable[[F], F]:
    """Return the option --out, a folder."""
    return path("--out", "DIR", text, required=True)


def settings(
    text: str = "Set a parameter of the simulator, e.g. serial.stac_clac=20; it then counts as "
    "measured.",
) -> Callable[[F], F]:
    """Return the option --set, which the verb receives as parameters: values by name."""
    return click.option(
        "--set", "parameters", metavar="NAME=VALUE", multiple=True, callback=_parameters, help=text
    )


def _parameters(_context: object, _option: object, texts: tuple[str, ...]) -> dict[str, str]:
    parameters = {}
    for setting in texts:
        name, equals, value = setting.partition("=")
        if not (name and equals and value):
            raise InputError(f"--set {setting!r} is not NAME=VALUE, e.g. front_end=ideal")
        parameters[name.strip()] = value.strip()
    return parameters


def weights(text: str) -> dict[tuple[int, int], float]:
    """Return the weights of --align D:S=WEIGHT[,...]; InputError for other text."""
    out: dict[tuple[int, int], float] = {}
    for part in text.split(","):
        pair, equals, weight = part.partition("=")
        try:
            value = float(weight)
        except ValueError:
            value = -1.0
        if not equals or not 0 <= value < float("inf"):
            raise InputError(
                f"--align {part.strip()!r} is not destination:source=weight; give e.g. "
                "0:0=6,8:0=3,1:0=1"
            )
        [alignment] = alignments(pair)
        out[alignment] = value
    if not any(out.values()):
        raise InputError(f"--align {text!r} gives no alignment a weight")
    return out


def numbers(option: str, text: str, example: str, noun: str = "numbers") -> list[int]:
    """Return the numbers of an option; InputError for other text; example is a valid list."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise InputError(f"{option} {text!r} is not a list of {noun}; give it as {example}")
    return [int(part) for part in parts]


def alignments(text: str) -> list[tuple[int, int]]:
    """Return the pairs of --align; InputError for other text."""
    from loopwright.predicting.question import read_alignments

    if pairs := read_alignments(text):
        return pairs
    raise InputError("no alignment given; give destination:source, as 0:0,1:0")


def completer(names: Callable[[str], Iterable[str]]) -> Completer:
    """Return a shell completer for names, given the beginning of a word."""

    def complete(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in names(incomplete) if name.startswith(incomplete)]
        except InputError:  # a shell cannot show an error here
            return []

    return complete


def _listed(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the completions of a comma-separated list, or "all" at its start."""
    before, comma, _ = incomplete.rpartition(",")
    listed = before.split(",")
    candidates = [*names] if comma else [*names, "all"]
    return [f"{before}{comma}{name}" for name in candidates if name not in listed]


@completer
def complete_specs(incomplete: str) -> Iterable[str]:
    """Return the kernels, or the variants of the kernel that is named."""
    from loopwright import kernels

    ids = kernels.ids()
    kernel = incomplete.rpartition("/")[0]
    return [v.id for v in kernels.load(kernel).variants.values()] if kernel in ids else ids


@completer
def complete_microarchs(incomplete: str) -> Iterable[str]:
    """Return the cores that may continue a list."""
    from loopwright import microarchs

    return _listed(microarchs.ids(), incomplete)


@completer
def complete_models(incomplete: str) -> Iterable[str]:
    """Return the models that may continue a list."""
    from loopwright.predicting.models import MODELS

    return _listed((m.id for m in MODELS), incomplete)
