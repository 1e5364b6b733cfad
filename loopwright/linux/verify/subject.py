"""Subject of verification: a patch, its tree, and the variants that it puts there."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.linux import routine
from loopwright.linux.git import GitError, Repository
from loopwright.linux.trees import Tree


@dataclass(frozen=True)
class PatchedVariant:
    """A tree with changes: files holds the text (by path) of each file that differs from it.

    variants are those whose routines it holds, one a routine. patch is the file that makes the
    changes, or None where the tree is looked at as it is.
    """

    tree: Tree
    variants: tuple[Variant, ...]
    files: Mapping[str, str]
    patch: Path | None

    @property
    def variant(self) -> Variant:
        """Return the variant that the patch was made for."""
        return self.variants[0]

    @property
    def isa(self) -> str:
        """Return the ISA of the kernel."""
        return kernels.load(self.variant.kernel).isa


def of_patch(variant: Variant, tree: Tree, patch: Path) -> PatchedVariant:
    """Return the subject that a patch file makes of a tree; InputError where git am fails."""
    try:
        files = applied(tree, patch)
    except GitError as error:
        raise InputError(f"git am does not take {patch} on {tree}: {error}") from None
    others = [v for v in routine.together(variant) if v != variant]
    return PatchedVariant(tree, (variant, *others), files, patch)


def touched(patch: Path) -> list[str]:
    """Return the files that a patch changes."""
    return re.findall(r"(?m)^\+\+\+ b/(\S+)$", patch.read_text(encoding="utf-8"))


def applied(tree: Tree, patch: Path) -> dict[str, str]:
    """Apply a patch by git am to the tree's own files in a scratch repository; GitError."""
    files = touched(patch)
    with tempfile.TemporaryDirectory(prefix="loopwright-verify-") as folder:
        repository = Repository(Path(folder) / "pristine", None)
        repository.commit({f: tree.read(f) for f in files}, "The files as the tree has them\n")
        repository.git("am", "-q", str(patch.resolve()))
        return {f: (repository.folder / f).read_text(encoding="utf-8") for f in files}
