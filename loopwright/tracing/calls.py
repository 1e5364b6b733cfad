"""Steps of whole calls, packed for the simulator, each alone or in its caller's loop."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels.contracts import Contract
from loopwright.tracing import emulator
from loopwright.tracing.emulator import (
    BASES,
    PAGE,
    STACK_TOP,
    Buffer,
    Call,
    Machine,
    Steps,
    contents,
    place_buffers,
)

_ROLES = ("dst", "src", "count", "sum", "value")  # in the order in which they are loaded
_X86 = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
        *(f"r{n}" for n in range(8, 16)))  # fmt: skip
_ARM64 = tuple(f"x{n}" for n in range(31))
_NOPS = {"x86_64": b"\x90", "arm64": b"\x1f\x20\x03\xd5"}


@dataclass(frozen=True)
class Caller:
    """A routine's code with its caller behind it: code, and the caller's instructions in it.

    before are the positions of those up to the call, which is the last, and behind of those from
    the routine's return to the branch back.
    """

    code: bytes
    before: tuple[int, ...]
    behind: tuple[int, ...]


def caller_of(code: Code, contract: Contract, values: Mapping[str, int], offset: int) -> Caller:
    """Return code, at an offset from a 64-byte boundary, with a caller that loads these values.

    values are by register. InputError where the contract leaves no register for the counter.
    """
    # The code ends, a line of padding, on the next the caller's prologue, then its loop.
    at = -(-(offset + len(code.text) + 64) // 64) * 64 + 64 - offset
    counter = _counter(code.isa, contract)
    loads = [(name, 0) for name in contract.zeroed]
    loads.sort(key=lambda load: _index(code.isa, load[0]))
    loads += [
        (name, values[name])
        for role in _ROLES
        if (name := contract.inputs.get(role, "")) and name in values
    ]
    if code.isa == "x86_64":
        parts = [_x86_load(_index("x86_64", name), value) for name, value in loads]
    else:
        parts = [
            part for name, value in loads for part in _arm64_load(_index("arm64", name), value)
        ]
    calls_at = at + sum(map(len, parts))
    parts.append(_call(code.isa, code.entry - calls_at))
    ends = (_x86_end if code.isa == "x86_64" else _arm64_end)(counter, at, calls_at)
    positions = []
    for part in (*parts, *ends):
        positions.append(at)
        at += len(part)
    nop = _NOPS[code.isa]
    gap = positions[0] - len(code.text)
    body = code.text + nop * (gap // len(nop)) + b"".join((*parts, *ends))
    return Caller(body, tuple(positions[: len(parts)]), tuple(positions[len(parts) :]))


def _index(isa: str, name: str) -> int:
    """Return the number of a register, by the name of all of it or of its lower half."""
    wide = {"e": "r", "w": "x"}.get(name[0], name[0]) + name[1:].removesuffix("d")
    names = _X86 if isa == "x86_64" else _ARM64
    for candidate in (name, wide):
        if candidate in names:
            return names.index(candidate)
    raise InputError(f"register {name!r} is not known to {isa}")


def _counter(isa: str, contract: Contract) -> int:
    """Return the highest register that calls leave alone."""
    used = {
        _index(isa, name)
        for name in (
            *contract.inputs.values(),
            *contract.returns.values(),
            *contract.zeroed,
            *(name for name in contract.may_change if name != "flags"),
        )
    }
    highest, kept = (15, 4) if isa == "x86_64" else (28, 18)
    free = [n for n in range(highest, -1, -1) if n not in used and n != kept]
    if not free:
        raise InputError("the contract leaves no register for a counter of calls")
    return free[0]


def _x86_load(register: int, value: int) -> bytes:
    """Return mov of a constant, which clears the upper half where it is of 32 bits."""
    wide = value >> 32 != 0
    prefix = bytes([0x40 | wide << 3 | register >> 3]) if wide or register > 7 else b""
    return prefix + bytes([0xB8 | register & 7]) + value.to_bytes(8 if wide else 4, "little")


def _arm64_load(register: int, value: int) -> Iterator[bytes]:
    """Yield movz, and movk for each further quarter that is not zero."""
    yield _word(0xD2800000 | (value & 0xFFFF) << 5 | register)
    for part in range(1, 4):
        if quarter := value >> 16 * part & 0xFFFF:
            yield _word(0xF2800000 | part << 21 | quarter << 5 | register)


def _call(isa: str, distance: int) -> bytes:
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
_NONE = -1


class Packed(NamedTuple):
    """A call as the simulator takes it: code, its address mod 4096, and steps as RECORD has them.

    The steps are those of one call with its caller, from the loading of arguments to the branch
    back to it.
    """

    code: bytes
    offset: int
    steps: bytes


@dataclass(frozen=True)
class _Place:
    """A call, and where its buffers are."""

    buffers: dict[str, Buffer]
    count: int


class Tracer:
    """Traces calls of code, its text offset bytes behind a 64-byte boundary."""

    def __init__(self, code: Code, contract: Contract, offset: int) -> None:
        """Take code and the contract that says how it is called."""
        self._code, self._contract = code, contract
        self._machine = Machine(code, offset)
        self._decoded = emulator.Decoded(code)
        self._mapped: dict[str, int] = {}  # up to which address, by side

    def calls(self, calls: Sequence[Call]) -> Iterator[Packed | InputError]:
        """Yield each call, or why there is none.

        That is a call that the contract has not, or code that Unicorn does not know, that faults,
        or that does not return.
        """
        places: list[_Place | InputError] = []
        for call in calls:
            try:
                places.append(_Place(place_buffers(self._contract, call), call.count))
            except InputError as error:
                places.append(error)
        self._map([one for one in places if isinstance(one, _Place)])
        for one in places:
            try:
                yield self._packed(one) if isinstance(one, _Place) else one
            except InputError as error:
                yield error

    def _map(self, places: Sequence[_Place]) -> None:
        """Let the buffers of all places be accessed."""
        for side, base in BASES.items():
            ends = (sum(one.buffers[side].pages) for one in places if side in one.buffers)
            mapped, end = self._mapped.get(side, base), max(ends, default=0)
            if end > mapped:
                self._machine.map(mapped, end - mapped)
                self._mapped[side] = end

    def _packed(self, one: _Place) -> Packed:
        machine, code, contract = self._machine, self._code, self._contract
        values = emulator.inputs(contract, one.buffers, one.count)
        for buffer in one.buffers.values():
            machine.write(buffer.start, contents(contract, buffer))
        machine.prepare(values)
        if emulator.follow(machine, code, contract):
            raise InputError(f"{contract.symbol} accesses memory that its call does not give it")
        around = caller_of(code, contract, values, machine.base % 64)
        seen = machine.recorder.steps
        steps = np.empty(len(around.before) + len(seen) + len(around.behind), dtype=RECORD)
        steps["repeats"], steps["load"], steps["store"] = 1, _NONE, _NONE
        first, last = len(around.before), len(steps) - len(around.behind)
        steps["position"][:first], steps["position"][last:] = around.before, around.behind
        if code.isa == "x86_64":
            steps["store"][first - 1] = STACK_TOP  # the call's
        self._write(steps[first:last], seen)
        return Packed(around.code, machine.base % PAGE, steps.tobytes())

    def _write(self, steps: NDArray[np.void], seen: Steps) -> None:
        """Write what was recorded as the simulator takes it."""
        steps["position"] = seen["address"] - self._machine.base
        for side in ("load", "store"):
            steps[side] = np.where(seen[f"{side}s"] > 0, seen[side].view("<i8"), _NONE)
        for address, at in zip(*np.unique(steps["position"], return_index=True), strict=True):
            if self._decoded.at(int(address), int(seen["size"][at])).string:
                mine = steps["position"] == address
                steps["repeats"][mine] = np.maximum(seen["loads"], seen["stores"])[mine]
