"""Addresses of the buffers of a traced call."""

from collections.abc import Mapping
from dataclasses import dataclass

from loopwright.errors import InputError
from loopwright.kernels.contracts import Contract

PAGE = 4096
MOST_BYTES = 1 << 20
# Where user space has its mappings, and beyond what a constant of 32 bits says.
BASES = {"dst": 0x7F10_1000_0000, "src": 0x7F20_2000_0000}
_APART = PAGE // 2  # so that loads and stores of equal alignment do not alias, as in measurements


@dataclass(frozen=True)
class Call:
    """A call to trace.

    count is bytes, or records of a contract that stores records. dst_align and src_align are bytes
    from a page start (the source stands half a page further, as measurements have it). faults
    names sides of which so many first bytes can be accessed, and none behind; such a side ends at a
    page end, whatever its alignment.
    """

    count: int
    dst_align: int = 0
    src_align: int = 0
    faults: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Buffer:
    """A buffer: where it starts, its bytes, and how many of them can be accessed."""

    start: int
    size: int
    accessible: int

    @property
    def pages(self) -> tuple[int, int]:
        """Return the address and the bytes of the pages that can be accessed."""
        first = self.start // PAGE * PAGE
        return first, -(-(self.start + self.accessible) // PAGE) * PAGE - first


def place(contract: Contract, call: Call) -> dict[str, Buffer]:
    """Return the buffers of a call by side; InputError for a call that the contract has not."""
    if not contract.counted and call.count != 1:
        size = f"{contract.bytes} bytes" if contract.bytes else "one record"
        raise InputError(f"{contract.symbol} takes no count: a call is {size}; give --size 1")
    if call.count < 0:
        raise InputError(f"size {call.count} is below 0")
    faults = dict(call.faults or {})
    for side in faults:
        if side not in contract.faulting or side not in contract.inputs:
            known = ", ".join(contract.faulting) or "none"
            raise InputError(f"an access of {side!r} may not fault; sides that may: {known}")
    found = {}
    for side, align in (("dst", call.dst_align), ("src", call.src_align)):
        if side in contract.inputs:
            found[side] = _place(contract, call, side, align, faults.get(side))
    return found


def _place(contract: Contract, call: Call, side: str, align: int, reach: int | None) -> Buffer:
    if not 0 <= align < PAGE:
        raise InputError(f"alignment {align} is not from 0 to {PAGE - 1}")
    record = {"dst": contract.dst_record, "src": contract.src_record}[side]
    size = call.count * (record or 1)
    if size > MOST_BYTES:
        raise InputError(f"size {call.count} is more than a trace takes: {MOST_BYTES >> 20} MiB")
    start = BASES[side] + align + (_APART if side == "src" else 0)
    accessible = size + contract.overread if side == "src" else size
    if reach is not None:
        if not 0 <= reach < size:
            raise InputError(f"{side}:{reach}: a fault lies in the {size} bytes, from 0 on")
        start, accessible = BASES[side] + -(-reach // PAGE) * PAGE - reach, reach
    if start % contract.align:
        raise InputError(
            f"{side} at {start % PAGE} is not allowed: {contract.symbol} takes multiples of "
            f"{contract.align}"
        )
    return Buffer(start, size, accessible)
