"""Whether the accesses of an x86-64 block are aligned, where the registers are as blocks find them.

A CPU asked to refuse misaligned accesses says it of most; of vectors some say nothing.
"""

from collections.abc import Iterator

import iced_x86 as iced

from loopwright.measuring.blocks import registers

POINTER = 0x20000000  # register n points to this plus n times a step: harness/block_machine.h
STEP = 0x100108
ALIGNED_STEP = 0x100100  # of blocks that access vectors
_VECTOR = 16  # bytes
_READS = {iced.OpAccess.READ, iced.OpAccess.COND_READ}
_ACCESSES = _READS | {
    iced.OpAccess.WRITE,
    iced.OpAccess.COND_WRITE,
    iced.OpAccess.READ_WRITE,
    iced.OpAccess.READ_COND_WRITE,
}


def wide(isa: str, code: bytes) -> bool:
    """Say whether code accesses vectors: 16 bytes of memory or more by one instruction."""
    return isa == "x86_64" and any(size >= _VECTOR for _, size, _ in _accesses(code))


def unaligned(isa: str, code: bytes) -> bool:
    """Say whether the pointers of code are to be aligned to lines."""
    return wide(isa, code) or misaligned(isa, code)


def misaligned(isa: str, code: bytes) -> bool:
    """Say whether an access through registers that code has not written yet is misaligned."""
    if isa != "x86_64":
        return False
    step = ALIGNED_STEP if wide(isa, code) else STEP
    found = ((_address(m, written, step), size) for m, size, written in _accesses(code))
    return any(address is not None and address % size for address, size in found)


def _accesses(code: bytes) -> Iterator[tuple[iced.UsedMemory, int, frozenset[str]]]:
    """Yield each access, its bytes, and the registers that are written before it."""
    info = iced.InstructionInfoFactory()
    written: frozenset[str] = frozenset()
    for ins in iced.Decoder(64, code):
        used = info.info(ins)
        for memory in used.used_memory():
            size = iced.MemorySizeExt.size(memory.memory_size)
            if memory.access in _ACCESSES and size:
                yield memory, size, written
        changed = (r.register for r in used.used_registers() if r.access not in _READS)
        written |= {registers.full_name(register) for register in changed}


def _address(memory: iced.UsedMemory, written: frozenset[str], step: int) -> int | None:
    """Return where an access goes, None where that is not known."""
    address = memory.displacement
    for register, scale in ((memory.base, 1), (memory.index, memory.scale)):
        name = registers.full_name(register)
        if register == iced.Register.NONE:
            continue
        if not name or name in written or memory.segment in (iced.Register.FS, iced.Register.GS):
            return None
        address += scale * (POINTER + registers.number(name) * step)
    return int(address) if memory.base != iced.Register.NONE else None
