"""Put a variant's text in a tree's place and keep the tree's lines where both mean the same."""

import re
from difflib import SequenceMatcher

from loopwright.patch.text import blank_comments, squeeze

# Spellings that assemble to the same bytes: AT&T suffixes that the operands imply, and aliases.
_SUFFIXED = re.compile(
    r"\b(mov|add|sub|adc|cmp|test|and|or|xor|inc|dec|neg|shl|shr|lea|push|pop)[bwlq]\b"
)
_ALIASES = {"jnz": "jne", "jz": "je", "jnc": "jae", "jnb": "jae", "jc": "jb"}
_IMPLIED = re.compile(r"%[a-z]\w*(?![\w(])")


def keep_tree_lines(old: str, new: str) -> str:
    """Return new with each line that stands in old in the same order in old's spelling.

    Comments and blank lines go with the line of code that they precede: those of old stay with
    old's lines, those of new come with the lines that are new.
    """
    ours, theirs = _units(new), _units(old)
    matcher = SequenceMatcher(
        None, [key for key, _ in theirs], [key for key, _ in ours], autojunk=False
    )
    out: list[str] = []
    gone: list[tuple[str, str]] = []
    for kind, first, last, begin, end in matcher.get_opcodes():
        taken = [text for _, text in (theirs[first:last] if kind == "equal" else ours[begin:end])]
        if kind == "equal" and gone and not gone[0][1].startswith("\n"):
            taken[0] = taken[0].lstrip("\n")
        gone = theirs[first:last] if kind == "delete" else []
        out += taken
    return "".join(out)


def _units(text: str) -> list[tuple[str, str]]:
    """Split text into lines of code, each with the comments and blank lines above it."""
    out, start, at = [], 0, 0
    for line in blank_comments(text).splitlines(keepends=True):
        at += len(line)
        if line.strip():
            out.append((_meaning(line), text[start:at]))
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
