"""The verb patch: from a kernel and a tree to patch files."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.histogram import read
from loopwright.judging.recommend import Judgement, conclude
from loopwright.judging.study import Study, comparison, gather
from loopwright.kernels import Variant
from loopwright.linux import git, routine, trees, verify
from loopwright.linux.baseline import against
from loopwright.linux.patch import conclusions
from loopwright.linux.patch.evidence import Evidence
from loopwright.linux.patch.make import MadePatch, make
from loopwright.linux.trees import Tree
from loopwright.linux.verify.subject import PatchedVariant, of_patch

COLUMNS = ["kernel", "variant", "tree", "status", "subject", "files", "notes", "checks"]
NO_WINNER = "no winner"


def patch(
    spec: str,
    tree: str,
    out: Path | str,
    *,
    sizes: str | None = None,
    quick: bool = False,
    stored: bool = False,
    microarch: str | None = None,
    parameters: Mapping[str, str] | None = None,
    tier: str | None = None,
    said: Callable[[dict[str, object]], None] | None = None,
) -> pd.DataFrame:
    """Make a patch of KERNEL/VARIANT, or of the winner of each routine of KERNEL.

    tree is a Linux source tree (only read), or debian:6.12; patch files go into the folder out.
    sizes, quick, stored, microarch and parameters are as for recommend. Returns one row a variant:
    status is "written", "already there", or "no winner" (notes say why). Variants whose changes are
    the same patch are one row.
    tier (apply, object, boot) has each patch verified up to there, or the tree itself where it has
    the variant already: checks holds those rows (see tree.verify.run), which also go to said
    one by one. InputError where no patch can be made, or the variant breaks its contract.
    """
    kernel, variants = kernels.select(spec)
    found = trees.find(tree, whole=tier is not None and tier != "apply")
    assert found.path is not None  # a tree that is named and cannot be had is an InputError
    histogram = read(sizes) if sizes else None
    source = trees.read(found.path)
    git.refuse_inside(source, Path(out))
    if tier:
        verify.require(kernel.isa, tier)
    with against(kernel, source) as (seen, compared):
        study = gather(
            seen.id,
            sizes=histogram,
            quick=quick,
            stored=stored,
            microarch=microarch,
            parameters=parameters,
        )
        # Both may assemble the tree's own functions, which are there for so long.
        concluded = conclude(study, histogram)
        judged, found_out = concluded.rows, evidence(study, concluded)
    rows: list[dict[str, object]] = []
    if spec.rstrip("/") == kernel.id:
        won = judged[judged["winner"] != ""]
        variants = [kernel.variants[name] for name in won["winner"]]
        rows = [
            {"kernel": kernel.id, "variant": "", "tree": found.note, "status": NO_WINNER,
             "subject": "", "files": [], "notes": [f"{row['routine']}: {row['reason']}"],
             "checks": []}
            for row in judged[judged["winner"] == ""].to_dict("records")
        ]  # fmt: skip
    done: set[str] = set()
    for variant in variants:
        if variant.id in done:
            continue
        check = study.checks.set_index("variant").loc[variant.name]
        if not check["passed"]:
            raise InputError(f"{variant.id} breaks its contract: {check['failure']}")
        made = make(variant, found.path, Path(out), found_out)
        done |= {v.id for v in routine.together(variant)}
        checks = _verified(variant, made, source, tier, said) if tier else pd.DataFrame()
        if made.files and tier and (left := verify.open_points(checks)):
            # Its message has to say so.
            made = make(variant, found.path, Path(out), replace(found_out, unproven=left))
        rows.append(
            {"kernel": kernel.id, "variant": variant.name, "tree": made.tree,
             "status": made.status, "subject": made.subject,
             "files": [str(f) for f in made.files],
             "notes": [*made.notes, compared[variant.routine]], "checks": _records(checks)}
        )  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def _verified(
    variant: Variant,
    made: MadePatch,
    tree: Tree,
    tier: str,
    said: Callable[[dict[str, object]], None] | None,
) -> pd.DataFrame:
    """Verify what was made, or the tree as it is where nothing had to be."""
    if made.files:
        subject = of_patch(variant, tree, made.files[0])
    else:
        subject = PatchedVariant(tree, (variant,), {}, None)
    return verify.run(subject, tier, said)


def _records(rows: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(k): v for k, v in row.items()} for row in rows.to_dict("records")]


def evidence(study: Study, concluded: Judgement) -> Evidence:
    """Return what a patch's message says: of every routine, since a patch may touch several."""
    kernel = study.kernel
    return Evidence(
        table=comparison(study),
        measurements=study.measurements,
        checks=study.checks,
        judged=conclusions.of_all(study, concluded),
        unmeasured=study.unmeasured,
        baselines={r.name: r.baseline for r in kernel.routines.values()},
        words={name: variant.summary for name, variant in kernel.variants.items()},
    )
