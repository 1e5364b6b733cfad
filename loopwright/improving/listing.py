"""Assembly text of a routine as statements that transformations edit, with its data flow."""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, cast

import iced_x86 as iced
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

from loopwright import toolchain
from loopwright.code.instructions import (
    WRITES,
    X86_FLOW,
    Code,
    Flow,
    Instruction,
    decode,
    disassembled,
)
from loopwright.errors import InputError
from loopwright.kernels import Contract

CARRY = "carry"  # the carry flag of x86-64, which some instructions preserve
FLAGS = "flags"  # the other flags, and all flags of AArch64
MEMORY = "memory"
_LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$]*|\d+):\s*")
_ENTRY = re.compile(r"(_ASM_EXTABLE\w*|_asm_extable\w*)[\s(]\s*([\w.$]+)\s*,\s*([\w.$]+)\s*\)?$")
_NUMERIC_REFERENCE = re.compile(r"(?<![\w.$%])(\d+)([bf])\b")
NUMERIC_PREFIX = ".Lnumber_"  # of the unique names that numeric labels have in a listing
_ALTERNATIVE = re.compile(r'ALTERNATIVE\s+"([^"]*)"\s*,\s*"([^"]*)"\s*,\s*(\w+)')
_ENCODING_PREFIX = re.compile(r"^(\{\w+\}|ds) ")
_MEMORY_OPERAND = re.compile(
    r"^(?P<disp>-?(?:0x[0-9a-f]+|\d+))?"
    r"\((?P<base>%\w+)?(?:,(?P<index>%\w+)(?:,(?P<scale>[1248]))?)?\)$"
)


@dataclass(frozen=True)
class Line:
    """One statement of a listing.

    kind is "code" (text is an instruction), "label" (text is its name), "entry" (of the exception
    table: text is the label of the access, target that of its fixup, macro the macro's name) or
    "text" (directives and comments, verbatim). note is a comment before the statement.
    """

    kind: str
    text: str
    target: str = ""
    macro: str = ""
    note: str = ""

    @property
    def mnemonic(self) -> str:
        """The mnemonic of an instruction, without prefixes that lengthen its encoding."""
        return _ENCODING_PREFIX.sub("", self.text).split(None, 1)[0]

    @property
    def operands(self) -> tuple[str, ...]:
        """The operands of an instruction, in the order of its text."""
        _, *rest = _ENCODING_PREFIX.sub("", self.text).split(None, 1)
        parts = re.split(r",\s*(?![^(\[]*[)\]])", rest[0].strip()) if rest else []
        return tuple(part.strip() for part in parts)

    @property
    def words(self) -> list[str]:
        """The mnemonic, and the names of labels and registers."""
        return re.findall(r"[.\w$]+", self.text)


class Address(NamedTuple):
    """A memory operand of x86-64: registers with their percent signs, or empty."""

    disp: int
    base: str
    indexed: str = ""
    scale: int = 1

    def __str__(self) -> str:
        """Return the operand in AT&T syntax."""
        inside = self.base
        if self.indexed:
            inside += f",{self.indexed}" + (f",{self.scale}" if self.scale > 1 else "")
        return f"{self.disp or ''}({inside})"


def address(operand: str) -> Address | None:
    """Return the parts of a memory operand, None for any other operand."""
    match = _MEMORY_OPERAND.match(operand.replace(" ", ""))
    if not match:
        return None
    disp, scale = match["disp"] or "0", int(match["scale"] or 1)
    return Address(int(disp, 0), match["base"] or "", match["index"] or "", scale)


def code(text: str, note: str = "") -> Line:
    """Return an instruction as a line."""
    return Line("code", text, note=note)


def label(name: str, note: str = "") -> Line:
    """Return a label as a line."""
    return Line("label", name, note=note)


@dataclass(frozen=True)
class Effects:
    """The reads, writes and control flow of an instruction; registers by their full names.

    CARRY, FLAGS and MEMORY are among the registers. string is True for an instruction with a repeat
    prefix. For x86-64, parts has the number of low bytes read of each register; kept are registers
    of which the instruction preserves a part; loads is the number of bytes loaded, size the length
    of the instruction in bytes.
    """

    reads: frozenset[str]
    writes: frozenset[str]
    flow: Flow
    string: bool = False
    parts: Mapping[str, int] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    loads: int = 0
    size: int = 0


NO_EFFECTS = Effects(frozenset(), frozenset(), Flow.NEXT)


@dataclass(frozen=True)
class Listing:
    """A routine's or a bare loop's source: its statements, its interface, and its ISA.

    contract is that of a routine; a bare loop has None and leaving: the registers live at each of
    its exits, by label. scratch are registers that it may use freely. entered are its labels other
    than the start at which outside code enters. features are CPU features of all requested cores,
    which new instructions may need. offset is its code offset. steps names the transformations
    applied to the original source. head is the label of a bare loop's main loop, which a
    transformation may replace by a new one; "" for a routine. iterations is the number of original
    iterations in one iteration of the main loop.
    """

    lines: tuple[Line, ...]
    contract: Contract | None
    isa: str = "x86_64"
    steps: tuple[str, ...] = ()
    leaving: Mapping[str, frozenset[str]] = field(default_factory=dict)
    scratch: frozenset[str] = frozenset()
    entered: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    offset: int = 0
    head: str = ""
    iterations: int = 1

    @cached_property
    def position(self) -> Mapping[str, int]:
        return {line.text: n for n, line in enumerate(self.lines) if line.kind == "label"}

    @cached_property
    def fixups(self) -> Mapping[str, Line]:
        """The exception table: the entry by the label of its access."""
        return {line.text: line for line in self.lines if line.kind == "entry"}

    @cached_property
    def effects(self) -> Sequence[Effects]:
        """The effects of each statement; NO_EFFECTS for one that is no instruction."""
        by_text = effects_of(self.isa, [line.text for line in self.lines if line.kind == "code"])
        return [by_text[line.text] if line.kind == "code" else NO_EFFECTS for line in self.lines]

    def labels_of(self, at: int) -> list[str]:
        """Return the labels directly before a statement."""
        out = []
        while at > 0 and self.lines[at - 1].kind == "label":
            at -= 1
            out.append(self.lines[at].text)
        return out

    def entries_at(self, at: int) -> list[Line]:
        """Return the exception-table entries of the instruction at a position."""
        return [self.fixups[name] for name in self.labels_of(at) if name in self.fixups]

    @cached_property
    def fixup_targets(self) -> frozenset[str]:
        return frozenset(line.target for line in self.lines if line.kind == "entry")

    @cached_property
    def jumped_to(self) -> frozenset[str]:
        """The labels that control reaches other than from the statement before them."""
        mentioned = {word for line in self.lines if line.kind == "code" for word in line.words}
        return self.fixup_targets | self.entered | mentioned & self.position.keys()

    def is_target(self, at: int) -> bool:
        """True for a label that control reaches other than from the statement before it."""
        return self.lines[at].kind == "label" and self.lines[at].text in self.jumped_to

    def branch_target(self, at: int) -> int | None:
        """Return the position of the label that is an instruction's last operand."""
        line = self.lines[at]
        operands = line.operands if line.kind == "code" else ()
        return self.position.get(operands[-1]) if operands else None

    def successors(self, at: int) -> list[int]:
        """Return the positions of the statements that may follow one, fixups included."""
        positions, flow = [], self.effects[at].flow
        if self.lines[at].kind == "code":
            targets = [entry.target for entry in self.entries_at(at)]
            targets += self.lines[at].words if flow is not Flow.NEXT else []
            positions = [self.position[name] for name in targets if name in self.position]
        if flow not in (Flow.JUMP, Flow.RETURN) and at + 1 < len(self.lines):
            positions.append(at + 1)
        return positions

    @cached_property
    def live(self) -> Sequence[frozenset[str]]:
        """The registers, CARRY and FLAGS that are live before each statement."""
        live = live_registers(
            {
                n: (effects, self.successors(n), self.outside(n))
                for n, effects in enumerate(self.effects)
            }
        )
        return [live[n] for n in range(len(self.lines))]

    def outside(self, at: int) -> frozenset[str]:
        """Return the registers that code outside may read where an instruction leaves for it."""
        if self.contract and self.effects[at].flow in (Flow.RETURN, Flow.INDIRECT):
            return live_at_return(self.isa, self.contract)
        if not self.leaving or self.lines[at].kind != "code":
            return frozenset()
        words = self.lines[at].words
        return frozenset().union(*(self.leaving[word] for word in words if word in self.leaving))

    def with_lines(self, lines: Iterable[Line], step: str) -> "Listing":
        """Return the listing with other statements, and one more step."""
        return replace(self, lines=tuple(lines), steps=(*self.steps, step))

    def fresh(self, stem: str) -> str:
        """Return a label that is not in the listing: .Lstem, or .Lstem_2 and so on."""
        name, n = f".L{stem}", 1
        while name in self.position:
            n += 1
            name = f".L{stem}_{n}"
        return name

    def render(self) -> str:
        """Return the source text; numeric labels are renumbered from 1 in the order of the text."""
        numbers: dict[str, int] = {}
        for line in self.lines:
            if line.kind == "label" and line.text.startswith(NUMERIC_PREFIX):
                numbers[line.text] = len(numbers) + 1
        out: list[str] = []
        seen: set[str] = set()
        pending: list[str] = []  # a numeric label, which stands in the line of an instruction

        def with_numbers(text: str) -> str:
            def number(match: re.Match[str]) -> str:
                name = match.group()
                return f"{numbers[name]}{'b' if name in seen else 'f'}"

            return re.sub(re.escape(NUMERIC_PREFIX) + r"\w+", number, text)

        for line in self.lines:
            if line.note:
                out.append(f"\t/* {line.note} */")
            if line.kind == "code":
                text = " ".join(with_numbers(line.text).split(None, 1))
                out.append(f"{''.join(pending)}\t{text}")
                pending = []
                continue
            out += pending
            pending = []
            if line.kind == "label":
                seen.add(line.text)
                if line.text in numbers:
                    pending = [f"{numbers[line.text]}:"]
                else:
                    out.append(f"{line.text}:")
            elif line.kind == "entry":
                arguments = f"{with_numbers(line.text)}, {with_numbers(line.target)}"
                arguments = f" {arguments}" if line.macro.islower() else f"({arguments})"
                out.append(f"\t{line.macro}{arguments}")
            else:
                out.append(line.text)
        return "\n".join([*out, *pending]) + "\n"


Node = tuple[Effects, Sequence[int], frozenset[str]]
"""An instruction: effects, successors, and the registers that are live where it leaves."""


def live_registers(
    nodes: Mapping[int, Node], unknown: frozenset[str] = frozenset()
) -> dict[int, frozenset[str]]:
    """Return the registers, CARRY and FLAGS that are live before each of some instructions.

    unknown are those that are live before a successor that is not among the instructions.
    """
    live: dict[int, frozenset[str]] = dict.fromkeys(nodes, frozenset())
    changed = True
    while changed:
        changed = False
        for at in sorted(nodes, reverse=True):
            effects, after, outside = nodes[at]
            live_after = outside.union(*(live.get(successor, unknown) for successor in after))
            live_before = (live_after - effects.writes | effects.reads) - {MEMORY}
            if live_before != live[at]:
                live[at], changed = live_before, True
    return live


def live_at_return(isa: str, contract: Contract) -> frozenset[str]:
    """Return the registers that a caller may read after a call."""
    free = {full(isa, name) for name in contract.may_change}
    free |= {full(isa, name) for name in contract.inputs.values()}
    returned = {full(isa, name) for name in contract.returns.values()}
    return GENERAL[isa] - free | returned


# The general-purpose registers of each ISA.
GENERAL = {
    "x86_64": frozenset(
        ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16))]
    ),
    "arm64": frozenset([*(f"x{n}" for n in range(31)), "sp"]),
}


def full(isa: str, name: str) -> str:
    """Return the full register of a register name: rax for eax, x3 for w3."""
    name = name.lstrip("%")
    if isa == "arm64":
        match = re.fullmatch(r"(?:([wx])|[bhsdqvz])(\d+)", name)
        return f"{'x' if match[1] else 'v'}{match[2]}" if match else name
    number = _NUMBERS.get(name)
    return _REGISTERS[iced.RegisterExt.full_register(number)] if number else name


_ICED_BYTES = re.compile(r"(r\d+)l")  # iced's r8l is r8b in assembly
_REGISTERS = {
    value: _ICED_BYTES.sub(r"\1b", name.lower())
    for name, value in vars(iced.Register).items()
    if isinstance(value, int)
}
_NUMBERS = {name: cast("iced.Register_", number) for number, name in _REGISTERS.items()}
_SIZES = {name: iced.RegisterExt.size(number) for name, number in _NUMBERS.items()}
_PARTS = {
    (full("x86_64", name), size): name
    for name, size in _SIZES.items()
    if name not in ("ah", "bh", "ch", "dh")
}


LETTERS = {1: "b", 2: "w", 4: "l", 8: "q"}
"""Mnemonic suffixes of x86-64 by operand size in bytes."""


def size_of(register: str) -> int:
    """Return the size of an x86-64 register in bytes, 0 for another operand."""
    return _SIZES.get(register.removeprefix("%"), 0) if register.startswith("%") else 0


def part(whole: str, size: int) -> str:
    """Return the operand for the lowest bytes of a full x86-64 register."""
    return f"%{_PARTS[whole, size]}"


def parse(text: str, contract: Contract, isa: str = "x86_64") -> Listing:
    """Parse assembly in a kernel's dialect; numeric labels become unique names.

    InputError for macros and conditional assembly, whose text differs from the executed code.
    """
    if match := re.search(r"^\s*(\.macro|\.rept|\.irp|\.if\w*|#\s*if\w*|#\s*define)\b", text, re.M):
        raise InputError(f"{match[1]} in the source: only plain statements can be improved")
    lines: list[Line] = []
    in_comment = False
    for raw in text.splitlines():
        stripped = raw.strip()
        if in_comment or not stripped or stripped.startswith(("/*", "#", "//")):
            lines.append(Line("text", raw.rstrip()))
            in_comment = (in_comment or stripped.startswith("/*")) and "*/" not in stripped
            continue
        statement = re.sub(r"/\*.*?\*/", "", stripped).strip()
        while match := _LABEL.match(statement):
            lines.append(Line("label", match[1]))
            statement = statement[match.end() :]
        if not statement:
            continue
        if entry := _ENTRY.match(statement):
            lines.append(Line("entry", entry[2], entry[3], entry[1]))
        elif statement.startswith((".", "SYM_", "EXPORT_")):
            lines.append(Line("text", raw.rstrip()))
        else:
            lines.append(Line("code", statement))
    return Listing(tuple(_with_own_labels(_uniquely_labelled(lines))), contract, isa)


def _with_own_labels(lines: Sequence[Line]) -> list[Line]:
    """Return lines in which each exception-table entry has a label of its own."""
    own_labels: dict[str, list[str]] = {}
    out: list[Line] = []
    for n, line in enumerate(lines):
        if line.kind == "entry":
            own_labels.setdefault(line.text, []).append(f"{NUMERIC_PREFIX}e{n}")
    for n, line in enumerate(lines):
        if line.kind == "label" and line.text in own_labels:
            access = next((x for x in lines[n:] if x.kind == "code"), None)
            numeric = access is not None and line.text.startswith(NUMERIC_PREFIX)
            names = own_labels[line.text]
            if numeric and len(names) == 1:
                names[0] = line.text
            else:
                out.append(line)
            out += [label(name) for name in names]
        else:
            out.append(line)
    counts: dict[str, int] = {}
    for n, line in enumerate(out):
        if line.kind == "entry" and line.text in own_labels:
            count = counts.get(line.text, 0)
            counts[line.text] = count + 1
            out[n] = replace(line, text=own_labels[line.text][count])
    return out


def _uniquely_labelled(lines: Sequence[Line]) -> list[Line]:
    """Return lines with unique names for numeric labels, in references as well."""
    positions: dict[str, list[int]] = {}
    for n, line in enumerate(lines):
        if line.kind == "label" and line.text.isdecimal():
            positions.setdefault(line.text, []).append(n)

    out = []
    for n, line in enumerate(lines):

        def relabelled(match: re.Match[str], n: int = n) -> str:
            candidates = [at for at in positions.get(match[1], ()) if (at < n) == (match[2] == "b")]
            if not candidates:
                raise InputError(f"{match.group()} names no label")
            return f"{NUMERIC_PREFIX}{candidates[-1 if match[2] == 'b' else 0]}"

        if line.kind == "label" and line.text.isdecimal():
            line = replace(line, text=f"{NUMERIC_PREFIX}{n}")
        elif line.kind in ("code", "entry"):
            line = replace(
                line,
                text=_NUMERIC_REFERENCE.sub(relabelled, line.text),
                target=_NUMERIC_REFERENCE.sub(relabelled, line.target),
            )
        out.append(line)
    return out


_effects_by_text: dict[tuple[str, str], Effects] = {}


def effects_of(isa: str, texts: Iterable[str]) -> dict[str, Effects]:
    """Return the effects of instructions, by text; InputError for invalid text."""
    distinct = list(dict.fromkeys(texts))
    new = [text for text in distinct if (isa, text) not in _effects_by_text]
    for text, effects in zip(new, _assembled(isa, new), strict=True):
        _effects_by_text[isa, text] = effects
    return {text: _effects_by_text[isa, text] for text in distinct}


def _assembled(isa: str, texts: Sequence[str]) -> list[Effects]:
    """Assemble instructions one after another, and return the effects of each."""
    if not texts:
        return []
    lines = [f"lw_{n}:\n\t{_standalone(text)}\n" for n, text in enumerate(texts)]
    source = "".join([*lines, f"lw_{len(texts)}:\n"])
    encodings, offsets = assembled_text(isa, source, "an instruction", symbols=True)
    out = []
    for n, text in enumerate(texts):
        encoding = encodings[offsets[f"lw_{n}"] : offsets[f"lw_{n + 1}"]]
        effects = x86_effects(encoding) if isa == "x86_64" else arm64_effects(encoding)
        out.append(_alternative_effects(text, effects))
    return out


def assembled_text(
    isa: str, source: str, subject: str, *, symbols: bool
) -> tuple[bytes, dict[str, int]]:
    """Return the code of assembly, and the offsets of its labels, local ones included.

    subject names the assembly in errors. InputError if it does not assemble. Without symbols, those
    of other files, also if it needs a linker.
    """
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        object_file = Path(scratch, "text.o")
        command = [
            toolchain.find(isa).gcc, "-c", "-Wa,--keep-locals", "-x", "assembler", "-",
            "-o", str(object_file),
        ]  # fmt: skip
        result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        if result.returncode:
            lines = result.stderr.strip().splitlines()
            complaint = next((x for x in lines if "Error: " in x), lines[-1])
            raise InputError(f"{subject} does not assemble: {complaint.split('Error: ')[-1]}")
        with object_file.open("rb") as file:
            image = ELFFile(file)
            if not symbols and image.get_section_by_name(".rela.text") is not None:
                raise InputError(
                    f"{subject} needs a linker: its branches lead out of their section"
                )
            text = cast(Section, image.get_section_by_name(".text")).data()
            table = cast(SymbolTableSection, image.get_section_by_name(".symtab"))
            return text, {s.name: s["st_value"] for s in table.iter_symbols() if s.name}


def _standalone(text: str) -> str:
    """Return an instruction that assembles alone: the first of an ALTERNATIVE, jumps to `.`."""
    if alternative := _ALTERNATIVE.match(text):
        text = alternative[1] or "nop"
    text = "ret" if text == "RET" else text
    text = re.sub(re.escape(NUMERIC_PREFIX) + r"\w+|\.L[\w.$]+", ".", text)
    return re.sub(r"^(j\w+|b|b\.\w+|call\w*|bl)\s+[A-Za-z_]\w*$", r"\1 .", text)


def _alternative_effects(text: str, effects: Effects) -> Effects:
    """Return the effects of an instruction; an ALTERNATIVE may execute either of its two."""
    alternative = _ALTERNATIVE.match(text)
    if not alternative:
        return effects
    old, new = alternative[1], alternative[2]
    if not old and new in ("stac", "clac"):  # they change AC alone; accesses may not cross
        return Effects(frozenset([MEMORY]), frozenset([MEMORY]), Flow.NEXT)
    flow = Flow.BRANCH if effects.flow is Flow.JUMP else effects.flow
    reads = effects.reads | {MEMORY, CARRY, FLAGS, "rcx", "rsi", "rdi", "rax"}
    return Effects(reads, frozenset([MEMORY]), flow)


_CARRY_BIT = iced.RflagsBits.CF
_RESULT_FLAGS = iced.RflagsBits.ZF | iced.RflagsBits.SF | iced.RflagsBits.OF


# Instructions that order memory accesses, and clock reads, which accesses may not cross either.
_ORDERING = frozenset(
    getattr(iced.Mnemonic, name)
    for name in ("LFENCE", "MFENCE", "SFENCE", "PAUSE", "RDTSC", "RDTSCP", "CPUID")
)


# Operations on the lowest element of a vector register, which keep or ignore its other elements.
_SCALAR = frozenset(
    value
    for name, value in vars(iced.Mnemonic).items()
    if re.fullmatch(r"(ADD|SUB|MUL|DIV|MIN|MAX|R?SQRT|RCP|ROUND|U?COMI|MOV)S[SD]|MOV[DQ]"
                    r"|CVT\w+2S[SDI]", name)
)  # fmt: skip
_HIGH = {iced.Register.AH, iced.Register.BH, iced.Register.CH, iced.Register.DH}
_SOMETIMES = (iced.OpAccess.COND_WRITE, iced.OpAccess.READ_COND_WRITE)
_UPDATES = (iced.OpAccess.READ_WRITE, iced.OpAccess.READ_COND_WRITE)


def x86_effects(encoding: bytes) -> Effects:
    """Return the effects of one x86-64 instruction from its encoding."""
    ins = next(iter(iced.Decoder(64, encoding)))
    info = iced.InstructionInfoFactory().info(ins)
    reads, writes, kept = set(), set(), set()
    parts: dict[str, int] = {}
    scalar = ins.mnemonic in _SCALAR and ins.encoding == iced.EncodingKind.LEGACY
    for used in info.used_registers():
        name = _REGISTERS[iced.RegisterExt.full_register(used.register)]
        size = iced.RegisterExt.size(used.register)
        scalar_operand = scalar and iced.RegisterExt.is_xmm(used.register)
        partial = size < 4
        if used.access in WRITES:
            writes.add(name)
            if partial or used.access in _SOMETIMES or (scalar_operand and used.access in _UPDATES):
                kept.add(name)
        if used.access != iced.OpAccess.WRITE or partial:
            reads.add(name)
        if used.access != iced.OpAccess.WRITE:
            if scalar_operand:
                size = min(size, iced.MemorySizeExt.size(ins.op_code().memory_size))
            elif used.register in _HIGH:
                size = 2
            parts[name] = max(size, parts.get(name, 0))
    loads = 0
    for memory in info.used_memory():
        if memory.access in WRITES:
            writes.add(MEMORY)
        if memory.access != iced.OpAccess.WRITE:
            reads.add(MEMORY)
            loads += iced.MemorySizeExt.size(memory.memory_size)
    if ins.mnemonic in _ORDERING:
        reads.add(MEMORY)
        writes.add(MEMORY)
    if ins.rflags_read & _CARRY_BIT:
        reads.add(CARRY)
    if ins.rflags_read & ~_CARRY_BIT:
        reads.add(FLAGS)
    if ins.rflags_modified & _CARRY_BIT:
        writes.add(CARRY)
    if ins.rflags_modified & ~_CARRY_BIT:
        writes.add(FLAGS)
        if _RESULT_FLAGS & ~ins.rflags_modified:  # such as adox, which keeps the others
            reads.add(FLAGS)
    return Effects(
        reads=frozenset(reads),
        writes=frozenset(writes),
        flow=X86_FLOW.get(ins.flow_control, Flow.INDIRECT),
        string=ins.has_rep_prefix or ins.has_repne_prefix,
        parts=parts,
        kept=frozenset(kept),
        loads=loads,
        size=len(encoding),
    )


_COMPARING = frozenset({"cmp", "cmn", "tst", "fcmp", "fcmpe"})


def arm64_effects(encoding: bytes) -> Effects:
    """Return the effects of one AArch64 instruction from its encoding."""
    [decoded] = decode("arm64", encoding)
    [ins] = disassembled(encoding)
    read, written = ins.regs_access()
    names = [
        {full("arm64", ins.reg_name(r)) for r in group} - {"xzr", "wzr"}
        for group in (read, written)
    ]
    reads, writes = ({FLAGS if n == "nzcv" else n for n in group} for group in names)
    if decoded.mnemonic in _COMPARING:  # capstone reports their operands as written
        reads, writes = reads | writes - {FLAGS}, {FLAGS}
    if decoded.read_bytes:
        reads.add(MEMORY)
    if decoded.written_bytes:
        writes.add(MEMORY)
        if not decoded.mnemonic.startswith(("stx", "stlx")):
            stored = set(re.findall(r"\b[wx]\d+\b", decoded.text.split("[")[0]))
            reads |= {full("arm64", r) for r in stored}
    return Effects(frozenset(reads), frozenset(writes), decoded.flow)


INLINED = "calls inlined"


def lift(assembled: Code, contract: Contract) -> Listing:
    """Return a listing of assembled code, with new labels.

    Calls of routines in the same text are inlined, which is a step of the listing. InputError for
    code that continues elsewhere, and for callees that use the stack.
    """
    routine = _Routine(assembled, contract)
    body = list(routine.main())
    lines = [Line("text", text) for text in _HEADERS[assembled.isa]]
    lines.append(Line("text", f"SYM_FUNC_START({contract.symbol})"))
    lines += [*body, *routine.apart, *routine.entries]
    lines += [
        Line("text", f"SYM_FUNC_END({contract.symbol})"),
        Line("text", f"EXPORT_SYMBOL({contract.symbol})"),
    ]
    steps = (INLINED,) if routine.sites else ()
    mentioned = {
        word
        for line in lines
        if line.kind in ("code", "entry")
        for word in re.findall(r"[.\w$]+", f"{line.text} {line.target}")
    }
    kept = (line for line in lines if line.kind != "label" or line.text in mentioned)
    return Listing(tuple(kept), contract, assembled.isa, steps)


@dataclass(frozen=True)
class _Site:
    """An inlined call: its number, 0 for the routine itself, and the label after the call."""

    number: int
    behind: str = ""

    def name(self, address: int) -> str:
        return f".L{address:x}" if not self.number else f".Lcall{self.number}_{address:x}"


class _Routine:
    """The statements of a routine, collected.

    sites is the number of inlined calls. apart holds the parts of callees that come after the
    routine's own statements, entries the exception table.
    """

    def __init__(self, assembled: Code, contract: Contract) -> None:
        self._code, self._contract = assembled, contract
        self._fixups = {e.insn: e for e in assembled.exceptions}
        self._padding = _padding(assembled)
        self.sites = 0
        self.apart: list[Line] = []
        self.entries: list[Line] = []

    def main(self) -> Iterator[Line]:
        """Yield the statements of the routine itself."""
        within = {i.address for i in self._code.instructions}
        site = _Site(0)
        for ins in self._code.instructions:
            if ins.address in self._padding:
                if power := self._padding[ins.address]:
                    yield Line("text", f"\t.p2align {power}")
            elif ins.flow is Flow.CALL and ins.target is not None:
                yield label(site.name(ins.address))
                yield from self._inlined(ins)
            else:
                yield from self._statement(ins, site, within)

    def _statement(self, ins: Instruction, site: _Site, within: set[int]) -> Iterator[Line]:
        yield label(site.name(ins.address))
        if entry := self._fixups.get(ins.address):
            self._check_inside(entry.fixup, within)
            name = f"{NUMERIC_PREFIX}{site.number}_{ins.address}"
            yield label(name)
            macro = _ENTRY_MACROS[self._code.isa] if "UACCESS" in entry.type else "_ASM_EXTABLE"
            self.entries.append(Line("entry", name, site.name(entry.fixup), macro))
        text = ins.text
        if ins.target is not None:
            self._check_inside(ins.target, within)
            text = re.sub(r"(#?0x[0-9a-f]+|#?\d+)$", site.name(ins.target), text)
        if ins.flow is Flow.RETURN and site.number:
            text = f"jmp {site.behind}" if self._code.isa == "x86_64" else f"b {site.behind}"
            yield code(text)
        else:
            yield code(_dialect(text, ins.mnemonic))

    def _check_inside(self, address: int, within: set[int]) -> None:
        if address not in within:
            raise InputError(
                f"{self._contract.symbol} goes on at {address:#x}, outside of it: it cannot be "
                "improved"
            )

    def _inlined(self, call: Instruction) -> Iterator[Line]:
        """Yield a callee's instructions from its start to its return; the others go to `apart`."""
        self.sites += 1
        site = _Site(self.sites, f".Lbehind_call{self.sites}")
        callee = self._callee(call)
        within = {ins.address for ins in callee}
        straight = [ins for ins in callee if ins.address >= (call.target or 0)]
        last = next((n for n, ins in enumerate(straight) if ins.flow is Flow.RETURN), None)
        if last is None:
            raise InputError(f"{self._contract.symbol} calls what does not return")
        main_path = straight[: last + 1]
        for ins in main_path[:-1]:
            yield from self._statement(ins, site, within)
        yield label(site.name(main_path[-1].address))
        yield label(site.behind)
        others = [ins for ins in callee if ins not in main_path]
        for ins in others:
            self.apart += self._statement(ins, site, within)

    def _callee(self, call: Instruction) -> list[Instruction]:
        """Return the instructions that a call may execute, by address."""
        by_address = {i.address: i for i in decode(self._code.isa, self._code.text)}
        reached: dict[int, Instruction] = {}
        pending = [call.target or 0]
        while pending:
            at = pending.pop()
            if at in reached:
                continue
            ins = by_address.get(at)
            if ins is None or ins.flow in (Flow.CALL, Flow.INDIRECT) or "rsp" in ins.text:
                raise InputError(
                    f"{self._contract.symbol} calls {at:#x}, which cannot be inlined: it calls, "
                    "uses the stack or lies elsewhere"
                )
            reached[at] = ins
            if entry := self._fixups.get(at):
                pending.append(entry.fixup)
            if ins.target is not None:
                pending.append(ins.target)
            if ins.flow not in (Flow.JUMP, Flow.RETURN):
                pending.append(ins.end)
        return [reached[at] for at in sorted(reached)]


_ENTRY_MACROS = {"x86_64": "_ASM_EXTABLE_UA", "arm64": "_asm_extable_uaccess"}


def _padding(assembled: Code) -> dict[int, int]:
    """Return alignment nops by address: the power of two for the first of a run, 0 for others."""
    powers: dict[int, int] = {}
    run: list[Instruction] = []
    for ins in assembled.instructions:
        if re.fullmatch(r"nop[wl]?|data16|cs", ins.mnemonic):
            run.append(ins)
            continue
        if run:
            length = ins.address - run[0].address
            candidates = range(2, assembled.align.bit_length())
            power = max((p for p in candidates if ins.address % (1 << p) == 0), default=0)
            if power and length < 1 << power:
                powers |= {nop.address: 0 for nop in run} | {run[0].address: power}
        run = []
    return powers


def _dialect(text: str, mnemonic: str) -> str:
    """Return an instruction in the kernel's dialect."""
    if mnemonic in ("stac", "clac"):
        return f'ALTERNATIVE "", "{mnemonic}", X86_FEATURE_SMAP'
    if mnemonic in ("ret", "retq"):
        return "RET" if mnemonic == "retq" else "ret"
    return " ".join(text.split())


_HEADERS = {
    "x86_64": (
        "/* SPDX-License-Identifier: GPL-2.0-or-later */",
        "#include <linux/export.h>",
        "#include <linux/linkage.h>",
        "#include <asm/cpufeatures.h>",
        "#include <asm/alternative.h>",
        "#include <asm/asm.h>",
        "",
    ),
    "arm64": (
        "/* SPDX-License-Identifier: GPL-2.0-or-later */",
        "#include <linux/linkage.h>",
        "#include <asm/asm-uaccess.h>",
        "#include <asm/assembler.h>",
        "",
    ),
}
