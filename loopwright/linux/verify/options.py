"""Options of a kernel's configuration that build a source, by its makefiles and Kconfig."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

from loopwright.linux.trees import Tree

_ARCH = {"x86_64": "x86", "arm64": "arm64"}
_LIST = re.compile(r"\s*(\S+?)-(\w+|\$\(CONFIG_\w+\))\s*[:+]?=(.*)")
# What is set against an option: its absence cannot be asked for by setting it.
_ABSENT = re.compile(r"!\s*\w+|\b\w+\s*=\s*n\b")


def of_source(tree: Tree, isa: str, file: str) -> list[str]:
    """Return the options that kbuild wants set to build a source, and those that they depend on.

    Of a source that is always built there are none. Whether they can be set together only kconfig
    knows: a configuration has to be asked for them once it is made.
    """
    path = PurePosixPath(file)
    wanted = list(_naming(tree, str(path.parent), f"{path.stem}.o"))
    wanted += _entering(tree, isa, path)
    needs = _depends(tree, isa) if wanted else {}
    out: dict[str, None] = {}
    while wanted:
        name = wanted.pop(0)
        if name not in out:
            out[name] = None
            wanted += sorted(needs.get(name, ()))
    return list(out)


def _naming(tree: Tree, folder: str, name: str, depth: int = 0) -> Iterator[str]:
    """Yield the options of the makefile's lists that name an object, or one that holds it."""
    for listed, option, objects in _lists(tree, folder):
        if not re.search(rf"(?<![\w/-]){re.escape(name)}(?![\w-])", objects):
            continue
        if option.startswith("$(CONFIG_"):
            yield option[len("$(CONFIG_") : -1]
        if listed not in ("obj", "lib") and depth < 2:
            yield from _naming(tree, folder, f"{listed}.o", depth + 1)


def _entering(tree: Tree, isa: str, path: PurePosixPath) -> Iterator[str]:
    """Yield the options on which kbuild enters the folders of a source."""
    for folder in path.parents:
        if folder.name and str(folder) != f"arch/{_ARCH[isa]}":
            yield from _naming(tree, str(folder.parent), f"{folder.name}/")


def _lists(tree: Tree, folder: str) -> Iterator[tuple[str, str, str]]:
    for name in ("Kbuild", "Makefile"):
        file = str(PurePosixPath(folder, name))
        if tree.has(file):
            for line in tree.read(file).replace("\\\n", " ").splitlines():
                if found := _LIST.match(line):
                    yield found[1], found[2], found[3]


@cache
def _depends(tree: Tree, isa: str) -> dict[str, set[str]]:
    """Return by option the others that its entry in Kconfig depends on."""
    out: dict[str, set[str]] = {}
    pending: list[tuple[str, frozenset[str]]] = [("Kconfig", frozenset())]
    seen = set()
    while pending:
        file, around = pending.pop()
        if file in seen or not tree.has(file):
            continue
        seen.add(file)
        text = tree.read(file).replace("\\\n", " ").replace("$(SRCARCH)", _ARCH[isa])
        blocks, name = [around], ""
        for line in text.splitlines():
            # Indented are the parts of a block, and text that helps.
            word, rest = [*("" if line[:1].isspace() else line).split(maxsplit=1), "", ""][:2]
            if word in ("config", "menuconfig"):
                name = rest.strip()
                out.setdefault(name, set()).update(*blocks)
            elif word in ("menu", "choice", "if"):
                blocks.append(_names(rest) if word == "if" else frozenset())
                name = ""
            elif word in ("endmenu", "endchoice", "endif") and len(blocks) > 1:
                blocks.pop()
            elif line.strip().startswith("depends on"):
                if name:
                    out[name] |= _names(line)
                else:
                    blocks[-1] |= _names(line)
            elif word == "source":
                pending.append(
                    (rest.split("#")[0].strip().strip("\"'"), frozenset().union(*blocks))
                )
    return out


def _names(expression: str) -> frozenset[str]:
    """Return the options that an expression wants set; of alternatives all of them."""
    text = _ABSENT.sub(" ", expression.split("#")[0])
    return frozenset(re.findall(r"\b[A-Z0-9][A-Z0-9_]{2,}\b", text))
