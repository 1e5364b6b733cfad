"""Git: the state of a kernel tree, its user, and scratch repositories that leave the tree alone."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright.errors import InputError
from loopwright.linux.trees import Tree


@dataclass(frozen=True)
class WorkTree:
    """A kernel tree under git: its HEAD, and which of the files asked about differ from it."""

    head: str
    changed: tuple[str, ...]


def worktree_of(tree: Tree, files: Sequence[str]) -> WorkTree | None:
    """Return the state of a tree and of some of its files, None outside of git."""
    head = git_output(tree.root, "rev-parse", "--short=12", "HEAD")
    if not head:
        return None
    said = git_output(tree.root, "status", "--porcelain", "--no-renames", "-z", "--", *files) or ""
    return WorkTree(head, tuple(sorted(line[3:] for line in said.split("\0") if line)))


def made_against(tree: Tree, files: Sequence[str]) -> tuple[str, str]:
    """Say which sources a patch was made against, and warn where they are not what HEAD has."""
    known = worktree_of(tree, files)
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


def git_output(folder: Path, *arguments: str) -> str:
    """Return the output of git in a folder, "" if it fails.

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


@dataclass(frozen=True)
class Identity:
    """Author of a patch, as git knows the user."""

    name: str
    email: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


# Stands for the author where the user has no git identity: git cannot make a commit without one.
NOBODY = Identity("loopwright", "loopwright@localhost.invalid")


def user_identity(tree: Path) -> Identity | None:
    """Return the user's git identity in a kernel tree, or None where git has none; never made up.

    It is the tree's own, where it is a repository, else the user's: where one stands does not
    matter.
    """
    name = os.environ.get("GIT_AUTHOR_NAME") or git_output(tree, "config", "--get", "user.name")
    email = os.environ.get("GIT_AUTHOR_EMAIL") or git_output(tree, "config", "--get", "user.email")
    return Identity(name, email) if name and email else None


def _no_git() -> InputError:
    return InputError("git is not here, which patches need: install it with `apt install git`")


class Repository:
    """One scratch repository; the user's git configuration and hooks have no part in it."""

    def __init__(self, folder: Path, identity: Identity | None) -> None:
        self.folder = folder
        author = identity or NOBODY
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        self._environment = kept | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(folder.parent),
            "GIT_AUTHOR_NAME": author.name,
            "GIT_AUTHOR_EMAIL": author.email,
            "GIT_COMMITTER_NAME": author.name,
            "GIT_COMMITTER_EMAIL": author.email,
            "LC_ALL": "C.UTF-8",
        }
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "--initial-branch=base")

    def git(self, *arguments: str) -> str:
        """Run git and return its stdout; GitError with its stderr where it fails."""
        done = self.attempt(*arguments)
        if done.returncode:
            raise GitError(f"git {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run git and return how it ended."""
        try:
            return subprocess.run(
                ["git", *arguments],
                cwd=self.folder,
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError:
            raise _no_git() from None

    def commit(self, files: Mapping[str, str], message: str) -> None:
        """Write files (path to text) and commit them, whatever a .gitignore says."""
        for file, text in files.items():
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "-f", "--", *files)
        note = self.folder / ".git" / "message"
        note.write_text(message, encoding="utf-8")
        self.git("commit", "-q", "--cleanup=whitespace", "-F", str(note))


class GitError(Exception):
    """git refused what a patch needs: its own words."""
