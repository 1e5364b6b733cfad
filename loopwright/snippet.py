"""Loops in a piece of assembly that somebody pastes, as blocks of machine code."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile

from loopwright import decode, loops, toolchain
from loopwright.code import Flow, Instruction, Loop
from loopwright.errors import InputError, unknown
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

ISAS = ("x86_64", "arm64")
_ERROR = re.compile(r":(?P<line>\d+): Error: (?P<what>.*)")
_UNDEFINED = re.compile(r":(?P<line>\d+): undefined reference to [`'](?P<what>[^']*)'")
_LABEL = re.compile(r"^\s*([\w.$]+):")
# A register without the percent sign that AT&T syntax gives it.
_INTEL = re.compile(r"(?<![%\w])(?:[re][abcd]x|[re][sd]i|[re][sb]p|r\d+[dwb]?|[xyz]mm\d+)\b")


@dataclass(frozen=True)
class Snippet:
    """Assembled text: its ISA, its instructions, and the source line of each address."""

    isa: str
    instructions: tuple[Instruction, ...]
    source: tuple[str, ...]
    lines: dict[int, int]

    def named(self, address: int) -> str:
        """Return the label that stands at an address, else its line."""
        line = self.lines.get(address, 1)
        taken = set(self.lines.values()) - {line}
        for number in range(line, 0, -1):
            if number in taken:
                break
            if found := _LABEL.match(self.source[number - 1]):
                return found.group(1)
        return f"line {line}"


@dataclass(frozen=True)
class Piece:
    """One thing to predict of a snippet: a loop, or all of a text without one.

    offset is its address mod 64 with the text at a 64-byte boundary; moved the bytes that an
    iteration stores, or loads where it stores none (64 of a repeated string instruction).
    """

    id: str
    isa: str
    notion: str
    offset: int
    instructions: tuple[Instruction, ...]
    moved: int

    @property
    def code(self) -> bytes:
        """Return its machine code."""
        return b"".join(i.code for i in self.instructions)


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
    """Return what is to be predicted of a text; name is what an error calls it."""
    found = assemble(text, isa, name)
    innermost = loops.find(found.instructions)
    if not innermost:
        body = found.instructions
        return [Piece(name, found.isa, "unrolled", 0, body, _moved(body))]
    names = [found.named(loop.start) for loop in innermost]
    return [
        _piece(found, loop, name if names.count(name) == 1 else f"{name} at byte {loop.start}")
        for name, loop in zip(names, innermost, strict=True)
    ]


def _piece(found: Snippet, loop: Loop, key: str) -> Piece:
    string = loop.kind == "string"
    return Piece(
        id=key,
        isa=found.isa,
        notion="loop" if loop.instructions[-1].flow in (Flow.BRANCH, Flow.JUMP) else "unrolled",
        offset=loop.start % 64,
        instructions=loop.instructions,
        moved=loops.STRING_BYTES if string else _moved(loop.instructions),
    )


def _moved(body: tuple[Instruction, ...]) -> int:
    return sum(i.written_bytes for i in body) or sum(i.read_bytes for i in body)


def assemble(text: str, isa: str | None = None, name: str = "assembly") -> Snippet:
    """Assemble text for an ISA, or for the one that takes it; InputError that names the line."""
    if isa is not None and isa not in ISAS:
        raise unknown("ISA", isa, ISAS)
    if isa is not None:
        return _assemble(text, isa, name)
    refused: list[_RefusedError] = []
    for candidate in _assemblers():
        try:
            return _assemble(text, candidate, name)
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


def _assemble(text: str, isa: str, name: str) -> Snippet:
    tools = toolchain.find(isa)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        source, obj, elf = (Path(scratch, f"text.{end}") for end in ("s", "o", "elf"))
        source.write_text(text if text.endswith("\n") else text + "\n")
        done = _run([tools.gcc, "-g", "-c", str(source), "-o", str(obj)])
        if done.returncode:
            raise _refusal(done.stderr, text, isa, name)
        done = _run([tools.ld, "-Ttext=0", "-e", "0", "-o", str(elf), str(obj)])
        if done.returncode:
            raise _refusal(done.stderr, text, isa, name)
        code, lines = _read(elf)
    if not code:
        raise InputError(f"{name} holds no instruction; give the text of a loop")
    try:
        instructions = decode.decode(isa, code)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return Snippet(isa, instructions, tuple(text.splitlines()), lines)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def _refusal(stderr: str, text: str, isa: str, name: str) -> _RefusedError:
    """Return the error for what the assembler or the linker said, with the line of the text."""
    found = list(_ERROR.finditer(stderr)) or list(_UNDEFINED.finditer(stderr))
    if not found:
        return _RefusedError(f"{name} does not assemble: {stderr.strip().splitlines()[0]}", isa, 1)
    line, what = int(found[0].group("line")), found[0].group("what")
    if found[0].re is _UNDEFINED:
        what += " is not defined: define it in the text, or leave the instruction out"
    if isa == "x86_64" and _INTEL.search(text.splitlines()[line - 1]):
        what += "; for Intel syntax put `.intel_syntax noprefix` in the first line"
    return _RefusedError(f"{name} line {line}: {what}", isa, len(found))


def _read(elf: Path) -> tuple[bytes, dict[int, int]]:
    """Return the linked text, and the source line of each address that has one."""
    with elf.open("rb") as file:
        image = ELFFile(file)
        section = image.get_section_by_name(".text")
        code = section.data() if section is not None else b""
        lines: dict[int, int] = {}
        if code and image.has_dwarf_info():
            dwarf = image.get_dwarf_info()
            for unit in dwarf.iter_CUs():
                program = dwarf.line_program_for_CU(unit)
                for entry in program.get_entries() if program else ():
                    if entry.state is not None and not entry.state.end_sequence:
                        lines[entry.state.address] = entry.state.line
    return code, lines
