"""AArch64 forms from the decoder's tables: computing in registers, loading or storing."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from loopwright.code import binding
from loopwright.code.binding import Outline, outlines
from loopwright.code.instructions import undecodable
from loopwright.microbench import arm64_kit
from loopwright.microbench.arm64_kit import code_of
from loopwright.microbench.forms import BASE, DISPLACEMENT, INDEX, Encode, Form, Memory, Operand

if TYPE_CHECKING:
    from loopwright_pipeline import _Arm64Access, _Arm64Field, _Arm64Operand

_FIELD = 0x1F
_VECTOR_BITS, _GPR_BITS = 128, 64
_ADDRESS = {4: BASE, 5: INDEX}  # operand labels by the decoder's numbers
_STACK = 31
_SUBTRACT, _BACK = 0xD1000000, "sub x,x,i"
_ACCESS_UOPS = 2  # uops of a memory access for one register; each further register adds one
# Of loads and stores: bits that tell scaled displacements from those in bytes, and the field of the
# latter, which assemblers use where the scaled one does not fit.
_SCALED, _SCALED_AT, _SCALING, _BYTES_AT = 0x3B000000, 0x39000000, 0x01000000, (12, 9)


def forms(features: frozenset[str] | None) -> tuple[list[Form], dict[str, str]]:
    """Return the forms of a core with these features (None: any), and reasons for the others.

    The decoder's list excludes branches, system instructions and literal loads. Forms whose words a
    second decoder rejects are left out.
    """
    all_forms, left_out = _all_forms()
    chosen = [form for form in all_forms if features is None or not form.needs - features]
    return chosen, {name: _reason_left_out(name) for name in left_out}


def _reason_left_out(name: str) -> str:
    if "[" in name:
        return "its base moves on by a register"
    return "no instruction, or none whose registers can be chosen"


@cache
def _all_forms() -> tuple[Sequence[Form], Sequence[str]]:
    rows, left_out = binding.arm64_forms(lambda word: not undecodable("arm64", code_of(word)))
    codes = [code_of(word) for _, word, *_ in rows]
    out = []
    for row, outline in zip(rows, outlines("arm64", codes), strict=True):
        name, word, reads, writes, fields, access = row
        operands = [_operand(operand) for operand in fields]
        if reads or writes:
            operands.append(Operand("f", "flags", 0, reads, writes))
        if isinstance(outline, Outline):
            encode = _encoding(word, fields, access)
            memory = _memory(access, fields) if access else None
            undone = _BACK if access and access[4] else ""
            needs = outline.needs
            out.append(Form(name, tuple(operands), encode, arm64_kit, needs, memory, undone=undone))
    return out, left_out


def _label(operand: "_Arm64Operand") -> str:
    return _ADDRESS.get(operand[0], str(operand[0]))


def _operand(operand: "_Arm64Operand") -> Operand:
    _, vector, _, _, _, read, written = operand
    label = _label(operand)
    kind, bits = ("vector", _VECTOR_BITS) if vector else ("gpr", _GPR_BITS)
    # An updated base keeps its value in the end, so no dependency through it is to be measured.
    return Operand(label, kind, bits, read, written and label != BASE)


def _memory(access: "_Arm64Access", operands: "Sequence[_Arm64Operand]") -> Memory:
    size, read, written, moves, _, field = access
    registers = sum(operand[4] for operand in operands if operand[0] not in _ADDRESS)
    reach = _reach(field) if field else range(1)
    return Memory(8 * size, read, written, reach, moves, registers + _ACCESS_UOPS - 1)


def _reach(field: "_Arm64Field") -> range:
    _, width, step, signed = field
    least = -(1 << width - 1) if signed else 0
    return range(least * step, (least + (1 << width)) * step, step)


def _encoding(
    word: int, operands: "Sequence[_Arm64Operand]", access: "_Arm64Access | None"
) -> Encode:
    step, field = access[4:] if access else (0, None)

    def encode(registers: Mapping[str, int]) -> bytes:
        out = _placed(word, field, registers.get(DISPLACEMENT, 0))
        for operand in operands:
            _, _, fields, most, *_ = operand
            label = _label(operand)
            number = registers[label]
            if number > (_STACK if label == BASE else most):
                raise ValueError(f"register {number} does not fit operand {label} of {word:#010x}")
            for low in fields:
                out = out & ~(_FIELD << low) | number << low
        if not step:
            return code_of(out)
        base = registers[BASE]
        return code_of(out) + code_of(
            _SUBTRACT | step << 10 | base << 5 | base
        )  # the base moves back

    return encode


def _placed(word: int, field: "_Arm64Field | None", displacement: int) -> int:
    """Return a word with a displacement, like assemblers in another form where it does not fit.

    ValueError if neither fits.
    """
    if not displacement:
        return word
    if field and displacement in _reach(field):
        low, width, step, _ = field
        return word | (displacement // step & (1 << width) - 1) << low
    low, width = _BYTES_AT
    if word & _SCALED == _SCALED_AT and displacement in _reach((low, width, 1, True)):
        return word & ~_SCALING | (displacement & (1 << width) - 1) << low
    raise ValueError(f"{displacement} bytes do not fit the displacement of {word:#010x}")
