"""Write the findings about kernels into a folder: a report, its tables, patches."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pandas as pd

from loopwright import files, kernels, microarchs
from loopwright.errors import InputError
from loopwright.histogram import read
from loopwright.kernels import Kernel
from loopwright.linux import trees
from loopwright.linux.baseline import against
from loopwright.machine import hosts
from loopwright.reporting import report_page, text
from loopwright.reporting.findings import (
    Asked,
    Finding,
    cores_of,
    examine,
    with_patches,
)


def report(
    kernel_ids: Sequence[str],
    out: Path,
    *,
    sizes: str | None = None,
    quick: bool = False,
    microarch: str | None = None,
    patch: bool = False,
    tree: str | None = None,
    log: Callable[[str], None] = print,
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Study kernels (all where none is named); write a report, tables and the host's record.

    microarch ("ID[,ID]" or "all") names the cores to judge for, as recommend's does: each kernel by
    those of its ISA, and where no kernel is named those that have one. Left out: all targets.

    All goes into the folder out: index.html, the same as report.txt, the tables as CSV. With
    patch, the baselines are what tree has (a path; Debian's package where None), and each winner
    is made into a patch against it, below out/patches. log gets a line about each step, progress
    the points measured of a routine and all of them. Files appear whole or not at all.
    """
    histogram = read(sizes) if sizes else None
    every = _selected(kernel_ids, microarch)
    linux = trees.find(tree) if patch else None
    if linux:
        log(f"Linux tree: {linux.note}")
    findings = []
    with files.staged(out) as folder:
        for number, kernel in enumerate(every, 1):
            log(f"[{number}/{len(every)}] {kernel.id}: predict, check{', measure' * (not quick)}")
            with _beside_tree(kernel, linux) as (seen, baselines):
                finding = examine(
                    seen,
                    histogram,
                    quick=quick,
                    baselines=baselines,
                    microarch=cores_of(kernel, microarch),
                    progress=progress,
                )
            if linux is not None:
                finding = with_patches(finding, linux, folder, log)
            findings.append(finding)
        _tables(findings, folder)
        host = hosts.describe()
        (folder / "host.json").write_text(json.dumps(host, indent=1) + "\n")
        (folder / "report.txt").write_text(text.plain_report(findings, host, linux))
        log("drawing the page")
        asked = Asked(tuple(kernel_ids), sizes, quick, microarch, linux.note if linux else "", tree)
        (folder / "index.html").write_text(report_page.render(findings, host, asked, histogram))
    log(f"written: {out / 'report.txt'}, {out / 'index.html'}")
    return findings


def _selected(kernel_ids: Sequence[str], microarch: str | None) -> list[Kernel]:
    """Return the kernels that are named, or all that a core is asked for.

    InputError for a kernel or a core that is not known, and where they do not belong together.
    """
    cores = microarchs.select(microarch)
    if not kernel_ids:
        isas = {core.isa for core in cores}
        return [kernel for kernel in kernels.every() if kernel.isa in isas]
    every = [kernels.load(kernel_id) for kernel_id in dict.fromkeys(kernel_ids)]
    for kernel in every:
        microarchs.select(cores_of(kernel, microarch), kernel.isa)
    for core in cores if microarch not in (None, "all") else ():
        if core.isa not in {kernel.isa for kernel in every}:
            raise InputError(f"{core.id} is {core.isa}, and no kernel named is; leave it out")
    return every


def _beside_tree(
    kernel: Kernel, linux: trees.Found | None
) -> AbstractContextManager[tuple[Kernel, dict[str, str]]]:
    """Return a kernel with the tree's own functions, and a sentence on them by routine."""
    if linux is None or linux.path is None:
        return nullcontext((kernel, {}))
    return against(kernel, trees.read(linux.path))


def _tables(findings: list[Finding], folder: Path) -> None:
    tables = {
        "predictions": [f.study.predictions for f in findings],
        "checks": [f.study.checks for f in findings],
        "measurements": [f.study.measurements for f in findings],
        "compare": [f.table for f in findings],
        "recommendations": [f.recommendation for f in findings],
        "bands": [f.bands for f in findings],
        "calls": [f.calls for f in findings],
        "alignment": [f.sweep for f in findings],
        "assumptions": [f.assumed for f in findings],
    }
    for name, parts in tables.items():
        if known := [part for part in parts if not part.empty]:
            whole = pd.concat(known, ignore_index=True)
            whole = whole.drop(columns="raw", errors="ignore")  # the results store has them
            whole.to_csv(folder / f"{name}.csv", index=False)
