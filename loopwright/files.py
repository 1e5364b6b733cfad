"""Files and folders that appear whole or not at all."""

import csv
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from loopwright.errors import InputError

CODE_MAGICS = (b"\x7fELF", b"!<arch>\n")  # beginnings of ELF files and of archives
_FIX = "name another place"
_SCRATCH_PREFIX = ".partial-"  # of names of incomplete files and folders
_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Errors of a place that cannot be written to. Others are faults of the program.
_UNWRITABLE_ERRORS = (
    *_FULL_ERRORS, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EEXIST, errno.ENOTDIR,
    errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EMFILE, errno.ENFILE,
)  # fmt: skip


def content(path: Path, *, regular: bool = False) -> bytes:
    """Return the bytes of a file that a user names; InputError if they cannot be read.

    Devices, which may have no end, are refused; regular refuses pipes, too.
    """
    try:
        return finite(path, regular=regular).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def csv_rows(path: Path) -> Sequence[Mapping[str, str]]:
    """Return the rows of a CSV without its comments, read again only where it has changed."""
    return _csv_rows(path, path.stat().st_mtime_ns)


@cache
def _csv_rows(path: Path, mtime_ns: int) -> Sequence[Mapping[str, str]]:
    del mtime_ns  # a part of the cache's key alone: the file may change while this process lives
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def finite(path: Path, *, regular: bool = False) -> Path:
    """Return a path that a user names; InputError if it is a device, or a pipe if regular."""
    device = path.is_char_device() or path.is_block_device()
    if device or (regular and path.is_fifo()):
        raise InputError(f"{path} is a pipe or a device: name a regular file")
    return path


def refusal(error: OSError, place: object = None, fix: str = _FIX) -> InputError:
    """Return the error for a place that the system does not allow to write or use.

    place is the file to write; left out, it is the file that the error names. fix is the way to
    name another place. Any other OSError is a fault of the program and is raised again.
    """
    if error.errno == errno.ENOENT and "temporary directory" in (error.strerror or ""):
        return InputError("no folder for temporary files can be written; let TMPDIR name one")
    # Folders such as /proc exist and take no file; others were made before.
    impossible = (errno.ENOENT,) if _SCRATCH_PREFIX in str(error.filename) else ()
    if error.errno is None or error.errno not in (*_UNWRITABLE_ERRORS, *impossible):
        raise error
    where = error.filename2 or error.filename if place is None else place
    if error.errno in _FULL_ERRORS:
        fix = f"make room there or {fix}"
    return InputError(f"cannot write {where or 'the output'}: {os.strerror(error.errno)}; {fix}")


@contextmanager
def writing(place: Path, fix: str = _FIX) -> Iterator[None]:
    """Turn the errors of writing to place, or beside it, into an InputError with its name.

    fix is the way to name another place.
    """
    try:
        yield
    except OSError as error:
        failed = error.filename2 or error.filename
        if failed is not None and not _near(Path(os.fsdecode(failed)), place):
            raise
        raise refusal(error, place, fix) from None


def _near(path: Path, place: Path) -> bool:
    """True if path is in the folder of place, or place in path."""
    full, folder = path.absolute(), place.absolute().parent
    return full.is_relative_to(folder) or folder.is_relative_to(full)


@contextmanager
def replaced(path: Path, fix: str = _FIX) -> Iterator[Path]:
    """Yield a file name beside path; what is written there replaces path when the block ends.

    Folders are made. When the block fails or is interrupted, path is as it was. InputError if
    path cannot be written; fix says how another place is named.
    """
    with writing(path, fix), _folder(path.parent):
        part = path.parent / _scratch_name()
        try:
            yield part
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def written(path: Path, content: bytes | str) -> Path:
    """Write a whole file (text as UTF-8) and return its path; InputError if it is refused."""
    with replaced(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Yield a scratch folder whose content moves into out when the block ends.

    Entries of out with the same name are replaced; others stay. When the block fails or is
    interrupted, out is as it was. InputError if out cannot be written.
    """
    with writing(out), _folder(out):
        scratch = out / _scratch_name()
        try:
            scratch.mkdir()
            yield scratch
            for entry in sorted(scratch.iterdir()):
                target = out / entry.name
                if target.is_dir():
                    shutil.rmtree(target)
                entry.replace(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def check_writable(path: Path) -> None:
    """Raise InputError unless a file can be written to a path, whose folders may be missing."""
    existing = next(folder for folder in path.absolute().parents if folder.exists())
    if not existing.is_dir():
        raise InputError(f"cannot write {path}: {existing} is not a folder; {_FIX}")
    part = existing / _scratch_name()
    try:
        part.touch()
        part.unlink()
    except OSError as error:
        raise refusal(error, path) from None


def made_folder(path: Path) -> Path:
    """Make a folder and its parents, and return it; InputError if that is refused."""
    with writing(path):
        _make(path)
    return path


def made_once(path: Path, make: Callable[[Path], object], fix: str = _FIX) -> Path:
    """Return a file that make writes unless it is there already; fix is replaced's."""
    if not path.exists():
        with replaced(path, fix) as part:
            make(part)
    return path


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:  # of folders that take no others, such as /proc
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(folder)) from error


def _scratch_name() -> str:
    return f"{_SCRATCH_PREFIX}{secrets.token_hex(6)}"


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; remove those that the block, when it fails, leaves empty."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        _make(folder)
        yield
    except BaseException:
        for each in missing:
            try:
                each.rmdir()
            except OSError:
                break
        raise
