"""Files to scan: those below a folder that contain code, unpacked to kernels and programs."""

import bz2
import hashlib
import lzma
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loopwright import files
from loopwright.code import elf
from loopwright.code.elf import Section
from loopwright.errors import InputError
from loopwright.scanning import vmlinux
from loopwright.scanning.vmlinux import Alternatives, Names

if TYPE_CHECKING:
    from lz4.frame import LZ4FrameDecompressor

_LARGEST = 1 << 30  # largest unpacked size in bytes; kernels with debug information have less
_UNPACK_STEP = 1 << 20  # bytes unpacked in one step
_WINDOW = 1 << 29  # memory limit of a decompressor; the kernel's xz needs up to 128 MiB
_LZ4_BLOCK = 8 << 20  # unpacked bytes of each block of the legacy frame except the last

# Magic bytes at the beginning of each format, as in the kernel's scripts/extract-vmlinux.
_PACKED_MAGIC = {
    b"\x1f\x8b\x08": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
    b"\x5d\0\0": "lzma",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x02\x21\x4c\x18": "lz4",  # the legacy frame, which the kernel's makefiles use
    b"\x04\x22\x4d\x18": "lz4 frame",
    b"\x89LZO": "lzo",
}
_UNREAD = {"lzo"}


def format_of(content: bytes) -> str:
    """Return the name of the format that content is packed in, or ""."""
    return next((name for magic, name in _PACKED_MAGIC.items() if content.startswith(magic)), "")


def unpack(content: bytes, name: str) -> bytes:
    """Return the unpacked content, without any data after it; name is the file's name in errors.

    InputError if the format is unknown, or the content is damaged or too large.
    """
    format_ = format_of(content)
    if format_ in _UNREAD:
        raise InputError(f"{name} is packed with {format_}, which is not read: unpack it first")
    try:
        return _joined(_CHUNKS[format_](content), f"{name} ({format_})")
    except InputError:
        raise
    except Exception as error:  # each library has its own errors for damaged content
        text = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{name} cannot be unpacked as {format_}: {text}") from None


def _joined(chunks: Iterator[bytes], name: str) -> bytes:
    """Return the concatenated chunks; InputError beyond the largest size."""
    out: list[bytes] = []
    size = 0
    for chunk in chunks:
        out.append(chunk)
        size += len(chunk)
        if size > _LARGEST:
            raise InputError(f"{name} unpacks to more than {_LARGEST >> 20} MiB")
    return b"".join(out)


class _CutShortError(Exception):
    """A packed file ends before its content is complete."""

    def __init__(self) -> None:
        super().__init__("it is cut short")


def _gzip(content: bytes) -> Iterator[bytes]:
    stream, remaining = zlib.decompressobj(31), content
    while not stream.eof:
        chunk = stream.decompress(remaining, _UNPACK_STEP)
        remaining = stream.unconsumed_tail
        if not chunk and not remaining and not stream.eof:
            raise _CutShortError
        yield chunk


def _steps(
    stream: "bz2.BZ2Decompressor | lzma.LZMADecompressor | LZ4FrameDecompressor", content: bytes
) -> Iterator[bytes]:
    remaining = content
    while not stream.eof:
        yield (chunk := stream.decompress(remaining, max_length=_UNPACK_STEP))
        remaining = b""
        if not chunk and stream.needs_input:
            raise _CutShortError


def _zstd(content: bytes) -> Iterator[bytes]:
    import zstandard

    stream = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    step = 4096  # packed bytes: four of them may expand to a block of 128 KiB
    for at in range(0, len(content), step):
        yield stream.decompress(content[at : at + step])
        if stream.eof:
            return
    raise _CutShortError


def _lz4(content: bytes) -> Iterator[bytes]:
    import lz4.frame

    return _steps(lz4.frame.LZ4FrameDecompressor(), content)


def _legacy_lz4(content: bytes) -> Iterator[bytes]:
    """Yield the blocks after the legacy frame's magic number, each preceded by its size."""
    import lz4.block

    at = 4
    while len(content) - at >= 4:
        size = int.from_bytes(content[at : at + 4], "little")
        if size > _LZ4_BLOCK + _LZ4_BLOCK // 255 + 16 or size == 0:
            return  # no block: the kernel stores its total size here
        block = content[at + 4 : at + 4 + size]
        if len(block) < size:
            if at + 8 >= len(content):
                return  # the total size of a small kernel
            raise _CutShortError
        yield (chunk := lz4.block.decompress(block, uncompressed_size=_LZ4_BLOCK))
        at += 4 + size
        if len(chunk) < _LZ4_BLOCK:
            return


_CHUNKS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gzip,
    "bzip2": lambda content: _steps(bz2.BZ2Decompressor(), content),
    "xz": lambda content: _steps(lzma.LZMADecompressor(lzma.FORMAT_XZ, _WINDOW), content),
    "lzma": lambda content: _steps(lzma.LZMADecompressor(lzma.FORMAT_ALONE, _WINDOW), content),
    "zstd": _zstd,
    "lz4": _legacy_lz4,
    "lz4 frame": _lz4,
}


_X86_MAGIC = b"HdrS"  # at 0x202 (Documentation/arch/x86/boot.rst)
_ARM64_MAGIC = b"ARM\x64"  # at 56 (Documentation/arch/arm64/booting.rst)
_ZBOOT_MAGIC = b"zimg"  # at 4 (drivers/firmware/efi/libstub/zboot-header.S)
_SECTOR = 512
_PAYLOAD_SINCE = 0x208  # first boot protocol with the payload's position


def is_image(content: bytes) -> bool:
    """True if content is an unpacked arm64 kernel, which is no ELF file."""
    return content[56:60] == _ARM64_MAGIC


def payload(content: bytes, name: str) -> bytes:
    """Return the ELF file that a bzImage contains; InputError if there is none."""
    protocol = _number(content, 0x206, 2)
    if protocol < _PAYLOAD_SINCE:
        raise InputError(
            f"{name}: boot protocol {protocol >> 8}.{protocol & 255:02} does not say where its "
            "payload is (2.08 of Linux 2.6.26 does); give its vmlinux"
        )
    setup = (content[0x1F1] or 4) + 1  # 0 of old kernels means 4 sectors
    start = setup * _SECTOR + _number(content, 0x248, 4)
    return _unpacked_payload(content, start, _number(content, 0x24C, 4), name)


def _unpacked_payload(content: bytes, start: int, size: int, name: str) -> bytes:
    packed = content[start : start + size]
    if size == 0 or len(packed) < size:
        raise InputError(
            f"{name} is cut short or no kernel: its header names {size} bytes of payload at "
            f"{start:#x}, and it has {len(content)} bytes"
        )
    if packed[:4] == b"\x7fELF" or is_image(packed):  # not packed at all
        return packed
    if not format_of(packed):
        raise InputError(
            f"{name}: its payload at {start:#x} ({packed[:6].hex()}) is packed in none of gzip, "
            "xz, zstd, lz4, lzma and bzip2"
        )
    return unpack(packed, f"the payload of {name}")


def image_text(content: bytes) -> bytes:
    """Return the code of an arm64 Image by its PE header, or all of it without one.

    Only an Image with EFI has that header. Its section .text includes read-only data.
    """
    pe = _number(content, 60, 4)
    if content[:2] != b"MZ" or content[pe : pe + 4] != b"PE\0\0":
        return content
    sections = pe + 24 + _number(content, pe + 20, 2)
    for at in range(sections, sections + 40 * min(_number(content, pe + 6, 2), 16), 40):
        if content[at : at + 8].rstrip(b"\0") == b".text":
            start, size = _number(content, at + 20, 4), _number(content, at + 16, 4)
            return content[: start + size]
    return content


def _number(content: bytes, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "little")


_NESTED = 4  # nested formats, at most, such as a gzip of a zboot of a gzip of an Image


@dataclass(frozen=True)
class Image:
    """The code of a file by sections, all of one ISA.

    content is the ELF file (or archive, or arm64 Image) in the file; named is the origin of its
    symbols: "the file", "the file's kallsyms", a path, or "" if there are none. alternatives has
    the treatment of text that a kernel patches at boot.
    """

    path: Path
    isa: str
    sections: tuple[Section, ...]
    content: bytes
    named: str
    alternatives: Alternatives


def read_image(
    path: Path, symbols: Path | None = None, features: frozenset[str] | None = None
) -> Image:
    """Return the code of a file; InputError if it has none that can be read.

    symbols is a System.map, or the text of /proc/kallsyms, of the same kernel. features have their
    alternatives applied, by their names in /proc/cpuinfo, or in arm64_features; without them text
    is as linked.
    """
    content = _unpacked(files.content(path, regular=True), str(path))
    alternatives = Alternatives(features)
    if is_image(content):
        sections = [_arm64_text(alternatives.patched(content))]
    else:
        sections = elf.sections(content, str(path), alternatives.edits)
    isa = elf.isa_of(sections, path)
    alternatives.check(str(path))
    named_sections, origin = _with_names(sections, content, symbols)
    return Image(path, isa, tuple(named_sections), content, origin, alternatives)


def _unpacked(content: bytes, name: str) -> bytes:
    for _ in range(_NESTED):
        if content[0x202:0x206] == _X86_MAGIC:
            content = payload(content, name)
        elif content[4:8] == _ZBOOT_MAGIC and content[:2] == b"MZ":  # an EFI program
            start, size = (_number(content, at, 4) for at in (8, 12))
            content = _unpacked_payload(content, start, size, name)
        elif format_of(content) and not is_image(content):
            content = unpack(content, name)
        else:
            return content
    raise InputError(f"{name} is packed more than {_NESTED} times over: unpack it first")


def _arm64_text(content: bytes) -> Section:
    """Return an arm64 Image as a section; its address is a multiple of 64 KiB."""
    return Section("", "arm64", "Image", 0, image_text(content), (), (), entries=(0,))


def _with_names(
    sections: list[Section], content: bytes, symbols: Path | None
) -> tuple[list[Section], str]:
    """Return the sections with names, and the origin of these.

    The names are those of a file of symbols, the sections' own, or those in the kernel itself.
    """
    if symbols is not None:
        return Names.read(symbols).given(sections, str(symbols)), str(symbols)
    if any(section.symbols for section in sections):
        if elf.stripped(content):
            return sections, "its dynamic symbols alone (the file is stripped)"
        return sections, "the file"
    if kallsyms := vmlinux.kallsyms_symbols(content):
        try:
            return Names.of(kallsyms).given(sections, "its kallsyms"), "the kernel's own kallsyms"
        except InputError:
            return sections, ""
    return sections, ""


_BOOT_MAGIC = {510: b"\x55\xaa", 56: b"ARM\x64"}  # boot sectors of x86, Images of arm64
_PACKED = (".gz", ".xz", ".zst", ".lz4", ".lzma", ".bz2")
_KERNELS = ("vmlinu", "Image", "zImage", "bzImage")  # beginnings of packed kernels' names


def listed_files(folder: Path) -> tuple[list[Path], dict[Path, Path]]:
    """Return the files to scan, by path, and those with the same content as one of them.

    They are objects, archives, libraries, programs, kernels and modules, also packed, recognised by
    their first bytes; links are not followed. InputError if the folder has none.
    """
    code_files = sorted(path for path in _files(folder) if _holds_code(path))
    if not code_files:
        raise InputError(f"{folder} holds no file with code: no ELF file, archive or kernel")
    sizes = [path.stat().st_size for path in code_files]
    counts = Counter(sizes)
    first: dict[str, Path] = {}
    same = {}
    for path, size in zip(code_files, sizes, strict=True):
        if counts[size] > 1:
            earlier = first.setdefault(_digest(path), path)
            if earlier != path:
                same[path] = earlier
    return [path for path in code_files if path not in same], same


def _files(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: {error.strerror}")

    for root, _, names in os.walk(folder, onerror=refuse):
        for name in names:
            path = Path(root, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _holds_code(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        return True  # the scan of the file reports the error
    if head.startswith(files.CODE_MAGICS):
        return True
    if any(head[at : at + len(magic)] == magic for at, magic in _BOOT_MAGIC.items()):
        return True
    module = ".ko." in path.name and path.suffix in _PACKED
    return module or (path.name.startswith(_KERNELS) and path.suffix in (*_PACKED, ""))


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return str(path)
