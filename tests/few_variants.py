"""Copies of kernels: with few of their variants, for what judges all of them, or changed."""

import re
import shutil
from pathlib import Path

from loopwright import paths


def few(monkeypatch, folder, family, *names):
    """Let a kernel have these variants alone, in a folder for copies of kernels."""
    shutil.copytree(paths.HOME / "kernels" / family, folder / family)
    described = folder / family / "kernel.toml"
    head, *variants = re.split(r"(?m)^(?=\[\[variant\]\]$)", described.read_text())
    kept = [one for one in variants if re.search(r'(?m)^name = "(.*)"$', one)[1] in names]
    assert len(kept) == len(names)
    described.write_text("".join([head, *kept]))
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(folder))


def changed(monkeypatch, folder: Path, kernel: str, *changes, count=-1) -> Path:
    """Copy a kernel into a folder of kernels, which is then the one in use; return its folder.

    changes are (file, old text, new text); at most count places of each are changed.
    """
    shutil.copytree(paths.kernels_root() / kernel, folder / kernel)
    for file, old, new in changes:
        text = (folder / kernel / file).read_text()
        assert old in text
        (folder / kernel / file).write_text(text.replace(old, new, count))
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(folder))
    return folder / kernel
