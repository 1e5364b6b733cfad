"""Straight code: copies back to back, which come through fetch and the decoders.

Kernels: nops of one length, 1 to 15 bytes, and of random lengths; instructions of two uops and more
with 0 to 7 nops behind each; instructions whose length a prefix changes; branches that are not
taken, and what fuses with them. Half of the random ones are kept aside.
"""

import random
from collections.abc import Iterator, Mapping, Sequence

from loopwright.calibrating import kernels
from loopwright.calibrating.delivery.probe import STRAIGHT, Nop, Probe
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.machines.machine import Trial
from loopwright.calibrating.ports.core import Uops

_LONGEST = 15  # bytes of an instruction
_RANDOM, _SEED = 16, 41
_FORMS = 2  # of each number of uops
UOPS = (2, 3, 4)  # of instructions that decoders may differ in
_BEHIND = 8  # nops behind an instruction of several uops, at most
# add of 16 bits to one of four registers, its immediate of 16 bits, too
_PREFIXED = tuple(bytes((0x66, 0x81, 0xC0 + number, 0x34, 0x12)) for number in (3, 5, 6, 7))
# mov of a constant to one of those registers
_CONSTANTS = tuple(bytes((0xB8 + number, 1, 2, 3, 4)) for number in (3, 5, 6, 7))
_TEST = bytes.fromhex("4d85f6")  # leaves the carry clear
_NOT_TAKEN = bytes.fromhex("7200")  # jump if carry
_FUSIBLE = 6  # nops beside them, at most


def probes(kit: Kit, nop: Nop, forms: Sequence[Form], known: Mapping[str, Uops]) -> Iterator[Probe]:
    """Yield the kernels of straight code; on AArch64, where lengths are one, nops alone."""
    if kit.BYTES:
        for count in range(1, 13):
            yield _probe(f"{count} nops", [kit.nop()] * count)
        return
    for size in range(1, _LONGEST + 1):
        yield _probe(f"16 nops of {size} bytes", [nop(size)] * 16)
    yield from _lengths(nop)
    yield from _constants(nop)
    yield from _prefixes(nop)
    yield from _branches(nop)
    for form in several(forms, known):
        uops = known[form.name].places
        instances = kernels.Instances()
        for behind in range(_BEHIND):
            code = [instances.of(form), *[nop(3)] * behind] * 4
            yield _probe(f"{form.name} of {uops} uops and {behind} nops of 3 bytes", code)


def _probe(name: str, code: Sequence[bytes], *, aside: bool = False) -> Probe:
    return Probe(STRAIGHT, name, Trial(b"".join(code), "unrolled"), aside)


def _lengths(nop: Nop) -> Iterator[Probe]:
    draw = random.Random(_SEED)
    for number in range(_RANDOM):
        most = (4, 6, 8, 11)[number % 4]
        sizes = [draw.randint(1, most) for _ in range(draw.randint(7, 13))]
        name = f"nops of {' '.join(map(str, sizes))} bytes"
        yield _probe(name, [nop(size) for size in sizes], aside=number % 8 > 3)


def _constants(nop: Nop) -> Iterator[Probe]:
    """Yield instructions whose first byte is the opcode, which may lie in another block."""
    draw = random.Random(_SEED + 1)
    for number in range(_RANDOM // 2):
        code = [draw.choice((nop(1), nop(1), *_CONSTANTS)) for _ in range(draw.randint(7, 13))]
        said = "".join("m" if one in _CONSTANTS else "n" for one in code)
        name = f"moves of 32-bit constants and nops of 1 byte, {said}"
        yield _probe(name, code, aside=number % 4 == 3)


def _prefixes(nop: Nop) -> Iterator[Probe]:
    for count in (1, 2, 3, 4):
        for beside in (0, 3, 7, 12):
            code = [*_PREFIXED[:count], *[nop(4)] * beside]
            name = f"{count} adds of 16-bit immediates and {beside} nops of 4 bytes"
            yield _probe(name, code, aside=beside == 7)


def _branches(nop: Nop) -> Iterator[Probe]:
    for beside in range(_FUSIBLE + 1):
        rest = [nop(4)] * beside
        yield _probe(f"a branch not taken and {beside} nops", [_NOT_TAKEN, *rest] * 4)
        yield _probe(f"test, a branch and {beside} nops", [_TEST, _NOT_TAKEN, *rest] * 4)
        yield _probe(f"2 tests and {beside} nops", [_TEST, _TEST, *rest] * 4)
        yield _probe(f"{beside} nops and a test", [*rest, _TEST] * 4, aside=beside == 3)


def several(forms: Sequence[Form], known: Mapping[str, Uops]) -> Iterator[Form]:
    """Yield forms of several uops of which many run in few cycles, those of fewest uops first."""
    for places in UOPS:
        fit = [form for form in forms if _plain(form) and _needs(known[form.name], places)]
        yield from sorted(fit, key=lambda f: (_busiest(known[f.name]), f.name))[:_FORMS]


def _plain(form: Form) -> bool:
    return form.memory is None and all(o.kind in ("gpr", "flags", "") for o in form.operands)


def _needs(uops: Uops, places: int) -> bool:
    return uops.places == places == len(uops.ports or ()) and not uops.busy


def _busiest(uops: Uops) -> float:
    return max(sum(1 / len(one) for one in uops.ports or () if port in one) for port in range(64))
