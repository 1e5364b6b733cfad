"""Write what was found about kernels into a folder: a report, its tables, patches."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from loopwright import hosts, kernels
from loopwright.compare import table
from loopwright.histogram import read
from loopwright.recommend import judge
from loopwright.report import files, patches, text
from loopwright.report.findings import Finding
from loopwright.study import gather


def report(
    kernel_ids: Sequence[str],
    out: Path,
    *,
    sizes: str | None = None,
    quick: bool = False,
    patch: bool = False,
    tree: str | None = None,
    said: Callable[[str], None] = print,
) -> list[Finding]:
    """Study kernels (all where none is named); write a report, tables and the host's record.

    All goes into the folder out. With patch, each winner is made into a patch against tree (a
    path; Debian's package where None) below out/patches. said gets a line about each step. Files
    appear whole or not at all.
    """
    histogram = read(sizes) if sizes else None
    ids = list(kernel_ids) or kernels.ids()
    for kernel_id in ids:
        kernels.load(kernel_id)
    linux = patches.find_tree(tree, said) if patch else None
    findings = []
    with files.staged(out) as folder:
        for number, kernel_id in enumerate(ids, 1):
            said(f"[{number}/{len(ids)}] {kernel_id}: predict, check, measure")
            found = gather(kernel_id, sizes=histogram, quick=quick)
            judged = judge(found, histogram)
            finding = Finding(found, table(found), judged)
            if linux is not None:
                finding = patches.add(finding, linux, folder, said)
            findings.append(finding)
        _tables(findings, folder)
        host = hosts.describe()
        (folder / "host.json").write_text(json.dumps(host, indent=1) + "\n")
        (folder / "report.txt").write_text(text.render(findings, host, linux))
    said(f"written: {out / 'report.txt'}")
    return findings


def _tables(findings: list[Finding], folder: Path) -> None:
    tables = {
        "predictions": [f.study.predictions for f in findings],
        "checks": [f.study.checks for f in findings],
        "measurements": [f.study.measurements for f in findings if len(f.study.measurements)],
        "compare": [f.table for f in findings],
        "recommendations": [f.recommendation for f in findings],
    }
    for name, parts in tables.items():
        if parts:
            whole = pd.concat([p for p in parts if not p.empty], ignore_index=True)
            whole = whole.drop(columns="raw", errors="ignore")  # the results store has them
            whole.to_csv(folder / f"{name}.csv", index=False)
