"""Forms of AVX-512, and of mask registers, from iced-x86's tables: encodings, names and copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import iced_x86 as iced
from table import Form

from loopwright.code import binding

TOKENS = {
    "XMM": "x", "YMM": "y", "ZMM": "z", "K": "k", "R32": "r32", "R64": "r64", "IMM8": "i8",
}  # fmt: skip
FILES = {"x": "v", "y": "v", "z": "v", "k": "k", "r32": "r", "r64": "r"}  # register files
BITS = {"x": 128, "y": 256, "z": 512}
# Of each register file the registers that forms write (the first one closes chains) and read.
WRITTEN = {"v": range(12), "k": range(2, 7), "r": (0, 1, 2, 3, 6, 7)}
READ = {"v": range(12, 16), "k": (7, 7, 7, 7), "r": range(8, 12)}
MASK = 1
_GPR32 = ("EAX", "ECX", "EDX", "EBX", "ESP", "EBP", "ESI", "EDI")
NAMES = {
    "x": [f"XMM{n}" for n in range(32)],
    "y": [f"YMM{n}" for n in range(32)],
    "z": [f"ZMM{n}" for n in range(32)],
    "k": [f"K{n}" for n in range(8)],
    "r32": [*_GPR32, *(f"R{n}D" for n in range(8, 16))],
    "r64": [*(name.replace("E", "R", 1) for name in _GPR32), *(f"R{n}" for n in range(8, 16))],
}
_KINDS = {value: name for name, value in vars(iced.OpCodeOperandKind).items() if name.isupper()}
# Two results, four registers read in a row, or flags alone.
_SKIPPED = ("VP2INTERSECT", "4FMAPS", "4FNMADD", "COMISH")
_READS = (iced.OpAccess.READ, iced.OpAccess.READ_WRITE, iced.OpAccess.READ_COND_WRITE)


@dataclass(frozen=True)
class Shape:
    """An encoding: iced's code, kinds of operands, mask ("", "k", "kz"), and its memory operand.

    memory is the number of an operand that is in memory, -1 for none.
    """

    code: int
    operands: tuple[str, ...]
    mask: str = ""
    memory: int = -1
    broadcast: bool = False

    @property
    def wide(self) -> bool:
        """Whether a register has 512 bits."""
        return "z" in self.operands

    def encoded(self, read: Mapping[int, int], written: int, mask: int = MASK) -> bytes:
        """Return its code: numbers of operand 0, of others where they matter, and the mask's."""
        made = iced.Instruction()
        made.code = self.code
        for n, kind in enumerate(self.operands):
            if n == self.memory:
                made.set_op_kind(n, iced.OpKind.MEMORY)
                made.memory_base = iced.Register.RSI
                made.is_broadcast = self.broadcast
            elif kind == "i8":
                made.set_op_kind(n, iced.OpKind.IMMEDIATE8)
                made.set_immediate_u64(n, 5)
            else:
                number = written if n == 0 else read.get(n, READ[FILES[kind]][n % 4])
                made.set_op_kind(n, iced.OpKind.REGISTER)
                made.set_op_register(n, getattr(iced.Register, NAMES[kind][number]))
        if self.mask:
            made.op_mask = getattr(iced.Register, f"K{mask}")
            made.zeroing_masking = self.mask == "kz"
        encoder = iced.Encoder(64)
        encoder.encode(made, 0)
        return encoder.take_buffer()

    def copy(self, n: int) -> bytes:
        """Return its n-th independent copy."""
        written = WRITTEN[FILES.get(self.operands[0], "v")]
        return self.encoded({}, written[n % len(written)])

    @cached_property
    def form(self) -> Form | None:
        """Its name in tables; None where the simulator has none."""
        (found,) = binding.forms("x86_64", [self.copy(0)])
        if not found:
            return None
        mnemonic, _, operands = found[0].partition(" ")
        return Form(mnemonic, operands)

    def sources(self) -> Iterator[tuple[str, str]]:
        """Yield what its result depends on: label of the operand, and register file."""
        info = iced.InstructionInfoFactory().info(iced.Decoder(64, self.copy(0)).decode())
        if info.op_access(0) in _READS:
            yield "0", FILES[self.operands[0]]
        for n, kind in enumerate(self.operands):
            if n and kind != "i8" and n != self.memory:
                yield str(n), FILES[kind]
        if self.mask:
            yield "k", "k"

    def masked(self) -> Iterator[Shape]:
        """Yield it with the masks that it can have."""
        info = iced.OpCodeInfo(self.code)
        if info.can_use_op_mask_register:
            yield replace(self, mask="k")
        if info.can_use_zeroing_masking and self.memory != 0:
            yield replace(self, mask="kz")

    def in_memory(self) -> Iterator[Shape]:
        """Yield it with the operand in memory that can be there, whole and broadcast."""
        info = iced.OpCodeInfo(self.code)
        for n in range(info.op_count):
            if _KINDS[info.op_kind(n)].endswith("_OR_MEM"):
                yield replace(self, memory=n)
                if info.can_broadcast:
                    yield replace(self, memory=n, broadcast=True)


def shape(name: str) -> Shape:
    """Return the encoding that iced calls so; ValueError where an operand is of another kind."""
    code = getattr(iced.Code, name)
    info = iced.OpCodeInfo(code)
    stems = [_KINDS[info.op_kind(n)].partition("_")[0] for n in range(info.op_count)]
    memory = stems.index("MEM") if "MEM" in stems else -1
    kinds = tuple("m" if stem == "MEM" else TOKENS.get(stem, "") for stem in stems)
    if not all(kinds) or len(kinds) < 2 or kinds[0] == "i8":
        raise ValueError(name)
    return Shape(code, kinds, memory=memory)


def shapes() -> Iterator[Shape]:
    """Yield the encodings of AVX-512 without a mask; those that need one with it."""
    for name, code in sorted(vars(iced.Code).items()):
        if not name.isupper() or any(part in name for part in _SKIPPED):
            continue
        info = iced.OpCodeInfo(code)
        of_masks = any(_KINDS[info.op_kind(n)].startswith("K") for n in range(info.op_count))
        evex = info.encoding == iced.EncodingKind.EVEX
        if not evex and not (info.encoding == iced.EncodingKind.VEX and of_masks):
            continue
        try:
            plain = shape(name)
        except ValueError:
            continue
        yield replace(plain, mask="k") if info.require_op_mask_register else plain
