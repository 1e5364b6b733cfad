"""Loops in an object file, an archive, a kernel module or a program, as blocks of machine code."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from loopwright.code import elf
from loopwright.code.elf import Section, Symbol
from loopwright.code.pieces import Piece, of_loops, undisturbed
from loopwright.errors import InputError, unknown


def pieces(spec: str) -> list[Piece]:
    """Return the loops of FILE or FILE:SYMBOL, named by symbol and offset in it, by address.

    Where there is no loop each routine is one call, of which no conditional branch is taken.
    InputError where there is no such file or symbol, and for code of another ISA or of both.
    """
    path, wanted = _parsed(spec)
    sections = elf.read(path)
    if not sections:
        raise InputError(f"{path} holds no code: none of its sections is executable")
    isas = {section.isa for section in sections}
    if len(isas) > 1:
        raise InputError(f"{path} holds code of several ISAs: give objects of one")
    if wanted:
        known = {s.name for section in sections for s in section.symbols}
        if wanted not in known:
            raise unknown("symbol", wanted, known)
    places = [place for section in sections for place in _places(section, wanted)]
    found = [
        named(section, piece) for section, within in places for piece in of_loops(section, within)
    ]
    if not any(not piece.error for piece in found):
        calls = [(s, r) for s, within in places for r in _routines(s, within)]
        found = [named(section, undisturbed(section, within)) for section, within in calls]
    return found


def named(section: Section, piece: Piece) -> Piece:
    """Return a piece with the routine that it lies in, and how far behind its start, as its id."""
    where = _where(section, piece.address)
    return replace(piece, id=f"{section.file}:{where}" if section.file else where)


def _where(section: Section, address: int) -> str:
    """Return an address as somebody would look for it: by routine, else as a program has it."""
    routine = section.routine(address)
    if routine is None and section.address:
        return f"{address:#x}"
    name, start = (routine.name, routine.address) if routine else (section.name, section.address)
    return f"{name}+{address - start:#x}" if address > start else name


def extent(section: Section, symbol: Symbol) -> range:
    """Return the addresses of a routine: by its size, else up to the next one."""
    if symbol.size:
        return range(symbol.address, symbol.address + symbol.size)
    later = [s.address for s in section.routines if s.address > symbol.address]
    return range(symbol.address, min(later, default=section.end))


def _parsed(spec: str) -> tuple[Path, str]:
    """Return the file and the symbol, where one is named."""
    if Path(spec).exists() or ":" not in spec:
        return Path(spec), ""
    file, _, symbol = spec.rpartition(":")
    if not symbol:
        raise InputError(f"{spec!r} names no symbol behind its colon; give FILE:SYMBOL or FILE")
    return Path(file), symbol


def _places(section: Section, wanted: str) -> Iterator[tuple[Section, range]]:
    if not wanted:
        yield section, range(section.address, section.end)
        return
    for symbol in section.symbols:
        if symbol.name == wanted:
            yield section, extent(section, symbol)


def _routines(section: Section, within: range) -> Iterator[range]:
    """Yield the routines between two addresses; all of it where none begins there."""
    inside = [extent(section, s) for s in section.routines if s.address in within]
    yield from inside or [within]
