"""An emulated core: its memory, its recorded steps, and one call on it followed to its return."""

import ctypes
import hashlib
import itertools
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import unicorn
from numpy.typing import NDArray
from unicorn import arm64_const, x86_const
from unicorn.unicorn import Uc, UcError
from unicorn.unicorn_py3 import unicorn as binding

from loopwright import files, paths, toolchain
from loopwright.code.instructions import Code, Flow, Instruction, decode
from loopwright.errors import InputError
from loopwright.kernels.contracts import Contract

_FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")


def unicorn_library() -> Path:
    """Return the shared library that the Python module of Unicorn has loaded."""
    return Path(binding.uclib._name)


def library(sources: Sequence[Path], headers: Sequence[Path] = ()) -> ctypes.CDLL:
    """Return C sources as a library that calls Unicorn, compiled if it does not exist yet.

    headers are the files that they include: a change of one makes a new library. InputError if the
    sources do not compile.
    """
    gcc, unicorn_path = toolchain.find(toolchain.host_isa()).gcc, unicorn_library()
    include = unicorn_path.parents[1] / "include"
    digest = hashlib.sha256(repr((gcc, _FLAGS, str(unicorn_path))).encode())
    for path in (*sources, *headers):
        digest.update(path.read_bytes())
    target = paths.build_dir() / "tracing" / f"{sources[0].stem}-{digest.hexdigest()[:16]}.so"

    def compile_to(path: Path) -> None:
        inputs = map(str, (*sources, unicorn_path))
        command = [gcc, *_FLAGS, f"-I{include}", *inputs, "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            lines.append(f"{gcc} ended with exit code {done.returncode}")
            raise InputError(f"{sources[0].name} does not compile: {lines[0].strip()}")

    return ctypes.CDLL(str(files.made_once(target, compile_to, paths.BUILD_FIX)))


PAGE = 4096
MOST_BYTES = 1 << 20
# Addresses where user space has its mappings, too large for a 32-bit constant.
BASES = {"dst": 0x7F10_1000_0000, "src": 0x7F20_2000_0000}
# The bytes that are searched and the byte searched for, as in measurements (harness/placement.c).
HELD, SEARCHED = 0xAA, 0x5A
# Bytes between a destination and a source of equal alignment, which prevents 4 KiB aliasing, as in
# measurements.
_SOURCE_SHIFT = PAGE // 2


@dataclass(frozen=True)
class Call:
    """A call to trace.

    count is in bytes, or in records where the contract stores records. dst_align and src_align are
    in bytes from a page start (the source is half a page further, as in measurements). faults has
    the number of accessible bytes at the beginning of a side; the accessible part of such a side
    ends at a page end, whatever its alignment.
    """

    count: int
    dst_align: int = 0
    src_align: int = 0
    faults: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Buffer:
    """A buffer: its start address, its size, and the number of accessible bytes."""

    start: int
    size: int
    accessible: int

    @property
    def pages(self) -> tuple[int, int]:
        """The address and the size of the accessible pages."""
        return pages(self.start, self.start + self.accessible)


def pages(start: int, end: int) -> tuple[int, int]:
    """Return the address and the size of the pages that hold the bytes from start to end."""
    first = start // PAGE * PAGE
    return first, -(-end // PAGE) * PAGE - first


def value_of(contract: Contract) -> int:
    """Return the value that a call stores, or the byte that it searches for."""
    return SEARCHED if contract.effect == "scan" and "value" in contract.inputs else 0


def contents(contract: Contract, buffer: Buffer) -> bytes:
    """Return a buffer's contents, with the searched byte at its end; b"" for zeros."""
    if contract.effect != "scan" or not buffer.size:
        return b""
    return bytes([HELD]) * (buffer.size - 1) + bytes([value_of(contract)])


def place_buffers(contract: Contract, call: Call) -> dict[str, Buffer]:
    """Return the buffers of a call by side; InputError for a call outside the contract."""
    if not contract.counted and call.count != 1:
        size = f"{contract.bytes} bytes" if contract.bytes else "one record"
        raise InputError(f"{contract.symbol} takes no count: a call is {size}; give --size 1")
    if call.count < 0:
        raise InputError(f"size {call.count} is below 0")
    faults = dict(call.faults or {})
    for side in faults:
        if side not in contract.faulting or side not in contract.inputs:
            known = ", ".join(contract.faulting) or "none"
            raise InputError(f"an access of {side!r} may not fault; sides that may: {known}")
    buffers = {}
    for side, align in (("dst", call.dst_align), ("src", call.src_align)):
        if side in contract.inputs:
            buffers[side] = _place(contract, call, side, align, faults.get(side))
    return buffers


def _place(contract: Contract, call: Call, side: str, align: int, fault_at: int | None) -> Buffer:
    if not 0 <= align < PAGE:
        raise InputError(f"alignment {align} is not from 0 to {PAGE - 1}")
    record = {"dst": contract.dst_record, "src": contract.src_record}[side]
    size = call.count * (record or 1) + contract.terminated
    if size > MOST_BYTES:
        raise InputError(f"size {call.count} is more than a trace takes: {MOST_BYTES >> 20} MiB")
    start = BASES[side] + align + (_SOURCE_SHIFT if side == "src" else 0)
    accessible = size + contract.overread if side == "src" else size
    if fault_at is not None:
        if not 0 <= fault_at < size:
            raise InputError(f"{side}:{fault_at}: a fault lies in the {size} bytes, from 0 on")
        start, accessible = BASES[side] + -(-fault_at // PAGE) * PAGE - fault_at, fault_at
    if start % contract.align:
        raise InputError(
            f"{side} at {start % PAGE} is not allowed: {contract.symbol} takes multiples of "
            f"{contract.align}"
        )
    return Buffer(start, size, accessible)


MOST_STEPS = 4_000_000

# struct step of harness/tracing/recorder.c: the first address, the total bytes and the number of an
# instruction's accesses.
STEP = np.dtype(
    [
        *((name, "<u8") for name in ("address", "load", "store")),
        *((name, "<u4") for name in ("load_bytes", "store_bytes", "loads", "stores")),
        ("size", "<u8"),
    ]
)
Steps = NDArray[np.void]

_SOURCE = paths.HARNESS / "tracing" / "recorder.c"
_ACCESSES = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE
_EVERYWHERE = (ctypes.c_uint64(1), ctypes.c_uint64(0))  # begin above end


class _Recording(ctypes.Structure):
    """struct recording of harness/tracing/recorder.c."""

    _fields_ = (
        ("steps", ctypes.c_void_p),
        ("room", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("stop", ctypes.c_void_p),
        ("full", ctypes.c_uint64),
    )


class Recorder:
    """The recorded steps of an emulated core."""

    def __init__(self, core: Uc) -> None:
        """Add the hooks to a core; InputError if they do not compile."""
        shared = ctypes.CDLL(str(unicorn_library()))
        self._room = np.empty(MOST_STEPS, dtype=STEP)  # unused pages take no memory
        stop = ctypes.cast(shared.uc_emu_stop, ctypes.c_void_p)
        self._recording = _Recording(self._room.ctypes.data, MOST_STEPS, 0, stop, 0)
        hooks = _hooks()
        self._listen(core, shared, unicorn.UC_HOOK_CODE, hooks.recorder_on_code)
        self._listen(core, shared, _ACCESSES, hooks.recorder_on_access)

    def _listen(self, core: Any, shared: ctypes.CDLL, kind: int, hook: Any) -> None:
        address, recording = ctypes.cast(hook, ctypes.c_void_p), ctypes.byref(self._recording)
        handle = ctypes.c_size_t()
        status = shared.uc_hook_add(
            core._uch, ctypes.byref(handle), kind, address, recording, *_EVERYWHERE
        )
        if status != unicorn.UC_ERR_OK:
            raise UcError(status)

    @property
    def full(self) -> bool:
        """True if a step did not fit into the recording of MOST_STEPS."""
        return bool(self._recording.full)

    @property
    def steps(self) -> Steps:
        """The steps so far; after clear, new ones overwrite them."""
        return self._room[: self._recording.count]

    def clear(self) -> None:
        self._recording.count = self._recording.full = 0


@cache
def _hooks() -> ctypes.CDLL:
    """Return the hooks, compiled now if they do not exist yet."""
    return library([_SOURCE])


CODE = 0x40_0040  # one line after a page start, as in the harness
STACK = 0x7000_0000
STACK_BYTES = 16 * PAGE
# Near a page's end: short buffers begin at the start or in the middle of a page, and do not alias.
STACK_TOP = STACK + STACK_BYTES - PAGE // 8

_COUNTER = {"x86_64": "rip", "arm64": "pc"}


class Machine:
    """Code at an offset from a 64-byte boundary in an emulated core that records its steps."""

    def __init__(self, code: Code, offset: int) -> None:
        """Map the code and a stack; nothing else is accessible."""
        self.isa = code.isa
        self.base = CODE + offset
        self.end = self.base + len(code.text)  # the return address, which has no code
        self.core = core_of(code.isa)
        self.recorder = Recorder(self.core)
        self.map(*pages(self.base, self.end + 1))
        self.core.mem_write(self.base, code.text)
        self.map(STACK, STACK_BYTES)

    def map(self, address: int, size: int) -> None:
        self.core.mem_map(address, size)

    def write(self, address: int, content: bytes) -> None:
        if content:
            self.core.mem_write(address, content)

    def prepare(self, inputs: Mapping[str, int]) -> None:
        """Reset the recorder, and set registers for a call."""
        self.recorder.clear()
        for name, value in inputs.items():
            self.core.reg_write(register_of(self.isa, name), value)
        if self.isa == "x86_64":
            self.core.mem_write(STACK_TOP, self.end.to_bytes(8, "little"))
            self.core.reg_write(x86_const.UC_X86_REG_RSP, STACK_TOP)
        else:
            self.core.reg_write(arm64_const.UC_ARM64_REG_SP, STACK_TOP)
            self.core.reg_write(arm64_const.UC_ARM64_REG_LR, self.end)

    def run(self, at: int) -> UcError | None:
        """Run from an address to the return; return the error that stopped it earlier."""
        try:
            self.core.emu_start(at, self.end)
        except UcError as error:
            return error
        return None

    def read(self, name: str) -> int:
        return int(self.core.reg_read(register_of(self.isa, name)))

    @property
    def at(self) -> int:
        """The core's position in the code, from its start."""
        return self.read(_COUNTER[self.isa]) - self.base


def refusal(error: UcError, where: str) -> InputError:
    """Return the error for a fault without an exception-table entry."""
    if error.errno == unicorn.UC_ERR_INSN_INVALID:
        return InputError(f"{where}: an instruction that Unicorn does not know (it has no AVX)")
    return InputError(f"{where}: {error}")


def core_of(isa: str) -> Uc:
    """Return an emulated core of an ISA with empty memory."""
    if isa == "arm64":
        return Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
    core = Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
    core.ctl_set_cpu_model(x86_const.UC_CPU_X86_EPYC_ROME)  # has stac, clac, adcx and adox
    return core


def register_of(isa: str, name: str) -> int:
    """Return Unicorn's number of a register; InputError for an unknown name."""
    names: Mapping[str, int] = vars(x86_const if isa == "x86_64" else arm64_const)
    number = names.get(f"UC_{'X86' if isa == 'x86_64' else 'ARM64'}_REG_{name.upper()}")
    if number is None:
        raise InputError(f"register {name!r} is not known to {isa}")
    return number


@dataclass(frozen=True)
class Access:
    """One access to memory: its buffer ("dst", "src", "stack"), and the offset in it.

    For a loop without a contract, a buffer has the name of the register that points to it, and ""
    for memory elsewhere. address is absolute; bytes is the amount moved: all of a repeated string
    instruction.
    """

    buffer: str
    offset: int
    address: int
    bytes: int

    def __str__(self) -> str:
        """Return it as a table shows it: "src+8"."""
        return f"{self.buffer}{self.offset:+d}" if self.buffer else f"{self.address:#x}"


@dataclass(frozen=True)
class Step:
    """One executed instruction.

    taken is None for an instruction without a branch. repeats is the count of a repeated string
    instruction, else 1. fault names the buffer whose access faulted; the fixup comes next.
    """

    instruction: Instruction
    taken: bool | None = None
    repeats: int = 1
    load: Access | None = None
    store: Access | None = None
    fault: str = ""


@dataclass(frozen=True)
class Trace:
    """The steps of one call, from the routine's entry to its return.

    base is the address of the code's offset 0. returned has the contract's results by role.
    """

    base: int
    steps: tuple[Step, ...]
    returned: dict[str, int]


_UNMAPPED = {unicorn.UC_ERR_READ_UNMAPPED: "src", unicorn.UC_ERR_WRITE_UNMAPPED: "dst"}


def trace_call(code: Code, contract: Contract, call: Call, offset: int = 0) -> Trace:
    """Trace a call of code, its text offset bytes after a 64-byte boundary.

    InputError for a call outside the contract, for code that Unicorn does not know, that faults
    without an exception-table entry, or that does not return.
    """
    buffers = place_buffers(contract, call)
    machine = Machine(code, offset)
    for buffer in buffers.values():
        address, size = buffer.pages
        if size:
            machine.map(address, size)
        machine.write(buffer.start, contents(contract, buffer))
    machine.prepare(inputs(contract, buffers, call.count))
    faults = follow(machine, code, contract)
    returned = {role: machine.read(name) for role, name in contract.returns.items()}
    reader = _Reader(code, buffers, machine.base)
    return Trace(machine.base, reader.steps(machine.recorder.steps, faults), returned)


def inputs(contract: Contract, buffers: dict[str, Buffer], count: int) -> dict[str, int]:
    """Return the values of a contract's registers before a call."""
    values = {side: buffer.start for side, buffer in buffers.items()}
    values |= {"count": count, "sum": 0, "value": value_of(contract)}
    return {name: values[role] for role, name in contract.inputs.items()}


def follow(machine: Machine, code: Code, contract: Contract) -> dict[int, str]:
    """Run to the return, through fixups; return the side of each step that faulted, by index."""
    fixups = {e.insn: e.fixup for e in code.exceptions}
    faults = {}
    start = machine.base + code.entry
    while error := machine.run(start):
        steps, where = machine.recorder.steps, f"{contract.symbol}: {_line_at(code, machine.at)}"
        if error.errno not in _UNMAPPED:
            raise refusal(error, where)
        if machine.at not in fixups:
            raise InputError(f"{where} faults, and no entry of the exception table is for it")
        faults[len(steps) - 1] = _UNMAPPED[error.errno]
        start = machine.base + fixups[machine.at]
    if machine.recorder.full:
        raise InputError(f"{contract.symbol} does not return in {MOST_STEPS} steps")
    return faults


def _line_at(code: Code, address: int) -> str:
    instruction = next((i for i in code.instructions if i.address == address), None)
    return instruction.line if instruction else f"the code at {address:#x}"


class Decoded:
    """The instructions of code by address, including those of helpers beside the routine."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._known = {i.address: i for i in code.instructions}

    def at(self, address: int, size: int) -> Instruction:
        """Return the instruction of a length in bytes at an address."""
        if address not in self._known:
            text = self._code.text[address : address + size]
            [self._known[address]] = decode(self._code.isa, text, address)
        return self._known[address]


class _Reader:
    """Converter of recorded steps to Step."""

    def __init__(self, code: Code, buffers: dict[str, Buffer], base: int) -> None:
        self._decoded, self._buffers, self._base = Decoded(code), buffers, base

    def steps(self, recorded: Steps, faults: dict[int, str]) -> tuple[Step, ...]:
        rows = recorded.tolist()
        next_addresses = (row[0] - self._base for row in rows[1:])
        return tuple(
            self._step(row, next_address, faults.get(n, ""))
            for n, (row, next_address) in enumerate(itertools.zip_longest(rows, next_addresses))
        )

    def _step(self, row: tuple[int, ...], next_address: int | None, fault: str) -> Step:
        address, load, store, load_bytes, store_bytes, loads, stores, size = row
        ins = self._decoded.at(address - self._base, size)
        completed = (stores if ins.written_bytes else loads) - bool(fault)
        return Step(
            ins,
            taken=_taken(ins, next_address),
            repeats=completed if ins.string else 1,
            load=self._access(load, load_bytes) if loads else None,
            store=self._access(store, store_bytes) if stores else None,
            fault=fault,
        )

    def _access(self, address: int, size: int) -> Access:
        for side, buffer in self._buffers.items():
            if buffer.start - PAGE <= address < buffer.start + buffer.size + PAGE:
                return Access(side, address - buffer.start, address, size)
        return Access("stack", address - STACK_TOP, address, size)


def _taken(ins: Instruction, next_address: int | None) -> bool | None:
    if ins.flow is Flow.NEXT:
        return None
    return next_address != ins.end if ins.flow is Flow.BRANCH else True
