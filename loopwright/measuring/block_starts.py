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
    THREAD_SEGMENTS,
    USER_SPACE,
    X86_REGISTERS,
    End,
    Image,
    Memory,
    Path,
    Step,
    change_of,
    flag_branches,
    flag_setter,
    own_ends,
    replaced_ends,
)

# The emulator's numbers of registers, and the values that the harness gives to vectors.
_IDS = {name: int(getattr(x86_const, f"UC_X86_REG_{name.upper()}")) for name in X86_REGISTERS}
_VECTOR_VALUES = [
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
    """The end of a trial run: by the ending step, or by the exit or fault of another step.

    iterations were begun. exit is the step that left the path, faulted the step with an impossible
    access; each is -1 where it does not apply. unknown is True if the emulator does not know an
    instruction.
    """

    iterations: int
    ended: bool = False
    exit: int = -1
    faulted: int = -1
    unknown: bool = False


@dataclass(frozen=True)
class Observation:
    """The last read of each step (address and bytes), and the registers at the end of a run."""

    reads: Mapping[int, tuple[int, int]]
    registers: Mapping[str, int]


class EmulatedLoop:
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
        self._page_content = memory.page()
        self._pages = 0
        self._map_blocks()
        untouched = unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED
        self._core.hook_add(unicorn.UC_HOOK_BLOCK, self._on_block)
        self._core.hook_add(untouched, lambda _core, _kind, *access: self._map_pages(*access[:2]))
        self._core.hook_add(unicorn.UC_HOOK_INSN_INVALID, self._on_unknown)
        self._skips_unknown = not any(map(_reads_vectors, path.steps))

    def _map_blocks(self) -> None:
        """Map the start of each basic block to its last step, and to where the path goes on."""
        self._block_ends: dict[int, tuple[int, int]] = {}
        steps = self._path.steps
        leader = 0
        for n, step in enumerate(steps):
            follows = steps[(n + 1) % len(steps)].at
            if step.branches or follows != step.end:
                self._block_ends[leader] = n, follows
                leader = follows

    def observe(self, start: Start, iterations: int) -> Observation:
        """Run as run does, and return each step's last read, and the final registers."""
        reads: dict[int, tuple[int, int]] = {}
        offset = 0

        def on_code(_core: Uc, address: int, _size: int, _data: object) -> None:
            nonlocal offset
            offset = address - _BASE

        def on_read(
            _core: Uc, _kind: int, address: int, size: int, _value: int, _data: object
        ) -> None:
            reads[self._path.index_of(offset)] = address, size

        hooks = [
            self._core.hook_add(unicorn.UC_HOOK_CODE, on_code),
            self._core.hook_add(unicorn.UC_HOOK_MEM_READ, on_read),
        ]
        self.run(start, iterations)
        for hook in hooks:
            self._core.hook_del(hook)
        return Observation(reads, {name: self._register_value(name) for name in X86_REGISTERS})

    def run(self, start: Start, iterations: int) -> Outcome:
        """Run so many iterations, or until something else ends the loop; memory stays changed."""
        core = self._core
        for name, value in start.registers(iterations).items():
            core.reg_write(_IDS[name], value)
        for number, lanes in enumerate(_VECTOR_VALUES):
            core.reg_write(x86_const.UC_X86_REG_XMM0 + number, lanes)
        core.reg_write(x86_const.UC_X86_REG_EFLAGS, _FLAGS)
        self._iterations, self._exit, self._ended = 0, -1, False
        self._expected, self._branch, self._most_iterations = 0, -1, 2 * iterations + 16
        try:
            core.emu_start(_BASE, _BASE + len(self._image.code) - self._image.entry)
        except UcError as error:
            if error.errno == unicorn.UC_ERR_INSN_INVALID:
                return Outcome(self._iterations, unknown=True)
            at = int(core.reg_read(x86_const.UC_X86_REG_RIP)) - _BASE
            return Outcome(self._iterations, faulted=max(0, self._path.index_of(at)))
        return Outcome(self._iterations, ended=self._ended, exit=self._exit)

    def _on_block(self, core: Uc, address: int, _size: int, _data: object) -> None:
        at = address - _BASE
        if at == self._image.landing and self._branch == self._end:
            self._ended = True
            core.emu_stop()
            return
        self._iterations += at == 0
        too_many = self._iterations > self._most_iterations
        if at == self._expected and at in self._block_ends and not too_many:
            self._branch, self._expected = self._block_ends[at]
        elif at in self._block_ends or self._path.index_of(at) < 0 or too_many:
            self._exit = self._branch
            core.emu_stop()

    def _register_value(self, register: str) -> int:
        return int(self._core.reg_read(_IDS[register])) if register else 0

    def _on_unknown(self, core: Uc, _data: object) -> bool:
        """Skip an instruction that the emulator does not know, if it affects only vectors.

        Its memory is mapped; its stores are not made.
        """
        at = int(core.reg_read(x86_const.UC_X86_REG_RIP)) - _BASE
        index = self._path.index_of(at)
        if not self._skips_unknown or index < 0:
            return False
        step = self._path.steps[index]
        if step.written or step.ins.rflags_modified or step.branches:
            return False
        for memory in step.memory:
            name = block_path.full_name(memory.index)
            if memory.index and not name:
                return False  # elements by indices in a vector
            address = memory.displacement + memory.scale * self._register_value(name)
            address += self._register_value(block_path.full_name(memory.base))
            if memory.segment in THREAD_SEGMENTS:
                address += _THREAD
            size = max(iced.MemorySizeExt.size(memory.memory_size), 1)
            if not self._map_pages(address % (1 << 64), size):
                return False
        core.reg_write(x86_const.UC_X86_REG_RIP, _BASE + step.end)
        return True

    def _map_pages(self, address: int, size: int) -> bool:
        """Map the pages of an access; False if that is impossible."""
        for page in {address // _PAGE, (address + size - 1) // _PAGE}:
            if not _LOWEST <= page * _PAGE < USER_SPACE or self._pages == _MOST_PAGES:
                return False
            try:
                self._core.mem_map(page * _PAGE, _PAGE)
            except UcError:
                continue  # the page is mapped already
            self._core.mem_write(page * _PAGE, self._page_content)
            self._pages += 1
        return True


def _reads_vectors(step: Step) -> bool:
    """True if a step derives a general register or flags from a vector or mask register."""
    if not (step.written or step.ins.rflags_modified):
        return False
    info = iced.InstructionInfoFactory().info(step.ins)
    registers = [use.register for use in info.used_registers()]
    vectors = (iced.RegisterExt.is_vector_register, iced.RegisterExt.is_k)
    return any(test(register) for register in registers for test in vectors)


_ALL_ONES = (1 << 64) - 1
_WORDS = (0, _ALL_ONES, 1, 2, 0x0101010101010101, 0x6161616161616161, 0xFFFFFFFF)  # of memory
_VALUES = (0, 1, 2, 8, 64, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, _ALL_ONES, 1 << 62)


@dataclass(frozen=True)
class State:
    """Initial contents of registers and memory."""

    values: Mapping[str, int]
    memory: Memory


class Guesses:
    """Guesses of a loop's start, in an order that is the same each time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._random = random.Random(0)
        aligned = block_path.wants_aligned_pointers("x86_64", path.executed)
        step = block_path.ALIGNED_POINTER_STEP if aligned else block_path.POINTER_STEP
        self._pointers = {
            name: block_path.FIRST_POINTER + block_path.register_number(name) * step
            for name in block_path.X86_REGISTERS
        }

    def first(self) -> State:
        """Return the first guess: pointers to memory that holds pointers."""
        return State(dict(self._pointers), Memory())

    def next(self, state: State, at: int, seen: Observation, tried: int) -> State:
        """Return a state with a change that affects a step which went wrong.

        tried is the number of states returned for that step: those that differ in one compared
        value come first.
        """
        equalised = list(self._equalised(state, at, seen))
        if tried < len(equalised):
            return equalised[tried]
        names, loads = self.sources(at)
        values, memory = dict(state.values), state.memory
        for _ in range(self._random.choice((1, 1, 2))):
            reads = [seen.reads[n] for n in loads if n in seen.reads]
            draw = self._random.random()
            if reads and draw < 0.5:
                address, size = self._random.choice(reads)
                current = memory.value_at(address, size)
                value = self._random.choice(list(self._memory_candidates(at, current, seen)))
                memory = memory.with_value(address, size, value)
            elif loads and draw < 0.6:
                memory = Memory(self._random.choice((Memory().word, *_WORDS)), memory.changed)
            elif names:
                name = self._random.choice(sorted(names))
                nearby = self._register_candidates(at, values)
                candidates = [self._pointers[name], *_VALUES, *nearby]
                values[name] = self._random.choice(candidates) & _ALL_ONES
        return State(values, memory)

    def _equalised(self, state: State, at: int, seen: Observation) -> Iterator[State]:
        """Yield states with one side of a comparison derived from the other, or a constant."""
        comparison = self._comparison(at)
        if comparison is None:
            return
        steps = self._path.steps
        reads = [
            seen.reads[n] for n, step in enumerate(steps) if step is comparison and n in seen.reads
        ]
        for name in sorted(comparison.read):
            loads = (n for n, step in enumerate(steps) if name in step.written and step.memory)
            reads += [seen.reads[n] for n in loads if n in seen.reads]
        values = [state.memory.value_at(*read) for read in reads]
        others = (seen.registers.get(name, 0) for name in sorted(comparison.read))
        candidates = [*self._constants(at), *others, *values]
        candidates += [n + 1 for n in candidates] + [n - 1 for n in candidates] + [0, _ALL_ONES]
        for read in reads:
            current = state.memory.value_at(*read)
            bits = [change for c in self._constants(at) for change in (current | c, current & ~c)]
            for value in dict.fromkeys([*bits, *candidates]):
                yield State(state.values, state.memory.with_value(*read, value))
        for name in sorted(comparison.read - {"rsp"}):
            if not any(name in step.written for step in steps):
                for value in dict.fromkeys(candidates):
                    yield State({**state.values, name: value & _ALL_ONES}, state.memory)

    def _memory_candidates(self, at: int, current: int, seen: Observation) -> Iterator[int]:
        """Yield values for memory that a branch may depend on; current is the present one."""
        yield from (0, 1, _ALL_ONES, current + 1)
        for constant in self._constants(at):
            yield from (constant, constant + 1, constant - 1)
            yield from (current ^ constant, current | constant)
        if (comparison := self._comparison(at)) is not None:
            for name in sorted(comparison.read):
                if name in seen.registers:
                    yield from (seen.registers[name], seen.registers[name] + 1)

    def _register_candidates(self, at: int, values: Mapping[str, int]) -> Iterator[int]:
        """Yield values for a register: near those of others, or near constants."""
        others = [values[name] for name in sorted(values)]
        yield from (self._random.choice(others) + difference for difference in (0, 0, -8, -1, 1, 8))
        for constant in self._constants(at):
            yield from (constant, constant + 1, constant - 1, ~constant)

    def _comparison(self, at: int) -> Step | None:
        index = flag_setter(self._path, at) if self._path.steps[at].branches else None
        return None if index is None else self._path.steps[index]

    def _constants(self, at: int) -> Iterator[int]:
        if (comparison := self._comparison(at)) is not None:
            for n in range(comparison.ins.op_count):
                if comparison.ins.op_kind(n) not in (iced.OpKind.REGISTER, iced.OpKind.MEMORY):
                    yield comparison.ins.immediate(n)

    def sources(self, at: int) -> tuple[frozenset[str], frozenset[int]]:
        """Return the start registers and the memory reads that a step depends on."""
        steps = self._path.steps
        names = steps[at].read
        loads = set()
        if (comparison := self._comparison(at)) is not None:
            names |= comparison.read
            loads |= {n for n, step in enumerate(steps) if step is comparison and step.memory}
        while True:
            writers = [n for n, step in enumerate(steps) if step.written & names]
            loads |= {n for n in writers if steps[n].memory}
            added = frozenset().union(*(steps[n].read for n in writers)) - names
            if not added:
                return names - {"rsp"}, frozenset(loads)
            names |= added


MOST_ITERATIONS = 4096  # iterations of a measured run, at most
_TRIES = 160  # trial runs for one way to end a loop
_FEW = 24  # iterations of a trial run


@dataclass(frozen=True)
class PreparedLoop:
    """A loop with an image to run, and a start that keeps it on its path for most iterations.

    replaced names the replaced instructions, or is "".
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

    def exit_taken(self, step: int) -> str:
        """Return a description of the exit taken."""
        return f"exit at +{self.path.steps[step].at:#x} taken"


def find_start(path: Path) -> PreparedLoop:
    """Return a loop with a start from which it can run; InputError with the reason if none does.

    Every trial runs in an emulated core; the sequence of trials is the same each time.
    """
    loop = _prepared_or_refusal(path)
    if isinstance(loop, str):
        raise InputError(loop)
    return loop


@cache
def _prepared_or_refusal(path: Path) -> PreparedLoop | str:
    reasons: list[str] = []
    return (
        _by_register(path, own_ends(path), reasons)
        or _by_memory(path)
        or _by_register(path, replaced_ends(path), reasons)
        or (reasons[0] if reasons else "nothing in it can count its iterations")
    )


def _by_register(path: Path, ends: Iterable[End], reasons: list[str]) -> PreparedLoop | None:
    """Return the loop by the first end that can be run; add reasons why others cannot."""
    for end in ends:
        try:
            image = block_path.image_of(path, end.code, end.branch)
        except InputError as error:
            reasons.append(str(error))
            continue
        search = _Search(path, end, image)
        if start := search.run():
            return PreparedLoop(path, image, start, end.replaced)
        reasons.append(search.reason)
    return None


def _failure(
    path: Path, image: Image, end: int, start: Start, most: int = MOST_ITERATIONS
) -> Outcome | None:
    """Return the failure of a start, or None if it holds for so many iterations."""
    core = EmulatedLoop(path, image, end, start.memory)
    begun = []  # iterations of each run
    for iterations in (_FEW, 2 * _FEW, most, _FEW):
        outcome = core.run(start, iterations)
        if not outcome.ended:
            return outcome
        begun.append(outcome.iterations)
        if begun[-1] - begun[0] != iterations - _FEW:
            return Outcome(outcome.iterations, exit=end)
    return None


_ENOUGH_ITERATIONS = 500  # with fewer the branch predictor may learn the exit
_FILLERS = (0x61, 0x01, 0x00, 0xFF, 0x20, 0x30, 0x80)  # bytes to fill memory with
_MOST_ENDS = 600  # trial runs of one loop that memory ends


class _WalkingLoad(NamedTuple):
    """A load whose address each iteration moves by stride, because a register changes by change.

    at is its step, address its first address with the initial registers, size its bytes.
    """

    at: int
    address: int
    size: int
    register: str
    change: int
    stride: int


def _by_memory(path: Path) -> PreparedLoop | None:
    """Return a loop's start that ends it by the contents of memory, if it only reads memory.

    A load that walks through memory reads another value after so many iterations; a second load
    whose address depends on the first, as in a table look-up, reads another value as well.
    """
    if any(used.access in WRITES for step in path.steps for used in step.memory):
        return None
    guesses = Guesses(path)
    values = guesses.first().values
    trials = 0
    for branch, _ in flag_branches(path):
        _, loads = guesses.sources(branch)
        try:
            image = block_path.image_of(path, path.code, branch)
        except InputError:
            continue
        for load in filter(None, (_walking_load(path, n, values) for n in sorted(loads))):
            most = min(MOST_ITERATIONS, block_path.MEMORY_BYTES // abs(load.stride) - 1)
            if most < _ENOUGH_ITERATIONS:
                continue
            others = sorted(loads - {load.at})
            for start in _starts(path, branch, image, load, others, values):
                if _failure(path, image, branch, start, most) is None:
                    return PreparedLoop(path, image, start, "", most)
                if (trials := trials + 1) == _MOST_ENDS:
                    return None
    return None


def _walking_load(path: Path, at: int, values: Mapping[str, int]) -> _WalkingLoad | None:
    """Return a step's load if each iteration changes its address by a constant."""
    [*accesses] = path.steps[at].memory
    if len(accesses) != 1 or accesses[0].segment in THREAD_SEGMENTS:
        return None
    memory, size = accesses[0], iced.MemorySizeExt.size(accesses[0].memory_size)
    address, moving = memory.displacement, []
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
            moving.append((name, change, change * scale))
    if len(moving) != 1 or not size:
        return None
    return _WalkingLoad(at, address % (1 << 64), size, *moving[0])


def _starts(
    path: Path,
    branch: int,
    image: Image,
    load: _WalkingLoad,
    others: Sequence[int],
    values: Mapping[str, int],
) -> Iterator[Start]:
    """Yield starts with which a loop may go on, and end at the address a load walks to."""
    constants = _compared_values(path, values)
    loaded = path.steps[load.at].written - path.steps[load.at].read

    def start_of(filler: int, memory: Memory) -> Start:
        # A value loaded before the first iteration is that of memory.
        loaded_values = dict.fromkeys(loaded, filler % (1 << 8 * min(load.size, 8)))
        base = values[load.register]
        return Start({**values, **loaded_values}, memory, load.register, base, -load.change)

    def emulated(value: int) -> tuple[Start, EmulatedLoop]:
        start = start_of(value, Memory(_filled(value, load.size)))
        return start, EmulatedLoop(path, image, branch, start.memory)

    def reads(value: int) -> Mapping[int, tuple[int, int]]:
        start, core = emulated(value)
        return core.observe(start, 1).reads

    def goes_on(value: int) -> bool:
        start, core = emulated(value)
        return core.run(start, _FEW).iterations > 2 * _FEW

    end_values = dict.fromkeys(constant % (1 << 8 * load.size) for constant in constants)
    reads_by_value = {value: reads(value) for value in end_values} if others else {}
    fillers = [byte * 0x0101010101010101 for byte in _FILLERS]
    for filler in dict.fromkeys([*fillers, *end_values, Memory().word]):
        if not goes_on(filler):
            continue  # the loop ends, or is left, at once
        memory = Memory(_filled(filler, load.size))
        for value in end_values:
            with_end = memory.with_value(load.address, load.size, value)
            yield start_of(filler, with_end)
            for other in others:
                if other in reads_by_value[value]:
                    address, size = reads_by_value[value][other]
                    for looked_up in dict.fromkeys(c % (1 << 8 * size) for c in constants):
                        yield start_of(filler, with_end.with_value(address, size, looked_up))


def _filled(value: int, size: int) -> int:
    """Return a 64-bit word that repeats a value of so many bytes."""
    size = 8 if value >= 1 << 8 * min(size, 8) else min(size, 8)
    bytes_of_value = (value % (1 << 8 * size)).to_bytes(size, "little")
    return int.from_bytes(bytes_of_value * (8 // size), "little")


def _compared_values(path: Path, values: Mapping[str, int]) -> list[int]:
    """Return values with which a comparison of memory may end a loop."""
    candidates = [0, _ALL_ONES, 1]
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
    return list(dict.fromkeys(value & _ALL_ONES for value in candidates))


class _Search:
    """Search of a start for one way to end a loop, by trial runs."""

    def __init__(self, path: Path, end: End, image: Image) -> None:
        self._path, self._end, self._image = path, end, image
        self._guesses = Guesses(path)
        self.reason = ""

    def run(self) -> Start | None:
        """Return a start that holds for as many iterations as are measured."""
        state = best_state = self._guesses.first()
        best = (-1, -1)
        tried = 0
        for _ in range(_TRIES):
            start = self._start(state)
            outcome = _failure(self._path, self._image, self._end.branch, start)
            if outcome is None:
                return start
            if outcome.unknown:
                self.reason = self._description(outcome)
                return None
            if (reached := (outcome.iterations, max(outcome.exit, outcome.faulted))) > best:
                best, best_state, failed, tried = reached, state, outcome, 0
                self.reason = self._description(outcome)
                seen = self._observe(self._start(best_state), outcome)
            at = failed.faulted if failed.faulted >= 0 else failed.exit
            state = self._guesses.next(best_state, at, seen, tried)
            tried += 1
        return None

    def _start(self, state: State) -> Start:
        end = self._end
        base = end.start(state.values, state.memory.word)
        return Start(state.values, state.memory, end.counter, base, end.step)

    def _observe(self, start: Start, outcome: Outcome) -> Observation:
        """Return the reads of the first trial run, if that is the one that failed."""
        if outcome.iterations > 2 * _FEW:
            return Observation({}, {})
        core = EmulatedLoop(self._path, self._image, self._end.branch, start.memory)
        return core.observe(start, _FEW)

    def _description(self, outcome: Outcome) -> str:
        if outcome.unknown:
            return (
                "the emulator that counts its iterations lacks an instruction of it (AVX, for one)"
            )
        if outcome.faulted >= 0:
            step = self._path.steps[outcome.faulted]
            return f"an access outside of the address space, at +{step.at:#x}: {step.text}"
        step = self._path.steps[outcome.exit]
        if outcome.exit == self._end.branch:
            return f"what ends it cannot be set: +{step.at:#x} {step.text}"
        kind = "exit" if self._path.index_of(step.off_path) < 0 else "branch off its path"
        return f"{kind} at +{step.at:#x} taken"
