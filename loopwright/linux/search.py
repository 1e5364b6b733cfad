"""Search the sources that a kernel for one architecture is made of."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from loopwright.linux.sources import Tree

_ARCH = {"x86_64": "x86", "arm64": "arm64"}
_APART = {"Documentation", "LICENSES", "rust", "samples", "scripts", "tools", "usr"}
_SUFFIXES = (".c", ".h", ".S")


def sources(tree: Tree, isa: str) -> Iterator[str]:
    """Yield the paths of C and assembly files and headers, without those of other architectures."""
    pending = [""]
    while pending:
        folder = pending.pop()
        for entry in os.scandir(tree.root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                other = folder == "arch" and entry.name != _ARCH[isa]
                if not other and path not in _APART and not entry.name.startswith("."):
                    pending.append(path)
            elif entry.name.endswith(_SUFFIXES):
                yield path


def holding(tree: Tree, isa: str, word: str, pattern: str) -> list[str]:
    """Return the sources that hold a word, and text that matches a regular expression with it."""
    needle, wanted = word.encode(), re.compile(pattern.encode(), re.MULTILINE)
    found = []
    for file in sources(tree, isa):
        content = _read(tree.root / file)
        if needle in content and wanted.search(content):
            found.append(file)
    return sorted(found)


def includers(tree: Tree, isa: str, header: str, most: int) -> list[str]:
    """Return the .c and .S files that include a header, by other headers too.

    Once more than `most` are found there may be more still.
    """
    found: dict[str, None] = {}
    pending = [header]
    while pending and len(found) <= most:
        wanted = pending.pop(0)
        last = re.escape(Path(wanted).name)
        pattern = rf'^[ \t]*#[ \t]*include[ \t]*[<"][\w./-]*{last}[">]'
        for file in holding(tree, isa, Path(wanted).name, pattern):
            if file not in found and file != header and _includes(tree, file, wanted):
                found[file] = None
                pending += [file] if file.endswith(".h") else []
    return [file for file in found if not file.endswith(".h")]


def _includes(tree: Tree, file: str, header: str) -> bool:
    """Say whether a file names a header as it is found: below an include folder, or beside it."""
    text = _read(tree.root / file).decode(errors="replace")
    names = re.findall(r'(?m)^[ \t]*#[ \t]*include[ \t]*[<"]([\w./-]+)[">]', text)
    called = re.sub(r"^(?:arch/\w+/)?include/", "", header)
    known = {called, called.removeprefix("uapi/")}
    beside = {os.path.normpath(f"{Path(file).parent}/{name}") for name in names}
    return header in beside or not known.isdisjoint(names)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # a link that leads nowhere
        return b""
