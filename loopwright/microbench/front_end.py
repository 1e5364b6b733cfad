"""Front-end microbenchmarks: straight code and loops that little but the front end limits.

calibrating/front_end_fit.py finds the front end that explains them.

Loops show delivery from caches of decoded code: loops of 0 to 80 nops, and of 5 to 32 moves where
nops share the slots of others; two loops at all 64 code offsets; regions of 32 and 64 bytes with a
growing number of nops, or of nops and two-uop instructions; 64-bit constants; nops of random
lengths, half of which are held out. Each loop counts down and branches back.

Straight code, copied back to back, shows fetch and decoders: nops of one length, 1 to 15 bytes, and
of random lengths; multi-uop instructions with 0 to 7 nops behind each; instructions with a
length-changing prefix; branches not taken, and pairs that may fuse. Half of the random ones are
held out.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil

from loopwright.measuring import block
from loopwright.microbench import form_instances
from loopwright.microbench.dispatch_width import Width
from loopwright.microbench.forms import Form, Kit
from loopwright.microbench.laboratory import Laboratory, closed
from loopwright.microbench.oracle import COUNTER, Timing, Trial


@dataclass(frozen=True)
class Probe:
    """Code to time, named by what it shows.

    part is the kind of code. aside marks held-out code, which no choice rests on.
    """

    part: str
    name: str
    trial: Trial
    aside: bool = False


@dataclass(frozen=True)
class FrontEndTimings:
    """Front-end microbenchmarks with their timings.

    long_nops says whether nops with an operand are decoded like plain ones.
    """

    probes: Sequence[Probe]
    timings: Sequence[Timing]
    long_nops: bool

    def rows(self) -> Iterator[tuple[Probe, float, float]]:
        """Yield the probes that have a figure, with cycles and uncertainty."""
        for probe, timing in zip(self.probes, self.timings, strict=True):
            if timing.cycles is not None:
                yield probe, timing.cycles, timing.uncertainty

    def of(self, part: str) -> Iterator[tuple[Probe, float, float]]:
        """Return the rows of a kind of code."""
        return (row for row in self.rows() if row[0].part == part)


Nop = Callable[[int], bytes]  # one nop of so many bytes, 1 to 15

STRAIGHT, LOOPS = "straight code", "loops"

_COUNTS = (*range(33), *range(34, 81, 2), 55, 57, 59, 61, 63, 65)  # of nops
_MOVES, _MOVED = range(5, 33), (0, 8, 16)  # moves, and code offsets of their loops
_PLACED = (2, 7)  # nops of loops at all offsets
_OFFSETS = range(64)
_REGIONS = (32, 64)
_WIDE_CONSTANTS = tuple(
    bytes((0x48, 0xB8 + number)) + bytes(range(1, 9)) for number in (3, 5, 6, 7)
)
_UNBUFFERED = 32  # instructions of a loop, more than Sandy Bridge's loop buffer holds (28 uops)
_RANDOM_LOOPS, _LOOP_SEED = 40, 43
_SHORT_LOOPS = 160  # of few nops, in which the cost of a taken branch and of a second region shows


def loop_probes(
    isa: str, kit: Kit, nop: Nop, two_uop: Sequence[bytes], move: bytes = b""
) -> Iterator[Probe]:
    """Yield the loops; on AArch64, whose instructions have one length, all are of nops.

    two_uop are instances of a two-uop form, if one is known. move is an instruction of one slot, if
    nops share the slots of others.
    """
    for count in _COUNTS:
        yield _loop(f"a loop of {count} nops", [nop(4)] * count, isa=isa)
    for count in _PLACED:
        for offset in _OFFSETS[:: kit.BYTES or 1]:
            name = f"a loop of {count} nops at code offset {offset}"
            yield _loop(name, [nop(4)] * count, offset, isa=isa)
    if kit.BYTES:
        yield from _placed(isa, nop, kit.BYTES)
        return
    for count, offset in product(_MOVES, _MOVED) if move else ():
        yield _loop(f"a loop of {count} moves at code offset {offset}", [move] * count, offset)
    yield from _dense(nop)
    yield from _wide(nop)
    if two_uop:
        yield from _loop_mixed(nop, two_uop)
    draw = random.Random(_LOOP_SEED)
    for number in range(_RANDOM_LOOPS):
        sizes = [draw.randint(1, (4, 6, 9)[number % 3]) for _ in range(draw.randint(2, 30))]
        offset = draw.randrange(64)
        name = f"a loop of nops of {' '.join(map(str, sizes))} bytes at code offset {offset}"
        yield _loop(name, [nop(size) for size in sizes], offset, aside=number % 2 > 0)
    yield from _short(isa, nop)


def _short(isa: str, nop: Nop) -> Iterator[Probe]:
    """Yield loops of few nops at any code offset; half of them test their count last."""
    draw = random.Random(_LOOP_SEED + 2)
    for number in range(_SHORT_LOOPS):
        sizes = [draw.randint(2, 8) for _ in range(draw.randint(1, 9))]
        offset = draw.randrange(64)
        name = f"a loop of nops of {' '.join(map(str, sizes))} bytes at code offset {offset}"
        body = [nop(size) for size in sizes]
        if number % 2:
            code = block.tested(isa, COUNTER[isa], b"".join(body))
            probe = Probe(LOOPS, f"{name}, its count tested", Trial(code, "loop", offset))
        else:
            probe = _loop(name, body, offset)
        yield replace(probe, aside=number % 8 > 5)


def _placed(isa: str, nop: Nop, size: int) -> Iterator[Probe]:
    """Yield loops of equal nops at random code offsets."""
    draw = random.Random(_LOOP_SEED)
    for number in range(_RANDOM_LOOPS):
        count, offset = draw.randint(1, 30), size * draw.randrange(64 // size)
        name = f"a loop of {count} nops at code offset {offset}, at random"
        yield _loop(name, [nop(size)] * count, offset, aside=number % 2 > 0, isa=isa)


def _loop(
    name: str, body: Sequence[bytes], offset: int = 0, *, aside: bool = False, isa: str = "x86_64"
) -> Probe:
    code = closed(isa, b"".join(body))
    return Probe(LOOPS, name, Trial(code, "loop", offset), aside)


def _dense(nop: Nop) -> Iterator[Probe]:
    """Yield loops of 128 bytes with a given density of nops in all or one of their regions."""
    for size in _REGIONS:
        for count in (*range(size // 8, 25), *range(26, size + 1, 4)):
            if count > size:
                break
            full = _filled(nop, size, count)
            sparse = _filled(nop, size, size // 8)
            name = f"a loop with {count} nops in "
            yield _loop(f"{name}each {size} bytes", full * (128 // size))
            yield _loop(f"{name}the first {size} bytes", [*full, *sparse])
            if size == min(_REGIONS):
                yield _loop(f"{name}bytes 32 to 63", [*sparse, *full, *sparse])


def _filled(nop: Nop, size: int, count: int) -> list[bytes]:
    """Return as many nops in so many bytes, of nearly equal lengths."""
    return [nop(size // count + (n < size % count)) for n in range(count)]


def _loop_mixed(nop: Nop, two_uop: Sequence[bytes]) -> Iterator[Probe]:
    """Yield loops with a region of nops and two-uop instructions in random order."""
    draw = random.Random(_LOOP_SEED + 1)
    for size, uops in ((32, (15, 16, 17, 18)), (64, (33, 34, 35, 36))):
        sparse = _filled(nop, 32, 4)
        for count in uops:
            for pairs in range(1, 5):
                nops = count - 2 * pairs
                room = size - sum(len(code) for code in two_uop[:pairs])
                if room < nops:
                    break
                mixed = [*_filled(nop, room, nops), *two_uop[:pairs]]
                draw.shuffle(mixed)
                order = "".join("2" if code in two_uop else "1" for code in mixed)
                name = f"a loop of {size} bytes of instructions of {order} uops behind 32 of 4 nops"
                yield _loop(name, [*sparse * (size // 32), *mixed, *sparse], aside=pairs == 3)


def _wide(nop: Nop) -> Iterator[Probe]:
    """Yield loops with 64-bit constants."""
    for count in (1, 2, 3, 4):
        for beside in (1, 3, 6):
            name = f"a loop of {count} constants of 64 bits and {beside} nops"
            nops = [nop(3)] * beside
            yield _loop(name, [*_WIDE_CONSTANTS[:count], *nops], aside=beside == 3)
    # A loop buffer may hold all of these, so that the op cache does not show.
    for count, beside in product((1, 2, 4), (0, 1, 3)):
        once = [*_WIDE_CONSTANTS[:count], *[nop(3)] * beside]
        times = ceil(_UNBUFFERED / len(once))
        name = f"a loop of {times} times {count} constants of 64 bits and {beside} nops"
        yield _loop(name, once * times, aside=beside == 1)


_LONGEST = 15  # bytes of an instruction
_RANDOM_CODE, _STRAIGHT_SEED = 16, 41
_BEHIND = 8  # nops behind a multi-uop instruction, at most
# add of a 16-bit immediate to one of four 16-bit registers
_PREFIXED = tuple(bytes((0x66, 0x81, 0xC0 + number, 0x34, 0x12)) for number in (3, 5, 6, 7))
# mov of a constant to one of those registers
_CONSTANTS = tuple(bytes((0xB8 + number, 1, 2, 3, 4)) for number in (3, 5, 6, 7))
_TEST = bytes.fromhex("4d85f6")  # clears the carry flag
_NOT_TAKEN = bytes.fromhex("7200")  # jump if carry
_FUSIBLE = 6  # nops beside them, at most


def straight_probes(kit: Kit, nop: Nop, multi_uop: Sequence[tuple[Form, int]]) -> Iterator[Probe]:
    """Yield the kernels of straight code; on AArch64 all are nops."""
    if kit.BYTES:
        for count in range(1, 13):
            yield _straight(f"{count} nops", [kit.nop()] * count)
        return
    for size in range(1, _LONGEST + 1):
        yield _straight(f"16 nops of {size} bytes", [nop(size)] * 16)
    yield from _lengths(nop)
    yield from _constants(nop)
    yield from _prefixes(nop)
    yield from _branches(nop)
    for form, uops in multi_uop:
        instances = form_instances.Instances()
        for behind in range(_BEHIND):
            code = [instances.of(form), *[nop(3)] * behind] * 4
            yield _straight(f"{form.name} of {uops} uops and {behind} nops of 3 bytes", code)


def _straight(name: str, code: Sequence[bytes], *, aside: bool = False) -> Probe:
    return Probe(STRAIGHT, name, Trial(b"".join(code), "unrolled"), aside)


def _lengths(nop: Nop) -> Iterator[Probe]:
    """Yield nops of random lengths."""
    draw = random.Random(_STRAIGHT_SEED)
    for number in range(_RANDOM_CODE):
        most = (4, 6, 8, 11)[number % 4]
        sizes = [draw.randint(1, most) for _ in range(draw.randint(7, 13))]
        name = f"nops of {' '.join(map(str, sizes))} bytes"
        yield _straight(name, [nop(size) for size in sizes], aside=number % 8 > 3)


def _constants(nop: Nop) -> Iterator[Probe]:
    """Yield one-byte nops and moves of 32-bit constants, whose opcode may lie in another block."""
    draw = random.Random(_STRAIGHT_SEED + 1)
    for number in range(_RANDOM_CODE // 2):
        code = [draw.choice((nop(1), nop(1), *_CONSTANTS)) for _ in range(draw.randint(7, 13))]
        order = "".join("m" if ins in _CONSTANTS else "n" for ins in code)
        name = f"moves of 32-bit constants and nops of 1 byte, {order}"
        yield _straight(name, code, aside=number % 4 == 3)


def _prefixes(nop: Nop) -> Iterator[Probe]:
    """Yield instructions with a length-changing prefix among nops."""
    for count in (1, 2, 3, 4):
        for beside in (0, 3, 7, 12):
            code = [*_PREFIXED[:count], *[nop(4)] * beside]
            name = f"{count} adds of 16-bit immediates and {beside} nops of 4 bytes"
            yield _straight(name, code, aside=beside == 7)


def _branches(nop: Nop) -> Iterator[Probe]:
    """Yield branches that are not taken, alone or behind an instruction that may fuse with them."""
    for beside in range(_FUSIBLE + 1):
        nops = [nop(4)] * beside
        yield _straight(f"a branch not taken and {beside} nops", [_NOT_TAKEN, *nops] * 4)
        yield _straight(f"test, a branch and {beside} nops", [_TEST, _NOT_TAKEN, *nops] * 4)
        yield _straight(f"2 tests and {beside} nops", [_TEST, _TEST, *nops] * 4)
        yield _straight(f"{beside} nops and a test", [*nops, _TEST] * 4, aside=beside == 3)


_PLAIN = 9  # bytes of the longest nop with a single prefix
_SLOWER = 1.2  # factor by which nops with an operand are slower if they need a special decoder


def measure_front_end(
    laboratory: Laboratory, multi_uop: Sequence[tuple[Form, int]], width: Width
) -> FrontEndTimings:
    """Time the microbenchmarks; multi_uop are forms with their number of uops."""
    kit = laboratory.kit
    prefixed = not kit.BYTES and _long_are_slow(laboratory)
    nop = partial(_nop, kit, prefixed)
    probes = list(straight_probes(kit, nop, multi_uop))
    move = b"" if width.nops else width.counted
    probes += loop_probes(laboratory.isa, kit, nop, _two_uop_instances(multi_uop), move)
    timings = laboratory.timings([probe.trial for probe in probes])
    return FrontEndTimings(probes, timings, not prefixed)


def _two_uop_instances(multi_uop: Sequence[tuple[Form, int]]) -> list[bytes]:
    """Return instances of a two-uop form, none if there is none."""
    instances = form_instances.Instances()
    form = next((form for form, uops in multi_uop if uops == 2), None)
    return [instances.of(form) for _ in range(4)] if form else []


def _nop(kit: Kit, prefixed: bool, size: int) -> bytes:
    """Return one nop of 1 to 15 bytes; prefixed uses the shortest nop behind prefixes."""
    body = kit.pad(1 if prefixed else min(size, _PLAIN))[0]
    return b"\x66" * (size - len(body)) + body


def _long_are_slow(laboratory: Laboratory) -> bool:
    """True if nops with an operand need a decoder that plain ones do not."""
    blocks = [[_nop(laboratory.kit, prefixed, 4)] * 16 for prefixed in (False, True)]
    long, plain = laboratory.time(blocks, "unrolled")
    return bool(long and plain) and long.cycles > _SLOWER * plain.cycles
