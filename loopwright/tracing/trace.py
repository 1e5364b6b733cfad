"""The verb trace: what a call or a loop executes, instruction by instruction."""

import re
from collections.abc import Container, Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import unicorn
from unicorn import arm64_const, x86_const
from unicorn.unicorn import Uc, UcError

from loopwright import kernels, microarchs, toolchain
from loopwright.code import assemble, instructions, objects, snippet
from loopwright.code.instructions import Flow, Instruction
from loopwright.code.loops import Placement
from loopwright.code.objects import Piece, moved
from loopwright.errors import InputError, unknown
from loopwright.kernels import Variant
from loopwright.microarchs import alternatives_left
from loopwright.rows import Rows, as_frame
from loopwright.tracing import emulator
from loopwright.tracing.emulator import PAGE, Access, Call, Step, Trace

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


def trace_loop(piece: Piece, iterations: int, offset: int | None = None) -> LoopTrace:
    """Trace so many iterations of a loop, or passes through code without one.

    The first byte lies offset bytes behind a 64-byte boundary, at the piece's own code offset where
    None. InputError for code that leaves other than by a branch, that accesses what cannot be
    memory, and for instructions that Unicorn does not know.
    """
    if not 1 <= iterations <= MOST_ITERATIONS:
        raise InputError(f"{iterations} iterations: give 1 to {MOST_ITERATIONS}")
    if piece.error:
        raise InputError(f"{piece.id}: {piece.error}")
    place = piece.offset if offset is None else offset
    traced = _Loop(piece, emulator.CODE + place - piece.address)
    return LoopTrace(traced.base, tuple(tuple(traced.iteration()) for _ in range(iterations)))


class _Loop:
    """A loop in an emulated core; memory appears where it is touched."""

    def __init__(self, piece: Piece, base: int) -> None:
        self.base = base
        self._piece = piece
        self._core: Uc = emulator.core_of(piece.isa)
        self._buffers = _buffers(piece)
        low = min(i.address for i in piece.instructions) + base
        high = max(i.end for i in piece.instructions) + base
        first = low // PAGE * PAGE
        self._core.mem_map(first, -(-(high - first) // PAGE) * PAGE)
        for ins in piece.instructions:
            self._core.mem_write(base + ins.address, ins.code)
        for name, address in self._buffers.items():
            self._core.reg_write(emulator.register_of(piece.isa, name), address)
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
                raise emulator.refusal(error, f"{self._piece.id}: {text}") from None
            repeats += 1
        return min(repeats, _STRING_COUNT) if ins.string else 1

    @property
    def _at(self) -> int:
        counter = (
            x86_const.UC_X86_REG_RIP if self._piece.isa == "x86_64" else arm64_const.UC_ARM64_REG_PC
        )
        return int(self._core.reg_read(counter)) - self.base

    def _inside(self, ins: Instruction, within: Container[int]) -> int:
        """Return the target of a branch: the other way if it would leave."""
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
    """Return the buffer of each register that addresses memory, by first use."""
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


_OF_STEP = (
    "address",
    "offset",
    "text",
    "taken",
    "repeats",
    "load",
    "load_address",
    "load_bytes",
    "store",
    "store_address",
    "store_bytes",
    "fault",
)
COLUMNS = ("kernel", "variant", "step", *_OF_STEP)
COLUMNS_OF_LOOPS = ("id", "iteration", "step", *_OF_STEP)
_TYPES = {
    "taken": "boolean",
    **dict.fromkeys(("load_address", "load_bytes", "store_address", "store_bytes"), "Int64"),
}


_ITERATIONS = 2  # of a loop, where not said


@dataclass(frozen=True)
class TraceQuestion:
    """The call or the loops to trace: see answer_trace."""

    spec: str | None = None
    size: int | None = None
    align: tuple[int, int] = (0, 0)
    fault: tuple[str, int] | None = None
    microarch: str | None = None
    offset: int | None = None
    _: KW_ONLY
    hex: str | bytes | None = None
    asm: str | None = None
    obj: Path | str | None = None
    isa: str | None = None
    iterations: int | None = None


def answer_trace(asked: TraceQuestion) -> Rows:
    """Return every instruction of one call, or of a loop's first iterations, as they execute.

    Exactly one of spec (KERNEL/VARIANT), asm, obj and hex is given; the latter are the subjects of
    predict, traced for iterations of each loop (2 where left out) from registers and memory that
    loopwright.tracing.trace chooses; isa is that of asm and hex. What follows is of a call.

    size is bytes, or records where the contract's effect is store_fields (1 for a call of fixed
    size). align is where destination and source start, in bytes from a page start (the source half
    a page further). fault names a side ("dst" or "src") and how many of its bytes can be accessed:
    it then ends at a page end. microarch takes the code's alternatives as that core does; left out,
    all are taken. offset (0 to 63) is where the main loop, or else the entry, starts mod 64.

    One row an instruction: address (in the code, as branches name it), offset (mod 64, where it is
    placed), text, taken (of a branch), repeats (of a string instruction), and for its load and its
    store the place ("dst+8", "src+0", "stack-8"), address and bytes; fault names the side that
    could not be accessed. InputError for a call that the contract has not and for code that cannot
    be run (see loopwright.tracing.emulator).
    """
    if sum(given is not None for given in (asked.spec, asked.hex, asked.asm, asked.obj)) != 1:
        raise InputError(
            "give one of KERNEL/VARIANT, --asm FILE, --obj FILE[:SYMBOL] and --hex HEX"
        )
    if asked.offset is not None and asked.offset not in range(64):
        raise InputError(f"offset {asked.offset} is not in 0..63; give a number of bytes mod 64")
    return _call(asked.spec, asked) if asked.spec is not None else _loops(asked)


def _call(spec: str, asked: TraceQuestion) -> Rows:
    """Return the rows of one call of a variant."""
    if asked.isa is not None or asked.iterations is not None:
        raise InputError("--isa and --iterations are for --asm, --obj and --hex")
    if asked.size is None:
        raise InputError(f"give the bytes of the call of {spec}, e.g. --size 64")
    kernel, variants = kernels.select(spec)
    if len(variants) != 1:
        names = ", ".join(v.name for v in variants)
        raise InputError(f"{spec} has several variants; name one of them: {names}")
    [variant] = variants
    _same_isa(spec, kernel.isa, asked.microarch)
    call = Call(asked.size, *asked.align, dict([asked.fault]) if asked.fault else None)
    found = of_variant(variant, call, asked.microarch, asked.offset)
    values = [
        (kernel.id, variant.name, n, *_columns(step, found.base))
        for n, step in enumerate(found.steps)
    ]
    return Rows(COLUMNS, values, _TYPES)


def _loops(asked: TraceQuestion) -> Rows:
    """Return the rows of some iterations of each loop of a text, an object or machine code."""
    if asked.size is not None or asked.fault is not None or asked.align != (0, 0):
        raise InputError("--size, --align and --fault are for KERNEL/VARIANT")
    if asked.isa not in (None, *snippet.ISAS):
        raise unknown("ISA", str(asked.isa), snippet.ISAS)
    isa = microarchs.load(asked.microarch).isa if asked.microarch else asked.isa
    if asked.asm is not None:
        found = snippet.pieces(asked.asm, isa)
    elif asked.obj is not None:
        found = objects.pieces(str(asked.obj))
    else:
        found = [_of_hex(asked.hex or "", isa or toolchain.host_isa())]
    iterations = _ITERATIONS if asked.iterations is None else asked.iterations
    values = []
    for piece in found:
        _same_isa(piece.id, piece.isa, asked.microarch)
        traced = trace_loop(piece, iterations, asked.offset)
        for iteration, steps in enumerate(traced.iterations):
            values += [
                (piece.id, iteration, n, *_columns(step, traced.base))
                for n, step in enumerate(steps)
            ]
    return Rows(COLUMNS_OF_LOOPS, values, _TYPES)


def _same_isa(of: str, isa: str, microarch: str | None) -> None:
    """Refuse code of another ISA than a core's."""
    if microarch and microarchs.load(microarch).isa != isa:
        raise InputError(f"{of} is {isa} code, which {microarch} does not run")


def _of_hex(given: str | bytes, isa: str) -> Piece:
    """Return machine code as a loop where it ends in a branch, else as straight code."""
    code = given if isinstance(given, bytes) else instructions.parse_hex(given)
    body = instructions.decode(isa, code, 0)
    notion = "loop" if body[-1].flow in (Flow.BRANCH, Flow.JUMP) else "unrolled"
    return Piece("hex", isa, notion, 0, body, moved(body))


def _columns(step: Step, base: int) -> tuple[Any, ...]:
    return (
        f"{step.instruction.address:#x}",
        (base + step.instruction.address) % 64,
        step.instruction.text,
        step.taken,
        step.repeats,
        *_access(step.load),
        *_access(step.store),
        step.fault,
    )


trace = as_frame("trace", TraceQuestion, answer_trace)


def of_variant(variant: Variant, call: Call, microarch: str | None, offset: int | None) -> Trace:
    """Trace a call of a variant, with the alternatives of a core (None: all of them)."""
    contract = kernels.contract_of(variant)
    left = alternatives_left(variant, microarchs.load(microarch)) if microarch else frozenset()
    code = assemble.variant_code(variant, left)
    return emulator.trace_call(code, contract, call, Placement.of(code, contract, offset).shift)


def _access(access: Access | None) -> tuple[Any, ...]:
    return (str(access), access.address, access.bytes) if access else ("", None, None)
