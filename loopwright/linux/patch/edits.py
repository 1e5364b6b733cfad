"""Apply a variant's edits to the files of a tree, in memory."""

from dataclasses import dataclass, replace
from pathlib import Path

from loopwright.errors import InputError
from loopwright.kernels import Edit, Variant, function_edit
from loopwright.linux import c_source, routine
from loopwright.linux.c_source import Span
from loopwright.linux.patch.merge import keep_tree_lines
from loopwright.linux.routine import Target, function, place, symbol
from loopwright.linux.trees import Tree

# Where EXPORT_SYMBOL comes from differs between kernels: its line stays the tree's own.
_EXPORT_HEADERS = {"<linux/export.h>", "<asm/export.h>"}


@dataclass(frozen=True)
class Change:
    """One file of a tree, before and after."""

    file: str
    old: str
    new: str


def apply(variant: Variant, aim: Target, tree: Tree) -> tuple[list[Change], list[str]]:
    """Return the changes that put a variant into a tree, and notes on edits left out.

    Where the tree spells the same code in other words, its words stay. InputError where a place
    that an edit names is not in the tree.
    """
    editor = _Editor(variant, aim, tree)
    for edit in variant.edits or (function_edit(aim.file, aim.name),):
        editor.apply(edit)
    return [Change(f, old, editor.after[f]) for f, old in editor.before.items()], editor.notes


class _Editor:
    """The files of a tree as the edits so far have left them."""

    def __init__(self, variant: Variant, aim: Target, tree: Tree) -> None:
        self.variant, self.aim, self.tree = variant, aim, tree
        self.before: dict[str, str] = {}
        self.after: dict[str, str] = {}
        self.notes: list[str] = []

    def apply(self, edit: Edit) -> None:
        if edit.was and not self.tree.has(edit.file) and self.tree.has(edit.was):
            edit = replace(edit, file=edit.was)
        if edit.file not in self.before:
            content = self.tree.read(edit.file, place(self.variant).since)
            self.before[edit.file] = self.after[edit.file] = content
        content = self.after[edit.file]
        source = edit.source or self.variant.source
        if edit.kind == "line":
            self.after[edit.file] = self._line(edit, content)
        elif edit.kind == "function":
            self.after[edit.file] = self._function(edit, content, source)
        else:
            self.after[edit.file] = self._block(edit, content, source)

    def _line(self, edit: Edit, content: str) -> str:
        if content.count(edit.old) == 1:
            return content.replace(edit.old, edit.new)
        if not edit.optional:
            raise InputError(f"{edit.file} in {self.tree} has no single line {edit.old.strip()!r}")
        self.notes.append(f"{edit.file} does not say {edit.old!r} once: left as it is")
        return content

    def _function(self, edit: Edit, content: str, source: Path) -> str:
        given = source.read_text()
        span = self._found(function(edit.file, content, edit.name), edit)
        own = function(source.name, given, edit.name)
        own = _own(own or function(source.name, given, symbol(self.variant)), edit, source)
        new = c_source.rename(own.of(given), symbol(self.variant), edit.name)
        self._self_contained(new, edit, source)
        asm = edit.file.endswith(".S")
        if asm:
            _refuse_stray_entries(edit, f"{edit.file} in {self.tree}", content, span)
            _refuse_stray_entries(edit, source.name, given, own)
            new = self._apart(new, span, content)

        def whole(piece: str) -> str:
            return _settled(edit.file, span, content, piece, given)

        def same_code(piece: str) -> bool:
            changed = self.after | {edit.file: whole(piece)}
            return not routine.difference(self.variant, self.aim, self.tree, changed)

        kept = keep_tree_lines(span.of(content), new, asm=asm, same_code=same_code)
        return whole(kept if same_code(kept) else new)

    def _block(self, edit: Edit, content: str, source: Path) -> str:
        given = source.read_text()
        if edit.kind == "region":
            span = self._found(c_source.region(content, edit.start, edit.end), edit)
            new = _own(c_source.region(given, edit.start, edit.end), edit, source).of(given)
        else:
            new = _own(c_source.macro(given, edit.name), edit, source).of(given)
            span, new = self._macro_place(edit, content, new)
        new = self._apart(new, span, content)
        return span.replaced(content, keep_tree_lines(span.of(content), new, asm=True))

    def _self_contained(self, new: str, edit: Edit, source: Path) -> None:
        """Refuse a function that includes a file which the tree lacks."""
        for header in c_source.includes(new):
            beside = str(Path(edit.file).parent / header.strip('"'))
            if header.startswith('"') and not self.tree.has(beside):
                raise InputError(
                    f"{source.name} includes {header}, which {self.tree} lacks: its kernel.toml "
                    "has to say by edits what changes there"
                )

    def _macro_place(self, edit: Edit, content: str, new: str) -> tuple[Span, str]:
        """Return where a macro goes: in its namesake's place, else behind the one named after."""
        span = c_source.macro(content, edit.name)
        if span is None and edit.after:
            behind = c_source.macro(content, edit.after)
            if behind is None:
                raise InputError(
                    f"{edit.file} in {self.tree} has no macro {edit.after}, behind which "
                    f"{edit.name} goes"
                )
            return Span(behind.end, behind.end), "\n" + new
        return self._found(span, edit), new

    def _found(self, span: Span | None, edit: Edit) -> Span:
        if span is None:
            raise InputError(f"{edit.file} in {self.tree} has no {_what(edit)}")
        return span

    def _apart(self, new: str, span: Span, content: str) -> str:
        """Rename labels of the new text that the rest of the file has too."""
        taken = {*c_source.labels(content[: span.start]), *c_source.labels(content[span.end :])}
        family = self.variant.kernel.rpartition("/")[2]
        for label in dict.fromkeys(c_source.labels(new)):
            fresh, number = f"{label}_{family}", 1
            while fresh in taken or fresh in c_source.labels(new):
                number += 1
                fresh = f"{label}_{family}{number}"
            if label in taken:
                new = c_source.rename(new, label, fresh)
        return new


def _refuse_stray_entries(edit: Edit, name: str, text: str, span: Span) -> None:
    """Refuse a function with lines of the exception table where a replacement cannot see them."""
    for line in c_source.entries_outside(text, span):
        raise InputError(
            f"{name} has `{c_source.squeeze(line)}` apart from {edit.name}, whose label it names: "
            f"put it in {edit.name} or directly below it"
        )


def _settled(file: str, span: Span, content: str, piece: str, given: str) -> str:
    """Return a file with a function in its place, and with all that the function needs beside it.

    Static functions that only the old one used go; a header's may have users elsewhere and stay.
    """
    changed = span.replaced(content, piece)
    if not file.endswith(".S"):
        above = c_source.comment_above(changed, span.start)
        changed = (
            changed[:above] + c_source.missing_statics(content, given, piece) + changed[above:]
        )
    if file.endswith(".c"):
        changed = c_source.without_orphans(changed, content)
    own = f"<{file.removeprefix('include/')}>"
    have = {*c_source.includes(changed), own} | _EXPORT_HEADERS
    for header in c_source.includes(given):
        beside = file.endswith(".h") and header.startswith('"')
        if header not in have and not beside:
            changed = c_source.add_include(changed, header)
    return changed


def _own(span: Span | None, edit: Edit, source: Path) -> Span:
    if span is None:
        raise InputError(f"{source} has no {_what(edit)}, which its kernel.toml has edited")
    return span


def _what(edit: Edit) -> str:
    if edit.kind == "region":
        return f"lines from {edit.start!r} to {edit.end!r}"
    return f"{edit.kind} {edit.name}"
