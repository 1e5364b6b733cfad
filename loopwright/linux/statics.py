"""Static functions that a C function needs beside it."""

import re

from loopwright.linux import c_text

_STATIC = re.compile(r"(?m)^static\b[^;{}()=]*?\b(\w+)\s*\(")


def static_functions(content: str) -> list[str]:
    """Return the names of the static functions that a C file defines, in order."""
    names = dict.fromkeys(_STATIC.findall(c_text.blank_comments(content)))
    return [name for name in names if c_text.c_function(content, name)]


def needed(content: str, function: str) -> list[str]:
    """Return the static functions of a file that a function's text calls, directly or not."""
    known = static_functions(content)
    found: set[str] = set()
    open_texts = [function]
    while open_texts:
        code = c_text.blank_comments(open_texts.pop())
        for name in known:
            if name not in found and re.search(rf"\b{name}\b", code):
                found.add(name)
                open_texts.append(_definition(content, name))
    return [name for name in known if name in found]


def missing(content: str, given: str, function: str) -> str:
    """Return the definitions, out of given, that a function needs and content lacks."""
    names = [n for n in needed(given, function) if c_text.c_function(content, n) is None]
    return "".join(_with_comment(given, name) + "\n" for name in names)


def without_orphans(content: str, before: str) -> str:
    """Return content without the static functions that were used before and are not any more."""
    for name in reversed(static_functions(content)):
        used = [
            len(re.findall(rf"\b{name}\b", c_text.blank_comments(t))) for t in (before, content)
        ]
        if used[0] > 1 and used[1] == 1:
            content = _cut(content, name)
    return content


def _cut(content: str, name: str) -> str:
    span = c_text.c_function(content, name)
    if span is None:
        return content
    start = c_text.comment_above(content, span.start)
    return content[:start] + content[span.end :].lstrip("\n")


def taken_from(other: str, content: str) -> str:
    """Return content with each static function that other defines too as other has it."""
    for name in static_functions(content):
        theirs = _definition(other, name)
        span = c_text.c_function(content, name)
        if theirs and span:
            content = span.replaced(content, theirs)
    return content


def _definition(content: str, name: str) -> str:
    span = c_text.c_function(content, name)
    return span.of(content) if span else ""


def _with_comment(content: str, name: str) -> str:
    span = c_text.c_function(content, name)
    return content[c_text.comment_above(content, span.start) : span.end] if span else ""
