"""Hold an exception table to the code: where its entries stand, and what handles each fault."""

from collections.abc import Collection, Mapping

from loopwright.code import assemble
from loopwright.code.instructions import Instruction
from loopwright.kernels import Variant, contract_of
from loopwright.linux.verify.image import ExtableEntry, Image
from loopwright.linux.verify.outcomes import CheckError
from loopwright.linux.verify.units import CompiledAs

# What lets the kernel survive a fault, or poisoned memory, in an access to a user's memory: other
# types hide where a user gave a wrong pointer, or lose the recovery from machine checks.
_USER = {
    "x86_64": ("EX_TYPE_UACCESS", "EX_TYPE_COPY", "EX_TYPE_UCOPY_LEN"),
    "arm64": ("EX_TYPE_UACCESS_ERR_ZERO",),
}
# The same of the kernel's own memory: read past its end by a word, or expected to fault.
_PAST_ITS_END = {"x86_64": ("EX_TYPE_ZEROPAD",), "arm64": ("EX_TYPE_LOAD_UNALIGNED_ZEROPAD",)}
_KERNEL = {"x86_64": ("EX_TYPE_DEFAULT",), "arm64": ("EX_TYPE_KACCESS_ERR_ZERO",)}


def judge(
    found: Image, variant: Variant, place: CompiledAs, instructions: Mapping[int, Instruction]
) -> str:
    """Say what the table was held to; CheckError with the first entry that is wrong.

    instructions are those of the image, by address.
    """
    start = found.symbols[place.symbol]
    end = start + found.sizes[place.symbol]
    mine = [e for e in found.entries if start <= e.insn < end]
    sites = {a.site for a in found.alternatives}
    for entry in found.entries:
        where = f"entry {place.symbol}+{entry.insn - start:#x}"
        # Those of replacements are judged by the run with their feature.
        if entry.insn not in sites:
            _stands(entry, where, instructions)
        if entry in mine or len(place.objects) > 1:
            _is_of_kind(entry, where, variant, found.isa)
        # With alternatives a routine may switch PAN off, and then access memory as it likes.
        if found.isa == "arm64" and contract_of(variant).faulting and not found.alternatives:
            _is_unprivileged(instructions[entry.insn], where)
    if variant.source.suffix == ".S":
        want = len(assemble.variant_code(variant).exceptions)
        if len(mine) != want:
            raise CheckError(f"{len(mine)} entries, {want} in {variant.source.name}")
    kinds = f", each {' or '.join(sorted({e.type for e in mine}))}" if mine else ""
    return (
        f"{len(mine)} entries of its own, each at a load or store, each to a whole instruction"
        f"{kinds}"
    )


def _stands(entry: ExtableEntry, where: str, instructions: Mapping[int, Instruction]) -> None:
    at = instructions.get(entry.insn)
    if at is None:
        raise CheckError(f"{where} points into the middle of an instruction")
    if not at.read_bytes and not at.written_bytes:
        raise CheckError(f"{where} points at `{at.text}`, which accesses no memory")
    if entry.fixup not in instructions:
        raise CheckError(f"{where} has a fixup in the middle of an instruction")


def _is_unprivileged(at: Instruction, where: str) -> None:
    """Refuse an access with the kernel's own permissions: user space runs it all the same."""
    if not at.mnemonic.startswith(("ldtr", "sttr")):
        raise CheckError(
            f"{where} points at `{at.text}`, which accesses a user's memory with the kernel's "
            "permissions: it needs ldtr or sttr"
        )


def wanted(variant: Variant, isa: str) -> Collection[str]:
    """Return the types of entry that a variant's accesses need, the usual one first."""
    contract = contract_of(variant)
    if contract.faulting:
        return _USER[isa]
    return _PAST_ITS_END[isa] if contract.overread else _KERNEL[isa]


def _is_of_kind(entry: ExtableEntry, where: str, variant: Variant, isa: str) -> None:
    known = wanted(variant, isa)
    if entry.type not in known:
        whose = "a user's memory" if contract_of(variant).faulting else "the kernel's memory"
        raise CheckError(f"{where} is {entry.type}: an access to {whose} needs {next(iter(known))}")
