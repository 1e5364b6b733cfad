"""A copy of a kernel tree to build in: links to the tree's files, and own files where it differs.

Every folder is real and every file a symbolic link, so that a relative #include never leaves the
overlay and no build can write through it. What a build of one state left behind is brought up to
date by make: a file that has ever differed from the tree is a file of the overlay from then on,
written anew, with a new time, whenever its text changes.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from loopwright import paths
from loopwright.errors import InputError
from loopwright.linux import trees
from loopwright.linux.trees import Tree

# What a build inside the user's tree leaves there: it would make kbuild refuse the overlay.
_BUILT = {".config", ".config.old", ".git", "vmlinux", "Module.symvers", "System.map"}
_BUILT_FOLDERS = {"include/config", "include/generated"}
_BUILT_SUFFIXES = (".o", ".ko", ".a", ".cmd", ".d", ".mod", ".order")


class Overlay:
    """The overlay of one tree; held by one process at a time (see hold)."""

    def __init__(self, tree: Tree, folder: Path, lock: int) -> None:
        self.tree, self.folder, self.lock = tree, folder, lock
        self.source = folder / "source"
        self._state = folder / "changed.json"

    def put(self, files: Mapping[str, str]) -> None:
        """Make the overlay the tree with these files (path to text) changed or added."""
        self._link()
        known: list[str] = json.loads(self._state.read_text()) if self._state.exists() else []
        every = sorted({*known, *files})
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(every))
        part.replace(self._state)
        for file in every:
            path = self.source / file
            wanted = files.get(file)
            if wanted is None and self.tree.has(file):
                wanted = self.tree.read(file)
            own = path.is_file() and not path.is_symlink()
            if wanted is None:
                path.unlink(missing_ok=True)
            elif not own or path.read_text(encoding="utf-8") != wanted:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                path.write_text(wanted, encoding="utf-8")
                if path.suffix in (".sh", ".pl"):
                    path.chmod(0o755)

    def _link(self) -> None:
        """Link what the tree holds; a listing kept beside it says whether that is done already."""
        listing = sorted(_files(self.tree.root))
        digest = hashlib.sha256("\n".join(listing).encode()).hexdigest()
        mark = self.folder / "linked"
        if mark.exists() and mark.read_text() == digest:
            return
        mark.unlink(missing_ok=True)
        shutil.rmtree(self.source, ignore_errors=True)
        self._state.unlink(missing_ok=True)
        made: set[Path] = set()
        for file in listing:
            original, link = self.tree.root / file, self.source / file
            if link.parent not in made:
                link.parent.mkdir(parents=True, exist_ok=True)
                made.add(link.parent)
            link.symlink_to(original.readlink() if original.is_symlink() else original)
        mark.write_text(digest)


def _files(root: Path) -> Iterator[str]:
    """Yield the paths of a tree's files and links below it, without what builds left there."""
    pending = [""]
    while pending:
        folder = pending.pop()
        for entry in os.scandir(root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                built = path in _BUILT_FOLDERS or path.endswith("/include/generated")
                if entry.name != ".git" and not built:
                    pending.append(path)
            elif entry.name not in _BUILT and not entry.name.endswith(_BUILT_SUFFIXES):
                yield path


@contextmanager
def hold(tree: Tree) -> Iterator[Overlay]:
    """Yield the overlay of a whole tree, waiting while another process holds it.

    Programs started with the lock's descriptor passed on keep it until they end, too.
    InputError where the tree is a part of the sources.
    """
    if tree.has(trees.SUBSET) or not tree.has("scripts/Makefile.build"):
        raise InputError(
            f"{tree} holds a part of the sources: building needs a whole tree, e.g. "
            "--tree debian:6.12"
        )
    key = hashlib.sha256(str(tree.root).encode()).hexdigest()[:12]
    folder = paths.build_dir() / "verify" / f"{tree.version}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process that builds in {folder}", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield Overlay(tree, folder, file.fileno())
