"""Find in a Linux tree the function that a variant would replace."""

from dataclasses import dataclass

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.kernels import Upstream, Variant
from loopwright.linux import c_text
from loopwright.linux.c_text import Span
from loopwright.linux.sources import Tree

# Below this likeness to every variant of its routine a function of a tree is another function.
RECOGNISED = 0.4


@dataclass(frozen=True)
class Target:
    """A variant's routine in a tree: its file and its name there."""

    file: str
    name: str


def place(variant: Variant) -> Upstream:
    """Return where Linux keeps the variant's routine; InputError where no patch can be made."""
    routine = kernels.load(variant.kernel).routines[variant.routine]
    if variant.unpatchable:
        raise InputError(f"{variant.id} makes no patch: {variant.unpatchable}")
    if routine.upstream is None:
        raise InputError(
            f"{variant.id} makes no patch: its kernel.toml names no [upstream] file of Linux"
        )
    return routine.upstream


def symbol(variant: Variant) -> str:
    """Return the name of the variant's function in its own source."""
    return kernels.load(variant.kernel).routines[variant.routine].contract.symbol


def find(variant: Variant, tree: Tree) -> Target:
    """Find the variant's routine in a tree.

    InputError with what was looked for and where, and where the function that has its name is
    like none of the routine's variants: its ABI may be another.
    """
    upstream = place(variant)
    content = tree.read(upstream.file, upstream.since)
    for name in upstream.replaces:
        span = function(upstream.file, content, name)
        if span:
            aim = Target(upstream.file, name)
            _recognise(variant, aim, span.of(content), tree)
            return aim
    names = " or ".join(upstream.replaces)
    since = f"; it is there since Linux {upstream.since}" if upstream.since else ""
    raise InputError(f"{upstream.file} in {tree} has no function {names}{since}")


def together(variant: Variant) -> list[Variant]:
    """Return the variants that one patch makes, in the order of kernel.toml.

    Beside the variant these are those of the kernel's other routines with the same edits.
    """
    known = kernels.load(variant.kernel).variants.values()
    if not variant.edits:
        return [variant]
    return [
        v
        for v in known
        if v == variant or (v.edits == variant.edits and v.routine != variant.routine)
    ]


def require(variant: Variant, tree: Tree) -> None:
    """Refuse a tree that lacks a name which the variant's text uses."""
    for need in variant.requires:
        if not (tree.has(need.file) and c_text.defines(tree.read(need.file), need.name)):
            since = f"; it is there since Linux {need.since}" if need.since else ""
            raise InputError(
                f"{variant.id} uses {need.name}, which {need.file} in {tree} lacks{since}"
            )


def function(file: str, content: str, name: str) -> Span | None:
    """Find a function in the text of an assembly or C file."""
    if file.endswith(".S"):
        return c_text.asm_function(content, name)
    return c_text.c_function(content, name)


def _recognise(variant: Variant, aim: Target, old: str, tree: Tree) -> None:
    own = symbol(variant)
    best = 0.0
    for known in kernels.load(variant.kernel).of_routine(variant.routine):
        for source in {known.source, *(e.source for e in known.edits if e.source)}:
            given = source.read_text()
            for name in {aim.name, own}:
                span = function(source.name, given, name)
                best = max(best, c_text.likeness(old, span.of(given))) if span else best
    if best < RECOGNISED:
        raise InputError(
            f"{aim.name} in {aim.file} of {tree} has changed beyond recognition: it is like no "
            f"variant of {variant.kernel} (likeness {best:.2f}, at least {RECOGNISED} is needed)"
        )
