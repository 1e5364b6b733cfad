"""Errors that a user can fix."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import metadata

_MOST = 12  # names that are listed in an error

# What `loopwright list` lists.
LISTED = ("kernels", "variants", "microarchs", "models", "parameters")


class InputError(Exception):
    """Bad input or a missing tool: one line that names the input and the fix (exit code 2)."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Return the error for an unknown name, with the nearest known names."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.4) or [n for n in names if name in n][:3]
    if near:
        hint = f"nearest: {', '.join(near)}"
    elif len(names) > _MOST and f"{kind}s" in LISTED:
        hint = f"`loopwright list {kind}s` names all {len(names)}"
    else:
        more = f", and {len(names) - _MOST} more" if len(names) > 2 * _MOST else ""
        hint = f"known: {', '.join(names[: _MOST if more else None]) or 'none'}{more}"
    return InputError(f"unknown {kind} {name!r}; {hint}")


def misplaced(what: str, option: str, name: str) -> InputError:
    """Return the error for a file where it is not taken, with the option that takes its loops."""
    return InputError(
        f"{what}; predict, measure, compare, improve and trace take its loops as {option} {name}"
    )


_OPTIONAL = re.compile(r"([\w.-]+)==.*; extra == '([\w-]+)'")
_MODULES = {"z3-solver": "z3"}  # packages whose module has another name
_OF_DEVELOPERS = {"dev"}


def extras() -> dict[str, list[str]]:
    """Return the modules of each optional set of packages for users, by its name."""
    out: dict[str, list[str]] = {}
    for line in metadata.requires("loopwright") or ():
        if (found := _OPTIONAL.fullmatch(line.replace('"', "'"))) and found[
            2
        ] not in _OF_DEVELOPERS:
            out.setdefault(found[2], []).append(_MODULES.get(found[1], found[1]))
    return out


@contextmanager
def explained_lack() -> Iterator[None]:
    """Turn the error of a module of an uninstalled extra into an InputError."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        having = {name: each for name, each in extras().items() if module in each}
        if not having:
            raise
        least = min(having, key=lambda name: len(having[name]))
        raise InputError(f"{module} is missing: pip install 'loopwright[{least}]'") from None
