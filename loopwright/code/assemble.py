"""Machine code of variants: assembled and linked by the toolchain, then read back."""

import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from loopwright import kernels, paths, toolchain
from loopwright.code import loops
from loopwright.code.elf import relative_pair
from loopwright.code.instructions import Code, ExceptionEntry, Loop, decode
from loopwright.code.loops import Choice
from loopwright.errors import InputError
from loopwright.kernels import Variant

# The flags of Linux that affect the code of a leaf routine.
_C_FLAGS = [
    "-O2", "-std=gnu11", "-ffreestanding", "-fno-strict-aliasing", "-fno-jump-tables",
    "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-fomit-frame-pointer", "-fno-pic",
    "-fno-pie", "-Werror=implicit-function-declaration",
]  # fmt: skip
_ISA_FLAGS = {
    "x86_64": [
        "-m64", "-mno-sse", "-mno-mmx", "-mno-red-zone", "-mcmodel=kernel", "-fcf-protection=none",
    ],
    "arm64": ["-mgeneral-regs-only", "-mcmodel=small"],
}  # fmt: skip
_EX_ENTRY_BYTES = 12  # both ISAs: two self-relative 32-bit offsets and 32 bits of type and data
# The last 32 bits as in harness/include. Those of arm64 name the two registers that the handler
# sets: wzr, so that none changes.
_EX_TYPES = {
    "x86_64": {1: "EX_TYPE_DEFAULT", 3: "EX_TYPE_UACCESS"},
    "arm64": {2 | (31 << 5 | 31) << 16: "EX_TYPE_UACCESS_ERR_ZERO"},
}
# Alternatives whose instructions user space may not execute.
PRIVILEGED = frozenset({"X86_FEATURE_SMAP"})


class NotAssembledError(InputError):
    """Source that the compiler or assembler rejects; the message is the first error."""


def variant_code(
    variant: Variant, without: frozenset[str] = frozenset(), *, with_: frozenset[str] | None = None
) -> Code:
    """Assemble a variant with its alternatives but for `without`, or with exactly those of `with_`.

    Alternatives are named by their features. InputError with the assembler's message, file and
    line.
    """
    kernel = kernels.load(variant.kernel)
    symbol = kernel.routines[variant.routine].contract.symbol
    if with_ is None:
        taken = tuple(name for name in variant.alternatives if name not in without)
    else:
        taken = tuple(sorted(with_))
    return source_code(kernel.isa, kernel.folder, variant.source, symbol, taken)


def features(variant: Variant) -> tuple[str, ...]:
    """Return the features that a variant's source and its headers have alternatives for."""
    kernel = kernels.load(variant.kernel)
    include = paths.HARNESS / "include" / kernel.isa / "asm"
    texts = [variant.source.read_text()]
    texts += [p.read_text() for p in kernel.folder.iterdir() if p.name in texts[0]]
    if variant.source.suffix == ".c":
        texts += [p.read_text() for p in include.glob("*.h")]
    used = set(re.findall(r"\b(?:X86_FEATURE|ARM64_HAS)_\w+", "\n".join(texts)))
    headers = "\n".join(p.read_text() for p in include.glob("cpu*.h"))
    return tuple(name for name in re.findall(r"ifdef LW_TAKE_(\w+)", headers) if name in used)


def user_code(variant: Variant) -> Code:
    """Assemble a variant as user space can run it: without privileged alternatives."""
    return variant_code(variant, PRIVILEGED)


def code_hash(variant: Variant) -> str:
    """Return the hash of a variant's code for user space."""
    return user_code(variant).sha256


def main_loop(variant: Variant, code: Code) -> Loop:
    """Return the main loop of a variant's code; InputError without one."""
    return chosen_loop(variant, code).loop


def moves_by_string(variant: Variant) -> bool:
    """True if one of a variant's loops is a string instruction."""
    return any(loop.kind == "string" for loop in variant_code(variant).loops)


def chosen_loop(variant: Variant, code: Code) -> Choice:
    """Return the main loop and the rule that chose it; InputError without one."""
    contract = kernels.contract_of(variant)
    try:
        choice = loops.choose(code.loops, contract, code.symbols)
    except InputError as error:
        raise InputError(f"{variant.source}: {error}") from None
    if choice is None:
        raise InputError(
            f"{variant.source}: no loop in {contract.symbol} that moves data; a routine without "
            'a loop says unit = "call" in its contract'
        )
    return choice


def source_code(
    isa: str, folder: Path, source: Path, symbol: str, alternatives: tuple[str, ...]
) -> Code:
    """Assemble one source file with the given alternatives; folder is its kernel's."""
    key = isa, folder, source, symbol, alternatives
    if (assembled := _CACHE.get(key)) and assembled.files == _contents(assembled.files):
        return assembled.code
    assembled = _CACHE[key] = _assemble(isa, folder, source, symbol, alternatives)
    return assembled.code


@dataclass(frozen=True)
class _Assembled:
    """Code, and the contents of the files that it was made from."""

    code: Code
    files: dict[Path, bytes]


# Files may change while this process lives: entries are valid for the recorded contents.
_CACHE: dict[tuple[str, Path, Path, str, tuple[str, ...]], _Assembled] = {}


def _contents(files: Iterable[Path]) -> dict[Path, bytes]:
    """Return the contents of files; missing ones are left out."""
    return {path: path.read_bytes() for path in files if path.is_file()}


def _assemble(
    isa: str, folder: Path, source: Path, symbol: str, alternatives: tuple[str, ...]
) -> _Assembled:
    tools = toolchain.find(isa)
    with tempfile.TemporaryDirectory(prefix="loopwright-") as scratch:
        obj, elf, included = (Path(scratch, f"variant.{end}") for end in ("o", "elf", "d"))
        command = [
            tools.gcc,
            *flags(isa, folder),
            *(f"-DLW_TAKE_{name}" for name in alternatives),
            "-Wa,--keep-locals",  # a kernel.toml may name its main loop by a label
            *("-MD", "-MF", str(included)),
            *("-c", str(source), "-o", str(obj)),
        ]
        if source.suffix == ".S":
            command.insert(1, "-D__ASSEMBLY__")
        _run(command, source)
        options = ("-Ttext=0", "-e", symbol, "--no-warn-rwx-segments", "-z", "noexecstack")
        _run([tools.ld, *options, "-o", str(elf), str(obj)], source)
        files = [source, *_included(included.read_text())]
        return _Assembled(_read(isa, elf, source, symbol), _contents(files))


def _included(rule: str) -> list[Path]:
    """Return the prerequisites of a make rule that a compiler wrote."""
    _, _, files = rule.replace("\\\n", " ").partition(": ")
    names = (re.sub(r"\\([ #])|\$(\$)", r"\1\2", n) for n in re.split(r"(?<!\\)\s+", files) if n)
    return [Path(name) for name in names]


def flags(isa: str, folder: Path) -> list[str]:
    """Return the compiler's flags for a kernel's source in folder, without alternatives."""
    include = paths.HARNESS / "include"
    include_options = [f"-I{path}" for path in (include / isa, include / "common", folder)]
    return [*_C_FLAGS, *_ISA_FLAGS[isa], "-D__KERNEL__", "-nostdinc", *include_options]


def _run(command: list[str], source: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    first = next((line for line in lines if re.search(r"[Ee]rror|undefined", line)), lines[0])
    raise NotAssembledError(f"{source.name} does not assemble: {first.strip()}")


def _read(isa: str, elf: Path, source: Path, symbol: str) -> Code:
    with elf.open("rb") as file:
        image = ELFFile(file)
        text = image.get_section_by_name(".text")
        table = image.get_section_by_name("__ex_table")
        extra = [
            s.name
            for s in image.iter_sections()
            if s["sh_flags"] & 2 and s["sh_size"] and s.name not in (".text", "__ex_table")
        ]
        if extra:
            raise InputError(f"{source}: section {extra[0]} holds data; a variant has code only")
        symbol_table = cast(SymbolTableSection, image.get_section_by_name(".symtab"))
        defined = [
            s for s in symbol_table.iter_symbols() if s.name and s["st_shndx"] != "SHN_UNDEF"
        ]
        symbols = {s.name: s["st_value"] for s in defined}
        sizes = {s.name: s["st_size"] for s in defined}
        if text is None or symbol not in symbols:
            raise InputError(f"{source}: it defines no {symbol}")
        data: bytes = text.data()
        exceptions = _exceptions(isa, table.data(), table["sh_addr"]) if table else ()
    start, size = symbols[symbol], sizes[symbol]
    if not size:
        raise InputError(f"{source}: {symbol} has no size; end it with SYM_FUNC_END({symbol})")
    instructions = decode(isa, data[start : start + size], start)
    return Code(
        isa=isa,
        text=data,
        entry=start,
        size=size,
        instructions=instructions,
        symbols=symbols,
        exceptions=exceptions,
        loops=loops.find(instructions),
        align=int(text["sh_addralign"]),
    )


def _exceptions(isa: str, table: bytes, address: int) -> tuple[ExceptionEntry, ...]:
    out = []
    for at in range(0, len(table), _EX_ENTRY_BYTES):
        insn, fixup = relative_pair(table, at, address)
        kind = int.from_bytes(table[at + 8 : at + 12], "little")
        out.append(ExceptionEntry(insn, fixup, _EX_TYPES[isa].get(kind, f"type {kind:#x}")))
    return tuple(out)
