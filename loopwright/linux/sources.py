"""A Linux source tree: what version it is, and reading its files."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from loopwright.errors import InputError
from loopwright.linux import debian

DEFAULT = "6.12"


@dataclass(frozen=True)
class Tree:
    """A Linux source tree, never written to."""

    root: Path
    version: str

    def __str__(self) -> str:
        return f"{self.root} (Linux {self.version})"

    def has(self, file: str) -> bool:
        """Say whether the tree holds a file; InputError where its path leaves the tree."""
        return self.path(file).is_file()

    def path(self, file: str) -> Path:
        """Return where a file of the tree lies; InputError where that is outside the tree."""
        inside = PurePosixPath(file)
        path = (self.root / inside).resolve()
        if inside.is_absolute() or ".." in inside.parts or not path.is_relative_to(self.root):
            raise InputError(
                f"{file!r} leads out of the kernel tree {self.root}; name a file in it"
            )
        return path

    def read(self, file: str, since: str = "") -> str:
        """Return a file's text; InputError that names the file, the tree and since when it is."""
        path = self.path(file)
        if not path.is_file():
            hint = f"; it is there since Linux {since}" if since else ""
            if self.has(debian.SUBSET):
                hint = "; this cache holds a part of the sources, give a whole tree with --tree"
            raise InputError(f"{self} has no file {file}{hint}")
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {file} in {self}: {error}") from None
        if "\r\n" in text:
            raise InputError(
                f"{file} in {self} has lines that end in CR LF, which Linux has not: check it out "
                "with `git config core.autocrlf false`, or convert it with dos2unix"
            )
        return text


def read(root: Path) -> Tree:
    """Open a Linux source tree; InputError where the folder is none."""
    if not root.is_dir():
        raise InputError(f"no kernel tree at {root}: it is not a folder; give one with --tree")
    makefile = root / "Makefile"
    text = makefile.read_text(errors="replace") if makefile.is_file() else ""
    parts = dict(
        re.findall(r"(?m)^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)[ \t]*=[ \t]*(.*)$", text)
    )
    if not (root / "Kbuild").is_file() or not {"VERSION", "PATCHLEVEL"} <= parts.keys():
        raise InputError(
            f"{root} is not a Linux tree: looked there for Kbuild and a Makefile with VERSION; "
            "give another with --tree"
        )
    numbers = [parts.get(key, "").strip() for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    version = ".".join(n for n in numbers if n) + parts.get("EXTRAVERSION", "").strip()
    return Tree(root.resolve(), version)


@dataclass(frozen=True)
class Found:
    """A tree to patch, or why there is none; note is one line for the user."""

    path: Path | None
    note: str


def at_hand(spec: str = "") -> Found:
    """Return the tree at the path spec, or else one that was fetched before; none is fetched."""
    if spec:
        return find(spec)
    cached = debian.cached(DEFAULT)
    if cached is None:
        return Found(None, "no kernel tree at hand: give one, or run `make recommend` once")
    return Found(cached, str(read(cached)))


def find(spec: str | None, *, whole: bool = False) -> Found:
    """Return the tree that spec names: a path, debian:VERSION, or None for Debian's default.

    whole asks for all of the sources, which builds need.

    Debian's linux-source package is fetched once into the cache. Without a spec, a package that
    cannot be had is no error: path is None and note says why and how to get a tree. InputError
    where a tree is asked for by name and is none or cannot be had.
    """
    if spec and not spec.startswith("debian:"):
        found = read(Path(spec))
        return Found(found.root, str(found))
    series = spec.removeprefix("debian:") if spec else DEFAULT
    try:
        path = debian.fetch(series, whole=whole)
    except debian.UnavailableError as reason:
        note = (
            f"no kernel tree: {reason}; give one with TREE=path (make) or --tree path, "
            "e.g. an unpacked kernel.org release"
        )
        if spec:
            raise InputError(note) from None
        return Found(None, note)
    what = f"the files of Debian's {debian.package(series)} needed here"
    found = read(path)
    return Found(path, f"{found}, {what}" if found.has(debian.SUBSET) else str(found))
