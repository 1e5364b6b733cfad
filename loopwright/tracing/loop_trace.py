"""Trace iterations of a loop that no contract describes, from registers and memory of its own.

Each register that addresses memory starts in a buffer of its own, all others at zero, and memory
holds zeros. An exit is not taken: the loop goes on as if its condition did not hold.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

import unicorn
from unicorn import arm64_const, x86_const
from unicorn.unicorn import Uc, UcError

from loopwright.code.instructions import Flow, Instruction
from loopwright.code.objects import Piece
from loopwright.errors import InputError
from loopwright.tracing import machine
from loopwright.tracing.memory import PAGE
from loopwright.tracing.steps import Access, Step

MOST_ITERATIONS = 1000
_FIRST_BUFFER = 0x1000_0000
_BUFFERS = 0x800_0000  # between the buffers of two registers; all have 32-bit addresses
_STRING_COUNT = 8  # elements of a repeated string instruction
_ADDRESSING = {
    "x86_64": re.compile(r"\(%(?P<base>\w+)"),
    "arm64": re.compile(r"\[(?P<base>[xw]\d+|sp)"),
}
_BRANCHES = (Flow.BRANCH, Flow.JUMP)
_STRINGS = ("rsi", "rdi")  # which string instructions address without naming them


@dataclass(frozen=True)
class LoopTrace:
    """Steps of each iteration; base is where the code's address 0 lies."""

    base: int
    iterations: tuple[tuple[Step, ...], ...]


def run(piece: Piece, iterations: int, offset: int | None = None) -> LoopTrace:
    """Return what so many iterations execute, or so many passes through code without a loop.

    The first byte lies offset bytes behind a 64-byte boundary, at the piece's own code offset where
    None. InputError for code that leaves other than by a branch, that accesses what cannot be
    memory, and for instructions that Unicorn does not know.
    """
    if not 1 <= iterations <= MOST_ITERATIONS:
        raise InputError(f"{iterations} iterations: give 1 to {MOST_ITERATIONS}")
    if piece.error:
        raise InputError(f"{piece.id}: {piece.error}")
    place = piece.offset if offset is None else offset
    traced = _Loop(piece, machine.CODE + place - piece.address)
    return LoopTrace(traced.base, tuple(tuple(traced.iteration()) for _ in range(iterations)))


class _Loop:
    """A loop in an emulated core; memory appears where it is touched."""

    def __init__(self, piece: Piece, base: int) -> None:
        self.base = base
        self._piece = piece
        self._core: Uc = machine.core_of(piece.isa)
        self._buffers = _buffers(piece)
        low = min(i.address for i in piece.instructions) + base
        high = max(i.end for i in piece.instructions) + base
        first = low // PAGE * PAGE
        self._core.mem_map(first, -(-(high - first) // PAGE) * PAGE)
        for ins in piece.instructions:
            self._core.mem_write(base + ins.address, ins.code)
        for name, address in self._buffers.items():
            self._core.reg_write(machine.register(piece.isa, name), address)
        self._accesses: dict[str, tuple[int, int]] = {}
        memory = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE
        untouched = unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED
        self._core.hook_add(memory, self._on_access)
        self._core.hook_add(untouched, self._on_page)

    def iteration(self) -> Iterator[Step]:
        """Yield the steps from the first instruction until the loop begins again."""
        body = self._piece.instructions
        of_address = {ins.address: n for n, ins in enumerate(body)}
        n = 0
        while n < len(body):
            ins = body[n]
            if ins.flow is not Flow.NEXT and (ins.target is None or ins.flow not in _BRANCHES):
                raise self._left(ins)
            repeats = self._execute(ins)
            n += 1
            if self._piece.notion == "loop" and ins.flow is not Flow.NEXT:
                to = self._inside(ins, of_address)
                n = of_address[to] or len(body)
                taken = to != ins.end
            else:
                taken = False
            yield Step(
                ins,
                taken=None if ins.flow is Flow.NEXT else taken,
                repeats=repeats,
                load=self._access("load"),
                store=self._access("store"),
            )

    def _execute(self, ins: Instruction) -> int:
        """Execute one instruction; return how often a string instruction repeated."""
        self._accesses = {}
        if ins.string and self._piece.isa == "x86_64":
            self._core.reg_write(x86_const.UC_X86_REG_RCX, _STRING_COUNT)
        repeats = 0
        while not repeats or (ins.string and self._at == ins.address):
            try:
                self._core.emu_start(self.base + ins.address, 0, count=1)
            except UcError as error:
                text = " ".join(ins.text.split())
                raise machine.refusal(error, f"{self._piece.id}: {text}") from None
            repeats += 1
        return min(repeats, _STRING_COUNT) if ins.string else 1

    @property
    def _at(self) -> int:
        counter = (
            x86_const.UC_X86_REG_RIP if self._piece.isa == "x86_64" else arm64_const.UC_ARM64_REG_PC
        )
        return int(self._core.reg_read(counter)) - self.base

    def _inside(self, ins: Instruction, within: Container[int]) -> int:
        """Return where a branch goes: the other way where it would leave."""
        ways = [way for way in (self._at, ins.target, ins.end) if way is not None and way in within]
        if not ways:
            raise self._left(ins)
        return ways[0]

    def _left(self, ins: Instruction) -> InputError:
        text = " ".join(ins.text.split())
        return InputError(f"{self._piece.id}: {text} leaves the loop, and its trace ends there")

    def _access(self, kind: str) -> Access | None:
        if kind not in self._accesses:
            return None
        address, size = self._accesses[kind]
        for name, start in self._buffers.items():
            if abs(address - start) < _BUFFERS // 2:
                return Access(name, address - start, address, size)
        return Access("", address, address, size)

    def _on_access(
        self, _core: Uc, kind: int, address: int, size: int, _value: int, _data: object
    ) -> None:
        name = "store" if kind == unicorn.UC_MEM_WRITE else "load"
        first, before = self._accesses.get(name, (address, 0))
        self._accesses[name] = min(first, address), before + size

    def _on_page(
        self, core: Uc, _kind: int, address: int, size: int, _value: int, _data: object
    ) -> bool:
        for page in {address // PAGE, (address + size - 1) // PAGE}:
            try:
                core.mem_map(page * PAGE, PAGE)
            except UcError as error:
                if error.errno != unicorn.UC_ERR_MAP:  # the half that is there
                    return False
        return True


def _buffers(piece: Piece) -> dict[str, int]:
    """Return where each register points that addresses memory, in the order of their first use."""
    found: dict[str, None] = {}
    for ins in piece.instructions:
        for match in _ADDRESSING[piece.isa].finditer(ins.text):
            if (name := _whole(piece.isa, match["base"])) != "rip":
                found.setdefault(name)
        if ins.string and piece.isa == "x86_64":
            found |= dict.fromkeys(_STRINGS)
    return {name: _FIRST_BUFFER + n * _BUFFERS for n, name in enumerate(found)}


def _whole(isa: str, name: str) -> str:
    """Return the 64-bit register of a name."""
    if isa == "arm64":
        return name.replace("w", "x")
    return f"r{name[1:]}" if name.startswith("e") else name.removesuffix("d")
