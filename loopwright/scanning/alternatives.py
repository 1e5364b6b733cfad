"""Apply what a kernel patches into its own text when it boots: its alternatives.

An entry of .altinstructions says: where the feature is there, this replacement stands instead of
those instructions. What it looks like is the ISA's matter: x86_alternatives, arm64_alternatives.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from loopwright.code.elf import Edits
from loopwright.errors import InputError, unknown
from loopwright.scanning import arm64_alternatives as arm64
from loopwright.scanning import arm64_features, kallsyms
from loopwright.scanning import x86_alternatives as x86
from loopwright.scanning.words import counted
from loopwright.scanning.x86_features import ALWAYS, NUMBERS


@dataclass
class Alternatives:
    """The alternatives of a file: how many there are, and how many were applied.

    unknown counts those whose feature has no name here, or whose replacement the kernel makes as it
    boots: they are left as linked.
    """

    features: frozenset[str] | None = None
    total: int = 0
    applied: int = 0
    unknown: int = 0

    def __post_init__(self) -> None:
        """Raise InputError where a feature's name is not known."""
        for name in self.features or ():
            if name not in NUMBERS and name not in arm64_features.NAMES:
                raise unknown("feature", name, [*NUMBERS, *arm64_features.NAMES])

    def check(self, name: str) -> None:
        """Raise InputError where features were asked for and the file has no alternatives."""
        if self.features is not None and not self.total:
            raise InputError(
                f"{name} has no alternatives of a kernel that --features could choose by: "
                "leave it out"
            )

    @property
    def said(self) -> str:
        """Return a sentence on what text was scanned."""
        if not self.total:
            return "text as linked"
        if self.features is None:
            count = counted(self.total, "alternative")
            return f"text as linked: none of its {count} is applied (--features)"
        named = ", ".join(sorted(self.features))
        return (
            f"text as patched on a CPU with {named} alone: {self.applied:,} of "
            f"{counted(self.total, 'alternative')} applied; "
            f"{counted(self.unknown, 'is', 'are')} for features that have no name here, or made as "
            "it boots"
        )

    def edits(self, image: ELFFile) -> Edits:
        """Return what is written over the code of an ELF file."""
        table = image.get_section_by_name(x86.SECTION)
        if table is None or not table["sh_size"]:
            return {}
        if image["e_machine"] == "EM_X86_64":
            return self._x86(image)
        if image["e_type"] == "ET_REL":
            self.total += table["sh_size"] // arm64.SIZE
            if self.features is not None:
                raise InputError(
                    "a part of an arm64 kernel does not say by which numbers it knows features, "
                    "which --features could choose by: scan the kernel, or leave it out"
                )
            return {}
        return self._arm64_elf(image)

    def patched(self, content: bytes) -> bytes:
        """Return an arm64 Image as it patches itself."""
        named = {name: address for address, _, name in kallsyms.symbols(content)}
        nops = {named[arm64.NOPS] - named["_text"]} if {arm64.NOPS, "_text"} <= {*named} else set()
        out = bytearray(content)
        for at, text in self._arm64(content, nops):
            out[at : at + len(text)] = text
        return bytes(out)

    def _x86(self, image: ELFFile) -> Edits:
        layout = x86.Layout(image)
        found = list(x86.entries(layout, layout.number(x86.SECTION)))
        self.total += len(found)
        out: dict[int, list[tuple[int, bytes]]] = {}
        if self.features is None:
            return out
        self._all_of(NUMBERS, "x86-64")
        self.unknown += sum(entry.feature not in NUMBERS.values() for entry in found)
        taken = {NUMBERS[name] for name in self.features} | {ALWAYS}
        for applied, number, at, text in x86.written(layout, found, taken):
            self.applied += applied
            out.setdefault(number, []).append((at, text))
        return out

    def _arm64_elf(self, image: ELFFile) -> Edits:
        """Return the same of a linked arm64 kernel, whose table lies in its memory as it starts."""
        parts = [s for s in image.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_filesz"]]
        base = min(part["p_vaddr"] for part in parts)
        memory = bytearray(max(p["p_vaddr"] + p["p_filesz"] for p in parts) - base)
        for part in parts:
            at = part["p_vaddr"] - base
            memory[at : at + part["p_filesz"]] = part.data()
        symbols = image.get_section_by_name(".symtab")
        named = (
            symbols.get_symbol_by_name(arm64.NOPS)
            if isinstance(symbols, SymbolTableSection)
            else None
        )
        nops = {symbol["st_value"] - base for symbol in named or ()}
        out: dict[int, list[tuple[int, bytes]]] = {}
        places = [
            (number, section["sh_addr"] - base, section["sh_size"])
            for number, section in enumerate(image.iter_sections())
            if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR
        ]
        for at, text in self._arm64(bytes(memory), nops):
            for number, start, size in places:
                if start <= at < start + size:
                    out.setdefault(number, []).append((at - start, text))
        return out

    def _arm64(self, content: bytes, nops: Collection[int]) -> Iterator[tuple[int, bytes]]:
        """Yield what is written where in a kernel's memory; nops are places of that function."""
        found = arm64.entries(content)
        self.total += len(found)
        if self.features is None or not found:
            return
        numbers = arm64_features.numbers(content)
        self._all_of(numbers, "this arm64 kernel")
        known = set(numbers.values())
        taken = {numbers[name] for name in self.features}
        for entry in found:
            if entry.feature not in known or (entry.made and entry.new not in nops):
                self.unknown += 1
            elif entry.feature in taken:
                self.applied += 1
                yield entry.at, arm64.replacement(content, entry)

    def _all_of(self, names: Collection[str], which: str) -> None:
        for name in sorted(self.features or ()):
            if name not in names:
                raise InputError(
                    f"feature {name!r} is none by which code of {which} is patched; "
                    f"known: {', '.join(sorted(names)) or 'none'}"
                )
