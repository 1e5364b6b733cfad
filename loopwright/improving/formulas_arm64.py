"""AArch64 code as formulas of an SMT solver."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import capstone
from capstone import arm64_const as arm

from loopwright.code.instructions import Flow, decode, disassembled
from loopwright.errors import InputError
from loopwright.improving.formulas import Formulas, State
from loopwright.improving.listing import FLAGS, GENERAL, MEMORY, Effects, arm64_effects, full

FLAG_BITS = ("N", "Z", "C", "V")
_VECTORS = tuple(f"v{n}" for n in range(32))
ARM64_NAMES = (*sorted(GENERAL["arm64"]), *_VECTORS, *FLAG_BITS)
_WIDTHS = {"b": 8, "h": 16, "w": 32, "s": 32, "x": 64, "d": 64, "q": 128, "v": 128}
_CONDITIONS = ("eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le")
# By mnemonic, True for an instruction that sets flags.
_ADDITIONS = {"add": False, "adds": True, "cmn": True}
_SUBTRACTIONS = {"sub": False, "subs": True, "cmp": True, "neg": False, "negs": True}
_LOGIC = {"and": False, "ands": True, "tst": True, "bic": False, "bics": True, "orr": False,
          "orn": False, "eor": False, "eon": False, "mvn": False}  # fmt: skip
_SHIFTS = ("lsl", "lsr", "asr", "ror")
_EXTENSION = re.compile(r"([us])xt([bhw])$")
_CONDITIONAL_SELECTS = ("csel", "csinc", "csinv", "csneg", "cset", "csetm", "cinc", "cinv", "cneg")
_SINGLE = re.compile(r"(ld|st)u?r(s?)([bhw]?)$")
_PAIR = re.compile(r"(ld|st)p$")
_NO_EFFECT = ("nop", "prfm", "prfum")
# Instructions that are more than functions of the registers that they name.
_UNKNOWN = re.compile(
    r"(bl?|br|blr|ret|mrs|msr|sysl?|dc|ic|at|tlbi|[id]sb|dmb|hint|wf[ei]t?|sevl?|yield|brk|hlt|udf"
    r"|svc|hvc|smc|eret|clrex|cfinv|rmif|setf\d+|csdb|esb|bti)$|b\.|ld|st|pac|aut|xpac|cas|swp|prf"
)
# Instructions that write all of a vector register; others may preserve a part of it.
_WRITES_WHOLE = frozenset(
    {"add", "sub", "mul", "and", "orr", "eor", "bic", "orn", "cmeq", "cmgt", "cmge", "cmhi",
     "cmhs", "cmtst", "fadd", "fsub", "fmul", "fdiv", "fmax", "fmin", "fmadd", "fmsub", "smax",
     "smin", "umax", "umin", "addp", "addv", "uaddlv", "umaxv", "uminv", "smaxv", "sminv",
     "uaddlp", "saddlp", "dup", "mov", "movi", "fmov", "rev16", "rev32", "rev64", "neg", "abs",
     "fneg", "fabs", "fsqrt", "cnt", "shl", "ushr", "sshr", "ext", "zip1", "zip2", "uzp1", "uzp2",
     "trn1", "trn2", "uxtl", "sxtl", "ushll", "sshll", "xtn", "fcvt", "fcvtzs", "fcvtzu", "scvtf",
     "ucvtf", "tbl", "fcsel"}
)  # fmt: skip
_KEEP_PARTS = (
    "bf",
    "movk",
)  # prefixes of mnemonics that preserve a part of a general-purpose register
_READ_FLAGS = ("adc", "sbc", "ngc")
_WRITE_FLAGS = ("ccm", "fcm", "fccm", "adcs", "sbcs", "ngcs")
_SIZES = {"b": 8, "h": 16, "w": 32}


@dataclass(frozen=True)
class Arm64Instruction:
    """An AArch64 instruction at its address."""

    ip: int
    code: bytes
    mnemonic: str
    text: str
    flow: Flow
    target: int | None

    @property
    def next_ip(self) -> int:
        return self.ip + 4

    @cached_property
    def detail(self) -> capstone.CsInsn:
        """The instruction in capstone's representation, with operands."""
        return next(disassembled(self.code))

    @cached_property
    def effects(self) -> Effects:
        """The registers, flags and memory that it reads and writes."""
        return arm64_effects(self.code)

    def name(self, number: int) -> str:
        """Return a register's name from capstone's number."""
        name = str(self.detail.reg_name(number))
        return {"fp": "x29", "lr": "x30"}.get(name, name)

    def __str__(self) -> str:
        """Return the text with single spaces."""
        return " ".join(self.text.split())


def arm64_instructions(text: bytes, start: int) -> Iterator[Arm64Instruction]:
    """Yield the instructions of code at an address."""
    for ins in decode("arm64", text, start):
        yield Arm64Instruction(ins.address, ins.code, ins.mnemonic, ins.text, ins.flow, ins.target)


class Arm64Formulas(Formulas[Arm64Instruction]):
    """AArch64 instructions by address, with their semantics as formulas."""

    bits, names = FLAG_BITS, ARM64_NAMES

    def width(self, name: str) -> int:
        return 128 if name in _VECTORS else 64

    def flow(self, ins: Arm64Instruction) -> tuple[Flow, int | None]:
        return ins.flow, ins.target

    def condition(self, state: State, ins: Arm64Instruction) -> Any:
        z3 = self.z3
        if ins.mnemonic in ("cbz", "cbnz"):
            value = self._value(state, ins, 0)
            return value == 0 if ins.mnemonic == "cbz" else value != 0
        if ins.mnemonic in ("tbz", "tbnz"):
            number = ins.detail.operands[1].imm
            bit = z3.Extract(number, number, state.values[self._name(ins, 0)])
            return bit == (0 if ins.mnemonic == "tbz" else 1)
        return self._holds(state, ins)

    def _holds(self, state: State, ins: Arm64Instruction) -> Any:
        z3, number = self.z3, int(ins.detail.cc) - 1
        if not 0 <= number < len(_CONDITIONS):
            raise InputError(f"{ins} is not known")
        n, z, c, v = (state.values[bit] for bit in FLAG_BITS)
        conditions = (z, c, n, v, z3.And(c, z3.Not(z)), n == v, z3.And(n == v, z3.Not(z)))
        condition = conditions[number // 2]
        return z3.Not(condition) if number % 2 else condition

    def _name(self, ins: Arm64Instruction, n: int) -> str:
        return full("arm64", ins.name(ins.detail.operands[n].reg))

    def _size(self, ins: Arm64Instruction, n: int = 0) -> int:
        width = _WIDTHS.get(ins.name(ins.detail.operands[n].reg)[0])
        return 64 if ins.name(ins.detail.operands[n].reg) == "sp" else width or 64

    def _register(self, state: State, name: str) -> Any:
        """Return a register's value, at the width of its name."""
        size = 64 if name == "sp" else 32 if name == "wsp" else _WIDTHS[name[0]]
        if name in ("xzr", "wzr"):
            return self.z3.BitVecVal(0, size)
        whole = "sp" if name == "wsp" else full("arm64", name)
        return self.z3.Extract(size - 1, 0, state.values[whole])

    def _value(self, state: State, ins: Arm64Instruction, n: int) -> Any:
        """Return an operand's value with its shift or extension."""
        z3, operand = self.z3, ins.detail.operands[n]
        size = self._size(ins)
        if operand.type == arm.ARM64_OP_IMM:
            shift = operand.shift.value if operand.shift.type == arm.ARM64_SFT_LSL else 0
            return z3.BitVecVal(operand.imm << shift, size)
        if operand.type != arm.ARM64_OP_REG or operand.vas:
            raise InputError(f"{ins} is not known")
        value = self._extended(self._register(state, ins.name(operand.reg)), operand.ext, size, ins)
        amount = z3.BitVecVal(operand.shift.value, size)
        by_shift = {
            arm.ARM64_SFT_INVALID: value,
            arm.ARM64_SFT_LSL: value << amount,
            arm.ARM64_SFT_LSR: z3.LShR(value, amount),
            arm.ARM64_SFT_ASR: value >> amount,
            arm.ARM64_SFT_ROR: z3.RotateRight(value, amount),
        }
        if operand.shift.type not in by_shift:
            raise InputError(f"{ins} is not known")
        return by_shift[operand.shift.type]

    def _extended(self, value: Any, kind: int, size: int, ins: Arm64Instruction) -> Any:
        z3 = self.z3
        if kind == arm.ARM64_EXT_INVALID:
            if value.size() != size:
                raise InputError(f"{ins} is not known")
            return value
        kinds = "bhwx"
        width = 8 << kinds.index(kinds[(kind - 1) % 4])
        width = min(width, value.size(), size)
        value = z3.Extract(width - 1, 0, value)
        return (z3.SignExt if kind > arm.ARM64_EXT_UXTX else z3.ZeroExt)(size - width, value)

    def _with_register(self, state: State, name: str, value: Any) -> State:
        """Return the state with a register written; the bits above a part become zero."""
        if name in ("xzr", "wzr"):
            return state
        whole = "sp" if name == "wsp" else full("arm64", name)
        missing = self.width(whole) - value.size()
        value = self.z3.ZeroExt(missing, value) if missing else value
        return replace(state, values={**state.values, whole: self.z3.simplify(value)})

    def _with_result(self, state: State, ins: Arm64Instruction, value: Any) -> State:
        """Return the state with an instruction's first operand written."""
        return self._with_register(state, ins.name(ins.detail.operands[0].reg), value)

    def _with_flags(self, state: State, result: Any, carry: Any, overflow: Any) -> State:
        flags = {"N": result < 0, "Z": result == 0, "C": carry, "V": overflow}
        return replace(state, values={**state.values, **flags})

    def stepped(self, state: State, ins: Arm64Instruction) -> State:
        name, operands = ins.mnemonic, ins.detail.operands
        if name in _NO_EFFECT:
            return state
        if _SINGLE.match(name) or _PAIR.match(name):
            return self._accessed(state, ins)
        plain = all(
            operand.type == arm.ARM64_OP_IMM
            or (operand.type == arm.ARM64_OP_REG and not operand.vas
                and ins.name(operand.reg)[0] in "wxs"
                and (ins.name(operand.reg)[0] != "s" or ins.name(operand.reg) == "sp"))
            for operand in operands
        )  # fmt: skip
        if plain and operands:
            if name in _ADDITIONS or name in _SUBTRACTIONS:
                return self._summed(state, ins)
            if name in _LOGIC:
                return self._logic(state, ins)
            if name in ("mov", "movz", "movn", "movk"):
                return self._moved(state, ins)
            if name in _SHIFTS:
                return self._shifted(state, ins)
            if widened := _EXTENSION.match(name):
                low = _SIZES[widened[2]]
                source = self._register(state, ins.name(operands[1].reg))
                wide = self.z3.SignExt if widened[1] == "s" else self.z3.ZeroExt
                value = wide(self._size(ins) - low, self.z3.Extract(low - 1, 0, source))
                return self._with_result(state, ins, value)
            if name in ("mul", "madd", "msub"):
                return self._multiplied(state, ins)
            if name in _CONDITIONAL_SELECTS:
                return self._selected(state, ins)
        return self._as_function(state, ins)

    def _summed(self, state: State, ins: Arm64Instruction) -> State:
        z3, name = self.z3, ins.mnemonic
        size, sets_flags = self._size(ins), {**_ADDITIONS, **_SUBTRACTIONS}[name]
        first = 0 if name in ("cmp", "cmn") else 1
        if name in ("neg", "negs"):
            a, b = z3.BitVecVal(0, size), self._value(state, ins, 1)
        else:
            a, b = self._value(state, ins, first), self._value(state, ins, first + 1)
        result = a + b if name in _ADDITIONS else a - b
        if sets_flags:
            carry = z3.ULT(result, a) if name in _ADDITIONS else z3.UGE(a, b)
            signs = (a ^ result) & (b ^ result) if name in _ADDITIONS else (a ^ b) & (a ^ result)
            state = self._with_flags(state, result, carry, signs < 0)
        return self._with_result(state, ins, result) if first else state

    def _logic(self, state: State, ins: Arm64Instruction) -> State:
        z3, name = self.z3, ins.mnemonic
        first = 0 if name == "tst" else 1
        if name == "mvn":
            result = ~self._value(state, ins, 1)
        else:
            a, b = self._value(state, ins, first), self._value(state, ins, first + 1)
            b = ~b if name in ("bic", "bics", "orn", "eon") else b
            result = {"or": a | b, "eo": a ^ b}.get(name[:2], a & b)
        if _LOGIC[name]:
            state = self._with_flags(state, result, z3.BoolVal(False), z3.BoolVal(False))
        return self._with_result(state, ins, result) if first else state

    def _moved(self, state: State, ins: Arm64Instruction) -> State:
        z3, operands = self.z3, ins.detail.operands
        size, target = self._size(ins), ins.name(operands[0].reg)
        if ins.mnemonic == "movk":
            shift = operands[1].shift.value
            kept = self._register(state, target) & ~z3.BitVecVal(0xFFFF << shift, size)
            value = kept | z3.BitVecVal(operands[1].imm << shift, size)
        else:
            value = self._value(state, ins, 1)
            value = ~value if ins.mnemonic == "movn" else value
        return self._with_register(state, target, value)

    def _shifted(self, state: State, ins: Arm64Instruction) -> State:
        z3, size = self.z3, self._size(ins)
        a, by = self._value(state, ins, 1), self._value(state, ins, 2) & (size - 1)
        result = {
            "lsl": a << by, "lsr": z3.LShR(a, by), "asr": a >> by, "ror": z3.RotateRight(a, by)
        }[ins.mnemonic]  # fmt: skip
        return self._with_result(state, ins, result)

    def _multiplied(self, state: State, ins: Arm64Instruction) -> State:
        result = self._value(state, ins, 1) * self._value(state, ins, 2)
        if ins.mnemonic != "mul":
            addend = self._value(state, ins, 3)
            result = addend + result if ins.mnemonic == "madd" else addend - result
        return self._with_result(state, ins, result)

    def _selected(self, state: State, ins: Arm64Instruction) -> State:
        z3, name, size = self.z3, ins.mnemonic, self._size(ins)
        # Aliases with one source are the two-source instructions under the inverted condition.
        one_source = name not in ("csel", "csinc", "csinv", "csneg")
        holds = self._holds(state, ins)
        if name in ("cset", "csetm"):
            true_value = z3.BitVecVal(1 if name == "cset" else -1, size)
            result = z3.If(holds, true_value, z3.BitVecVal(0, size))
        else:
            a = self._value(state, ins, 1)
            b = a if one_source else self._value(state, ins, 2)
            changed = {"inc": b + 1, "inv": ~b, "neg": -b}.get(name[-3:], b)
            result = z3.If(holds, changed, a) if one_source else z3.If(holds, a, changed)
        return self._with_result(state, ins, result)

    def _accessed(self, state: State, ins: Arm64Instruction) -> State:
        """Return the state after a load or store of a register or a pair, with write-back."""
        z3, operands = self.z3, ins.detail.operands
        single = _SINGLE.match(ins.mnemonic)
        memory = next((operand for operand in operands if operand.type == arm.ARM64_OP_MEM), None)
        registers = [ins.name(each.reg) for each in operands if each.type == arm.ARM64_OP_REG]
        count = 1 if single else 2
        if memory is None or len(registers) != count or any(operand.vas for operand in operands):
            raise InputError(f"{ins} is not known")
        base = ins.name(memory.mem.base)
        base_value = self._register(state, base)
        writeback = ins.detail.writeback
        post_indexed = writeback and operands[-1].type == arm.ARM64_OP_IMM
        at = base_value
        if memory.mem.index:
            index = self._register(state, ins.name(memory.mem.index))
            at = at + (self._extended(index, memory.ext, 64, ins) << memory.shift.value)
        elif not post_indexed:
            at = at + memory.mem.disp
        written_back = base_value + operands[-1].imm if post_indexed else at
        for n, register in enumerate(registers):
            size = _WIDTHS[register[0]]
            bits = _SIZES.get(single[3], size) if single else size
            address = z3.simplify(at + n * bits // 8)
            if ins.mnemonic.startswith("ld"):
                value, state = self._loaded(state, address, bits // 8)
                wide = z3.SignExt if single and single[2] else z3.ZeroExt
                state = self._with_register(state, register, wide(size - bits, value))
            else:
                value = z3.Extract(bits - 1, 0, self._register(state, register))
                state = self._stored(state, address, value)
        if writeback and base in registers:
            raise InputError(f"{ins} is not known")
        return self._with_register(state, base, written_back) if writeback else state

    def _as_function(self, state: State, ins: Arm64Instruction) -> State:
        """Return the state after an instruction modelled as a function of its registers.

        The old value of a result counts as an input where a part of it may be preserved.
        """
        effects, operands = ins.effects, ins.detail.operands
        if MEMORY in effects.reads | effects.writes or _UNKNOWN.match(ins.mnemonic):
            raise InputError(f"{ins} is not known")
        kinds = enumerate(each.type for each in operands)
        named = [self._name(ins, n) for n, kind in kinds if kind == arm.ARM64_OP_REG]
        registers = {*named, *effects.reads, *effects.writes} - {FLAGS, "xzr", "wzr"}
        kept = named[:1] if _keeps_part(ins) else []
        if not operands or not registers <= set(ARM64_NAMES):
            raise InputError(f"{ins} uses registers that are not known")
        reads_flags = ins.detail.cc not in (0, arm.ARM64_CC_AL)
        reads_flags = reads_flags or ins.mnemonic.startswith(_READ_FLAGS) or FLAGS in effects.reads
        writes_flags = FLAGS in effects.writes or ins.detail.update_flags
        writes_flags = writes_flags or ins.mnemonic.startswith(_WRITE_FLAGS)
        read = {*kept, *named[1:], *(effects.reads - {FLAGS, "xzr", "wzr"})} - {"xzr", "wzr"}
        arguments: list[Any] = [state.values[name] for name in sorted(read)]
        arguments += [state.values[bit] for bit in FLAG_BITS] if reads_flags else []
        written = {*effects.writes, *named[:1]} - {FLAGS, "xzr", "wzr"}
        if not written <= {*named[:1], *read}:
            raise InputError(f"{ins} is not known")
        changed: Sequence[str] = [*sorted(written), *(FLAG_BITS if writes_flags else ())]
        values = {
            name: self._function((str(ins), name), state.values[name].sort(), arguments)
            for name in changed
        }
        return replace(state, values={**state.values, **values})


def _keeps_part(ins: Arm64Instruction) -> bool:
    """True if an instruction may preserve a part of its first register."""
    operands = ins.detail.operands
    first = operands[0]
    if first.type == arm.ARM64_OP_REG and ins.name(first.reg)[0] in "wx":
        return ins.mnemonic.startswith(_KEEP_PARTS)
    immediate = ins.mnemonic in ("orr", "bic") and operands[-1].type == arm.ARM64_OP_IMM
    return ins.mnemonic not in _WRITES_WHOLE or first.vector_index >= 0 or immediate
