"""Options and arguments that verbs share, and what a shell completes for them."""

import io
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

import click

from loopwright.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
STDIN = "-"  # in the place of a kernel
_MOST_TEXT = 50_000_000  # characters
Completer = Callable[[click.Context, click.Parameter, str], list[str]]

blocks = click.option(
    "--blocks",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="A CSV with the columns id, hex and optionally offset.",
)
sizes = click.option(
    "--sizes",
    metavar="FILE[:MAP]",
    help="A bpftrace histogram of sizes that weighs the costs of calls.",
)
settings = click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A parameter of the simulator, e.g. serial.stac_clac=20: it is unknown no more.",
)
no_measure = click.option(
    "--no-measure", is_flag=True, help="Measure nothing and use no stored run: models alone."
)
stored = click.option(
    "--stored", is_flag=True, help="With --no-measure: use the runs in the results store."
)


def loops(function: F) -> F:
    """Add --hex, --asm and --obj, which name loops of somebody's own; asm arrives as text."""

    @wraps(function)
    def read(*given: Any, asm: TextIO | None, spec: str | None, **more: Any) -> Any:
        text = _whole(asm, asm.name) if asm else None
        if spec == STDIN:
            if text is not None:
                raise InputError("give - or --asm FILE, not both")
            piped = io.TextIOWrapper(sys.stdin.buffer, errors="replace")
            spec, text = None, _whole(piped, "standard input")
            piped.detach()
        return function(*given, asm=text, spec=spec, **more)

    options: tuple[Callable[[Any], Any], ...] = (
        click.option("--hex", metavar="HEX", help="Machine code, also as 0x48,0x01 or 48:01."),
        click.option(
            "--asm",
            type=click.File(errors="replace"),
            metavar="FILE",
            help="Assembly, a listing of objdump, gdb or perf annotate, or hex; - for standard "
            "input. Each loop in it.",
        ),
        click.option(
            "--obj",
            metavar="FILE[:SYMBOL]",
            help="Object, archive or program: each loop in it, or in a routine of it.",
        ),
    )
    verb: Any = read
    for option in options:
        verb = option(verb)
    return cast(F, verb)


def _whole(file: TextIO, name: str) -> str:
    """Return a text; InputError where it is endless, or far too long for a loop."""
    text = file.read(_MOST_TEXT + 1)
    if len(text) > _MOST_TEXT:
        raise InputError(f"{name} has more than {_MOST_TEXT:,} characters; give the loops alone")
    return text


def spec(metavar: str, *, name: str = "spec", **more: Any) -> Callable[[F], F]:
    """Return the argument that names a kernel, a variant or several of them, as metavar shows."""
    return click.argument(name, metavar=metavar, shell_complete=complete_specs, **more)


def microarch(text: str, *, metavar: str = "ID[,ID]|all") -> Callable[[F], F]:
    """Return the option --microarch."""
    return click.option(
        "--microarch", metavar=metavar, shell_complete=complete_microarchs, help=text
    )


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
    return click.option(
        "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help=text
    )


def parameters(settings: tuple[str, ...]) -> dict[str, str]:
    """Return what --set gives; InputError where one is no NAME=VALUE."""
    out = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (name and equals and value):
            raise InputError(f"--set {setting!r} is not NAME=VALUE, e.g. front_end=ideal")
        out[name.strip()] = value.strip()
    return out


def weights(text: str) -> dict[tuple[int, int], float]:
    """Return what --align D:S=WEIGHT[,...] lists; InputError where it is no list of these."""
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
        [found] = alignments(pair)
        out[found] = value
    if not any(out.values()):
        raise InputError(f"--align {text!r} gives no alignment a weight")
    return out


def alignments(text: str) -> list[tuple[int, int]]:
    """Return what --align lists; InputError where it is no list of pairs."""
    pairs = [part.split(":") for part in text.split(",") if part.strip()]
    if not pairs or not all(len(p) == 2 and all(n.strip().isdecimal() for n in p) for p in pairs):
        raise InputError(f"--align {text!r} is no list of destination:source; give it as 0:0,1:0")
    return [(int(d), int(s)) for d, s in pairs]


def complete_specs(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the kernels, or the variants of the kernel, that begin so."""
    from loopwright import kernels

    del context, parameter
    kernel = begun.rpartition("/")[0]
    try:
        known = kernels.ids()
        if kernel in known:
            known = [v.id for v in kernels.load(kernel).variants.values()]
    except InputError:  # a shell has no place to say it
        return []
    return [name for name in known if name.startswith(begun)]


def complete_from(words: Iterable[str]) -> Completer:
    """Return what completes one of a few words."""
    return lambda _context, _parameter, begun: [w for w in words if w.startswith(begun)]


def complete_microarchs(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[str]:
    """Return the cores that go on with a list of them."""
    from loopwright import microarchs

    del context, parameter
    try:
        return _go_on(begun, microarchs.ids())
    except InputError:
        return []


def complete_models(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the models that go on with a list of them."""
    from loopwright.predicting.models import MODELS

    del context, parameter
    return _go_on(begun, (m.id for m in MODELS))


def _go_on(begun: str, known: Iterable[str]) -> list[str]:
    """Return what a list as A,B,C can be completed to, or all at its start."""
    before, comma, last = begun.rpartition(",")
    names = [*known] if comma else [*known, "all"]
    there = before.split(",")
    return [f"{before}{comma}{n}" for n in names if n.startswith(last) and n not in there]
