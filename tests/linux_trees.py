"""Debian's Linux trees, and helpers for them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from loopwright import kernels
from loopwright.linux import trees
from loopwright.linux.trees import Identity, Tree

SOMEONE = Identity("Some One", "some.one@example.org")


BUILT = "6.12"  # the series whose objects tests build: fetched whole, so that it is fetched once


def _lacking() -> str:
    """Return a missing tool that building kernel objects needs, "" if none is missing."""
    for tool in ("make", "flex", "bison", "bc", "aarch64-linux-gnu-gcc"):
        if not shutil.which(tool):
            return tool
    return "" if Path("/usr/include/libelf.h").is_file() else "libelf (`apt install libelf-dev`)"


def _tree(series: str, marker: str, whole: bool) -> Path:
    unpacked = Path(os.environ.get("LOOPWRIGHT_TREES") or "/nonexistent") / trees.debian_package(
        series
    )
    if (unpacked / marker).exists():
        return unpacked
    try:
        return trees.fetch_debian(series, whole=whole)
    except trees.UnavailableError as reason:
        pytest.skip(
            f"no Linux {series} tree: {reason}; set LOOPWRIGHT_TREES to a folder that holds "
            f"{trees.debian_package(series)}, unpacked from Debian's package of that name"
        )


def linux(series: str) -> Path:
    """Return a Linux tree: below LOOPWRIGHT_TREES, else Debian's package, else skip."""
    return _tree(series, ".", whole=series == BUILT and not _lacking())


def whole_tree(series: str) -> Tree:
    """Return a whole Linux tree whose objects can be built here; skip without one."""
    if lacking := _lacking():
        pytest.skip(f"building kernel objects needs {lacking}: install it")
    return trees.read(_tree(series, "scripts/Makefile.build", whole=True))


def part_of(root: Path, folder: Path, *files: str) -> Path:
    """Copy files of a tree, and those that its checkpatch reads, into a folder: a small tree."""
    for part in ("Makefile", "Kbuild", "scripts/checkpatch.pl", "scripts/spelling.txt",
                 "scripts/const_structs.checkpatch", *files):  # fmt: skip
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / part, folder / part)
    return folder


def variant(spec: str) -> kernels.Variant:
    return kernels.select(spec)[1][0]


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Maintainer", "-c", "user.email=maintainer@example.org"]
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def touched(patch: str) -> list[str]:
    return re.findall(r"(?m)^\+\+\+ b/(.*)$", patch)


def pristine(root: Path, patch: Path, into: Path) -> Path:
    """A git repository with the tree's own files that a patch touches."""
    for file in touched(patch.read_text()):
        (into / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, into / file)
    git(into, "init", "-q")
    git(into, "add", "-f", ".")
    git(into, "commit", "-q", "-m", "as they are")
    return into


def snapshot(root: Path) -> set[tuple[str, int, int]]:
    paths = [
        p
        for part in ("arch/x86/lib", "arch/arm64/lib", "include/linux", "scripts")
        for p in (root / part).rglob("*")
    ]
    return {(str(p), p.lstat().st_size, p.lstat().st_mtime_ns) for p in [root, *paths]}
