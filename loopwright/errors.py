"""Errors that a user can fix."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import metadata

_MOST_NAMES = 12  # names that are listed in an error

# What `loopwright list` lists.
LISTED = ("kernels", "variants", "microarchs", "models", "parameters")


class InputError(Exception):
    """Bad input or a missing tool: one line that names the input and the fix (exit code 2)."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Return the error for an unknown name, with the nearest known names."""
    names = sorted(known)
    nearest = get_close_matches(name, names, n=3, cutoff=0.4) or [n for n in names if name in n][:3]
    if nearest:
        hint = f"nearest: {', '.join(nearest)}"
    elif len(names) > _MOST_NAMES and f"{kind}s" in LISTED:
        hint = f"`loopwright list {kind}s` names all {len(names)}"
    else:
        others = f", and {len(names) - _MOST_NAMES} more" if len(names) > 2 * _MOST_NAMES else ""
        hint = f"known: {', '.join(names[: _MOST_NAMES if others else None]) or 'none'}{others}"
    return InputError(f"unknown {kind} {name!r}; {hint}")


def misplaced(what: str, option: str, name: str) -> InputError:
    """Return the error for a file where it is not taken, with the option that takes its loops."""
    return InputError(
        f"{what}; predict, measure, compare, improve and trace take its loops as {option} {name}"
    )


_EXTRA_REQUIREMENT = re.compile(r"([\w.-]+)==.*; extra == '([\w-]+)'")
_MODULE_NAMES = {"z3-solver": "z3"}  # packages whose module has another name
_DEVELOPER_EXTRAS = {"dev"}


def extras() -> dict[str, list[str]]:
    """Return the modules of each optional set of packages for users, by its name."""
    modules: dict[str, list[str]] = {}
    for line in metadata.requires("loopwright") or ():
        match = _EXTRA_REQUIREMENT.fullmatch(line.replace('"', "'"))
        if match and match[2] not in _DEVELOPER_EXTRAS:
            modules.setdefault(match[2], []).append(_MODULE_NAMES.get(match[1], match[1]))
    return modules


@contextmanager
def naming_missing_extra() -> Iterator[None]:
    """Turn the error of a module of an uninstalled extra into an InputError."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        offering = {name: each for name, each in extras().items() if module in each}
        if not offering:
            raise
        smallest = min(offering, key=lambda name: len(offering[name]))
        raise InputError(f"{module} is missing: pip install 'loopwright[{smallest}]'") from None
