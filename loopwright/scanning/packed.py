"""Unpack what files of code are packed in: gzip, xz, lzma, bzip2, zstd and lz4."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from loopwright.errors import InputError

_MOST = 1 << 30  # bytes that a packed file may become; a kernel with debug information has less
_STEP = 1 << 20  # bytes that are unpacked at once
_WINDOW = 1 << 29  # memory that a decompressor may take; the kernel's xz takes up to 128 MiB
_LZ4_BLOCK = 8 << 20  # what each block of the legacy frame but the last unpacks to

# How each format begins: magic bytes, as the kernel's scripts/extract-vmlinux tells them apart.
_MAGIC = {
    b"\x1f\x8b\x08": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
    b"\x5d\0\0": "lzma",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x02\x21\x4c\x18": "lz4",  # the legacy frame, which the kernel's makefiles ask lz4 for
    b"\x04\x22\x4d\x18": "lz4 frame",
    b"\x89LZO": "lzo",
}
_UNKNOWN = {"lzo"}


def format_of(content: bytes) -> str:
    """Return the name of the format that content is packed in, "" where it is in none."""
    return next((name for magic, name in _MAGIC.items() if content.startswith(magic)), "")


def unpack(content: bytes, name: str) -> bytes:
    """Return what is packed in content, whatever stands behind it; name is what errors call it.

    InputError where the format is not known, or the content is damaged or too large.
    """
    how = format_of(content)
    if how in _UNKNOWN:
        raise InputError(f"{name} is packed with {how}, which is not read: unpack it first")
    try:
        return _joined(_CHUNKS[how](content), f"{name} ({how})")
    except InputError:
        raise
    except Exception as error:  # each library has errors of its own for what is damaged
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{name} cannot be unpacked as {how}: {said}") from None


def _joined(chunks: Iterator[bytes], name: str) -> bytes:
    """Return all chunks as one, unless a few bytes become very many."""
    out: list[bytes] = []
    size = 0
    for chunk in chunks:
        out.append(chunk)
        size += len(chunk)
        if size > _MOST:
            raise InputError(f"{name} unpacks to more than {_MOST >> 20} MiB")
    return b"".join(out)


class _CutShortError(Exception):
    """A packed file ends before what is in it does."""

    def __init__(self) -> None:
        super().__init__("it is cut short")


def _gzip(content: bytes) -> Iterator[bytes]:
    stream, left = zlib.decompressobj(31), content
    while not stream.eof:
        chunk = stream.decompress(left, _STEP)
        left = stream.unconsumed_tail
        if not chunk and not left and not stream.eof:
            raise _CutShortError
        yield chunk


class _Stepwise(Protocol):
    """What decompressors of bz2, lzma and lz4.frame have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _steps(stream: _Stepwise, content: bytes) -> Iterator[bytes]:
    left = content
    while not stream.eof:
        yield (chunk := stream.decompress(left, max_length=_STEP))
        left = b""
        if not chunk and stream.needs_input:
            raise _CutShortError


def _bzip2(content: bytes) -> Iterator[bytes]:
    return _steps(bz2.BZ2Decompressor(), content)


def _xz(content: bytes) -> Iterator[bytes]:
    return _steps(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_WINDOW), content)


def _lzma(content: bytes) -> Iterator[bytes]:
    return _steps(lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=_WINDOW), content)


def _zstd(content: bytes) -> Iterator[bytes]:
    import zstandard

    stream = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    step = 4096  # of what is packed: a block of 128 KiB may come from four bytes
    for at in range(0, len(content), step):
        yield stream.decompress(content[at : at + step])
        if stream.eof:
            return
    raise _CutShortError


def _lz4(content: bytes) -> Iterator[bytes]:
    import lz4.frame

    stream: _Stepwise = lz4.frame.LZ4FrameDecompressor()
    return _steps(stream, content)


def _legacy_lz4(content: bytes) -> Iterator[bytes]:
    """Yield blocks of lz4 behind the legacy frame's magic number, each with its size before it."""
    import lz4.block

    at = 4
    while len(content) - at >= 4:
        size = int.from_bytes(content[at : at + 4], "little")
        if size > _LZ4_BLOCK + _LZ4_BLOCK // 255 + 16 or size == 0:
            return  # no block: the kernel puts the size of it all there
        block = content[at + 4 : at + 4 + size]
        if len(block) < size:
            if at + 8 >= len(content):
                return  # the same, of a small one
            raise _CutShortError
        yield (chunk := lz4.block.decompress(block, uncompressed_size=_LZ4_BLOCK))
        at += 4 + size
        if len(chunk) < _LZ4_BLOCK:
            return


_CHUNKS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gzip,
    "bzip2": _bzip2,
    "xz": _xz,
    "lzma": _lzma,
    "zstd": _zstd,
    "lz4": _legacy_lz4,
    "lz4 frame": _lz4,
}
