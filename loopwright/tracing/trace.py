"""The verb trace: the steps of one call, or of some iterations of a loop, as rows."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from loopwright import kernels, microarchs, toolchain
from loopwright.code import assemble, instructions, objects, snippet
from loopwright.code.instructions import Flow
from loopwright.code.loops import Placement
from loopwright.code.objects import Piece, moved
from loopwright.errors import InputError, unknown
from loopwright.kernels import Variant
from loopwright.microarchs import alternatives_left
from loopwright.rows import Rows, as_frame
from loopwright.tracing import emulator, loop_trace
from loopwright.tracing.memory import Call
from loopwright.tracing.steps import Access, Step, Trace

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
    loopwright.tracing.loop_trace chooses; isa is that of asm and hex. What follows is of a call.

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
        traced = loop_trace.run(piece, iterations, asked.offset)
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
    """Return what a call of a variant does, with the alternatives of a core (None: all of them)."""
    contract = kernels.contract_of(variant)
    left = alternatives_left(variant, microarchs.load(microarch)) if microarch else frozenset()
    code = assemble.variant_code(variant, left)
    return emulator.run(code, contract, call, Placement.of(code, contract, offset).shift)


def _access(access: Access | None) -> tuple[Any, ...]:
    return (str(access), access.address, access.bytes) if access else ("", None, None)
