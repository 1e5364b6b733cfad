"""Traces of a call or loop: its steps, and their packed form for the simulator."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import unicorn
from numpy.typing import NDArray
from unicorn import arm64_const, x86_const
from unicorn.unicorn import Uc, UcError

from loopwright import kernels, microarchs, toolchain
from loopwright.code import assemble, instructions, loops, snippet
from loopwright.code.instructions import Code, Flow, Instruction, register_number
from loopwright.code.loops import Piece, Placement, moved
from loopwright.errors import InputError, unknown
from loopwright.kernels import Variant
from loopwright.kernels.contracts import Contract
from loopwright.machine import emulator
from loopwright.machine.emulator import (
    BASES,
    PAGE,
    STACK_TOP,
    Access,
    Buffer,
    Call,
    Machine,
    Step,
    Steps,
    Trace,
    contents,
    place_buffers,
)
from loopwright.microarchs import alternatives_left
from loopwright.rows import Rows, as_frame

MOST_ITERATIONS = 1000
_FIRST_BUFFER = 0x1000_0000
_BUFFER_DISTANCE = 0x800_0000  # between the buffers of two registers; all have 32-bit addresses
_STRING_COUNT = 8  # elements of a repeated string instruction
_ADDRESSING = {
    "x86_64": re.compile(r"\(%(?P<base>\w+)"),
    "arm64": re.compile(r"\[(?P<base>[xw]\d+|sp)"),
}
_BRANCHES = (Flow.BRANCH, Flow.JUMP)
_STRING_REGISTERS = ("rsi", "rdi")  # that string instructions address implicitly


@dataclass(frozen=True)
class LoopTrace:
    """Steps of each iteration; base is the address of the code's offset 0."""

    base: int
    iterations: tuple[tuple[Step, ...], ...]


def trace_loop(piece: Piece, iterations: int, offset: int | None = None) -> LoopTrace:
    """Trace iterations of a loop, or passes through straight code.

    The first byte is offset bytes after a 64-byte boundary, or at the piece's own code offset if
    None. InputError for code that leaves other than by a branch, for impossible accesses, and for
    instructions that Unicorn does not know.
    """
    if not 1 <= iterations <= MOST_ITERATIONS:
        raise InputError(f"{iterations} iterations: give 1 to {MOST_ITERATIONS}")
    if piece.error:
        raise InputError(f"{piece.id}: {piece.error}")
    code_offset = piece.offset if offset is None else offset
    loop = _Loop(piece, emulator.CODE + code_offset - piece.address)
    return LoopTrace(loop.base, tuple(tuple(loop.iteration()) for _ in range(iterations)))


class _Loop:
    """A loop in an emulated core, whose memory is mapped at the first access."""

    def __init__(self, piece: Piece, base: int) -> None:
        self.base = base
        self._piece = piece
        self._core: Uc = emulator.core_of(piece.isa)
        self._buffers = _buffers(piece)
        start = min(i.address for i in piece.instructions) + base
        end = max(i.end for i in piece.instructions) + base
        self._core.mem_map(*emulator.pages(start, end))
        for ins in piece.instructions:
            self._core.mem_write(base + ins.address, ins.code)
        for name, address in self._buffers.items():
            self._core.reg_write(emulator.register_of(piece.isa, name), address)
        self._accesses: dict[str, tuple[int, int]] = {}
        memory = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE
        unmapped = unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED
        self._core.hook_add(memory, self._on_access)
        self._core.hook_add(unmapped, self._on_page)

    def iteration(self) -> Iterator[Step]:
        """Yield the steps from the first instruction until the loop begins again."""
        body = self._piece.instructions
        index_of = {ins.address: n for n, ins in enumerate(body)}
        n = 0
        while n < len(body):
            ins = body[n]
            if ins.flow is not Flow.NEXT and (ins.target is None or ins.flow not in _BRANCHES):
                raise self._left(ins)
            repeats = self._execute(ins)
            n += 1
            taken = None if ins.flow is Flow.NEXT else False
            if self._piece.notion == "loop" and ins.flow is not Flow.NEXT:
                target = self._after_branch(ins, index_of)
                n = index_of[target] or len(body)
                taken = target != ins.end
            yield Step(
                ins,
                taken=taken,
                repeats=repeats,
                load=self._access("load"),
                store=self._access("store"),
            )

    def _execute(self, ins: Instruction) -> int:
        """Execute one instruction; return the repetitions of a string instruction."""
        self._accesses = {}
        if ins.string and self._piece.isa == "x86_64":
            self._core.reg_write(x86_const.UC_X86_REG_RCX, _STRING_COUNT)
        repeats = 0
        while not repeats or (ins.string and self._at == ins.address):
            try:
                self._core.emu_start(self.base + ins.address, 0, count=1)
            except UcError as error:
                raise emulator.refusal(error, f"{self._piece.id}: {ins.line}") from None
            repeats += 1
        return min(repeats, _STRING_COUNT) if ins.string else 1

    @property
    def _at(self) -> int:
        counter = (
            x86_const.UC_X86_REG_RIP if self._piece.isa == "x86_64" else arm64_const.UC_ARM64_REG_PC
        )
        return int(self._core.reg_read(counter)) - self.base

    def _after_branch(self, ins: Instruction, addresses: Container[int]) -> int:
        """Return the address after a branch: its target, or its other one if that leaves the loop.

        addresses are those of the loop's instructions. InputError if both targets leave it.
        """
        for target in (self._at, ins.target, ins.end):
            if target is not None and target in addresses:
                return target
        raise self._left(ins)

    def _left(self, ins: Instruction) -> InputError:
        return InputError(f"{self._piece.id}: {ins.line} leaves the loop, and its trace ends there")

    def _access(self, kind: str) -> Access | None:
        if kind not in self._accesses:
            return None
        address, size = self._accesses[kind]
        for name, start in self._buffers.items():
            if abs(address - start) < _BUFFER_DISTANCE // 2:
                return Access(name, address - start, address, size)
        return Access("", address, address, size)

    def _on_access(
        self, _core: Uc, kind: int, address: int, size: int, _value: int, _data: object
    ) -> None:
        kind_name = "store" if kind == unicorn.UC_MEM_WRITE else "load"
        lowest, bytes_before = self._accesses.get(kind_name, (address, 0))
        self._accesses[kind_name] = min(lowest, address), bytes_before + size

    def _on_page(
        self, core: Uc, _kind: int, address: int, size: int, _value: int, _data: object
    ) -> bool:
        for page in {address // PAGE, (address + size - 1) // PAGE}:
            try:
                core.mem_map(page * PAGE, PAGE)
            except UcError as error:
                if error.errno != unicorn.UC_ERR_MAP:  # that page is mapped already
                    return False
        return True


def _buffers(piece: Piece) -> dict[str, int]:
    """Return the buffer of each register that addresses memory, by first use."""
    registers: dict[str, None] = {}
    for ins in piece.instructions:
        for match in _ADDRESSING[piece.isa].finditer(ins.text):
            if (name := _full_register(piece.isa, match["base"])) != "rip":
                registers.setdefault(name)
        if ins.string and piece.isa == "x86_64":
            registers |= dict.fromkeys(_STRING_REGISTERS)
    return {name: _FIRST_BUFFER + n * _BUFFER_DISTANCE for n, name in enumerate(registers)}


def _full_register(isa: str, name: str) -> str:
    """Return the 64-bit register of a name."""
    if isa == "arm64":
        return name.replace("w", "x")
    return f"r{name[1:]}" if name.startswith("e") else name.removesuffix("d")


_STEP_COLUMNS = (
    "address", "offset", "text", "taken", "repeats", "load", "load_address", "load_bytes", "store",
    "store_address", "store_bytes", "fault",
)  # fmt: skip
COLUMNS = ("kernel", "variant", "step", *_STEP_COLUMNS)
COLUMNS_OF_LOOPS = ("id", "iteration", "step", *_STEP_COLUMNS)
_TYPES = {
    "taken": "boolean",
    **dict.fromkeys(("load_address", "load_bytes", "store_address", "store_bytes"), "Int64"),
}


_DEFAULT_ITERATIONS = 2  # iterations of a loop, by default


@dataclass(frozen=True)
class TraceQuestion:
    """The call or the loops to trace: see answer_trace."""

    spec: str | None = None
    size: int | None = None
    align: tuple[int, int] = (0, 0)
    fault: tuple[str, int] | None = None
    microarch: str | None = None
    offset: int | None = None
    _: KW_ONLY
    hex: str | bytes | None = None
    asm: str | None = None
    obj: Path | str | None = None
    isa: str | None = None
    iterations: int | None = None


def answer_trace(question: TraceQuestion) -> Rows:
    """Return every instruction of one call, or of a loop's first iterations, in executed order.

    Exactly one of spec (KERNEL/VARIANT), asm, obj and hex is given; the latter are the subjects of
    predict, traced for iterations of each loop (2 where left out) from registers and memory that
    loopwright.machine.trace chooses; isa is that of asm and hex. The rest applies to a call.

    size is in bytes, or records where the contract's effect is store_fields (1 for a call of fixed
    size). align is the start of destination and source, in bytes from a page start (the source half
    a page further). fault names a side ("dst" or "src") and the number of its accessible bytes: it
    then ends at a page end. microarch takes the code's alternatives as that core does; left out,
    all are taken. offset (0 to 63) is that of the main loop, or else the entry, mod 64.

    One row an instruction: address (in the code, as in branches), offset (mod 64, where it is
    placed), text, taken (of a branch), repeats (of a string instruction), and for its load and its
    store the place ("dst+8", "src+0", "stack-8"), address and bytes; fault names the side whose
    access faulted. InputError for a call outside the contract and for code that cannot be run (see
    loopwright.machine.emulator).
    """
    subjects = (question.spec, question.hex, question.asm, question.obj)
    if sum(subject is not None for subject in subjects) != 1:
        raise InputError(
            "give one of KERNEL/VARIANT, --asm FILE, --obj FILE[:SYMBOL] and --hex HEX"
        )
    if question.offset is not None and question.offset not in range(64):
        raise InputError(f"offset {question.offset} is not in 0..63; give a number of bytes mod 64")
    return _loop_rows(question) if question.spec is None else _call_rows(question.spec, question)


def _call_rows(spec: str, question: TraceQuestion) -> Rows:
    """Return the rows of one call of a variant."""
    if question.isa is not None or question.iterations is not None:
        raise InputError("--isa and --iterations are for --asm, --obj and --hex")
    kernel, variants = kernels.select(spec)
    if question.size is None:
        raise InputError(f"give the bytes of the call of {spec}, e.g. --size 64")
    if len(variants) != 1:
        names = ", ".join(v.name for v in variants)
        raise InputError(f"{spec} has several variants; name one of them: {names}")
    [variant] = variants
    _check_isa(spec, kernel.isa, question.microarch)
    call = Call(question.size, *question.align, dict([question.fault]) if question.fault else None)
    call_trace = of_variant(variant, call, question.microarch, question.offset)
    values = [
        (kernel.id, variant.name, n, *_step_columns(step, call_trace.base))
        for n, step in enumerate(call_trace.steps)
    ]
    return Rows(COLUMNS, values, _TYPES)


def _loop_rows(question: TraceQuestion) -> Rows:
    """Return the rows of some iterations of each loop of a text, an object or machine code."""
    if question.size is not None or question.fault is not None or question.align != (0, 0):
        raise InputError("--size, --align and --fault are for KERNEL/VARIANT")
    if question.isa not in (None, *kernels.ISAS):
        raise unknown("ISA", str(question.isa), kernels.ISAS)
    isa = microarchs.load(question.microarch).isa if question.microarch else question.isa
    if question.asm is not None:
        pieces = snippet.pieces(question.asm, isa)
    elif question.obj is not None:
        pieces = loops.of_file(str(question.obj))
    else:
        pieces = [_of_hex(question.hex or "", isa or toolchain.host_isa())]
    iterations = _DEFAULT_ITERATIONS if question.iterations is None else question.iterations
    values = []
    for piece in pieces:
        _check_isa(piece.id, piece.isa, question.microarch)
        loop_trace = trace_loop(piece, iterations, question.offset)
        for iteration, steps in enumerate(loop_trace.iterations):
            values += [
                (piece.id, iteration, n, *_step_columns(step, loop_trace.base))
                for n, step in enumerate(steps)
            ]
    return Rows(COLUMNS_OF_LOOPS, values, _TYPES)


def _check_isa(name: str, isa: str, microarch: str | None) -> None:
    """Raise InputError for code of another ISA than a core's."""
    if microarch and microarchs.load(microarch).isa != isa:
        raise InputError(f"{name} is {isa} code, which {microarch} does not run")


def _of_hex(code_or_hex: str | bytes, isa: str) -> Piece:
    """Return machine code as a loop where it ends in a branch, else as straight code."""
    code = code_or_hex if isinstance(code_or_hex, bytes) else instructions.parse_hex(code_or_hex)
    body = instructions.decode(isa, code, 0)
    notion = "loop" if body[-1].flow in _BRANCHES else "unrolled"
    return Piece("hex", isa, notion, 0, body, moved(body))


def _step_columns(step: Step, base: int) -> tuple[Any, ...]:
    return (
        f"{step.instruction.address:#x}",
        (base + step.instruction.address) % 64,
        step.instruction.text,
        step.taken,
        step.repeats,
        *_access_columns(step.load),
        *_access_columns(step.store),
        step.fault,
    )


trace = as_frame("trace", TraceQuestion, answer_trace)


def of_variant(variant: Variant, call: Call, microarch: str | None, offset: int | None) -> Trace:
    """Trace a call of a variant, with the alternatives of a core (None: all of them)."""
    contract = kernels.contract_of(variant)
    untaken = alternatives_left(variant, microarchs.load(microarch)) if microarch else frozenset()
    code = assemble.variant_code(variant, untaken)
    return emulator.trace_call(code, contract, call, Placement.of(code, contract, offset).shift)


def _access_columns(access: Access | None) -> tuple[Any, ...]:
    return (str(access), access.address, access.bytes) if access else ("", None, None)


_ROLES = ("dst", "src", "count", "sum", "value")  # in the order of loading
_NOPS = {"x86_64": b"\x90", "arm64": b"\x1f\x20\x03\xd5"}


@dataclass(frozen=True)
class Caller:
    """A routine's code followed by its caller.

    before has the positions of the caller's instructions up to the call, behind those from the
    routine's return to the branch back.
    """

    code: bytes
    before: tuple[int, ...]
    behind: tuple[int, ...]


def caller_of(code: Code, contract: Contract, values: Mapping[str, int], offset: int) -> Caller:
    """Return code at an offset from a 64-byte boundary, with a caller that loads these values.

    values are by register. InputError if the contract leaves no register for the counter.
    """
    # After the code: a line of padding, the caller's prologue on the next line, then its loop.
    position = -(-(offset + len(code.text) + 64) // 64) * 64 + 64 - offset
    counter = _counter(code.isa, contract)
    loads = [(name, 0) for name in contract.zeroed]
    loads.sort(key=lambda load: register_number(code.isa, load[0]))
    loads += [
        (name, values[name])
        for role in _ROLES
        if (name := contract.inputs.get(role, "")) and name in values
    ]
    if code.isa == "x86_64":
        parts = [_x86_load(register_number("x86_64", name), value) for name, value in loads]
    else:
        parts = [
            part
            for name, value in loads
            for part in _arm64_load(register_number("arm64", name), value)
        ]
    calls_at = position + sum(map(len, parts))
    parts.append(_call_code(code.isa, code.entry - calls_at))
    ends = (_x86_end if code.isa == "x86_64" else _arm64_end)(counter, position, calls_at)
    positions = []
    for part in (*parts, *ends):
        positions.append(position)
        position += len(part)
    nop = _NOPS[code.isa]
    gap = positions[0] - len(code.text)
    body = code.text + nop * (gap // len(nop)) + b"".join((*parts, *ends))
    return Caller(body, tuple(positions[: len(parts)]), tuple(positions[len(parts) :]))


def _counter(isa: str, contract: Contract) -> int:
    """Return the highest register that calls do not use."""
    used = {
        register_number(isa, name)
        for name in (
            *contract.inputs.values(),
            *contract.returns.values(),
            *contract.zeroed,
            *(name for name in contract.may_change if name != "flags"),
        )
    }
    highest, reserved = (15, 4) if isa == "x86_64" else (28, 18)
    free = [n for n in range(highest, -1, -1) if n not in used and n != reserved]
    if not free:
        raise InputError("the contract leaves no register for a counter of calls")
    return free[0]


def _x86_load(register: int, value: int) -> bytes:
    """Return mov of a constant; one of 32 bits clears the upper half."""
    wide = value >> 32 != 0
    prefix = bytes([0x40 | wide << 3 | register >> 3]) if wide or register > 7 else b""
    return prefix + bytes([0xB8 | register & 7]) + value.to_bytes(8 if wide else 4, "little")


def _arm64_load(register: int, value: int) -> Iterator[bytes]:
    """Yield movz, and movk for each further quarter that is not zero."""
    yield _word(0xD2800000 | (value & 0xFFFF) << 5 | register)
    for part in range(1, 4):
        if quarter := value >> 16 * part & 0xFFFF:
            yield _word(0xF2800000 | part << 21 | quarter << 5 | register)


def _call_code(isa: str, distance: int) -> bytes:
    if isa == "x86_64":
        return b"\xe8" + (distance - 5).to_bytes(4, "little", signed=True)
    return _word(0x94000000 | distance >> 2 & 0x3FFFFFF)


def _x86_end(counter: int, loop: int, call: int) -> tuple[bytes, ...]:
    """Return dec and jnz."""
    dec = bytes([0x48 | counter >> 3, 0xFF, 0xC8 | counter & 7])
    back = loop - (call + 5 + len(dec) + 6)
    return dec, b"\x0f\x85" + back.to_bytes(4, "little", signed=True)


def _arm64_end(counter: int, loop: int, call: int) -> tuple[bytes, ...]:
    """Return subs and b.ne."""
    back = (loop - (call + 8)) >> 2 & 0x7FFFF
    return _word(0xF1000400 | counter << 5 | counter), _word(0x54000001 | back << 5)


def _word(value: int) -> bytes:
    return value.to_bytes(4, "little")


# A step of a call: the instruction's position in the code, repeats of a string instruction (else 1)
# and the addresses of its load and its store, -1 where it has none.
RECORD = np.dtype([("position", "<u4"), ("repeats", "<u4"), ("load", "<i8"), ("store", "<i8")])
_NO_ACCESS = -1


class Packed(NamedTuple):
    """A call in the simulator's format: code, its address mod 4096, and steps as in RECORD.

    The steps are those of one call with its caller, from the loading of arguments to the branch
    back to it.
    """

    code: bytes
    offset: int
    steps: bytes


@dataclass(frozen=True)
class _PlacedCall:
    """A call's buffers and count."""

    buffers: dict[str, Buffer]
    count: int


class Tracer:
    """Traces calls of code, its text offset bytes after a 64-byte boundary."""

    def __init__(self, code: Code, contract: Contract, offset: int) -> None:
        self._code, self._contract = code, contract
        self._machine = Machine(code, offset)
        self._decoded = emulator.Decoded(code)
        self._mapped: dict[str, int] = {}  # the end of mapped memory by side

    def calls(self, calls: Sequence[Call]) -> Iterator[Packed | InputError]:
        """Yield each traced call, or the reason for none.

        The reasons are a call outside the contract, and code that Unicorn does not know, that
        faults, or that does not return.
        """
        placed: list[_PlacedCall | InputError] = []
        for call in calls:
            try:
                placed.append(_PlacedCall(place_buffers(self._contract, call), call.count))
            except InputError as error:
                placed.append(error)
        self._map([item for item in placed if isinstance(item, _PlacedCall)])
        for item in placed:
            try:
                yield self._packed(item) if isinstance(item, _PlacedCall) else item
            except InputError as error:
                yield error

    def _map(self, calls: Sequence[_PlacedCall]) -> None:
        """Make the buffers of all places accessible."""
        for side, base in BASES.items():
            ends = (sum(call.buffers[side].pages) for call in calls if side in call.buffers)
            mapped, end = self._mapped.get(side, base), max(ends, default=0)
            if end > mapped:
                self._machine.map(mapped, end - mapped)
                self._mapped[side] = end

    def _packed(self, call: _PlacedCall) -> Packed:
        machine, code, contract = self._machine, self._code, self._contract
        values = emulator.inputs(contract, call.buffers, call.count)
        for buffer in call.buffers.values():
            machine.write(buffer.start, contents(contract, buffer))
        machine.prepare(values)
        if emulator.follow(machine, code, contract):
            raise InputError(f"{contract.symbol} accesses memory that its call does not give it")
        caller = caller_of(code, contract, values, machine.base % 64)
        recorded = machine.recorder.steps
        steps = np.empty(len(caller.before) + len(recorded) + len(caller.behind), dtype=RECORD)
        steps["repeats"], steps["load"], steps["store"] = 1, _NO_ACCESS, _NO_ACCESS
        first, last = len(caller.before), len(steps) - len(caller.behind)
        steps["position"][:first], steps["position"][last:] = caller.before, caller.behind
        if code.isa == "x86_64":
            steps["store"][first - 1] = STACK_TOP  # the call's
        self._write(steps[first:last], recorded)
        return Packed(caller.code, machine.base % PAGE, steps.tobytes())

    def _write(self, steps: NDArray[np.void], recorded: Steps) -> None:
        """Convert recorded steps to the simulator's format."""
        steps["position"] = recorded["address"] - self._machine.base
        for side in ("load", "store"):
            steps[side] = np.where(recorded[f"{side}s"] > 0, recorded[side].view("<i8"), _NO_ACCESS)
        for address, first in zip(*np.unique(steps["position"], return_index=True), strict=True):
            if self._decoded.at(int(address), int(recorded["size"][first])).string:
                of_instruction = steps["position"] == address
                steps["repeats"][of_instruction] = np.maximum(
                    recorded["loads"], recorded["stores"]
                )[of_instruction]
