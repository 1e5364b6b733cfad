"""Assemble what a tree holds, before or after a change, and compare it with a variant's code.

The tree's text is assembled in the variant's surroundings: with loopwright's stand-ins for the
kernel's headers, so that both come out of the same assembler under the same alternatives.
"""

import re
import tempfile
from pathlib import Path

from loopwright import kernels
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.linux import c_text, statics
from loopwright.linux.sources import Tree
from loopwright.linux.target import Target, function, symbol


def code(
    variant: Variant, aim: Target, tree: Tree, changed: dict[str, str], taken: tuple[str, ...]
) -> Code:
    """Assemble the routine as the tree has it, with changed files (path to text) in their place.

    InputError where it cannot be assembled outside of the kernel.
    """
    kernel = kernels.load(variant.kernel)
    given = sources(variant, aim, tree, changed)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as folder:
        for name, content in given.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        source = Path(folder, next(iter(given)))
        headers = kernel.folder if len(given) == 1 else source.parent
        name = symbol(variant) if len(given) == 1 else aim.name
        return assemble.source_code(kernel.isa, headers, source, name, taken)


def sources(variant: Variant, aim: Target, tree: Tree, changed: dict[str, str]) -> dict[str, str]:
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
            if not same(code(variant, aim, tree, changed, taken), of_variant(variant, taken)):
                return f"its instructions differ from those of {variant.source.name}"
        except InputError as error:
            return str(error)
    return ""


def of_variant(variant: Variant, taken: tuple[str, ...]) -> Code:
    """Assemble the variant itself under some alternatives."""
    kernel = kernels.load(variant.kernel)
    return assemble.source_code(kernel.isa, kernel.folder, variant.source, symbol(variant), taken)


def same(one: Code, other: Code) -> bool:
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
    piece = c_text.rename(theirs.of(content), aim.name, name)
    if source.suffix == ".S":
        return own.replaced(given, piece)
    whole = own.replaced(given, statics.missing(given, content, piece) + piece)
    return statics.taken_from(content, whole)


def _with_included(file: str, tree: Tree, changed: dict[str, str]) -> list[str]:
    """Return a file and the files that lie beside it and are included by it."""
    folder = Path(file).parent
    content = changed.get(file) or tree.read(file)
    quoted = [h.strip('"') for h in c_text.includes(content) if h.startswith('"')]
    return [file, *(str(folder / name) for name in quoted if tree.has(str(folder / name)))]
