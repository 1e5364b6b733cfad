"""Labels of an assembly file: the one at a loop's first byte, and a directive before it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.code.elf import Section
from loopwright.scanning.found import ScannedLoop
from loopwright.tree.c_text import blank_comments

# A macro may make the name, as L(loop) does.
_LABEL = re.compile(r"(?m)^[ \t]*(?:[.\w$]+|\w+\([.\w]+\))[ \t]*:(?!:)")
_ALIGNED = re.compile(r"(?m)^[ \t]*\.(?:p2align|balign|align)\b[^\n;]*\n(?=[ \t]*\Z)")
_NAME = "loopwright_label_{}"
# Text that is assembled several times, or nowhere: a symbol there would be there twice.
_REPEATED = re.compile(
    r"(?ms)^[ \t]*\.(?:macro|rept|irp|irpc)\b.*?^[ \t]*\.(?:endm|endr)\b|^[ \t]*#[ \t]*define\b"
    r"(?:[^\n]*\\\n)*[^\n]*"
)


@dataclass(frozen=True)
class Label:
    """A line of a file that begins with a label: where the line begins, and its number."""

    at: int
    line: int
    name: str


def labels(text: str) -> list[Label]:
    """Return the labels of an assembly file outside of macros, in order."""
    code = blank_comments(text)
    repeated = [match.span() for match in _REPEATED.finditer(code)]
    return [
        Label(match.start(), code.count("\n", 0, match.start()) + 1, match[0].strip(" \t:"))
        for match in _LABEL.finditer(code)
        if not any(start <= match.start() < end for start, end in repeated)
    ]


def marked(text: str, found: Sequence[Label]) -> str:
    """Return the file with a symbol before each label, so that its object says where that is."""
    for number, label in reversed(list(enumerate(found))):
        text = f"{text[: label.at]}{_NAME.format(number)}:\n{text[label.at :]}"
    return text


def at_head(sections: Sequence[Section], found: Sequence[Label], loop: ScannedLoop) -> Label | None:
    """Return the first of the labels at a loop's first byte, by the symbols of marked text."""
    names = {_NAME.format(number): label for number, label in enumerate(found)}
    here = [
        names[symbol.name]
        for section in sections
        if section.name == loop.section
        for symbol in section.symbols
        if symbol.address == loop.address and symbol.name in names
    ]
    return min(here, key=lambda label: label.at, default=None)


def aligned(text: str, label: Label, alignment: int) -> str:
    """Return the file with a label aligned, by the directive before it where there is one."""
    before, after = text[: label.at], text[label.at :]
    before = _ALIGNED.sub("", before)
    return f"{before}\t.p2align {alignment.bit_length() - 1}\n{after}"
