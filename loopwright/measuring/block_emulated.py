"""A block tried in an emulated core: how often it turns, and where it leaves its path."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import unicorn
from unicorn import x86_const
from unicorn.unicorn import Uc, UcError

from loopwright.errors import InputError
from loopwright.measuring import block_path
from loopwright.measuring.block_path import Memory, Path, Step

_TRAP = 0xCC
_JUMP_BYTES = 5
_REACH = 128  # bytes that short branches go back, and nearly as many forward


@dataclass(frozen=True)
class Image:
    """Code for the harness: the loop begins at entry, and behind the last byte it is over.

    leaves says which step of the path goes off it to a byte, counted from the loop's first; landing
    is where the step goes that ends the loop.
    """

    code: bytes
    entry: int
    landing: int
    leaves: dict[int, int]


def of_path(path: Path, code: bytes, end: int) -> Image:
    """Return the image of a loop whose step end is the one to leave it by; code has its bytes.

    Only branches of 32 bits are aimed at other places; InputError where that leaves no room.
    """
    return _Builder(path, code, end).image()


class _Builder:
    def __init__(self, path: Path, code: bytes, end: int) -> None:
        self._path, self._end = path, end
        self._size = len(code)
        branches = [(n, step) for n, step in enumerate(path.steps) if step.branches]
        self._exits = [(n, step) for n, step in branches if not self._is_inside(step)]
        short = [step.other for _, step in self._exits if len(step.ins) == 2]
        self._lead = _REACH if any(to < 0 for to in short) else 0
        # Behind the code what short branches reach, and behind that a byte for each other exit.
        reach = _REACH + _JUMP_BYTES if any(to >= self._size for to in short) else _JUMP_BYTES
        self._next = self._size + reach
        room = self._lead + self._next + len(self._exits) + _JUMP_BYTES
        self._bytes = bytearray([_TRAP]) * room
        self._bytes[self._lead : self._lead + self._size] = code
        self._taken: set[int] = set()
        self._leaves: dict[int, int] = {}

    def _is_inside(self, step: Step) -> bool:
        return self._path.index_of(step.other) >= 0

    def image(self) -> Image:
        landing = self._land()
        for n, step in self._exits:
            if n != self._end:
                self._leaves[self._trap(step)] = n
        return Image(bytes(self._bytes), self._lead, landing, self._leaves)

    def _land(self) -> int:
        """Put a jump out of the image where the loop ends."""
        step = self._path.steps[self._end]
        at = step.other
        if len(step.ins) > 2 and not step.taken:
            at, self._next = self._next, self._next + _JUMP_BYTES
            self._aim(step, at)
        room = range(at, at + _JUMP_BYTES)
        if any(start < room.stop and at < end for start, end in self._path.stretches):
            raise InputError(f"what ends it goes to +{at:#x}, where the loop leaves no room")
        self._taken |= set(room)
        to = len(self._bytes) - (self._lead + at + _JUMP_BYTES)
        jump = b"\xe9" + to.to_bytes(4, "little", signed=True)
        self._bytes[self._lead + at : self._lead + at + _JUMP_BYTES] = jump
        return at

    def _trap(self, step: Step) -> int:
        """Have a trap where an exit goes; return where that is."""
        at = step.other
        if step.taken or 0 <= at < self._size:
            if at not in self._taken:  # else it ends there, too: the emulated core tells them apart
                self._bytes[self._lead + at] = _TRAP
            return at
        if len(step.ins) > 2:
            at, self._next = self._next, self._next + 1
            self._aim(step, at)
            return at
        return self._near(step)

    def _near(self, step: Step) -> int:
        """Return a free byte where a short branch goes, or near it: the branch is aimed there."""
        for at in _around(step.other):
            inside = 0 <= at < self._size
            there = -self._lead <= at < len(self._bytes) - self._lead
            if there and not inside and at not in self._taken and -128 <= at - step.end < 128:
                self._taken.add(at)
                self._aim(step, at)
                return at
        raise InputError("there is no room for a trap where an exit goes")

    def _aim(self, step: Step, at: int) -> None:
        width = 1 if len(step.ins) == 2 else 4
        end = self._lead + step.end
        self._bytes[end - width : end] = (at - step.end).to_bytes(width, "little", signed=True)


def _around(at: int) -> Iterator[int]:
    for distance in range(_REACH):
        yield at + distance
        yield at - distance


# What the harness has in registers: general-purpose ones by name, each lane of 32 bits of vectors.
_NUMBERS = {
    name: int(getattr(x86_const, f"UC_X86_REG_{name.upper()}")) for name in block_path.EVERY_X86
}
_LANES = [
    int.from_bytes(struct.pack("<4f", *[1 + number / 64] * 4), "little") for number in range(16)
]
_BASE = 0x500000000000  # a page whose upper half nothing else has
_THREAD = 0x22000C00  # where fs and gs point: harness/block_machine.h
_PAGE = 4096
_LOWEST = 0x10000  # what harness/block_memory.c maps
_MOST_PAGES = 512
_USER_SPACE = 1 << 47
_FLAGS = 0x202


@dataclass(frozen=True)
class Start:
    """Initial contents of registers and memory; of the counter a base and a step an iteration."""

    values: Mapping[str, int]
    memory: Memory
    counter: str
    base: int
    step: int

    def registers(self, iterations: int) -> dict[str, int]:
        """Return all registers before so many iterations."""
        counted = (self.base + self.step * iterations) % (1 << 64)
        return {**self.values, self.counter: counted}


@dataclass(frozen=True)
class Outcome:
    """The end of a try: the step that is to end it, or left, a step off the path.

    iterations were begun. faulted is the step whose access cannot be. unknown says that the
    emulator does not know an instruction. Steps are -1 where that is not what happened.
    """

    iterations: int
    ended: bool = False
    left: int = -1
    faulted: int = -1
    unknown: bool = False


@dataclass(frozen=True)
class Seen:
    """The last read of each step (address and bytes), and the registers at the end."""

    reads: Mapping[int, tuple[int, int]]
    registers: Mapping[str, int]


class Emulated:
    """A loop in memory that is there when it is touched."""

    def __init__(self, path: Path, image: Image, end: int, memory: Memory) -> None:
        """Take a loop, whose step end is to end it, and what memory holds at first."""
        self._path, self._image, self._end = path, image, end
        self._core = Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
        self._core.ctl_set_cpu_model(x86_const.UC_CPU_X86_EPYC_ROME)
        self._core.mem_map(_BASE - _PAGE, 3 * _PAGE)
        self._core.mem_write(_BASE - image.entry, image.code)
        for base in (x86_const.UC_X86_REG_FS_BASE, x86_const.UC_X86_REG_GS_BASE):
            self._core.reg_write(base, _THREAD)
        self._words = memory.page()
        self._pages = 0
        self._begin()
        untouched = unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED
        self._core.hook_add(unicorn.UC_HOOK_BLOCK, self._on_block)
        self._core.hook_add(untouched, self._on_page)

    def _begin(self) -> None:
        """Have steps by where blocks begin, and after each branch the only place to go on."""
        self._iterations, self._left, self._ended, self._expected = 0, -1, False, 0
        self._after: dict[int, tuple[int, int]] = {}
        steps = self._path.steps
        leader = 0
        for n, step in enumerate(steps):
            follows = steps[(n + 1) % len(steps)].at
            if step.branches or follows != step.end:
                self._after[leader] = n, follows
                leader = follows

    def look(self, start: Start, iterations: int) -> Seen:
        """Run as run does, and return where each step read last, and what registers held then."""
        reads: dict[int, tuple[int, int]] = {}
        at = [0]

        def on_code(_core: Uc, address: int, _size: int, _data: object) -> None:
            at[0] = address - _BASE

        def on_read(
            _core: Uc, _kind: int, address: int, size: int, _value: int, _data: object
        ) -> None:
            reads[self._path.index_of(at[0])] = address, size

        hooks = [
            self._core.hook_add(unicorn.UC_HOOK_CODE, on_code),
            self._core.hook_add(unicorn.UC_HOOK_MEM_READ, on_read),
        ]
        self.run(start, iterations)
        for hook in hooks:
            self._core.hook_del(hook)
        held = {name: int(self._core.reg_read(number)) for name, number in _NUMBERS.items()}
        return Seen(reads, held)

    def run(self, start: Start, iterations: int) -> Outcome:
        """Turn so many times, or until something else ends it; memory stays as it is left."""
        core = self._core
        for name, value in start.registers(iterations).items():
            core.reg_write(_NUMBERS[name], value)
        for number, lanes in enumerate(_LANES):
            core.reg_write(x86_const.UC_X86_REG_XMM0 + number, lanes)
        core.reg_write(x86_const.UC_X86_REG_EFLAGS, _FLAGS)
        self._iterations, self._left, self._ended = 0, -1, False
        self._expected, self._branch, self._most = 0, -1, 2 * iterations + 16
        try:
            core.emu_start(_BASE, _BASE + len(self._image.code) - self._image.entry)
        except UcError as error:
            if error.errno == unicorn.UC_ERR_INSN_INVALID:
                return Outcome(self._iterations, unknown=True)
            at = int(core.reg_read(x86_const.UC_X86_REG_RIP)) - _BASE
            return Outcome(self._iterations, faulted=max(0, self._path.index_of(at)))
        return Outcome(self._iterations, ended=self._ended, left=self._left)

    def _on_block(self, core: Uc, address: int, _size: int, _data: object) -> None:
        at = address - _BASE
        if at == self._image.landing and self._branch == self._end:
            self._ended = True
            core.emu_stop()
            return
        self._iterations += at == 0
        if at == self._expected and at in self._after and self._iterations <= self._most:
            self._branch, self._expected = self._after[at]
        elif at in self._after or self._path.index_of(at) < 0 or self._iterations > self._most:
            self._left = self._branch
            core.emu_stop()

    def _on_page(
        self, core: Uc, _kind: int, address: int, size: int, _value: int, _data: object
    ) -> bool:
        for page in {address // _PAGE, (address + size - 1) // _PAGE}:
            if not _LOWEST <= page * _PAGE < _USER_SPACE or self._pages == _MOST_PAGES:
                return False
            try:
                core.mem_map(page * _PAGE, _PAGE)
            except UcError:
                continue  # the half that is there
            core.mem_write(page * _PAGE, self._words)
            self._pages += 1
        return True
