"""A routine in a Linux tree: where it is, and its code, assembled as a variant's is.

The tree's text is assembled with loopwright's stand-ins for the kernel's headers, so that both come
out of the same assembler under the same alternatives.
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loopwright import kernels
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Upstream, Variant
from loopwright.linux import c_source
from loopwright.linux.c_source import Span
from loopwright.linux.trees import Tree

# Below this likeness to every variant of its routine a function of a tree is another function.
RECOGNISED = 0.4


@dataclass(frozen=True)
class Target:
    """A variant's routine in a tree: its file and its name there."""

    file: str
    name: str


def place(variant: Variant) -> Upstream:
    """Return the place of the variant's routine in Linux; InputError if it has no patch."""
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
    like none of the routine's variants, unless C calls it by a prototype: its ABI may be another.
    """
    upstream = place(variant)
    content = tree.read(upstream.file, upstream.since)
    for name in upstream.replaces:
        span = function(upstream.file, content, name)
        if span:
            aim = Target(upstream.file, name)
            if not upstream.prototype:
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
        if not (tree.has(need.file) and c_source.defines(tree.read(need.file), need.name)):
            since = f"; it is there since Linux {need.since}" if need.since else ""
            raise InputError(
                f"{variant.id} uses {need.name}, which {need.file} in {tree} lacks{since}"
            )


def function(file: str, content: str, name: str) -> Span | None:
    """Find a function in the text of an assembly or C file."""
    if file.endswith(".S"):
        return c_source.asm_function(content, name)
    return c_source.c_function(content, name)


def _recognise(variant: Variant, aim: Target, old: str, tree: Tree) -> None:
    own = symbol(variant)
    best = 0.0
    for known in kernels.load(variant.kernel).of_routine(variant.routine):
        for source in {known.source, *(e.source for e in known.edits if e.source)}:
            given = source.read_text()
            for name in {aim.name, own}:
                span = function(source.name, given, name)
                best = max(best, c_source.likeness(old, span.of(given))) if span else best
    if best < RECOGNISED:
        raise InputError(
            f"{aim.name} in {aim.file} of {tree} has changed beyond recognition: it is like no "
            f"variant of {variant.kernel} (likeness {best:.2f}, at least {RECOGNISED} is needed)"
        )


def assembled(
    variant: Variant, aim: Target, tree: Tree, changed: dict[str, str], taken: tuple[str, ...]
) -> Code:
    """Assemble the routine as the tree has it, with changed files (path to text) in their place.

    InputError where it cannot be assembled outside of the kernel.
    """
    kernel = kernels.load(variant.kernel)
    given = source_texts(variant, aim, tree, changed)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as folder:
        for name, content in given.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        source = Path(folder, next(iter(given)))
        headers = kernel.folder if len(given) == 1 else source.parent
        name = symbol(variant) if len(given) == 1 else aim.name
        return assemble.source_code(kernel.isa, headers, source, name, taken)


def source_texts(
    variant: Variant, aim: Target, tree: Tree, changed: dict[str, str]
) -> dict[str, str]:
    """Return files (name to text) that assemble to the routine as the tree has it, main one first.

    A file alone is the variant's, with the tree's function in place of its own; files that
    include each other are the tree's, under their paths there.
    """
    beside = _with_included(aim.file, tree, changed)
    if len(beside) == 1:
        return {variant.source.name: _excerpt(variant, aim, tree, changed)}
    return {file: changed.get(file) or tree.read(file) for file in beside}


def difference(variant: Variant, aim: Target, tree: Tree, changed: dict[str, str]) -> str:
    """Say how the patched text differs from the variant once assembled, or return ""."""
    for taken in alternative_sets(variant):
        try:
            if not same_code(
                assembled(variant, aim, tree, changed, taken), of_variant(variant, taken)
            ):
                return f"its instructions differ from those of {variant.source.name}"
        except InputError as error:
            return str(error)
    return ""


def of_variant(variant: Variant, taken: tuple[str, ...]) -> Code:
    """Assemble the variant itself under some alternatives."""
    kernel = kernels.load(variant.kernel)
    return assemble.source_code(kernel.isa, kernel.folder, variant.source, symbol(variant), taken)


def same_code(one: Code, other: Code) -> bool:
    """Say whether two routines have the same instruction bytes and the same exception table.

    Of that all entries count: their instructions, fixups and types, and how many there are.
    """
    return _essence(one) == _essence(other)


def _essence(code: Code) -> tuple[bytes, tuple[tuple[int, int, str], ...]]:
    body = code.text[code.entry : code.entry + code.size]
    at = code.entry
    return body, tuple(sorted((e.insn - at, e.fixup - at, e.type) for e in code.exceptions))


def alternative_sets(variant: Variant) -> list[tuple[str, ...]]:
    """Return the sets of alternatives under which the variant and a tree are compared."""
    sources = {variant.source, *(edit.source for edit in variant.edits if edit.source)}
    words = " ".join(source.read_text() for source in sources)
    named = sorted(set(re.findall(r"\b(?:X86_FEATURE|ARM64_HAS)_\w+", words)))
    sets = [variant.alternatives, (), *((name,) for name in named)]
    return list(dict.fromkeys(sets))


def _excerpt(variant: Variant, aim: Target, tree: Tree, changed: dict[str, str]) -> str:
    """Return the variant's source with the tree's function in place of its own."""
    source = next(
        (e.source for e in variant.edits if e.source and e.name == aim.name), variant.source
    )
    given = source.read_text()
    content = changed.get(aim.file) or tree.read(aim.file)
    theirs = function(aim.file, content, aim.name)
    own = function(source.name, given, aim.name)
    name = aim.name if own else symbol(variant)
    own = own or function(source.name, given, name)
    if theirs is None or own is None:
        raise InputError(f"{aim.name} cannot be put in the place of {name} of {source}")
    piece = c_source.rename(theirs.of(content), aim.name, name)
    if source.suffix == ".S":
        return own.replaced(given, piece)
    whole = own.replaced(given, c_source.missing_statics(given, content, piece) + piece)
    return c_source.taken_from(content, whole)


def _with_included(file: str, tree: Tree, changed: dict[str, str]) -> list[str]:
    """Return a file and the files that lie beside it and are included by it."""
    folder = Path(file).parent
    content = changed.get(file) or tree.read(file)
    quoted = [h.strip('"') for h in c_source.includes(content) if h.startswith('"')]
    return [file, *(str(folder / name) for name in quoted if tree.has(str(folder / name)))]
