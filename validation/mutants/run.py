"""Table of mutants of each target, and the tiers of verification that find them.

python validation/mutants/run.py --tree TREE [--tier object|boot] [-o validation/mutants/table.md]
"""

import argparse
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from variants import patch_of, read_tree

from loopwright import kernels
from loopwright.linux import edits, routines, verification, verify
from loopwright.linux.trees import Tree
from loopwright.linux.verification import PatchedVariant

HERE = Path(__file__).resolve().parent
COLUMNS = ["variant", "kind", "tier", "checks"]


@dataclass(frozen=True)
class Mutant:
    """A variant's patch with an error: kind says which, replaced is (old, new) in one file."""

    variant: str
    kind: str
    file: str
    replaced: tuple[tuple[str, str], ...]


def mutants() -> list[Mutant]:
    """Return the mutants of mutants.toml."""
    with (HERE / "mutants.toml").open("rb") as file:
        entries = tomllib.load(file)["mutant"]
    return [
        Mutant(
            entry["variant"],
            entry["kind"],
            entry["file"],
            tuple((part["old"], part["new"]) for part in (entry, entry.get("also")) if part),
        )
        for entry in entries
    ]


def subject(mutant: Mutant, tree: Tree, folder: Path) -> PatchedVariant:
    """Return a patch with the mutant's error, whose file is in folder."""
    variant = kernels.select(mutant.variant)[1][0]
    changes, _ = edits.apply(variant, routines.find(variant, tree), tree)
    files = {c.file: c.new for c in changes if c.new != c.old}
    for old, new in mutant.replaced:
        text = files.get(mutant.file) or tree.read(mutant.file)
        if text.count(old) != 1:
            raise SystemExit(
                f"{mutant.variant}, {mutant.kind}: {old!r} is not in {mutant.file} once"
            )
        files[mutant.file] = text.replace(old, new)
    return patch_of(variant, tree, files, f"{mutant.variant}: {mutant.kind}", folder)


def run(tree: Tree, tier: str, wanted: list[Mutant]) -> pd.DataFrame:
    """Verify mutants; one row for each mutant and tier, checks being those that failed."""
    rows = []
    for mutant in wanted:
        with tempfile.TemporaryDirectory() as folder:
            results = verify.run(subject(mutant, tree, Path(folder)), tier)
        for name in dict.fromkeys(results["tier"]):
            failed = results[(results["tier"] == name) & (results["status"] == verification.FAIL)]
            rows.append([mutant.variant, mutant.kind, name, tuple(failed["check"])])
            print(f"{mutant.variant}: {mutant.kind}: {name}: {', '.join(failed['check']) or '-'}",
                  file=sys.stderr, flush=True)  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def table(rows: pd.DataFrame, tree: Tree) -> str:
    """Return the rows as a table in Markdown: a tier's cell names the checks that failed."""
    tiers = list(dict.fromkeys(rows["tier"]))
    lines = [
        "# Which tier finds which error",
        "",
        f"Patches against Linux {tree.version}, each with an error of `mutants.toml`, verified by",
        "`run.py`. A cell names the checks that failed; `-`: the tier let it pass. Tier apply",
        "finds them by comparing the patch with the code that `loopwright check` ran (same code).",
        "",
        "| variant | error | " + " | ".join(tiers) + " |",
        "|---|---|" + "---|" * len(tiers),
    ]
    for (variant, kind), group in rows.groupby(["variant", "kind"], sort=False):
        failed = dict(zip(group["tier"], group["checks"], strict=True))
        cells = [_cell(failed.get(tier, ())) for tier in tiers]
        lines.append(f"| {variant} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(checks: tuple[str, ...]) -> str:
    short = dict.fromkeys(c.partition(":")[0].partition(" of ")[0] for c in checks)
    return ", ".join(short) or "-"


def main() -> None:
    """Run the mutants and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", required=True)
    parser.add_argument("--tier", default="object", choices=list(verify.TIERS))
    parser.add_argument("--only", default="", help="a part of the variants' names")
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    tree = read_tree(options.tree)
    wanted = [m for m in mutants() if options.only in m.variant]
    text = table(run(tree, options.tier, wanted), tree)
    print(text, end="")
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
