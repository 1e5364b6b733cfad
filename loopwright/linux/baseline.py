"""A tree's own functions as variants and baselines of a kernel, and the verb baseline."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from loopwright import kernels
from loopwright.code.assemble import NotAssembledError
from loopwright.errors import InputError
from loopwright.judging.study import comparison, gather
from loopwright.kernels import Kernel, Routine, Variant
from loopwright.linux import routines, trees
from loopwright.linux.trees import Tree


def own_name(kernel: Kernel, routine: Routine, tree: Tree) -> str:
    """Return the variant name of the tree's own function, e.g. tree:6.12.117."""
    single = len(kernel.routines) == 1
    name = f"{kernels.OWN_CODE}{tree.version}"
    return name if single else f"{name}:{routine.name}"


def same_variant(kernel: Kernel, routine: Routine, tree: Tree) -> Variant | None:
    """Return the variant with the same code as the tree's own function, or None.

    InputError if the tree lacks the function, or it cannot be assembled outside of the kernel.
    """
    for variant in _candidates(kernel, routine):
        target = routines.find(variant, tree)
        theirs = routines.assembled(variant, target, tree, {}, variant.alternatives)
        if routines.same_code(theirs, routines.of_variant(variant, variant.alternatives)):
            return variant
    return None


@contextmanager
def with_own_code(kernel_id: str, tree: Tree) -> Iterator[Kernel]:
    """Yield a kernel with the tree's own functions as further variants and as baselines.

    Until the context ends, every verb sees this kernel. InputError if the tree has none of its
    functions, or none that assembles outside of the kernel.
    """
    kernel = kernels.load(kernel_id)
    with tempfile.TemporaryDirectory(prefix="loopwright-kernels-") as root:
        folder = Path(root) / kernel_id
        shutil.copytree(kernel.folder, folder)
        added: dict[str, str] = {}
        failures = []
        for routine in kernel.routines.values():
            try:
                added[routine.name] = _add(kernel, routine, tree, folder)
            except InputError as error:
                failures.append(str(error))
        if not added:
            raise InputError(failures[0])
        _write(folder / "kernel.toml", kernel, added, tree)
        before = os.environ.get("LOOPWRIGHT_KERNELS")
        os.environ["LOOPWRIGHT_KERNELS"] = root
        try:
            yield kernels.load(kernel_id)
        finally:
            del os.environ["LOOPWRIGHT_KERNELS"]
            if before is not None:
                os.environ["LOOPWRIGHT_KERNELS"] = before


def _candidates(kernel: Kernel, routine: Routine) -> list[Variant]:
    """Return the variants whose source file the tree's text may be put in, baseline first."""
    first = kernel.variants[routine.baseline]
    variants = [first, *(v for v in kernel.of_routine(routine.name) if v != first)]
    # The place of a routine in Linux does not depend on whether a variant is patchable.
    return [replace(v, unpatchable="") for v in variants if not (v.needs or v.switched_off)]


def _add(kernel: Kernel, routine: Routine, tree: Tree, folder: Path) -> str:
    """Write the tree's own function into a copy of the kernel; return its kernel.toml table."""
    template = same_variant(kernel, routine, tree) or _candidates(kernel, routine)[0]
    target = routines.find(template, tree)
    files = routines.source_texts(template, target, tree, {})
    below = folder if len(files) == 1 else folder / "tree"
    main, *_ = names = [f"tree-{routine.name}-{n}" if len(files) == 1 else n for n in files]
    for name, text in zip(names, files.values(), strict=True):
        (below / name).parent.mkdir(parents=True, exist_ok=True)
        (below / name).write_text(text)
    values = {
        "name": own_name(kernel, routine, tree),
        "routine": routine.name,
        "summary": f"{target.name} as Linux {tree.version} has it in {target.file}",
        "source": str((below / main).relative_to(folder)),
        "alternatives": list(template.alternatives),
        "may_change": list(template.may_change),
        "unpatchable": "it is what the tree has",
    }
    return "\n[[variant]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items())


def _write(path: Path, kernel: Kernel, added: dict[str, str], tree: Tree) -> None:
    """Add the variants to a kernel.toml and make them the baselines of their routines."""
    text = path.read_text()
    for routine in added:
        name = own_name(kernel, kernel.routines[routine], tree)
        line = f"baseline = {json.dumps(name)}\n"
        old = rf'(?m)^baseline\s*=\s*"{re.escape(kernel.routines[routine].baseline)}".*\n'
        head = f"[routine.{routine}]\n"
        if re.search(old, text):
            text = re.sub(old, lambda _, line=line: line, text, count=1)  # type: ignore[misc]
        elif head in text:
            text = text.replace(head, head + line)
        else:
            text = line + text
    path.write_text(text.rstrip() + "\n" + "".join(added.values()))


@contextmanager
def against(kernel: Kernel, tree: Tree) -> Iterator[tuple[Kernel, dict[str, str]]]:
    """Yield a kernel to study against a tree, and a sentence on each routine's baseline.

    Where the tree's functions are other code than the kernel's baselines, they are variants of it
    (tree:VERSION) and its baselines until the context ends.
    """
    notes, differs = {}, False
    for name, routine in kernel.routines.items():
        try:
            same = same_variant(kernel, routine, tree)
        except NotAssembledError:
            notes[name] = (
                f"Compared with {routine.baseline}, not with the tree's own code: that does not "
                "compile outside of a kernel build (loopwright baseline shows why)."
            )
            continue
        except InputError as error:
            notes[name] = f"Compared with {routine.baseline}, not with the tree's own code: {error}"
            continue
        if same and same.name == routine.baseline:
            notes[name] = f"{same.name} assembles to the code that Linux {tree.version} has."
        else:
            notes[name], differs = f"The baseline is the code of Linux {tree.version} itself.", True
    if not differs:
        yield kernel, notes
        return
    with with_own_code(kernel.id, tree) as with_own:
        yield with_own, notes


@dataclass(frozen=True)
class Compared:
    """A kernel's variants and the tree's own functions: the table of compare, and of check.

    notes name for each routine the variant with the tree's code, or the reason why it is left out.
    """

    rows: pd.DataFrame
    checks: pd.DataFrame
    notes: tuple[str, ...]


def run(kernel_id: str, tree: str, *, quick: bool = False) -> Compared:
    """Assemble a tree's own functions and run them as further variants through all verbs.

    Their names are tree:VERSION (tree:VERSION:ROUTINE where a kernel has several routines), and
    they are the baselines that vs_baseline refers to. quick leaves the measurement out.
    InputError if the tree has none of the kernel's functions.
    """
    kernel, _ = kernels.select(kernel_id)
    source = trees.named(tree)
    notes = []
    for routine in kernel.routines.values():
        name = own_name(kernel, routine, source)
        try:
            same = same_variant(kernel, routine, source)
        except InputError as error:
            notes.append(f"{routine.name}: left out: {error}")
            continue
        whose = same.name if same else "none of the variants"
        notes.append(f"{name} is the code of {whose}")
    with with_own_code(kernel.id, source):
        study = gather(kernel.id, quick=quick)
        return Compared(comparison(study), study.checks, tuple(notes))


def baseline(kernel_id: str, tree: str, *, quick: bool = False) -> pd.DataFrame:
    """Compare a tree's own functions with a kernel's variants (see judging.study.comparison)."""
    return run(kernel_id, tree, quick=quick).rows
