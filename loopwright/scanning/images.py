"""A file to scan: its code, whatever it is packed in."""

from dataclasses import dataclass
from pathlib import Path

from loopwright.code import elf
from loopwright.code.elf import Section
from loopwright.errors import InputError


@dataclass(frozen=True)
class Image:
    """The code of a file by sections, all of one ISA."""

    path: Path
    isa: str
    sections: tuple[Section, ...]


def read(path: Path) -> Image:
    """Return the code of a file; InputError where it holds none that can be read."""
    sections = elf.read(path)
    if not sections:
        raise InputError(f"{path} holds no code: none of its sections is executable")
    isas = {section.isa for section in sections}
    if len(isas) > 1:
        raise InputError(f"{path} holds code of several ISAs: give objects of one")
    return Image(path, isas.pop(), tuple(sections))
