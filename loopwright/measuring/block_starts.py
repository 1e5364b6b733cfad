"""Start values with which a block stays on its path and ends after n iterations."""

import random
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import iced_x86 as iced
import unicorn
from unicorn import x86_const
from unicorn.unicorn import Uc, UcError

from loopwright.errors import InputError
from loopwright.measuring import block_path
from loopwright.measuring.block_path import EVERY_X86, USER_SPACE, Image, Memory, Path, Step, signed

# What the harness has in registers: general-purpose ones by name, each lane of 32 bits of vectors.
_NUMBERS = {name: int(getattr(x86_const, f"UC_X86_REG_{name.upper()}")) for name in EVERY_X86}
_LANES = [
    int.from_bytes(struct.pack("<4f", *[1 + number / 64] * 4), "little") for number in range(16)
]
_BASE = 0x500000000000  # a page whose upper half nothing else has
_THREAD = 0x22000C00  # where fs and gs point: harness/block_machine.h
_PAGE = 4096
_LOWEST = 0x10000  # what harness/block_memory.c maps
_MOST_PAGES = 512
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
        self._core.hook_add(unicorn.UC_HOOK_INSN_INVALID, self._on_unknown)
        self._skips = not any(map(_leaves_vectors, path.steps))

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

    def _held(self, register: str) -> int:
        return int(self._core.reg_read(_NUMBERS[register])) if register else 0

    def _on_unknown(self, core: Uc, _data: object) -> bool:
        """Skip an instruction that the emulator does not know, where vectors alone hang on it.

        Its memory is there from then on; what it stores is not.
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
        """Map what is accessed; say whether it can be."""
        for page in {address // _PAGE, (address + size - 1) // _PAGE}:
            if not _LOWEST <= page * _PAGE < USER_SPACE or self._pages == _MOST_PAGES:
                return False
            try:
                self._core.mem_map(page * _PAGE, _PAGE)
            except UcError:
                continue  # the half that is there
            self._core.mem_write(page * _PAGE, self._words)
            self._pages += 1
        return True


_THREADS = (iced.Register.FS, iced.Register.GS)


def _leaves_vectors(step: Step) -> bool:
    """Whether a step takes a general-purpose register, or flags, from a vector or mask register."""
    if not (step.written or step.ins.rflags_modified):
        return False
    info = iced.InstructionInfoFactory().info(step.ins)
    registers = [use.register for use in info.used_registers()]
    vectors = (iced.RegisterExt.is_vector_register, iced.RegisterExt.is_k)
    return any(test(register) for register in registers for test in vectors)


_STEPS = {iced.Mnemonic.INC: 1, iced.Mnemonic.DEC: -1}
_ADDS = {iced.Mnemonic.ADD: 1, iced.Mnemonic.SUB: -1}
_COMPARES = {iced.Mnemonic.CMP, iced.Mnemonic.TEST}
_EQUAL, _UNEQUAL = 0x4, 0x5  # condition codes of jumps


@dataclass(frozen=True)
class End:
    """A step of the path that ends the loop, by a register that counts.

    The counter starts with the value that the register base has (nothing: 0), with constant and so
    many bits of memory, and with step for each iteration. code is the loop's, in which said is what
    was replaced, or nothing.
    """

    step_of_path: int
    code: bytes
    counter: str
    step: int
    base: str = ""
    constant: int = 0
    memory_bits: int = 0
    said: str = ""

    def start(self, values: Mapping[str, int], word: int) -> int:
        """Return the counter's start for a run without an iteration."""
        held = word & (1 << self.memory_bits) - 1
        return (values.get(self.base, 0) + self.constant + held) % (1 << 64)


def ends_of_path(path: Path) -> Iterator[End]:
    """Yield the ways to end a loop: first those that leave its code as it is."""
    branches = [n for n, step in enumerate(path.steps) if step.branches]
    branches.sort(key=lambda n: n != len(path.steps) - 1)
    setters = [(n, found) for n in branches if (found := setter(path, n)) is not None]
    for n, at in setters:
        yield from _own(path, n, path.steps[at])
    for n, at in setters:
        if found_way := _replaced(path, n, path.steps[at]):
            yield found_way


def setter(path: Path, branch: int) -> int | None:
    """Return the step that sets the flags which a branch goes by."""
    wanted = path.steps[branch].ins.rflags_read
    if not wanted:
        return None
    for n in range(branch - 1, -1, -1):
        if path.steps[n].ins.rflags_modified & wanted:
            return n
    return None


@cache
def _change(path: Path, name: str) -> int | None:
    """Return by how much an iteration changes a register; None where that is not one constant."""
    writers = [step for step in path.steps if name in step.written]
    if not writers:
        return 0
    ins = writers[0].ins
    if len(writers) > 1 or iced.RegisterExt.size(ins.op0_register) < 4:
        return None
    if ins.mnemonic in _STEPS and ins.op0_kind == iced.OpKind.REGISTER:
        return _STEPS[ins.mnemonic]
    if ins.mnemonic in _ADDS and ins.op_count == 2 and _is_immediate(ins.op1_kind):
        return _ADDS[ins.mnemonic] * signed(ins.immediate(1))
    if ins.mnemonic == iced.Mnemonic.LEA and ins.memory_index == iced.Register.NONE:
        same = block_path.full_name(ins.memory_base) == name
        return signed(ins.memory_displacement) if same else None
    return None


def _is_immediate(kind: int) -> bool:
    return kind not in (iced.OpKind.REGISTER, iced.OpKind.MEMORY)


@dataclass(frozen=True)
class _Side:
    """An operand of a comparison: a register, a constant, or some bits of memory."""

    name: str = ""
    constant: int = 0
    bits: int = 0


def _own(path: Path, branch: int, setter: Step) -> Iterator[End]:
    """Yield the starts with which a loop's own comparison ends it after n iterations."""
    ins = setter.ins
    sides = _sides(setter)
    if sides is None:
        return
    changes = []
    for side in sides:
        change = _change(path, side.name) if side.name else 0
        if change is None:
            return
        changes.append(change)
    relative = changes[0] - changes[1]
    if relative == 0:
        return
    for mine, other in ((1, 0), (0, 1)):
        counter, against = sides[mine], sides[other]
        if not counter.name:
            continue
        if changes[mine] and against.name and not changes[other]:
            continue  # the bound is to be set, not what runs up to it
        step = changes[other] - changes[mine]
        if ins.mnemonic == iced.Mnemonic.TEST or ins.mnemonic in _STEPS or ins.mnemonic in _ADDS:
            yield End(branch, path.code, counter.name, step)
        else:
            yield End(
                branch, path.code, counter.name, step, against.name, against.constant, against.bits
            )


def _sides(setter: Step) -> tuple[_Side, _Side] | None:
    """Return the operands of a comparison, None of another step."""
    ins = setter.ins
    if ins.mnemonic == iced.Mnemonic.TEST:
        if ins.op0_kind != iced.OpKind.REGISTER or ins.op0_register != ins.op1_register:
            return None
        return _Side(block_path.full_name(ins.op0_register)), _Side()
    if ins.mnemonic in _STEPS or (ins.mnemonic in _ADDS and _is_immediate(ins.op1_kind)):
        if ins.op0_kind != iced.OpKind.REGISTER:
            return None
        return _Side(block_path.full_name(ins.op0_register)), _Side()
    if ins.mnemonic != iced.Mnemonic.CMP:
        return None
    sides = []
    for n, kind in enumerate((ins.op0_kind, ins.op1_kind)):
        if kind == iced.OpKind.REGISTER:
            sides.append(_Side(block_path.full_name(ins.op_register(n))))
        elif kind == iced.OpKind.MEMORY:
            sides.append(_Side(bits=8 * iced.MemorySizeExt.size(ins.memory_size)))
        else:
            sides.append(_Side(constant=signed(ins.immediate(n))))
    return sides[0], sides[1]


def _replaced(path: Path, branch: int, setter: Step) -> End | None:
    """Return the loop with a count in the place of a comparison, as long and where it was."""
    if setter.ins.mnemonic not in _COMPARES or setter.memory:
        return None
    step = path.steps[branch]
    if step.ins.is_loop or step.ins.is_loopcc or step.ins.is_jcx_short:
        return None
    free = [name for name in block_path.counters("x86_64") if name not in path.used]
    length = len(setter.ins)
    name = next((one for one in free if _count(one, length)), None)
    if name is None:
        return None
    code = bytearray(path.code)
    code[setter.at : setter.end] = _count(name, length)
    condition = _UNEQUAL if step.taken else _EQUAL
    at = step.at + len(step.ins) - (1 if len(step.ins) == 2 else 4) - 1
    code[at] = code[at] & 0xF0 | condition
    decoded = next(iter(iced.Decoder(64, bytes(code[setter.at : setter.end]))))
    shown = iced.Formatter(iced.FormatterSyntax.GAS).format(decoded)
    jump = "jne" if step.taken else "je"
    said = (
        f"+{setter.at:#x} {setter.text} and +{step.at:#x} {step.text.split()[0]} are replaced by "
        f"{' '.join(shown.split())} and {jump}"
    )
    return End(branch, bytes(code), name, 1, said=said)


def _count(name: str, length: int) -> bytes:
    """Return an instruction of so many bytes that counts down in a register, or nothing."""
    number = block_path.number(name)
    low = number & 7
    wide = bytes([0x48 | number >> 3])
    legacy = number < 8
    shapes = {
        2: bytes([0xFF, 0xC8 | low]) if legacy else b"",
        3: wide + bytes([0xFF, 0xC8 | low]),
        4: wide + bytes([0x83, 0xE8 | low, 1]),
        5: b"\x3e" + wide + bytes([0x83, 0xE8 | low, 1]),
        6: bytes([0x81, 0xE8 | low, 1, 0, 0, 0]) if legacy else b"",
        7: wide + bytes([0x81, 0xE8 | low, 1, 0, 0, 0]),
    }
    return shapes.get(length, b"")


_WORDS = (0, (1 << 64) - 1, 1, 2, 0x0101010101010101, 0x6161616161616161, 0xFFFFFFFF)
_VALUES = (0, 1, 2, 8, 64, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 64) - 1, 1 << 62)
_ALL = (1 << 64) - 1


@dataclass(frozen=True)
class State:
    """Initial contents of registers and memory."""

    values: Mapping[str, int]
    memory: Memory


class Guess:
    """Guesses for a loop; the same ones each time."""

    def __init__(self, path: Path) -> None:
        """Take a loop."""
        self._path = path
        self._chance = random.Random(0)
        aligned = block_path.unaligned("x86_64", path.executed)
        step = block_path.ALIGNED_STEP if aligned else block_path.STEP
        self._pointers = {
            name: block_path.ADDRESS_POINTER + block_path.number(name) * step
            for name in block_path.EVERY_X86
        }

    def first(self) -> State:
        """Return pointers to memory that holds pointers."""
        return State(dict(self._pointers), Memory())

    def next(self, state: State, at: int, seen: Seen, tried: int) -> State:
        """Return a state with something changed that a step goes by, which went wrong.

        tried is how many states were returned for that already: first come those which differ in
        one thing that the step compares.
        """
        near = list(self._compared(state, at, seen))
        if tried < len(near):
            return near[tried]
        names, loads = self._sources(at)
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
        """Yield states with one side of a comparison set by the other."""
        by = self._setter(at)
        if by is None:
            return
        steps = self._path.steps
        places = [seen.reads[n] for n, step in enumerate(steps) if step is by and n in seen.reads]
        for name in sorted(by.read):
            loads = (n for n, step in enumerate(steps) if name in step.written and step.memory)
            places += [seen.reads[n] for n in loads if n in seen.reads]
        held = [state.memory.held(*place) for place in places]
        others = (seen.registers.get(name, 0) for name in sorted(by.read))
        wanted = [*self._constants(at), *others, *held]
        wanted = [*wanted, *(one + 1 for one in wanted), *(one - 1 for one in wanted), 0, _ALL]
        for place in places:
            now = state.memory.held(*place)
            bits = [change for c in self._constants(at) for change in (now | c, now & ~c)]
            for value in dict.fromkeys([*bits, *wanted]):
                yield State(state.values, state.memory.having(*place, value))
        for name in sorted(by.read - {"rsp"}):
            if not any(name in step.written for step in steps):
                for value in dict.fromkeys(wanted):
                    yield State({**state.values, name: value & _ALL}, state.memory)

    def _held(self, at: int, held: int, seen: Seen) -> Iterator[int]:
        """Yield values for memory that a branch may go by, which holds another."""
        yield from (0, 1, _ALL, held + 1)
        for constant in self._constants(at):
            yield from (constant, constant + 1, constant - 1, held ^ constant, held | constant)
        if (by := self._setter(at)) is not None:
            for name in by.read:
                if name in seen.registers:
                    yield from (seen.registers[name], seen.registers[name] + 1)

    def _near(self, at: int, values: Mapping[str, int]) -> Iterator[int]:
        """Yield values for a register: near those of others, or near constants."""
        others = [values[name] for name in sorted(values)]
        yield from (self._chance.choice(others) + more for more in (0, 0, -8, -1, 1, 8))
        for constant in self._constants(at):
            yield from (constant, constant + 1, constant - 1, ~constant)

    def _setter(self, at: int) -> Step | None:
        by = setter(self._path, at) if self._path.steps[at].branches else None
        return None if by is None else self._path.steps[by]

    def _constants(self, at: int) -> Iterator[int]:
        if (by := self._setter(at)) is not None:
            for n in range(by.ins.op_count):
                if by.ins.op_kind(n) not in (iced.OpKind.REGISTER, iced.OpKind.MEMORY):
                    yield by.ins.immediate(n)

    def _sources(self, at: int) -> tuple[frozenset[str], frozenset[int]]:
        """Return the start registers and the memory reads that a step depends on."""
        steps = self._path.steps
        names = steps[at].read
        loads = set()
        if (by := self._setter(at)) is not None:
            names |= by.read
            loads |= {n for n, step in enumerate(steps) if step is by and step.memory}
        while True:
            writers = [n for n, step in enumerate(steps) if step.written & names]
            loads |= {n for n in writers if steps[n].memory}
            more = frozenset().union(*(steps[n].read for n in writers)) - names
            if not more:
                return names - {"rsp"}, frozenset(loads)
            names |= more


MOST_ITERATIONS = 4096  # that are measured
_TRIES = 160  # of one way to end it
_FEW = 24  # iterations of a try


@dataclass(frozen=True)
class Settled:
    """A loop that runs as it is to: its image, what it starts with, and what was replaced."""

    path: Path
    image: Image
    start: Start
    said: str

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
        """Name the exit taken."""
        return f"exit at +{self.path.steps[step].at:#x} taken"


def find_start(path: Path) -> Settled:
    """Return the start of a loop's run; InputError with the reason if none was found.

    Every try is made in an emulated core; which of them are made is the same each time.
    """
    found = _found(path)
    if isinstance(found, str):
        raise InputError(found)
    return found


@cache
def _found(path: Path) -> Settled | str:
    reasons = []
    for end in ends_of_path(path):
        try:
            made = block_path.of_path(path, end.code, end.step_of_path)
        except InputError as error:
            reasons.append(str(error))
            continue
        search = _Search(path, end, made)
        if start := search.run():
            return Settled(path, made, start, end.said)
        reasons.append(search.reason)
    return reasons[0] if reasons else "nothing in it can count its iterations"


class _Search:
    """Tries from one way to end a loop."""

    def __init__(self, path: Path, end: End, made: Image) -> None:
        self._path, self._end, self._made = path, end, made
        self._guess = Guess(path)
        self.reason = ""

    def run(self) -> Start | None:
        """Return a start that holds for as many iterations as are measured."""
        state = kept = self._guess.first()
        best = (-1, -1)
        tried = 0
        for _ in range(_TRIES):
            start = self._start(state)
            found = self._outcome(start)
            if found is None:
                return start
            if found.unknown:
                self.reason = self._said(found)
                return None
            if (reached := (found.iterations, max(found.left, found.faulted))) > best:
                best, kept, failed, tried = reached, state, found, 0
                self.reason = self._said(found)
                seen = self._look(self._start(kept), found)
            at = failed.faulted if failed.faulted >= 0 else failed.left
            state = self._guess.next(kept, at, seen, tried)
            tried += 1
        return None

    def _start(self, state: State) -> Start:
        end = self._end
        base = end.start(state.values, state.memory.word)
        return Start(state.values, state.memory, end.counter, base, end.step)

    def _core(self, start: Start) -> Emulated:
        return Emulated(self._path, self._made, self._end.step_of_path, start.memory)

    def _outcome(self, start: Start) -> Outcome | None:
        """Return the failure of a start, None if it holds."""
        core = self._core(start)
        begun = []
        for iterations in (_FEW, 2 * _FEW, MOST_ITERATIONS, _FEW):
            found = core.run(start, iterations)
            if not found.ended:
                return found
            begun.append(found.iterations)
            if begun[-1] - begun[0] != iterations - _FEW:
                return Outcome(found.iterations, left=self._end.step_of_path)
        return None

    def _look(self, start: Start, found: Outcome) -> Seen:
        """Return the reads of the first try, if it is the one that failed."""
        if found.iterations > 2 * _FEW:
            return Seen({}, {})
        return self._core(start).look(start, _FEW)

    def _said(self, found: Outcome) -> str:
        if found.unknown:
            return (
                "the emulator that counts its iterations lacks an instruction of it (AVX, for one)"
            )
        if found.faulted >= 0:
            step = self._path.steps[found.faulted]
            return f"an access that cannot be, at +{step.at:#x}: {step.text}"
        step = self._path.steps[found.left]
        if found.left == self._end.step_of_path:
            return f"what ends it cannot be set: +{step.at:#x} {step.text}"
        kind = "exit" if self._path.index_of(step.other) < 0 else "branch off its path"
        return f"{kind} at +{step.at:#x} taken"
