"""The registers that a contract can name: an ISA's general ones, whole or their lower halves."""

from collections.abc import Iterable
from pathlib import Path

from loopwright.errors import InputError

FLAGS = "flags"
_OLD = ("ax", "bx", "cx", "dx", "si", "di", "bp")
GENERAL = {
    "x86_64": frozenset(
        [f"{half}{name}" for half in "re" for name in _OLD]
        + [f"r{n}{half}" for n in range(8, 16) for half in ("", "d")]
    ),
    "arm64": frozenset(f"{half}{n}" for n in range(31) for half in "xw"),
}


def check(names: Iterable[str], isa: str, path: Path) -> None:
    """Refuse what is no general register of an ISA (or flags); path is the kernel.toml."""
    for name in names:
        if name not in GENERAL[isa] and name != FLAGS:
            raise InputError(
                f"{path}: {name!r} is no general register of {isa}; vector registers are not to be "
                "named: a routine has to leave them alone, as kernel code does"
            )
