"""The verb baseline: what a tree has itself, compared with a kernel's variants."""

from dataclasses import dataclass

import pandas as pd

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.judging.study import comparison, gather
from loopwright.linux import own_code as of_tree
from loopwright.linux import sources as trees


@dataclass(frozen=True)
class Compared:
    """A kernel's variants and the tree's own functions: the table of compare, and of check.

    notes says for each routine which variant the tree's function is, or why it is left out.
    """

    rows: pd.DataFrame
    checks: pd.DataFrame
    notes: tuple[str, ...]


def run(kernel_id: str, tree: str, *, quick: bool = False) -> Compared:
    """Assemble a tree's own functions and run them as further variants through all verbs.

    Their names are tree:VERSION (tree:VERSION:ROUTINE where a kernel has several routines), and
    they are the baselines that vs_baseline refers to. quick leaves the measurement out.
    InputError where the tree has none of the kernel's functions.
    """
    kernel, _ = kernels.select(kernel_id)
    found = trees.find(tree)
    assert found.path is not None  # a tree that is named and cannot be had is an InputError
    source = trees.read(found.path)
    notes = []
    for routine in kernel.routines.values():
        name = of_tree.name_of(kernel, routine, source)
        try:
            same = of_tree.like(kernel, routine, source)
        except InputError as error:
            notes.append(f"{routine.name}: left out: {error}")
            continue
        known = f"the code of {same.name}" if same else "the code of none of the variants"
        notes.append(f"{name} is {known}")
    with of_tree.beside(kernel.id, source):
        study = gather(kernel.id, quick=quick)
        return Compared(comparison(study), study.checks, tuple(notes))


def baseline(kernel_id: str, tree: str, *, quick: bool = False) -> pd.DataFrame:
    """Compare a tree's own functions with a kernel's variants (see compare.table)."""
    return run(kernel_id, tree, quick=quick).rows
