"""Changes that put a variant into a tree: its edits, the tree's wording, its callers' clobbers.

Inline assembly that calls a routine lists for the compiler its inputs, outputs and clobbered
registers. A variant that changes another register would corrupt its caller, so that the caller's
list has to name it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path

import iced_x86 as iced

from loopwright import kernels
from loopwright.code import assemble
from loopwright.code.instructions import WRITES, Code
from loopwright.errors import InputError
from loopwright.kernels import Edit, Variant
from loopwright.linux import routines, trees
from loopwright.linux.routines import (
    Span,
    Target,
    blank_comments,
    function,
    squeeze,
    symbol,
    upstream_of,
)
from loopwright.linux.trees import Tree

# Spellings of the same bytes: AT&T suffixes implied by the operands, and aliases.
_SUFFIXED = re.compile(
    r"\b(mov|add|sub|adc|cmp|test|and|or|xor|inc|dec|neg|shl|shr|lea|push|pop)[bwlq]\b"
)
_ALIASES = {"jnz": "jne", "jz": "je", "jnc": "jae", "jnb": "jae", "jc": "jb"}
_CONSTRAINT = re.compile(r'"([=+&]*\w+)"')
_IMPLIED = re.compile(r"%[a-z]\w*(?![\w(])")


@dataclass(frozen=True)
class Stretch:
    """A stretch of lines of the tree and of the variant; same is True if they agree."""

    theirs: str
    ours: str
    same: bool


def stretches(old: str, new: str, *, asm: bool) -> list[Stretch]:
    """Split a tree's text and a variant's into stretches that agree and stretches that do not.

    Comments and blanks are ignored, in assembly also suffixes and aliases of instructions. Comments
    and blank lines belong to the line of code below them.
    """
    ours, theirs = _units(new, asm), _units(old, asm)
    matcher = SequenceMatcher(
        None, [key for key, _ in theirs], [key for key, _ in ours], autojunk=False
    )
    out: list[Stretch] = []
    for kind, first, last, begin, end in matcher.get_opcodes():
        their_text = "".join(text for _, text in theirs[first:last])
        our_text = "".join(text for _, text in ours[begin:end])
        if kind == "equal" and out and not out[-1].ours and not out[-1].theirs.startswith("\n"):
            their_text = their_text.lstrip("\n")
        out.append(Stretch(their_text, our_text, kind == "equal"))
    return out


def keep_tree_lines(
    old: str, new: str, *, asm: bool, same_code: Callable[[str], bool] | None = None
) -> str:
    """Return new with the tree's spelling of each stretch of equal meaning.

    same_code is True for a text that still gives the intended code; with it, stretches that differ
    are tried in the tree's spelling as well. Operand constraints of inline assembly are then left
    alone: another compiler may treat them differently.
    """
    parts = stretches(old, new, asm=asm)
    texts = [part.theirs if part.same else part.ours for part in parts]
    for n, part in enumerate(parts):
        if same_code and not part.same and _constraints(part.theirs) == _constraints(part.ours):
            trial = [*texts[:n], part.theirs, *texts[n + 1 :]]
            if same_code("".join(trial)):
                texts = trial
    for n, (part, following) in enumerate(pairwise(parts)):
        if part.same and texts[n + 1] != following.theirs:
            texts[n] = _tree_lines(part, asm)
    return "".join(_in_tree_spelling(text, old) if asm else text for text in texts)


def _tree_lines(part: Stretch, asm: bool) -> str:
    """Return the tree's lines; the last gets the variant's comment if it opens a changed block.

    The tree's own comment may not be true of the block any more.
    """
    theirs, ours = _units(part.theirs, asm), _units(part.ours, asm)
    comment, line = _split_unit(ours[-1][1])
    if not (theirs and comment.strip() and line.rstrip().endswith(("{", ":"))):
        return part.theirs
    *kept, (_, last) = theirs
    return "".join(text for _, text in kept) + comment + _split_unit(last)[1]


def _split_unit(unit: str) -> tuple[str, str]:
    """Return the comments and blank lines of a unit, and its line of code."""
    start = unit.rstrip("\n").rfind("\n") + 1
    return unit[:start], unit[start:]


def _in_tree_spelling(text: str, old: str) -> str:
    """Return assembly with each instruction in a spelling that the tree uses."""
    spellings: dict[str, str] = {}
    for line in blank_comments(old).splitlines():
        spellings.setdefault(_meaning(line), squeeze(line))
    out = []
    for line in text.splitlines(keepends=True):
        code = squeeze(line)
        spelling = spellings.get(_meaning(line), code)
        replaceable = spelling != code and code == squeeze(blank_comments(line)) and ":" not in code
        out.append(line.replace(line.strip(), spelling) if replaceable else line)
    return "".join(out)


def _constraints(text: str) -> list[str]:
    return sorted(_CONSTRAINT.findall(text))


def _units(text: str, asm: bool) -> list[tuple[str, str]]:
    """Split text into lines of code, each with the comments and blank lines above it."""
    out, start, at = [], 0, 0
    for line in blank_comments(text).splitlines(keepends=True):
        at += len(line)
        if line.strip():
            indent = "" if asm else line[: len(line) - len(line.lstrip())]
            out.append((_meaning(line) if asm else indent + squeeze(line), text[start:at]))
            start = at
    if start < len(text):
        out.append(("", text[start:]))
    return out


def _meaning(line: str) -> str:
    code = squeeze(line)
    if "%" not in code:
        return re.sub(r"^(\w+)(?= )", lambda m: _ALIASES.get(m[1], m[1]), code)
    # An operand outside of brackets that is a register implies the size.
    implied = _IMPLIED.search(re.sub(r"\([^)]*\)", "", code))
    return _SUFFIXED.sub(r"\1", code) if implied else code


# The header of EXPORT_SYMBOL differs between kernels: the tree's own line stays.
_EXPORT_HEADERS = {"<linux/export.h>", "<asm/export.h>"}


@dataclass(frozen=True)
class Change:
    """One file of a tree, before and after."""

    file: str
    old: str
    new: str


def apply(variant: Variant, target: Target, tree: Tree) -> tuple[list[Change], list[str]]:
    """Return the changes that put a variant into a tree, and notes on edits left out.

    Where the tree spells the same code otherwise, its spelling stays. InputError if an edit's
    place is not in the tree.
    """
    editor = _Editor(variant, target, tree)
    for edit in variant.edits or (Edit("function", target.file, name=target.name),):
        editor.apply(edit)
    return [Change(f, old, editor.after[f]) for f, old in editor.before.items()], editor.notes


class _Editor:
    """The files of a tree after the edits so far."""

    def __init__(self, variant: Variant, target: Target, tree: Tree) -> None:
        self.variant, self.target, self.tree = variant, target, tree
        self.before: dict[str, str] = {}
        self.after: dict[str, str] = {}
        self.notes: list[str] = []

    def apply(self, edit: Edit) -> None:
        if edit.was and not self.tree.has(edit.file) and self.tree.has(edit.was):
            edit = replace(edit, file=edit.was)
        if edit.file not in self.before:
            content = self.tree.read(edit.file, upstream_of(self.variant).since)
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
        source_text = source.read_text()
        span = self._in_tree(function(edit.file, content, edit.name), edit)
        own_span = function(source.name, source_text, edit.name)
        own_span = own_span or function(source.name, source_text, symbol(self.variant))
        own_span = _required(own_span, edit, source)
        new = routines.rename(own_span.of(source_text), symbol(self.variant), edit.name)
        self._self_contained(new, edit, source)
        asm = edit.file.endswith(".S")
        if asm:
            _refuse_stray_entries(edit, f"{edit.file} in {self.tree}", content, span)
            _refuse_stray_entries(edit, source.name, source_text, own_span)
            new = self._with_distinct_labels(new, span, content)

        def whole(piece: str) -> str:
            return _with_function(edit.file, span, content, piece, source_text)

        def same_code(piece: str) -> bool:
            changed = self.after | {edit.file: whole(piece)}
            return not routines.difference(self.variant, self.target, self.tree, changed)

        kept = keep_tree_lines(span.of(content), new, asm=asm, same_code=same_code)
        return whole(kept if same_code(kept) else new)

    def _block(self, edit: Edit, content: str, source: Path) -> str:
        source_text = source.read_text()
        if edit.kind == "region":
            span = self._in_tree(routines.region(content, edit.start, edit.end), edit)
            own_span = routines.region(source_text, edit.start, edit.end)
            new = _required(own_span, edit, source).of(source_text)
        else:
            new = _required(routines.macro(source_text, edit.name), edit, source).of(source_text)
            span, new = self._macro_span(edit, content, new)
        new = self._with_distinct_labels(new, span, content)
        return span.replaced(content, keep_tree_lines(span.of(content), new, asm=True))

    def _self_contained(self, new: str, edit: Edit, source: Path) -> None:
        """Raise InputError for a function that includes a file missing in the tree."""
        for header in routines.includes(new):
            beside = str(Path(edit.file).parent / header.strip('"'))
            if header.startswith('"') and not self.tree.has(beside):
                raise InputError(
                    f"{source.name} includes {header}, which {self.tree} lacks: its kernel.toml "
                    "has to say by edits what changes there"
                )

    def _macro_span(self, edit: Edit, content: str, new: str) -> tuple[Span, str]:
        """Return the span of a macro: its namesake's, else after the macro named by `after`."""
        span = routines.macro(content, edit.name)
        if span is None and edit.after:
            behind = routines.macro(content, edit.after)
            if behind is None:
                raise InputError(
                    f"{edit.file} in {self.tree} has no macro {edit.after}, behind which "
                    f"{edit.name} goes"
                )
            return Span(behind.end, behind.end), "\n" + new
        return self._in_tree(span, edit), new

    def _in_tree(self, span: Span | None, edit: Edit) -> Span:
        """Return an edit's span in the tree; InputError without one."""
        if span is None:
            raise InputError(f"{edit.file} in {self.tree} has no {_described(edit)}")
        return span

    def _with_distinct_labels(self, new: str, span: Span, content: str) -> str:
        """Rename labels of the new text that also exist in the rest of the file."""
        outside = (content[: span.start], content[span.end :])
        taken_labels = {label for text in outside for label in routines.labels(text)}
        family = self.variant.kernel.rpartition("/")[2]
        for label in dict.fromkeys(routines.labels(new)):
            new_label, number = f"{label}_{family}", 1
            while new_label in taken_labels or new_label in routines.labels(new):
                number += 1
                new_label = f"{label}_{family}{number}"
            if label in taken_labels:
                new = routines.rename(new, label, new_label)
        return new


def _refuse_stray_entries(edit: Edit, name: str, text: str, span: Span) -> None:
    """Raise InputError for exception-table lines where a replacement cannot see them."""
    for line in routines.entries_outside(text, span):
        raise InputError(
            f"{name} has `{routines.squeeze(line)}` apart from {edit.name}, whose label it names: "
            f"put it in {edit.name} or directly below it"
        )


def _with_function(file: str, span: Span, content: str, new: str, source_text: str) -> str:
    """Return a file with a function of a source in a span, and everything that it needs of it.

    Static functions that only the old one used are removed; those of a header may have other users
    and stay.
    """
    changed = span.replaced(content, new)
    if not file.endswith(".S"):
        above = routines.comment_above(changed, span.start)
        statics = routines.missing_statics(content, source_text, new)
        changed = changed[:above] + statics + changed[above:]
    if file.endswith(".c"):
        changed = routines.without_orphans(changed, content)
    own_header = f"<{file.removeprefix('include/')}>"
    present = {*routines.includes(changed), own_header} | _EXPORT_HEADERS
    for header in routines.includes(source_text):
        beside = file.endswith(".h") and header.startswith('"')
        if header not in present and not beside:
            changed = routines.add_include(changed, header)
    return changed


def _required(span: Span | None, edit: Edit, source: Path) -> Span:
    """Return an edit's span in a source; InputError without one."""
    if span is None:
        raise InputError(f"{source} has no {_described(edit)}, which its kernel.toml has edited")
    return span


def _described(edit: Edit) -> str:
    if edit.kind == "region":
        return f"lines from {edit.start!r} to {edit.end!r}"
    return f"{edit.kind} {edit.name}"


_CONSTRAINT_REGISTERS = {"a": "rax", "b": "rbx", "c": "rcx", "d": "rdx", "S": "rsi", "D": "rdi"}
# A prototype, or the export to modules, neither of which is a call.
_DECLARED = re.compile(
    r"(?:EXPORT_SYMBOL|SYM_)\w*\([^)]*\)|^[^\n#\"=;{}]*\b\w+\([^()\"]*\);", re.MULTILINE
)
_STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def fit_callers(variant: Variant, name: str, tree: Tree, changes: list[Change]) -> list[Change]:
    """Return changes to the callers' clobber lists, so that they may call the variant.

    InputError if a caller uses another convention, or needs a register that the variant changes,
    or where kernel.toml does not name a caller that is found: in assembly, or in a macro.
    """
    out = []
    texts = {change.file: change.new for change in changes}
    callers = upstream_of(variant).callers
    if callers:
        _refuse_other_users(variant, name, tree, texts)
    for file in callers:
        old = tree.read(file)
        content = texts.get(file, old)
        if (new := _fit_file(variant, name, file, content, tree)) != content:
            out.append(Change(file, old, new))
    return out


def _refuse_other_users(variant: Variant, name: str, tree: Tree, texts: Mapping[str, str]) -> None:
    """Raise InputError for a use of a routine whose kept registers are not known.

    texts has the files that change. In the known callers, inline assembly calls it.
    """
    isa, callers = kernels.load(variant.kernel).isa, upstream_of(variant).callers
    word = re.compile(rf"\b{re.escape(name)}\b")
    for file in trees.files_holding(tree, isa, name, word.pattern):
        content = texts.get(file) or tree.read(file)
        code = _DECLARED.sub("", blank_comments(content))
        if file == upstream_of(variant).file:
            # A jump inherits the clobbers that callers list for the routine beside it.
            code = re.sub(rf"\bj\w+\s+{re.escape(name)}\b", "", code)
        calls = _calls(content, name) if file in callers else []
        if len(word.findall(code)) > len(calls):
            raise InputError(
                f"{file} in {tree} uses {name} where what is kept across the call is not known: "
                f"only inline assembly of the callers in kernel.toml of {variant.kernel} is read"
            )


def changed_registers(variant: Variant) -> set[str]:
    """Return the general registers that differ after a call: written, and allowed to change.

    The variant restores those that the contract does not allow to change, which `check` proves.
    """
    contract = kernels.load(variant.kernel).routines[variant.routine].contract
    roles = {*contract.inputs.values(), *contract.returns.values()}
    allowed = {*contract.may_change, *variant.may_change, *roles}
    every = frozenset(variant.alternatives)
    codes = [assemble.variant_code(variant, without) for without in (frozenset(), every)]
    return {register for code in codes for register in _written_registers(code)} & allowed


def _written_registers(code: Code) -> Iterator[str]:
    info = iced.InstructionInfoFactory()
    formatter = iced.Formatter(iced.FormatterSyntax.INTEL)
    for instruction in code.instructions:
        decoded = iced.Decoder(64, instruction.code, ip=instruction.address).decode()
        for used in info.info(decoded).used_registers():
            if used.access in WRITES:
                yield formatter.format_register(iced.RegisterExt.full_register(used.register))


def _fit_file(variant: Variant, name: str, file: str, content: str, tree: Tree) -> str:
    statements = dict.fromkeys(_calls(content, name))
    if not statements:
        raise InputError(
            f"{file} in {tree} has no inline assembly with `call {name}`: how it is called is "
            "not known, so that no variant can take its place"
        )
    # From the last one on, so that insertions move no other.
    for start, end in reversed(statements):
        content = _fit_statement(variant, name, f"{file} in {tree}", content, start, end)
    return content


def _fit_statement(
    variant: Variant, name: str, where: str, content: str, start: int, end: int
) -> str:
    contract = kernels.load(variant.kernel).routines[variant.routine].contract
    outputs, inputs, clobbers = ([*_sections(content, start, end), "", "", ""])[1:4]
    input_registers, output_registers = _operand_registers(inputs), _operand_registers(outputs)
    clobbered = set(_STRING.findall(clobbers))
    passed = {*contract.inputs.values(), *contract.zeroed}
    registers = input_registers | output_registers
    if not passed <= registers or not set(contract.returns.values()) <= output_registers:
        raise InputError(
            f"{where} calls {name} by another convention than the contract of "
            f"{variant.kernel}: it passes {', '.join(sorted(registers))} and takes back "
            f"{', '.join(sorted(output_registers))}"
        )
    extra = changed_registers(variant) - output_registers - clobbered
    if needed_unchanged := sorted(extra & input_registers):
        raise InputError(
            f"{variant.id} changes {', '.join(needed_unchanged)}, which {where} needs unchanged "
            f"behind its call of {name}"
        )
    added = extra - input_registers
    by_number = sorted(added, key=lambda name: (int(re.sub(r"\D", "", name) or 0), name))
    return _with_clobbers(content, end, clobbers, by_number)


def _operand_registers(operands: str) -> set[str]:
    """Return the registers that the constraints of inline assembly's operands name."""
    letters = "".join(_STRING.findall(operands))
    return {_CONSTRAINT_REGISTERS[c] for c in letters if c in _CONSTRAINT_REGISTERS}


def _calls(content: str, name: str) -> list[tuple[int, int]]:
    """Return the start and end of the operands of each asm statement with `call name`."""
    code = blank_comments(content)
    calls = re.finditer(rf'"[^"\n]*\bcall {re.escape(name)}\b', code)
    return [span for call in calls if (span := _enclosing_asm(code, call.start()))]


def _enclosing_asm(code: str, call: int) -> tuple[int, int] | None:
    begins = [match.end() for match in re.compile(r"\basm\b[\w\s]*\(").finditer(code, 0, call)]
    for start in begins[-1:]:
        closes = next((at for _, at, depth in _brackets_and_colons(code, start) if depth < 0), 0)
        if closes > call:
            return start, closes
    return None


def _sections(content: str, start: int, end: int) -> list[str]:
    """Split an asm statement at its colons: template, outputs, inputs, clobbers."""
    code = blank_comments(content)[:end]
    signs = _brackets_and_colons(code, start)
    colons = [at for sign, at, depth in signs if sign == ":" and depth == 0]
    begins = [start, *(at + 1 for at in colons)]
    return [code[a:b] for a, b in zip(begins, [*colons, end], strict=True)]


def _brackets_and_colons(code: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yield the brackets and colons outside of strings, their offsets and the depth after them."""
    depth = 0
    for match in re.compile(r'"(?:\\.|[^"\\\n])*"|[():]').finditer(code, start):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        yield match.group(), match.start(), depth


def _with_clobbers(content: str, end: int, clobbers: str, extra: list[str]) -> str:
    """Add registers to the clobber list that ends at `end`; clobbers is its text, or ""."""
    if not extra:
        return content
    names = ", ".join(f'"{register}"' for register in extra)
    head = content[:end].rstrip()
    joint = ", " if _STRING.search(clobbers) else " : "
    return head + joint + names + content[len(head) :]
