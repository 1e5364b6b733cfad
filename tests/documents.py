"""What the documents tell the reader to do: files to write, commands, and the output shown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^```(?P<info>.*)$")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_RULE = re.compile(r"[-─━]{3,}")
_PARTS = re.compile(rf"(\.\.\.|\s+|{_RULE.pattern}|{_NUMBER.pattern})")
_EXIT = re.compile(r"^\[exit (\d+)\]$")


@dataclass(frozen=True)
class Step:
    """One thing to do: write text to file, or run a command and see output.

    tags are the words behind `console`: `slow` for what takes longer than some seconds, `clone`
    for what makes the checkout itself, `varies` where numbers are another machine's or another
    day's: those alone stand for any number. `measures` is for what a machine may refuse to measure.
    """

    line: int
    file: str = ""
    text: str = ""
    command: str = ""
    output: list[str] = field(default_factory=list)
    exit_code: int = 0
    tags: tuple[str, ...] = ()


def steps(document: Path) -> list[Step]:
    """Return what a document tells the reader to do, in its order."""
    return list(_steps(document.read_text().splitlines()))


def _steps(lines: list[str]) -> Iterator[Step]:
    inside: tuple[int, list[str]] | None = None
    block: list[str] = []
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if not fence:
            block.append(line)
        elif inside is None:
            inside, block = (number, fence["info"].split()), []
        else:
            start, info = inside
            inside = None
            yield from _block(start, info, block)


def _block(start: int, info: list[str], block: list[str]) -> Iterator[Step]:
    files = [word.removeprefix("file=") for word in info if word.startswith("file=")]
    if files:
        yield Step(start, file=files[0], text="\n".join(block) + "\n")
    elif info[:1] == ["console"]:
        yield from _commands(start, tuple(info[1:]), block)


def _commands(start: int, tags: tuple[str, ...], block: list[str]) -> Iterator[Step]:
    """Return the commands of a block: lines that begin with `$`, continued behind a backslash."""
    at = [n for n, line in enumerate(block) if line.startswith("$ ")]
    for first, end in zip(at, [*at[1:], len(block)], strict=True):
        last = first
        while block[last].endswith("\\"):
            last += 1
        output = block[last + 1 : end]
        code = 0
        if output and (found := _EXIT.match(output[-1])):
            code = int(found.group(1))
            output = output[:-1]
        command = "\n".join([block[first][2:], *block[first + 1 : last + 1]])
        yield Step(start + 1 + first, "", "", command, output, code, tags)


def differs(shown: list[str], printed: str, *, varies: bool = False) -> str:
    """Say which line of the output shown is not in what was printed, or nothing.

    Spaces and rules stand for any length of them, `...` in a line for anything, a line `...` for
    any lines, and a number for itself, unless it varies.
    """
    rest = [line.rstrip() for line in printed.splitlines()]
    skipping = False
    for line in (shown_line.rstrip() for shown_line in shown):
        if line == "...":
            skipping = True
            continue
        pattern = _pattern(line, varies=varies)
        found = next((n for n, text in enumerate(rest) if pattern.fullmatch(text)), None)
        if found is None or (found and not skipping):
            return f"{line!r} where there is {rest[0] if rest else 'nothing more'!r}"
        rest = rest[found + 1 :]
        skipping = False
    return f"no line for {rest[0]!r}" if rest and not skipping else ""


def _pattern(line: str, *, varies: bool) -> re.Pattern[str]:
    out = []
    for part in _PARTS.split(line):
        if part == "...":
            out.append(".*")
        elif part.isspace():
            out.append(r"\s+" if out != [""] else r"\s*")
        elif _RULE.fullmatch(part):
            out.append("[-─━]+")
        elif _NUMBER.fullmatch(part) and varies:
            out.append(_NUMBER.pattern)
        else:
            out.append(re.escape(part))
    return re.compile("".join(out))
