"""Read objects that kbuild made: code, exception table and alternatives, linked at address 0."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from loopwright import toolchain
from loopwright.code.altinstructions import (
    FLAGGED_BYTES,
    PLAIN_BYTES,
    SECTION,
    arm64_entry,
    x86_entry,
)
from loopwright.linux.trees import Tree
from loopwright.linux.verify.outcomes import CheckError, NotProven

# What the linked kernel has elsewhere and leaf routines jump to.
_STUBS = {
    "x86_64": ".globl __x86_return_thunk\n__x86_return_thunk:\tret\n",
    "arm64": ".globl loopwright_stub\nloopwright_stub:\tret\n",
}
_PLAIN = {"EX_TYPE_DEFAULT", "EX_TYPE_UACCESS"}
_ERR_ZERO = {"EX_TYPE_UACCESS_ERR_ZERO", "EX_TYPE_KACCESS_ERR_ZERO"}
# What x86-64 kernels write into code at boot: where user space ends, with 4-level page tables.
_AT_BOOT = {"runtime_ptr_USER_PTR_MAX": (0x7FFFFFFFF000).to_bytes(8, "little")}
_NO_REGISTERS = 31 | 31 << 5  # wzr for both: nothing is written but the program counter


@dataclass(frozen=True)
class ExtableEntry:
    """One entry of the exception table; type is the kernel's name, plain: it only jumps."""

    insn: int
    fixup: int
    type: str
    plain: bool


@dataclass(frozen=True)
class Alternative:
    """One place that is patched at boot where feature is there (inverse: where it is not)."""

    site: int
    length: int
    replacement: bytes
    replacement_address: int
    feature: str
    inverse: bool
    callback: bool


@dataclass(frozen=True)
class Image:
    """Objects linked together: code starts at address 0; symbols are addresses, sizes bytes."""

    isa: str
    text: bytes
    symbols: dict[str, int]
    sizes: dict[str, int]
    entries: tuple[ExtableEntry, ...]
    alternatives: tuple[Alternative, ...]


def link(isa: str, objects: Sequence[Path], tree: Tree, build: Path, scratch: Path) -> Image:
    """Link objects with stubs for what the kernel has elsewhere, and read them.

    NotProven where they call what is not there, or use what is only known at boot. Feature names
    come from the tree's headers, or those generated in its build folder.
    """
    tools = toolchain.find(isa)
    stub, linked = scratch / "stub.o", scratch / "linked.elf"
    subprocess.run(
        [tools.gcc, "-c", "-x", "assembler", "-", "-o", str(stub)],
        input=f".text\n{_STUBS[isa]}.section .note.GNU-stack\n", text=True, check=True,
    )  # fmt: skip
    command = [
        tools.ld, "-Ttext=0", "-e", "0", "--no-warn-rwx-segments", "-z", "noexecstack",
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
    return Image(
        isa=isa,
        text=_booted(text, sections),
        symbols={s.name: s["st_value"] for s in symbols},
        sizes={s.name: s["st_size"] for s in symbols},
        entries=_entries(isa, *sections.get("__ex_table", (0, b"")), _types(isa, tree)),
        alternatives=_alternatives(isa, sections, tree, features(isa, tree, build)),
    )


def _booted(text: bytes, sections: dict[str, tuple[int, bytes]]) -> bytes:
    """Return code with the constants that a booting kernel writes into it."""
    out = bytearray(text)
    for name, (address, data) in sections.items():
        if not name.startswith("runtime_"):
            continue
        if name not in _AT_BOOT:
            raise NotProven(f"it uses {name.split('_', 2)[-1]}, which is only known at boot")
        value = _AT_BOOT[name]
        for at in range(0, len(data), 4):
            place = address + at + _signed(data, at)
            if 0 <= place < len(out):  # else in code that is built beside it
                out[place : place + len(value)] = value
    return bytes(out)


def _signed(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little", signed=True)


def _entries(
    isa: str, address: int, data: bytes, types: dict[int, str]
) -> tuple[ExtableEntry, ...]:
    out = []
    for at in range(0, len(data), 12):
        number = (
            data[at + 8] if isa == "x86_64" else int.from_bytes(data[at + 8 : at + 10], "little")
        )
        name = types.get(number, f"type {number}")
        rest = int.from_bytes(data[at + 10 : at + 12], "little")
        plain = name in _PLAIN or (name in _ERR_ZERO and rest == _NO_REGISTERS)
        insn = address + at + _signed(data, at)
        out.append(ExtableEntry(insn, address + at + 4 + _signed(data, at + 4), name, plain))
    return tuple(out)


def _types(isa: str, tree: Tree) -> dict[int, str]:
    file = {
        "x86_64": "arch/x86/include/asm/extable_fixup_types.h",
        "arm64": "arch/arm64/include/asm/asm-extable.h",
    }[isa]
    found = re.findall(r"(?m)^#[ \t]*define[ \t]+(EX_TYPE_\w+)[ \t]+(\d+)\b", tree.read(file))
    return {int(number): name for name, number in found}


def features(isa: str, tree: Tree, build: Path) -> dict[int, str]:
    """Return the names of the features that alternatives depend on, by their number."""
    if isa == "x86_64":
        text = tree.read("arch/x86/include/asm/cpufeatures.h")
        found = re.findall(
            r"#define\s+(X86_FEATURE_\w+)\s+\(\s*(\d+)\s*\*\s*32\s*\+\s*(\d+)\s*\)", text
        )
        return {32 * int(word) + int(bit): name for name, word, bit in found}
    folder = build / "arch/arm64/include/generated/asm"
    texts = [p.read_text() for p in folder.glob("cpucap*.h")]
    found = re.findall(r"#define\s+(ARM64_\w+)\s+(\d+)\b", "\n".join(texts))
    return {int(number): name for name, number in found}


def _alternatives(
    isa: str, sections: dict[str, tuple[int, bytes]], tree: Tree, names: dict[int, str]
) -> tuple[Alternative, ...]:
    address, data = sections.get(SECTION, (0, b""))
    x86 = isa == "x86_64"
    flagged = x86 and "ft_flags" in tree.read("arch/x86/include/asm/alternative.h")
    size = FLAGGED_BYTES if flagged else PLAIN_BYTES
    out = []
    for at in range(0, len(data), size):
        one = x86_entry(data, at, address, size) if x86 else arm64_entry(data, at, address)
        out.append(
            Alternative(
                site=one.at,
                length=one.length,
                replacement=b"" if one.made else _at(sections, one.new, one.size),
                replacement_address=one.new,
                feature=names.get(one.feature, f"feature {one.feature}"),
                inverse=one.inverse,
                callback=one.made,
            )
        )
    return tuple(out)


def _at(sections: dict[str, tuple[int, bytes]], address: int, size: int) -> bytes:
    if not size:
        return b""
    for name, (start, data) in sections.items():
        inside = start <= address and address + size <= start + len(data)
        if inside and name in (".text", ".altinstr_replacement", ".init.text"):
            return data[address - start : address - start + size]
    raise CheckError(f"an alternative's replacement at {address:#x} lies in no code section")
