"""Loops: what the caches of decoded code deliver, by the number and the place of instructions.

Kernels: loops of 0 to 80 nops; two loops at all 64 code offsets; regions of 32 and of 64 bytes that
hold more and more nops, or nops and instructions of two uops; constants of 64 bits; nops of random
lengths, half of which are kept aside. Each loop counts down and branches back.
"""

import random
from collections.abc import Iterator, Sequence

from loopwright.calibrating.delivery.probe import LOOPS, Nop, Probe
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.machines.machine import COUNTER, Trial
from loopwright.measuring.blocks import counted_loop

_COUNTS = (*range(33), *range(34, 81, 2), 55, 57, 59, 61, 63, 65)  # of nops
_PLACED = (2, 7)  # nops of loops at all offsets
_OFFSETS = range(64)
_REGIONS = (32, 64)
_WIDE = tuple(bytes((0x48, 0xB8 + number)) + bytes(range(1, 9)) for number in (3, 5, 6, 7))
_RANDOM, _SEED = 40, 43


def probes(isa: str, kit: Kit, nop: Nop, several: Sequence[bytes]) -> Iterator[Probe]:
    """Yield the loops; several are instances of a form of two uops, if one is known.

    On AArch64, where lengths are one, they are of nops alone.
    """
    for count in _COUNTS:
        yield _probe(f"a loop of {count} nops", [nop(4)] * count, isa=isa)
    for count in _PLACED:
        for offset in _OFFSETS[:: kit.BYTES or 1]:
            name = f"a loop of {count} nops at code offset {offset}"
            yield _probe(name, [nop(4)] * count, offset, isa=isa)
    if kit.BYTES:
        yield from _placed(isa, nop, kit.BYTES)
        return
    yield from _dense(nop)
    yield from _wide(nop)
    if several:
        yield from _mixed(nop, several)
    draw = random.Random(_SEED)
    for number in range(_RANDOM):
        sizes = [draw.randint(1, (4, 6, 9)[number % 3]) for _ in range(draw.randint(2, 30))]
        offset = draw.randrange(64)
        name = f"a loop of nops of {' '.join(map(str, sizes))} bytes at code offset {offset}"
        yield _probe(name, [nop(size) for size in sizes], offset, aside=number % 2 > 0)


def _placed(isa: str, nop: Nop, size: int) -> Iterator[Probe]:
    """Yield loops of some numbers of nops of one size at some code offsets."""
    draw = random.Random(_SEED)
    for number in range(_RANDOM):
        count, offset = draw.randint(1, 30), size * draw.randrange(64 // size)
        name = f"a loop of {count} nops at code offset {offset}, at random"
        yield _probe(name, [nop(size)] * count, offset, aside=number % 2 > 0, isa=isa)


def _probe(
    name: str, body: Sequence[bytes], offset: int = 0, *, aside: bool = False, isa: str = "x86_64"
) -> Probe:
    code = b"".join(body)
    code += counted_loop.closing(isa, COUNTER[isa], len(code))
    return Probe(LOOPS, name, Trial(code, "loop", offset), aside)


def _dense(nop: Nop) -> Iterator[Probe]:
    """Yield loops of 128 bytes, of which all or the first part hold some number of nops."""
    for size in _REGIONS:
        for count in (*range(size // 8, 25), *range(26, size + 1, 4)):
            if count > size:
                break
            full = _filled(nop, size, count)
            sparse = _filled(nop, size, size // 8)
            name = f"a loop with {count} nops in "
            yield _probe(f"{name}each {size} bytes", full * (128 // size))
            yield _probe(f"{name}the first {size} bytes", [*full, *sparse])
            if size == min(_REGIONS):
                yield _probe(f"{name}bytes 32 to 63", [*sparse, *full, *sparse])


def _filled(nop: Nop, size: int, count: int) -> list[bytes]:
    """Return as many nops in so many bytes, of lengths as equal as can be."""
    return [nop(size // count + (n < size % count)) for n in range(count)]


def _mixed(nop: Nop, several: Sequence[bytes]) -> Iterator[Probe]:
    """Yield loops of which a part holds nops and instructions of two uops, in random order."""
    draw = random.Random(_SEED + 1)
    for size, uops in ((32, (15, 16, 17, 18)), (64, (33, 34, 35, 36))):
        sparse = _filled(nop, 32, 4)
        for count in uops:
            for twice in range(1, 5):
                small = count - 2 * twice
                left = size - sum(len(one) for one in several[:twice])
                if left < small:
                    break
                mixed = [*_filled(nop, left, small), *several[:twice]]
                draw.shuffle(mixed)
                order = "".join("2" if one in several else "1" for one in mixed)
                name = f"a loop of {size} bytes of instructions of {order} uops behind 32 of 4 nops"
                yield _probe(name, [*sparse * (size // 32), *mixed, *sparse], aside=twice == 3)


def _wide(nop: Nop) -> Iterator[Probe]:
    """Yield loops with constants of 64 bits."""
    for count in (1, 2, 3, 4):
        for beside in (1, 3, 6):
            name = f"a loop of {count} constants of 64 bits and {beside} nops"
            rest = [nop(3)] * beside
            yield _probe(name, [*_WIDE[:count], *rest], aside=beside == 3)
