"""Code of a built routine: linked image, alternatives of CPU features, written registers."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import cast

import capstone
import iced_x86 as iced
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from loopwright import toolchain
from loopwright.code import instructions
from loopwright.code.elf import (
    ALTERNATIVES,
    FLAGGED_BYTES,
    PLAIN_BYTES,
    arm64_entry,
    relative_pair,
    x86_entry,
)
from loopwright.code.instructions import ExceptionEntry
from loopwright.errors import InputError
from loopwright.linux.trees import Tree
from loopwright.linux.verification import CheckError, NotProven

# Stubs for code elsewhere in the kernel that leaf routines jump to.
_STUBS = {
    "x86_64": ".globl __x86_return_thunk\n__x86_return_thunk:\tret\n",
    "arm64": ".globl loopwright_stub\nloopwright_stub:\tret\n",
}
_FIXUP_TYPES = {"EX_TYPE_DEFAULT", "EX_TYPE_UACCESS"}
_ERR_ZERO_TYPES = {"EX_TYPE_UACCESS_ERR_ZERO", "EX_TYPE_KACCESS_ERR_ZERO"}
# Constants that x86-64 kernels write into code at boot: the end of user space, 4-level paging.
_AT_BOOT = {"runtime_ptr_USER_PTR_MAX": (0x7FFFFFFFF000).to_bytes(8, "little")}
_NO_REGISTERS = 31 | 31 << 5  # wzr for both: nothing is written but the program counter


@dataclass(frozen=True)
class Alternative:
    """A site that is patched at boot if the CPU has feature (inverse: if it lacks it).

    callback is True if the kernel makes the replacement.
    """

    site: int
    length: int
    replacement: bytes
    replacement_address: int
    feature: str
    inverse: bool
    callback: bool


@dataclass(frozen=True)
class Image:
    """Objects linked together: code starts at address 0; symbols are addresses, sizes bytes.

    handled are the types of entries of the exception table that do more than jump to their fixup.
    """

    isa: str
    text: bytes
    symbols: dict[str, int]
    sizes: dict[str, int]
    entries: tuple[ExceptionEntry, ...]
    alternatives: tuple[Alternative, ...]
    handled: frozenset[str] = frozenset()


# Functions that must not be traced, such as memset(), have their own section in Linux.
_LAYOUT = "SECTIONS { .text 0 : { *(.text .text.* .noinstr.text) } }\n"


def link(isa: str, objects: Sequence[Path], tree: Tree, build: Path, scratch: Path) -> Image:
    """Link objects with stubs for code elsewhere in the kernel, and read them.

    NotProven if they call missing functions, or use values known only at boot. Feature names
    come from the tree's headers, or those generated in its build folder.
    """
    tools = toolchain.find(isa)
    stub, linked, script = (scratch / name for name in ("stub.o", "linked.elf", "linked.lds"))
    script.write_text(_LAYOUT)
    subprocess.run(
        [tools.gcc, "-c", "-x", "assembler", "-", "-o", str(stub)],
        input=f".text\n{_STUBS[isa]}.section .note.GNU-stack\n", text=True, check=True,
    )  # fmt: skip
    command = [
        tools.ld, "-T", str(script), "-e", "0", "--no-warn-rwx-segments", "-z", "noexecstack",
        "-o", str(linked), *map(str, objects), str(stub),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    missing = sorted(set(re.findall(r"undefined reference to `([^']+)'", done.stderr)))
    if missing:
        raise NotProven(f"it uses {', '.join(missing)}, which lies elsewhere in the kernel")
    if done.returncode:
        raise CheckError("its objects do not link", command, done.stderr)
    return _read(isa, linked, tree, build)


def _read(isa: str, path: Path, tree: Tree, build: Path) -> Image:
    with path.open("rb") as file:
        elf = ELFFile(file)
        sections = {s.name: (s["sh_addr"], s.data()) for s in elf.iter_sections() if s["sh_size"]}
        table = cast(SymbolTableSection, elf.get_section_by_name(".symtab"))
        text_index = elf.get_section_index(".text")
        symbols = [s for s in table.iter_symbols() if s["st_shndx"] == text_index and s.name]
        start, text = sections[".text"]
        assert start == 0
    entries, handled = _entries(isa, *sections.get("__ex_table", (0, b"")), _types(isa, tree))
    return Image(
        isa=isa,
        text=_with_constants(text, sections),
        symbols={s.name: s["st_value"] for s in symbols},
        sizes={s.name: s["st_size"] for s in symbols},
        entries=entries,
        alternatives=_alternatives(isa, sections, tree, features(isa, tree, build)),
        handled=handled,
    )


def _with_constants(text: bytes, sections: dict[str, tuple[int, bytes]]) -> bytes:
    """Return code with the constants that a booting kernel writes into it."""
    out = bytearray(text)
    for name, (address, data) in sections.items():
        if not name.startswith("runtime_"):
            continue
        if name not in _AT_BOOT:
            raise NotProven(f"it uses {name.split('_', 2)[-1]}, which is only known at boot")
        value = _AT_BOOT[name]
        for at in range(0, len(data), 4):
            distance = int.from_bytes(data[at : at + 4], "little", signed=True)
            start = address + at + distance
            if 0 <= start < len(out):  # otherwise it is in another section
                out[start : start + len(value)] = value
    return bytes(out)


def _entries(
    isa: str, address: int, data: bytes, types: dict[int, str]
) -> tuple[tuple[ExceptionEntry, ...], frozenset[str]]:
    """Return the exception table, and the types of entries that do more than jump to the fixup."""
    out, handled = [], set()
    for at in range(0, len(data), 12):
        number = int.from_bytes(data[at + 8 : at + (9 if isa == "x86_64" else 10)], "little")
        name = types.get(number, f"type {number}")
        registers = int.from_bytes(data[at + 10 : at + 12], "little")
        only_jumps = name in _ERR_ZERO_TYPES and registers == _NO_REGISTERS
        if name not in _FIXUP_TYPES and not only_jumps:
            handled.add(name)
        insn, fixup = relative_pair(data, at, address)
        out.append(ExceptionEntry(insn, fixup, name))
    return tuple(out), frozenset(handled)


def _types(isa: str, tree: Tree) -> dict[int, str]:
    file = {
        "x86_64": "arch/x86/include/asm/extable_fixup_types.h",
        "arm64": "arch/arm64/include/asm/asm-extable.h",
    }[isa]
    pairs = re.findall(r"(?m)^#[ \t]*define[ \t]+(EX_TYPE_\w+)[ \t]+(\d+)\b", tree.read(file))
    return {int(number): name for name, number in pairs}


def features(isa: str, tree: Tree, build: Path) -> dict[int, str]:
    """Return the names of the features that alternatives depend on, by their number."""
    if isa == "x86_64":
        text = tree.read("arch/x86/include/asm/cpufeatures.h")
        definitions = re.findall(
            r"#define\s+(X86_FEATURE_\w+)\s+\(\s*(\d+)\s*\*\s*32\s*\+\s*(\d+)\s*\)", text
        )
        return {32 * int(word) + int(bit): name for name, word, bit in definitions}
    folder = build / "arch/arm64/include/generated/asm"
    texts = [p.read_text() for p in folder.glob("cpucap*.h")]
    definitions = re.findall(r"#define\s+(ARM64_\w+)\s+(\d+)\b", "\n".join(texts))
    return {int(number): name for name, number in definitions}


def _alternatives(
    isa: str, sections: dict[str, tuple[int, bytes]], tree: Tree, names: dict[int, str]
) -> tuple[Alternative, ...]:
    address, data = sections.get(ALTERNATIVES, (0, b""))
    x86 = isa == "x86_64"
    flagged = x86 and "ft_flags" in tree.read("arch/x86/include/asm/alternative.h")
    size = FLAGGED_BYTES if flagged else PLAIN_BYTES
    out = []
    for at in range(0, len(data), size):
        entry = x86_entry(data, at, address, size) if x86 else arm64_entry(data, at, address)
        out.append(
            Alternative(
                site=entry.at,
                length=entry.length,
                replacement=b"" if entry.made else _code_at(sections, entry.new, entry.size),
                replacement_address=entry.new,
                feature=names.get(entry.feature, f"feature {entry.feature}"),
                inverse=entry.inverse,
                callback=entry.made,
            )
        )
    return tuple(out)


def _code_at(sections: dict[str, tuple[int, bytes]], address: int, size: int) -> bytes:
    if not size:
        return b""
    for name, (start, data) in sections.items():
        inside = start <= address and address + size <= start + len(data)
        if inside and name in (".text", ".altinstr_replacement", ".init.text"):
            return data[address - start : address - start + size]
    raise CheckError(f"an alternative's replacement at {address:#x} lies in no code section")


_MOST_IN_FULL = 3  # features up to which every subset is tried
# With it user space has another end than the one that the cases of a check assume.
FIVE_LEVEL_PAGING = "X86_FEATURE_LA57"
_ARM64_NOP = bytes.fromhex("1f2003d5")


def feature_sets(alternatives: Iterable[Alternative]) -> list[frozenset[str]]:
    """Return the sets of features to try code under: all subsets of few features.

    Five-level paging is in none of them.
    """
    names = dict.fromkeys(a.feature for a in alternatives)
    names.pop(FIVE_LEVEL_PAGING, None)
    sizes = range(len(names) + 1) if len(names) <= _MOST_IN_FULL else (0, 1, len(names))
    return [frozenset(chosen) for size in sizes for chosen in combinations(names, size)]


def with_features(image: Image, taken: frozenset[str]) -> bytes:
    """Return the image's code with the alternatives of some features in place."""
    text = bytearray(image.text)
    for alternative in image.alternatives:
        if (alternative.feature in taken) == alternative.inverse:
            continue
        if alternative.callback:
            raise NotProven(
                f"the alternative of {alternative.feature} is made by a function of the kernel"
            )
        if alternative.site + alternative.length > len(text):
            continue  # of code in another section
        try:
            new = instructions.moved(
                image.isa,
                alternative.replacement,
                alternative.replacement_address,
                alternative.site,
            )
        except InputError as error:
            raise NotProven(str(error)) from None
        nop = b"\x90" if image.isa == "x86_64" else _ARM64_NOP
        new += nop * ((alternative.length - len(new)) // len(nop))
        text[alternative.site : alternative.site + alternative.length] = new
    return bytes(text)


_X86_GPR = re.compile(r"r(?:[abcd]x|[sd]i|[bs]p|\d+)$")
_X86_VECTOR = re.compile(r"(?:[xyz]?mm|st|k)\d+$")


def written_registers(isa: str, code: bytes, address: int = 0) -> set[str]:
    """Return the general registers that code writes, as 64-bit names, without saved ones.

    A register counts as saved where it is pushed (stored below the frame) and popped again; the
    stack pointer where only pushes, pops, calls and returns change it.
    """
    return _written_x86(code, address) if isa == "x86_64" else _written_arm64(code, address)


def vector_registers(isa: str, code: bytes, address: int = 0) -> set[str]:
    """Return the vector, floating-point and mask registers that code uses."""
    if isa == "arm64":
        return {
            name for ins in _arm64_decoded(code, address) for name in _register_names(ins)
            if re.fullmatch(r"[bhsdqv]\d+(?:\..*)?", name)
        }  # fmt: skip
    info = iced.InstructionInfoFactory()
    used = (
        _name(u.register) for i in iced.Decoder(64, code, ip=address)
        for u in info.info(i).used_registers()
    )  # fmt: skip
    return {name for name in used if _X86_VECTOR.match(name)}


def direction_flag(code: bytes) -> int:
    """Return the number of instructions that set the direction flag, less that of clears (x86)."""
    names = [i.mnemonic for i in iced.Decoder(64, code)]
    return names.count(iced.Mnemonic.STD) - names.count(iced.Mnemonic.CLD)


def indirect_branches(code: bytes, address: int = 0) -> list[str]:
    """Return the branches through registers other than returns (arm64; objtool checks x86)."""
    decoded = _arm64_decoded(code, address)
    return [f"{i.mnemonic} {i.op_str}" for i in decoded if i.mnemonic in ("br", "braa", "brab")]


def wide_name(register: str) -> str:
    """Return the 64-bit name of a register given by its 32-bit name or its role."""
    if re.fullmatch(r"e\w\w", register):
        return f"r{register[1:]}"
    if re.fullmatch(r"w\d+", register):
        return f"x{register[1:]}"
    roles = {"fp": "x29", "lr": "x30", "wzr": "xzr", "wsp": "sp"}
    return roles.get(register, register.removesuffix("d"))


def _name(register: iced.Register_) -> str:
    return iced.Formatter(iced.FormatterSyntax.INTEL).format_register(
        iced.RegisterExt.full_register(register)
    )


def _written_x86(code: bytes, address: int) -> set[str]:
    info = iced.InstructionInfoFactory()
    pushed: set[str] = set()
    popped: set[str] = set()
    written: set[str] = set()
    for ins in iced.Decoder(64, code, ip=address):
        if ins.mnemonic in (iced.Mnemonic.PUSH, iced.Mnemonic.POP):
            name = _name(ins.op0_register)
            (pushed if ins.mnemonic == iced.Mnemonic.PUSH else popped).add(name)
            continue
        if ins.flow_control in (iced.FlowControl.CALL, iced.FlowControl.RETURN):
            continue
        for used in info.info(ins).used_registers():
            name = _name(used.register)
            if used.access in instructions.WRITES and _X86_GPR.match(name):
                written.add(name)
    return (written | popped) - (pushed & popped)


def _arm64_decoded(code: bytes, address: int) -> Iterator[capstone.CsInsn]:
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    decoder.detail = True
    decoder.skipdata = True
    return (i for i in decoder.disasm(code, address) if i.id)


def _register_names(ins: capstone.CsInsn) -> list[str]:
    reads, writes = ins.regs_access()
    return [str(ins.reg_name(r)) for r in (*reads, *writes)]


def _written_arm64(code: bytes, address: int) -> set[str]:
    stored: set[str] = set()
    restored: set[str] = set()
    written: set[str] = set()
    for ins in _arm64_decoded(code, address):
        reads, writes = ([wide_name(str(ins.reg_name(r))) for r in rs] for rs in ins.regs_access())
        if ins.mnemonic in ("bl", "blr", "ret"):
            continue
        if "sp" in reads and ins.mnemonic in ("stp", "str"):
            stored |= set(reads)
        elif "sp" in reads and ins.mnemonic in ("ldp", "ldr"):
            restored |= set(writes)
        else:
            written |= set(writes)
    changed = (written | restored) - (stored & restored)
    return {name for name in changed if re.fullmatch(r"x\d+", name)}
