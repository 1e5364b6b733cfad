"""Check variants with an error (variants.toml), and verify patches of them.

python validation/mutants/variants.py [--only PART] [--tree TREE]
    [-o validation/mutants/variants.md]

With a tree each mutant's patch goes through the tiers up to object, too. The exit code is 1 where
an error gets through, or where what is no error does not.
"""

import argparse
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from loopwright import kernels, paths
from loopwright.checking import check
from loopwright.kernels import Variant
from loopwright.linux import edits, routines, trees, verification, verify
from loopwright.linux.trees import Repository, Tree
from loopwright.linux.verification import PatchedVariant, of_patch

HERE = Path(__file__).resolve().parent
NOT_PROVEN = "not proven"


@dataclass(frozen=True)
class WrongVariant:
    """A variant with an error: its class and kind, the file, and the replacements (old, new).

    harmless is the reason for a change that is no error, else "".
    """

    variant: str
    group: str
    kind: str
    source: str
    replaced: tuple[tuple[str, str], ...]
    harmless: str = ""


def wrong_variants(path: Path = HERE / "variants.toml") -> list[WrongVariant]:
    """Return the mutants of a file."""
    with path.open("rb") as file:
        entries = tomllib.load(file)["mutant"]
    return [_of(entry) for entry in entries]


def _of(entry: dict[str, Any]) -> WrongVariant:
    further = tuple(
        (replacement["old"], replacement["new"]) for replacement in entry.get("also", ())
    )
    own_source = kernels.select(entry["variant"])[1][0].source.name
    return WrongVariant(
        entry["variant"], entry["class"], entry["kind"], entry.get("source", own_source),
        ((entry["old"], entry["new"]), *further), entry.get("harmless", ""),
    )  # fmt: skip


@contextmanager
def changed(mutant: WrongVariant) -> Iterator[Variant]:
    """Yield the variant with its error, as one of a copy of all kernels; SystemExit without it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "kernels"
        shutil.copytree(paths.kernels_root(), root)
        source = root / mutant.variant.rpartition("/")[0] / mutant.source
        text = source.read_text()
        for old, new in mutant.replaced:
            if text.count(old) != 1:
                raise SystemExit(f"{mutant.variant}, {mutant.kind}: {old!r} is not there once")
            text = text.replace(old, new)
        source.write_text(text)
        with patch.dict(os.environ, LOOPWRIGHT_KERNELS=str(root)):
            yield kernels.select(mutant.variant)[1][0]


def checked(variant: Variant) -> str:
    """Return the failure, or the missing proof, that `check` reports of a variant; else ""."""
    [row] = check.run([variant]).to_dict("records")
    if not row["passed"]:
        return str(row["failure"])
    return str(row["coverage"]) if row["coverage"] != "100 %" else ""


def verified(variant: Variant, tree: Tree, folder: Path) -> str:
    """Return the checks, up to tier object, that a variant's patch fails; "" if it passes."""
    changes, _ = edits.apply(variant, routines.find(variant, tree), tree)
    files = {c.file: c.new for c in changes if c.new != c.old}
    patched = patch_of(variant, tree, files, f"{variant.id}: a mutant", folder)
    rows = verify.run(patched, "object")
    failed = rows[rows["status"] == verification.FAIL]
    return ", ".join(dict.fromkeys(str(c).partition(" of ")[0] for c in failed["check"]))


def patch_of(
    variant: Variant, tree: Tree, files: dict[str, str], subject: str, folder: Path
) -> PatchedVariant:
    """Return a variant with a patch of a tree's files to the given texts, made in folder."""
    repository = Repository(folder / "work", None)
    repository.commit({file: tree.read(file) for file in files}, "As they are\n")
    repository.commit(files, f"{subject}\n\nA mutant.\n")
    file = repository.git("format-patch", "-1", "-o", str(folder / "made")).strip()
    return of_patch(variant, tree, Path(file))


def read_tree(spec: str) -> Tree:
    """Return the whole Linux tree that --tree names."""
    found = trees.find(spec, whole=True)
    assert found.path is not None
    return trees.read(found.path)


def main() -> int:
    """Run the mutants and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of a variant, class or kind")
    parser.add_argument("--tree")
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    tree = read_tree(options.tree) if options.tree else None
    unexpected, lines = 0, []
    for mutant in wrong_variants():
        if options.only not in f"{mutant.variant} {mutant.group} {mutant.kind}":
            continue
        with changed(mutant) as variant, tempfile.TemporaryDirectory() as folder:
            failure = checked(variant)
            by_object = verified(variant, tree, Path(folder)) if tree else ""
        as_expected = (not failure) if mutant.harmless else bool(failure or by_object)
        unexpected += not as_expected
        cells = [mutant.variant, mutant.group, mutant.kind, failure.replace("|", "\\|") or "-"]
        lines.append(f"| {' | '.join([*cells, by_object or '-'] if tree else cells)} |")
        print(f"{'' if as_expected else 'GETS THROUGH: '}{lines[-1]}", file=sys.stderr, flush=True)
    heads = ["variant", "class", "error", "check", *(["tier object"] if tree else [])]
    table = ["# Wrong variants, and what finds them", "",
             "By `variants.py`: what `loopwright check` says of each variant of `variants.toml`,",
             "and which checks of tier object its patch fails; `-`: nothing.", "",
             f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines]  # fmt: skip
    if options.out:
        options.out.write_text("\n".join(table) + "\n")
    return int(unexpected > 0)


if __name__ == "__main__":
    raise SystemExit(main())
