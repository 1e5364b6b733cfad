"""Debian's Linux trees, and what tests do with them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from loopwright import kernels
from loopwright.tree import debian
from loopwright.tree.patch import Identity

SOMEONE = Identity("Some One", "some.one@example.org")


def linux(series: str) -> Path:
    """A Linux tree: below LOOPWRIGHT_TREES, else Debian's package in the cache, else skipped."""
    given = os.environ.get("LOOPWRIGHT_TREES")
    if given and (Path(given) / debian.package(series)).is_dir():
        return Path(given) / debian.package(series)
    try:
        return debian.fetch(series)
    except debian.UnavailableError as reason:
        pytest.skip(
            f"no Linux {series} tree: {reason}; set LOOPWRIGHT_TREES to a folder that holds "
            f"{debian.package(series)}, e.g. unpacked from Debian's package of that name"
        )


def variant(spec: str) -> kernels.Variant:
    return kernels.select(spec)[1][0]


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Maintainer", "-c", "user.email=maintainer@example.org"]
    command = ["git", *who, *arguments]
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
    below = [
        p
        for part in ("arch/x86/lib", "arch/arm64/lib", "include/linux", "scripts")
        for p in (root / part).rglob("*")
    ]
    return {(str(p), p.lstat().st_size, p.lstat().st_mtime_ns) for p in [root, *below]}
