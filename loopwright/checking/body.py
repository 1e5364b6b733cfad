"""The instructions that control can reach in a routine, and their effects.

The allowed control flow is a list: direct branches and calls inside the code, and a plain return.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import capstone
import iced_x86 as iced
import numpy as np
from capstone import arm64_const
from numpy.typing import NDArray

from loopwright.code import instructions
from loopwright.code.instructions import Code, Flow
from loopwright.errors import InputError

# Types of exception-table entries for accesses to a user's memory, by which Linux survives a fault
# or poisoned memory. Other types hide a user's wrong pointer, or lose the recovery from machine
# checks.
USER_TYPES = {
    "x86_64": ("EX_TYPE_UACCESS", "EX_TYPE_COPY", "EX_TYPE_UCOPY_LEN"),
    "arm64": ("EX_TYPE_UACCESS_ERR_ZERO",),
}

_M = iced.Mnemonic
_GATES = (_M.STAC, _M.CLAC)
_TRAPS = (_M.UD0, _M.UD1, _M.UD2)
_FENCES = (_M.SFENCE, _M.MFENCE)
_UNORDERED = (_M.MOVNTI,)
_MASK64 = (1 << 64) - 1
# Extensions whose instructions change only state that a routine may change.
_X86_ALLOWED = {
    getattr(iced.CpuidFeature, name)
    for name in (
        "INTEL8086", "INTEL186", "INTEL286", "INTEL386", "INTEL486", "X64", "CMOV", "CX8",
        "CMPXCHG16B", "BMI1", "BMI2", "TBM", "ADX", "LZCNT", "POPCNT", "MOVBE", "SMAP", "CET_IBT",
        "MULTIBYTENOP", "PAUSE", "PREFETCHW", "SERIALIZE", "MOVDIRI",
    )
}  # fmt: skip
_X86_ALSO_ALLOWED = (
    *_FENCES, *_UNORDERED, _M.LFENCE,
    _M.PREFETCHNTA, _M.PREFETCHT0, _M.PREFETCHT1, _M.PREFETCHT2, _M.CRC32,
)  # fmt: skip
# Instructions whose result differs between calls, or that change state of the caller.
_X86_REFUSED = {
    _M.RDTSC: "reads the time", _M.RDTSCP: "reads the time", _M.RDPMC: "reads a counter",
    _M.RDRAND: "draws a random number", _M.RDSEED: "draws a random number",
    _M.CPUID: "asks the CPU what it is", _M.RDPID: "asks for the CPU it is on",
    _M.XGETBV: "reads a control register", _M.POPFQ: "sets all flags", _M.POPF: "sets all flags",
    _M.PUSHFQ: "reads flags that differ from call to call",
    _M.PUSHF: "reads flags that differ from call to call",
    _M.RDFSBASE: "reads a segment's base", _M.RDGSBASE: "reads a segment's base",
    _M.WRFSBASE: "sets a segment's base", _M.WRGSBASE: "sets a segment's base",
    _M.ENTER: "makes a frame by enter", _M.LEAVE: "sets the stack pointer",
    _M.CLFLUSH: "flushes a cache line, which may fault",
    _M.CLFLUSHOPT: "flushes a cache line, which may fault",
    _M.CLWB: "writes a cache line back, which may fault",
    _M.XABORT: "ends a transaction", _M.XBEGIN: "begins one",
    **dict.fromkeys(
        (_M.LSL, _M.LAR, _M.VERR, _M.VERW, _M.SGDT, _M.SIDT, _M.SLDT, _M.STR, _M.SMSW),
        "reads a segment or a system table",
    ),
}  # fmt: skip
_MOST_FRAME = 1024  # bytes by which one instruction may move the stack pointer, at most
_SEGMENTS = {
    getattr(iced.Register, name): name.lower() for name in ("ES", "CS", "SS", "DS", "FS", "GS")
}
_CARRY, _OVERFLOW = 2, 0  # x86 condition codes that test one flag
_READ_CARRY = (_M.ADC, _M.SBB, _M.RCL, _M.RCR, _M.ADCX)
_ARM64_REFUSED = {
    "eret": "returns from an exception",
    "msr": "sets a system register", "ic": "maintains caches", "tlbi": "maintains translations",
    "at": "translates an address", "sys": "does what only a system does", "sysl": "does so, too",
    "wfe": "waits", "wfi": "waits", "yield": "waits",
}  # fmt: skip
_ARM64_READABLE = ("dczid_el0", "ctr_el0")  # the sizes of cache lines and zeroed blocks
_SYSTEM_CALLS = ("syscall", "sysenter", "int", "svc", "hvc", "smc")


@dataclass(frozen=True)
class Step:
    """One reachable instruction.

    size is in bytes. string is True for a repeated string instruction. condition is the number, in
    the ISA's encoding, of the condition of an instruction that depends on flags and is no branch;
    else None. below is the number of bytes below the stack pointer that it stores to. accesses is
    True for an operand in memory, which a push or a return does not have. unprivileged is True for
    ldtr and sttr, gate for stac and clac, unordered for a store that is not ordered with others
    until a fence. constants are its immediates and displacements.
    """

    address: int
    size: int
    flow: Flow
    target: int | None
    text: str
    string: bool = False
    condition: int | None = None
    below: int = 0
    accesses: bool = False
    unprivileged: bool = False
    gate: bool = False
    unordered: bool = False
    fence: bool = False
    constants: tuple[int, ...] = ()


@dataclass(frozen=True)
class Body:
    """Instructions that control can reach from a routine's entry and its fixups, by address.

    refused describes the first instruction that is not allowed; "" if all are.
    """

    steps: dict[int, Step]
    refused: str


def of(code: Code) -> Body:
    """Return the reachable instructions of code, including helpers in its own text."""
    steps: dict[int, Step] = {}
    if refusal := _system_call(code):
        return Body(steps, refusal)
    entries: dict[int, int] = {}
    for e in code.exceptions:
        if e.insn in entries:
            return Body(steps, f"+{e.insn:#x} has two entries in the exception table")
        entries[e.insn] = e.fixup
    pending = [code.entry]
    while pending:
        at = pending.pop()
        if at in steps:
            continue
        if not 0 <= at < len(code.text):
            return Body(steps, f"control leaves the code for {at:#x}")
        try:
            step = _decoded(code, at)
        except _Refusal as why:
            return Body(steps, f"+{at:#x} {why}")
        steps[at] = step
        if step.target is not None:
            pending.append(step.target)
        if step.flow not in (Flow.JUMP, Flow.RETURN):
            pending.append(at + step.size)
        if step.accesses and at in entries:
            pending.append(entries[at])
    by_address = sorted(steps.values(), key=lambda s: s.address)
    for before, after in itertools.pairwise(by_address):
        if after.address < before.address + before.size:
            return Body(steps, f"+{after.address:#x} lies inside of the instruction before it")
    return Body(steps, "")


def _system_call(code: Code) -> str:
    """Return a description of a system call in the code, reachable or not, or ""."""
    try:
        decoded = instructions.decode(code.isa, code.text)
    except InputError:  # unreachable data among the code
        return ""
    for ins in decoded:
        if ins.mnemonic in _SYSTEM_CALLS:
            return f"+{ins.address:#x} makes a system call: {' '.join(ins.text.split())}"
    return ""


class _Refusal(Exception):  # noqa: N818
    """The reason why an instruction is not allowed."""


def _decoded(code: Code, at: int) -> Step:
    if code.isa == "x86_64":
        return _decoded_x86(next(iter(iced.Decoder(64, code.text[at : at + 15], ip=at))))
    return _decoded_arm64(code.text[at : at + 4], at)


def _decoded_x86(ins: iced.Instruction) -> Step:
    if ins.is_invalid:
        raise _Refusal("is not a whole instruction")
    text = " ".join(f"{ins}".split())
    if ins.mnemonic in _X86_REFUSED:
        raise _Refusal(f"{_X86_REFUSED[ins.mnemonic]}: {text}")
    if ins.is_privileged and ins.mnemonic not in _GATES:
        raise _Refusal(f"is privileged: {text}")
    if ins.op_count and ins.op0_register in _SEGMENTS and ins.mnemonic != _M.PUSH:
        raise _Refusal(f"sets register {_SEGMENTS[ins.op0_register]}: {text}")
    if forbidden := _x86_forbidden(ins):
        raise _Refusal(f"{forbidden}: {text}")
    if ins.segment_prefix in (iced.Register.FS, iced.Register.GS):
        raise _Refusal(f"accesses memory of the CPU or the task: {text}")
    flow = instructions.X86_FLOW.get(ins.flow_control, Flow.INDIRECT)
    if ins.mnemonic in _TRAPS:
        return Step(ins.ip, ins.len, Flow.RETURN, None, text)
    target = instructions.near_target(ins) if flow is not Flow.NEXT else None
    plain_return = ins.code == iced.Code.RETNQ
    if flow is Flow.INDIRECT or (flow is Flow.RETURN and not plain_return):
        raise _Refusal(f"is no branch that is allowed (direct ones, and a plain ret): {text}")
    if flow in (Flow.JUMP, Flow.BRANCH, Flow.CALL) and target is None:
        raise _Refusal(f"goes where a register or memory says: {text}")
    pushes = ins.mnemonic in (_M.PUSH, _M.PUSHFQ) or flow is Flow.CALL
    kinds = [ins.op_kind(n) for n in range(ins.op_count)]
    in_memory = any(iced.OpKind.MEMORY_SEG_SI <= kind <= iced.OpKind.MEMORY for kind in kinds)
    return Step(
        ins.ip, ins.len, flow, target, text,
        string=instructions.repeats(ins),
        condition=_x86_condition(ins, flow),
        below=8 if pushes else 0,
        accesses=in_memory and ins.mnemonic != _M.LEA,
        gate=ins.mnemonic in _GATES,
        unordered=ins.mnemonic in _UNORDERED,
        fence=ins.mnemonic in _FENCES,
        constants=tuple(_x86_constants(ins)),
    )  # fmt: skip


def _x86_forbidden(ins: iced.Instruction) -> str:
    """Return the forbidden effect of an instruction on registers, or ""."""
    allowed = all(f in _X86_ALLOWED for f in ins.cpuid_features())
    used = iced.InstructionInfoFactory().info(ins).used_registers()
    general = all(
        iced.RegisterExt.is_gpr(u.register) or iced.RegisterExt.is_segment_register(u.register)
        for u in used
    )
    if not general or not (allowed or ins.mnemonic in _X86_ALSO_ALLOWED or ins.mnemonic in _TRAPS):
        return "is not an integer instruction: vectors, x87 and other state are a user's"
    if ins.is_ip_rel_memory_operand:
        return "depends on where the code lies"
    reads = (iced.OpAccess.NONE, iced.OpAccess.READ, iced.OpAccess.COND_READ)
    writes_stack_pointer = any(
        iced.RegisterExt.full_register(u.register) == iced.Register.RSP and u.access not in reads
        for u in used
    )
    stack_access = ins.mnemonic in (_M.PUSH, _M.POP, _M.CALL, _M.RET)
    if not writes_stack_pointer or (stack_access and ins.op0_register != iced.Register.RSP):
        return ""
    distance = None
    if ins.op0_register == iced.Register.RSP and ins.mnemonic in (_M.ADD, _M.SUB):
        if iced.OpKind.IMMEDIATE8 <= ins.op1_kind <= iced.OpKind.IMMEDIATE32TO64:
            distance = ins.immediate(1)
    elif ins.mnemonic == _M.LEA and ins.memory_base == ins.op0_register == iced.Register.RSP:
        distance = ins.memory_displacement if ins.memory_index == iced.Register.NONE else None
    if distance is None:
        return "sets the stack pointer to a distance that is not constant"
    magnitude = min(distance & _MASK64, -distance & _MASK64)
    return f"moves the stack pointer by {magnitude} bytes" if magnitude > _MOST_FRAME else ""


def _x86_condition(ins: iced.Instruction, flow: Flow) -> int | None:
    if flow is not Flow.NEXT:
        return None
    if ins.condition_code != iced.ConditionCode.NONE:
        return int(ins.condition_code) - 1
    if ins.mnemonic in _READ_CARRY:
        return _CARRY
    return _OVERFLOW if ins.mnemonic == _M.ADOX else None


def _x86_constants(ins: iced.Instruction) -> Iterator[int]:
    for n in range(ins.op_count):
        kind = ins.op_kind(n)
        if iced.OpKind.IMMEDIATE8 <= kind <= iced.OpKind.IMMEDIATE32TO64:
            yield ins.immediate(n) & _MASK64
        elif kind == iced.OpKind.MEMORY:
            yield ins.memory_displacement & _MASK64


def _decoded_arm64(code: bytes, at: int) -> Step:
    ins = next(instructions.disassembled(code, at), None)
    if ins is None:
        raise _Refusal("is not an instruction")
    [decoded] = instructions.decode("arm64", code, at)
    name, text = ins.mnemonic, f"{ins.mnemonic} {ins.op_str}".strip()
    if name in _ARM64_REFUSED:
        raise _Refusal(f"{_ARM64_REFUSED[name]}: {text}")
    if name == "mrs" and not ins.op_str.endswith(_ARM64_READABLE):
        raise _Refusal(f"reads a system register: {text}")
    if name == "dc" and not ins.op_str.startswith(("zva", "gzva")):
        raise _Refusal(f"maintains caches: {text}")
    if decoded.flow is Flow.INDIRECT or name == "blr":
        raise _Refusal(f"goes where a register says: {text}")
    if decoded.flow is Flow.RETURN and text not in ("ret", "ret x30", "ret lr"):
        raise _Refusal(f"is no plain return: {text}")
    if forbidden := _arm64_forbidden(ins):
        raise _Refusal(f"{forbidden}: {text}")
    on_stack = any(
        o.type == arm64_const.ARM64_OP_MEM and o.mem.base == arm64_const.ARM64_REG_SP
        for o in ins.operands
    )
    condition = None
    if decoded.flow is Flow.NEXT and ins.cc not in (0, arm64_const.ARM64_CC_AL):
        condition = ins.cc - 1
    elif name.startswith(("adc", "sbc", "ngc")):
        condition = 2
    return Step(
        at, 4, decoded.flow, decoded.target, text,
        condition=condition,
        below=_arm64_below(ins) if on_stack and "]!" in ins.op_str else 0,
        accesses=bool(decoded.read_bytes or decoded.written_bytes),
        unprivileged=name.startswith(("ldtr", "sttr")),
        constants=tuple(_arm64_constants(ins, decoded.flow)),
    )  # fmt: skip


def _arm64_forbidden(ins: capstone.CsInsn) -> str:
    """Return the forbidden effect of an instruction on registers, or ""."""
    names = [ins.reg_name(o.reg) for o in ins.operands if o.type == arm64_const.ARM64_OP_REG]
    if any(re.fullmatch(r"[bhsdqvz]\d+", name) for name in names):
        return "is not an integer instruction: vectors are a user's"
    if ins.mnemonic in ("adr", "adrp") or (
        ins.mnemonic.startswith("ldr") and "[" not in ins.op_str
    ):
        return "depends on where the code lies"
    if not ins.operands or ins.operands[0].type != arm64_const.ARM64_OP_REG:
        return ""
    if ins.operands[0].reg != arm64_const.ARM64_REG_SP or ins.mnemonic in ("cmp", "cmn", "tst"):
        return ""
    last = ins.operands[-1]
    if ins.mnemonic not in ("add", "sub") or last.type != arm64_const.ARM64_OP_IMM:
        return "sets the stack pointer to a distance that is not constant"
    distance = int(last.imm) << last.shift.value
    return f"moves the stack pointer by {distance} bytes" if distance > _MOST_FRAME else ""


def _arm64_below(ins: capstone.CsInsn) -> int:
    distances = [-o.mem.disp for o in ins.operands if o.type == arm64_const.ARM64_OP_MEM]
    return max(0, *map(int, distances))


def _arm64_constants(ins: capstone.CsInsn, flow: Flow) -> Iterator[int]:
    for operand in ins.operands:
        if operand.type == arm64_const.ARM64_OP_IMM and flow is not Flow.JUMP:
            value = int(operand.imm)
            if ins.mnemonic in ("tbz", "tbnz"):
                value = 1 << value if value < 64 else 0
            elif flow is Flow.BRANCH:
                continue
            yield (value << operand.shift.value) & _MASK64
        elif operand.type == arm64_const.ARM64_OP_MEM:
            yield operand.mem.disp & _MASK64


_MOST_BACK = 6  # instructions before a branch that are searched for its comparison
# Instructions that set flags, or compute an operand of one that does.
_DECIDING = re.compile(
    r"^(?:cmp|test|sub|add|and|or|xor|dec|inc|neg|sh[lr]|sar|bt|adc|sbb|imul|lea|mov\w*|"
    r"ccm[pn]|cm[pn]|tst|subs|adds|ands|bics|tbn?z|cbn?z|jr?e?cxz)\b"
)
_REGISTER = re.compile(r"\b([er][a-ds][xip]|[er][sd]i|r\d+[dwb]?|[a-d][lx]|[xw]\d+|[sd]il)\b")


@dataclass(frozen=True)
class Comparison:
    """An instruction that may decide a branch: the names of its registers, and its constants.

    It sets flags, or computes an operand of the instruction that does.
    """

    at: int
    registers: tuple[str, ...]
    constants: tuple[int, ...]

    def deltas(self, values: Mapping[str, int]) -> set[int]:
        """Return the differences by which a change of an input may change the branch."""
        operands = [_value(name, values) for name in self.registers]
        operands += [constant & _MASK64 for constant in self.constants]
        out = {1, 2, 4, 8}
        for n, operand in enumerate(operands):
            out.add(_magnitude(operand))
            for other in operands[n + 1 :]:
                difference = _magnitude(operand - other)
                out |= {difference, difference - 1, difference + 1, _magnitude(operand & other)}
                out |= {_magnitude(operand ^ other)}
        return {d for d in out if 0 < d < 1 << 33}


def comparisons_before(reachable: Body, at: int, missing: str) -> Iterator[Comparison]:
    """Yield the comparisons that may decide a branch at an address, nearest first.

    missing is the kind of coverage that the instruction lacks (see `emulated`). For one that was
    never executed the comparisons are those before the branches to it.
    """
    addresses = sorted(reachable.steps)
    ends = [at]
    if missing == "never executed":
        ends = [a for a, s in reachable.steps.items() if s.target == at]
    for end in ends:
        index = addresses.index(end)
        for address in reversed(addresses[max(0, index - _MOST_BACK) : index + 1]):
            step = reachable.steps[address]
            if _DECIDING.match(step.text):
                registers = _REGISTER.findall(step.text.partition(" ")[2])
                yield Comparison(step.address, tuple(registers), step.constants)


_PARTS = {"al": "rax", "bl": "rbx", "cl": "rcx", "dl": "rdx", "sil": "rsi", "dil": "rdi",
          "ax": "rax", "bx": "rbx", "cx": "rcx", "dx": "rdx"}  # fmt: skip


def _value(name: str, values: Mapping[str, int]) -> int:
    """Return the value of a register by its name or by that of a part of it."""
    if name in values:
        return values[name]
    if name in _PARTS:
        return values[_PARTS[name]] & (0xFF if name.endswith("l") else 0xFFFF)
    if name[0] == "w":
        return values[f"x{name[1:]}"] & 0xFFFF_FFFF
    if name[0] == "e":
        return values[f"r{name[1:]}"] & 0xFFFF_FFFF
    full, part = name[:-1], name[-1]
    bits = {"d": 32, "w": 16, "b": 8}[part]
    return values[full] & (1 << bits) - 1


def _magnitude(value: int) -> int:
    """Return the magnitude of a difference in 64 bits or in 32, whichever is less."""
    wide = min(value & _MASK64, -value & _MASK64)
    return min(wide, min(value & 0xFFFF_FFFF, -value & 0xFFFF_FFFF) or wide)


_MOST_SIZE = 1 << 20  # largest size, in bytes
_MOST_VALUES = 64
_MOST_COMPOSED = 40  # sizes that are combined in pairs
_MOST_WORDS = 12  # words that are combined in pairs
_TEXT = b"From: a user <user@example.org>\r\nSubject: what was copied, and what was not?\r\n\r\n"


def named_sizes(reachable: Body) -> list[int]:
    """Return the sizes that code's immediates, masks, displacements and shifts name, ascending.

    A negative constant counts by its magnitude; a shift by n as 1 << n, and it also scales each
    other constant.
    """
    sizes: set[int] = set()
    shifts: set[int] = set()
    for step in reachable.steps.values():
        shifting = step.text.startswith(("sh", "sa", "lsr", "lsl", "asr", "ro", "bt", "bextr"))
        for constant in step.constants:
            value = min(constant, (1 << 64) - constant, (1 << 32) - constant & (1 << 64) - 1)
            if shifting and 0 < value < 21:
                shifts.add(value)
                sizes.add(1 << value)
            if 0 < value <= _MOST_SIZE:
                sizes.add(value)
    scaled = {value << n for value in sizes for n in shifts if value << n <= _MOST_SIZE}
    least = sorted(sizes)[:_MOST_VALUES]
    return sorted({*least, *sorted(scaled)[: _MOST_VALUES - len(least)], 1})


def composed(values: Sequence[int]) -> list[int]:
    """Return the sums, differences and exclusive ors of pairs of values."""
    sizes: dict[int, None] = {}
    for first, second in itertools.combinations(values[:_MOST_COMPOSED], 2):
        candidates = (first + second, first - second, second - first, first ^ second)
        sizes.update(dict.fromkeys(v for v in candidates if 0 < v <= _MOST_SIZE))
    return list(sizes)


def words(reachable: Body) -> list[int]:
    """Return the constants of code, and the combinations of two large ones, as words."""
    values = sorted({c for step in reachable.steps.values() for c in step.constants if c})
    large = [v for v in values if 0x7F < v < (1 << 64) - 0x80][:_MOST_WORDS]
    pairs = list(itertools.combinations(large, 2))
    return values + [v for a, b in pairs for v in (a + b, a ^ b, a - b)]


def contents(reachable: Body, size: int) -> tuple[NDArray[np.uint8], dict[int, int]]:
    """Return contents of a source, one a row, and the periods of those made of the code's words.

    They are random bytes, zeros, ones, single bits, text, and the words in each width. A period is
    the number of bytes after which a row repeats, by the row's number.
    """
    values = words(reachable)
    generator = np.random.default_rng(7)
    index = np.arange(size)
    word = index // 8
    single_bits = np.where(index % 8 == word % 8, 1 << word // 8 % 8, 0)
    rows = [
        generator.integers(1, 128, size),
        np.zeros(size),
        np.full(size, 0xFF),
        single_bits,
        np.resize(np.frombuffer(_TEXT, dtype=np.uint8), size),
        generator.integers(0, 256, size),
        np.where(word % 2, 0xFF, 0),
        np.where(index % 8 == 7, 0x80, 0),
        np.where(index % 2, 0x7F, 0xFF),
    ]
    repeated = [_in_bytes(values, width) for width in (8, 4, 2, 1)]
    periods = {n: len(content) for n, content in enumerate(repeated, len(rows))}
    rows += [np.resize(content, size) for content in repeated]
    return np.ascontiguousarray(np.array(rows).astype(np.uint8)), periods


def _in_bytes(values: Sequence[int], width: int) -> NDArray[np.uint8]:
    """Return constants, their neighbours and their negatives as integers of a width in bytes."""
    near = [v + d for v in values or (1,) for d in (-1, 0, 1)] + [-v for v in values]
    mask = (1 << 8 * width) - 1
    content = b"".join(v.to_bytes(width, "little") for v in dict.fromkeys(v & mask for v in near))
    return np.frombuffer(content, dtype=np.uint8)
