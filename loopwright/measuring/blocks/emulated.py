"""Try a loop in an emulated core: how often it turns, and where it goes off its path."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import unicorn
from unicorn import x86_const
from unicorn.unicorn import Uc, UcError

from loopwright.measuring.blocks import registers
from loopwright.measuring.blocks.image import Image
from loopwright.measuring.blocks.memory import Memory
from loopwright.measuring.blocks.path import Path

# What the harness has in registers: general-purpose ones by name, each lane of 32 bits of vectors.
_NUMBERS = {
    name: int(getattr(x86_const, f"UC_X86_REG_{name.upper()}")) for name in registers.EVERY_X86
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
    """What registers and memory hold at first; of the counter a base, and a step an iteration."""

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
    """How a try ended: by the step that is to end it, or by left, which goes off the path.

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
    """Where each step read last (address and bytes), and what registers held in the end."""

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
