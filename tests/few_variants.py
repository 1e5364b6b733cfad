"""Copies of kernels: with few of their variants, for tests that use all variants, or changed."""

import re
import shutil
from pathlib import Path

from loopwright import paths


def few(monkeypatch, folder, family, *names):
    """Copy a kernel with the named variants alone into a folder of kernels, and use that folder."""
    shutil.copytree(paths.HOME / "kernels" / family, folder / family)
    toml = folder / family / "kernel.toml"
    head, *variants = re.split(r"(?m)^(?=\[\[variant\]\]$)", toml.read_text())
    kept = [v for v in variants if re.search(r'(?m)^name = "(.*)"$', v)[1] in names]
    assert len(kept) == len(names)
    toml.write_text("".join([head, *kept]))
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(folder))


def changed(monkeypatch, folder: Path, kernel: str, *changes, count=-1) -> Path:
    """Copy a kernel into a folder of kernels, and use that folder; return the kernel's.

    changes are (file, old text, new text); at most count places of each are changed.
    """
    shutil.copytree(paths.kernels_root() / kernel, folder / kernel)
    for file, old, new in changes:
        text = (folder / kernel / file).read_text()
        assert old in text
        (folder / kernel / file).write_text(text.replace(old, new, count))
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(folder))
    return folder / kernel
