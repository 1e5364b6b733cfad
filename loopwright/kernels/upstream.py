"""Where a Linux tree keeps a routine and what a patch changes there, as kernel.toml says it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from loopwright.errors import InputError

KINDS = ("function", "region", "macro", "line")
_KEYS = {
    "function": {"name"},
    "region": {"start", "end"},
    "macro": {"name"},
    "line": {"old", "new"},
}


@dataclass(frozen=True)
class Edit:
    """One change to one file of a tree; its new text is taken from source, a file of the kernel.

    function replaces a function, by name. region replaces the lines from the one that begins with
    start up to the one that begins with end. macro replaces .macro name to .endm, or puts it
    behind the macro named after where the tree has none of that name. line replaces the text old,
    which stands in the file once, by new; optional leaves it out where old is not there. was is
    where older trees keep the file.
    """

    kind: str
    file: str
    was: str
    name: str
    start: str
    end: str
    after: str
    old: str
    new: str
    optional: bool
    source: Path | None


@dataclass(frozen=True)
class Requirement:
    """A name that a variant's text uses, the file of the tree that defines it, and since when."""

    name: str
    file: str
    since: str


@dataclass(frozen=True)
class Upstream:
    """Where a Linux tree keeps the routine.

    replaces lists the functions whose ABI the routine shares, the preferred one first. prefix
    begins a patch's subject. callers lists the files whose inline assembly calls the routine.
    unused_with lists CPU features with which Linux does not call it.
    """

    file: str
    replaces: tuple[str, ...]
    since: str
    note: str
    prefix: str
    callers: tuple[str, ...]
    unused_with: tuple[str, ...]


def function_edit(file: str, name: str) -> Edit:
    """Return the edit that a variant without edits of its own stands for."""
    return Edit("function", file, "", name, "", "", "", "", "", False, None)


def read_upstream(table: dict[str, Any], symbol: str, path: Path) -> Upstream:
    """Read an [upstream] table of the kernel.toml at path."""
    return Upstream(
        file=_inside(table.get("file"), path),
        replaces=tuple(table.get("replaces", (symbol,))),
        since=str(table.get("since", "")),
        note=str(table.get("note", "")),
        prefix=str(table.get("prefix", "")),
        callers=tuple(_inside(file, path) for file in table.get("callers", ())),
        unused_with=tuple(table.get("unused_with", ())),
    )


def read_requirements(entries: Iterable[dict[str, Any]], path: Path) -> tuple[Requirement, ...]:
    """Read a variant's requires."""
    return tuple(
        Requirement(
            str(_given(entry, "name", path)),
            _inside(entry.get("file"), path),
            str(entry.get("since", "")),
        )
        for entry in entries
    )


def read_edits(entries: Iterable[dict[str, Any]], path: Path) -> tuple[Edit, ...]:
    """Read a variant's edits; InputError that names the kernel.toml and the key."""
    return tuple(_edit(entry, path) for entry in entries)


def _edit(entry: dict[str, Any], path: Path) -> Edit:
    kind = _given(entry, "kind", path)
    if kind not in KINDS:
        raise InputError(f"{path}: edit kind {kind!r} is none of {', '.join(KINDS)}")
    for key in sorted(_KEYS[kind]):
        _given(entry, key, path)
    source = entry.get("source")
    if source is not None:
        source = (path.parent / source).resolve()
        if not source.is_relative_to(path.parent.resolve()) or not source.is_file():
            raise InputError(f"{path}: edit source {entry['source']!r} is no file beside it")
    return Edit(
        kind=kind,
        file=_inside(entry.get("file"), path),
        was=_inside(entry.get("was", ""), path),
        name=entry.get("name", ""),
        start=entry.get("start", ""),
        end=entry.get("end", ""),
        after=entry.get("after", ""),
        old=entry.get("old", ""),
        new=entry.get("new", ""),
        optional=bool(entry.get("optional", False)),
        source=source,
    )


def _given(entry: dict[str, Any], key: str, path: Path) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise InputError(f"{path}: {key!r} is missing or no string in {entry}")
    return value


def _inside(file: object, path: Path) -> str:
    """Return a path inside the kernel tree as it stands; InputError where it leaves the tree."""
    if not isinstance(file, str):
        raise InputError(f"{path}: 'file' is missing or no string")
    if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
        raise InputError(f"{path}: file {file!r} leaves the kernel tree")
    return file
