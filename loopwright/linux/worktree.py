"""State of a kernel tree in git: commit, uncommitted changes, and the user."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright.errors import InputError
from loopwright.linux.sources import Tree


@dataclass(frozen=True)
class WorkTree:
    """A kernel tree under git: its HEAD, and which of the files asked about differ from it."""

    head: str
    changed: tuple[str, ...]


def of(tree: Tree, files: Sequence[str]) -> WorkTree | None:
    """Return what git knows of a tree and of some of its files, None where git knows nothing."""
    head = git(tree.root, "rev-parse", "--short=12", "HEAD")
    if not head:
        return None
    said = git(tree.root, "status", "--porcelain", "--no-renames", "-z", "--", *files) or ""
    return WorkTree(head, tuple(sorted(line[3:] for line in said.split("\0") if line)))


def said(tree: Tree, files: Sequence[str]) -> tuple[str, str]:
    """Say which sources a patch was made against, and warn where they are not what HEAD has."""
    known = of(tree, files)
    if known is None:
        return f"Made against Linux {tree.version}.", ""
    if not known.changed:
        return f"Made against Linux {tree.version}, commit {known.head}.", ""
    which = ", ".join(known.changed)
    made = f"Made against Linux {tree.version}, commit {known.head}, with changes in {which}."
    return made, (
        f"{tree.root} has changes in {which} that are not committed: the patch goes on top of "
        f"them, and git am may not take it on {known.head}"
    )


def refuse_inside(tree: Tree, out: Path) -> None:
    """Refuse a folder for patches that lies in the tree, which is only read."""
    if out.resolve().is_relative_to(tree.root):
        raise InputError(
            f"{out} lies in the kernel tree {tree.root}, which is only read: give another with -o"
        )


def git(folder: Path, *arguments: str) -> str:
    """Return what git says in a folder, "" where it has nothing to say.

    Only the folder itself is taken for a repository, none that it happens to lie in.
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE")}
    environment |= {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent), "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise InputError(
            "git is not here, which patches need: install it with `apt install git`"
        ) from None
    return done.stdout.strip("\n") if done.returncode == 0 else ""
