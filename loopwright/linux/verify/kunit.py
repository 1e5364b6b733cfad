"""The kernel's own tests of what a patch touches: which they are, and what they said."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath

from loopwright import kernels
from loopwright.linux import routine, trees
from loopwright.linux.trees import Tree
from loopwright.linux.verify import options
from loopwright.linux.verify.outcomes import CheckError, NotProven
from loopwright.linux.verify.subject import PatchedVariant

# By the effect of a routine: the functions through which the rest of the kernel uses it.
_INTERFACES = {
    "copy": ("copy_to_user", "copy_from_user"),
    "clear": ("clear_user",),
    "store_fields": ("put_user", "unsafe_put_user", "copy_to_user"),
    "checksum": ("csum_partial", "ip_compute_csum", "csum_and_copy_from_user"),
}

_ALWAYS = ("KUNIT", "RUNTIME_TESTING_MENU")  # of a kernel that runs them


@dataclass(frozen=True)
class Suite:
    """A suite of KUnit: its name, its source, and the option that has it built."""

    name: str
    file: str
    option: str


def touching(subject: PatchedVariant) -> list[Suite]:
    """Return the suites whose sources call what the subject's routines are used by, or them."""
    names = set()
    for variant in subject.variants:
        names |= {*_INTERFACES[kernels.contract_of(variant).effect]}
        names.add(routine.find(variant, subject.tree).name)
    return calling(subject.tree, subject.isa, names)


def calling(tree: Tree, isa: str, names: Collection[str]) -> list[Suite]:
    """Return the suites whose sources call one of the functions named, or copy to or from a user.

    Those any kernel that boots has to keep.
    """
    wanted = sorted({*names, "copy_to_user", "copy_from_user"})
    called = rf"\b_*(?:{'|'.join(map(re.escape, wanted))})\("
    out = []
    for file in trees.files_holding(tree, isa, "kunit_test_suite", called):
        found = re.findall(
            r"\bstruct\s+kunit_suite\s+\w+\s*=\s*\{[^}]*?\.name\s*=\s*\"([^\"]+)\"",
            tree.read(file),
        )
        out += [Suite(name, file, _option(tree, file)) for name in found]
    return out


def small(tree: Tree, isa: str, names: Collection[str]) -> list[Suite]:
    """Return those of the same that any small kernel can have: they need nothing but KUnit."""
    return [
        suite
        for suite in calling(tree, isa, names)
        if suite.option and suite.file.startswith("lib/")
        if {*options.of_source(tree, isa, suite.file)} <= {suite.option, *_ALWAYS}
    ]


def _option(tree: Tree, file: str) -> str:
    """Return the option that has a source built, or nothing where it takes no option of its own."""
    path = PurePosixPath(file)
    makefile = str(path.parent / "Makefile")
    text = tree.read(makefile) if tree.has(makefile) else ""
    named = rf"obj-\$\(CONFIG_(\w+)\)\s*\+=[^\n]*\b{re.escape(path.stem)}\.o\b"
    found = re.search(named, text)
    return found[1] if found else ""


def judge(suite: Suite, config: str, command: list[str], console: str) -> str:
    """Say how a suite ended on a console; CheckError where it failed or was not run.

    NotProven where the configuration (the text of a .config) cannot have it.
    """
    if not re.search(rf"(?m)^CONFIG_{suite.option}=y$", config):
        raise NotProven(f"{suite.file} is not part of this kernel: CONFIG_{suite.option}")
    name = re.escape(suite.name)
    ends = re.findall(rf"(?m)^(?:\[[ \d.]+\] *)?(not ok|ok) \d+ {name}\b", console)
    totals = re.findall(rf"# {name}: (pass:\d+ fail:\d+ skip:\d+ total:\d+)", console)
    if ends != ["ok"]:
        lines = [x.strip() for x in console.splitlines() if "not ok" in x or "EXPECTATION" in x]
        raise CheckError(f"KUnit: {(lines or [f'no result of {suite.name}'])[0]}", command, console)
    return totals[0] if totals else "ok"
