"""What an iteration of a loop executes, and whether that can be run here at all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import iced_x86 as iced

from loopwright.errors import InputError
from loopwright.measuring.blocks import registers

Stretch = tuple[int, int]  # bytes of code, from and up to

_READS = {
    iced.OpAccess.READ,
    iced.OpAccess.COND_READ,
    iced.OpAccess.READ_WRITE,
    iced.OpAccess.READ_COND_WRITE,
}
_ONLY_READS = {iced.OpAccess.READ, iced.OpAccess.COND_READ}
_STRAIGHT = {
    iced.FlowControl.NEXT,
    iced.FlowControl.CONDITIONAL_BRANCH,
    iced.FlowControl.UNCONDITIONAL_BRANCH,
}
_CHANGING = {
    getattr(iced.Mnemonic, name): name.lower()
    for name in ("RDTSC", "RDTSCP", "RDRAND", "RDSEED", "CPUID", "XGETBV", "RDPID", "RDPMC")
}
_SEGMENTS = (iced.Register.GS, iced.Register.FS)
_USER_SPACE = 1 << 47
_NEAR = 1 << 20  # displacements nearer to zero count from a pointer


@dataclass(frozen=True)
class Step:
    """An instruction of an iteration: which 64-bit registers it reads and writes, and how.

    taken says of a conditional branch where the path goes, of others nothing.
    """

    ins: iced.Instruction
    read: frozenset[str]
    written: frozenset[str]
    memory: tuple[iced.UsedMemory, ...]
    taken: bool | None

    @property
    def at(self) -> int:
        """Return where it begins in the code."""
        return int(self.ins.ip)

    @property
    def end(self) -> int:
        """Return where it ends."""
        return int(self.ins.next_ip)

    @property
    def branches(self) -> bool:
        """Say whether it is a conditional branch."""
        return self.taken is not None

    @property
    def other(self) -> int:
        """Return where a conditional branch goes off the path."""
        return self.end if self.taken else _signed(self.ins.near_branch_target)

    @property
    def text(self) -> str:
        """Return it in GNU syntax."""
        return " ".join(iced.Formatter(iced.FormatterSyntax.GAS).format(self.ins).split())


@dataclass(frozen=True)
class Path:
    """A loop's code, and the stretches of it that an iteration executes, in order."""

    code: bytes
    stretches: tuple[Stretch, ...]

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Return the instructions of an iteration, in order."""
        return tuple(_steps(self.code, self.stretches))

    @property
    def executed(self) -> bytes:
        """Return the bytes that an iteration executes."""
        return b"".join(self.code[start:end] for start, end in self.stretches)

    @property
    def back(self) -> Step:
        """Return the branch that goes back to the start."""
        return self.steps[-1]

    @cached_property
    def used(self) -> frozenset[str]:
        """Return the registers that the loop reads or writes."""
        return frozenset().union(*(s.read | s.written for s in self.steps))

    def index_of(self, at: int) -> int:
        """Return which step begins there, -1 for none."""
        return next((n for n, step in enumerate(self.steps) if step.at == at), -1)


def of_loop(code: bytes, stretches: Sequence[Stretch] = ()) -> Path:
    """Return the path of an x86-64 loop: all of its code where no stretches are given.

    InputError for code that no path of leads back to its start, and for what cannot run in user
    space, or alike each time.
    """
    path = Path(code, tuple(stretches) or ((0, len(code)),))
    path = Path(_aimed(path), path.stretches)
    for start, end in path.stretches:
        if not 0 <= start < end <= len(code):
            raise InputError(f"its path has a stretch {start}-{end}, and it {len(code)} bytes")
    if path.stretches[0][0] != 0:
        raise InputError("its path does not begin with its first byte")
    starts = [start for start, _ in path.stretches]
    for (_, end), after in zip(path.stretches, [*starts[1:], 0], strict=True):
        last = next((step for step in path.steps if step.end == end), None)
        if last is None or not _goes_to(last.ins, after):
            raise InputError(f"its path does not go on from +{end:#x} to +{after:#x}")
    for step in path.steps:
        if why := _refused(step, len(code)):
            raise InputError(f"{why}: {step.text}")
    return path


def _aimed(path: Path) -> bytes:
    """Return the code with displacements that name the kernel's half of memory aimed at our own.

    They keep their lengths and lower bits.
    """
    code = bytearray(path.code)
    for start, end in path.stretches:
        decoder = iced.Decoder(64, path.code[start:end], ip=start)
        for ins in decoder:
            at = decoder.get_constant_offsets(ins)
            far = ins.memory_displacement >= 1 << 63 and -_signed(ins.memory_displacement) >= _NEAR
            relative = ins.is_ip_rel_memory_operand
            if at.has_displacement and at.displacement_size == 4 and far and not relative:
                code[ins.ip + at.displacement_offset + 3] &= 0x7F
    return bytes(code)


def _goes_to(ins: iced.Instruction, target: int) -> bool:
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
            used = info.info(ins)
            several = used.used_registers()
            yield Step(
                ins,
                frozenset(_names(r for r in several if r.access in _READS)),
                frozenset(_names(r for r in several if r.access not in _ONLY_READS)),
                tuple(used.used_memory()),
                ins.next_ip == end if conditional else None,
            )


def _names(used: Iterator[iced.UsedRegister]) -> Iterator[str]:
    for one in used:
        if name := registers.full_name(one.register):
            yield name


def _refused(step: Step, size: int) -> str:
    """Say why an instruction cannot be run, or nothing."""
    ins = step.ins
    if ins.flow_control in (iced.FlowControl.CALL, iced.FlowControl.INDIRECT_CALL):
        return "it calls"
    if ins.flow_control not in _STRAIGHT:
        return "it leaves the loop"
    if ins.is_privileged or ins.mnemonic in (iced.Mnemonic.STAC, iced.Mnemonic.CLAC):
        return "a privileged instruction"
    if ins.mnemonic in _CHANGING:
        return "what it reads changes from run to run"
    if ins.is_string_instruction and (ins.has_rep_prefix or ins.has_repne_prefix):
        return "it repeats by a count that is not known"
    for memory in step.memory:
        fixed = memory.base == memory.index == iced.Register.NONE
        nowhere = fixed and memory.segment not in _SEGMENTS
        if nowhere and ins.is_ip_rel_memory_operand:
            if -65536 < _signed(memory.displacement) < size + 65536:
                return "memory beside its own code"
        elif nowhere and memory.displacement >= _USER_SPACE:
            return "memory at an address of the kernel's"
    return ""


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
