"""A kernel of this repository with few of its variants, for what checks or judges all of them."""

import re
import shutil

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
