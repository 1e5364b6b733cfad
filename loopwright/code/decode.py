"""Decode machine code: iced-x86 for x86-64, capstone for AArch64."""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import iced_x86 as iced

from loopwright.code.instructions import Flow, Instruction
from loopwright.errors import InputError

if TYPE_CHECKING:
    import capstone

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


def parse_hex(text: str) -> bytes:
    """Return the bytes of a hex string; InputError where it is odd, empty or no hex."""
    try:
        if code := bytes.fromhex(text):
            return code
    except ValueError:
        pass  # it may be written otherwise; else it is said below what is wrong
    # As listings, debuggers and C have it, too: 0x48, 48:83, "\x48", {0x48}.
    bare = re.sub(r"[\s,:;{}\"']+", " ", text)
    digits = re.sub(r"(?:^|(?<= ))0x|\\x| ", "", bare.strip(), flags=re.I).lower()
    if not digits:
        raise InputError("the hex string is empty; give the bytes of at least one instruction")
    wrong = re.search(r"[^0-9a-f]", digits)
    if wrong:
        raise InputError(f"hex {text[:40]!r} has {wrong.group()!r}, which is no hex digit")
    if len(digits) % 2:
        raise InputError(f"hex {text[:40]!r} has {len(digits)} digits; a byte needs two")
    return bytes.fromhex(digits)


# The same code is asked about at up to 64 offsets and on several cores.
@lru_cache(maxsize=4096)
def decode(isa: str, code: bytes, address: int = 0) -> tuple[Instruction, ...]:
    """Decode all of code; InputError at bytes that are no instruction or cut one short."""
    if not code:
        raise InputError("there is no code to decode: it is empty")
    return _decode_x86(code, address) if isa == "x86_64" else _decode_arm64(code, address)


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
                mnemonic=_plain(formatter.format_mnemonic(ins)),
                text=_plain(formatter.format(ins)),
                flow=X86_FLOW.get(ins.flow_control, Flow.INDIRECT),
                target=near_target(ins),
                read_bytes=sum(size for access, size in sizes if access in READS),
                written_bytes=sum(size for access, size in sizes if access in WRITES),
                string=string,
            )
        )
    return tuple(out)


def repeats(ins: iced.Instruction) -> bool:
    """Say whether it is a repeated string instruction."""
    return ins.is_string_instruction and (ins.has_rep_prefix or ins.has_repne_prefix)


def near_target(ins: iced.Instruction) -> int | None:
    """Return where a direct branch goes, None of other instructions."""
    near = ins.is_jcc_short_or_near or ins.is_jmp_short_or_near or ins.is_call_near
    near = near or ins.is_loop or ins.is_loopcc or ins.is_jcx_short
    return ins.near_branch_target if near else None


def _plain(text: str) -> str:
    """Return text without the size suffix that assemblers do not take on loop instructions."""
    return re.sub(r"^(loop(?:n?e)?)[lq]\b", r"\1", text)


def _string_sizes(ins: iced.Instruction) -> list[tuple[iced.OpAccess_, int]]:
    """Return what one element of a repeated string instruction reads and writes."""
    size = iced.MemorySizeExt.size(ins.memory_size)
    kinds = [iced.OpKind.MEMORY_SEG_RSI, iced.OpKind.MEMORY_ESRDI]
    operands = [ins.op_kind(n) for n in range(ins.op_count)]
    writes = operands[:1] == [iced.OpKind.MEMORY_ESRDI] and not ins.has_repne_prefix
    return [
        (iced.OpAccess.WRITE if writes and n == 0 else iced.OpAccess.READ, size)
        for n, kind in enumerate(operands)
        if kind in kinds
    ]


ZEROED_BYTES = 64  # by dc zva, where DCZID_EL0 has its usual value; by clzero always
_ARM64_RETURNS = {"ret", "retaa", "retab", "eret"}
_ARM64_CALLS = {"bl", "blr"}
_ARM64_INDIRECT = {"br", "braa", "brab", "blr"}


def unknown(isa: str, code: bytes) -> str:
    """Say where code that has an outline is none for decode, or nothing.

    Outlines take some AArch64 encodings that are not allocated, and extensions of later years.
    """
    if isa == "x86_64":  # one decoder does both
        return ""
    done = sum(size for _, size, _, _ in _arm64_disassembler().disasm_lite(code, 0))
    return "" if done == len(code) else str(no_code(isa, code, done))


@cache
def _arm64_disassembler() -> "capstone.Cs":
    import capstone

    return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)


def _decode_arm64(code: bytes, address: int) -> tuple[Instruction, ...]:
    import capstone

    disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    disassembler.detail = True
    out = [_arm64_instruction(ins) for ins in disassembler.disasm(code, address)]
    done = sum(len(i.code) for i in out)
    if done != len(code):
        raise no_code("arm64", code, done)
    return tuple(out)


def _arm64_instruction(ins: "capstone.CsInsn") -> Instruction:
    from capstone import arm64_const

    name = ins.mnemonic
    target = None
    flow = Flow.NEXT
    if name in _ARM64_RETURNS:
        flow = Flow.RETURN
    elif name in _ARM64_CALLS:
        flow = Flow.CALL
    elif name in _ARM64_INDIRECT:
        flow = Flow.INDIRECT
    elif ins.id in (
        arm64_const.ARM64_INS_CBZ,
        arm64_const.ARM64_INS_CBNZ,
        arm64_const.ARM64_INS_TBZ,
        arm64_const.ARM64_INS_TBNZ,
    ):
        flow = Flow.BRANCH
    elif name.startswith("b.") or name == "b":
        flow = Flow.BRANCH if name.startswith("b.") else Flow.JUMP
    if name in ("b", "bl") or flow is Flow.BRANCH:
        target = next(o.imm for o in reversed(ins.operands) if o.type == arm64_const.ARM64_OP_IMM)
    moved = _arm64_bytes(ins)
    load, store = name.startswith(("ld", "prf")), name.startswith("st")
    return Instruction(
        address=ins.address,
        code=bytes(ins.bytes),
        mnemonic=name,
        text=f"{name} {ins.op_str}".strip(),
        flow=flow,
        target=target,
        read_bytes=moved if load and not name.startswith("prf") else 0,
        written_bytes=ZEROED_BYTES if _zeroes(ins) else moved if store else 0,
        string=False,
    )


_ARM64_REGISTER_BYTES = {"b": 1, "h": 2, "s": 4, "w": 4, "d": 8, "x": 8, "q": 16, "v": 16}


def _zeroes(ins: "capstone.CsInsn") -> bool:
    return bool(ins.mnemonic == "dc" and ins.op_str.startswith(("zva", "gzva")))


_VECTOR = re.compile(r"v\d+\.(\d*)([bhsd])")


def _arm64_bytes(ins: "capstone.CsInsn") -> int:
    """Return the bytes that a load or store moves: by mnemonic suffix, else by its registers."""
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
