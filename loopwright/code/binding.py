"""The simulator's Python module, with the types of models/pipeline/loopwright_pipeline.pyi.

Each function is InputError that says how to get the module where it is missing or older.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from loopwright.errors import InputError

if TYPE_CHECKING:
    from loopwright_pipeline import Core

INTERFACE = 9  # of the module, which counts the changes of what it takes and returns


def version() -> str:
    """Return the simulator's version."""
    _require()
    import loopwright_pipeline

    return loopwright_pipeline.__version__


def parameters() -> list[str]:
    """Return the dotted names of all parameters that an override may set."""
    _require()
    import loopwright_pipeline

    return loopwright_pipeline.parameters()


def core(toml: str, table: str, overrides: dict[str, str]) -> "Core":
    """Return a core of the simulator; ValueError where its texts are wrong."""
    _require()
    import loopwright_pipeline

    return loopwright_pipeline.Core(toml, table, overrides)


def forms(isa: str, codes: Sequence[bytes]) -> list[list[str] | None]:
    """Return the names of the forms in each code, None where one has no name in the tables."""
    _require()
    import loopwright_pipeline

    return loopwright_pipeline.forms(isa, codes)


Arm64Operand = tuple[int, bool, list[int], int, int, bool, bool]
Arm64Field = tuple[int, int, int, bool]
Arm64Access = tuple[int, bool, bool, bool, int, Arm64Field | None]
Arm64Form = tuple[str, int, bool, bool, list[Arm64Operand], Arm64Access | None]


def arm64_forms(allocated: Callable[[int], bool]) -> tuple[list[Arm64Form], list[str]]:
    """Return the forms of AArch64 that compute or access memory, and others without any word.

    allocated says of a word whether it is an instruction; see loopwright_pipeline.pyi.
    """
    _require()
    import loopwright_pipeline

    return loopwright_pipeline.arm64_forms(allocated)


def outline(isa: str, codes: Sequence[bytes]) -> list[int | tuple[bool, bool, list[str]]]:
    """Return the outline of each code as loopwright.code.outline reads it."""
    _require()
    import loopwright_pipeline

    return loopwright_pipeline.outline(isa, codes)


def loops(
    isa: str,
    code: bytes,
    starts: Sequence[int],
    ends: Sequence[int],
    entries: Sequence[int],
    data: Sequence[tuple[int, int]],
    address: int,
) -> tuple[list[tuple[list[tuple[int, int]], list[int], str]], int, int]:
    """Return the innermost loops of a section: see models/pipeline/loopwright_pipeline.pyi."""
    _require()
    import loopwright_pipeline

    return loopwright_pipeline.loops(isa, code, starts, ends, entries, data, address)


def mca(arguments: Sequence[str], models: Path, host: str | None) -> tuple[int, str, str]:
    """Return the exit code, output and messages of a command line of mca."""
    _require()
    import loopwright_pipeline

    return loopwright_pipeline.mca(arguments, models, host)


def file() -> Path:
    """Return the file that the simulator is in."""
    _require()
    import loopwright_pipeline

    return Path(loopwright_pipeline.__file__)


@cache
def _require() -> None:
    try:
        import loopwright_pipeline
    except ImportError:
        raise InputError("the pipeline simulator is not built: run `make setup`") from None
    if (of := getattr(loopwright_pipeline, "INTERFACE", 0)) != INTERFACE:
        age = "older" if of < INTERFACE else "newer"
        raise InputError(f"the pipeline simulator is {age} than this checkout: run `make setup`")
