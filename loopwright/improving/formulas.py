"""Code as formulas of an SMT solver: the effects of instructions on registers and memory."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import iced_x86 as iced

from loopwright.code.instructions import X86_FLOW, Flow, near_target
from loopwright.errors import InputError
from loopwright.improving.listing import GENERAL

BITS = ("CF", "PF", "ZF", "SF", "OF")
VECTORS = tuple(f"zmm{n}" for n in range(16))
_VEX_BITS, _LEGACY_BITS = 256, 128  # modelled bits of a vector register, with and without VEX code
NAMES = (*sorted(GENERAL["x86_64"]), *VECTORS, *BITS)
_MOST_STEPS, _MOST_PATHS = 400, 64
_FULL_NAMES = {
    getattr(iced.Register, name.upper()): name for name in (*GENERAL["x86_64"], *VECTORS)
}
_VECTOR_REGISTERS = {number for number, name in _FULL_NAMES.items() if name in VECTORS}
_HIGH = {iced.Register.AH, iced.Register.BH, iced.Register.CH, iced.Register.DH}
_FLAG_BITS = {
    "CF": iced.RflagsBits.CF, "PF": iced.RflagsBits.PF, "ZF": iced.RflagsBits.ZF,
    "SF": iced.RflagsBits.SF, "OF": iced.RflagsBits.OF,
}  # fmt: skip
_CONDITIONS = {
    getattr(iced.ConditionCode, name.upper()): name
    for name in ("o", "b", "e", "be", "s", "p", "l", "le", "no", "ae", "ne", "a", "ns", "np", "ge",
                 "g")
}  # fmt: skip
_MNEMONICS = {value: name for name, value in vars(iced.Mnemonic).items() if isinstance(value, int)}
_ARITHMETIC = frozenset({"ADD", "SUB", "CMP", "ADC", "SBB"})
_LOGIC = frozenset({"AND", "OR", "XOR", "TEST"})
_SHIFTS = frozenset({"SHL", "SAL", "SHR", "SAR"})
_ROTATIONS = frozenset({"ROL", "ROR"})
# Modelled as functions of their inputs, in addition to vector instructions.
_FUNCTIONS = frozenset(
    {"ADCX", "ADOX", "ANDN", "BEXTR", "BLSI", "BLSMSK", "BLSR", "BSF", "BSR", "BSWAP", "BT", "BZHI",
     "CBW", "CDQ", "CDQE", "CLC", "CMC", "CQO", "CRC32", "CWDE", "DIV", "IDIV", "IMUL", "LZCNT",
     "MUL", "MULX", "PDEP", "PEXT", "POPCNT", "RCL", "RCR", "ROL", "ROR", "RORX", "SAL", "SAR",
     "SARX", "SHL", "SHLD", "SHLX", "SHR", "SHRD", "SHRX", "STC", "TZCNT", "XCHG"}
)  # fmt: skip
# Instructions whose flags do not depend on the flags before.
_NEW_FLAGS = frozenset(
    {"ANDN", "BEXTR", "BLSI", "BLSMSK", "BLSR", "BZHI", "LZCNT", "POPCNT", "TZCNT"}
)
_VECTOR_MOVES = frozenset({"MOVUPS", "MOVAPS", "MOVDQU", "MOVDQA", "MOVUPD", "MOVAPD", "LDDQU"})
_MOVES = frozenset({"MOV", *_VECTOR_MOVES, *(f"V{name}" for name in _VECTOR_MOVES)})
_WIDENING = {"MOVZX": False, "MOVD": False, "MOVQ": False, "VMOVD": False, "VMOVQ": False,
             "MOVSX": True, "MOVSXD": True}  # fmt: skip
_ENCODINGS = (iced.EncodingKind.LEGACY, iced.EncodingKind.VEX)
_WRITES = (iced.OpAccess.WRITE, iced.OpAccess.COND_WRITE, iced.OpAccess.READ_WRITE,
            iced.OpAccess.READ_COND_WRITE)  # fmt: skip


def _full_name(register: "iced.Register_") -> str | None:
    return _FULL_NAMES.get(iced.RegisterExt.full_register(register))


def vector_bits(codes: Iterable[iced.Instruction]) -> int:
    """Return the number of modelled bits of vectors; code without VEX preserves all above 128."""
    vex = any(ins.encoding != iced.EncodingKind.LEGACY for ins in codes)
    return _VEX_BITS if vex else _LEGACY_BITS


@dataclass(frozen=True)
class State:
    """A symbolic state: values by name, memory, and the accesses so far (kind, address, bytes).

    given are the path conditions.
    """

    values: Mapping[str, Any]
    memory: Any
    accesses: tuple[tuple[str, Any, int], ...] = ()
    given: tuple[Any, ...] = ()


class Instruction(Protocol):
    """An instruction at an address."""

    @property
    def next_ip(self) -> int:
        """The address after the instruction."""


I = TypeVar("I", bound=Instruction)  # noqa: E741


@dataclass
class Formulas(ABC, Generic[I]):
    """Instructions by address, with their semantics as formulas.

    An instruction without exact semantics is an uninterpreted function of its inputs, the same one
    at every place: only equality of inputs shows equality of results. So are loads and stores. bits
    are the flags of the ISA, names all parts of the state except memory.
    """

    z3: Any
    body: Mapping[int, I]
    functions: dict[Any, Any] = field(default_factory=dict)
    vector_bits: int = _VEX_BITS

    bits: ClassVar[tuple[str, ...]]
    names: ClassVar[tuple[str, ...]]

    @abstractmethod
    def width(self, name: str) -> int:
        """Return the number of modelled bits of a register."""

    @abstractmethod
    def flow(self, ins: I) -> tuple[Flow, int | None]:
        """Return an instruction's control flow and its target."""

    @abstractmethod
    def condition(self, state: State, ins: I) -> Any:
        """Return the condition of a branch as a formula."""

    @abstractmethod
    def stepped(self, state: State, ins: I) -> State:
        """Return the state after an instruction."""

    def fresh(self, tag: str) -> State:
        """Return a state of unconstrained symbols; tag makes their names distinct."""
        z3 = self.z3
        values = {
            name: z3.Bool(f"{name}{tag}")
            if name in self.bits
            else z3.BitVec(f"{name}{tag}", self.width(name))
            for name in self.names
        }
        return State(values, z3.Const("memory", self._memory))

    @property
    def _memory(self) -> Any:
        return self.z3.DeclareSort("Memory")

    def runs(
        self,
        state: State,
        start: int,
        stops: frozenset[int],
        possible: Callable[[Sequence[Any]], bool],
    ) -> Iterator[tuple[int, State]]:
        """Yield the paths from an address to the next stop, or to an exit.

        possible tells whether conditions may hold together.
        """
        pending = [(start, state, 0)]
        paths = 0
        while pending:
            at, state, steps = pending.pop()
            while at in self.body and not (steps and at in stops):
                ins = self.body[at]
                steps += 1
                if steps > _MOST_STEPS or paths > _MOST_PATHS:
                    raise InputError("it has too many ways")
                flow, target = self.flow(ins)
                if flow is Flow.NEXT:
                    state, at = self.stepped(state, ins), ins.next_ip
                elif flow is Flow.JUMP and target is not None:
                    at = target
                elif flow is Flow.BRANCH and target is not None:
                    taken = self.z3.simplify(self.condition(state, ins))
                    branches = []
                    for destination, holds in ((target, taken), (ins.next_ip, self.z3.Not(taken))):
                        if possible(given := (*state.given, holds)):
                            branches.append((destination, replace(state, given=given), steps))
                    if not branches:
                        break
                    pending += branches[1:]
                    paths += len(branches) - 1
                    at, state, steps = branches[0]
                else:
                    raise InputError(f"{ins} is not followed")
            else:
                yield at, state

    def _loaded(self, state: State, address: Any, size: int) -> tuple[Any, State]:
        """Return the value of a load of some bytes, and the state after it."""
        value = self._function("load", self.z3.BitVecSort(8 * size), [state.memory, address])
        return value, replace(state, accesses=(*state.accesses, ("load", address, size)))

    def _stored(self, state: State, address: Any, value: Any) -> State:
        """Return the state after a store."""
        memory = self._function("store", self._memory, [state.memory, address, value])
        accesses = (*state.accesses, ("store", address, value.size() // 8))
        return replace(state, memory=memory, accesses=accesses)

    def _function(self, key: Any, sort: Any, arguments: Sequence[Any]) -> Any:
        """Return an uninterpreted function of the arguments."""
        shape = (key, sort.sexpr(), *(a.sort().sexpr() for a in arguments))
        if not arguments:
            return self.z3.Const(f"f{shape}", sort)
        if shape not in self.functions:
            sorts = [a.sort() for a in arguments]
            self.functions[shape] = self.z3.Function(f"f{len(self.functions)}", *sorts, sort)
        return self.functions[shape](*arguments)


class X86Formulas(Formulas[iced.Instruction]):
    """x86-64 instructions by address, with their semantics as formulas."""

    bits, names = BITS, NAMES

    def width(self, name: str) -> int:
        return self.vector_bits if name in VECTORS else 64

    def flow(self, ins: iced.Instruction) -> tuple[Flow, int | None]:
        return X86_FLOW.get(ins.flow_control, Flow.INDIRECT), near_target(ins)

    def condition(self, state: State, ins: iced.Instruction) -> Any:
        z3, name = self.z3, _CONDITIONS.get(ins.condition_code)
        if name is None:
            raise InputError(f"{ins} is not known")
        cf, pf, zf, sf, of = (state.values[bit] for bit in BITS)
        less = sf != of
        positive = {
            "o": of, "b": cf, "e": zf, "be": z3.Or(cf, zf), "s": sf, "p": pf, "l": less,
            "le": z3.Or(less, zf),
        }  # fmt: skip
        opposite = {"no": "o", "ae": "b", "ne": "e", "a": "be", "ns": "s", "np": "p", "ge": "l",
                    "g": "le"}  # fmt: skip
        return positive[name] if name in positive else z3.Not(positive[opposite[name]])

    def _address(self, state: State, ins: iced.Instruction) -> Any:
        z3 = self.z3
        if ins.segment_prefix in (iced.Register.FS, iced.Register.GS):
            raise InputError(f"{ins} is not known")
        address = z3.BitVecVal(ins.memory_displacement, 64)
        if ins.is_ip_rel_memory_operand:
            return address
        for register, scale in ((ins.memory_base, 1), (ins.memory_index, ins.memory_index_scale)):
            if register != iced.Register.NONE:
                if iced.RegisterExt.size(register) != 8 or register not in _FULL_NAMES:
                    raise InputError(f"{ins} is not known")
                address = address + state.values[_FULL_NAMES[register]] * scale
        return z3.simplify(address)

    def _load(self, state: State, ins: iced.Instruction, size: int) -> tuple[Any, State]:
        return self._loaded(state, self._address(state, ins), size)

    def _read(self, state: State, ins: iced.Instruction, n: int) -> tuple[Any, State]:
        """Return an operand's value, at its width."""
        kind = ins.op_kind(n)
        if kind == iced.OpKind.REGISTER:
            return self._register(state, ins.op_register(n)), state
        if kind == iced.OpKind.MEMORY:
            return self._load(state, ins, iced.MemorySizeExt.size(ins.memory_size))
        size = iced.MemorySizeExt.size(ins.memory_size)
        if ins.op_kind(0) == iced.OpKind.REGISTER:
            size = iced.RegisterExt.size(ins.op_register(0))
        return self.z3.BitVecVal(ins.immediate(n), 8 * size), state

    def _register(self, state: State, register: "iced.Register_") -> Any:
        name, size = self._modelled_name(register), iced.RegisterExt.size(register)
        low = 8 if register in _HIGH else 0
        return self.z3.Extract(8 * size - 1 + low, low, state.values[name])

    def _modelled_name(self, register: "iced.Register_") -> str:
        """Return the full name of a register; InputError for one that is not modelled."""
        name = _full_name(register)
        if name is None or iced.RegisterExt.size(register) > self.vector_bits // 8:
            raise InputError("it uses registers that are not known")
        return name

    def _with_operand(self, state: State, ins: iced.Instruction, n: int, value: Any) -> State:
        """Return the state with a value written to an operand."""
        z3 = self.z3
        if ins.op_kind(n) == iced.OpKind.MEMORY:
            return self._stored(state, self._address(state, ins), value)
        register = ins.op_register(n)
        name = self._modelled_name(register)
        old, size = state.values[name], value.size()
        zeroes_rest = name in VECTORS and ins.encoding == iced.EncodingKind.VEX
        if size < old.size() and (zeroes_rest or (size == 32 and name not in VECTORS)):
            value = z3.ZeroExt(old.size() - size, value)  # the rest of the register becomes zero
        elif size < old.size():
            low = 8 if register in _HIGH else 0
            parts = [z3.Extract(old.size() - 1, low + size, old), value]
            value = z3.Concat(*parts, *([z3.Extract(low - 1, 0, old)] if low else []))
        return replace(state, values={**state.values, name: z3.simplify(value)})

    def _with_flags(self, state: State, result: Any, **given: Any) -> State:
        """Return the state with the flags of a result; given has those that need other inputs."""
        z3 = self.z3
        low = z3.Extract(7, 0, result)
        bits = [z3.Extract(n, n, low) for n in range(8)]
        parity = bits[0]
        for bit in bits[1:]:
            parity = parity ^ bit
        flags = {"ZF": result == 0, "SF": result < 0, "PF": parity == 0, **given}
        return replace(state, values={**state.values, **flags})

    def stepped(self, state: State, ins: iced.Instruction) -> State:
        z3, name = self.z3, _MNEMONICS[ins.mnemonic]
        if name in ("NOP", "ENDBR64") or name.startswith("PREFETCH"):
            return state
        prefixed = ins.has_lock_prefix or ins.has_rep_prefix or ins.has_repne_prefix
        if prefixed or ins.encoding not in _ENCODINGS:
            raise InputError(f"{ins} is not known")
        if name == "LEA":
            address = self._address(state, ins)
            size = 8 * iced.RegisterExt.size(ins.op0_register)
            return self._with_operand(state, ins, 0, z3.Extract(size - 1, 0, address))
        if name in _MOVES and ins.op_count == 2:
            value, state = self._read(state, ins, 1)
            return self._with_operand(state, ins, 0, value)
        if name in ("MOVSS", "MOVSD") and ins.op_kind(0) == iced.OpKind.MEMORY:
            low = 8 * iced.MemorySizeExt.size(ins.memory_size)
            value = z3.Extract(low - 1, 0, self._register(state, ins.op1_register))
            return self._with_operand(state, ins, 0, value)
        if name in _WIDENING and ins.op_count == 2:
            return self._widened(state, ins, signed=_WIDENING[name])
        if name.startswith("SET"):
            bit = z3.If(self.condition(state, ins), z3.BitVecVal(1, 8), 0)
            return self._with_operand(state, ins, 0, bit)
        if name.startswith("CMOV"):
            (old, _), (value, state) = self._read(state, ins, 0), self._read(state, ins, 1)
            return self._with_operand(state, ins, 0, z3.If(self.condition(state, ins), value, old))
        if name in _ARITHMETIC or name in _LOGIC:
            return self._binary(state, ins, name)
        if name in ("INC", "DEC", "NEG", "NOT"):
            return self._unary(state, ins, name)
        if name in _SHIFTS and ins.op_count == 2 and ins.op_kind(1) != iced.OpKind.REGISTER:
            return self._shifted_by_constant(state, ins, name)
        if name in _SHIFTS or name.removesuffix("X") in (*_SHIFTS, *_ROTATIONS):
            return self._shifted_by_value(state, ins, name)
        if name == "ANDN":
            (a, state), (b, state) = self._read(state, ins, 1), self._read(state, ins, 2)
            flags = {"CF": z3.BoolVal(False), "OF": z3.BoolVal(False)}
            flags["PF"] = self._function("andn", z3.BoolSort(), [a, b])
            state = self._with_flags(state, ~a & b, **flags)
            return self._with_operand(state, ins, 0, ~a & b)
        if name == "IMUL" and ins.op_count > 1:
            return self._multiplied(state, ins)
        return self._as_function(state, ins)

    def _widened(self, state: State, ins: iced.Instruction, *, signed: bool) -> State:
        value, state = self._read(state, ins, 1)
        vector = iced.RegisterExt.is_xmm(ins.op0_register)
        if ins.op_kind(0) == iced.OpKind.MEMORY:
            size = 8 * iced.MemorySizeExt.size(ins.memory_size)
        else:
            size = 128 if vector else 8 * iced.RegisterExt.size(ins.op0_register)
            if vector and value.size() == 128:  # movq of one vector register to another
                value = self.z3.Extract(63, 0, value)
        if value.size() > size:
            value = self.z3.Extract(size - 1, 0, value)
        missing = size - value.size()
        widen = self.z3.SignExt if signed else self.z3.ZeroExt
        return self._with_operand(state, ins, 0, widen(missing, value) if missing else value)

    def _binary(self, state: State, ins: iced.Instruction, name: str) -> State:
        z3 = self.z3
        a, state = self._read(state, ins, 0)
        b, state = self._read(state, ins, 1)
        if name in _LOGIC:
            same = ins.op_kind(1) == iced.OpKind.REGISTER and ins.op0_register == ins.op1_register
            result = {"OR": a | b, "XOR": a ^ b}.get(name, a & b)
            if name == "XOR" and same and ins.op_kind(0) == iced.OpKind.REGISTER:
                result = z3.BitVecVal(0, a.size())
            flags = {"CF": z3.BoolVal(False), "OF": z3.BoolVal(False)}
        else:
            size = a.size()
            wide_a, wide_b = z3.ZeroExt(1, a), z3.ZeroExt(1, b)
            carry = z3.If(state.values["CF"], z3.BitVecVal(1, size + 1), 0)
            carry_in = carry if name in ("ADC", "SBB") else z3.BitVecVal(0, size + 1)
            if name in ("ADD", "ADC"):
                wide = wide_a + wide_b + carry_in
                result = z3.Extract(size - 1, 0, wide)
                overflow = ((a ^ result) & (b ^ result)) < 0
            else:
                wide = wide_a - wide_b - carry_in
                result = z3.Extract(size - 1, 0, wide)
                overflow = ((a ^ b) & (a ^ result)) < 0
            if name in ("SUB", "CMP"):  # as comparisons: the solver is quick with them
                result = a - b
                flags = {"CF": z3.ULT(a, b), "OF": overflow}
            elif name == "ADD":
                result = a + b
                flags = {"CF": z3.ULT(result, a), "OF": overflow}
            else:
                flags = {"CF": z3.Extract(size, size, wide) == 1, "OF": overflow}
        if name not in ("CMP", "TEST"):
            state = self._with_operand(state, ins, 0, result)
        state = self._with_flags(state, result, **flags)
        if name in ("SUB", "CMP"):
            less = a < b
            values = {**state.values, "ZF": a == b, "OF": less != (result < 0)}
            state = replace(state, values=values)
        return state

    def _unary(self, state: State, ins: iced.Instruction, name: str) -> State:
        z3 = self.z3
        a, state = self._read(state, ins, 0)
        if name == "NOT":
            return self._with_operand(state, ins, 0, ~a)
        result = {"INC": a + 1, "DEC": a - 1, "NEG": -a}[name]
        smallest = z3.BitVecVal(1 << (a.size() - 1), a.size())
        flags = {"OF": (result if name == "INC" else a) == smallest}
        if name == "NEG":
            flags["CF"] = a != 0
        return self._with_flags(self._with_operand(state, ins, 0, result), result, **flags)

    def _shifted_by_constant(self, state: State, ins: iced.Instruction, name: str) -> State:
        z3 = self.z3
        a, state = self._read(state, ins, 0)
        size = a.size()
        count = ins.immediate(1) % (64 if size == 64 else 32)
        if not count:
            return self._with_operand(state, ins, 0, a) if size == 32 else state
        if count >= size:
            return self._as_function(state, ins)
        left = name in ("SHL", "SAL")
        result = a << count if left else z3.LShR(a, count) if name == "SHR" else a >> count
        carry_bit = size - count if left else count - 1
        shift = z3.BitVecVal(ins.code * 64 + count, 32)
        overflow = self._function("over", z3.BoolSort(), [a, shift])
        flags = {"CF": z3.Extract(carry_bit, carry_bit, a) == 1, "OF": overflow}
        return self._with_flags(self._with_operand(state, ins, 0, result), result, **flags)

    def _shifted_by_value(self, state: State, ins: iced.Instruction, name: str) -> State:
        """Return the state after a shift by a register, a rotation, or one of BMI2."""
        z3, keeps_flags = self.z3, name.endswith("X")
        a, state = self._read(state, ins, 1 if keeps_flags else 0)
        n = ins.op_count - 1
        if ins.op_kind(n) == iced.OpKind.REGISTER:
            count, state = self._read(state, ins, n)
            missing = a.size() - count.size()
            count = z3.ZeroExt(missing, count) if missing > 0 else count
            count = z3.Extract(a.size() - 1, 0, count)
        else:
            count = z3.BitVecVal(ins.immediate(n), a.size())
        count = count & (63 if a.size() == 64 else 31)
        kind = name.removesuffix("X")
        if kind in _ROTATIONS:
            result = (z3.RotateRight if kind == "ROR" else z3.RotateLeft)(a, count)
        else:
            result = {"SHR": z3.LShR(a, count), "SAR": a >> count}.get(kind, a << count)
        changed = {
            bit: self._function((name, bit), z3.BoolSort(), [a, count, state.values[bit]])
            for bit in BITS
            if not keeps_flags and _FLAG_BITS[bit] & ins.rflags_modified
        }
        state = self._with_operand(state, ins, 0, result)
        return replace(state, values={**state.values, **changed})

    def _multiplied(self, state: State, ins: iced.Instruction) -> State:
        first = ins.op_count - 2
        a, state = self._read(state, ins, first)
        b, state = self._read(state, ins, first + 1)
        state = self._with_operand(state, ins, 0, a * b)
        flags = {bit: self._function(("imul", bit), self.z3.BoolSort(), [a, b]) for bit in BITS}
        return replace(state, values={**state.values, **flags})

    def _as_function(self, state: State, ins: iced.Instruction) -> State:
        """Return the state after an instruction without exact semantics."""
        info = iced.InstructionInfoFactory().info(ins)
        stores = any(access.access in _WRITES for access in info.used_memory())
        vector = any(
            iced.RegisterExt.full_register(used.register) in _VECTOR_REGISTERS
            for used in info.used_registers()
        )
        other_flags = ins.rflags_modified & ~sum(_FLAG_BITS.values()) & ~iced.RflagsBits.AF
        if stores or other_flags or not (vector or _MNEMONICS[ins.mnemonic] in _FUNCTIONS):
            raise InputError(f"{ins} is not known")
        legacy = ins.encoding == iced.EncodingKind.LEGACY
        arguments: list[Any] = []
        written: list[str] = []
        named = [_full_name(ins.op_register(n)) or "" for n in range(ins.op_count)]
        for register, access in _used(ins, info, named):
            if register is None:
                size = iced.MemorySizeExt.size(ins.memory_size)
                value, state = self._load(state, ins, size)
                arguments.append(value)
                continue
            name = _full_name(register)
            if name is None:
                raise InputError(f"{ins} uses registers that are not known")
            # The old value of a partly written register is an input.
            partial = name in VECTORS and legacy
            partial = partial or iced.RegisterExt.size(register) < 4
            if access != iced.OpAccess.WRITE or partial:
                value = state.values[name]
                if name in VECTORS:
                    modelled = _LEGACY_BITS if legacy else self.vector_bits
                    bits = min(8 * iced.RegisterExt.size(register), modelled)
                    value = self.z3.Extract(bits - 1, 0, value)
                arguments.append(value)
            if access in _WRITES:
                written.append(name)
        changed = [bit for bit in BITS if _FLAG_BITS[bit] & ins.rflags_modified]
        preserved = changed if _MNEMONICS[ins.mnemonic] not in _NEW_FLAGS else ()
        input_flags = set(preserved) | {bit for bit in BITS if _FLAG_BITS[bit] & ins.rflags_read}
        arguments += [state.values[bit] for bit in BITS if bit in input_flags]
        numbers = [
            ins.immediate(n)
            for n in range(ins.op_count)
            if ins.op_kind(n) not in (iced.OpKind.REGISTER, iced.OpKind.MEMORY)
        ]
        # The function depends on which operands are the same register, not on the register's name.
        high_bytes = [n for n in range(ins.op_count) if ins.op_register(n) in _HIGH]
        read = [n for n in range(len(named)) if info.op_access(n) != iced.OpAccess.WRITE]
        firsts = [next(m for m in read if named[m] == named[n]) for n in read]
        key = (ins.code, *numbers, *firsts, *high_bytes)
        values = dict(state.values)
        for name in dict.fromkeys((*written, *changed)):
            old = values[name]
            role = named.index(name) if name in named else name
            if name in VECTORS and legacy and self.vector_bits > _LEGACY_BITS:
                low = self._function((key, role), self.z3.BitVecSort(_LEGACY_BITS), arguments)
                values[name] = self.z3.Concat(
                    self.z3.Extract(self.vector_bits - 1, _LEGACY_BITS, old), low
                )
            else:
                values[name] = self._function((key, role), old.sort(), arguments)
        return replace(state, values=values)


def _used(
    ins: iced.Instruction, info: iced.InstructionInfo, named: Sequence[str]
) -> Iterator[tuple["iced.Register_ | None", "iced.OpAccess_"]]:
    """Yield the registers that an instruction uses, and None for a loaded operand, with the access.

    Explicit operands come in order, so that a load matches a register with the loaded value; then
    come the registers that are not named, but for those of addresses.
    """
    for n in range(ins.op_count):
        access = info.op_access(n)
        if ins.op_kind(n) == iced.OpKind.REGISTER:
            yield ins.op_register(n), access
        elif ins.op_kind(n) == iced.OpKind.MEMORY and access != iced.OpAccess.WRITE:
            yield None, access
    of_address = {ins.memory_base, ins.memory_index} if info.used_memory() else set()
    for used in info.used_registers():
        addresses = used.register in of_address and used.access == iced.OpAccess.READ
        segment = iced.RegisterExt.is_segment_register(used.register)
        if _full_name(used.register) not in named and not addresses and not segment:
            yield used.register, used.access
