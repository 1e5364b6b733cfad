"""Turn the winners of a report into patches."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.linux import trees as linux_tree
from loopwright.linux.patch import make
from loopwright.reporting.findings import Finding


@dataclass(frozen=True)
class PatchedTree:
    """The Linux tree that patches are made against; root is None where there is none, name says
    which it is, or why there is none and how to get one.
    """

    root: Path | None
    name: str


def find_tree(spec: str | None, said: Callable[[str], None]) -> PatchedTree:
    """Return the tree that spec names, or Debian's package; its absence is said, no error."""
    found = linux_tree.find(spec)
    said(f"Linux tree: {found.note}")
    return PatchedTree(found.path, found.note)


def add(finding: Finding, tree: PatchedTree, folder: Path, said: Callable[[str], None]) -> Finding:
    """Write a patch for each winner below folder/patches and return the finding with notes."""
    notes: dict[str, str] = {}
    texts: dict[str, str] = {}
    for row in finding.recommendation.to_dict("records"):
        routine, winner = str(row["routine"]), str(row["winner"])
        if winner:
            notes[routine], files = _one(finding, winner, tree, folder)
            texts |= {str(path.relative_to(folder)): path.read_text() for path in files}
            said(f"  patch for {winner}: {notes[routine]}")
    return replace(finding, patches=notes, texts=texts)


def _one(finding: Finding, winner: str, tree: PatchedTree, folder: Path) -> tuple[str, list[Path]]:
    """Return what became of a winner's patch, in a line, and the files."""
    # Not the studied kernel's: with a tree's own code beside them its variants are copies.
    variant = kernels.load(finding.kernel.id).variants[winner]
    if tree.root is None:
        return tree.name, []
    if variant.unpatchable:
        return f"none: {variant.unpatchable}", []
    out = folder / "patches" / finding.kernel.id.replace("/", "-")
    try:
        made = make(variant, tree.root, out, finding.evidence)
    except InputError as error:
        return f"none: {error}", []
    if made.status != "written":
        return f"{made.status} in {tree.name}", []
    return ", ".join(str(path.relative_to(folder)) for path in made.files), list(made.files)
