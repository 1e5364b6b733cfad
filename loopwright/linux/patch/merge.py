"""Put a variant's text in a tree's place and keep the tree's lines where both mean the same."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from loopwright.linux.c_source import blank_comments, squeeze

# Spellings that assemble to the same bytes: AT&T suffixes that the operands imply, and aliases.
_SUFFIXED = re.compile(
    r"\b(mov|add|sub|adc|cmp|test|and|or|xor|inc|dec|neg|shl|shr|lea|push|pop)[bwlq]\b"
)
_ALIASES = {"jnz": "jne", "jz": "je", "jnc": "jae", "jnb": "jae", "jc": "jb"}
_CONSTRAINT = re.compile(r'"([=+&]*\w+)"')
_IMPLIED = re.compile(r"%[a-z]\w*(?![\w(])")


@dataclass(frozen=True)
class Stretch:
    """A stretch of lines as the tree has them and as the variant has them; same: they agree."""

    theirs: str
    ours: str
    same: bool


def pieces(old: str, new: str, *, asm: bool) -> list[Stretch]:
    """Split a tree's text and a variant's into stretches that agree and stretches that do not.

    Lines agree whatever their comments and blanks, in assembly also whatever suffix or alias of
    an instruction they spell. Comments and blank lines go with the line of code below them.
    """
    ours, theirs = _units(new, asm), _units(old, asm)
    matcher = SequenceMatcher(
        None, [key for key, _ in theirs], [key for key, _ in ours], autojunk=False
    )
    out: list[Stretch] = []
    for kind, first, last, begin, end in matcher.get_opcodes():
        was = "".join(text for _, text in theirs[first:last])
        now = "".join(text for _, text in ours[begin:end])
        if kind == "equal" and out and not out[-1].ours and not out[-1].theirs.startswith("\n"):
            was = was.lstrip("\n")
        out.append(Stretch(was, now, kind == "equal"))
    return out


def keep_tree_lines(
    old: str, new: str, *, asm: bool, same_code: Callable[[str], bool] | None = None
) -> str:
    """Return new with the tree's spelling of each stretch that means the same.

    same_code says whether a text still gives the code meant; where it is given, stretches that
    differ are tried in the tree's spelling too. Operand constraints of inline assembly are left
    alone then: another compiler may make of them what this one did not.
    """
    parts = pieces(old, new, asm=asm)
    chosen = [part.theirs if part.same else part.ours for part in parts]
    for n, part in enumerate(parts):
        if same_code and not part.same and _constraints(part.theirs) == _constraints(part.ours):
            trial = [*chosen[:n], part.theirs, *chosen[n + 1 :]]
            if same_code("".join(trial)):
                chosen = trial
    for n, (part, following) in enumerate(pairwise(parts)):
        if part.same and chosen[n + 1] != following.theirs:
            chosen[n] = _retold(part, asm)
    return "".join(_spelled(text, old) if asm else text for text in chosen)


def _retold(part: Stretch, asm: bool) -> str:
    """Return the tree's lines; one that opens a block which changes has our comment above it.

    What the tree's own says of the block may not hold any more.
    """
    theirs, ours = _units(part.theirs, asm), _units(part.ours, asm)
    comment, line = _parted(ours[-1][1])
    if not (theirs and comment.strip() and line.rstrip().endswith(("{", ":"))):
        return part.theirs
    *kept, (_, last) = theirs
    return "".join(text for _, text in kept) + comment + _parted(last)[1]


def _parted(unit: str) -> tuple[str, str]:
    """Return the comments and blank lines of a unit, and its line of code."""
    start = unit.rstrip("\n").rfind("\n") + 1
    return unit[:start], unit[start:]


def _spelled(text: str, old: str) -> str:
    """Return assembly with each instruction spelled as the tree spells it somewhere."""
    spellings: dict[str, str] = {}
    for line in blank_comments(old).splitlines():
        spellings.setdefault(_meaning(line), squeeze(line))
    out = []
    for line in text.splitlines(keepends=True):
        code = squeeze(line)
        same = spellings.get(_meaning(line), code)
        plain = same != code and code == squeeze(blank_comments(line)) and ":" not in code
        out.append(line.replace(line.strip(), same) if plain else line)
    return "".join(out)


def _constraints(text: str) -> list[str]:
    return sorted(_CONSTRAINT.findall(text))


def _units(text: str, asm: bool) -> list[tuple[str, str]]:
    """Split text into lines of code, each with the comments and blank lines above it."""
    out, start, at = [], 0, 0
    for line in blank_comments(text).splitlines(keepends=True):
        at += len(line)
        if line.strip():
            indent = "" if asm else line[: len(line) - len(line.lstrip())]
            out.append((_meaning(line) if asm else indent + squeeze(line), text[start:at]))
            start = at
    if start < len(text):
        out.append(("", text[start:]))
    return out


def _meaning(line: str) -> str:
    code = squeeze(line)
    if "%" not in code:
        return re.sub(r"^(\w+)(?= )", lambda m: _ALIASES.get(m[1], m[1]), code)
    stripped = _SUFFIXED.sub(r"\1", code)
    return stripped if _has_register_operand(code) else code


def _has_register_operand(code: str) -> bool:
    """Say whether an operand outside of brackets is a register, so that it gives the size."""
    return bool(_IMPLIED.search(re.sub(r"\([^)]*\)", "", code)))
