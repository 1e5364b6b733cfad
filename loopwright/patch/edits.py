"""Apply a variant's edits to the files of a tree, in memory."""

from dataclasses import dataclass
from pathlib import Path

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.kernels import Kernel, Variant
from loopwright.patch import text
from loopwright.patch.merge import keep_tree_lines
from loopwright.patch.text import Span
from loopwright.patch.tree import Tree
from loopwright.upstream import Edit, Upstream

# Below this likeness to every variant of its routine a function of a tree is another function.
RECOGNISED = 0.3
_EXPORT_HEADERS = {"<linux/export.h>", "<asm/export.h>"}


@dataclass(frozen=True)
class Change:
    """One file of a tree, before and after; spans of new text are the variant's own."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Target:
    """What a variant's routine is in a tree: its file there and its name there."""

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


def target(variant: Variant, tree: Tree) -> Target:
    """Find the function of the tree that the variant's routine is; InputError with where."""
    upstream = place(variant)
    content = tree.read(upstream.file, upstream.since)
    for name in upstream.replaces:
        if function(upstream.file, content, name):
            return Target(upstream.file, name)
    names = " or ".join(upstream.replaces)
    since = f"; it is there since Linux {upstream.since}" if upstream.since else ""
    raise InputError(f"{upstream.file} in {tree} has no function {names}{since}")


def require(variant: Variant, tree: Tree) -> None:
    """Refuse a tree that lacks a name which the variant's text uses."""
    for need in variant.requires:
        since = f"; it is there since Linux {need.since}" if need.since else ""
        found = tree.has(need.file) and text.defines(tree.read(need.file), need.name)
        if not found:
            raise InputError(f"{variant.id} uses {need.name}, which {tree} lacks{since}")


def apply(variant: Variant, tree: Tree, plain: bool = False) -> tuple[list[Change], list[str]]:
    """Return the changes that put a variant into a tree, and notes on edits left out.

    plain takes the variant's text as it is, where otherwise the tree's spelling of the same lines
    stays. InputError where a place that an edit names is not in the tree.
    """
    kernel = kernels.load(variant.kernel)
    aim = target(variant, tree)
    default = Edit("function", aim.file, aim.name, "", "", "", "", "", None)
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    notes: list[str] = []
    for edit in variant.edits or (default,):
        if edit.file not in before:
            before[edit.file] = after[edit.file] = tree.read(edit.file, place(variant).since)
        content = after[edit.file]
        if edit.kind == "line" and content.count(edit.old) != 1:
            notes.append(f"{edit.file} does not say {edit.old!r} once: left as it is")
            continue
        after[edit.file] = _applied(edit, content, kernel, variant, tree, plain)
    return [Change(file, before[file], after[file]) for file in before], notes


def _applied(
    edit: Edit, content: str, kernel: Kernel, variant: Variant, tree: Tree, plain: bool
) -> str:
    if edit.kind == "line":
        return content.replace(edit.old, edit.new)
    source = edit.source or variant.source
    given = source.read_text()
    symbol = kernel.routines[variant.routine].contract.symbol
    if edit.kind == "function":
        span, new = _new_function(edit, content, source, given, symbol, variant, tree)
        content_includes = _missing_includes(content, given) if source.suffix == ".S" else []
    elif edit.kind == "region":
        span = _found(text.region(content, edit.start, edit.end), edit, tree)
        new = _own(text.region(given, edit.start, edit.end), edit, source).of(given)
        content_includes = []
    else:
        new = _own(text.macro(given, edit.name), edit, source).of(given)
        span, new = _macro_place(edit, content, new, tree)
        content_includes = []
    new = _apart(new, span, content, kernel)
    if not plain:
        new = keep_tree_lines(span.of(content), new)
    return _with_includes(span.replaced(content, new), content_includes)


def _new_function(
    edit: Edit, content: str, source: Path, given: str, symbol: str, variant: Variant, tree: Tree
) -> tuple[Span, str]:
    span = _found(function(edit.file, content, edit.name), edit, tree)
    own = function(source.name, given, edit.name)
    new = _own(own or function(source.name, given, symbol), edit, source).of(given)
    new = text.rename(new, symbol, edit.name)
    _recognise(span.of(content), edit, symbol, variant, tree)
    return span, new


def _recognise(old: str, edit: Edit, symbol: str, variant: Variant, tree: Tree) -> None:
    """Refuse a function that is like none of the routine's variants: its ABI may be another."""
    best = 0.0
    for known in kernels.load(variant.kernel).of_routine(variant.routine):
        sources = [known.source, *(e.source for e in known.edits if e.source)]
        for source in sources:
            given = source.read_text()
            for name in (edit.name, symbol):
                span = function(source.name, given, name)
                if span:
                    best = max(best, text.likeness(old, span.of(given)))
    if best < RECOGNISED:
        raise InputError(
            f"{edit.name} in {edit.file} of {tree} has changed beyond recognition: it is like no "
            f"variant of {variant.kernel} (likeness {best:.2f}, at least {RECOGNISED} is needed)"
        )


def function(file: str, content: str, name: str) -> Span | None:
    """Find a function in the text of an assembly or C file."""
    if file.endswith(".S"):
        return text.asm_function(content, name)
    return text.c_function(content, name)


def _found(span: Span | None, edit: Edit, tree: Tree) -> Span:
    if span is None:
        what = f"lines from {edit.start!r} to {edit.end!r}" if edit.start else edit.name
        raise InputError(f"{edit.file} in {tree} has no {edit.kind} {what}")
    return span


def _own(span: Span | None, edit: Edit, source: Path) -> Span:
    if span is None:
        what = f"lines from {edit.start!r} to {edit.end!r}" if edit.start else edit.name
        raise InputError(f"{source} has no {edit.kind} {what}, which its kernel.toml has edited")
    return span


def _macro_place(edit: Edit, content: str, new: str, tree: Tree) -> tuple[Span, str]:
    """Return where a macro goes: in its namesake's place, else behind the one it comes after."""
    span = text.macro(content, edit.name)
    if span is None and edit.after:
        behind = text.macro(content, edit.after)
        if behind is None:
            raise InputError(
                f"{edit.file} in {tree} has no macro {edit.after} to put {edit.name} after"
            )
        return Span(behind.end, behind.end), "\n" + new
    return _found(span, edit, tree), new


def _apart(new: str, span: Span, content: str, kernel: Kernel) -> str:
    """Rename labels of the new text that the rest of the file has too."""
    taken = set(text.labels(content[: span.start] + content[span.end :]))
    family = kernel.id.rpartition("/")[2]
    for label in dict.fromkeys(text.labels(new)):
        if label in taken:
            fresh, number = f"{label}_{family}", 1
            while fresh in taken or fresh in text.labels(new):
                number += 1
                fresh = f"{label}_{family}{number}"
            new = text.rename(new, label, fresh)
    return new


def _missing_includes(content: str, given: str) -> list[str]:
    """Return the headers that the variant includes and the file does not, exports left out."""
    have = set(text.includes(content)) | _EXPORT_HEADERS
    return [header for header in text.includes(given) if header not in have]


def _with_includes(content: str, headers: list[str]) -> str:
    for header in headers:
        content = text.add_include(content, header)
    return content
