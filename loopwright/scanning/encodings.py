"""Other encodings of a loop's instructions: the same work in more or fewer bytes (x86).

All of them can be asked of an assembler: {disp8}, {disp32}, {rex}, {vex3}; the shorter ones are
what it takes by itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import iced_x86 as iced

from loopwright.scanning.places import Path

_REX = range(0x40, 0x50)
_BRANCHES = (iced.FlowControl.CONDITIONAL_BRANCH, iced.FlowControl.UNCONDITIONAL_BRANCH)
_LEGACY = iced.EncodingKind.LEGACY
_DISP8 = range(-128, 128)
_SHORT_IMMEDIATES = {16: iced.OpKind.IMMEDIATE8TO16, 32: iced.OpKind.IMMEDIATE8TO32,
                     64: iced.OpKind.IMMEDIATE8TO64}  # fmt: skip
_LONG_IMMEDIATES = {iced.OpKind.IMMEDIATE16: 16, iced.OpKind.IMMEDIATE32: 32,
                    iced.OpKind.IMMEDIATE32TO64: 64}  # fmt: skip
_FORMS = {value: name for name, value in vars(iced.Code).items() if isinstance(value, int)}


@dataclass(frozen=True)
class Encoded:
    """A loop with one instruction encoded anew: code and path, how many bytes longer, and what.

    at is where the instruction begins, and how says what it is to be, e.g. "{disp32} mov ...".
    """

    code: bytes
    path: Path
    longer: int
    at: int
    how: str


def encodings(code: bytes, path: Path) -> Iterator[Encoded]:
    """Yield a loop with each of its executed instructions in each other encoding.

    Nothing where bytes of it are no instructions, since what lies behind them cannot be moved.
    """
    instructions = list(iced.Decoder(64, code))
    if not instructions or any(ins.is_invalid for ins in instructions):
        return
    for ins in instructions:
        if not any(start <= ins.ip < end for start, end in path):
            continue
        old = code[ins.ip : ins.next_ip]
        for new, word in others(ins, old):
            moved = _moved(code, instructions, ins, new)
            if moved is not None:
                longer = len(new) - len(old)
                yield Encoded(moved, _path(path, ins.ip, longer), longer, ins.ip, _how(word, ins))


def taking(code: bytes, more: int) -> str:
    """Name the last instruction of code that another encoding makes so many bytes longer, or ""."""
    for ins in reversed(list(iced.Decoder(64, code))):
        for new, word in () if ins.is_invalid else others(ins, code[ins.ip : ins.next_ip]):
            if len(new) - ins.len == more and word:
                return _how(word, ins)
    return ""


def others(ins: iced.Instruction, old: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield other bytes of an instruction, and the assembler's word that asks for them."""
    if ins.flow_control != iced.FlowControl.NEXT:
        return
    seen = {old}
    for word, new in _tried(ins, old):
        if new not in seen and _same(ins, new):
            seen.add(new)
            yield new, word


def _tried(ins: iced.Instruction, old: bytes) -> Iterator[tuple[str, bytes]]:
    plain = min(filter(None, (_encode(ins), _short_immediate(ins))), key=len)
    if len(plain) < len(old):
        yield "", plain
    if _has_displacement(ins):
        small = _signed(ins) in _DISP8
        if small and (least := _encode(ins, displacement=1)):
            yield "{disp8}", least
        if small and ins.encoding != iced.EncodingKind.EVEX:
            yield "{disp32}", _encode(ins, displacement=8)
    if ins.encoding == iced.EncodingKind.VEX:
        yield "{vex3}", _encode(ins, vex3=True)
    if ins.encoding == _LEGACY and (at := _opcode(old)) is not None:
        yield "{rex}", old[:at] + b"\x40" + old[at:]


def _has_displacement(ins: iced.Instruction) -> bool:
    """Say whether an operand is memory with a base, whose displacement has two lengths."""
    base = ins.memory_base
    memory = any(ins.op_kind(n) == iced.OpKind.MEMORY for n in range(ins.op_count))
    return memory and base not in (iced.Register.NONE, iced.Register.RIP, iced.Register.EIP)


def _signed(ins: iced.Instruction) -> int:
    value = ins.memory_displacement
    return value - (1 << 64) if value >> 63 else value


def _encode(ins: iced.Instruction, displacement: int | None = None, vex3: bool = False) -> bytes:
    """Return an instruction's bytes, b"" where it has none of that form.

    displacement says how many bytes it has at least, None as few as can be.
    """
    encoder = iced.Encoder(64)
    encoder.prevent_vex2 = vex3
    one = ins.copy()
    if _has_displacement(one):
        small = _signed(one) in _DISP8
        least = (1 if _signed(one) else 0) if small else 8
        one.memory_displ_size = least if displacement is None else displacement
    try:
        encoder.encode(one, ins.ip)
    except ValueError:
        return b""
    return bytes(encoder.take_buffer())


def _short_immediate(ins: iced.Instruction) -> bytes:
    """Return an instruction with its immediate in one byte, b"" where it has no such form."""
    last = ins.op_count - 1
    width = _LONG_IMMEDIATES.get(ins.op_kind(last)) if last > 0 else None
    if width is None:
        return b""
    form = _FORMS[ins.code].replace(f"_IMM{min(width, 32)}", "_IMM8")
    for name in ("_AX_", "_EAX_", "_RAX_"):
        form = form.replace(name, f"_RM{width}_")
    code = getattr(iced.Code, form, None)
    value = ins.immediate(last)
    if code is None or (value + 128) % (1 << width) >= 256:
        return b""
    one = ins.copy()
    one.code = code
    one.set_op_kind(last, _SHORT_IMMEDIATES[width])
    one.set_immediate_i32(last, (value + 128) % (1 << width) - 128)
    return _encode(one)


def _opcode(old: bytes) -> int | None:
    """Return where a REX prefix would go, None where there is one."""
    at = 0
    while at < len(old) and old[at] in (0x66, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65, 0xF0):
        at += 1
    return None if at == len(old) or old[at] in _REX else at


def _same(ins: iced.Instruction, new: bytes) -> bool:
    """Say whether bytes are one instruction that reads as the other does."""
    if not new or len(new) > 15:
        return False
    decoded = iced.Decoder(64, new, ip=ins.ip).decode()
    return decoded.len == len(new) and _text(decoded) == _text(ins)


def _text(ins: iced.Instruction) -> str:
    formatter = iced.Formatter(iced.FormatterSyntax.GAS)
    return formatter.format(ins)


def _how(word: str, ins: iced.Instruction) -> str:
    return f"{word} {_text(ins)}" if word else f"{_text(ins)} as an assembler has it"


def _moved(
    code: bytes, instructions: list[iced.Instruction], changed: iced.Instruction, new: bytes
) -> bytes | None:
    """Return the code with an instruction in other bytes, None where a branch does not reach."""
    at, longer = changed.ip, len(new) - changed.len
    out = bytearray()
    for ins in instructions:
        own = code[ins.ip : ins.next_ip]
        if ins.ip == at:
            own = new
        elif ins.flow_control in _BRANCHES and ins.op0_kind == iced.OpKind.NEAR_BRANCH64:
            branch = _branch(own, ins, at, longer)
            if branch is None:
                return None
            own = branch
        out += own
    return bytes(out)


def _branch(own: bytes, ins: iced.Instruction, at: int, longer: int) -> bytes | None:
    """Return a branch whose distance is what it is after all behind `at` has moved."""
    target = ins.near_branch_target
    target = target - (1 << 64) if target >> 63 else target
    moved = longer * ((target > at) - (ins.ip > at))
    if not moved:
        return own
    size = 1 if _short(own) else 4
    distance = int.from_bytes(own[-size:], "little", signed=True) + moved
    if not -(1 << 8 * size - 1) <= distance < 1 << 8 * size - 1:
        return None
    return own[:-size] + distance.to_bytes(size, "little", signed=True)


def _short(own: bytes) -> bool:
    opcode = own[-2]
    return len(own) < 5 and (0x70 <= opcode <= 0x7F or 0xE0 <= opcode <= 0xE3 or opcode == 0xEB)


def _path(path: Path, at: int, longer: int) -> Path:
    return tuple((start + longer * (start > at), end + longer * (end > at)) for start, end in path)
