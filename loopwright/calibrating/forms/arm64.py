"""Forms of AArch64, from the decoder's own tables: those that compute in registers."""

from collections.abc import Mapping, Sequence
from functools import cache

from loopwright.calibrating.forms import arm64_kit
from loopwright.calibrating.forms.form import Encode, Form, Operand
from loopwright.code import binding
from loopwright.code.binding import Arm64Operand
from loopwright.code.decode import decode
from loopwright.code.outline import Outline, outlines
from loopwright.errors import InputError

_FIELD = 0x1F
_VECTOR_BITS, _GPR_BITS = 128, 64


def forms(features: frozenset[str] | None) -> tuple[list[Form], dict[str, str]]:
    """Return the forms that a core of these features has (None: any), and why others are not.

    The decoder's list has nothing that accesses memory, branches, or acts on the system. Left out
    are forms of which a second decoder knows no word.
    """
    found, lost = _every()
    chosen = [form for form in found if features is None or not form.needs - features]
    return chosen, dict.fromkeys(lost, "no instruction, or none whose registers can be chosen")


@cache
def _every() -> tuple[Sequence[Form], Sequence[str]]:
    listed, lost = binding.arm64_forms(_allocated)
    codes = [_code(word) for _, word, *_ in listed]
    out = []
    for one, seen in zip(listed, outlines("arm64", codes), strict=True):
        name, word, reads, writes, found = one
        operands = [_operand(operand) for operand in found]
        if reads or writes:
            operands.append(Operand("f", "flags", 0, reads, writes))
        if isinstance(seen, Outline):
            form = Form(name, tuple(operands), _encoding(word, found), arm64_kit, seen.needs)
            out.append(form)
    return out, lost


def _allocated(word: int) -> bool:
    try:
        decode("arm64", _code(word))
    except InputError:
        return False
    return True


def _code(word: int) -> bytes:
    return word.to_bytes(4, "little")


def _operand(found: Arm64Operand) -> Operand:
    label, vector, _, _, _, read, written = found
    kind, bits = ("vector", _VECTOR_BITS) if vector else ("gpr", _GPR_BITS)
    return Operand(str(label), kind, bits, read, written)


def _encoding(word: int, operands: Sequence[Arm64Operand]) -> Encode:
    def encode(registers: Mapping[str, int]) -> bytes:
        out = word
        for label, _, fields, most, *_ in operands:
            number = registers[str(label)]
            if number > most:
                raise ValueError(f"register {number} does not fit operand {label} of {word:#010x}")
            for low in fields:
                out = out & ~(_FIELD << low) | number << low
        return _code(out)

    return encode
