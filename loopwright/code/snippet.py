"""Loops in a piece of assembly that somebody pastes, as blocks of machine code."""

import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from loopwright import toolchain
from loopwright.code import decode, elf, lines, objects, pasted
from loopwright.code.elf import Section, Symbol
from loopwright.code.pasted import Pasted
from loopwright.code.pieces import Piece, moved, of_loops, undisturbed
from loopwright.errors import InputError, unknown
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

ISAS = ("x86_64", "arm64")
_ERROR = re.compile(r":(?P<line>\d+): Error: (?P<what>.*)")
_LABEL = re.compile(r"^\s*([\w.$]+):")
_OF_COMPILER = re.compile(r"\.L(?:F[BE]|LF|VL|B[BE]|BI|M|text|etext|debug|ASF|S?FDE|E?CIE)[\w.]*")


@dataclass(frozen=True)
class Assembled:
    """A text and its code: the sections, and the line of the text that each address is of."""

    source: tuple[str, ...]
    sections: tuple[Section, ...]
    lines: lines.Lines

    def label(self, section: Section, address: int) -> str:
        """Return the label of an address, else its line, else where it lies."""
        here = [s for s in section.symbols if s.address == address]
        if here:
            return min(here, key=_likeliness).name
        line = self.lines.get((section.name, address))
        if line is None or line > len(self.source):
            return f"{section.name}+{address:#x}"
        taken = set(self.lines.values()) - {line}
        for number in range(line, 0, -1):
            if number in taken:
                break
            if found := _LABEL.match(self.source[number - 1]):
                return found.group(1)
        return f"line {line}"


def read_assembly(text: str, isa: str | None = None) -> "pd.DataFrame":
    """Assemble text and return its loops, one row each, in the order of their addresses.

    Columns: id (the loop's label), isa, notion, offset (bytes mod 64, with the text at a 64-byte
    boundary), bytes_per_iteration (stored, or loaded where nothing is stored), hex, listing
    (the instructions as decoded). A text without a loop is one row of the unrolled notion.
    isa is x86_64 or arm64; left out, it is the one that the text assembles for. InputError that
    names the line where it assembles for neither.
    """
    return Rows.of(
        {
            "id": piece.id,
            "isa": piece.isa,
            "notion": piece.notion,
            "offset": piece.offset,
            "bytes_per_iteration": piece.moved,
            "hex": piece.code.hex(),
            "listing": "\n".join(i.text for i in piece.instructions),
        }
        for piece in pieces(text, isa)
    ).frame()


def pieces(text: str, isa: str | None = None, name: str = "assembly") -> list[Piece]:
    """Return what is to be predicted of a text; name is what an error calls it.

    Each innermost loop of any of its routines; without one each routine as one call, of which no
    conditional branch is taken; all of the text where no routine begins in it.
    """
    assembled = assemble(text, isa, name)
    sections = assembled.sections
    several = sum(len(section.routines) for section in sections) > 1
    found = [
        replace(piece, id=_named(assembled, section, piece, several=several))
        for section in sections
        for piece in of_loops(section, range(section.address, section.end))
    ]
    for piece in found:
        if piece.error:
            raise InputError(f"{name}: {piece.error}")
    if found:
        return _apart(found)
    calls = [
        objects.named(section, undisturbed(section, objects.extent(section, routine)))
        for section in sections
        for routine in section.routines
    ]
    return calls or [_whole(section, name) for section in sections]


def _named(assembled: Assembled, section: Section, piece: Piece, *, several: bool) -> str:
    """Return the label of a loop; of a text with several routines also the routine."""
    label = assembled.label(section, piece.address)
    routine = section.routine(piece.address)
    if not several or routine is None or routine.name == label:
        return label
    return f"{routine.name}:{label}"


def _likeliness(symbol: Symbol) -> tuple[bool, bool, bool, str]:
    """Order names of one address: what somebody gave it first, what a compiler notes last."""
    of_compiler = bool(_OF_COMPILER.fullmatch(symbol.name))
    return of_compiler, not symbol.routine, symbol.name.startswith(".L"), symbol.name


def _apart(found: list[Piece]) -> list[Piece]:
    """Return pieces whose ids differ: with the address where several have one label."""
    names = [piece.id for piece in found]
    return [
        piece if names.count(piece.id) == 1 else replace(piece, id=f"{piece.id} at {piece.address}")
        for piece in found
    ]


def _whole(section: Section, name: str) -> Piece:
    body = decode.decode(section.isa, section.code, section.address)
    return Piece(name, section.isa, "unrolled", section.address, body, moved(body))


def assemble(text: str, isa: str | None = None, name: str = "assembly") -> Assembled:
    """Assemble text for an ISA, or for the one that takes it; InputError that names the line.

    The text is what pasted.read takes.
    """
    if isa is not None and isa not in ISAS:
        raise unknown("ISA", isa, ISAS)
    given = pasted.read(text)
    isa = isa or given.isa
    if isa is not None:
        return _assemble(given, isa, name)
    refused: list[_RefusedError] = []
    for candidate in _assemblers():
        try:
            return _assemble(given, candidate, name)
        except _RefusedError as error:
            refused.append(error)
    nearest = min(refused, key=lambda error: error.count)
    raise InputError(f"{nearest} (read as {nearest.isa}; name the ISA where it is another)")


class _RefusedError(InputError):
    """The assembler of one ISA refused a text, with so many errors."""

    def __init__(self, message: str, isa: str, count: int) -> None:
        super().__init__(message)
        self.isa, self.count = isa, count


def _assemblers() -> list[str]:
    """Return the ISAs that there is an assembler for here, this machine's first."""
    there = []
    for isa in sorted(ISAS, key=lambda isa: isa != toolchain.host_isa()):
        try:
            toolchain.find(isa)
        except InputError:
            continue
        there.append(isa)
    if not there:
        toolchain.find(toolchain.host_isa())
    return there


def _assemble(given: Pasted, isa: str, name: str) -> Assembled:
    text = given.text
    syntax = ["-Wa,-msyntax=intel,-mnaked-reg"] if given.intel and isa == "x86_64" else []
    tools = toolchain.find(isa)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        source, obj = (Path(scratch, f"text.{end}") for end in ("s", "o"))
        source.write_text(text if text.endswith("\n") else text + "\n")
        done = subprocess.run(
            # With the names of local labels and with lines, which loops are called by.
            [tools.gcc, "-g", "-Wa,--keep-locals", *syntax, "-c", str(source), "-o", str(obj)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise _refusal(done.stderr, isa, name)
        sections, table = elf.read(obj), lines.read(obj)
    if not sections:
        raise InputError(f"{name} holds no instruction; give the text of a loop")
    return Assembled(tuple(text.splitlines()), tuple(sections), table)


def _refusal(stderr: str, isa: str, name: str) -> _RefusedError:
    """Return the error for what the assembler said, with the line of the text."""
    found = list(_ERROR.finditer(stderr))
    if not found:
        return _RefusedError(f"{name} does not assemble: {stderr.strip().splitlines()[0]}", isa, 1)
    line, what = int(found[0].group("line")), found[0].group("what")
    return _RefusedError(f"{name} line {line}: {what}", isa, len(found))
