"""Which files below a folder hold code to scan, each content once."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from loopwright.errors import InputError

_MAGIC = (b"\x7fELF", b"!<arch>\n")
_BOOT = {510: b"\x55\xaa", 56: b"ARM\x64"}  # boot sectors of x86, Images of arm64
_PACKED = (".gz", ".xz", ".zst", ".lz4", ".lzma", ".bz2")
_KERNELS = ("vmlinu", "Image", "zImage", "bzImage")  # how packed kernels are called
_STEP = 1 << 20


def listed(folder: Path) -> tuple[list[Path], dict[Path, Path]]:
    """Return the files to scan, by path, and which others have the same content as one of them.

    They are objects, archives, libraries, programs, kernels and modules, packed ones as well, told
    by how they begin; links are not followed. InputError where the folder holds none.
    """
    found = sorted(path for path in _files(folder) if _holds_code(path))
    if not found:
        raise InputError(f"{folder} holds no file with code: no ELF file, archive or kernel")
    by_size: dict[int, list[Path]] = {}
    for path in found:
        by_size.setdefault(path.stat().st_size, []).append(path)
    first: dict[tuple[int, str], Path] = {}
    same = {}
    for path in found:
        size = path.stat().st_size
        if len(by_size[size]) > 1:
            one = first.setdefault((size, _digest(path)), path)
            if one != path:
                same[path] = one
    return [path for path in found if path not in same], same


def _files(folder: Path) -> Iterator[Path]:
    def shut(error: OSError) -> None:
        raise InputError(f"{error.filename}: {error.strerror}")

    for root, _, names in os.walk(folder, onerror=shut):
        for name in names:
            path = Path(root, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _holds_code(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        return True  # which the scan of it says
    if head.startswith(_MAGIC):
        return True
    if any(head[at : at + len(magic)] == magic for at, magic in _BOOT.items()):
        return True
    module = ".ko." in path.name and path.suffix in _PACKED
    return module or (path.name.startswith(_KERNELS) and path.suffix in (*_PACKED, ""))


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(_STEP):
                digest.update(part)
    except OSError:
        return str(path)
    return digest.hexdigest()
