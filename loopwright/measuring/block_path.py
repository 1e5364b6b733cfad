"""Paths of loops: registers and memory of an iteration, images to run, and ways to end."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import iced_x86 as iced

from loopwright.code.instructions import READS, REGISTERS, WRITES, disassembled, signed
from loopwright.errors import InputError

X86_REGISTERS = REGISTERS["x86_64"]
_ARM64_NAMES = {"fp": "x29", "lr": "x30"}


def register_number(name: str) -> int:
    """Return the encoding of a 64-bit register."""
    return X86_REGISTERS.index(name) if name in X86_REGISTERS else int(name[1:])


def counter_registers(isa: str) -> tuple[str, ...]:
    """Return the registers that may count iterations, those that blocks rarely use first."""
    if isa == "x86_64":
        return tuple(name for name in reversed(X86_REGISTERS) if name != "rsp")
    # x18 belongs to the platform, x29 and x30 are frame and return address.
    return tuple(f"x{n}" for n in range(28, -1, -1) if n != 18)


def used_registers(isa: str, code: bytes) -> frozenset[str]:
    """Return the 64-bit names of the registers that code reads or writes, implied ones included."""
    return _used_x86(code) if isa == "x86_64" else _used_arm64(code)


@cache
def _full_names() -> dict[int, str]:
    return {getattr(iced.Register, name.upper()): name for name in X86_REGISTERS}


def full_name(register: "iced.Register_") -> str:
    """Return the 64-bit name of a register of iced, "" if it is no general-purpose one."""
    return _full_names().get(iced.RegisterExt.full_register(register), "")


def gnu_text(ins: iced.Instruction) -> str:
    """Return an instruction in GNU syntax with single spaces."""
    return " ".join(iced.Formatter(iced.FormatterSyntax.GAS).format(ins).split())


def _used_x86(code: bytes) -> frozenset[str]:
    info = iced.InstructionInfoFactory()
    return _names(use for ins in iced.Decoder(64, code) for use in info.info(ins).used_registers())


def _used_arm64(code: bytes) -> frozenset[str]:
    names = set()
    for ins in disassembled(code):
        for register in (r for side in ins.regs_access() for r in side):
            name = ins.reg_name(register)
            name = _ARM64_NAMES.get(name, name)
            if name[0] in "wx" and name[1:].isdigit():
                names.add(f"x{name[1:]}")
    return frozenset(names)


MEMORY_BYTES = 4096
MEMORY_WORD = 0x21000840  # the initial value of each 64-bit word: harness/block_machine.h


@dataclass(frozen=True)
class Memory:
    """The bytes of every page: one repeated 64-bit word, except for changed bytes by offset."""

    word: int = MEMORY_WORD
    changed: Mapping[int, int] = field(default_factory=dict)

    def page(self) -> bytes:
        page = bytearray(self.word.to_bytes(8, "little") * (MEMORY_BYTES // 8))
        for at, byte in self.changed.items():
            page[at] = byte
        return bytes(page)

    def with_value(self, address: int, size: int, value: int) -> "Memory":
        """Return a copy with a value of so many bytes at an address."""
        new = dict(self.changed)
        for n, byte in enumerate((value % (1 << 8 * size)).to_bytes(size, "little")):
            new[(address + n) % MEMORY_BYTES] = byte
        return Memory(self.word, new)

    def value_at(self, address: int, size: int) -> int:
        """Return the value of so many bytes at an address."""
        page = self.page()
        value = bytes(page[(address + n) % MEMORY_BYTES] for n in range(size))
        return int.from_bytes(value, "little")

    def lines(self) -> Iterator[str]:
        """Yield its lines of a job."""
        yield f"memory {self.word}"
        page = self.page()
        for index in sorted({at // 8 for at in self.changed}):
            yield f"word {index} {int.from_bytes(page[8 * index : 8 * index + 8], 'little')}"


FIRST_POINTER = 0x20000000  # register n points to this plus n times a step: harness/block_machine.h
POINTER_STEP = 0x100108
ALIGNED_POINTER_STEP = 0x100100  # of blocks that access vectors
_VECTOR = 16  # bytes
_ONLY_READS = READS - WRITES


def wide(isa: str, code: bytes) -> bool:
    """True if an instruction of the code accesses 16 bytes of memory or more."""
    return isa == "x86_64" and any(size >= _VECTOR for _, size, _ in _accesses(code))


def wants_aligned_pointers(isa: str, code: bytes) -> bool:
    """True if code has to run with pointers aligned to cache lines."""
    return wide(isa, code) or misaligned(isa, code)


def misaligned(isa: str, code: bytes) -> bool:
    """True if an access through registers that code has not written yet is misaligned."""
    if isa != "x86_64":
        return False
    step = ALIGNED_POINTER_STEP if wide(isa, code) else POINTER_STEP
    accesses = ((_address(m, written, step), size) for m, size, written in _accesses(code))
    return any(address is not None and address % size for address, size in accesses)


def _accesses(code: bytes) -> Iterator[tuple[iced.UsedMemory, int, frozenset[str]]]:
    """Yield each access, its bytes, and the registers written before it."""
    info = iced.InstructionInfoFactory()
    written: frozenset[str] = frozenset()
    for ins in iced.Decoder(64, code):
        operands = info.info(ins)
        for memory in operands.used_memory():
            size = iced.MemorySizeExt.size(memory.memory_size)
            if memory.access in READS | WRITES and size:
                yield memory, size, written
        written |= _names(r for r in operands.used_registers() if r.access not in _ONLY_READS)


def _address(memory: iced.UsedMemory, written: frozenset[str], step: int) -> int | None:
    """Return the address of an access, None if unknown."""
    address = memory.displacement
    for register, scale in ((memory.base, 1), (memory.index, memory.scale)):
        name = full_name(register)
        if register == iced.Register.NONE:
            continue
        if not name or name in written or memory.segment in THREAD_SEGMENTS:
            return None
        address += scale * (FIRST_POINTER + register_number(name) * step)
    return int(address) if memory.base != iced.Register.NONE else None


Stretch = tuple[int, int]  # first byte of code, and the byte after the last

_LOOP_FLOW = {
    iced.FlowControl.NEXT,
    iced.FlowControl.CONDITIONAL_BRANCH,
    iced.FlowControl.UNCONDITIONAL_BRANCH,
}
_VARYING = {  # results differ from run to run
    getattr(iced.Mnemonic, name)
    for name in ("RDTSC", "RDTSCP", "RDRAND", "RDSEED", "CPUID", "XGETBV", "RDPID", "RDPMC")
}
THREAD_SEGMENTS = (iced.Register.FS, iced.Register.GS)
USER_SPACE = 1 << 47
_NEAR = 1 << 20  # displacements nearer to zero count from a pointer


@dataclass(frozen=True)
class Step:
    """An instruction of an iteration, with the 64-bit registers that it reads and writes.

    taken is whether the path takes a conditional branch; None for other instructions.
    """

    ins: iced.Instruction
    read: frozenset[str]
    written: frozenset[str]
    memory: tuple[iced.UsedMemory, ...]
    taken: bool | None

    @property
    def at(self) -> int:
        """Its first byte in the code."""
        return int(self.ins.ip)

    @property
    def end(self) -> int:
        """The byte after its last one in the code."""
        return int(self.ins.next_ip)

    @property
    def branches(self) -> bool:
        """True if it is a conditional branch."""
        return self.taken is not None

    @property
    def off_path(self) -> int:
        """The place to which a conditional branch leaves the path."""
        return self.end if self.taken else signed(self.ins.near_branch_target)

    @property
    def text(self) -> str:
        """The instruction in GNU syntax."""
        return gnu_text(self.ins)


@dataclass(frozen=True)
class Path:
    """The code of a loop, and the stretches of it that an iteration executes, in order."""

    code: bytes
    stretches: tuple[Stretch, ...]

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The instructions of an iteration, in order."""
        return tuple(_steps(self.code, self.stretches))

    @property
    def executed(self) -> bytes:
        """The bytes that an iteration executes."""
        return b"".join(self.code[start:end] for start, end in self.stretches)

    @cached_property
    def used(self) -> frozenset[str]:
        """The registers that the loop reads or writes."""
        return frozenset().union(*(s.read | s.written for s in self.steps))

    def index_of(self, at: int) -> int:
        """Return the number of the step at an offset, -1 for none."""
        return next((n for n, step in enumerate(self.steps) if step.at == at), -1)


def of_loop(code: bytes, stretches: Sequence[Stretch] = ()) -> Path:
    """Return the path of an x86-64 loop: all of its code where no stretches are given.

    InputError if no path leads back to the start, and for code that cannot run in user space or
    does not behave alike each time.
    """
    path = Path(code, tuple(stretches) or ((0, len(code)),))
    path = Path(_with_user_displacements(path), path.stretches)
    for start, end in path.stretches:
        if not 0 <= start < end <= len(code):
            raise InputError(f"its path has a stretch {start}-{end}, and it {len(code)} bytes")
    if path.stretches[0][0] != 0:
        raise InputError("its path does not begin with its first byte")
    starts = [start for start, _ in path.stretches]
    for (_, end), after in zip(path.stretches, [*starts[1:], 0], strict=True):
        last = next((step for step in path.steps if step.end == end), None)
        if last is None or not _branches_to(last.ins, after):
            raise InputError(f"its path does not go on from +{end:#x} to +{after:#x}")
    for step in path.steps:
        if reason := _refusal(step, len(code)):
            raise InputError(f"{reason}: {step.text}")
    return path


def _with_user_displacements(path: Path) -> bytes:
    """Return the code with displacements into the kernel's half of memory moved to the user's half.

    They keep their lengths and lower bits.
    """
    code = bytearray(path.code)
    for start, end in path.stretches:
        decoder = iced.Decoder(64, path.code[start:end], ip=start)
        for ins in decoder:
            at = decoder.get_constant_offsets(ins)
            far = ins.memory_displacement >= 1 << 63 and -signed(ins.memory_displacement) >= _NEAR
            relative = ins.is_ip_rel_memory_operand
            if at.has_displacement and at.displacement_size == 4 and far and not relative:
                code[ins.ip + at.displacement_offset + 3] &= 0x7F
    return bytes(code)


def _branches_to(ins: iced.Instruction, target: int) -> bool:
    branches = (iced.FlowControl.CONDITIONAL_BRANCH, iced.FlowControl.UNCONDITIONAL_BRANCH)
    return ins.flow_control in branches and int(ins.near_branch_target) == target


def _steps(code: bytes, stretches: Sequence[Stretch]) -> Iterator[Step]:
    info = iced.InstructionInfoFactory()
    for start, end in stretches:
        for ins in iced.Decoder(64, code[start:end], ip=start):
            if ins.is_invalid:
                at = int(ins.ip)
                raise InputError(f"byte {at} ({code[at]:02x}) starts no whole x86-64 instruction")
            conditional = ins.flow_control == iced.FlowControl.CONDITIONAL_BRANCH
            operands = info.info(ins)
            registers = operands.used_registers()
            yield Step(
                ins,
                _names(r for r in registers if r.access in READS),
                _names(r for r in registers if r.access not in _ONLY_READS),
                tuple(operands.used_memory()),
                ins.next_ip == end if conditional else None,
            )


def _names(uses: Iterable[iced.UsedRegister]) -> frozenset[str]:
    """Return the 64-bit names of the general-purpose registers among those used."""
    return frozenset(full_name(use.register) for use in uses) - {""}


def _refusal(step: Step, size: int) -> str:
    """Return the reason why an instruction cannot be run, or ""."""
    ins = step.ins
    if ins.flow_control in (iced.FlowControl.CALL, iced.FlowControl.INDIRECT_CALL):
        return "it calls"
    if ins.flow_control not in _LOOP_FLOW:
        return "it leaves the loop"
    if ins.is_privileged or ins.mnemonic in (iced.Mnemonic.STAC, iced.Mnemonic.CLAC):
        return "a privileged instruction"
    if ins.mnemonic in _VARYING:
        return "what it reads changes from run to run"
    if ins.is_string_instruction and (ins.has_rep_prefix or ins.has_repne_prefix):
        return "it repeats by a count that is not known"
    for memory in step.memory:
        fixed = memory.base == memory.index == iced.Register.NONE
        nowhere = fixed and memory.segment not in THREAD_SEGMENTS
        if nowhere and ins.is_ip_rel_memory_operand:
            if -65536 < signed(memory.displacement) < size + 65536:
                return "memory beside its own code"
        elif nowhere and memory.displacement >= USER_SPACE:
            return "memory at an address of the kernel's"
    return ""


_TRAP = 0xCC
_JUMP_BYTES = 5
_REACH = 128  # bytes that short branches reach backwards, and nearly as many forwards


@dataclass(frozen=True)
class Image:
    """Code for the harness: the loop begins at entry, and ends where control passes the last byte.

    leaves maps an offset, from the loop's first byte, to the step of the path that exits to it;
    landing is the target of the step that ends the loop.
    """

    code: bytes
    entry: int
    landing: int
    leaves: dict[int, int]


def image_of(path: Path, code: bytes, end: int) -> Image:
    """Return the image of a loop that ends by the step `end`; code has its bytes.

    Only 32-bit branches are retargeted; InputError if that leaves no room.
    """
    return _Builder(path, code, end).image()


class _Builder:
    """A loop's code with room around it for a jump out and a trap for each other exit."""

    def __init__(self, path: Path, code: bytes, end: int) -> None:
        self._path, self._end = path, end
        self._size = len(code)
        branches = [(n, step) for n, step in enumerate(path.steps) if step.branches]
        self._exits = [(n, step) for n, step in branches if path.index_of(step.off_path) < 0]
        short_targets = [step.off_path for _, step in self._exits if len(step.ins) == 2]
        self._before = _REACH if any(target < 0 for target in short_targets) else 0
        # After the code, the bytes that short branches reach, and then a byte for each other exit.
        reach = _REACH if any(target >= self._size for target in short_targets) else 0
        self._after = self._size + reach + _JUMP_BYTES
        room = self._before + self._after + len(self._exits) + _JUMP_BYTES
        self._bytes = bytearray([_TRAP]) * room
        self._bytes[self._before : self._before + self._size] = code
        self._occupied: set[int] = set()
        self._leaves: dict[int, int] = {}

    def image(self) -> Image:
        landing = self._place_landing()
        for n, step in self._exits:
            if n != self._end:
                self._leaves[self._place_trap(step)] = n
        return Image(bytes(self._bytes), self._before, landing, self._leaves)

    def _place_landing(self) -> int:
        """Put a jump out of the image at the target of the step that ends the loop."""
        step = self._path.steps[self._end]
        at = step.off_path
        if len(step.ins) > 2 and not step.taken:
            at, self._after = self._after, self._after + _JUMP_BYTES
            self._retarget(step, at)
        room = range(at, at + _JUMP_BYTES)
        if any(start < room.stop and at < end for start, end in self._path.stretches):
            raise InputError(f"what ends it goes to +{at:#x}, where the loop leaves no room")
        self._occupied |= set(room)
        distance = len(self._bytes) - (self._before + at + _JUMP_BYTES)
        jump = b"\xe9" + distance.to_bytes(4, "little", signed=True)
        self._bytes[self._before + at : self._before + at + _JUMP_BYTES] = jump
        return at

    def _place_trap(self, step: Step) -> int:
        """Put a trap at the target of an exit; return its offset."""
        at = step.off_path
        if step.taken or 0 <= at < self._size:
            # The loop may end there, too, which the emulator tells apart.
            if at not in self._occupied:
                self._bytes[self._before + at] = _TRAP
            return at
        if len(step.ins) > 2:
            at, self._after = self._after, self._after + 1
            self._retarget(step, at)
            return at
        return self._place_trap_nearby(step)

    def _place_trap_nearby(self, step: Step) -> int:
        """Return a free byte at or near a short branch's target, and retarget the branch."""
        for at in _offsets_around(step.off_path):
            inside = 0 <= at < self._size
            there = -self._before <= at < len(self._bytes) - self._before
            if there and not inside and at not in self._occupied and -128 <= at - step.end < 128:
                self._occupied.add(at)
                self._retarget(step, at)
                return at
        raise InputError("there is no room for a trap where an exit goes")

    def _retarget(self, step: Step, at: int) -> None:
        """Let a branch go to an offset."""
        width = 1 if len(step.ins) == 2 else 4
        end = self._before + step.end
        self._bytes[end - width : end] = (at - step.end).to_bytes(width, "little", signed=True)


def _offsets_around(at: int) -> Iterator[int]:
    """Yield the offsets within reach of one, the nearest first."""
    for distance in range(_REACH):
        yield at + distance
        yield at - distance


_UNIT_CHANGES = {iced.Mnemonic.INC: 1, iced.Mnemonic.DEC: -1}
_SIGNS = {iced.Mnemonic.ADD: 1, iced.Mnemonic.SUB: -1}
_COMPARES = {iced.Mnemonic.CMP, iced.Mnemonic.TEST}
_EQUAL, _UNEQUAL = 0x4, 0x5  # condition codes of jumps


@dataclass(frozen=True)
class End:
    """A way to end the loop: by the step `branch` of the path, which depends on a counter.

    The counter starts with the value of the register base ("": 0) plus constant plus memory_bits of
    memory, plus step for each iteration. code is the loop's code; replaced names the replaced
    instructions, or is "".
    """

    branch: int
    code: bytes
    counter: str
    step: int
    base: str = ""
    constant: int = 0
    memory_bits: int = 0
    replaced: str = ""

    def start(self, values: Mapping[str, int], word: int) -> int:
        """Return the counter's start value for a run without an iteration."""
        memory_value = word & (1 << self.memory_bits) - 1
        return (values.get(self.base, 0) + self.constant + memory_value) % (1 << 64)


def own_ends(path: Path) -> Iterator[End]:
    """Yield the ways to end a loop that leave its code as it is."""
    for n, at in flag_branches(path):
        yield from _own(path, n, path.steps[at])


def replaced_ends(path: Path) -> Iterator[End]:
    """Yield the ways to end a loop by a count in the place of a comparison."""
    for n, at in flag_branches(path):
        if end := _replaced(path, n, path.steps[at]):
            yield end


def flag_branches(path: Path) -> list[tuple[int, int]]:
    """Return a loop's branches, the back edge first, each with the step that sets its flags."""
    branches = [n for n, step in enumerate(path.steps) if step.branches]
    branches.sort(key=lambda n: n != len(path.steps) - 1)
    return [(n, setter) for n in branches if (setter := flag_setter(path, n)) is not None]


def flag_setter(path: Path, branch: int) -> int | None:
    """Return the step that sets the flags which a branch tests, None if no step does."""
    tested = path.steps[branch].ins.rflags_read
    before = reversed(range(branch))
    return next((n for n in before if path.steps[n].ins.rflags_modified & tested), None)


@cache
def change_of(path: Path, name: str, before: int = -1) -> int | None:
    """Return the constant change of a register by an iteration; None if it is no constant.

    With before it is the change by the steps before that one.
    """
    steps = path.steps if before < 0 else path.steps[:before]
    changes = [_constant_change(step.ins, name) for step in steps if name in step.written]
    return None if None in changes else sum(change for change in changes if change is not None)


def _constant_change(ins: iced.Instruction, name: str) -> int | None:
    """Return the constant that an instruction adds to a register, None of any other one."""
    if iced.RegisterExt.size(ins.op0_register) < 4 or full_name(ins.op0_register) != name:
        return None
    if ins.mnemonic in _UNIT_CHANGES and ins.op0_kind == iced.OpKind.REGISTER:
        return _UNIT_CHANGES[ins.mnemonic]
    if ins.mnemonic in _SIGNS and ins.op_count == 2 and _is_immediate(ins.op1_kind):
        return _SIGNS[ins.mnemonic] * signed(ins.immediate(1))
    if ins.mnemonic == iced.Mnemonic.LEA and ins.memory_index == iced.Register.NONE:
        same = full_name(ins.memory_base) == name
        return signed(ins.memory_displacement) if same else None
    return None


def _is_immediate(kind: int) -> bool:
    return kind not in (iced.OpKind.REGISTER, iced.OpKind.MEMORY)


@dataclass(frozen=True)
class _Side:
    """An operand of a comparison: a register by its name, a constant, or bits of memory."""

    name: str = ""
    constant: int = 0
    bits: int = 0


def _own(path: Path, branch: int, comparison: Step) -> Iterator[End]:
    """Yield the ends of a loop by a comparison of its own, with either operand as the counter."""
    sides = _sides(comparison)
    if sides is None:
        return
    changes = []
    for side in sides:
        change = change_of(path, side.name) if side.name else 0
        if change is None:
            return
        changes.append(change)
    if changes[0] == changes[1]:
        return
    for own, other in ((1, 0), (0, 1)):
        counter, against = sides[own], sides[other]
        if not counter.name:
            continue
        if changes[own] and against.name and not changes[other]:
            continue  # the bound is set, not the register that runs up to it
        step = changes[other] - changes[own]
        bound = (against.name, against.constant, against.bits)
        yield End(branch, path.code, counter.name, step, *bound)


def _sides(comparison: Step) -> tuple[_Side, _Side] | None:
    """Return what a step compares (its result with zero, if it counts); None for another step."""
    ins = comparison.ins
    if ins.mnemonic == iced.Mnemonic.TEST:
        if ins.op0_kind != iced.OpKind.REGISTER or ins.op0_register != ins.op1_register:
            return None
        return _Side(full_name(ins.op0_register)), _Side()
    if ins.mnemonic in _UNIT_CHANGES or (ins.mnemonic in _SIGNS and _is_immediate(ins.op1_kind)):
        if ins.op0_kind != iced.OpKind.REGISTER:
            return None
        return _Side(full_name(ins.op0_register)), _Side()
    if ins.mnemonic != iced.Mnemonic.CMP:
        return None
    sides = []
    for n, kind in enumerate((ins.op0_kind, ins.op1_kind)):
        if kind == iced.OpKind.REGISTER:
            sides.append(_Side(full_name(ins.op_register(n))))
        elif kind == iced.OpKind.MEMORY:
            sides.append(_Side(bits=8 * iced.MemorySizeExt.size(ins.memory_size)))
        else:
            sides.append(_Side(constant=signed(ins.immediate(n))))
    return sides[0], sides[1]


def _replaced(path: Path, branch: int, comparison: Step) -> End | None:
    """Return the loop with a count in the place of a comparison, of the same length."""
    if comparison.ins.mnemonic not in _COMPARES or comparison.memory:
        return None
    jump = path.steps[branch]
    if jump.ins.is_loop or jump.ins.is_loopcc or jump.ins.is_jcx_short:
        return None
    unused = [name for name in counter_registers("x86_64") if name not in path.used]
    length = len(comparison.ins)
    moved = [name for name in sorted(path.used - {"rsp"}) if change_of(path, name)]
    # A comparison carries nothing to the next iteration; a count makes it take a cycle at least.
    options = [
        (name, base_name, _compare(name, base_name, length))
        for base_name in moved
        for name in unused
    ]
    options += [(name, "", _count(name, length)) for name in unused]
    name, base, replacement = next((way for way in options if way[2]), ("", "", b""))
    if not replacement:
        return None
    code = bytearray(path.code)
    code[comparison.at : comparison.end] = replacement
    condition = _UNEQUAL if jump.taken else _EQUAL
    at = jump.at + len(jump.ins) - (1 if len(jump.ins) == 2 else 4) - 1
    code[at] = code[at] & 0xF0 | condition
    decoded = next(iter(iced.Decoder(64, bytes(code[comparison.at : comparison.end]))))
    jump_text = "jne" if jump.taken else "je"
    text = (
        f"+{comparison.at:#x} {comparison.text} and +{jump.at:#x} {jump.text.split()[0]} "
        f"are replaced by {gnu_text(decoded)} and {jump_text}"
    )
    change = change_of(path, base) if base else 1
    return End(branch, bytes(code), name, change or 1, base, replaced=text)


def _compare(name: str, moved_register: str, length: int) -> bytes:
    """Return a comparison of two registers of a length in bytes, or b""."""
    count, moved = register_number(name), register_number(moved_register)
    operands = bytes([0x39, 0xC0 | (count & 7) << 3 | moved & 7])
    if length == len(operands):
        return operands if count < 8 and moved < 8 else b""
    with_rex = bytes([0x48 | count >> 3 << 2 | moved >> 3]) + operands
    return b"\x3e" * (length - len(with_rex)) + with_rex if length >= len(with_rex) else b""


def _count(name: str, length: int) -> bytes:
    """Return an instruction of a length in bytes that counts down in a register, or b""."""
    register = register_number(name)
    low_bits = register & 7
    rex = bytes([0x48 | register >> 3])
    needs_no_rex = register < 8
    encodings = {
        2: bytes([0xFF, 0xC8 | low_bits]) if needs_no_rex else b"",
        3: rex + bytes([0xFF, 0xC8 | low_bits]),
        4: rex + bytes([0x83, 0xE8 | low_bits, 1]),
        5: b"\x3e" + rex + bytes([0x83, 0xE8 | low_bits, 1]),
        6: bytes([0x81, 0xE8 | low_bits, 1, 0, 0, 0]) if needs_no_rex else b"",
        7: rex + bytes([0x81, 0xE8 | low_bits, 1, 0, 0, 0]),
    }
    return encodings.get(length, b"")
