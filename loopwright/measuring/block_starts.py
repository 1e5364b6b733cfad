"""Start values with which a block stays on its path and ends after n iterations."""

import random
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import iced_x86 as iced
import unicorn
from unicorn import x86_const
from unicorn.unicorn import Uc, UcError

from loopwright.code.instructions import WRITES
from loopwright.errors import InputError
from loopwright.measuring import block_path
from loopwright.measuring.block_path import (
    EVERY_X86,
    USER_SPACE,
    End,
    Image,
    Memory,
    Path,
    Step,
    change_of,
    deciding,
    own_ends,
    replaced_ends,
    setter,
)

# The harness's registers: general-purpose ones by name, and each 32-bit lane of vectors.
_NUMBERS = {name: int(getattr(x86_const, f"UC_X86_REG_{name.upper()}")) for name in EVERY_X86}
_LANES = [
    int.from_bytes(struct.pack("<4f", *[1 + number / 64] * 4), "little") for number in range(16)
]
_BASE = 0x500000000000  # the code's page, far from all other addresses
_THREAD = 0x22000C00  # the base of fs and gs: harness/block_machine.h
_PAGE = 4096
_LOWEST = 0x10000  # the lowest address that harness/block_memory.c maps
_MOST_PAGES = 512
_FLAGS = 0x202


@dataclass(frozen=True)
class Start:
    """Initial contents of registers and memory; the counter has a base and a step an iteration."""

    values: Mapping[str, int]
    memory: Memory
    counter: str
    base: int
    step: int

    def registers(self, iterations: int) -> dict[str, int]:
        """Return all registers before a number of iterations."""
        counted = (self.base + self.step * iterations) % (1 << 64)
        return {**self.values, self.counter: counted}


@dataclass(frozen=True)
class Outcome:
    """The end of a trial run: by the ending step, or by left, a step off the path.

    iterations were begun. faulted is the step with an impossible access. unknown is True if the
    emulator does not know an instruction. Steps are -1 where they do not apply.
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
    """A loop in an emulated core, whose memory is mapped at the first access."""

    def __init__(self, path: Path, image: Image, end: int, memory: Memory) -> None:
        """Prepare a loop that step end is to end, with initial memory."""
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
        self._core.hook_add(unicorn.UC_HOOK_INSN_INVALID, self._on_unknown)
        self._skips = not any(map(_leaves_vectors, path.steps))

    def _begin(self) -> None:
        """Map the beginnings of basic blocks to their last step and the only way to go on."""
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
        """Run as run does, and return each step's last read, and the final registers."""
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
        """Run so many iterations, or until something else ends the loop; memory stays changed."""
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

    def _held(self, register: str) -> int:
        return int(self._core.reg_read(_NUMBERS[register])) if register else 0

    def _on_unknown(self, core: Uc, _data: object) -> bool:
        """Skip an instruction that the emulator does not know, if it affects only vectors.

        Its memory is mapped; its stores are not made.
        """
        at = int(core.reg_read(x86_const.UC_X86_REG_RIP)) - _BASE
        index = self._path.index_of(at)
        if not self._skips or index < 0:
            return False
        step = self._path.steps[index]
        if step.written or step.ins.rflags_modified or step.branches:
            return False
        for memory in step.memory:
            name = block_path.full_name(memory.index)
            if memory.index and not name:
                return False  # elements by indices in a vector
            address = memory.displacement + memory.scale * self._held(name)
            address += self._held(block_path.full_name(memory.base))
            if memory.segment in _THREADS:
                address += _THREAD
            size = max(iced.MemorySizeExt.size(memory.memory_size), 1)
            if not self._mapped(address % (1 << 64), size):
                return False
        core.reg_write(x86_const.UC_X86_REG_RIP, _BASE + step.end)
        return True

    def _on_page(
        self, _core: Uc, _kind: int, address: int, size: int, _value: int, _data: object
    ) -> bool:
        return self._mapped(address, size)

    def _mapped(self, address: int, size: int) -> bool:
        """Map the pages of an access; False if that is impossible."""
        for page in {address // _PAGE, (address + size - 1) // _PAGE}:
            if not _LOWEST <= page * _PAGE < USER_SPACE or self._pages == _MOST_PAGES:
                return False
            try:
                self._core.mem_map(page * _PAGE, _PAGE)
            except UcError:
                continue  # the page is mapped already
            self._core.mem_write(page * _PAGE, self._words)
            self._pages += 1
        return True


_THREADS = (iced.Register.FS, iced.Register.GS)


def _leaves_vectors(step: Step) -> bool:
    """True if a step derives a general register or flags from a vector or mask."""
    if not (step.written or step.ins.rflags_modified):
        return False
    info = iced.InstructionInfoFactory().info(step.ins)
    registers = [use.register for use in info.used_registers()]
    vectors = (iced.RegisterExt.is_vector_register, iced.RegisterExt.is_k)
    return any(test(register) for register in registers for test in vectors)


_WORDS = (0, (1 << 64) - 1, 1, 2, 0x0101010101010101, 0x6161616161616161, 0xFFFFFFFF)
_VALUES = (0, 1, 2, 8, 64, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 64) - 1, 1 << 62)
_ALL = (1 << 64) - 1


@dataclass(frozen=True)
class State:
    """Initial contents of registers and memory."""

    values: Mapping[str, int]
    memory: Memory


class Guess:
    """Guesses of a loop's start, in an order that is the same each time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._chance = random.Random(0)
        aligned = block_path.unaligned("x86_64", path.executed)
        step = block_path.ALIGNED_STEP if aligned else block_path.STEP
        self._pointers = {
            name: block_path.ADDRESS_POINTER + block_path.number(name) * step
            for name in block_path.EVERY_X86
        }

    def first(self) -> State:
        """Return the first guess: pointers to memory that holds pointers."""
        return State(dict(self._pointers), Memory())

    def next(self, state: State, at: int, seen: Seen, tried: int) -> State:
        """Return a state with a change that affects a step which went wrong.

        tried is the number of states returned for that step: those that differ in one compared
        value come first.
        """
        near = list(self._compared(state, at, seen))
        if tried < len(near):
            return near[tried]
        names, loads = self.sources(at)
        values, memory = dict(state.values), state.memory
        for _ in range(self._chance.choice((1, 1, 2))):
            places = [seen.reads[n] for n in loads if n in seen.reads]
            choice = self._chance.random()
            if places and choice < 0.5:
                address, size = self._chance.choice(places)
                held = memory.held(address, size)
                value = self._chance.choice(list(self._held(at, held, seen)))
                memory = memory.having(address, size, value)
            elif loads and choice < 0.6:
                memory = Memory(self._chance.choice((Memory().word, *_WORDS)), memory.changed)
            elif names:
                name = self._chance.choice(sorted(names))
                several = [self._pointers[name], *_VALUES, *self._near(at, values)]
                values[name] = self._chance.choice(several) & _ALL
        return State(values, memory)

    def _compared(self, state: State, at: int, seen: Seen) -> Iterator[State]:
        """Yield states with one side of a comparison derived from the other."""
        comparison = self._setter(at)
        if comparison is None:
            return
        steps = self._path.steps
        places = [
            seen.reads[n] for n, step in enumerate(steps) if step is comparison and n in seen.reads
        ]
        for name in sorted(comparison.read):
            loads = (n for n, step in enumerate(steps) if name in step.written and step.memory)
            places += [seen.reads[n] for n in loads if n in seen.reads]
        held = [state.memory.held(*place) for place in places]
        others = (seen.registers.get(name, 0) for name in sorted(comparison.read))
        candidates = [*self._constants(at), *others, *held]
        candidates = [
            *candidates,
            *(candidate + 1 for candidate in candidates),
            *(candidate - 1 for candidate in candidates),
            0,
            _ALL,
        ]
        for place in places:
            current = state.memory.held(*place)
            bits = [change for c in self._constants(at) for change in (current | c, current & ~c)]
            for value in dict.fromkeys([*bits, *candidates]):
                yield State(state.values, state.memory.having(*place, value))
        for name in sorted(comparison.read - {"rsp"}):
            if not any(name in step.written for step in steps):
                for value in dict.fromkeys(candidates):
                    yield State({**state.values, name: value & _ALL}, state.memory)

    def _held(self, at: int, held: int, seen: Seen) -> Iterator[int]:
        """Yield values for memory that a branch may depend on; held is the present one."""
        yield from (0, 1, _ALL, held + 1)
        for constant in self._constants(at):
            yield from (constant, constant + 1, constant - 1, held ^ constant, held | constant)
        if (comparison := self._setter(at)) is not None:
            for name in comparison.read:
                if name in seen.registers:
                    yield from (seen.registers[name], seen.registers[name] + 1)

    def _near(self, at: int, values: Mapping[str, int]) -> Iterator[int]:
        """Yield values for a register: near those of others, or near constants."""
        others = [values[name] for name in sorted(values)]
        yield from (self._chance.choice(others) + more for more in (0, 0, -8, -1, 1, 8))
        for constant in self._constants(at):
            yield from (constant, constant + 1, constant - 1, ~constant)

    def _setter(self, at: int) -> Step | None:
        index = setter(self._path, at) if self._path.steps[at].branches else None
        return None if index is None else self._path.steps[index]

    def _constants(self, at: int) -> Iterator[int]:
        if (comparison := self._setter(at)) is not None:
            for n in range(comparison.ins.op_count):
                if comparison.ins.op_kind(n) not in (iced.OpKind.REGISTER, iced.OpKind.MEMORY):
                    yield comparison.ins.immediate(n)

    def sources(self, at: int) -> tuple[frozenset[str], frozenset[int]]:
        """Return the start registers and the memory reads that a step depends on."""
        steps = self._path.steps
        names = steps[at].read
        loads = set()
        if (comparison := self._setter(at)) is not None:
            names |= comparison.read
            loads |= {n for n, step in enumerate(steps) if step is comparison and step.memory}
        while True:
            writers = [n for n, step in enumerate(steps) if step.written & names]
            loads |= {n for n in writers if steps[n].memory}
            more = frozenset().union(*(steps[n].read for n in writers)) - names
            if not more:
                return names - {"rsp"}, frozenset(loads)
            names |= more


MOST_ITERATIONS = 4096  # iterations of a measured run, at most
_TRIES = 160  # trial runs for one way to end a loop
_FEW = 24  # iterations of a trial run


@dataclass(frozen=True)
class Settled:
    """A loop with a start that keeps it on its path: image, start and replaced instructions.

    replaced names the replaced instructions. most is the number of iterations that it may run from
    there.
    """

    path: Path
    image: Image
    start: Start
    replaced: str
    most: int = MOST_ITERATIONS

    def lines(self) -> list[str]:
        """Return the lines of a job for registers and memory."""
        values = {
            n: v for n, v in self.start.values.items() if n not in ("rsp", self.start.counter)
        }
        return [
            f"counter {self.start.counter} {self.start.base} {self.start.step % (1 << 64)}",
            *(f"set {name} {value}" for name, value in values.items()),
            *self.start.memory.lines(),
        ]

    def left(self, step: int) -> str:
        """Return a description of the exit taken."""
        return f"exit at +{self.path.steps[step].at:#x} taken"


def find_start(path: Path) -> Settled:
    """Return the start of a loop's run; InputError with the reason if none was found.

    Every trial runs in an emulated core; the sequence of trials is the same each time.
    """
    found = _found(path)
    if isinstance(found, str):
        raise InputError(found)
    return found


@cache
def _found(path: Path) -> Settled | str:
    reasons: list[str] = []
    found = _by_register(path, own_ends(path), reasons)
    found = found or _by_memory(path)
    found = found or _by_register(path, replaced_ends(path), reasons)
    return found or (reasons[0] if reasons else "nothing in it can count its iterations")


def _by_register(path: Path, ends: Iterable[End], reasons: list[str]) -> Settled | None:
    """Return the loop by the first end that can be run; add reasons why others cannot."""
    for end in ends:
        try:
            image = block_path.of_path(path, end.code, end.step_of_path)
        except InputError as error:
            reasons.append(str(error))
            continue
        search = _Search(path, end, image)
        if start := search.run():
            return Settled(path, image, start, end.replaced)
        reasons.append(search.reason)
    return None


def _outcome(
    path: Path, image: Image, end: int, start: Start, most: int = MOST_ITERATIONS
) -> Outcome | None:
    """Return the failure of a start, or None if it holds for so many iterations."""
    core = Emulated(path, image, end, start.memory)
    begun = []
    for iterations in (_FEW, 2 * _FEW, most, _FEW):
        outcome = core.run(start, iterations)
        if not outcome.ended:
            return outcome
        begun.append(outcome.iterations)
        if begun[-1] - begun[0] != iterations - _FEW:
            return Outcome(outcome.iterations, left=end)
    return None


_ENOUGH_ITERATIONS = 500  # with fewer the branch predictor may learn the exit
_FILLERS = (0x61, 0x01, 0x00, 0xFF, 0x20, 0x30, 0x80)  # bytes to fill memory with
_MOST_ENDS = 600  # trial runs of one loop that memory ends


class _Walked(NamedTuple):
    """A load whose address each iteration moves by stride, because a register changes by change.

    at is its step, address its first address with the initial registers.
    """

    at: int
    address: int
    bytes: int
    register: str
    change: int
    stride: int


def _by_memory(path: Path) -> Settled | None:
    """Return a loop's start that ends it by the contents of memory, if it only reads memory.

    A load that walks through memory reads another value after so many iterations; a second load
    whose address depends on the first, as in a table look-up, reads another value as well.
    """
    if any(used.access in WRITES for step in path.steps for used in step.memory):
        return None
    guess = Guess(path)
    values = guess.first().values
    trials = 0
    for branch, _ in deciding(path):
        _, loads = guess.sources(branch)
        try:
            image = block_path.of_path(path, path.code, branch)
        except InputError:
            continue
        for load in filter(None, (_walked(path, n, values) for n in sorted(loads))):
            most = min(MOST_ITERATIONS, block_path.MEMORY_BYTES // abs(load.stride) - 1)
            if most < _ENOUGH_ITERATIONS:
                continue
            others = sorted(loads - {load.at})
            for start in _starts(path, branch, image, load, others, values):
                if _outcome(path, image, branch, start, most) is None:
                    return Settled(path, image, start, "", most)
                if (trials := trials + 1) == _MOST_ENDS:
                    return None
    return None


def _walked(path: Path, at: int, values: Mapping[str, int]) -> _Walked | None:
    """Return a step's load if each iteration changes its address by a constant."""
    [*several] = path.steps[at].memory
    if len(several) != 1 or several[0].segment in _THREADS:
        return None
    memory, size = several[0], iced.MemorySizeExt.size(several[0].memory_size)
    address, moves = memory.displacement, []
    for register, scale in ((memory.base, 1), (memory.index, memory.scale)):
        if register == iced.Register.NONE:
            continue
        name = block_path.full_name(register)
        change = change_of(path, name) if name else None
        before = change_of(path, name, at)
        if change is None or before is None:
            return None
        address += (values[name] + before) * scale
        if change:
            moves.append((name, change, change * scale))
    if len(moves) != 1 or not size:
        return None
    return _Walked(at, address % (1 << 64), size, *moves[0])


def _starts(
    path: Path,
    branch: int,
    image: Image,
    load: _Walked,
    others: Sequence[int],
    values: Mapping[str, int],
) -> Iterator[Start]:
    """Yield starts with which a loop may go on, and end at the address a load walks to."""
    constants = _compared_with(path, values)
    loaded = path.steps[load.at].written - path.steps[load.at].read

    def start_of(filler: int, memory: Memory) -> Start:
        # A value loaded before the first iteration is that of memory.
        held = dict.fromkeys(loaded, filler % (1 << 8 * min(load.bytes, 8)))
        base = values[load.register]
        return Start({**values, **held}, memory, load.register, base, -load.change)

    def tried(value: int) -> tuple[Start, Emulated]:
        start = start_of(value, Memory(_filled(value, load.bytes)))
        return start, Emulated(path, image, branch, start.memory)

    def reads(value: int) -> Mapping[int, tuple[int, int]]:
        start, core = tried(value)
        return core.look(start, 1).reads

    def turns(value: int) -> bool:
        start, core = tried(value)
        return core.run(start, _FEW).iterations > 2 * _FEW

    end_values = dict.fromkeys(constant % (1 << 8 * load.bytes) for constant in constants)
    reads_by_value = {value: reads(value) for value in end_values} if others else {}
    fillers = [byte * 0x0101010101010101 for byte in _FILLERS]
    for filler in dict.fromkeys([*fillers, *end_values, Memory().word]):
        if not turns(filler):
            continue  # the loop ends, or is left, at once
        memory = Memory(_filled(filler, load.bytes))
        for value in end_values:
            with_end = memory.having(load.address, load.bytes, value)
            yield start_of(filler, with_end)
            for other in others:
                if other in reads_by_value[value]:
                    address, size = reads_by_value[value][other]
                    for second in dict.fromkeys(
                        constant % (1 << 8 * size) for constant in constants
                    ):
                        yield start_of(filler, with_end.having(address, size, second))


def _filled(value: int, size: int) -> int:
    """Return a 64-bit word that repeats a value of so many bytes."""
    size = 8 if value >= 1 << 8 * min(size, 8) else min(size, 8)
    bytes_of_value = (value % (1 << 8 * size)).to_bytes(size, "little")
    return int.from_bytes(bytes_of_value * (8 // size), "little")


def _compared_with(path: Path, values: Mapping[str, int]) -> list[int]:
    """Return values with which a comparison of memory may end a loop."""
    candidates = [0, _ALL, 1]
    for step in path.steps:
        ins = step.ins
        if ins.rflags_modified:
            for n in range(ins.op_count):
                if ins.op_kind(n) == iced.OpKind.REGISTER:
                    name = block_path.full_name(ins.op_register(n))
                    candidates += [values[name]] if change_of(path, name) == 0 and name else []
                elif ins.op_kind(n) != iced.OpKind.MEMORY and not step.branches:
                    constant = ins.immediate(n)
                    candidates += [constant, constant + 1, constant - 1, ~constant]
    return list(dict.fromkeys(value & _ALL for value in candidates))


class _Search:
    """Trial runs with one way to end a loop."""

    def __init__(self, path: Path, end: End, made: Image) -> None:
        self._path, self._end, self._made = path, end, made
        self._guess = Guess(path)
        self.reason = ""

    def run(self) -> Start | None:
        """Return a start that holds for as many iterations as are measured."""
        state = best_state = self._guess.first()
        best = (-1, -1)
        tried = 0
        for _ in range(_TRIES):
            start = self._start(state)
            outcome = self._outcome(start)
            if outcome is None:
                return start
            if outcome.unknown:
                self.reason = self._said(outcome)
                return None
            if (reached := (outcome.iterations, max(outcome.left, outcome.faulted))) > best:
                best, best_state, failed, tried = reached, state, outcome, 0
                self.reason = self._said(outcome)
                seen = self._look(self._start(best_state), outcome)
            at = failed.faulted if failed.faulted >= 0 else failed.left
            state = self._guess.next(best_state, at, seen, tried)
            tried += 1
        return None

    def _start(self, state: State) -> Start:
        end = self._end
        base = end.start(state.values, state.memory.word)
        return Start(state.values, state.memory, end.counter, base, end.step)

    def _outcome(self, start: Start) -> Outcome | None:
        return _outcome(self._path, self._made, self._end.step_of_path, start)

    def _look(self, start: Start, found: Outcome) -> Seen:
        """Return the reads of the first trial run, if it is the one that failed."""
        if found.iterations > 2 * _FEW:
            return Seen({}, {})
        core = Emulated(self._path, self._made, self._end.step_of_path, start.memory)
        return core.look(start, _FEW)

    def _said(self, found: Outcome) -> str:
        if found.unknown:
            return (
                "the emulator that counts its iterations lacks an instruction of it (AVX, for one)"
            )
        if found.faulted >= 0:
            step = self._path.steps[found.faulted]
            return f"an access outside of the address space, at +{step.at:#x}: {step.text}"
        step = self._path.steps[found.left]
        if found.left == self._end.step_of_path:
            return f"what ends it cannot be set: +{step.at:#x} {step.text}"
        kind = "exit" if self._path.index_of(step.other) < 0 else "branch off its path"
        return f"{kind} at +{step.at:#x} taken"
