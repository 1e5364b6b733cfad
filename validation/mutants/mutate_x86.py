"""Change x86-64 code an instruction at a time: sizes, immediates, conditions, registers, addresses.

A mutant is a list of instructions that is laid out anew: branches follow their targets, and the
exception table its instructions.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import iced_x86 as iced

from loopwright.code.instructions import Code, ExceptionEntry

_DOUBLED = 1 << 32  # address of an instruction's second copy: no branch leads there
_SIZES = {8: "{}", 4: "{}d", 2: "{}w", 1: "{}b"}
_OLD = {
    "rax": ("rax", "eax", "ax", "al"), "rcx": ("rcx", "ecx", "cx", "cl"),
    "rdx": ("rdx", "edx", "dx", "dl"), "rsi": ("rsi", "esi", "si", "sil"),
    "rdi": ("rdi", "edi", "di", "dil"), "rbx": ("rbx", "ebx", "bx", "bl"),
}  # fmt: skip
_SIZE_AT = {8: 0, 4: 1, 2: 2, 1: 3}
_REGISTERS: dict[str, Any] = {
    n.lower(): v for n, v in vars(iced.Register).items() if isinstance(v, int)
}
_NAMES = {v: n for n, v in _REGISTERS.items()}
_MOVES = {
    iced.Mnemonic.MOV, iced.Mnemonic.MOVZX, iced.Mnemonic.LEA, iced.Mnemonic.TEST,
    iced.Mnemonic.CMP, iced.Mnemonic.STAC, iced.Mnemonic.CLAC, iced.Mnemonic.LFENCE,
}  # fmt: skip
_CONDITIONS = (1, 2, 4, 8, 14)  # bits by which condition codes differ from a given one


def mutants(code: Code) -> Iterator[tuple[str, Code]]:
    """Yield each mutant with a description of the change; none if the text has data in it."""
    body = list(iced.Decoder(64, code.text))
    if any(not i.code for i in body):
        return
    pool = _pool(body, code)
    for at, ins in enumerate(body):
        if not code.entry <= ins.ip < code.entry + code.size or ins.mnemonic == iced.Mnemonic.NOP:
            continue
        where = f"+{ins.ip - code.entry:#x} {ins}"
        seen = set[str]()
        for kind, new in _changed(ins, code.text, pool):
            mutant = _laid_out(code, [*body[:at], *new, *body[at + 1 :]], body)
            shown = f"{where} -> {'; '.join(map(str, new))}"
            if mutant and shown not in seen and mutant.text != code.text:
                seen.add(shown)
                yield f"{kind}: {shown}", mutant
    yield from _tables(code)


def _tables(code: Code) -> Iterator[tuple[str, Code]]:
    """Yield the code with an entry left out, or led to another entry's fixup."""
    fixups = sorted({e.fixup for e in code.exceptions})
    for n, entry in enumerate(code.exceptions):
        others = [*code.exceptions[:n], *code.exceptions[n + 1 :]]
        where = f"entry at +{entry.insn - code.entry:#x}"
        yield f"entry: {where} left out", replace(code, exceptions=tuple(others))
        for fixup in fixups:
            if fixup != entry.fixup:
                other = ExceptionEntry(entry.insn, fixup)
                moved = replace(code, exceptions=(*others, other))
                yield f"entry: {where} -> fixup +{fixup - code.entry:#x}", moved


def _pool(body: list[iced.Instruction], code: Code) -> list[str]:
    """Return the general registers of a routine, as 64-bit names."""
    info = iced.InstructionInfoFactory()
    used = {
        _NAMES[_full(u.register)]
        for i in body
        if code.entry <= i.ip < code.entry + code.size
        for u in info.info(i).used_registers()
    }
    general = {*_OLD, *(f"r{n}" for n in range(8, 16))}
    return sorted(used & general)


def _sized(name: str, size: int) -> Any:
    if name in _OLD:
        return _REGISTERS[_OLD[name][_SIZE_AT[size]]]
    plain = _SIZES[size].format(name)
    return _REGISTERS.get(plain, _REGISTERS.get(plain.replace("b", "l"), 0))


def _changed(
    ins: iced.Instruction, text: bytes, pool: list[str]
) -> Iterator[tuple[str, list[iced.Instruction]]]:
    """Yield the replacements of an instruction, with the kind of change."""
    nop = iced.Instruction.create(iced.Code.NOPD)
    nop.ip = ins.ip
    yield "dropped", [nop]
    if not _idempotent(ins):
        twice = ins.copy()
        twice.ip = _DOUBLED
        yield "doubled", [ins, twice]
    for kind, raw in _recoded(ins, text[ins.ip : ins.ip + ins.len]):
        new = iced.Decoder(64, raw, ip=ins.ip).decode()
        if new.code and new.len == len(raw) and str(new) != str(ins):
            yield kind, [new]
    yield from (("register", [new]) for new in _other_registers(ins, pool))
    yield from (("address", [new]) for new in _other_addresses(ins, pool))
    yield from (("immediate", [new]) for new in _other_immediates(ins))


def _idempotent(ins: iced.Instruction) -> bool:
    """True if an instruction has no effect the second time: branches, and plain moves."""
    if ins.flow_control not in (iced.FlowControl.NEXT, iced.FlowControl.CALL):
        return True
    if ins.has_rep_prefix or ins.mnemonic not in _MOVES:
        return False
    used = iced.InstructionInfoFactory().info(ins).used_registers()
    written = {_full(u.register) for u in used if u.access == iced.OpAccess.WRITE}
    read = {_full(u.register) for u in used if u.access == iced.OpAccess.READ}
    return written.isdisjoint(read)


def _full(register: Any) -> Any:
    return iced.RegisterExt.full_register(register)


def _opcode_at(raw: bytes) -> tuple[int, int]:
    """Return the positions of the REX prefix, present or not, and of the opcode's last byte."""
    at = 0
    while raw[at] in (0x66, 0xF2, 0xF3):
        at += 1
    first = at + (raw[at] & 0xF0 == 0x40)
    if raw[first] == 0x0F:
        return at, first + (2 if raw[first + 1] in (0x38, 0x3A) else 1)
    return at, first


def _recoded(ins: iced.Instruction, raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield encodings that differ in operand size, condition, operation, direction or prefix."""
    if raw[0] in (0xC4, 0xC5, 0x62) or ins.flow_control == iced.FlowControl.RETURN:
        return
    at, opcode = _opcode_at(raw)
    if ins.condition_code and ins.flow_control != iced.FlowControl.NEXT:
        for bit in _CONDITIONS:
            yield "condition", raw[:opcode] + bytes([raw[opcode] ^ bit]) + raw[opcode + 1 :]
        return
    if raw[at] & 0xF0 == 0x40:
        yield "size", raw[:at] + bytes([raw[at] ^ 8]) + raw[at + 1 :]
    else:
        yield "size", raw[:at] + b"\x48" + raw[at:]
    yield "size", raw[1:] if raw[0] == 0x66 else b"\x66" + raw
    if at and raw[0] in (0xF2, 0xF3):
        yield "prefix", raw[1:]

    def with_opcode(byte: int) -> bytes:
        return raw[:opcode] + bytes([byte]) + raw[opcode + 1 :]

    if ins.condition_code:
        for bit in _CONDITIONS:
            yield "condition", with_opcode(raw[opcode] ^ bit)
        return
    yield "size", with_opcode(raw[opcode] ^ 1)
    yield "operation", with_opcode(raw[opcode] ^ 2)
    for bits in (0x08, 0x10, 0x28):
        yield "operation", with_opcode(raw[opcode] ^ bits)
    if raw[opcode] in (0x80, 0x81, 0x83, 0xC0, 0xC1, 0xD0, 0xD1, 0xF7, 0xFF) and ins.len > opcode:
        for bits in (0x08, 0x10, 0x28):
            modrm = opcode + 1
            yield "operation", raw[:modrm] + bytes([raw[modrm] ^ bits]) + raw[modrm + 1 :]


def _other_registers(ins: iced.Instruction, pool: list[str]) -> Iterator[iced.Instruction]:
    for n in range(ins.op_count):
        if ins.op_kind(n) != iced.OpKind.REGISTER:
            continue
        full = _NAMES[_full(ins.op_register(n))]
        if full in pool:
            size = iced.RegisterExt.size(ins.op_register(n))
            for name in _next_to(pool, full):
                new = ins.copy()
                new.set_op_register(n, _sized(name, size))
                yield new


def _next_to(pool: list[str], name: str) -> list[str]:
    """Return the two registers beside one in the pool, turning around at its ends."""
    at = pool.index(name)
    beside = {pool[(at + 1) % len(pool)], pool[at - 1]}
    return sorted(beside - {name})


def _other_addresses(ins: iced.Instruction, pool: list[str]) -> Iterator[iced.Instruction]:
    if iced.OpKind.MEMORY not in (ins.op_kind(n) for n in range(ins.op_count)):
        return
    if ins.is_ip_rel_memory_operand:
        return
    displacement = ins.memory_displacement
    for by in (1, -1, 8, -8):
        new = ins.copy()
        new.memory_displacement = (displacement + by) % 2**64
        new.memory_displ_size = 8
        yield new
    for attribute in ("memory_base", "memory_index"):
        name = _NAMES[getattr(ins, attribute)]
        if name in pool:
            for other in _next_to(pool, name):
                new = ins.copy()
                setattr(new, attribute, _sized(other, 8))
                yield new
    if _NAMES[ins.memory_index] != "none":
        for scale in {1, 2, 4, 8} - {ins.memory_index_scale}:
            new = ins.copy()
            new.memory_index_scale = scale
            yield new


def _other_immediates(ins: iced.Instruction) -> Iterator[iced.Instruction]:
    for n in range(ins.op_count):
        kind = ins.op_kind(n)
        if not iced.OpKind.IMMEDIATE8 <= kind <= iced.OpKind.IMMEDIATE32TO64:
            continue
        value = ins.immediate(n)
        for other in {value + 1, value - 1, value * 2, value // 2, value ^ 0x40} - {value}:
            new = ins.copy()
            try:
                new.set_immediate_i32(n, other)
            except (ValueError, OverflowError):
                continue
            yield new


def _laid_out(
    code: Code, body: list[iced.Instruction], before: list[iced.Instruction]
) -> Code | None:
    """Return code with the instructions of body in place of those before, None if impossible."""
    encoder = iced.BlockEncoder(64)
    encoder.add_many(body)
    try:
        text = encoder.encode(0)
    except ValueError:
        return None
    placed = list(iced.Decoder(64, text))
    if len(placed) != len(body):
        return None
    address_of = {old.ip: new.ip for old, new in zip(body, placed, strict=True)}
    address_of[before[-1].next_ip] = len(text)
    entries = tuple(
        ExceptionEntry(address_of[e.insn], address_of[e.fixup]) for e in code.exceptions
    )
    return replace(
        code,
        text=bytes(text),
        entry=address_of[code.entry],
        size=address_of[code.entry + code.size] - address_of[code.entry],
        exceptions=entries,
        instructions=(),
        loops=(),
    )
