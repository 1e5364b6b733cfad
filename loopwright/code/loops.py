"""Innermost loops of code, found by backward branches; their code offsets; pieces of objects."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from loopwright.code import binding
from loopwright.code.instructions import (
    ZEROED_BYTES,
    Code,
    Flow,
    Instruction,
    Loop,
    decode,
    executed,
    no_code,
    repeated_strings,
)
from loopwright.errors import InputError, unknown
from loopwright.kernels.contracts import EFFECTS, Contract

if TYPE_CHECKING:
    from loopwright.code.elf import Section

STRING_BYTES = 64  # bytes of a repeated string instruction that a figure is for
_BIG = 16  # bytes an iteration from which a branch loop goes before a string instruction


def find(instructions: Sequence[Instruction]) -> tuple[Loop, ...]:
    """Return the innermost loops of a routine by address, repeated string instructions included.

    Control enters at the first instruction. Unreachable code, such as an alternative not taken, has
    no loop.
    """
    closed, strings = _closed(instructions)
    branches = [
        Loop("branch", tuple(instructions[a : b + 1]), _contained(closed - {(a, b)}, a, b))
        for a, b in _innermost(closed)
    ]
    repeated = [Loop("string", (instructions[n],), _contained(closed, n, n)) for n, _ in strings]
    return tuple(sorted([*branches, *repeated], key=lambda loop: loop.start))


class SectionLoop(NamedTuple):
    """An innermost loop of a section, in bytes from the section's start.

    path are the stretches of its likely path, the lowest first; exits the conditional branches on
    it that may leave it. refused is the reason why it makes no block: "" (it does), "calls",
    "repeats" (a string instruction), "indirect" (a jump), "elsewhere" (its likely path does not
    come back) or "doubtful" (nothing leads to it, and there are bytes beside it that are no
    instructions).
    """

    path: Sequence[tuple[int, int]]
    exits: Sequence[int]
    refused: str


class SectionLoops(NamedTuple):
    """The innermost loops of a section, the number of outer ones, and of bytes that are no code."""

    innermost: Sequence[SectionLoop]
    outer: int
    lost: int


def in_section(section: "Section") -> SectionLoops:
    """Return the natural loops of a section, each in one routine, by address."""
    rows, outer, lost = binding.loops(
        section.isa,
        section.code,
        sorted(set(_starts(section))),
        sorted(set(_ends(section))),
        sorted(set(_entries(section))),
        list(_gaps(section)),
        section.address,
    )
    return SectionLoops([SectionLoop(*row) for row in rows], outer, lost)


def _starts(section: "Section") -> Iterator[int]:
    """Yield the offsets of routines, or parts of them."""
    named = (symbol.address for symbol in section.routines)
    for address in (*named, *section.starts, *section.entries):
        if section.address <= address < section.end:
            yield address - section.address


def _ends(section: "Section") -> Iterator[int]:
    """Yield the offsets of the ends of routines with a size."""
    for symbol in section.routines:
        end = symbol.address + symbol.size
        if symbol.size and section.address <= symbol.address and end < section.end:
            yield end - section.address


def _entries(section: "Section") -> Iterator[int]:
    """Yield the offsets where control enters from outside.

    The cold part that a compiler moved out of a routine belongs to that routine.
    """
    starts = (s.address for s in section.routines if ".cold" not in s.name)
    for address in (*starts, *section.entries):
        if section.address <= address < section.end:
            yield address - section.address


def _gaps(section: "Section") -> Iterator[tuple[int, int]]:
    """Yield the stretches that hold no code; those of a damaged file may lie anywhere."""
    reached = 0
    for gap in section.data:
        start = max(gap.start - section.address, reached)
        end = min(gap.stop - section.address, len(section.code))
        if start < end:
            yield start, end
            reached = end


def _closed(code: Sequence[Instruction]) -> tuple[set[tuple[int, int]], list[tuple[int, int]]]:
    """Return the loops of branches, and the repeated string instructions.

    Both are pairs of the numbers of the first and the last instruction. A backward branch closes a
    loop only if control can reach it from its target without leaving the stretch between; fixups
    that jump back to an exit close none.
    """
    index = {ins.address: n for n, ins in enumerate(code)}
    live = _reached(code, index, 0, range(len(code)))
    closed = set()
    for last in live:
        ins = code[last]
        if ins.flow not in (Flow.BRANCH, Flow.JUMP) or ins.target is None:
            continue
        first = index.get(ins.target)
        if first is None or first > last:
            continue
        if last in _reached(code, index, first, range(first, last + 1)):
            closed.add((first, last))
    return closed, [(n, n) for n in live if code[n].string]


def _innermost(closed: Collection[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the stretches that contain no other one."""
    least = math.inf  # the first end of the stretches that begin here or later
    for first, last in sorted(closed, key=lambda span: (-span[0], span[1])):
        if last < least:
            yield first, last
        least = min(least, last)


def _contained(closed: Collection[tuple[int, int]], first: int, last: int) -> bool:
    return any(a <= first and last <= b for a, b in closed)


def reached(code: Code) -> set[int]:
    """Return the addresses of reachable instructions, including those after a fixup."""
    index = {ins.address: n for n, ins in enumerate(code.instructions)}
    everything = range(len(code.instructions))
    seen = _reached(code.instructions, index, index[code.entry], everything)
    fixups = {e.insn: e.fixup for e in code.exceptions}
    while True:
        starts = [
            index[to]
            for at, to in fixups.items()
            if index.get(at) in seen and to in index and index[to] not in seen
        ]
        if not starts:
            return {code.instructions[n].address for n in seen}
        for start in starts:
            seen |= _reached(code.instructions, index, start, everything)


def _reached(
    instructions: Sequence[Instruction], index: dict[int, int], start: int, within: range
) -> set[int]:
    """Return the numbers of the instructions reachable from one without leaving a stretch."""
    seen: set[int] = set()
    todo = [start]
    while todo:
        at = todo.pop()
        if at in seen or at not in within:
            continue
        seen.add(at)
        ins = instructions[at]
        if ins.flow in (Flow.NEXT, Flow.BRANCH, Flow.CALL):
            todo.append(at + 1)
        if ins.flow in (Flow.BRANCH, Flow.JUMP) and ins.target in index:
            todo.append(index[ins.target])
    return seen


def moved_bytes(loop: Loop, contract: Contract) -> int:
    """Return the bytes that one iteration moves: loaded or stored, as the contract's effect has it.

    For a loop over records they are whole records, since calls in it store elsewhere or push. A
    loop inside that one moves part of a record; InputError if a call hides how much.
    """
    if contract.fields and loop.nested and any(i.flow is Flow.CALL for i in loop.instructions):
        raise InputError(
            f"the loop at {loop.start:#x} stands in another and calls what stores out of sight: "
            "what it moves is not known"
        )
    if contract.fields and contract.counted and not loop.nested:
        record = sum(f.size for f in contract.fields)
        return record * max(1, round(loop.written_bytes / record))
    return _data_bytes(loop, contract)


def _data_bytes(loop: Loop, contract: Contract) -> int:
    """Return the bytes loaded or stored by an iteration that the contract's effect counts."""
    access, sides = EFFECTS[contract.effect].moves
    return (loop.read_bytes if access == "loads" else loop.written_bytes) // sides


@dataclass(frozen=True)
class Choice:
    """The main loop of a routine, the rule that chose it, and the number of loops."""

    loop: Loop
    rule: str
    among: int

    def __str__(self) -> str:
        """Return addresses and rule: "0x20 to 0x3c, of 3 loops: moves most, 64 bytes"."""
        of = f", of {self.among} loops" if self.among > 1 else ""
        return f"{self.loop.start:#x} to {self.loop.end:#x}{of}: {self.rule}"


def choose(
    loops: Sequence[Loop], contract: Contract, labels: Mapping[str, int] | None = None
) -> Choice | None:
    """Return the main loop of a routine, and the rule that chose it; None if no loop moves data.

    The main loop is the one that the contract names: by a label (labels maps them to addresses), or
    by its number in the order of addresses. Otherwise it is the one that moves most bytes an
    iteration, as large sizes run in it, and the first of several with as many; but a repeated
    string instruction goes before branch loops that move less than 16 bytes. InputError if the
    contract names a missing loop.
    """
    if contract.loop:
        loop = _loop_by_name(loops, contract.loop, labels or {})
        return Choice(loop, f"kernel.toml names it, {contract.loop}", len(loops))
    moving = [loop for loop in loops if _data_bytes(loop, contract)]
    if not moving:
        return None
    best = max(moving, key=lambda loop: _rank(loop, contract))
    moved = _data_bytes(best, contract)
    if best.kind == "string":
        rule = f"a string instruction, and no branch loop moves {_BIG} bytes or more"
    else:
        alike = sum(_rank(loop, contract) == _rank(best, contract) for loop in moving)
        first = f", the first of {alike} that do" if alike > 1 else ""
        rule = f"moves most, {moved} bytes an iteration{first}"
    if any(i.mnemonic == "dc" and i.written_bytes for i in best.instructions):
        rule += f" (dc zva taken for {ZEROED_BYTES}: DCZID_EL0 of the machine says what it is)"
    return Choice(best, rule, len(loops))


def _rank(loop: Loop, contract: Contract) -> tuple[int, int]:
    """Return the rank as a main loop: by kind, then by bytes an iteration."""
    moved = _data_bytes(loop, contract)
    if loop.kind == "string":
        return 1, moved
    return (2 if moved >= _BIG else 0), moved


def _loop_by_name(loops: Sequence[Loop], name: str | int, labels: Mapping[str, int]) -> Loop:
    listed = ", ".join(f"{n} at {loop.start:#x}" for n, loop in enumerate(loops, 1)) or "none"
    if isinstance(name, int):
        if name <= len(loops):
            return loops[name - 1]
        raise InputError(f"there is no loop {name}; loops by number: {listed}")
    if name not in labels:
        raise InputError(f"there is no label {name}; loops by number: {listed}")
    at_label = [loop for loop in loops if loop.start <= labels[name] < loop.end]
    if not at_label:
        raise InputError(f"no loop is at {name}, {labels[name]:#x}; loops by number: {listed}")
    return at_label[0]


LINE = 64  # bytes of a cache line, which code offsets are counted in


@dataclass(frozen=True)
class Placement:
    """Placement of code: text shift bytes after a 64-byte boundary, main loop at offset."""

    shift: int
    offset: int

    @classmethod
    def of(cls, code: Code, contract: Contract, offset: int | None) -> Self:
        """Return the placement with the main loop, or else the entry, at an offset.

        Without an offset, the text is at a 64-byte boundary. InputError for an offset that cannot
        be.
        """
        choice = choose(code.loops, contract, code.symbols)
        call = choice is None or contract.unit == "call"
        start = code.entry if call or choice is None else choice.loop.start
        if offset is None:
            return cls(0, start % LINE)
        if not 0 <= offset < LINE:
            raise InputError(f"offset {offset} is not from 0 to 63")
        if code.isa == "arm64" and offset % 4:
            raise InputError(f"offset {offset}: arm64 code stands at multiples of 4")
        return cls((offset - start) % LINE, offset)


def offsets(code: Code, contract: Contract, *, inlined: bool = False) -> tuple[int, ...]:
    """Return the possible offsets of the main loop, or else of the entry, in linked code.

    A function starts at any multiple of its section's alignment; inlined code at any instruction.
    """
    step = (4 if code.isa == "arm64" else 1) if inlined else min(code.align, LINE)
    start = Placement.of(code, contract, None).offset
    return tuple(sorted((start + shift) % LINE for shift in range(0, LINE, step)))


def offset_ranges(offsets: Collection[int], between: str = ", ") -> str:
    """Return offsets as text: 3-7, 35-39; if all are multiples of 4, steps of 4 join."""
    step = 4 if len(offsets) > 1 and all(o % 4 == 0 for o in offsets) else 1
    spans: list[list[int]] = []
    for offset in sorted(offsets):
        if spans and offset - spans[-1][1] == step:
            spans[-1][1] = offset
        else:
            spans.append([offset, offset])
    return between.join(f"{a}-{b}" if a != b else str(a) for a, b in spans)


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
        return self.address % LINE

    @property
    def code(self) -> bytes:
        """Its machine code."""
        return b"".join(i.code for i in self.instructions)


def of_loops(section: "Section", within: range) -> Iterator[Piece]:
    """Yield the innermost loops of a section between two addresses, by address.

    They are those of `scan`, from the first byte to the last of the likely path, and also those
    that make no block there; a repeated string instruction is a loop of its own. Bytes that are no
    instructions have a piece with the error; the rest of their routine has no string instructions.
    The caller sets the ids.
    """
    pieces = [
        of_path(section, loop.path)
        for loop in in_section(section).innermost
        if loop.refused != "repeats" and section.address + loop.path[0][0] in within
    ]
    for start, stop in _stretches(section, within):
        strings, reached = repeated_strings(section.isa, section.bytes_of(start, stop), start)
        pieces += [_piece(section, *bounds, string=True) for bounds in strings]
        if (unread := section.bytes_of(reached, stop)).strip(_PADDING):
            message = str(no_code(section.isa, unread, 0))
            pieces.append(Piece("", section.isa, "unrolled", reached, error=message))
    yield from sorted(pieces, key=lambda piece: piece.address)


def call_falling_through(section: "Section", within: range) -> Piece:
    """Return the code between two addresses as a call whose conditional branches fall through."""
    code = section.bytes_of(within.start, within.stop)
    try:
        body = straight(decode(section.isa, code, within.start), within.start)
    except InputError as error:
        return Piece("", section.isa, "unrolled", within.start, error=str(error))
    error_text = "" if body else "it returns at once: there is nothing to predict"
    return Piece("", section.isa, "unrolled", within.start, body, moved(body), error_text)


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


def _stretches(section: "Section", within: range) -> Iterator[tuple[int, int]]:
    """Yield the bounds of routines and of the code between them, without data."""
    edges = {within.start, within.stop}
    for routine in section.routines:
        edges |= {routine.address, routine.address + routine.size}
    for gap in section.data:
        edges |= {gap.start, gap.stop}
    for start, stop in pairwise(
        sorted(edge for edge in edges if within.start <= edge <= within.stop)
    ):
        if not any(start in gap for gap in section.data):
            yield start, stop


def of_path(section: "Section", path: Sequence[tuple[int, int]]) -> Piece:
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


def _piece(section: "Section", start: int, end: int, *, string: bool = False) -> Piece:
    try:
        body = decode(section.isa, section.bytes_of(start, end), start)
    except InputError as error:
        return Piece("", section.isa, "loop", start, error=str(error))
    branch = body[-1].flow in (Flow.BRANCH, Flow.JUMP)
    notion = "loop" if branch else "unrolled"
    amount = STRING_BYTES if string else moved(executed(body) if branch else body)
    return Piece("", section.isa, notion, start, body, amount)


def of_file(spec: str) -> list[Piece]:
    """Return the loops of FILE or FILE:SYMBOL, named by symbol and offset in it, by address.

    Without a loop each routine is one call, of which no conditional branch is taken. InputError
    if there is no such file or symbol, and for code of another ISA or of both.
    """
    places = _places(spec)
    pieces = [piece for _, piece in _loops(places)]
    if all(piece.error for piece in pieces):
        calls = [(s, r) for s, within in places for r in _routines(s, within)]
        pieces = [in_routine(s, call_falling_through(s, within)) for s, within in calls]
    return pieces


def loops_of(spec: str) -> list[tuple["Section", Piece]]:
    """Return the loops of FILE or FILE:SYMBOL, each with its section; errors as of of_file."""
    return _loops(_places(spec))


def _loops(places: Sequence[tuple["Section", range]]) -> list[tuple["Section", Piece]]:
    return [(s, in_routine(s, piece)) for s, within in places for piece in of_loops(s, within)]


def _places(spec: str) -> list[tuple["Section", range]]:
    """Return the sections of FILE with all addresses, or with those of SYMBOL; InputError."""
    from loopwright.code import elf

    path, symbol = _file_and_symbol(spec)
    sections = elf.read(path)
    elf.isa_of(sections, path)
    if symbol:
        names = {s.name for section in sections for s in section.symbols}
        if not names:
            raise InputError(f"{path} is stripped of its symbols; give it without :{symbol}")
        if symbol not in names:
            raise InputError(f"{path}: {unknown('symbol', symbol, names)}")
    return [(s, within) for s in sections for within in _ranges(s, symbol)]


def in_routine(section: "Section", piece: Piece) -> Piece:
    """Return a piece with its routine and its offset there as its id."""
    where = _where(section, piece.address)
    return replace(piece, id=f"{section.file}:{where}" if section.file else where)


def _where(section: "Section", address: int) -> str:
    """Return an address by its routine, else as a program has it."""
    routine = section.routine(address)
    if routine is None and section.address:
        return f"{address:#x}"
    name, start = (routine.name, routine.address) if routine else (section.name, section.address)
    return f"{name}+{address - start:#x}" if address > start else name


def _file_and_symbol(spec: str) -> tuple[Path, str]:
    """Return the file and the symbol ("" without one)."""
    if Path(spec).exists() or ":" not in spec:
        return Path(spec), ""
    file, _, symbol = spec.rpartition(":")
    if not (file and symbol):
        missing = "symbol behind" if file else "file before"
        raise InputError(f"{spec!r} names no {missing} its colon; give FILE:SYMBOL or FILE")
    return Path(file), symbol


def _ranges(section: "Section", name: str) -> list[range]:
    """Return the addresses of a symbol's routines in a section, those of all of it without one."""
    if not name:
        return [range(section.address, section.end)]
    return [section.extent(symbol) for symbol in section.symbols if symbol.name == name]


def _routines(section: "Section", within: range) -> Iterator[range]:
    """Yield the routines between two addresses, or the whole range if none begins there."""
    inside = [section.extent(s) for s in section.routines if s.address in within]
    yield from inside or [within]
