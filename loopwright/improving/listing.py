"""Assembly text of a routine as statements for transformations, with its dataflow."""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, cast

import iced_x86 as iced
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

from loopwright import toolchain
from loopwright.code.instructions import WRITES, X86_FLOW, Flow
from loopwright.errors import InputError
from loopwright.kernels import Contract

CARRY = "carry"  # the carry flag of x86-64, which some instructions keep
FLAGS = "flags"  # all other flags, and all of AArch64
MEMORY = "memory"
_LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$]*|\d+):\s*")
_ENTRY = re.compile(r"(_ASM_EXTABLE\w*|_asm_extable\w*)[\s(]\s*([\w.$]+)\s*,\s*([\w.$]+)\s*\)?$")
_NUMERIC = re.compile(r"(?<![\w.$%])(\d+)([bf])\b")
MADE = ".Lnumber_"  # prefix of the names of numeric labels while they are edited
_SITE = re.compile(r'ALTERNATIVE\s+"([^"]*)"\s*,\s*"([^"]*)"\s*,\s*(\w+)')
_LONGER = re.compile(r"^(\{\w+\}|ds) ")
_MEMORY_OPERAND = re.compile(
    r"^(?P<disp>-?(?:0x[0-9a-f]+|\d+))?"
    r"\((?P<base>%\w+)?(?:,(?P<index>%\w+)(?:,(?P<scale>[1248]))?)?\)$"
)


@dataclass(frozen=True)
class Line:
    """One statement of a listing.

    kind is "code" (text is an instruction), "label" (text is its name), "entry" (of the exception
    table: text is the label of the access, target that of its fixup, macro its macro) or "text"
    (directives and comments, unchanged). note is a comment before it.
    """

    kind: str
    text: str
    target: str = ""
    macro: str = ""
    note: str = ""

    @property
    def mnemonic(self) -> str:
        """Return the mnemonic, without prefixes that lengthen the encoding."""
        return _LONGER.sub("", self.text).split(None, 1)[0]

    @property
    def operands(self) -> tuple[str, ...]:
        """Return the operands of an instruction, in the order of its text."""
        rest = _LONGER.sub("", self.text).split(None, 1)[1:]
        parts = re.split(r",\s*(?![^(\[]*[)\]])", rest[0].strip()) if rest else []
        return tuple(part.strip() for part in parts)


class Address(NamedTuple):
    """A memory operand of x86-64: registers with their percent signs, or empty."""

    disp: int
    base: str
    indexed: str = ""
    scale: int = 1

    def __str__(self) -> str:
        """Return it in AT&T syntax."""
        inside = self.base
        if self.indexed:
            inside += f",{self.indexed}" + (f",{self.scale}" if self.scale > 1 else "")
        return f"{self.disp or ''}({inside})"


def address(operand: str) -> Address | None:
    """Return the parts of a memory operand, None for other operands."""
    found = _MEMORY_OPERAND.match(operand.replace(" ", ""))
    if not found:
        return None
    disp, scale = found["disp"] or "0", int(found["scale"] or 1)
    return Address(int(disp, 0), found["base"] or "", found["index"] or "", scale)


def code(text: str, note: str = "") -> Line:
    """Return an instruction."""
    return Line("code", text, note=note)


def label(name: str, note: str = "") -> Line:
    """Return a label."""
    return Line("label", name, note=note)


@dataclass(frozen=True)
class Effects:
    """Effects of an instruction: reads, writes and control flow; registers by their full names.

    CARRY, FLAGS and MEMORY count as registers. For x86-64, parts has the number of lowest bytes
    read of each register; kept are registers of which a part is kept; loads is the number of bytes
    loaded, size that of the encoding.
    """

    reads: frozenset[str]
    writes: frozenset[str]
    flow: Flow
    string: bool = False
    parts: Mapping[str, int] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    loads: int = 0
    size: int = 0


@dataclass(frozen=True)
class Listing:
    """Statements of a routine or a bare loop, with the facts that hold at its ends, and its ISA.

    A routine has a contract. A loop without one has leaving, the live registers by each outside
    label where it continues. scratch are dead registers that may be used. entered are the labels,
    besides its start, that outside code jumps to. features are those of all target cores, which new
    instructions may use. offset is its code offset. steps names the transformations since the
    source was read. head is the label of its main loop if transformations made that loop, and turns
    the number of original iterations that one iteration of it does.
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
    turns: int = 1

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Return the position of each label."""
        return {one.text: n for n, one in enumerate(self.lines) if one.kind == "label"}

    @cached_property
    def fixups(self) -> Mapping[str, Line]:
        """Return the exception table: the entry of each access label."""
        return {one.text: one for one in self.lines if one.kind == "entry"}

    @cached_property
    def effects(self) -> Sequence[Effects | None]:
        """Return the effects of each statement, None where it is no instruction."""
        found = effects_of(self.isa, [one.text for one in self.lines if one.kind == "code"])
        return [found[one.text] if one.kind == "code" else None for one in self.lines]

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
    def jumped_to(self) -> frozenset[str]:
        """Return the labels that control reaches other than from the line above."""
        named = set(self.fixups_targets()) | self.entered
        for one in self.lines:
            if one.kind == "code":
                named |= set(re.findall(r"[.\w$]+", one.text)) & self.position.keys()
        return frozenset(named)

    def fixups_targets(self) -> list[str]:
        """Return the labels where execution continues after faults."""
        return [one.target for one in self.lines if one.kind == "entry"]

    def successors(self, at: int) -> list[int]:
        """Return the statements that may follow one, those after faults included."""
        one, effects = self.lines[at], self.effects[at]
        if one.kind != "code" or effects is None:
            return [at + 1] if at + 1 < len(self.lines) else []
        out = [self.position[e.target] for e in self.entries_at(at) if e.target in self.position]
        if effects.flow is not Flow.NEXT:
            words = re.findall(r"[.\w$]+", one.text)
            out += [self.position[word] for word in words if word in self.position]
        if effects.flow not in (Flow.JUMP, Flow.RETURN) and at + 1 < len(self.lines):
            out.append(at + 1)
        return out

    @cached_property
    def live(self) -> Sequence[frozenset[str]]:
        """Return the live registers before each statement, CARRY and FLAGS among them."""
        count = len(self.lines)
        found: list[frozenset[str]] = [frozenset()] * count
        after = [self.successors(n) for n in range(count)]
        changed = True
        while changed:
            changed = False
            for n in reversed(range(count)):
                effects = self.effects[n]
                out = frozenset().union(*(found[s] for s in after[n]))
                if effects is not None:
                    out |= self.outside(n)
                    out = (out - effects.writes) | effects.reads
                out -= {MEMORY}
                if out != found[n]:
                    found[n], changed = out, True
        return found

    def outside(self, at: int) -> frozenset[str]:
        """Return the registers live where an instruction leaves the listing, without its reads."""
        effects = self.effects[at]
        if self.contract and effects and effects.flow in (Flow.RETURN, Flow.INDIRECT):
            return live_at_return(self.isa, self.contract)
        if not self.leaving:
            return frozenset()
        words = re.findall(r"[.\w$]+", self.lines[at].text)
        return frozenset().union(*(self.leaving[word] for word in words if word in self.leaving))

    def with_lines(self, lines: Iterable[Line], step: str) -> "Listing":
        """Return the listing with other statements, as one more step."""
        return replace(self, lines=tuple(lines), steps=(*self.steps, step))

    def fresh(self, stem: str) -> str:
        """Return a label that the listing does not have: .Lstem, .Lstem_2 and so on."""
        name, n = f".L{stem}", 1
        while name in self.position:
            n += 1
            name = f".L{stem}_{n}"
        return name

    def render(self) -> str:
        """Return the source text, with numeric labels counted from 1 in the order of the text."""
        numbers: dict[str, int] = {}
        for one in self.lines:
            if one.kind == "label" and one.text.startswith(MADE):
                numbers[one.text] = len(numbers) + 1
        out: list[str] = []
        seen: set[str] = set()
        pending = ""

        def refer(text: str) -> str:
            def name(found: re.Match[str]) -> str:
                mine = found.group()
                return f"{numbers[mine]}{'b' if mine in seen else 'f'}"

            return re.sub(re.escape(MADE) + r"\w+", name, text)

        for one in self.lines:
            if one.note:
                out.append(f"\t/* {one.note} */")
            if one.kind == "label":
                seen.add(one.text)
                if one.text in numbers:
                    out += [pending] if pending else []
                    pending = f"{numbers[one.text]}:"
                    continue
                out += [pending] if pending else []
                pending = ""
                out.append(f"{one.text}:")
            elif one.kind == "code":
                mnemonic, *rest = refer(one.text).split(None, 1)
                out.append(f"{pending}\t{' '.join([mnemonic, *rest])}")
                pending = ""
            elif one.kind == "entry":
                out += [pending] if pending else []
                pending = ""
                inside = f"{refer(one.text)}, {refer(one.target)}"
                plain = one.macro.islower()
                out.append(f"\t{one.macro} {inside}" if plain else f"\t{one.macro}({inside})")
            else:
                out += [pending] if pending else []
                pending = ""
                out.append(one.text)
        return "\n".join([*out, *([pending] if pending else [])]) + "\n"


def live_at_return(isa: str, contract: Contract) -> frozenset[str]:
    """Return the registers that a caller may read after a call."""
    free = {full(isa, name) for name in contract.may_change}
    free |= {full(isa, name) for name in contract.inputs.values()}
    kept = {full(isa, name) for name in contract.returns.values()}
    return GENERAL[isa] - free | kept


# The general-purpose registers of each ISA.
GENERAL = {
    "x86_64": frozenset(
        ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16))]
    ),
    "arm64": frozenset([*(f"x{n}" for n in range(31)), "sp"]),
}


def full(isa: str, name: str) -> str:
    """Return the whole register of a register name: rax for eax, x3 for w3."""
    name = name.lstrip("%")
    if isa == "arm64":
        found = re.fullmatch(r"(?:([wx])|[bhsdqvz])(\d+)", name)
        return f"{'x' if found[1] else 'v'}{found[2]}" if found else name
    number = _NUMBERS.get(name)
    return _REGISTERS[iced.RegisterExt.full_register(number)] if number else name


_BYTES = re.compile(r"(r\d+)l")  # spelling of r8b and such in iced
_REGISTERS = {
    value: _BYTES.sub(r"\1b", name.lower())
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
"""Suffixes of mnemonics of x86-64 by the bytes of an operand."""


def size_of(register: str) -> int:
    """Return the bytes of a register of x86-64, 0 for other operands."""
    return _SIZES.get(register.removeprefix("%"), 0) if register.startswith("%") else 0


def part(whole: str, size: int) -> str:
    """Return the operand of the lowest bytes of a whole register of x86-64."""
    return f"%{_PARTS[whole, size]}"


def parse(text: str, contract: Contract, isa: str = "x86_64") -> Listing:
    """Read assembly in a kernel's dialect; numeric labels become unique names.

    InputError for macros and conditional assembly, whose text is not what is executed.
    """
    if wrong := re.search(r"^\s*(\.macro|\.rept|\.irp|\.if\w*|#\s*if\w*|#\s*define)\b", text, re.M):
        raise InputError(f"{wrong.group(1)} in the source: only plain statements can be improved")
    lines: list[Line] = []
    comment = False
    for raw in text.splitlines():
        bare = raw.strip()
        if comment or bare.startswith("/*") or not bare or bare.startswith(("#", "//")):
            lines.append(Line("text", raw.rstrip()))
            comment = (comment or bare.startswith("/*")) and "*/" not in bare
            continue
        rest = re.sub(r"/\*.*?\*/", "", bare).strip()
        while found := _LABEL.match(rest):
            lines.append(Line("label", found[1]))
            rest = rest[found.end() :]
        if not rest:
            continue
        if entry := _ENTRY.match(rest):
            lines.append(Line("entry", entry[2], entry[3], entry[1]))
        elif rest.startswith((".", "SYM_", "EXPORT_")):
            lines.append(Line("text", raw.rstrip()))
        else:
            lines.append(Line("code", rest))
    return Listing(tuple(_separated(_named(lines))), contract, isa)


def _separated(lines: Sequence[Line]) -> list[Line]:
    """Return lines in which each exception-table entry has a label of its own."""
    wanted: dict[str, list[str]] = {}
    out: list[Line] = []
    for n, one in enumerate(lines):
        if one.kind == "entry":
            wanted.setdefault(one.text, []).append(f"{MADE}e{n}")
    for n, one in enumerate(lines):
        if one.kind == "label" and one.text in wanted:
            behind = next((x for x in lines[n:] if x.kind == "code"), None)
            alone = behind is not None and one.text.startswith(MADE)
            names = wanted[one.text]
            if alone and len(names) == 1:
                names[0] = one.text
            else:
                out.append(one)
            out += [label(name) for name in names]
        else:
            out.append(one)
    taken: dict[str, int] = {}
    for n, one in enumerate(out):
        if one.kind == "entry" and one.text in wanted:
            count = taken.get(one.text, 0)
            taken[one.text] = count + 1
            out[n] = replace(one, text=wanted[one.text][count])
    return out


def _named(lines: Sequence[Line]) -> list[Line]:
    """Return lines with a name for each numeric label and each reference to one."""
    places: dict[str, list[int]] = {}
    for n, one in enumerate(lines):
        if one.kind == "label" and one.text.isdecimal():
            places.setdefault(one.text, []).append(n)

    def name(n: int) -> str:
        return f"{MADE}{n}"

    out = []
    for n, one in enumerate(lines):

        def refer(found: re.Match[str], n: int = n) -> str:
            behind = [at for at in places.get(found[1], ()) if (at < n) == (found[2] == "b")]
            if not behind:
                raise InputError(f"{found.group()} names no label")
            return name(behind[-1] if found[2] == "b" else behind[0])

        if one.kind == "label" and one.text.isdecimal():
            one = replace(one, text=name(n))
        elif one.kind in ("code", "entry"):
            one = replace(
                one,
                text=_NUMERIC.sub(refer, one.text),
                target=_NUMERIC.sub(refer, one.target),
            )
        out.append(one)
    return out


_known: dict[tuple[str, str], Effects] = {}


def effects_of(isa: str, texts: Iterable[str]) -> dict[str, Effects]:
    """Return the effects of instructions; InputError for text that is none."""
    wanted = list(dict.fromkeys(texts))
    new = [text for text in wanted if (isa, text) not in _known]
    for text, found in zip(new, _assembled(isa, new), strict=True):
        _known[isa, text] = found
    return {text: _known[isa, text] for text in wanted}


def _assembled(isa: str, texts: Sequence[str]) -> list[Effects]:
    """Assemble instructions side by side, and return the effects of each."""
    if not texts:
        return []
    tools = toolchain.find(isa)
    plain = [_plain(text) for text in texts]
    source = "".join(f"lw_{n}:\n\t{text}\n" for n, text in enumerate(plain)) + f"lw_{len(texts)}:\n"
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        made = Path(scratch, "effects.o")
        command = [tools.gcc, "-c", "-x", "assembler", "-", "-o", str(made)]
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        if done.returncode:
            complaint = done.stderr.strip().splitlines()[-1].split("Error: ")[-1]
            raise InputError(f"an instruction does not assemble: {complaint}")
        with made.open("rb") as file:
            image = ELFFile(file)
            body = cast(Section, image.get_section_by_name(".text")).data()
            symbols = cast(SymbolTableSection, image.get_section_by_name(".symtab"))
            at = {s.name: s["st_value"] for s in symbols.iter_symbols()}
    out = []
    for n, text in enumerate(texts):
        piece = body[at[f"lw_{n}"] : at[f"lw_{n + 1}"]]
        found = x86_effects(piece) if isa == "x86_64" else arm64_effects(piece)
        out.append(_site_effects(text, found))
    return out


def _plain(text: str) -> str:
    """Return an instruction that assembles alone: no targets, and an ALTERNATIVE's old one."""
    if site := _SITE.match(text):
        text = site[1] or "nop"
    text = {"RET": "ret", "ret": "ret"}.get(text, text)
    text = re.sub(re.escape(MADE) + r"\w+|\.L[\w.$]+", ".", text)
    return re.sub(r"^(j\w+|b|b\.\w+|call\w*|bl)\s+[A-Za-z_]\w*$", r"\1 .", text)


def _site_effects(text: str, found: Effects) -> Effects:
    """Return the effects of an ALTERNATIVE, of which either instruction may be present."""
    site = _SITE.match(text)
    if not site:
        return found
    if not site[1] and site[2] in ("stac", "clac"):  # they change AC alone; accesses stay between
        return Effects(frozenset([MEMORY]), frozenset([MEMORY]), Flow.NEXT)
    flow = Flow.BRANCH if found.flow is Flow.JUMP else found.flow
    reads = found.reads | {MEMORY, CARRY, FLAGS, "rcx", "rsi", "rdi", "rax"}
    return Effects(reads, frozenset([MEMORY]), flow)


_CARRY = iced.RflagsBits.CF
_COMPARED = iced.RflagsBits.ZF | iced.RflagsBits.SF | iced.RflagsBits.OF


# Barriers of memory accesses, and reads of the clock, which accesses must not cross.
_ORDERING = frozenset(
    getattr(iced.Mnemonic, name)
    for name in ("LFENCE", "MFENCE", "SFENCE", "PAUSE", "RDTSC", "RDTSCP", "CPUID")
)


# Operations on the lowest element of a vector register, whose other elements stay or are not read.
_SCALAR = frozenset(
    value
    for name, value in vars(iced.Mnemonic).items()
    if re.fullmatch(r"(ADD|SUB|MUL|DIV|MIN|MAX|R?SQRT|RCP|ROUND|U?COMI|MOV)S[SD]|MOV[DQ]"
                    r"|CVT\w+2S[SDI]", name)
)  # fmt: skip
_HIGH = {iced.Register.AH, iced.Register.BH, iced.Register.CH, iced.Register.DH}
_SOMETIMES = (iced.OpAccess.COND_WRITE, iced.OpAccess.READ_COND_WRITE)
_UPDATES = (iced.OpAccess.READ_WRITE, iced.OpAccess.READ_COND_WRITE)


def x86_effects(piece: bytes) -> Effects:
    """Return the effects of one x86-64 instruction by its bytes."""
    ins = next(iter(iced.Decoder(64, piece)))
    info = iced.InstructionInfoFactory().info(ins)
    reads, writes, kept = set(), set(), set()
    parts: dict[str, int] = {}
    scalar = ins.mnemonic in _SCALAR and ins.encoding == iced.EncodingKind.LEGACY
    for used in info.used_registers():
        name = _REGISTERS[iced.RegisterExt.full_register(used.register)]
        size = iced.RegisterExt.size(used.register)
        narrow = scalar and iced.RegisterExt.is_xmm(used.register)
        small = size < 4
        if used.access in WRITES:
            writes.add(name)
            if small or used.access in _SOMETIMES or (narrow and used.access in _UPDATES):
                kept.add(name)
        if used.access not in (iced.OpAccess.WRITE,) or small:
            reads.add(name)
        if used.access != iced.OpAccess.WRITE:
            if narrow:
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
    if ins.rflags_read & _CARRY:
        reads.add(CARRY)
    if ins.rflags_read & ~_CARRY:
        reads.add(FLAGS)
    if ins.rflags_modified & _CARRY:
        writes.add(CARRY)
    if ins.rflags_modified & ~_CARRY:
        writes.add(FLAGS)
        if ins.rflags_modified & _COMPARED != _COMPARED:  # adox keeps the others
            reads.add(FLAGS)
    return Effects(
        frozenset(reads),
        frozenset(writes),
        X86_FLOW.get(ins.flow_control, Flow.INDIRECT),
        ins.has_rep_prefix or ins.has_repne_prefix,
        parts,
        frozenset(kept),
        loads,
        len(piece),
    )


_COMPARING = frozenset({"cmp", "cmn", "tst", "fcmp", "fcmpe"})


def arm64_effects(piece: bytes) -> Effects:
    """Return the effects of one AArch64 instruction by its bytes."""
    import capstone

    from loopwright.code.instructions import decode

    [one] = decode("arm64", piece)
    disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    disassembler.detail = True
    [ins] = disassembler.disasm(piece, 0)
    read, written = ins.regs_access()
    names = [
        {full("arm64", ins.reg_name(r)) for r in group} - {"xzr", "wzr"}
        for group in (read, written)
    ]
    reads, writes = ({FLAGS if n == "nzcv" else n for n in group} for group in names)
    if one.mnemonic in _COMPARING:  # capstone reports compared operands as written
        reads, writes = reads | writes - {FLAGS}, {FLAGS}
    if one.read_bytes:
        reads.add(MEMORY)
    if one.written_bytes:
        writes.add(MEMORY)
        if not one.mnemonic.startswith(("stx", "stlx")):
            stored = set(re.findall(r"\b[wx]\d+\b", one.text.split("[")[0]))
            reads |= {full("arm64", r) for r in stored}
    return Effects(frozenset(reads), frozenset(writes), one.flow)
