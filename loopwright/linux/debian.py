"""Debian's linux-source packages: fetched once, the files that patches need kept in the cache."""

import fcntl
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loopwright import paths
from loopwright.errors import InputError

_INSTALLED = Path("/usr/src")
SUBSET = ".loopwright-subset"  # marks a cached tree, which holds a part of the sources only
# What patches touch or look into, what checkpatch.pl reads, and one file in each of the folders
# by which checkpatch.pl knows the top of a kernel tree.
_MEMBERS = (
    "Makefile",
    "Kbuild",
    "COPYING",
    "CREDITS",
    "MAINTAINERS",
    "README",
    "Documentation/dev-tools/checkpatch.rst",
    "Documentation/admin-guide/kernel-parameters.txt",
    "drivers/Makefile",
    "init/Makefile",
    "ipc/Makefile",
    "kernel/*.c",
    "lib/*.c",
    "fs/*.c",
    "include/linux",
    "include/uapi/linux/eventpoll.h",
    "arch/x86/lib",
    "arch/x86/include/asm",
    "arch/arm64/lib",
    "arch/arm64/include/asm",
    "arch/arm64/kernel/*.c",
    "arch/arm64/kernel/pi",
    "scripts/checkpatch.pl",
    "scripts/spelling.txt",
    "scripts/const_structs.checkpatch",
)


class UnavailableError(Exception):
    """The package cannot be had on this machine: one line that says why."""


def package(series: str) -> str:
    """Return the name of the package with a kernel series, e.g. 6.12; InputError where odd."""
    if not re.fullmatch(r"\d+\.\d+", series):
        raise InputError(f"debian:{series} names no kernel series; write e.g. debian:6.12")
    return f"linux-source-{series}"


def cached(series: str) -> Path | None:
    """Return the tree of a kernel series that was fetched before, the whole one if there is."""
    tree = paths.cache_dir() / package(series)
    return next((p for p in (tree.with_name(f"{tree.name}-whole"), tree) if p.is_dir()), None)


def fetch(series: str, *, whole: bool = False) -> Path:
    """Return the cached tree of a kernel series, fetched before if need be; UnavailableError.

    It holds what patches touch, or all that the package holds (1.7 GB), which builds need.
    """
    name = package(series)
    cache = paths.cache_dir()
    tree, all_of_it = cache / name, cache / f"{name}-whole"
    if all_of_it.is_dir():
        return all_of_it
    if whole:
        tree = all_of_it
    elif tree.is_dir():
        return tree
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _lock(cache / f"{name}.lock"):
            if not tree.is_dir():
                _fetch(name, cache, tree, whole)
    except OSError as error:
        raise UnavailableError(f"the cache {cache} cannot be written ({error.strerror})") from None
    return tree


def _fetch(name: str, cache: Path, tree: Path, whole: bool) -> None:
    for stale in cache.glob(f"{name}.part-*"):
        shutil.rmtree(stale, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{name}.part-", dir=cache))
    try:
        (part / "tree").mkdir()
        _unpack(_archive(name, part), part / "tree", whole)
        (part / "tree").rename(tree)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock file, so that two processes do not fetch the same package at once."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another process that fetches into {path.parent}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _archive(name: str, folder: Path) -> Path:
    """Return the package's source archive: the installed one, else a downloaded one's."""
    installed = _INSTALLED / f"{name}.tar.xz"
    if installed.is_file():
        _say(f"unpacking kernel files from {installed}")
        return installed
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if not shutil.which(tool):
            raise UnavailableError(f"Debian's {name} needs {tool}, which is not here")
    listed = _run(["apt-cache", "show", "--no-all-versions", name], folder)
    size = re.search(r"(?m)^Size: (\d+)$", listed.stdout)
    exact = re.search(rf"(?m)^Package: {re.escape(name)}$", listed.stdout)  # apt takes patterns
    if listed.returncode or size is None or exact is None:
        raise UnavailableError(f"apt knows no package {name} (try `apt-get update`)")
    _say(f"downloading Debian's {name} with apt-get, {int(size[1]) / 1e6:.0f} MB, once")
    done = _downloaded(["apt-get", "download", "-q", name], folder, int(size[1]))
    debs = list(folder.glob("*.deb"))
    if done.returncode or len(debs) != 1:
        last = (done.stderr.strip().splitlines() or ["no package came"])[-1]
        raise UnavailableError(f"apt-get download {name} failed: {last}")
    done = _run(["dpkg-deb", "-x", debs[0].name, "package"], folder)
    inside = folder / "package" / "usr/src" / f"{name}.tar.xz"
    if done.returncode or not inside.is_file():
        raise UnavailableError(f"{debs[0].name} holds no usr/src/{name}.tar.xz")
    debs[0].unlink()
    return inside


def _unpack(archive: Path, into: Path, whole: bool) -> None:
    """Unpack all, or the members that patches need; those that a series lacks are no error."""
    top = archive.name.removesuffix(".tar.xz")
    members = [] if whole else [f"{top}/{member}" for member in _MEMBERS]
    command = ["tar", "-xJf", str(archive), "--strip-components=1", "--wildcards"]
    done = _run([*command, "--no-wildcards-match-slash", "-C", str(into), *members], into)
    missing = "Not found in archive"
    others = [
        line
        for line in done.stderr.splitlines()
        if missing not in line and "Exiting with failure status" not in line
    ]
    if (done.returncode and others) or not (into / "Makefile").is_file():
        raise UnavailableError(
            f"{archive} cannot be unpacked: {(others or ['no Makefile in it'])[0]}"
        )
    if not whole:
        (into / SUBSET).write_text("Only the files that loopwright's patches need.\n")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _downloaded(command: list[str], folder: Path, size: int) -> subprocess.CompletedProcess[str]:
    """Run a download into a folder; on a terminal show its bytes, of size, as a bar."""
    if not sys.stderr.isatty():
        return _run(command, folder)
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, console=Console(stderr=True), transient=True) as bar,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        task = bar.add_task("", total=size)
        while True:
            try:
                out, err = process.communicate(timeout=0.2)
            except subprocess.TimeoutExpired:
                there = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
                bar.update(task, completed=min(there, size))
            else:
                return subprocess.CompletedProcess(command, process.returncode, out, err)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
