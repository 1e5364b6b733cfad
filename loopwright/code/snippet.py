"""Loops of pasted assembly, as blocks of machine code."""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from loopwright import toolchain
from loopwright.code import elf, instructions
from loopwright.code.elf import Section, Symbol
from loopwright.code.loops import Piece, call_falling_through, in_routine, moved, of_loops
from loopwright.errors import InputError, unknown
from loopwright.kernels import ISAS
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd
    from elftools.dwarf.lineprogram import LineProgram


Lines = dict[tuple[str, int], int]  # source line by section name and address
_NAME = "assembly"  # of a text, in errors and as an id


def source_lines(path: Path) -> Lines:
    """Return the source lines of an object, none if it was assembled without -g."""
    with path.open("rb") as file:
        image = ELFFile(file)
        rows = _line_rows(image) if image.has_dwarf_info() else ()
        return {where: line for where, _, _, line in rows}


def source_positions(image: ELFFile) -> dict[tuple[str, int], str]:
    """Return "file:line" by section and address of an object that was built with -g."""
    return {
        where: f"{file_name(program, file)}:{line}"
        for where, program, file, line in _line_rows(image)
    }


def file_name(program: "LineProgram", number: int) -> str:
    """Return the name of a file of a line table (DWARF, 6.2.4: from 0 since version 5)."""
    entries = program.header["file_entry"]
    at = number if program.header["version"] >= 5 else number - 1
    name = entries[at].name if 0 <= at < len(entries) else b""
    return str(name.decode(errors="replace")) if isinstance(name, bytes) else str(name)


def _line_rows(image: ELFFile) -> Iterator[tuple[tuple[str, int], "LineProgram", int, int]]:
    """Yield section and address, line table, file number and line of each row of all tables.

    Each sequence of the line table belongs to one section, in order.
    """
    names = _line_sections(image)
    dwarf = image.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        name = next(names, "")
        if program is None:
            continue
        for entry in program.get_entries():
            if entry.state is None:
                continue
            if entry.state.end_sequence:
                name = next(names, "")
            else:
                state = entry.state
                yield (name, state.address), program, state.file, state.line


def _line_sections(image: ELFFile) -> Iterator[str]:
    """Yield the names of the code sections that the line table's addresses refer to."""
    symbols = cast(SymbolTableSection, image.get_section_by_name(".symtab"))
    for table in image.iter_sections():
        if isinstance(table, RelocationSection) and table.name == ".rela.debug_line":
            for relocation in sorted(table.iter_relocations(), key=lambda r: int(r["r_offset"])):
                index = symbols.get_symbol(relocation["r_info_sym"])["st_shndx"]
                section = image.get_section(index)
                if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR:
                    yield section.name


_QUOTE = re.compile(r"^(?:[>|] ?)+")
_FENCE = ("```", "~~~")

# Prose of a mail: no instruction has four words of letters with one of these among them.
_ENGLISH = re.compile(
    r"(?:an?|are|be|but|can|do|does|for|has|have|here|i|is|its?|my|not|of|on|one|that|the|there|they"
    r"|this|to|was|we|what|when|which|with|your?)"
)
_LETTERS = re.compile(r"[A-Za-z][A-Za-z'\u2019-]*[.,:;?!]?")
_PROSE = re.compile(
    r"(?:From|To|Cc|Date|Subject|Message-ID): \S.*|.*\bwrote:|[A-Za-z][A-Za-z ]*,"
    r"|[A-Za-z][^%\[(#]*[a-z][?!]"
)
_NOTES = re.compile(r"[;#]|//|/\*")
_CLOSING = re.compile(r"--|(?:best |kind |many )?(?:regards|thanks|cheers|greetings)[,.!]?", re.I)
_HEX = re.compile(r"[\s{\"']*(?:(?:0x|\\x)?[0-9a-f]{2}[\s,:;{}\"']*)+", re.IGNORECASE)

# A line of a listing: perf's prefix, the address, the code, the instruction.
_SHARE = re.compile(r"^\s*(?:\d+\.\d+\s*%?)?\s*(?:[\u2502|]|:(?=\s))\s?")
_PERF = re.compile(r"^\s*\d+\.\d+\s*%?\s*[\u2502|:]|^\s+\u2502", re.MULTILINE)
_PLACED = re.compile(r"^(?:=>)?\s*(?:0x)?(?P<at>[0-9a-f]+)(?:\s+<[^>]*>)?:(?P<rest>\s.*|)$", re.I)
_NAMED = re.compile(r"^\s*(?:\d+\s+)?(?:[0-9a-f]{4,}\s+)?<(?P<name>.+)>:\s*$", re.I)
_BYTES = re.compile(
    r"^\s*(?P<code>[0-9a-f]{2}(?: [0-9a-f]{2})*)\s*(?:\t|\s{2,}|$)(?P<rest>.*)$", re.I
)
_WORD = re.compile(r"^\s*(?P<code>[0-9a-f]{8})\s+(?P<rest>[a-z.].*)$", re.I)
_ARROWS = re.compile("[\u2190-\u2193\u2502\u2500\u250c\u2514\u251c\u25ba\u25b6]+")
_SOURCE = re.compile(
    r"[;{}]\s*$|^\s*(?://|/\*|#|Disassembly of )|\(\):\s*$"
)  # a line of C that perf put in between
_LONG_NOP = re.compile(r"(?:data16 |cs |xchg\s+%ax,%ax)*(?:nop[wl]?\b.*)?$")  # of any length
_LONG_NOP_PREFIX = re.compile(r"^(?:data16 |cs )+(?=nop)")
_SYMBOLIC = re.compile(r"\s+<.*>\s*$")
_COMMENT = re.compile(r"\s+(?:#|//)\s.*$")
_TARGET = re.compile(
    r"^(?P<before>\s*(?:(?:bnd|notrack)\s+)?(?:j[a-z]+|loop\w*|call[a-z]?|xbegin|bl?|b\.?[a-z]{2}"
    r"|cbn?z|tbn?z)\s+(?:[wx]\d+,\s*)?(?:#\w+,\s*)?)(?P<to>(?:0x)?[0-9a-f]+)\s*$",
    re.I,
)

# Demangled names in a compiler's output.
_LABEL = re.compile(r'^(?P<name>[A-Za-z_~][^#"]*[^\w.$\s"][^#"]*):(?P<rest>\s*(?:[#;/].*)?)$')
_CALL = re.compile(
    r'^(?P<verb>\s*(?:call|callq|jmp|jmpq|bl?)\s+)(?P<name>[A-Za-z_~][^"]*[(:<, ].*)$'
)
_DATUM = re.compile(
    r"(?P<name>(?:\b[A-Za-z_]\w*(?:<[^\"%]*>)?::"
    r"|\b(?:vtable|typeinfo|typeinfo name|VTT|guard variable) for )[^\[\"%]*?)"
    r"(?=\[|\(%rip\)|,|[+-]\d|\s*$)"
)

_AT_AND_T = re.compile(r"%[a-z]")
_INTEL = re.compile(
    r"(?<![%\w.$@])(?:[re][abcd]x|[re][sd]i|[re][sb]p|r(?:8|9|1[0-5])[dwb]?|[xyz]mm\d+|[abcd][lh])\b"
    r"|\bptr\s*\[",
    re.I,
)
_LARGEST_LABEL = 15  # numbers up to this are local labels rather than addresses
_NOTE = re.compile(r"\s+;\s.*$")  # a comment of Intel's syntax


@dataclass(frozen=True)
class Pasted:
    """Text for an assembler; isa is None, and intel False, if the text does not show them."""

    text: str
    isa: str | None = None
    intel: bool = False


def read_pasted(text: str) -> Pasted:
    """Return a pasted text in a form that an assembler accepts."""
    plain = text.replace("\r\n", "\n").replace("\u00a0", " ")
    lines = _without_prose([_QUOTE.sub("", line) for line in plain.split("\n")])
    lines = ["" if line.strip().startswith(_FENCE) else line for line in lines]
    whole = "\n".join(lines).strip()
    if re.search(r"\d", whole) and _HEX.fullmatch(whole):
        return Pasted(f"hex: {_byte_directive(instructions.parse_hex(whole))}")
    if len(_PERF.findall("\n".join(lines))) > 1:
        return _annotated(lines)
    if not any(map(_PLACED.match, lines)):
        lines = _numbered(lines)
    if _is_listing(lines):
        return _listed(lines, bare=False)
    intel = _is_intel(whole)
    return Pasted("\n".join(_compiled(line, intel=intel) for line in lines), intel=intel)


def _without_prose(lines: Sequence[str]) -> list[str]:
    """Return lines with the prose of a mail blanked: headers, sentences, the closing."""
    end = next((n for n, line in enumerate(lines) if _CLOSING.fullmatch(line.strip())), len(lines))
    return ["" if n >= end or _is_prose(line.strip()) else line for n, line in enumerate(lines)]


def _is_prose(line: str) -> bool:
    """True if a line is a sentence, a mail's header or a greeting, apart from comments."""
    plain = _NOTES.split(line)[0]
    words = [word.rstrip(".,:;?!").lower() for word in plain.split() if _LETTERS.fullmatch(word)]
    english = len(words) > 3 and any(map(_ENGLISH.fullmatch, words)) and "%" not in plain
    return english or bool(_PROSE.fullmatch(line))


def _is_listing(lines: Sequence[str]) -> bool:
    """True if most lines begin with an address, not with a local label such as 1."""
    placed = [match for line in lines if (match := _PLACED.match(line))]
    places = [int(match["at"], 16) for match in placed if match["rest"].strip()]
    if not places or 2 * len(placed) < sum(bool(line.strip()) for line in lines):
        return False
    coded = any(_BYTES.match(match["rest"]) or _WORD.match(match["rest"]) for match in placed)
    return coded or (max(places) > _LARGEST_LABEL and all(a < b for a, b in pairwise(places)))


def _numbered(lines: list[str]) -> list[str]:
    """Return lines of `objdump --no-addresses` with addresses from 0 on, others as they are."""
    coded = [_WORD.match(line) or _BYTES.match(line) for line in lines]
    if not any(map(_NAMED.match, lines)):
        return lines
    if not any(coded):
        raise InputError(
            "the listing has neither addresses nor bytes, so nothing says where its branches go; "
            "leave out --no-addresses or --no-show-raw-insn"
        )
    out, at = [], 0
    for line, match in zip(lines, coded, strict=True):
        out.append(f"{at:x}:\t{line.strip()}" if match else line)
        at += len(bytes.fromhex(match["code"])) if match else 0
    return out


def _annotated(lines: Sequence[str]) -> Pasted:
    """Return the code of a perf listing: with an address on each line, or as a label on some."""
    inside = [_SHARE.sub("", line, count=1) if _SHARE.match(line) else "" for line in lines]
    shares = [n for n, line in enumerate(lines) if re.match(r"\s*\d+\.\d+", line)]
    placed = sum(bool(_PLACED.match(inside[n])) for n in shares)
    return _listed(inside, bare=2 * placed < len(shares))


@dataclass(frozen=True)
class _Line:
    """A line of a listing: an instruction at an address, the name of a routine, or nothing.

    word is True if code is listed as an AArch64 word.
    """

    at: int | None = None
    code: bytes = b""
    text: str = ""
    name: str = ""
    word: bool = False


def _listed(lines: Sequence[str], *, bare: bool) -> Pasted:
    """Return a listing's code at its code offset; bare: lines may lack an address."""
    entries = _whole_codes([_line(line, bare=bare) for line in lines])
    texts = [line for line in entries if line.text]
    if texts and all(line.code for line in texts):
        isa = "arm64" if any(line.word for line in texts) else "x86_64"
        return Pasted("\n".join(_as_bytes(entries)), isa)
    intel = _is_intel("\n".join(line.text for line in texts))
    return Pasted("\n".join(_as_text(entries)), intel=intel)


def _line(line: str, *, bare: bool) -> _Line:
    if named := _NAMED.match(line):
        return _Line(name=named["name"])
    placed = _PLACED.match(line)
    if placed is None:
        text = _ARROWS.sub(" ", line).strip()
        return _Line(text=text) if bare and text and not _SOURCE.search(text) else _Line()
    at, text = int(placed["at"], 16), placed["rest"]
    code, word = b"", False
    if match := _WORD.match(text):
        code, text, word = bytes.fromhex(match["code"])[::-1], match["rest"], True
    elif match := _BYTES.match(text):
        code, text = bytes.fromhex(match["code"]), match["rest"]
    text = _SYMBOLIC.sub("", _COMMENT.sub("", _ARROWS.sub(" ", text))).strip()
    return _Line(at, code, text, word=word)


def _whole_codes(lines: Sequence[_Line]) -> list[_Line]:
    """Return lines with all bytes of an instruction in one: objdump splits after seven."""
    out: list[_Line] = []
    owner = -1
    for line in lines:
        continued = owner >= 0 and line.at is not None and line.code and not line.text
        if continued and out[owner].at is not None and out[owner].code:
            start = out[owner]
            out[owner] = _Line(start.at, start.code + line.code, start.text, word=start.word)
            out.append(_Line())
            continue
        if line.text:
            owner = len(out)
        out.append(line)
    return out


def _as_bytes(lines: Sequence[_Line]) -> list[str]:
    """Return the code of a listing as data at its addresses, each with a label.

    The name of a routine goes after the gap before its first instruction.
    """
    out: list[str] = []
    end, named = None, any(line.name for line in lines)
    name_at: int | None = None  # the position of a name without an instruction so far
    for line in lines:
        if line.name:
            name_at = len(out)
            out.append(_routine_label(line.name))
            continue
        if line.at is None or not line.code:
            out.append("")
            continue
        gap = _gap_directives(end, line.at)
        if gap and name_at is not None:
            out[name_at], gap = f"{gap}; {out[name_at]}", ""
        label = _routine_label("code") if end is None and not named else ""
        word = int.from_bytes(line.code, "little")
        directive = f".inst {word:#x}" if line.word else _byte_directive(line.code)
        out.append("; ".join(filter(None, [gap, label, f".L{line.at:x}: {directive}"])))
        end, name_at = line.at + len(line.code), None
    return out


def _as_text(lines: Sequence[_Line]) -> list[str]:
    """Return the instructions of a listing without code, each address with a label."""
    addresses = {line.at for line in lines if line.at is not None and line.text}
    targets: set[int] = set()
    out = []
    for n, line in enumerate(lines):
        if line.name:
            out.append(_routine_label(line.name))
            continue
        if not line.text:
            out.append("")
            continue
        text = line.text
        if _LONG_NOP.match(text) and line.at is not None:
            behind = next((later.at for later in lines[n + 1 :] if later.at is not None), None)
            text = f".nops {behind - line.at}" if behind else _LONG_NOP_PREFIX.sub("", text)
        elif target := _TARGET.match(text):
            to = int(target["to"], 16)
            targets.add(to)
            text = f"{target['before']}.L{to:x}"
        label = "" if line.at is None else f".L{line.at:x}: "
        out.append(label + text)
    first = min(addresses, default=None)
    if first is not None:
        at = next(n for n, line in enumerate(lines) if line.text)
        out[at] = f".p2align 6; .skip {first % 64}, 0xcc; {out[at]}" if first % 64 else out[at]
        # Targets outside of the listing keep their distance.
        outside = sorted(targets - addresses)
        symbols = [f".set .L{to:x}, .L{first:x} + {to - first}" for to in outside]
        out[-1] = "; ".join(filter(None, [out[-1], *symbols]))
    return out


def _gap_directives(end: int | None, at: int) -> str:
    """Return the directives that put the first instruction at its code offset."""
    if end is None:
        return f".p2align 6; .skip {at % 64}, 0xcc" if at % 64 else ".p2align 6"
    return f".skip {at - end}, 0xcc" if 0 < at - end < 1 << 16 else ""


def _routine_label(name: str) -> str:
    quoted = _quoted(name)
    return f".globl {quoted}; .type {quoted}, %function; {quoted}:"


def _byte_directive(code: bytes) -> str:
    return f".byte {', '.join(map(hex, code))}"


def _quoted(name: str) -> str:
    plain = name.strip().replace("\\", "").replace('"', "")
    return f'"{plain}"'


def _is_intel(text: str) -> bool:
    """True if x86 assembly without a syntax directive is in Intel's syntax."""
    if "_syntax" in text or _AT_AND_T.search(text):
        return False
    return bool(_INTEL.search(text))


def _compiled(line: str, *, intel: bool) -> str:
    """Return a line of a compiler's output with its demangled names in quotes."""
    if intel:
        line = _NOTE.sub("", line)
    if match := _LABEL.match(line):
        return f"{_quoted(match['name'])}:{match['rest']}"
    if (match := _CALL.match(line)) and not re.search(r"%|\[|\*|\bPTR\b", line):
        return f"{match['verb']}{_quoted(match['name'])}"
    if line.lstrip().startswith("."):
        return line
    return _DATUM.sub(lambda match: _quoted(match["name"]), line)


_ERROR = re.compile(r":(?P<line>\d+): Error: (?P<what>.*)")
_SNIPPET_LABEL = re.compile(r"^\s*([\w.$]+):")
_OF_COMPILER = re.compile(r"\.L(?:F[BE]|LF|VL|B[BE]|BI|M|text|etext|debug|ASF|S?FDE|E?CIE)[\w.]*")


@dataclass(frozen=True)
class Assembled:
    """A text and its code: the sections, and the text's line by address."""

    source: tuple[str, ...]
    sections: tuple[Section, ...]
    lines: Lines

    def label(self, section: Section, address: int) -> str:
        """Return the label of an address, else its line, else its position."""
        symbols = [s for s in section.symbols if s.address == address]
        if symbols:
            return min(symbols, key=_naming_order).name
        line = self.lines.get((section.name, address))
        if line is None or line > len(self.source):
            return f"{section.name}+{address:#x}"
        other_lines = set(self.lines.values()) - {line}
        for number in range(line, 0, -1):
            if number in other_lines:
                break
            if match := _SNIPPET_LABEL.match(self.source[number - 1]):
                return match.group(1)
        return f"line {line}"


def read_assembly(text: str, isa: str | None = None) -> "pd.DataFrame":
    """Assemble text and return its loops, one row each, in the order of their addresses.

    Columns: id (the loop's label), isa, notion, offset (bytes mod 64, with the text at a 64-byte
    boundary), bytes_per_iteration (stored, or loaded where nothing is stored), hex, listing
    (the instructions as decoded). A text without a loop is one row of the unrolled notion.
    isa is x86_64 or arm64; left out, it is the one that the text assembles for. InputError that
    names the line where it assembles for neither.

    >>> import loopwright as lw
    >>> lw.read_assembly("again: dec %rax; jnz again")[["id", "hex"]].values.tolist()
    [['again', '48ffc875fb']]
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


def pieces(text: str, isa: str | None = None) -> list[Piece]:
    """Return the innermost loops of all routines of a text.

    Without a loop, each routine is one call, of which no conditional branch is taken. Without a
    routine, each section is one piece.
    """
    assembled = assemble(text, isa)
    sections = assembled.sections
    if loops := _loops(assembled):
        return [piece for _, piece in loops]
    calls = [
        in_routine(section, call_falling_through(section, section.extent(routine)))
        for section in sections
        for routine in section.routines
    ]
    return calls or [_whole(section) for section in sections]


def loops_of(text: str, isa: str | None = None) -> list[tuple[Section, Piece]]:
    """Return the loops of a text, each with its section; errors as of pieces."""
    return _loops(assemble(text, isa))


def _loops(assembled: Assembled) -> list[tuple[Section, Piece]]:
    several = sum(len(section.routines) for section in assembled.sections) > 1
    loops = [
        (section, replace(piece, id=_loop_id(assembled, section, piece, several=several)))
        for section in assembled.sections
        for piece in of_loops(section, range(section.address, section.end))
    ]
    for _, piece in loops:
        if piece.error:
            raise InputError(f"{_NAME}: {piece.error}")
    named_pieces = _with_distinct_ids([piece for _, piece in loops])
    return [(section, piece) for (section, _), piece in zip(loops, named_pieces, strict=True)]


def _loop_id(assembled: Assembled, section: Section, piece: Piece, *, several: bool) -> str:
    """Return the label of a loop, with its routine if the text has several."""
    label = assembled.label(section, piece.address)
    routine = section.routine(piece.address)
    if not several or routine is None or routine.name == label:
        return label
    return f"{routine.name}:{label}"


def _naming_order(symbol: Symbol) -> tuple[bool, bool, bool, str]:
    """Return a sort key for names of one address: the author's first, a compiler's last."""
    of_compiler = bool(_OF_COMPILER.fullmatch(symbol.name))
    return of_compiler, not symbol.routine, symbol.name.startswith(".L"), symbol.name


def _with_distinct_ids(pieces: list[Piece]) -> list[Piece]:
    """Return pieces with distinct ids: the address is added where several share a label."""
    names = [piece.id for piece in pieces]
    return [
        piece if names.count(piece.id) == 1 else replace(piece, id=f"{piece.id} at {piece.address}")
        for piece in pieces
    ]


def _whole(section: Section) -> Piece:
    body = instructions.decode(section.isa, section.code, section.address)
    return Piece(_NAME, section.isa, "unrolled", section.address, body, moved(body))


def assemble(text: str, isa: str | None = None) -> Assembled:
    """Assemble text for an ISA, or for the first one that accepts it.

    The text has any form that read_pasted accepts. InputError names the line.
    """
    if isa is not None and isa not in ISAS:
        raise unknown("ISA", isa, ISAS)
    pasted = read_pasted(text)
    isa = isa or pasted.isa or ("x86_64" if pasted.intel else None)
    if isa is not None:
        return _assemble(pasted, isa)
    refused: list[_RefusedError] = []
    for candidate in _assemblers():
        try:
            return _assemble(pasted, candidate)
        except _RefusedError as error:
            refused.append(error)
    nearest = min(refused, key=lambda error: error.count)
    raise InputError(f"{nearest} (read as {nearest.isa}; name the ISA where it is another)")


class _RefusedError(InputError):
    """An error of one ISA's assembler for a text, with the number of its errors."""

    def __init__(self, message: str, isa: str, count: int) -> None:
        super().__init__(message)
        self.isa, self.count = isa, count


def _assemblers() -> list[str]:
    """Return the ISAs with an assembler here, this machine's first."""
    available = []
    for isa in sorted(ISAS, key=lambda isa: isa != toolchain.host_isa()):
        try:
            toolchain.find(isa)
        except InputError:
            continue
        available.append(isa)
    if not available:
        toolchain.find(toolchain.host_isa())
    return available


def _assemble(pasted: Pasted, isa: str) -> Assembled:
    text = pasted.text
    syntax = ["-Wa,-msyntax=intel,-mnaked-reg"] if pasted.intel and isa == "x86_64" else []
    tools = toolchain.find(isa)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        source, obj = (Path(scratch, f"text.{end}") for end in ("s", "o"))
        source.write_text(text if text.endswith("\n") else text + "\n")
        process = subprocess.run(
            # With local labels and line numbers, which loops are named by.
            [tools.gcc, "-g", "-Wa,--keep-locals", *syntax, "-c", str(source), "-o", str(obj)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if process.returncode:
            raise _refusal(process.stderr, isa)
        sections, lines = elf.read(obj), source_lines(obj)
    if not sections:
        raise InputError(f"{_NAME} holds no instruction; give the text of a loop")
    return Assembled(tuple(text.splitlines()), tuple(sections), lines)


def _refusal(stderr: str, isa: str) -> _RefusedError:
    """Return the assembler's first error, with the line of the text."""
    errors = list(_ERROR.finditer(stderr))
    if not errors:
        return _RefusedError(f"{_NAME} does not assemble: {stderr.strip().splitlines()[0]}", isa, 1)
    line, what = int(errors[0].group("line")), errors[0].group("what")
    return _RefusedError(f"{_NAME} line {line}: {what}", isa, len(errors))
