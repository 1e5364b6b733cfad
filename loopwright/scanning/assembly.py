"""Assembly in a kernel tree: which file defines a function, and which loops of a scan are in it."""

import re
from collections.abc import Sequence
from dataclasses import replace

from loopwright.code.elf import Section
from loopwright.errors import InputError
from loopwright.scanning.found import ScannedLoop
from loopwright.tree import search
from loopwright.tree.c_text import blank_comments
from loopwright.tree.sources import Tree

_STARTS = r"^[ \t]*(?:(?:SYM_\w*START\w*|ENTRY)\(\s*{0}\s*\)|SYM_\w*ALIAS\w*\(\s*{0}\s*,)"


def anywhere(loop: ScannedLoop, function: str) -> ScannedLoop:
    """Return a loop as one of that function, whatever the file that it was found in."""
    return replace(loop, file="", section="", function=function)


def inside(sections: Sequence[Section], loops: Sequence[ScannedLoop], function: str) -> list[int]:
    """Return the numbers of the loops in a function, by any of the names that it has."""
    begin = {
        (section.file, section.name, symbol.address)
        for section in sections
        for symbol in section.symbols
        if symbol.name == function
    }
    return [
        n
        for n, loop in enumerate(loops)
        if loop.function == function
        or (loop.function and (loop.file, loop.section, loop.address - loop.into) in begin)
    ]


def source(tree: Tree, isa: str, function: str) -> str:
    """Return the assembly file of a tree that defines a function; InputError where none does."""
    pattern = re.compile(_STARTS.format(re.escape(function)), re.MULTILINE)
    found = sorted(
        file
        for file in search.sources(tree, isa)
        if file.endswith(".S") and function in (text := _text(tree, file))
        if pattern.search(blank_comments(text))
    )
    if not found:
        raise InputError(
            f"no assembly file of {tree} defines {function}: patches are made of assembly; "
            "for C see what its row says to tell the compiler"
        )
    if len(found) > 1:
        raise InputError(f"{function} is defined in {', '.join(found)} of {tree}: which is meant?")
    return found[0]


def _text(tree: Tree, file: str) -> str:
    try:
        return (tree.root / file).read_text(encoding="utf-8", errors="replace")
    except OSError:  # a link that leads nowhere
        return ""
