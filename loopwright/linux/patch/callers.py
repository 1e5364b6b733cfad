"""Hold a variant to what the tree's inline assembly says when it calls the routine.

Such a call tells the compiler which registers go in, come out and are lost. A variant that
changes another register would corrupt its caller, so that the caller's list has to name it.
"""

import re
from collections.abc import Iterator, Mapping

import iced_x86 as iced

from loopwright import kernels
from loopwright.code import assemble
from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.linux import trees
from loopwright.linux.c_source import blank_comments
from loopwright.linux.patch.edits import Change
from loopwright.linux.routine import place
from loopwright.linux.trees import Tree

_LETTERS = {"a": "rax", "b": "rbx", "c": "rcx", "d": "rdx", "S": "rsi", "D": "rdi"}
# A prototype, or what makes the routine known to modules: it calls nothing.
_DECLARED = re.compile(
    r"(?:EXPORT_SYMBOL|SYM_)\w*\([^)]*\)|^[^\n#\"=;{}]*\b\w+\([^()\"]*\);", re.MULTILINE
)
_STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def fit(variant: Variant, name: str, tree: Tree, changes: list[Change]) -> list[Change]:
    """Return changes to the callers' lists of lost registers, so that the variant may be called.

    InputError where a caller keeps to another convention, or needs a register that the variant
    changes, or where one is found that kernel.toml does not name: in assembly, or in a macro.
    """
    out = []
    already = {change.file: change.new for change in changes}
    known = place(variant).callers
    if known:
        _refuse_others(variant, name, tree, already)
    for file in known:
        old = tree.read(file)
        content = already.get(file, old)
        new = _fitted(variant, name, file, content, tree)
        if new != content:
            out.append(Change(file, old, new))
    return out


def _refuse_others(variant: Variant, name: str, tree: Tree, texts: Mapping[str, str]) -> None:
    """Refuse a routine that is used where nobody has looked at what is kept across the call.

    texts has the files that change. In the callers that are known inline assembly calls it.
    """
    isa, known = kernels.load(variant.kernel).isa, place(variant).callers
    word = re.compile(rf"\b{re.escape(name)}\b")
    for file in trees.files_holding(tree, isa, name, word.pattern):
        content = texts.get(file) or tree.read(file)
        code = _DECLARED.sub("", blank_comments(content))
        if file == place(variant).file:
            # A jump passes on what the same callers said of the routine beside it.
            code = re.sub(rf"\bj\w+\s+{re.escape(name)}\b", "", code)
        calls = _calls(content, name) if file in known else []
        if len(word.findall(code)) > len(calls):
            raise InputError(
                f"{file} in {tree} uses {name} where what is kept across the call is not known: "
                f"only inline assembly of the callers in kernel.toml of {variant.kernel} is read"
            )


def changed_registers(variant: Variant) -> set[str]:
    """Return the general registers that differ after a call: written, and allowed to change.

    What the contract does not allow to change is put back by the variant, which `check` holds.
    """
    contract = kernels.load(variant.kernel).routines[variant.routine].contract
    roles = {*contract.inputs.values(), *contract.returns.values()}
    allowed = {*contract.may_change, *variant.may_change, *roles}
    codes = [assemble.variant_code(variant, without) for without in _feature_sets(variant)]
    return {register for code in codes for register in _written(code)} & allowed


def _feature_sets(variant: Variant) -> list[frozenset[str]]:
    return [frozenset(), frozenset(variant.alternatives)]


def _written(code: Code) -> Iterator[str]:
    info = iced.InstructionInfoFactory()
    reads = (iced.OpAccess.NONE, iced.OpAccess.READ, iced.OpAccess.COND_READ)
    formatter = iced.Formatter(iced.FormatterSyntax.INTEL)
    for instruction in code.instructions:
        decoded = iced.Decoder(64, instruction.code, ip=instruction.address).decode()
        for used in info.info(decoded).used_registers():
            if used.access not in reads:
                yield formatter.format_register(iced.RegisterExt.full_register(used.register))


def _fitted(variant: Variant, name: str, file: str, content: str, tree: Tree) -> str:
    statements = _statements(content, name)
    if not statements:
        raise InputError(
            f"{file} in {tree} has no inline assembly with `call {name}`: how it is called is "
            "not known, so that no variant can take its place"
        )
    # From the last on, so that what is put in moves no other.
    for start, end in reversed(statements):
        content = _with_statement_fitted(variant, name, f"{file} in {tree}", content, start, end)
    return content


def _with_statement_fitted(
    variant: Variant, name: str, where: str, content: str, start: int, end: int
) -> str:
    contract = kernels.load(variant.kernel).routines[variant.routine].contract
    outputs, inputs, lost = ([*_sections(content, start, end), "", "", ""])[1:4]
    kept = {_LETTERS[c] for text in _STRING.findall(inputs) for c in text if c in _LETTERS}
    given = {_LETTERS[c] for text in _STRING.findall(outputs) for c in text if c in _LETTERS}
    clobbered = set(_STRING.findall(lost))
    passed = {*contract.inputs.values(), *contract.zeroed}
    if not passed <= kept | given or not set(contract.returns.values()) <= given:
        raise InputError(
            f"{where} calls {name} by another convention than the contract of "
            f"{variant.kernel}: it passes {', '.join(sorted(kept | given))} and takes back "
            f"{', '.join(sorted(given))}"
        )
    extra = changed_registers(variant) - given - clobbered
    if needed := sorted(extra & kept):
        raise InputError(
            f"{variant.id} changes {', '.join(needed)}, which {where} needs unchanged "
            f"behind its call of {name}"
        )
    return _with_lost(content, end, lost, sorted(extra - kept, key=_by_number))


def _by_number(register: str) -> tuple[int, str]:
    digits = re.sub(r"\D", "", register)
    return int(digits or 0), register


def _statements(content: str, name: str) -> list[tuple[int, int]]:
    """Return where the operands of the asm statements that call name begin and end."""
    return list(dict.fromkeys(_calls(content, name)))


def _calls(content: str, name: str) -> list[tuple[int, int]]:
    """Return for each `call name` in an asm statement where that begins and ends."""
    code = blank_comments(content)
    calls = re.finditer(rf'"[^"\n]*\bcall {re.escape(name)}\b', code)
    return [span for call in calls if (span := _around(code, call.start()))]


def _around(code: str, call: int) -> tuple[int, int] | None:
    begin = [m.end() for m in re.compile(r"\basm\b[\w\s]*\(").finditer(code, 0, call)]
    depth = 1
    for match in re.compile(r'"(?:\\.|[^"\\\n])*"|[()]').finditer(code, begin[-1] if begin else 0):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth == 0:
            return (begin[-1], match.start()) if begin and match.start() > call else None
    return None


def _sections(content: str, start: int, end: int) -> list[str]:
    """Split an asm statement at its colons: template, outputs, inputs, lost registers."""
    sections, depth, last = [], 0, start
    code = blank_comments(content)
    for match in re.compile(r'"(?:\\.|[^"\\\n])*"|[():]').finditer(code, start, end):
        sign = match.group()
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == ":" and depth == 0:
            sections.append(code[last : match.start()])
            last = match.end()
    return [*sections, code[last:end]]


def _with_lost(content: str, end: int, lost: str, extra: list[str]) -> str:
    """Name more registers in the list that ends at `end`, which is lost or absent."""
    if not extra:
        return content
    names = ", ".join(f'"{register}"' for register in extra)
    head = content[:end].rstrip()
    joint = ", " if _STRING.search(lost) else " : "
    return head + joint + names + content[len(head) :]
