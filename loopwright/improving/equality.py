"""Equality of two loops, by runs of both in an emulated core from the same registers and memory."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import iced_x86 as iced
import numpy as np
import unicorn
from numpy.typing import NDArray
from unicorn import x86_const
from unicorn.unicorn import Uc, UcError

from loopwright.code.instructions import X86_FLOW, Flow, near_target
from loopwright.improving.bare import BEHIND, Bare
from loopwright.improving.listing import CARRY, FLAGS
from loopwright.measuring.block_path import EVERY_X86, full_name
from loopwright.tracing.emulator import PAGE, Recorder, core_of, register_of

_START = 0x5555_0000_0000
_BUFFERS = 0x2100_0000
_APART = 0x10_0000
_NO_AVX = "an instruction that the emulator does not know (it has no AVX)"
_HALT = 0xF4
_MOST_STEPS = 4000
_PROBED = 26  # iterations of which a comparison's values are looked at
_ENDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18, 19, 24, 25)
_RANDOM = 160
_MOST_PAGES = 24
_CARRY_BIT, _OTHER_BITS = 0x1, 0x8C4  # parity, zero, sign and overflow
_EDGES = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, (1 << 63) - 1,
          1 << 63, (1 << 64) - 1, (1 << 64) - 8)  # fmt: skip
_STYLES = ("random", "few", "zeros", "pointers", "one", "mixed")
_NUMBERS = {name: register_of("x86_64", name) for name in EVERY_X86}
_EVERY = (
    *_NUMBERS.values(),
    *(x86_const.UC_X86_REG_XMM0 + n for n in range(16)),
    x86_const.UC_X86_REG_EFLAGS,
)
_M64 = (1 << 64) - 1


@dataclass(frozen=True)
class Proof:
    """What runs of two loops said: equal, after so many of them, or the first difference.

    missing says what of the code no run reached, unproven why an SMT solver did not show that the
    loops are equal ("" where it did). One of the two has to: else they count as not proven.
    """

    cases: int
    failure: str = ""
    missing: str = ""
    unproven: str = "not asked"

    @property
    def holds(self) -> bool:
        """Say whether the loops are equal, by a proof or as far as runs can say."""
        return not self.failure and not (self.missing and self.unproven)

    def __str__(self) -> str:
        """Return it in words."""
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
    """Contents of registers and memory to begin with; patches are bytes by address."""

    registers: Mapping[str, int]
    vectors: Sequence[int]
    flags: int
    seed: int
    style: str
    patches: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class _End:
    """Where a run ended ("" where it goes on), with what there is to compare."""

    label: str
    registers: Mapping[str, int]
    flags: int
    vectors: Sequence[int]
    steps: NDArray[np.void]
    error: str = ""


def compare(
    bare: Bare, new: bytes, entries: Mapping[str, int] | None = None, seed: int = 0
) -> Proof:
    """Run a loop and its new code side by side, from each of its entries.

    entries says where the new code has those within the loop, if not where the loop has them.
    They have to leave at the same place, with the same memory and the same live registers and
    flags, and the new one may access no byte that the old one does not. What runs reach of either
    has to be all of it: every instruction, and both ways of every branch.
    """
    if bare.isa != "x86_64":
        return Proof(0, missing="loops of AArch64 are not run side by side")
    if why := _unfit(bare):
        return Proof(0, missing=why)
    old, other = _Side(bare, bare.code), _Side(bare, new)
    count = 0
    ended: set[str] = set()
    starts = [(0, 0), *((at, (entries or bare.entries)[n]) for n, at in bare.entries.items())]
    cases = ((case, start) for case in _cases(old, random.Random(seed)) for start in starts)
    for case, (at, new_at) in cases:
        mine = old.run(case, _MOST_STEPS, at)
        if mine.error:
            if mine.error.startswith("an instruction"):
                return Proof(count, missing=mine.error)
            continue
        # Copies may need more steps or less: what goes on in one goes on in the first of the other.
        its = other.run(case, 4 * _MOST_STEPS if mine.label else _MOST_STEPS // 4, new_at)
        count += 1
        if why := _difference(bare, old, other, mine, its):
            return Proof(count, f"{why} (run {count})")
        if mine.label:
            ended.add(mine.label)
    return Proof(count, missing=_missing(bare, old, other, ended))


def _unfit(bare: Bare) -> str:
    near = (p for name, p in bare.places.items() if name.startswith(".Lmemory"))
    if any(-PAGE < p.distance < 4 * PAGE for p in near):
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


def _missing(bare: Bare, old: "_Side", new: "_Side", ended: set[str]) -> str:
    if never := sorted(bare.listing.leaving.keys() - ended):
        where = "behind its branch" if never[0] == BEHIND else f"at {never[0]}"
        return f"no run made the loop end {where}"
    for side in (old, new):
        if unreached := side.unreached():
            return f"no run reached {unreached}"
    return ""


def _difference(bare: Bare, old: "_Side", new: "_Side", mine: _End, its: _End) -> str:
    """Return the first difference of two ends, in words; nothing where there is none."""
    if its.error:
        return its.error if mine.label else ""
    if mine.label != its.label:
        return f"it ends at {its.label or 'no place'} and not at {mine.label or 'none'}"
    if not mine.label:
        a, b = (_accesses(one.steps, "store", whole=False) for one in (mine, its))
        most = min(len(a), len(b))
        return "" if a[:most] == b[:most] else "a loop that does not end stores elsewhere"
    live = bare.listing.leaving[mine.label]
    for name in EVERY_X86:
        if name in live and mine.registers[name] != its.registers[name]:
            return f"{name} is {its.registers[name]:#x} and not {mine.registers[name]:#x}"
    for n in range(16):
        if f"zmm{n}" in live and mine.vectors[n] != its.vectors[n]:
            return f"xmm{n} differs"
    for kind, bits in ((CARRY, _CARRY_BIT), (FLAGS, _OTHER_BITS)):
        if kind in live and (mine.flags ^ its.flags) & bits:
            return f"flags are {its.flags & bits:#x} and not {mine.flags & bits:#x}"
    loads, stores = (_bytes(mine.steps, kind) for kind in ("load", "store"))
    if more := _bytes(its.steps, "load") - loads - stores:
        return f"it loads from {min(more):#x}, which the loop does not touch"
    if (others := _bytes(its.steps, "store")) != stores:
        return f"it stores to other places, such as {min(others ^ stores):#x}"
    for page in sorted({at // PAGE for at in stores}):
        if old.page(page) != new.page(page):
            return f"memory differs in the page of {page * PAGE:#x}"
    return ""


def _accesses(steps: NDArray[np.void], kind: str, *, whole: bool = True) -> list[tuple[int, int]]:
    chosen = steps[steps[f"{kind}s"] > 0]
    pairs = zip(chosen[kind].tolist(), chosen[f"{kind}_bytes"].tolist(), strict=True)
    return list(dict.fromkeys(pairs)) if whole else list(pairs)


def _bytes(steps: NDArray[np.void], kind: str) -> set[int]:
    return {at + n for at, size in _accesses(steps, kind) for n in range(size)}


class _Side:
    """A loop's code in an emulated core; memory is there when it is touched."""

    def __init__(self, bare: Bare, text: bytes) -> None:
        self.start = _START + bare.offset
        self.body = [i for i in iced.Decoder(64, text, ip=self.start) if not i.is_invalid]
        self._end = self.start + len(text)
        self._core: Any = core_of("x86_64")
        self._labels = {self._end: BEHIND}
        for name, place in bare.places.items():
            if name in bare.listing.leaving:
                self._labels[(self._end if place.behind else self.start) + place.distance] = name
        self._code_pages: set[int] = set()
        for at in (*range(self.start - PAGE, self._end + PAGE, PAGE), *self._labels):
            if at // PAGE not in self._code_pages:
                self._code_pages.add(at // PAGE)
                self._core.mem_map(at // PAGE * PAGE, PAGE)
                self._core.mem_write(at // PAGE * PAGE, bytes([_HALT]) * PAGE)
        self._core.mem_write(self.start, text)
        self._pages: set[int] = set()
        self._case: Case | None = None
        self._recorder = Recorder(self._core)
        untouched = unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED
        self._core.hook_add(untouched, self._on_page)
        self._reached: set[int] = set()
        self._ways: set[tuple[int, bool]] = set()

    def prepare(self, case: Case) -> None:
        """Begin with a case."""
        self._case = case
        if len(self._pages) > _MOST_PAGES:
            for page in self._pages:
                self._core.mem_unmap(page * PAGE, PAGE)
            self._pages.clear()
        for page in self._pages:
            self._core.mem_write(page * PAGE, _content(case, page))
        values = [case.registers[name] for name in EVERY_X86]
        written = zip(_EVERY, [*values, *case.vectors, case.flags | 2], strict=True)
        self._core.reg_write_batch(list(written))
        self._recorder.clear()

    def run(self, case: Case, most: int, at: int = 0) -> _End:
        """Run from a byte of the code to where the loop is left, or for so many steps at most."""
        self.prepare(case)
        error = ""
        try:
            self._core.emu_start(self.start + at, 0, count=most)
        except UcError as found:
            error = f"it stops: {found}"
            if found.errno == unicorn.UC_ERR_INSN_INVALID:
                error = _NO_AVX
        steps = self._recorder.steps.copy()
        last = int(steps["address"][-1]) if len(steps) else 0
        label = self._labels.get(last, "")
        outside = not self.start <= last < self._end
        if outside and not label and not error:
            error = f"it goes to {last:#x}"
        if outside:
            steps = steps[:-1]
        self._saw([*steps["address"].tolist(), *([last] if outside else [])])
        values = list(map(int, self._core.reg_read_batch(_EVERY)))
        registers = dict(zip(EVERY_X86, values, strict=False))
        return _End(label, registers, values[-1], values[16:32], steps, error)

    def _saw(self, chain: Sequence[int]) -> None:
        self._reached |= set(chain)
        pairs = set(itertools.pairwise(chain))
        branches = {i.ip: i.next_ip for i in self.body if _conditional(i)}
        self._ways |= {(at, to == branches[at]) for at, to in pairs if at in branches}

    def unreached(self) -> str:
        """Return the first instruction, or way of a branch, that no run reached."""
        # Less iterations than a turn of the main loop does may never be two.
        turned = any(
            _conditional(i) and (near_target(i) or 0) <= i.ip and (i.ip, False) in self._ways
            for i in self.body
        )
        for ins in self.body:
            text = " ".join(iced.Formatter(iced.FormatterSyntax.GAS).format(ins).split())
            if near_target(ins) is not None:  # it names an address of the emulated core
                text = f"{text.split()[0]} at byte {ins.ip - self.start}"
            if ins.ip not in self._reached:
                return text
            if _conditional(ins):
                for through in (False, True):
                    back = not through and (near_target(ins) or 0) <= ins.ip
                    if (ins.ip, through) not in self._ways and not (back and turned):
                        return f"{text} {'not taken' if through else 'taken'}"
        return ""

    def page(self, number: int) -> bytes:
        """Return a page's bytes."""
        if number in self._pages:
            return bytes(self._core.mem_read(number * PAGE, PAGE))
        return _content(self._case, number) if self._case else b""

    def read(self, address: int, size: int) -> int:
        """Return what memory holds."""
        out = bytearray()
        for at in range(address, address + size):
            at &= _M64
            out.append(self.page(at // PAGE)[at % PAGE])
        return int.from_bytes(out, "little")

    def register(self, name: str) -> int:
        """Return the value of a register."""
        return int(self._core.reg_read(_NUMBERS[name]))

    def iterations(self, case: Case) -> Iterator[iced.Instruction]:
        """Yield each instruction before it is executed, always on the path that turns."""
        self.prepare(case)
        n, turns = 0, 0
        while turns < _PROBED:
            ins = self.body[n]
            yield ins
            try:
                self._core.emu_start(ins.ip, 0, count=1)
            except UcError:
                return
            n += 1
            if n == len(self.body):
                n, turns = 0, turns + 1

    def _on_page(
        self, core: Uc, _kind: int, address: int, size: int, _value: int, _data: object
    ) -> bool:
        for page in {address // PAGE, (address + size - 1 & _M64) // PAGE}:
            if page in self._pages or page in self._code_pages or self._case is None:
                continue
            try:
                core.mem_map(page * PAGE, PAGE)
            except UcError:
                return False
            core.mem_write(page * PAGE, _content(self._case, page))
            self._pages.add(page)
        return True


def _conditional(ins: iced.Instruction) -> bool:
    return X86_FLOW.get(ins.flow_control) is Flow.BRANCH and near_target(ins) is not None


def _content(case: Case, page: int) -> bytes:
    """Return what a page holds at first."""
    made = _unpatched(case.seed, case.style, page)
    here = [one for one in case.patches if -8 < page * PAGE - one < PAGE + 8 or one // PAGE == page]
    if not here:
        return made
    out = bytearray(made)
    for at in here:
        for n, byte in enumerate(case.patches[at]):
            if (at + n) // PAGE == page:
                out[(at + n) % PAGE] = byte
    return bytes(out)


@lru_cache(maxsize=512)
def _unpatched(seed: int, style: str, page: int) -> bytes:
    draw = np.random.Generator(np.random.PCG64([seed, page & 0xFFFF_FFFF, page >> 32]))
    if style == "mixed":
        style = _STYLES[int(draw.integers(4))]
    if style == "few":
        made = draw.choice(np.array([0, 1, 0x2F, 0x41, 0xFF], dtype=np.uint8), PAGE)
    elif style == "zeros":
        made = (draw.random(PAGE) < 0.02).astype(np.uint8)
    elif style == "one":
        made = np.where(draw.random(PAGE) < 0.05, 0, 0x41).astype(np.uint8)
    elif style == "pointers":
        words = _BUFFERS + draw.integers(0, 1 << 12, PAGE // 8) * 8
        made = words.astype("<u8").view(np.uint8)
    else:
        made = draw.integers(0, 256, PAGE, dtype=np.uint8)
    return made.tobytes()


def _cases(side: _Side, draw: random.Random) -> Iterator[Case]:
    """Yield cases: such as end the loop by each of its branches, after few and many iterations."""
    bases, indices = _roles(side.body)
    written = {n for i in side.body for n in _written(i)}
    moving = {name: name in bases for name in written}
    ends = _tests(side.body)
    for number in itertools.count():
        case = _drawn(bases, indices, draw, number)
        if number < _RANDOM:
            yield case
        for test in ends if number % 32 == 0 else ():
            yield from _directed(side, case, test, moving, draw)
        if number >= _RANDOM:
            return


def _roles(body: Sequence[iced.Instruction]) -> tuple[list[str], list[str]]:
    """Return the registers that address memory: as bases, and as indices."""
    bases: dict[str, None] = {"rsp": None}
    indices: dict[str, None] = {}
    info = iced.InstructionInfoFactory()
    for ins in body:
        if ins.mnemonic in (iced.Mnemonic.LEA, iced.Mnemonic.NOP):
            continue
        for memory in info.info(ins).used_memory():
            base, index = full_name(memory.base), full_name(memory.index)
            if base:
                bases.setdefault(base)
            elif index:
                indices.setdefault(index)
            if base and index:
                indices.setdefault(index)
    return list(bases), [name for name in indices if name not in bases]


def _written(ins: iced.Instruction) -> Iterator[str]:
    for used in iced.InstructionInfoFactory().info(ins).used_registers():
        if used.access not in (iced.OpAccess.READ, iced.OpAccess.COND_READ):
            yield full_name(used.register)


def _drawn(bases: Sequence[str], indices: Sequence[str], draw: random.Random, number: int) -> Case:
    """Return a case: buffers apart, or near one another, and numbers of all sizes."""
    registers = {name: _number(draw) for name in EVERY_X86}
    near = draw.random() < 0.4
    common = _BUFFERS + draw.randrange(0x1000)
    for n, name in enumerate(bases):
        place = _BUFFERS + (n + 1) * _APART + draw.randrange(2 * PAGE)
        if near and name != "rsp":
            place = common + draw.randrange(-72, 72)
        registers[name] = place & ~7 if draw.random() < 0.3 else place
    for name in indices:
        registers[name] = draw.choice((0, 1, 2, 8, 64, draw.randrange(512), -draw.randrange(512)))
        registers[name] &= _M64
    vectors = [draw.getrandbits(128) for _ in range(16)]
    flags = draw.getrandbits(12) & (_CARRY_BIT | _OTHER_BITS | 0x10)
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


def _tests(body: Sequence[iced.Instruction]) -> list[iced.Instruction]:
    """Return what sets the flags of each branch."""
    out: dict[int, iced.Instruction] = {}
    setter: iced.Instruction | None = None
    for ins in (*body, *body):
        if _conditional(ins):
            if setter is not None:
                out[setter.ip] = setter
        elif ins.rflags_modified:
            setter = ins
    return list(out.values())


@dataclass(frozen=True)
class _Seen:
    """Both sides of a comparison in one iteration; places are where they were loaded from."""

    values: tuple[int, int]
    places: tuple["_Place | None", "_Place | None"]


@dataclass(frozen=True)
class _Place:
    """Bytes of memory."""

    address: int
    size: int


def _directed(
    side: _Side, case: Case, test: iced.Instruction, moving: Mapping[str, bool], draw: random.Random
) -> Iterator[Case]:
    """Yield a case changed so that a comparison is of equals, or nearly, in some iteration.

    moving are the registers that the loop writes, with whether they address memory: such one stays
    where it is if the other side can be changed.
    """
    bits = 8 * _size(test)
    mask = (1 << bits) - 1
    seen = []
    loaded: dict[str, _Place] = {}
    for ins in side.iterations(case):
        if ins.ip == test.ip:
            seen.append(_sides(side, ins, loaded))
        for name in _written(ins):
            loaded.pop(name, None)
        if _loads(ins) and (into := _plain_register(ins, 0)):
            loaded[into] = _Place(
                _address(side, ins), int(iced.MemorySizeExt.size(ins.memory_size))
            )
    registers = [_plain_register(test, n) for n in (0, 1)]
    deltas = (1, -1, 3, -5, 200, -200, 1 << (bits - 1))
    for n in (n for n in _ENDS if n <= len(seen)):
        at = seen[n - 1]
        for delta in (0, *(deltas if n == 1 else [draw.choice(deltas)])):
            for mine in (0, 1) if _compares(test) else (0,):
                this, wanted = at.values[mine], (at.values[1 - mine] + delta) & mask
                register, place = registers[mine], at.places[mine]
                other = registers[1 - mine]
                free = at.places[1 - mine] is not None or (other and other not in moving)
                if register is not None and not (moving.get(register) and free):
                    # What an invariant holds, or where one that moves begins.
                    old = case.registers[register]
                    value = wanted if register not in moving else (old + wanted - this) & mask
                    changed = {**case.registers, register: (old & ~mask | value) & _M64}
                    yield replace(case, registers=changed)
                if place is not None:
                    content = (wanted % (1 << 8 * place.size)).to_bytes(place.size, "little")
                    yield replace(case, patches={**case.patches, place.address: content})


def _loads(ins: iced.Instruction) -> bool:
    moves = (iced.Mnemonic.MOV, iced.Mnemonic.MOVZX, iced.Mnemonic.MOVSX, iced.Mnemonic.MOVSXD)
    memory = ins.op_count > 1 and ins.op_kind(1) == iced.OpKind.MEMORY
    return ins.mnemonic in moves and memory


def _compares(test: iced.Instruction) -> bool:
    return test.mnemonic in (iced.Mnemonic.CMP, iced.Mnemonic.SUB) and test.op_count == 2


def _size(test: iced.Instruction) -> int:
    """Return the bytes that a comparison is of."""
    for n in range(test.op_count):
        if test.op_kind(n) == iced.OpKind.REGISTER:
            return min(8, int(iced.RegisterExt.size(test.op_register(n))))
    return min(8, max(1, int(iced.MemorySizeExt.size(test.memory_size))))


def _plain_register(test: iced.Instruction, n: int) -> str | None:
    if n >= test.op_count or test.op_kind(n) != iced.OpKind.REGISTER:
        return None
    return full_name(test.op_register(n)) or None


def _sides(side: _Side, test: iced.Instruction, loaded: Mapping[str, _Place]) -> _Seen:
    """Return what is about to be compared; of others than cmp what makes the result zero."""
    size = _size(test)
    mask = (1 << 8 * size) - 1
    values: list[int] = []
    places: list[_Place | None] = []
    for n in range(min(2, test.op_count)):
        register = _plain_register(test, n)
        place = loaded.get(register) if register else None
        if register is not None:
            values.append(side.register(register) & mask)
        elif test.op_kind(n) == iced.OpKind.MEMORY:
            place = _Place(_address(side, test), size)
            values.append(side.read(place.address, size))
        else:
            values.append(int(test.immediate(n)) & mask)
        places.append(place)
    if _compares(test):
        return _Seen((values[0], values[1]), (places[0], places[1]))
    ended = {iced.Mnemonic.INC: mask, iced.Mnemonic.DEC: 1}.get(test.mnemonic, 0)
    if test.mnemonic == iced.Mnemonic.ADD and len(values) == 2:
        ended = -values[1] & mask
    return _Seen((values[0] if values else 0, ended), (places[0] if places else None, None))


def _address(side: _Side, ins: iced.Instruction) -> int:
    """Return the address of an instruction's memory operand."""
    if ins.is_ip_rel_memory_operand:
        return int(ins.memory_displacement)
    address = int(ins.memory_displacement)
    for register, scale in ((ins.memory_base, 1), (ins.memory_index, ins.memory_index_scale)):
        if name := full_name(register):
            address += scale * side.register(name)
    return address & _M64
