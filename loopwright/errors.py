"""The errors that a user can fix."""

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 12  # names that are listed in an error

# What `loopwright list` lists.
LISTED = ("kernels", "variants", "microarchs", "models", "parameters")


class InputError(Exception):
    """Bad input or a missing tool: one line that names the input and the fix (exit code 2)."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Return the error for a name that is not known, with the nearest names that are."""
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
