"""Pieces of an object to predict: its loops, their paths, and calls of code without loops."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from loopwright.code import elf, loops
from loopwright.code.elf import Section
from loopwright.code.instructions import Flow, Instruction, decode, no_code, repeated_strings
from loopwright.errors import InputError, unknown

_PADDING = b"\0\xcc"


@dataclass(frozen=True)
class Piece:
    """One thing to predict: a loop, or code without one.

    address is that in its section; moved the bytes that an iteration stores, or loads where it
    stores none (64 of a repeated string instruction); error is the reason why it is no code.
    """

    id: str
    isa: str
    notion: str
    address: int
    instructions: tuple[Instruction, ...] = ()
    moved: int | None = None
    error: str = ""

    @property
    def offset(self) -> int:
        """Its code offset, with an object's sections at 64-byte boundaries."""
        return self.address % 64

    @property
    def code(self) -> bytes:
        """Its machine code."""
        return b"".join(i.code for i in self.instructions)


def of_loops(section: Section, within: range) -> Iterator[Piece]:
    """Yield the innermost loops of a section between two addresses, by address.

    They are those of `scan`, from the first byte to the last of the likely path, and also those
    that make no block there; a repeated string instruction is a loop of its own. Bytes that are no
    instructions have a piece with the error; the rest of their routine has no string instructions.
    The caller sets the ids.
    """
    found = [
        of_path(section, loop.path)
        for loop in loops.in_section(section).innermost
        if loop.refused != "repeats" and section.address + loop.path[0][0] in within
    ]
    for start, stop in _stretches(section, within):
        strings, reached = repeated_strings(section.isa, section.bytes_of(start, stop), start)
        found += [_piece(section, *bounds, string=True) for bounds in strings]
        if (rest := section.bytes_of(reached, stop)).strip(_PADDING):
            message = str(no_code(section.isa, rest, 0))
            found.append(Piece("", section.isa, "unrolled", reached, error=message))
    yield from sorted(found, key=lambda piece: piece.address)


def undisturbed(section: Section, within: range) -> Piece:
    """Return one call of the code between two addresses: conditional branches fall through."""
    code = section.bytes_of(within.start, within.stop)
    try:
        body = straight(decode(section.isa, code, within.start), within.start)
    except InputError as error:
        return Piece("", section.isa, "unrolled", within.start, error=str(error))
    nothing = "" if body else "it returns at once: there is nothing to predict"
    return Piece("", section.isa, "unrolled", within.start, body, moved(body), nothing)


def straight(code: Sequence[Instruction], entry: int) -> tuple[Instruction, ...]:
    """Return the instructions of one call in which conditional branches fall through."""
    by_address = {ins.address: ins for ins in code}
    body: list[Instruction] = []
    ins = by_address.get(entry)
    while ins is not None and ins.flow is not Flow.RETURN and len(body) <= len(by_address):
        if ins.flow is Flow.JUMP:
            ins = by_address.get(ins.target) if ins.target is not None else None
            continue
        body.append(ins)
        ins = by_address.get(ins.end)
    return tuple(body)


def moved(body: Sequence[Instruction]) -> int:
    """Return the bytes that code stores, or loads where it stores none."""
    return sum(i.written_bytes for i in body) or sum(i.read_bytes for i in body)


def _stretches(section: Section, within: range) -> Iterator[tuple[int, int]]:
    """Yield the bounds of routines and of the code between them, without data."""
    edges = {within.start, within.stop}
    for routine in section.routines:
        edges |= {routine.address, routine.address + routine.size}
    for gap in section.data:
        edges |= {gap.start, gap.stop}
    for start, stop in pairwise(sorted(edge for edge in edges if edge in _closed(within))):
        if not any(start in gap for gap in section.data):
            yield start, stop


def _closed(within: range) -> range:
    """Return the addresses of a range and the one after it."""
    return range(within.start, within.stop + 1)


def of_path(section: Section, path: Sequence[tuple[int, int]]) -> Piece:
    """Return a loop from the first to the last byte of its path, given as offsets in the section.

    Models follow its jumps and let its forward branches fall through; a path that goes another way
    has an error.
    """
    start, end = section.address + path[0][0], section.address + path[-1][1]
    piece = _piece(section, start, end)
    joints = {section.address + stop for _, stop in path[:-1]}
    jumps = {i.end for i in piece.instructions if i.flow is Flow.JUMP}
    forwards = all(stop <= begin for (_, stop), (begin, _) in pairwise(path))
    if piece.error or (forwards and joints <= jumps):
        return piece
    message = (
        f"its likely path runs through {len(path)} pieces of code: ask `loopwright scan` for it"
    )
    return Piece("", section.isa, "loop", start, error=message)


def _piece(section: Section, start: int, end: int, *, string: bool = False) -> Piece:
    try:
        body = decode(section.isa, section.bytes_of(start, end), start)
    except InputError as error:
        return Piece("", section.isa, "loop", start, error=str(error))
    branch = body[-1].flow in (Flow.BRANCH, Flow.JUMP)
    notion = "loop" if branch else "unrolled"
    amount = loops.STRING_BYTES if string else moved(body)
    return Piece("", section.isa, notion, start, body, amount)


def of_file(spec: str) -> list[Piece]:
    """Return the loops of FILE or FILE:SYMBOL, named by symbol and offset in it, by address.

    Without a loop each routine is one call, of which no conditional branch is taken. InputError
    if there is no such file or symbol, and for code of another ISA or of both.
    """
    places = _meant(spec)
    found = [piece for _, piece in _loops(places)]
    if not any(not piece.error for piece in found):
        calls = [(s, r) for s, within in places for r in _routines(s, within)]
        found = [in_routine(section, undisturbed(section, within)) for section, within in calls]
    return found


def loops_of(spec: str) -> list[tuple[Section, Piece]]:
    """Return the loops of FILE or FILE:SYMBOL, each with its section; errors as of of_file.

    InputError as of of_file.
    """
    return _loops(_meant(spec))


def _loops(places: Sequence[tuple[Section, range]]) -> list[tuple[Section, Piece]]:
    return [(s, in_routine(s, piece)) for s, within in places for piece in of_loops(s, within)]


def _meant(spec: str) -> list[tuple[Section, range]]:
    """Return the sections of FILE, or the range of its SYMBOL; InputError for neither."""
    path, wanted = _parsed(spec)
    sections = elf.read(path)
    elf.isa_of(sections, path)
    if wanted:
        known = {s.name for section in sections for s in section.symbols}
        if not known:
            raise InputError(f"{path} is stripped of its symbols; give it without :{wanted}")
        if wanted not in known:
            raise InputError(f"{path}: {unknown('symbol', wanted, known)}")
    return [place for section in sections for place in _places(section, wanted)]


def in_routine(section: Section, piece: Piece) -> Piece:
    """Return a piece with its routine and its offset there as its id."""
    where = _where(section, piece.address)
    return replace(piece, id=f"{section.file}:{where}" if section.file else where)


def _where(section: Section, address: int) -> str:
    """Return an address by its routine, else as a program has it."""
    routine = section.routine(address)
    if routine is None and section.address:
        return f"{address:#x}"
    name, start = (routine.name, routine.address) if routine else (section.name, section.address)
    return f"{name}+{address - start:#x}" if address > start else name


def _parsed(spec: str) -> tuple[Path, str]:
    """Return the file and the symbol ("" without one)."""
    if Path(spec).exists() or ":" not in spec:
        return Path(spec), ""
    file, _, symbol = spec.rpartition(":")
    if not (file and symbol):
        missing = "symbol behind" if file else "file before"
        raise InputError(f"{spec!r} names no {missing} its colon; give FILE:SYMBOL or FILE")
    return Path(file), symbol


def _places(section: Section, wanted: str) -> Iterator[tuple[Section, range]]:
    if not wanted:
        yield section, range(section.address, section.end)
        return
    for symbol in section.symbols:
        if symbol.name == wanted:
            yield section, elf.extent(section, symbol)


def _routines(section: Section, within: range) -> Iterator[range]:
    """Yield the routines between two addresses, or the whole range if none begins there."""
    inside = [elf.extent(section, s) for s in section.routines if s.address in within]
    yield from inside or [within]
