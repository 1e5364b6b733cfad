"""The verb trace: the steps of one call as rows."""

from dataclasses import dataclass
from typing import Any

from loopwright import kernels
from loopwright.code import assemble
from loopwright.code.placement import Placement
from loopwright.cores import microarchs
from loopwright.cores.features import alternatives_left
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.rows import Rows, as_frame
from loopwright.tracing import emulator
from loopwright.tracing.memory import Call
from loopwright.tracing.steps import Access, Trace

COLUMNS = (
    "kernel",
    "variant",
    "step",
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
_TYPES = {
    "taken": "boolean",
    **dict.fromkeys(("load_address", "load_bytes", "store_address", "store_bytes"), "Int64"),
}


@dataclass(frozen=True)
class TraceQuestion:
    """Which call to trace: see answer_trace."""

    spec: str
    size: int
    align: tuple[int, int] = (0, 0)
    fault: tuple[str, int] | None = None
    microarch: str | None = None
    offset: int | None = None


def answer_trace(asked: TraceQuestion) -> Rows:
    """Return every instruction of one call of KERNEL/VARIANT, in the order of execution.

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
    kernel, variants = kernels.select(asked.spec)
    if len(variants) != 1:
        names = ", ".join(v.name for v in variants)
        raise InputError(f"{asked.spec} has several variants; name one of them: {names}")
    [variant] = variants
    call = Call(asked.size, *asked.align, dict([asked.fault]) if asked.fault else None)
    found = of_variant(variant, call, asked.microarch, asked.offset)
    values = [
        (
            kernel.id,
            variant.name,
            n,
            f"{step.instruction.address:#x}",
            (found.base + step.instruction.address) % 64,
            step.instruction.text,
            step.taken,
            step.repeats,
            *_access(step.load),
            *_access(step.store),
            step.fault,
        )
        for n, step in enumerate(found.steps)
    ]
    return Rows(COLUMNS, values, _TYPES)


trace = as_frame("trace", TraceQuestion, answer_trace)


def of_variant(variant: Variant, call: Call, microarch: str | None, offset: int | None) -> Trace:
    """Return what a call of a variant does, with the alternatives of a core (None: all of them)."""
    contract = kernels.contract_of(variant)
    left = alternatives_left(variant, microarchs.load(microarch)) if microarch else frozenset()
    code = assemble.variant_code(variant, left)
    return emulator.run(code, contract, call, Placement.of(code, contract, offset).shift)


def _access(access: Access | None) -> tuple[Any, ...]:
    return (str(access), access.address, access.bytes) if access else ("", None, None)
