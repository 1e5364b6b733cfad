"""Decoded instructions and their control flow: iced-x86 for x86-64, capstone for AArch64."""

import hashlib
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeVar

import iced_x86 as iced

from loopwright.errors import InputError

if TYPE_CHECKING:
    import capstone
    import numpy as np
    from numpy.typing import NDArray

_Words = TypeVar("_Words", int, "NDArray[np.int64]")

# The general-purpose registers of each ISA, in the order of their numbers.
REGISTERS = {
    "x86_64": (
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)),
    ),
    "arm64": (*(f"x{n}" for n in range(31)), "sp"),
}  # fmt: skip
# Nops of one instruction, by their length (Intel SDM, NOP, table 4-12).
X86_NOPS = tuple(
    bytes.fromhex(code)
    for code in (
        "90", "6690", "0f1f00", "0f1f4000", "0f1f440000", "660f1f440000", "0f1f8000000000",
        "0f1f840000000000", "660f1f840000000000",
    )
)  # fmt: skip


class Flow(Enum):
    """Control flow of an instruction."""

    NEXT = "next"
    JUMP = "jump"
    BRANCH = "branch"
    CALL = "call"
    RETURN = "return"
    INDIRECT = "indirect"


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction.

    address counts from the start of its code; text is in GNU syntax (AT&T on x86); target is the
    address of a direct branch's target; read_bytes and written_bytes are those of one execution
    (one element of a string instruction).
    """

    address: int
    code: bytes
    mnemonic: str
    text: str
    flow: Flow
    target: int | None
    read_bytes: int
    written_bytes: int
    string: bool

    @property
    def end(self) -> int:
        return self.address + len(self.code)

    @property
    def line(self) -> str:
        """Its text with single spaces."""
        return " ".join(self.text.split())


@dataclass(frozen=True)
class Loop:
    """An innermost loop: from its head to the end of its backward branch.

    kind is "branch", or "string" for one repeated string instruction, whose bytes are those of one
    element. nested is True if it is inside another loop.
    """

    kind: str
    instructions: tuple[Instruction, ...]
    nested: bool = False

    @property
    def start(self) -> int:
        return self.instructions[0].address

    @property
    def end(self) -> int:
        return self.instructions[-1].end

    @property
    def code(self) -> bytes:
        return b"".join(i.code for i in self.instructions)

    @property
    def read_bytes(self) -> int:
        """The bytes loaded by one iteration."""
        return sum(i.read_bytes for i in self.instructions)

    @property
    def written_bytes(self) -> int:
        """The bytes stored by one iteration."""
        return sum(i.written_bytes for i in self.instructions)


@dataclass(frozen=True)
class ExceptionEntry:
    """An entry of an exception table: a fault at insn continues at fixup (addresses).

    type is the kernel's name of the handler ("EX_TYPE_UACCESS"). It is not executed, and so no part
    of the hashes that measurements are stored by.
    """

    insn: int
    fixup: int
    type: str = field(default="", repr=False)


@dataclass(frozen=True)
class Code:
    """A variant's linked code: text starts at address 0 and needs no relocation.

    align is the alignment of its section in bytes: a linker puts text at any multiple of it.
    """

    isa: str
    text: bytes
    entry: int
    size: int
    instructions: tuple[Instruction, ...]
    symbols: dict[str, int]
    exceptions: tuple[ExceptionEntry, ...]
    loops: tuple[Loop, ...]
    align: int = 1

    @cached_property
    def sha256(self) -> str:
        """The digest of text, entry and exception table, in hex."""
        return hashlib.sha256(self.text + repr((self.entry, self.exceptions)).encode()).hexdigest()


X86_FLOW = {
    iced.FlowControl.NEXT: Flow.NEXT,
    iced.FlowControl.UNCONDITIONAL_BRANCH: Flow.JUMP,
    iced.FlowControl.CONDITIONAL_BRANCH: Flow.BRANCH,
    iced.FlowControl.CALL: Flow.CALL,
    iced.FlowControl.RETURN: Flow.RETURN,
}
READS = {
    iced.OpAccess.READ,
    iced.OpAccess.COND_READ,
    iced.OpAccess.READ_WRITE,
    iced.OpAccess.READ_COND_WRITE,
}
WRITES = {
    iced.OpAccess.WRITE,
    iced.OpAccess.COND_WRITE,
    iced.OpAccess.READ_WRITE,
    iced.OpAccess.READ_COND_WRITE,
}


def register_number(isa: str, name: str) -> int:
    """Return the number of a register, by the name of all of it or of its lower half."""
    wide = {"e": "r", "w": "x"}.get(name[0], name[0]) + name[1:].removesuffix("d")
    for candidate in (name, wide):
        if candidate in REGISTERS[isa]:
            return REGISTERS[isa].index(candidate)
    raise InputError(f"register {name!r} is not known to {isa}")


def signed(value: int) -> int:
    """Return a 64-bit word as a signed number."""
    return value - (1 << 64) if value >> 63 else value


def encode_x86(ins: iced.Instruction) -> bytes:
    """Return the bytes of an instruction; ValueError if it has no encoding."""
    encoder = iced.Encoder(64)
    encoder.encode(ins, 0)
    return bytes(encoder.take_buffer())


def parse_hex(text: str) -> bytes:
    """Return the bytes of a hex string; InputError if it is odd, empty or no hex."""
    try:
        if code := bytes.fromhex(text):
            return code
    except ValueError:
        pass  # it may have another notation; errors are reported below
    # Also in the notations of listings, debuggers and C: 0x48, 48:83, "\x48", {0x48}.
    bare = re.sub(r"[\s,:;{}\"']+", " ", text)
    digits = re.sub(r"(?:^|(?<= ))0x|\\x| ", "", bare.strip(), flags=re.I).lower()
    if not digits:
        raise InputError("the hex string is empty; give the bytes of at least one instruction")
    wrong = re.search(r"[^0-9a-f]", digits)
    if wrong:
        raise InputError(f"hex {text[:40]!r} has {wrong.group()!r}, which is not a hex digit")
    if len(digits) % 2:
        raise InputError(f"hex {text[:40]!r} has {len(digits)} digits; a byte needs two")
    return bytes.fromhex(digits)


# The same code is decoded for up to 64 offsets and several cores.
@lru_cache(maxsize=4096)
def decode(isa: str, code: bytes, address: int = 0) -> tuple[Instruction, ...]:
    """Decode all of code; InputError at bytes that are no instruction, or are cut off."""
    if not code:
        raise InputError("there is no code to decode: it is empty")
    return _decode_x86(code, address) if isa == "x86_64" else _decode_arm64(code, address)


def executed(loop: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return the instructions of a loop that no jump forward within it skips, in their order.

    Conditional branches fall through.
    """
    starts = {ins.address for ins in loop}
    body: list[Instruction] = []
    behind = loop[0].address
    for ins in loop:
        if ins.address >= behind:
            body.append(ins)
            behind = ins.end
            if ins.flow is Flow.JUMP and ins.target in starts:
                behind = max(behind, ins.target)
    return tuple(body)


def no_code(isa: str, code: bytes, at: int) -> InputError:
    """Return the error for code whose byte `at` starts no whole instruction."""
    name = {"x86_64": "x86-64", "arm64": "AArch64"}[isa]
    return InputError(
        f"byte {at} of {code.hex()[:40]} starts no whole {name} instruction "
        f"({code[at : at + 15].hex()})"
    )


def _decode_x86(code: bytes, address: int) -> tuple[Instruction, ...]:
    decoder = iced.Decoder(64, code, ip=address)
    formatter = iced.Formatter(iced.FormatterSyntax.GAS)
    formatter.uppercase_hex = False
    formatter.space_after_operand_separator = True
    formatter.gas_show_mnemonic_size_suffix = True
    formatter.rip_relative_addresses = True
    info = iced.InstructionInfoFactory()
    out = []
    for ins in decoder:
        at = ins.ip - address
        if ins.is_invalid:
            raise no_code("x86_64", code, at)
        string = repeats(ins)
        used = info.info(ins).used_memory()
        sizes = [(m.access, iced.MemorySizeExt.size(m.memory_size)) for m in used]
        if string:
            sizes = _string_sizes(ins)
        if ins.mnemonic == iced.Mnemonic.CLZERO:
            sizes = [(iced.OpAccess.WRITE, ZEROED_BYTES)]
        out.append(
            Instruction(
                address=ins.ip,
                code=code[at : at + ins.len],
                mnemonic=_without_suffix(formatter.format_mnemonic(ins)),
                text=_without_suffix(formatter.format(ins)),
                flow=X86_FLOW.get(ins.flow_control, Flow.INDIRECT),
                target=near_target(ins),
                read_bytes=sum(size for access, size in sizes if access in READS),
                written_bytes=sum(size for access, size in sizes if access in WRITES),
                string=string,
            )
        )
    return tuple(out)


def repeats(ins: iced.Instruction) -> bool:
    """True if it is a repeated string instruction."""
    return ins.is_string_instruction and (ins.has_rep_prefix or ins.has_repne_prefix)


def near_target(ins: iced.Instruction) -> int | None:
    """Return the target of a direct branch, None for other instructions."""
    near = ins.is_jcc_short_or_near or ins.is_jmp_short_or_near or ins.is_call_near
    near = near or ins.is_loop or ins.is_loopcc or ins.is_jcx_short
    return ins.near_branch_target if near else None


def _without_suffix(text: str) -> str:
    """Return text without the size suffix that assemblers reject on loop instructions."""
    return re.sub(r"^(loop(?:n?e)?)[lq]\b", r"\1", text)


def _string_sizes(ins: iced.Instruction) -> list[tuple[iced.OpAccess_, int]]:
    """Return the bytes that one element of a repeated string instruction reads and writes."""
    size = iced.MemorySizeExt.size(ins.memory_size)
    memory_kinds = [iced.OpKind.MEMORY_SEG_RSI, iced.OpKind.MEMORY_ESRDI]
    operands = [ins.op_kind(n) for n in range(ins.op_count)]
    writes = operands[:1] == [iced.OpKind.MEMORY_ESRDI] and not ins.has_repne_prefix
    return [
        (iced.OpAccess.WRITE if writes and n == 0 else iced.OpAccess.READ, size)
        for n, kind in enumerate(operands)
        if kind in memory_kinds
    ]


ZEROED_BYTES = 64  # by dc zva, where DCZID_EL0 has its usual value; by clzero always
_ARM64_FLOWS = {
    **dict.fromkeys(("ret", "retaa", "retab", "eret"), Flow.RETURN),
    **dict.fromkeys(("bl", "blr"), Flow.CALL),
    **dict.fromkeys(("br", "braa", "brab"), Flow.INDIRECT),
    **dict.fromkeys(("cbz", "cbnz", "tbz", "tbnz"), Flow.BRANCH),
    "b": Flow.JUMP,
}


def undecodable(isa: str, code: bytes) -> str:
    """Return an error for code that has an outline but that decode rejects, or "".

    Outlines accept some unallocated AArch64 encodings, and extensions of later years.
    """
    if isa == "x86_64":  # both use the same decoder
        return ""
    done = sum(size for _, size, _, _ in _DISASSEMBLERS.brief.disasm_lite(code, 0))
    return "" if done == len(code) else str(no_code(isa, code, done))


def _arm64_disassembler() -> "capstone.Cs":
    import capstone

    return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)


class _Disassemblers(threading.local):
    """A thread's AArch64 disassemblers; making one takes as long as a hundred instructions."""

    @cached_property
    def brief(self) -> "capstone.Cs":
        return _arm64_disassembler()

    @cached_property
    def detailed(self) -> "capstone.Cs":
        disassembler = _arm64_disassembler()
        disassembler.detail = True
        return disassembler


_DISASSEMBLERS = _Disassemblers()


def disassembled(code: bytes, address: int = 0) -> Iterator["capstone.CsInsn"]:
    """Yield AArch64 instructions with their operands, up to bytes that are none."""
    yield from _DISASSEMBLERS.detailed.disasm(code, address)


def _decode_arm64(code: bytes, address: int) -> tuple[Instruction, ...]:
    out = [_arm64_instruction(ins) for ins in disassembled(code, address)]
    done = sum(len(i.code) for i in out)
    if done != len(code):
        raise no_code("arm64", code, done)
    return tuple(out)


def _arm64_instruction(ins: "capstone.CsInsn") -> Instruction:
    from capstone import arm64_const

    name = ins.mnemonic
    target = None
    flow = _ARM64_FLOWS.get(name, Flow.BRANCH if name.startswith("b.") else Flow.NEXT)
    if name in ("b", "bl") or flow is Flow.BRANCH:
        target = next(o.imm for o in reversed(ins.operands) if o.type == arm64_const.ARM64_OP_IMM)
    size = _arm64_bytes(ins)
    zeroes = name == "dc" and ins.op_str.startswith(("zva", "gzva"))
    load, store = name.startswith(("ld", "prf")), name.startswith("st")
    return Instruction(
        address=ins.address,
        code=bytes(ins.bytes),
        mnemonic=name,
        text=f"{name} {ins.op_str}".strip(),
        flow=flow,
        target=target,
        read_bytes=size if load and not name.startswith("prf") else 0,
        written_bytes=ZEROED_BYTES if zeroes else size if store else 0,
        string=False,
    )


_ARM64_REGISTER_BYTES = {"b": 1, "h": 2, "s": 4, "w": 4, "d": 8, "x": 8, "q": 16, "v": 16}
_VECTOR = re.compile(r"v\d+\.(\d*)([bhsd])")


def _arm64_bytes(ins: "capstone.CsInsn") -> int:
    """Return the bytes of a load or store: by the mnemonic's suffix, else by its registers."""
    from capstone import arm64_const

    name = ins.mnemonic
    if not name.startswith(("ld", "st")):
        return 0
    if ins.op_str.startswith("{"):  # vectors, or one element of each
        listed = _VECTOR.findall(ins.op_str.partition("}")[0])
        return sum(int(lanes or 1) * _ARM64_REGISTER_BYTES[size] for lanes, size in listed)
    if name.endswith("b") and not name.endswith("bb"):
        return 1
    if name.endswith("h"):
        return 2
    if name.endswith("sw"):
        return 4
    registers = [o.reg for o in ins.operands if o.type == arm64_const.ARM64_OP_REG]
    pair = name.startswith(("ldp", "stp", "ldnp", "stnp"))
    names = [ins.reg_name(r) for r in registers[: 2 if pair else 1]]
    if name.startswith(("stx", "stlx")):
        names = [ins.reg_name(r) for r in registers[1:2]]
    return sum(8 if n in ("xzr", "lr", "fp") else _ARM64_REGISTER_BYTES.get(n[0], 0) for n in names)


def repeated_strings(isa: str, code: bytes, address: int) -> tuple[list[tuple[int, int]], int]:
    """Return the first and the next address of each repeated string instruction of code.

    The second value is the address of the first byte that begins no instruction; any word of
    AArch64 counts as one.
    """
    if isa == "arm64":
        return [], address + len(code) // 4 * 4
    strings, end = [], address
    for ins in iced.Decoder(64, code, ip=address):
        if ins.is_invalid:
            break
        if repeats(ins):
            strings.append((ins.ip, ins.next_ip))
        end = ins.next_ip
    return strings, end


# Branches (Arm ARM, C4.1): mask and value of the encoding, lowest bit and width of the distance.
ARM64_BRANCHES = (
    (0x7C000000, 0x14000000, 0, 26),  # b, bl
    (0xFF000000, 0x54000000, 5, 19),  # b.cond
    (0x7E000000, 0x34000000, 5, 19),  # cbz, cbnz
    (0x7E000000, 0x36000000, 5, 14),  # tbz, tbnz
)


def signed_field(word: _Words, low: int, width: int) -> _Words:
    """Return the signed number in a field of a word, or of each word of an array."""
    value = word >> low & (1 << width) - 1
    return value - (value >> width - 1 << width)


_ADRP = (0x9F000000, 0x90000000)  # its distance in pages: 19 bits from bit 5, above 2 from bit 29
_PAGE = 12  # bits of an address in a page


def moved(isa: str, code: bytes, old: int, new: int) -> bytes:
    """Return code adjusted from an old address to a new one; branches within it stay the same.

    InputError if a branch out of it is too short.
    """
    return _moved_x86(code, old, new) if isa == "x86_64" else _moved_arm64(code, old, new)


def _moved_x86(code: bytes, old: int, new: int) -> bytes:
    out = bytearray(code)
    for ins in iced.Decoder(64, code, ip=old):
        if not (ins.is_jcc_short_or_near or ins.is_jmp_short_or_near or ins.is_call_near):
            continue
        if old <= ins.near_branch_target < old + len(code):
            continue
        if ins.is_jcc_short or ins.is_jmp_short:
            raise InputError("a replacement has a short branch out of it")
        end = ins.next_ip - old
        distance = (ins.near_branch_target - (new + end)) % (1 << 32)
        out[end - 4 : end] = distance.to_bytes(4, "little")
    return bytes(out)


def _moved_arm64(code: bytes, old: int, new: int) -> bytes:
    out = bytearray()
    inside = range(old, old + len(code))
    for at in range(0, len(code), 4):
        word = int.from_bytes(code[at : at + 4], "little")
        out += _moved_word(word, old + at, new + at, inside).to_bytes(4, "little")
    return bytes(out)


def _moved_word(word: int, old: int, new: int, inside: range) -> int:
    """Return a word adjusted from an old address to a new one; targets inside move with it."""
    if word & _ADRP[0] == _ADRP[1]:
        pages = signed_field((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 0, 21)
        new_pages = (old >> _PAGE) + pages - (new >> _PAGE)
        return word & 0x9F00001F | (new_pages & 3) << 29 | (new_pages >> 2 & 0x7FFFF) << 5
    for mask, value, low, width in ARM64_BRANCHES:
        if word & mask != value:
            continue
        field = ((1 << width) - 1) << low
        target = old + 4 * signed_field(word, low, width)
        if target in inside:
            return word
        return word & ~field | ((target - new) // 4 << low) & field
    return word
