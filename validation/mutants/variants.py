"""Hold variants with an error (variants.toml) to their contracts, and patches of them to a tier.

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

from loopwright import kernels, paths
from loopwright.checking import check
from loopwright.kernels import Variant
from loopwright.linux import edits, routines, trees, verification, verify
from loopwright.linux.trees import Repository, Tree
from loopwright.linux.verification import of_patch

HERE = Path(__file__).resolve().parent
NOT_PROVEN = "not proven"


@dataclass(frozen=True)
class Wrong:
    """A variant with an error: its class, what it is, the file, and what is replaced there."""

    variant: str
    group: str
    kind: str
    source: str
    replaced: tuple[tuple[str, str], ...]
    harmless: str = ""


def wrong(path: Path = HERE / "variants.toml") -> list[Wrong]:
    """Return the mutants of a file."""
    with path.open("rb") as file:
        entries = tomllib.load(file)["mutant"]
    return [_of(entry) for entry in entries]


def _of(entry: dict[str, Any]) -> Wrong:
    also = tuple((one["old"], one["new"]) for one in entry.get("also", ()))
    own = kernels.select(entry["variant"])[1][0].source.name
    return Wrong(
        entry["variant"], entry["class"], entry["kind"], entry.get("source", own),
        ((entry["old"], entry["new"]), *also), entry.get("harmless", ""),
    )  # fmt: skip


@contextmanager
def changed(mutant: Wrong) -> Iterator[Variant]:
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
        before = os.environ.get("LOOPWRIGHT_KERNELS")
        os.environ["LOOPWRIGHT_KERNELS"] = str(root)
        try:
            yield kernels.select(mutant.variant)[1][0]
        finally:
            if before is None:
                del os.environ["LOOPWRIGHT_KERNELS"]
            else:
                os.environ["LOOPWRIGHT_KERNELS"] = before


def checked(variant: Variant) -> str:
    """Return what `check` says of a variant that does not hold, or is not proven; else nothing."""
    [row] = check.run([variant]).to_dict("records")
    if not row["passed"]:
        return str(row["failure"])
    return str(row["coverage"]) if row["coverage"] != "100 %" else ""


def verified(variant: Variant, tree: Tree, folder: Path) -> str:
    """Return the checks that a variant's patch fails up to tier object; else nothing."""
    changes, _ = edits.apply(variant, routines.find(variant, tree), tree)
    files = {c.file: c.new for c in changes if c.new != c.old}
    repository = Repository(folder / "work", None)
    repository.commit({f: tree.read(f) for f in files}, "As they are\n")
    repository.commit(files, f"{variant.id}: a mutant\n\nA mutant.\n")
    made = repository.git("format-patch", "-1", "-o", str(folder / "made")).strip()
    rows = verify.run(of_patch(variant, tree, Path(made)), "object")
    failed = rows[rows["status"] == verification.FAIL]
    return ", ".join(dict.fromkeys(str(c).partition(" of ")[0] for c in failed["check"]))


def main() -> int:
    """Run the mutants and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of a variant, class or kind")
    parser.add_argument("--tree")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    tree = None
    if given.tree:
        found = trees.find(given.tree, whole=True)
        assert found.path is not None
        tree = trees.read(found.path)
    through, lines = 0, []
    for mutant in wrong():
        if given.only not in f"{mutant.variant} {mutant.group} {mutant.kind}":
            continue
        with changed(mutant) as variant, tempfile.TemporaryDirectory() as folder:
            said = checked(variant)
            by_object = verified(variant, tree, Path(folder)) if tree else ""
        right = (not said) if mutant.harmless else bool(said or by_object)
        through += not right
        cells = [mutant.variant, mutant.group, mutant.kind, said.replace("|", "\\|") or "-"]
        lines.append(f"| {' | '.join([*cells, by_object or '-'] if tree else cells)} |")
        print(f"{'' if right else 'GETS THROUGH: '}{lines[-1]}", file=sys.stderr, flush=True)
    heads = ["variant", "class", "error", "check", *(["tier object"] if tree else [])]
    table = ["# Wrong variants, and what finds them", "",
             "By `variants.py`: what `loopwright check` says of each variant of `variants.toml`,",
             "and which checks of tier object its patch fails; `-`: nothing.", "",
             f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines]  # fmt: skip
    if given.out:
        given.out.write_text("\n".join(table) + "\n")
    return int(through > 0)


if __name__ == "__main__":
    raise SystemExit(main())
