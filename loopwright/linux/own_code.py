"""Put what a tree has itself beside a kernel's variants, as one more of them and as baseline."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.kernels import Kernel, Routine, Variant
from loopwright.linux import built, target
from loopwright.linux.sources import Tree


def name_of(kernel: Kernel, routine: Routine, tree: Tree) -> str:
    """Return what the tree's own function is called as a variant, e.g. tree:6.12.117."""
    alone = len(kernel.routines) == 1
    named = f"{kernels.OWN_CODE}{tree.version}"
    return named if alone else f"{named}:{routine.name}"


def like(kernel: Kernel, routine: Routine, tree: Tree) -> Variant | None:
    """Return the variant whose code the tree's own function is, or None.

    InputError where the tree lacks the function, or it cannot be assembled outside of the kernel.
    """
    for variant in _candidates(kernel, routine):
        aim = target.find(variant, tree)
        theirs = built.code(variant, aim, tree, {}, variant.alternatives)
        if built.same(theirs, built.of_variant(variant, variant.alternatives)):
            return variant
    return None


@contextmanager
def beside(kernel_id: str, tree: Tree) -> Iterator[Kernel]:
    """Yield a kernel with the tree's own functions as further variants and as baselines.

    Until the context ends, every verb sees the kernel so. InputError where the tree has none of
    its functions, or none that assembles outside of the kernel.
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
    """Return the variants in whose surroundings the tree's text may stand, baseline first."""
    first = kernel.variants[routine.baseline]
    every = [first, *(v for v in kernel.of_routine(routine.name) if v != first)]
    # Where Linux keeps a routine does not depend on whether a patch can be made of a variant.
    return [replace(v, unpatchable="") for v in every if not (v.needs or v.switched_off)]


def _add(kernel: Kernel, routine: Routine, tree: Tree, folder: Path) -> str:
    """Write the tree's own function into a copy of the kernel; return its kernel.toml table."""
    given = like(kernel, routine, tree) or _candidates(kernel, routine)[0]
    aim = target.find(given, tree)
    built.code(given, aim, tree, {}, given.alternatives)  # InputError where it does not assemble
    files = built.sources(given, aim, tree, {})
    place = folder if len(files) == 1 else folder / "tree"
    main, *_ = names = [f"tree-{routine.name}-{n}" if len(files) == 1 else n for n in files]
    for name, text in zip(names, files.values(), strict=True):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    values = {
        "name": name_of(kernel, routine, tree),
        "routine": routine.name,
        "summary": f"{aim.name} as Linux {tree.version} has it in {aim.file}",
        "source": str((place / main).relative_to(folder)),
        "alternatives": list(given.alternatives),
        "may_change": list(given.may_change),
        "unpatchable": "it is what the tree has",
    }
    return "\n[[variant]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items())


def _write(path: Path, kernel: Kernel, added: dict[str, str], tree: Tree) -> None:
    """Add the variants to a kernel.toml and make them the baselines of their routines."""
    text = path.read_text()
    for routine in added:
        name = name_of(kernel, kernel.routines[routine], tree)
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
