"""The verb patch: from a kernel and a tree to patch files."""

from pathlib import Path

import pandas as pd

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.histogram import read
from loopwright.patch import tree as trees
from loopwright.patch.evidence import Evidence
from loopwright.patch.make import make
from loopwright.recommend import judge
from loopwright.study import Study, gather

COLUMNS = ["kernel", "variant", "tree", "status", "subject", "files", "notes"]
NO_WINNER = "no winner"


def patch(
    spec: str, tree: str, out: Path | str, *, sizes: str | None = None, quick: bool = False
) -> pd.DataFrame:
    """Make a patch of KERNEL/VARIANT, or of the winner of each routine of KERNEL.

    tree is a Linux source tree (only read), or debian:6.12; patch files go into the folder out.
    sizes and quick are as for recommend. Returns one row a variant: status is "written", "already
    there", or "no winner" (notes say why). InputError where no patch can be made, or the variant
    breaks its contract.
    """
    kernel, variants = kernels.select(spec)
    found = trees.find(tree)
    assert found.path is not None  # a tree that is named and cannot be had is an InputError
    histogram = read(sizes) if sizes else None
    study = gather(kernel.id, sizes=histogram, quick=quick)
    judged = judge(study, histogram)
    rows: list[dict[str, object]] = []
    if spec.rstrip("/") == kernel.id:
        won = judged[judged["winner"] != ""]
        variants = [kernel.variants[name] for name in won["winner"]]
        rows = [
            {"kernel": kernel.id, "variant": "", "tree": found.note, "status": NO_WINNER,
             "subject": "", "files": [], "notes": [f"{row['routine']}: {row['reason']}"]}
            for row in judged[judged["winner"] == ""].to_dict("records")
        ]  # fmt: skip
    for variant in variants:
        check = study.checks.set_index("variant").loc[variant.name]
        if not check["passed"]:
            raise InputError(f"{variant.id} breaks its contract: {check['failure']}")
        made = make(variant, found.path, Path(out), evidence(study, judged))
        rows.append(
            {"kernel": kernel.id, "variant": variant.name, "tree": made.tree,
             "status": made.status, "subject": made.subject,
             "files": [str(f) for f in made.files], "notes": list(made.notes)}
        )  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def evidence(study: Study, recommendation: pd.DataFrame) -> Evidence:
    """Return what a patch's message says: of every routine, since a patch may touch several."""
    rows = recommendation.to_dict("records")
    one = len(rows) == 1
    return Evidence(
        predictions=study.predictions,
        measurements=study.measurements,
        checks=study.checks,
        summary="; ".join(r["reason"] if one else f"{r['routine']}: {r['reason']}" for r in rows),
        confidence="; ".join(dict.fromkeys(str(r["confidence"]) for r in rows)),
        unmeasured=study.unmeasured,
    )
