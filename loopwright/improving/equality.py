"""Equality test of two loops: runs of both in an emulated core from equal registers and memory."""

import itertools
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import iced_x86 as iced
import numpy as np
import unicorn
from numpy.typing import NDArray
from unicorn.unicorn import Uc, UcError

from loopwright.code.instructions import X86_FLOW, Flow, decode, near_target
from loopwright.improving.bare import BEHIND, Bare
from loopwright.improving.listing import CARRY, FLAGS, arm64_effects, full
from loopwright.machine.emulator import PAGE, Recorder, core_of, register_of
from loopwright.measuring.block_path import X86_REGISTERS, full_name

_START = 0x5555_0000_0000
_BUFFERS = 0x2100_0000
_BUFFER_DISTANCE = 0x10_0000  # between buffers that lie far apart
_NO_AVX = "an instruction that the emulator does not know (it has no AVX)"
_HALT = 0xF4
_MOST_STEPS = 4000
_MOST_PROBED = 26  # iterations in which the operands of a comparison are recorded
# Iterations after which a directed case ends the loop.
_END_ITERATIONS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18, 19, 24, 25)
_RANDOM_CASES = 160
_MOST_PAGES = 24
_CARRY_BIT, _OTHER_BITS = 0x1, 0x8C4  # parity, zero, sign and overflow
_EDGES = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, (1 << 63) - 1,
          1 << 63, (1 << 64) - 1, (1 << 64) - 8)  # fmt: skip
_STYLES = ("random", "few", "zeros", "pointers", "one", "mixed")


@dataclass(frozen=True)
class _Registers:
    """An ISA's registers: their names, and Unicorn's numbers of them by name.

    stack is the stack pointer, flags the number of the flags, flag_bits the mask of each kind.
    """

    names: tuple[str, ...]
    vectors: tuple[str, ...]
    stack: str
    numbers: Mapping[str, int]
    flags: int
    flag_bits: Mapping[str, int]


def _registers(
    isa: str, names: tuple[str, ...], vectors: Mapping[str, str], flags: str, bits: dict[str, int]
) -> _Registers:
    numbers = {name: register_of(isa, name) for name in names}
    numbers |= {whole: register_of(isa, name) for name, whole in vectors.items()}
    stack = "rsp" if isa == "x86_64" else "sp"
    number = register_of(isa, flags)
    return _Registers(names, tuple(vectors.values()), stack, numbers, number, bits)


_ISA_REGISTERS = {
    "x86_64": _registers(
        "x86_64", X86_REGISTERS, {f"xmm{n}": f"zmm{n}" for n in range(16)}, "eflags",
        {CARRY: _CARRY_BIT, FLAGS: _OTHER_BITS},
    ),
    "arm64": _registers(
        "arm64", (*(f"x{n}" for n in range(31)), "sp"), {f"q{n}": f"v{n}" for n in range(32)},
        "nzcv", {FLAGS: 0xF000_0000},
    ),
}  # fmt: skip
_MASK64 = (1 << 64) - 1


@dataclass(frozen=True)
class Proof:
    """The result of a comparison of two loops by emulated runs and by an SMT solver.

    cases is the number of runs, failure the first difference. missing names the code that no run
    reached, unproven the reason that the solver gave no proof ("" where it did). Without full
    coverage by runs and without a proof the loops count as not proven equal.
    """

    cases: int
    failure: str = ""
    missing: str = ""
    unproven: str = "not asked"

    @property
    def holds(self) -> bool:
        """True if the loops are equal, by a proof or by runs that reached all of the code."""
        return not self.failure and not (self.missing and self.unproven)

    def __str__(self) -> str:
        if self.failure:
            return f"not equal: {self.failure}"
        if not self.unproven:
            runs = f"equal in {self.cases} emulated runs"
            runs = runs if self.cases else f"not run: {self.missing}"
            return f"proven for all inputs by SMT; {runs}"
        if self.missing:
            return f"not proven: {self.missing}; by SMT: {self.unproven}"
        runs = f"equal in {self.cases} emulated runs, which reached all of it"
        return f"{runs}; not proven by SMT: {self.unproven}"


@dataclass(frozen=True)
class Case:
    """Initial contents of registers and memory; patches are bytes by address."""

    registers: Mapping[str, int]
    vectors: Sequence[int]
    flags: int
    seed: int
    style: str
    patches: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class _End:
    """The state at the end of a run; label is the exit, "" where the loop had not ended.

    registers, those of vectors among them, are the ones that either code uses.
    """

    label: str
    registers: Mapping[str, int]
    flags: int
    steps: NDArray[np.void]
    error: str = ""


def compare(
    bare: Bare, new: bytes, entries: Mapping[str, int] | None = None, seed: int = 0
) -> Proof:
    """Run a loop and its new code side by side, from each of its entries.

    entries has the offsets in the new code of the entries within the loop; left out, they are the
    loop's own. Both have to leave by the same exit, with equal memory and equal live registers and
    flags, and the new code may access no byte that the loop does not access. The runs have to
    reach every instruction and both directions of every branch of either.
    """
    if reason := _unfit_x86(bare) if bare.isa == "x86_64" else _unfit_arm64(bare):
        return Proof(0, missing=reason)
    old_side, new_side = sides = _Side(bare, bare.code), _Side(bare, new)
    used = {name for side in sides for ins in side.body for name in ins.used}
    for side in sides:
        side.observe(used)
    runs = 0
    exits: set[str] = set()
    starts = [(0, 0), *((at, (entries or bare.entries)[n]) for n, at in bare.entries.items())]
    cases = ((case, start) for case in _cases(old_side, random.Random(seed)) for start in starts)
    for case, (at, new_at) in cases:
        old_end = old_side.run(case, _MOST_STEPS, at)
        if old_end.error:
            if old_end.error.startswith("an instruction"):
                return Proof(runs, missing=old_end.error)
            continue
        # Unrolled code takes more or fewer steps. It gets four times the limit where the loop
        # ended, and a quarter where it did not: then it should not end either.
        new_end = new_side.run(case, 4 * _MOST_STEPS if old_end.label else _MOST_STEPS // 4, new_at)
        runs += 1
        reason = _difference(bare, old_side, new_side, old_end, new_end)
        accessed = (at for k in ("load", "store") for at, _ in _accesses(old_end.steps, k))
        # The emulator lacks a part of what is beyond user space.
        if reason and not any(at >= 1 << 47 for at in accessed):
            return Proof(runs, f"{reason} (run {runs})")
        if old_end.label:
            exits.add(old_end.label)
    return Proof(runs, missing=_not_covered(bare, old_side, new_side, exits))


def _unfit_x86(bare: Bare) -> str:
    memory = (p for name, p in bare.outside.items() if name.startswith(".Lmemory"))
    if any(-PAGE < p.distance < 4 * PAGE for p in memory):
        return "it addresses memory beside its own code"
    info = iced.InstructionInfoFactory()
    for ins in iced.Decoder(64, bare.code):
        vector = any(iced.RegisterExt.is_vector_register(ins.op_register(n)) for n in range(3))
        if vector and ins.encoding != iced.EncodingKind.LEGACY:
            return _NO_AVX  # Unicorn executes some, as the instruction of two operands
        for used in info.info(ins).used_registers():
            whole = iced.RegisterExt.full_register(used.register)
            if not (
                full_name(whole)
                or iced.RegisterExt.is_segment_register(whole)
                or (iced.Register.ZMM0 <= whole <= iced.Register.ZMM15)
            ):
                return "it uses registers that the runs do not compare"
        if ins.memory_segment in (iced.Register.FS, iced.Register.GS) and ins.memory_size:
            return "it addresses memory by a segment"
    return ""


_NOT_EMULATED = re.compile(
    r"(ld|st)l?a?x[rp]|cas|swp|ld(add|clr|eor|set|[su]m)|m[rs][rs]$|[di]c$|svc"
)


def _unfit_arm64(bare: Bare) -> str:
    texts = [line.text for line in bare.listing.lines if line.kind == "code"]
    unsupported = next(
        (text for text in texts if _NOT_EMULATED.match(text) or re.search(r"\b[zp]\d+\b", text)), ""
    )
    return unsupported and f"{unsupported.split()[0]} is not run side by side"


def _not_covered(bare: Bare, old: "_Side", new: "_Side", exits: set[str]) -> str:
    if untaken := sorted(bare.listing.leaving.keys() - exits):
        where = "behind its branch" if untaken[0] == BEHIND else f"at {untaken[0]}"
        return f"no run made the loop end {where}"
    for side in (old, new):
        if unreached := side.unreached():
            return f"no run reached {unreached}"
    return ""


def _difference(bare: Bare, old: "_Side", new: "_Side", old_end: _End, new_end: _End) -> str:
    """Return the first difference between the ends of two runs in words, "" where there is none."""
    if new_end.error:
        return new_end.error if old_end.label else ""
    if old_end.label != new_end.label:
        return f"it ends at {new_end.label or 'no place'} and not at {old_end.label or 'none'}"
    if not old_end.label:
        old_stores, new_stores = (
            _accesses(end.steps, "store", distinct=False) for end in (old_end, new_end)
        )
        common = min(len(old_stores), len(new_stores))
        alike = old_stores[:common] == new_stores[:common]
        return "" if alike else "a loop that does not end stores elsewhere"
    live = bare.listing.leaving[old_end.label]
    registers = _ISA_REGISTERS[bare.isa]
    for name, value in old_end.registers.items():
        if name in live and value != new_end.registers[name]:
            if name in registers.vectors:
                return f"{name.replace('zmm', 'xmm')} differs"
            return f"{name} is {new_end.registers[name]:#x} and not {value:#x}"
    for kind, bits in registers.flag_bits.items():
        if kind in live and (old_end.flags ^ new_end.flags) & bits:
            return f"flags are {new_end.flags & bits:#x} and not {old_end.flags & bits:#x}"
    loads, stores = (_bytes(old_end.steps, kind) for kind in ("load", "store"))
    if extra := _bytes(new_end.steps, "load") - loads - stores:
        return f"it loads from {min(extra):#x}, which the loop does not touch"
    if (differing := _bytes(new_end.steps, "store")) != stores:
        return f"it stores to other addresses, such as {min(differing ^ stores):#x}"
    for page in sorted({at // PAGE for at in stores}):
        if old.page(page) != new.page(page):
            return f"memory differs in the page of {page * PAGE:#x}"
    return ""


def _accesses(
    steps: NDArray[np.void], kind: str, *, distinct: bool = True
) -> list[tuple[int, int]]:
    """Return address and size of the accesses of a kind, in order."""
    chosen = steps[steps[f"{kind}s"] > 0]
    pairs = zip(chosen[kind].tolist(), chosen[f"{kind}_bytes"].tolist(), strict=True)
    return list(dict.fromkeys(pairs)) if distinct else list(pairs)


def _bytes(steps: NDArray[np.void], kind: str) -> set[int]:
    return {at + n for at, size in _accesses(steps, kind) for n in range(size)}


class _Side:
    """A loop's code in an emulated core, which maps a page at its first access."""

    def __init__(self, bare: Bare, text: bytes) -> None:
        self.start = _START + bare.offset
        self.registers = _ISA_REGISTERS[bare.isa]
        decoded = _decoded_x86 if bare.isa == "x86_64" else _decoded_arm64
        self.body = list(decoded(text, self.start))
        self._addresses = {ins.at for ins in self.body}
        self._end = self.start + len(text)
        self._core: Any = core_of(bare.isa)
        halt = bytes([_HALT if bare.isa == "x86_64" else 0]) * PAGE  # no instruction of AArch64
        self._labels = {self._end: BEHIND}
        for name, address in bare.outside.items():
            if name in bare.listing.leaving:
                self._labels[(self._end if address.behind else self.start) + address.distance] = (
                    name
                )
        self._code_pages: set[int] = set()
        for at in (*range(self.start - PAGE, self._end + PAGE, PAGE), *self._labels):
            if at // PAGE not in self._code_pages:
                self._code_pages.add(at // PAGE)
                self._core.mem_map(at // PAGE * PAGE, PAGE)
                self._core.mem_write(at // PAGE * PAGE, halt)
        self._core.mem_write(self.start, text)
        self._pages: set[int] = set()
        self._case: Case | None = None
        self._recorder = Recorder(self._core)
        unmapped = unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED
        self._core.hook_add(unmapped, self._on_page)
        self._reached: set[int] = set()
        self._directions: set[tuple[int, bool]] = set()

    def observe(self, names: Collection[str]) -> None:
        """Set and read these registers alone, since each takes as long as many instructions."""
        self._observed = {n: at for n, at in self.registers.numbers.items() if n in names}

    def prepare(self, case: Case) -> None:
        """Write a case's registers and memory into the core."""
        self._case = case
        if len(self._pages) > _MOST_PAGES:
            for page in self._pages:
                self._core.mem_unmap(page * PAGE, PAGE)
            self._pages.clear()
        for page in self._pages:
            self._core.mem_write(page * PAGE, _content(case, page))
        values = {**case.registers, **dict(zip(self.registers.vectors, case.vectors, strict=True))}
        written = [(number, values[name]) for name, number in self._observed.items()]
        self._core.reg_write_batch([*written, (self.registers.flags, case.flags | 2)])
        self._recorder.clear()

    def run(self, case: Case, most_steps: int, at: int = 0) -> _End:
        """Run from a byte offset of the code to an exit, for at most so many steps."""
        self.prepare(case)
        error = ""
        try:
            self._core.emu_start(self.start + at, 0, count=most_steps)
        except UcError as caught:
            error = f"it stops: {caught}"
            if caught.errno == unicorn.UC_ERR_INSN_INVALID:
                error = _NO_AVX
        steps = self._recorder.steps.copy()
        last = int(steps["address"][-1]) if len(steps) else 0
        label = self._labels.get(last, "")
        outside = not self.start <= last < self._end
        if label and outside:
            error = ""
        if outside and not label and not error:
            error = f"it goes to {last:#x}"
        if outside:
            steps = steps[:-1]
        reached = set(steps["address"].tolist())
        if not reached <= self._addresses:  # such code may use registers that are not observed
            error = error or "it goes to the middle of an instruction"
        self._reached |= reached
        beyond = np.array([last] if outside else [], np.uint64)
        self._record_directions(np.append(steps["address"], beyond))
        numbers = [*self._observed.values(), self.registers.flags]
        *values, flags = map(int, self._core.reg_read_batch(numbers))
        registers = dict(zip(self._observed, values, strict=True))
        return _End(label, registers, flags, steps, error)

    def _record_directions(self, addresses: NDArray[np.uint64]) -> None:
        for ins in self.body:
            if ins.conditional:
                through = addresses[1:][addresses[:-1] == ins.at] == ins.end
                self._directions |= {(ins.at, bool(one)) for one in np.unique(through)}

    def unreached(self) -> str:
        """Return the first instruction, or branch direction, that no run reached; "" if none."""
        # After unrolling by two the remainder loop runs once at most: it never branches back.
        left_loop = any(
            i.conditional and (i.target or 0) <= i.at and (i.at, False) in self._directions
            for i in self.body
        )
        for ins in self.body:
            text = ins.text
            if ins.target is not None:  # it names an address of the emulated core
                text = f"{text.split()[0]} at byte {ins.at - self.start}"
            if ins.at not in self._reached:
                return text
            if ins.conditional:
                for through in (False, True):
                    back = not through and (ins.target or 0) <= ins.at
                    if (ins.at, through) not in self._directions and not (back and left_loop):
                        return f"{text} {'not taken' if through else 'taken'}"
        return ""

    def page(self, number: int) -> bytes:
        if number in self._pages:
            return bytes(self._core.mem_read(number * PAGE, PAGE))
        return _content(self._case, number) if self._case else b""

    def read(self, address: int, size: int) -> int:
        """Return an integer from memory, little-endian."""
        content = bytearray()
        for at in range(address, address + size):
            at &= _MASK64
            content.append(self.page(at // PAGE)[at % PAGE])
        return int.from_bytes(content, "little")

    def register(self, name: str) -> int:
        return int(self._core.reg_read(self.registers.numbers[name]))

    def stepped_path(self, case: Case) -> Iterator["_Instruction"]:
        """Yield each instruction before it is executed, on the path that stays in the loop."""
        self.prepare(case)
        n, iterations = 0, 0
        while iterations < _MOST_PROBED:
            ins = self.body[n]
            yield ins
            try:
                self._core.emu_start(ins.at, 0, count=1)
            except UcError:
                return
            n += 1
            if n == len(self.body):
                n, iterations = 0, iterations + 1

    def _on_page(
        self, core: Uc, _kind: int, address: int, size: int, _value: int, _data: object
    ) -> bool:
        for page in {address // PAGE, (address + size - 1 & _MASK64) // PAGE}:
            if page in self._pages or page in self._code_pages or self._case is None:
                continue
            try:
                core.mem_map(page * PAGE, PAGE)
            except UcError:
                return False
            core.mem_write(page * PAGE, _content(self._case, page))
            self._pages.add(page)
        return True


def _content(case: Case, page: int) -> bytes:
    """Return a page's initial contents."""
    content = bytearray(_generated(case.seed, case.style, page))
    for start, patch in case.patches.items():
        for at, byte in enumerate(patch, start):
            if at // PAGE == page:
                content[at % PAGE] = byte
    return bytes(content)


@lru_cache(maxsize=512)
def _generated(seed: int, style: str, page: int) -> bytes:
    draw = np.random.Generator(np.random.PCG64([seed, page & 0xFFFF_FFFF, page >> 32]))
    if style == "mixed":
        style = _STYLES[int(draw.integers(4))]
    if style == "few":
        content = draw.choice(np.array([0, 1, 0x2F, 0x41, 0xFF], dtype=np.uint8), PAGE)
    elif style == "zeros":
        content = (draw.random(PAGE) < 0.02).astype(np.uint8)
    elif style == "one":
        content = np.where(draw.random(PAGE) < 0.05, 0, 0x41).astype(np.uint8)
    elif style == "pointers":
        words = _BUFFERS + draw.integers(0, 1 << 12, PAGE // 8) * 8
        content = words.astype("<u8").view(np.uint8)
    else:
        content = draw.integers(0, 256, PAGE, dtype=np.uint8)
    return content.tobytes()


def _cases(side: _Side, draw: random.Random) -> Iterator[Case]:
    """Yield random cases, and cases that end the loop by each branch after some iterations."""
    bases = list(
        dict.fromkeys([side.registers.stack, *(b for i in side.body for b, _ in i.addresses)])
    )
    indices = [n for n in dict.fromkeys(n for i in side.body for _, n in i.addresses) if n]
    indices = [n for n in indices if n not in bases]
    written = {n for i in side.body for n in i.written}
    moving = {name: name in bases for name in written}
    tests = _tests(side.body)
    for number in itertools.count():
        case = _random_case(side.registers, [b for b in bases if b], indices, draw, number)
        if number < _RANDOM_CASES:
            yield case
        for test in tests if number % 32 == 0 else ():
            yield from _directed_cases(side, case, test, moving, draw)
        if number >= _RANDOM_CASES:
            return


def _random_case(
    isa_registers: _Registers,
    bases: Sequence[str],
    indices: Sequence[str],
    draw: random.Random,
    number: int,
) -> Case:
    """Return a random case: buffers far apart or close together, and numbers of all sizes."""
    registers = {name: _number(draw) for name in isa_registers.names}
    near = draw.random() < 0.4
    common = _BUFFERS + draw.randrange(0x1000)
    for n, name in enumerate(bases):
        address = _BUFFERS + (n + 1) * _BUFFER_DISTANCE + draw.randrange(2 * PAGE)
        if near and name != isa_registers.stack:
            address = common + draw.randrange(-72, 72)
        registers[name] = address & ~7 if draw.random() < 0.3 else address
        if name == "sp":
            registers[name] &= ~15
    for name in indices:
        registers[name] = draw.choice((0, 1, 2, 8, 64, draw.randrange(512), -draw.randrange(512)))
        registers[name] &= _MASK64
    vectors = [draw.getrandbits(128) for _ in isa_registers.vectors]
    flags = draw.getrandbits(12) & (_CARRY_BIT | _OTHER_BITS | 0x10)
    if CARRY not in isa_registers.flag_bits:
        flags = draw.getrandbits(4) << 28
    return Case(registers, vectors, flags, draw.getrandbits(32), _STYLES[number % len(_STYLES)])


def _number(draw: random.Random) -> int:
    kind = draw.randrange(5)
    if kind == 0:
        return draw.choice(_EDGES)
    if kind == 1:
        return draw.randrange(40)
    if kind == 2:
        return draw.choice((0, 1, 0x2F, 0x41, 0xFF))
    if kind == 3:
        return draw.getrandbits(32)
    return draw.getrandbits(64)


class _Operand(NamedTuple):
    """A register, a constant, or memory: base, index, scale and constant of its address."""

    register: str = ""
    constant: int = 0
    memory: tuple[str, str, int, int] | None = None


class _Instruction(NamedTuple):
    """The properties of an instruction that the choice of cases depends on.

    used are all registers that it reads or writes, addresses base and index of its memory accesses;
    load is the loaded register, the memory operand and the size in bytes. test has the operands
    that decide its flags or its branch: two operands of size bytes if compares, else one, of which
    the value zero_at makes the result zero.
    """

    at: int
    end: int
    text: str
    target: int | None
    conditional: bool
    used: frozenset[str]
    written: frozenset[str]
    addresses: Sequence[tuple[str, str]]
    load: tuple[str, _Operand, int] | None
    test: Sequence[_Operand] | None
    size: int = 8
    compares: bool = False
    zero_at: int = 0


def _tests(body: Sequence[_Instruction]) -> list[_Instruction]:
    """Return the instructions that set the flags of each branch, and compare-and-branch ones."""
    out: dict[int, _Instruction] = {}
    setter: _Instruction | None = None
    for ins in (*body, *body):
        if ins.test is not None:
            setter = ins
        if ins.conditional and setter is not None:
            out[setter.at] = setter
    return list(out.values())


def _whole_name(register: "iced.Register_") -> str:
    """Return the name in `_Registers` of the register that a register is part of."""
    vector = iced.RegisterExt.full_register(register) - iced.Register.ZMM0
    return f"zmm{vector}" if 0 <= vector < 16 else full_name(register)


def _decoded_x86(text: bytes, start: int) -> Iterator[_Instruction]:
    factory, formatter = iced.InstructionInfoFactory(), iced.Formatter(iced.FormatterSyntax.GAS)
    for ins in iced.Decoder(64, text, ip=start):
        if ins.is_invalid:
            continue
        info = factory.info(ins)
        used = {_whole_name(u.register) for u in info.used_registers()}
        written = {full_name(u.register) for u in info.used_registers() if u.access not in _READS}
        addresses = [(full_name(m.base), full_name(m.index)) for m in info.used_memory()]
        if ins.mnemonic in (iced.Mnemonic.LEA, iced.Mnemonic.NOP):
            addresses = []
        size = int(iced.MemorySizeExt.size(ins.memory_size))
        operands = [_x86_operand(ins, n) for n in range(min(2, ins.op_count))]
        conditional = X86_FLOW.get(ins.flow_control) is Flow.BRANCH
        conditional = conditional and near_target(ins) is not None
        loads = ins.mnemonic in _LOADS and len(operands) > 1 and operands[1].memory
        load = (operands[0].register, operands[1], size) if loads and operands[0].register else None
        sizes = [iced.RegisterExt.size(ins.op_register(n)) for n in range(ins.op_count)]
        width = next((int(x) for x in sizes if x), size)
        compares = ins.mnemonic in (iced.Mnemonic.CMP, iced.Mnemonic.SUB) and len(operands) == 2
        zero_at = {iced.Mnemonic.INC: -1, iced.Mnemonic.DEC: 1}.get(ins.mnemonic, 0)
        if ins.mnemonic == iced.Mnemonic.ADD and len(operands) == 2:
            zero_at = -operands[1].constant
        yield _Instruction(
            int(ins.ip), int(ins.next_ip), " ".join(formatter.format(ins).split()),
            near_target(ins), conditional, frozenset(used), frozenset(written), addresses, load,
            operands if ins.rflags_modified and not conditional else None,
            min(8, max(1, width)), compares, zero_at,
        )  # fmt: skip


_READS = (iced.OpAccess.READ, iced.OpAccess.COND_READ)
_LOADS = (iced.Mnemonic.MOV, iced.Mnemonic.MOVZX, iced.Mnemonic.MOVSX, iced.Mnemonic.MOVSXD)
_STRING_REGISTERS = {
    iced.OpKind.MEMORY_SEG_RSI: "rsi",
    iced.OpKind.MEMORY_SEG_RDI: "rdi",
    iced.OpKind.MEMORY_ESRDI: "rdi",
    iced.OpKind.MEMORY_SEG_ESI: "rsi",
    iced.OpKind.MEMORY_SEG_EDI: "rdi",
    iced.OpKind.MEMORY_ESEDI: "rdi",
}


def _x86_operand(ins: iced.Instruction, n: int) -> _Operand:
    if ins.op_kind(n) == iced.OpKind.REGISTER:
        return _Operand(full_name(ins.op_register(n)))
    if ins.op_kind(n) in _STRING_REGISTERS:
        return _Operand(memory=(_STRING_REGISTERS[ins.op_kind(n)], "", 1, 0))
    if ins.op_kind(n) != iced.OpKind.MEMORY:
        return _Operand(constant=int(ins.immediate(n)) if near_target(ins) is None else 0)
    disp = int(ins.memory_displacement)
    if ins.is_ip_rel_memory_operand:
        return _Operand(memory=("", "", 1, disp))
    base, index = full_name(ins.memory_base), full_name(ins.memory_index)
    return _Operand(memory=(base, index, ins.memory_index_scale, disp))


_ADDRESS = re.compile(r"\[(\w+)(?:, (?:#(-?\w+)|([xw]\d+)(?:, \w+(?: #(\d+))?)?))?\]")
# The first compared operand of instructions that set flags or branch by a register.
_FIRST_OPERAND = {"cmp": 0, "cmn": 0, "tst": 0, "subs": 1, "adds": 1, "ands": 1,
                  "cbz": 0, "cbnz": 0, "tbz": 0, "tbnz": 0}  # fmt: skip
_ARM64_LOAD = re.compile(r"ldu?r(b|h|)$")
# Capstone misses some of the registers that an instruction names.
_REGISTER_NAME = re.compile(r"\b[wxbhsdqv]\d+\b")


def _decoded_arm64(code: bytes, start: int) -> Iterator[_Instruction]:
    for ins in decode("arm64", code, start):
        effects = arm64_effects(ins.code)
        named = {full("arm64", name) for name in _REGISTER_NAME.findall(ins.text)}
        text = " ".join(ins.text.split())
        address = _ADDRESS.search(text)
        memory = None
        if address:
            shift, index = int(address[4] or 0), full("arm64", address[3] or "")
            memory = _Operand(memory=(address[1], index, 1 << shift, int(address[2] or "0", 0)))
        operands = re.split(r",\s*", text.partition(" ")[2].partition("[")[0])
        loads = _ARM64_LOAD.match(ins.mnemonic)
        width = 4 if operands[0].startswith("w") else 8
        load = None
        if loads and memory and operands[0][0] in "wx":
            load = (full("arm64", operands[0]), memory, {"b": 1, "h": 2}.get(loads[1], width))
        test = None
        if (first := _FIRST_OPERAND.get(ins.mnemonic)) is not None:
            test = [_arm64_operand(operand) for operand in operands[first : first + 2]]
            test = test[:1] if ins.mnemonic[0] in "ct" and ins.mnemonic[1] == "b" else test
        zero_at = -test[1].constant if ins.mnemonic in ("cmn", "adds") and test else 0
        yield _Instruction(
            ins.address, ins.end, text, ins.target, effects.flow is Flow.BRANCH,
            effects.reads | effects.writes | named,
            frozenset(r for r in effects.writes if r[0] in "xs"),
            [(address[1], full("arm64", address[3] or ""))] if address else [],
            load, test, width, ins.mnemonic in ("cmp", "subs"), zero_at,
        )  # fmt: skip


def _arm64_operand(text: str) -> _Operand:
    if text.startswith("#"):
        return _Operand(constant=int(text[1:], 0))
    return _Operand() if text in ("xzr", "wzr") else _Operand(full("arm64", text))


@dataclass(frozen=True)
class _Compared:
    """The values of both operands in one iteration, and the memory they were loaded from."""

    values: tuple[int, int]
    locations: tuple["_Location | None", "_Location | None"]


@dataclass(frozen=True)
class _Location:
    """A memory location: address and size in bytes."""

    address: int
    size: int


def _directed_cases(
    side: _Side, case: Case, test: _Instruction, moving: Mapping[str, bool], draw: random.Random
) -> Iterator[Case]:
    """Yield changed cases in which a comparison's operands are equal, or nearly, in some iteration.

    moving are the registers that the loop writes, True for those that address memory. Such a
    register keeps its value where the other operand can be changed.
    """
    bits = 8 * test.size
    mask = (1 << bits) - 1
    comparisons = []
    loaded: dict[str, _Location] = {}
    for ins in side.stepped_path(case):
        if ins.at == test.at:
            comparisons.append(_operand_values(side, ins, loaded))
        for name in ins.written:
            loaded.pop(name, None)
        if ins.load:
            into, source, size = ins.load
            loaded[into] = _Location(_address(side, source), size)
    operands = [*(test.test or ()), _Operand(), _Operand()]
    registers = [operand.register or None for operand in operands[:2]]
    deltas = (1, -1, 3, -5, 200, -200, 1 << (bits - 1))
    for n in (n for n in _END_ITERATIONS if n <= len(comparisons)):
        compared = comparisons[n - 1]
        for delta in (0, *(deltas if n == 1 else [draw.choice(deltas)])):
            for which, other in ((0, 1), (1, 0)) if test.compares else ((0, 1),):
                wanted = (compared.values[other] + delta) & mask
                register, location = registers[which], compared.locations[which]
                fixed = registers[other] and registers[other] not in moving
                other_changes = compared.locations[other] is not None or fixed
                if register is not None and not (moving.get(register) and other_changes):
                    # The value of an invariant register, or the initial value of one that moves.
                    old = case.registers[register]
                    value = wanted
                    if register in moving:
                        value = (old + wanted - compared.values[which]) & mask
                    changed = {**case.registers, register: (old & ~mask | value) & _MASK64}
                    yield replace(case, registers=changed)
                if location is not None:
                    content = (wanted % (1 << 8 * location.size)).to_bytes(location.size, "little")
                    yield replace(case, patches={**case.patches, location.address: content})


def _operand_values(side: _Side, test: _Instruction, loaded: Mapping[str, _Location]) -> _Compared:
    """Return the operands of a test that is about to be executed.

    The second one of a test that compares nothing is the value for a zero result.
    """
    mask = (1 << 8 * test.size) - 1
    values: list[int] = []
    locations: list[_Location | None] = []
    for operand in test.test or ():
        location = loaded.get(operand.register)
        if operand.memory:
            location = _Location(_address(side, operand), test.size)
            values.append(side.read(location.address, test.size))
        elif operand.register:
            values.append(side.register(operand.register) & mask)
        else:
            values.append(operand.constant & mask)
        locations.append(location)
    if test.compares:
        return _Compared((values[0], values[1]), (locations[0], locations[1]))
    return _Compared(
        (values[0] if values else 0, test.zero_at & mask),
        (locations[0] if locations else None, None),
    )


def _address(side: _Side, operand: _Operand) -> int:
    base, index, scale, disp = operand.memory or ("", "", 1, 0)
    at = disp + (side.register(base) if base else 0)
    return at + (scale * side.register(index) if index else 0) & _MASK64
