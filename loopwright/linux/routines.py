"""A routine in a Linux tree: its place, and its code, assembled as a variant's is.

The tree's text is assembled with loopwright's stand-ins for the kernel's headers, so that both are
assembled by the same tools under the same alternatives.
"""

import re
import tempfile
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from loopwright import kernels
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Upstream, Variant
from loopwright.linux.trees import Tree

_COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_HASH_COMMENT = re.compile(r"(?m)(^|[ \t])#[ \t][^\n]*$")
_LABEL = re.compile(r"(?m)^[ \t]*(?!\d)([.\w$]+):(?!:)")
_ENTRY = r"_(?:ASM|asm)_(?:EXTABLE|extable)\w*\b[^\n]*"
_ENTRIES_BELOW = re.compile(rf"(?:\s*^[ \t]*{_ENTRY}$)+", re.MULTILINE)
_OPERAND = re.compile(r"[.\w$]+")
_ENTRY_LINE = re.compile(rf"(?m)^[ \t]*({_ENTRY})$")


@dataclass(frozen=True)
class Span:
    """Whole lines of a text, from start up to end."""

    start: int
    end: int

    def __contains__(self, at: int) -> bool:
        return self.start <= at < self.end

    def of(self, text: str) -> str:
        return text[self.start : self.end]

    def replaced(self, text: str, new: str) -> str:
        """Return text with the span's lines replaced."""
        return text[: self.start] + new + text[self.end :]


def blank_comments(text: str) -> str:
    """Return text with each comment overwritten by spaces: offsets and lines stay."""

    def blank(match: re.Match[str]) -> str:
        matched = match.group()
        return matched if matched.startswith('"') else re.sub(r"[^\n]", " ", matched)

    return _COMMENT_OR_STRING.sub(blank, text)


def lines_of(text: str, start: int, end: int) -> Span:
    """Return the span of the whole lines that text[start:end] touches."""
    after = text.find("\n", max(start, end - 1))
    return Span(text.rfind("\n", 0, start) + 1, len(text) if after < 0 else after + 1)


def asm_function(text: str, name: str) -> Span | None:
    """Find an assembly function, SYM_FUNC_START(name) to SYM_FUNC_END(name).

    Lines of the exception table directly below it belong to it.
    """
    code = blank_comments(text)
    quoted = re.escape(name)
    first = re.search(rf"(?m)^[ \t]*SYM_(?:TYPED_)?FUNC_START\w*\(\s*{quoted}\s*\)", code)
    if first is None:
        return None
    last = re.compile(rf"(?m)^[ \t]*SYM_FUNC_END\(\s*{quoted}\s*\)").search(code, first.end())
    if last is None:
        return None
    below = _ENTRIES_BELOW.match(code, last.end())
    return lines_of(text, first.start(), below.end() if below else last.end())


def entries_outside(text: str, span: Span) -> list[str]:
    """Return the lines of the exception table outside of a span with a label inside of it."""
    code = blank_comments(text)
    out = []
    for line in _ENTRY_LINE.finditer(code):
        used = _OPERAND.findall(line[1])
        definitions = (at for label in used for at in _definitions(code, label, line.start()))
        if line.start() not in span and any(at in span for at in definitions):
            out.append(line[1].strip())
    return out


def _definitions(code: str, label: str, used: int) -> list[int]:
    """Return the offsets of a label's definitions; of a numeric one the one meant at `used`."""
    number, direction = label[:-1], label[-1]
    local = number.isdigit() and direction in "bf"
    name = number if local else label
    positions = [m.start(1) for m in re.finditer(rf"(?m)^[ \t]*({re.escape(name)}):", code)]
    if local and direction == "b":
        return [at for at in positions if at < used][-1:]
    return [at for at in positions if at > used][:1] if local else positions


def c_function(text: str, name: str) -> Span | None:
    """Find the definition of a C function, from its return type to its closing brace.

    Prototypes and calls are passed over; where there is no single definition, None.
    """
    literal = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    code = re.sub(literal, lambda match: " " * len(match.group()), blank_comments(text))
    definitions = []
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", code):
        closed = _after_closing(code, match.end() - 1)
        opened = re.compile(r"\s*\{").match(code, closed) if closed else None
        if opened and (end := _after_closing(code, opened.end() - 1)):
            definitions.append(lines_of(text, _declaration_start(code, match.start()), end))
    return definitions[0] if len(definitions) == 1 else None


def _after_closing(code: str, at: int) -> int | None:
    """Return the offset after the bracket that closes the one at `at`."""
    pairs = {"(": ")", "{": "}"}
    closing, depth = pairs[code[at]], 0
    for match in re.compile(rf"[{code[at]}{closing}]").finditer(code, at):
        depth += 1 if match.group() == code[at] else -1
        if depth == 0:
            return match.end()
    return None


def _declaration_start(code: str, at: int) -> int:
    """Return the offset of the first line of the declaration that holds `at`."""
    start = code.rfind("\n", 0, at) + 1
    while start:
        previous = code.rfind("\n", 0, start - 1) + 1
        line = code[previous : start - 1].strip()
        if not line or line.startswith("#") or line.endswith((";", "}", "{", ":")):
            break
        start = previous
    return start


def macro(text: str, name: str) -> Span | None:
    """Find an assembler macro, .macro name to .endm."""
    code = blank_comments(text)
    first = re.search(rf"(?m)^[ \t]*\.macro[ \t]+{re.escape(name)}\b", code)
    last = re.compile(r"(?m)^[ \t]*\.endm\b").search(code, first.end()) if first else None
    return lines_of(text, first.start(), last.end()) if first and last else None


def region(text: str, start: str, end: str) -> Span | None:
    """Find the lines from the one that begins with start up to the one that begins with end.

    Spaces do not count; a comment block right above the end stays with what follows it.
    """
    code = blank_comments(text)
    lines = [(m.start(), squeeze(m[0])) for m in re.finditer(r"[^\n]*\n|[^\n]+$", code)]
    first = next((n for n, (_, line) in enumerate(lines) if line.startswith(squeeze(start))), None)
    if first is None:
        return None
    last = next((at for at, line in lines[first + 1 :] if line.startswith(squeeze(end))), None)
    return Span(lines[first][0], last) if last else None


def squeeze(line: str) -> str:
    """Return a line with every run of blanks as one space."""
    return " ".join(line.split())


def comment_above(text: str, start: int) -> int:
    """Return the start of the comment right above the line at start; start if there is none."""
    above = text[:start].rstrip()
    if not above.endswith("*/") or text[len(above) : start].count("\n") > 1:
        return start
    return text.rfind("\n", 0, above.rfind("/*")) + 1


def labels(text: str) -> list[str]:
    """Return the named labels that a text defines, in order, numeric ones left out."""
    return _LABEL.findall(blank_comments(text))


def rename(text: str, old: str, new: str) -> str:
    """Return text with a whole word replaced; a leading dot belongs to the word."""
    return re.sub(rf"(?<![\w.$]){re.escape(old)}(?![\w$])", new, text)


def normalised(text: str) -> list[str]:
    """Return the lines that matter to an assembler or compiler, each with single spaces."""
    code = _HASH_COMMENT.sub(r"\1", blank_comments(text))
    return [squeezed for line in code.splitlines() if (squeezed := squeeze(line))]


def likeness(text: str, other: str) -> float:
    """Return the likeness of two pieces, 0 to 1, by the order of their words and signs."""
    words = [re.findall(r"[\w.%$]+|[^\s\w]", "\n".join(normalised(t))) for t in (text, other)]
    return SequenceMatcher(None, words[0], words[1], autojunk=False).ratio()


def defines(text: str, name: str) -> bool:
    """True if a C text defines a macro or declares a function of that name."""
    quoted = re.escape(name)
    code = blank_comments(text)
    return bool(
        re.search(rf"(?m)^[ \t]*#[ \t]*define[ \t]+{quoted}\b", code)
        or re.search(rf"(?m)^[a-z][^;{{}}()=]*\b{quoted}\s*\(", code)
    )


_INCLUDE = re.compile(r'(?m)^[ \t]*#[ \t]*include[ \t]+(<[^>\n]+>|"[^"\n]+")[^\n]*\n')


def includes(text: str) -> list[str]:
    """Return the includes of a text in order, each with its brackets."""
    return _INCLUDE.findall(text)


def add_include(text: str, header: str) -> str:
    """Return text with one more #include, after the last one of the same folder."""
    present = list(_INCLUDE.finditer(text))
    folder = header.partition("/")[0]
    same_folder = [match for match in present if match[1].startswith(folder + "/")]
    at = (same_folder or present)[-1].end() if present else 0
    return f"{text[:at]}#include {header}\n{text[at:]}"


_STATIC = re.compile(r"(?m)^static\b[^;{}()=]*?\b(\w+)\s*\(")


def static_functions(content: str) -> list[str]:
    """Return the names of the static functions that a C file defines, in order."""
    names = dict.fromkeys(_STATIC.findall(blank_comments(content)))
    return [name for name in names if c_function(content, name)]


def needed_statics(content: str, function: str) -> list[str]:
    """Return the static functions of a file that a function calls, directly or indirectly."""
    statics = static_functions(content)
    needed: set[str] = set()
    pending = [function]
    while pending:
        code = blank_comments(pending.pop())
        for name in statics:
            if name not in needed and re.search(rf"\b{name}\b", code):
                needed.add(name)
                pending.append(_definition(content, name))
    return [name for name in statics if name in needed]


def missing_statics(content: str, source_text: str, function: str) -> str:
    """Return the definitions in a source that a function needs and content lacks."""
    names = [n for n in needed_statics(source_text, function) if c_function(content, n) is None]
    spans = filter(None, (_with_comment(source_text, name) for name in names))
    return "".join(span.of(source_text) + "\n" for span in spans)


def without_orphans(content: str, before: str) -> str:
    """Return content without the static functions that are no longer used."""
    for name in reversed(static_functions(content)):
        used = [len(re.findall(rf"\b{name}\b", blank_comments(t))) for t in (before, content)]
        if used[0] > 1 and used[1] == 1 and (span := _with_comment(content, name)):
            content = content[: span.start] + content[span.end :].lstrip("\n")
    return content


def taken_from(other: str, content: str) -> str:
    """Return content with the static functions that other defines as well replaced by other's."""
    for name in static_functions(content):
        theirs = _definition(other, name)
        span = c_function(content, name)
        if theirs and span:
            content = span.replaced(content, theirs)
    return content


def _definition(content: str, name: str) -> str:
    span = c_function(content, name)
    return span.of(content) if span else ""


def _with_comment(content: str, name: str) -> Span | None:
    span = c_function(content, name)
    return Span(comment_above(content, span.start), span.end) if span else None


# Least likeness of a tree's function to some variant of its routine to be recognised.
RECOGNISED = 0.4


@dataclass(frozen=True)
class Target:
    """A variant's routine in a tree: its file and its name there."""

    file: str
    name: str


def upstream_of(variant: Variant) -> Upstream:
    """Return the file and names of the variant's routine in Linux; InputError without a patch."""
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

    InputError with the names and the file where it is missing, and where the function of that name
    resembles none of the routine's variants, unless C calls it by a prototype: its ABI may differ.
    """
    upstream = upstream_of(variant)
    content = tree.read(upstream.file, upstream.since)
    for name in upstream.replaces:
        span = function(upstream.file, content, name)
        if span:
            target = Target(upstream.file, name)
            if not upstream.prototype:
                _recognise(variant, target, span.of(content), tree)
            return target
    names = " or ".join(upstream.replaces)
    since = f"; it is there since Linux {upstream.since}" if upstream.since else ""
    raise InputError(f"{upstream.file} in {tree} has no function {names}{since}")


def together(variant: Variant) -> list[Variant]:
    """Return the variants that one patch makes, in the order of kernel.toml.

    Beside the variant these are those of the kernel's other routines with the same edits.
    """
    if not variant.edits:
        return [variant]
    variants = kernels.load(variant.kernel).variants.values()
    others = [v for v in variants if v.edits == variant.edits and v.routine != variant.routine]
    return [v for v in variants if v == variant or v in others]


def require(variant: Variant, tree: Tree) -> None:
    """Raise InputError for a tree that lacks a name used by the variant's text."""
    for need in variant.requires:
        if not (tree.has(need.file) and defines(tree.read(need.file), need.name)):
            since = f"; it is there since Linux {need.since}" if need.since else ""
            raise InputError(
                f"{variant.id} uses {need.name}, which {need.file} in {tree} lacks{since}"
            )


def function(file: str, content: str, name: str) -> Span | None:
    """Find a function in the text of an assembly or C file."""
    if file.endswith(".S"):
        return asm_function(content, name)
    return c_function(content, name)


def _recognise(variant: Variant, target: Target, old: str, tree: Tree) -> None:
    own_name = symbol(variant)
    best = 0.0
    for candidate in kernels.load(variant.kernel).of_routine(variant.routine):
        for source in {candidate.source, *(e.source for e in candidate.edits if e.source)}:
            source_text = source.read_text()
            for name in {target.name, own_name}:
                span = function(source.name, source_text, name)
                best = max(best, likeness(old, span.of(source_text))) if span else best
    if best < RECOGNISED:
        raise InputError(
            f"{target.name} in {target.file} of {tree} has changed beyond recognition: it is like "
            f"no variant of {variant.kernel} (likeness {best:.2f}, at least {RECOGNISED} is needed)"
        )


def assembled(
    variant: Variant, target: Target, tree: Tree, changed: dict[str, str], taken: tuple[str, ...]
) -> Code:
    """Assemble the tree's routine, with changed files (path to text) in their place.

    InputError if it cannot be assembled outside of the kernel.
    """
    kernel = kernels.load(variant.kernel)
    texts = source_texts(variant, target, tree, changed)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as folder:
        for name, content in texts.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        source = Path(folder, next(iter(texts)))
        headers = kernel.folder if len(texts) == 1 else source.parent
        name = symbol(variant) if len(texts) == 1 else target.name
        return assemble.source_code(kernel.isa, headers, source, name, taken)


def source_texts(
    variant: Variant, target: Target, tree: Tree, changed: dict[str, str]
) -> dict[str, str]:
    """Return the files (name to text) that assemble to the tree's routine, the main one first.

    A single file is the variant's, with the tree's function in place of its own; files that include
    each other are the tree's, under their paths there.
    """
    files = _with_included(target.file, tree, changed)
    if len(files) == 1:
        return {variant.source.name: _excerpt(variant, target, tree, changed)}
    return {file: changed.get(file) or tree.read(file) for file in files}


def difference(variant: Variant, target: Target, tree: Tree, changed: dict[str, str]) -> str:
    """Return the difference of the patched text from the variant when assembled, or ""."""
    try:
        for taken in alternative_sets(variant):
            theirs = assembled(variant, target, tree, changed, taken)
            if not same_code(theirs, of_variant(variant, taken)):
                return f"its instructions differ from those of {variant.source.name}"
    except InputError as error:
        return str(error)
    return ""


def of_variant(variant: Variant, taken: tuple[str, ...]) -> Code:
    """Assemble the variant itself under some alternatives."""
    kernel = kernels.load(variant.kernel)
    return assemble.source_code(kernel.isa, kernel.folder, variant.source, symbol(variant), taken)


def same_code(code: Code, other: Code) -> bool:
    """True if two routines have the same instruction bytes and the same exception table.

    Of the table, all entries count: their instructions, fixups and types.
    """
    return _essence(code) == _essence(other)


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


def _excerpt(variant: Variant, target: Target, tree: Tree, changed: dict[str, str]) -> str:
    """Return the variant's source with the tree's function in place of its own."""
    source = next(
        (e.source for e in variant.edits if e.source and e.name == target.name), variant.source
    )
    source_text = source.read_text()
    content = changed.get(target.file) or tree.read(target.file)
    tree_span = function(target.file, content, target.name)
    own_span = function(source.name, source_text, target.name)
    name = target.name if own_span else symbol(variant)
    own_span = own_span or function(source.name, source_text, name)
    if tree_span is None or own_span is None:
        raise InputError(f"{target.name} cannot be put in the place of {name} of {source}")
    function_text = rename(tree_span.of(content), target.name, name)
    if source.suffix == ".S":
        return own_span.replaced(source_text, function_text)
    statics = missing_statics(source_text, content, function_text)
    return taken_from(content, own_span.replaced(source_text, statics + function_text))


def _with_included(file: str, tree: Tree, changed: dict[str, str]) -> list[str]:
    folder = Path(file).parent
    content = changed.get(file) or tree.read(file)
    quoted = [h.strip('"') for h in includes(content) if h.startswith('"')]
    return [file, *(str(folder / name) for name in quoted if tree.has(str(folder / name)))]
