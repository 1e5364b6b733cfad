"""A file to scan: its code, whatever it is packed in, and the names of its routines."""

from dataclasses import dataclass
from pathlib import Path

from loopwright.code import elf
from loopwright.code.elf import Section
from loopwright.errors import InputError
from loopwright.scanning import boot, kallsyms, packed
from loopwright.scanning.alternatives import Alternatives
from loopwright.scanning.names import Names

_NESTED = 4  # formats within each other, such as a gzip of a zboot of a gzip of an Image


@dataclass(frozen=True)
class Image:
    """The code of a file by sections, all of one ISA.

    content is the ELF file (or archive, or arm64 Image) that was in it, named by where symbols come
    from: "the file", "the file's kallsyms", a path, or "" where there are none. alternatives is
    what was done about text that a kernel patches when it boots.
    """

    path: Path
    isa: str
    sections: tuple[Section, ...]
    content: bytes
    named: str
    alternatives: Alternatives


def read(path: Path, symbols: Path | None = None, features: frozenset[str] | None = None) -> Image:
    """Return the code of a file; InputError where it holds none that can be read.

    symbols is a System.map, or what /proc/kallsyms shows, of the same kernel. features have their
    alternatives applied, by the names of /proc/cpuinfo, or of arm64_features; without them text is
    as it was linked.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    content = _unpacked(content, str(path))
    alternatives = Alternatives(features)
    if boot.is_image(content):
        sections = [_arm64_text(alternatives.patched(content))]
    else:
        sections = elf.sections(content, str(path), alternatives.edits)
    if not sections:
        raise InputError(f"{path} holds no code: none of its sections is executable")
    isas = {section.isa for section in sections}
    if len(isas) > 1:
        raise InputError(f"{path} holds code of several ISAs: give objects of one")
    alternatives.check(str(path))
    named, source = _named(sections, content, symbols)
    return Image(path, isas.pop(), tuple(named), content, source, alternatives)


def _unpacked(content: bytes, name: str) -> bytes:
    for _ in range(_NESTED):
        if boot.is_bzimage(content):
            content = boot.payload(content, name)
        elif boot.is_zboot(content):
            content = boot.zboot_payload(content, name)
        elif packed.format_of(content) and not boot.is_image(content):
            content = packed.unpack(content, name)
        else:
            return content
    raise InputError(f"{name} is packed more than {_NESTED} times over: unpack it first")


def _arm64_text(content: bytes) -> Section:
    """Return an arm64 Image as a section: it lies at a multiple of 64 KiB."""
    return Section("", "arm64", "Image", 0, boot.image_text(content), (), (), entries=(0,))


def _named(
    sections: list[Section], content: bytes, symbols: Path | None
) -> tuple[list[Section], str]:
    """Return the sections with the names asked for, their own, or those that a kernel carries."""
    if symbols is not None:
        return Names.read(symbols).given(sections, str(symbols)), str(symbols)
    if any(section.symbols for section in sections):
        if elf.stripped(content):
            return sections, "its dynamic symbols alone (the file is stripped)"
        return sections, "the file"
    if own := kallsyms.symbols(content):
        try:
            return Names.of(own).given(sections, "its kallsyms"), "the kernel's own kallsyms"
        except InputError:
            return sections, ""
    return sections, ""
