"""Instruction forms: operands, encoding, and the kit of an ISA: registers and known instructions.

Branches whose mispredictions are timed go by the bits of a generator, or by those of pointers. The
generator is one modulo 2 ** 64: all of its states follow each other, and high bits have no period
that a predictor could hold. It goes on from where it was in memory, as registers are set anew.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol


@dataclass(frozen=True)
class Pool:
    """Registers of a kind: which the instruction under test writes, which those beside it write.

    Nothing writes the constant ones. back are two that chains are closed through. moved are bases
    that loads write, and those that stores do; they keep their values.
    """

    own: tuple[int, ...]
    others: tuple[int, ...]
    constant: tuple[int, ...]
    back: tuple[int, int]
    moved: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


@dataclass(frozen=True)
class Branch:
    """A conditional branch to what follows it: its kind as flag `fuse=` has it, name, opposite."""

    kind: str
    name: str
    opposite: str
    code: bytes


@dataclass(frozen=True)
class Serial:
    """An instruction that may wait for all before it: its code, and the code that sets up operands.

    needs is the extension that has it; traps says that a hypervisor answers it in a guest's place.
    """

    code: bytes
    before: bytes = b""
    needs: str = ""
    traps: bool = False


class Kit(Protocol):
    """The registers that experiments of an ISA use, and instructions whose part is known.

    DISPATCHED is how copies that dispatch bounds are repeated, "loop" or "unrolled".
    """

    POOLS: Mapping[str, Pool]
    BYTES: int  # of every instruction; 0 where they differ
    DISPATCHED: str
    LOAD: str  # names of the forms that only load and store a register
    STORE: str
    LOADS: Mapping[str, str]  # forms that only load, by the parameter that their latency is
    FORWARDS: Mapping[str, tuple[str, str]]  # a store and a load of its place, by what it shows
    ADDITIONS: Sequence[str]  # forms that add a register, or a constant, to memory of so many bits
    UPDATES: Mapping[str, str]  # forms that add a cycle to what they read from memory
    ADDED: str  # name of the form that adds any constant; "" where rename never does
    RENAMED: Sequence[str]  # forms that add a constant below 128, which rename does on some cores
    IDIOMS: frozenset[str]  # mnemonics whose result may be known where operands are one register
    PUSH: str  # names of the forms that move a register to the stack and from it; "" where none is
    POP: str
    STACK: int  # number of the stack pointer among general-purpose registers
    BRANCHES: Sequence[Branch]  # none of them taken behind a loop's count
    UNFUSED: Sequence[Branch]  # that fuse with nothing and are not taken; opposite may be ""
    JUMP: str  # name of the plain jump
    CALLED: bytes  # a call of a return, and a jump over that; nothing where it is not asked for
    CALLED_APART: bytes  # the same, spread over more bytes
    # Forms that no microbenchmark has, by name: the form that they are taken for, "" for none, and
    # what more of "load", "store" and "compute" they do.
    DERIVED: Mapping[str, tuple[str, Sequence[str]]]
    FUSING: Sequence[str]  # mnemonics that some core fuses with a branch
    # Moves and loads of a register by what they are, and operations on it that may absorb them.
    ABSORBING: Sequence[tuple[Mapping[str, bytes], Mapping[str, bytes]]]
    COUNT: bytes  # counts a register down as iterations of a loop are counted
    FENCE: bytes  # waits until all before it has retired; nothing where none is known to
    SERIAL: Mapping[str, Serial]  # by mnemonic
    PRIVILEGED: Sequence[str]  # what serialises and user mode cannot execute
    REPEATED: Mapping[str, int]  # repeated string instructions, and the bytes of an element
    SHORT: bytes  # the shortest nop
    MOVE: bytes  # of a general-purpose register, as short as can be

    def nop(self) -> bytes:
        """Return an instruction that does nothing."""
        ...

    def pad(self, size: int) -> list[bytes]:
        """Return as few instructions as do nothing in so many bytes."""
        ...

    def jumped(self, over: int) -> bytes:
        """Return a jump over so many bytes of nops."""
        ...

    def opposite(self, branch: Branch) -> bytes:
        """Return the code of a branch's opposite."""
        ...

    def set_anew(self, kind: str, number: int) -> bytes:
        """Return what gives a register, or the flags, a value that depends on nothing written."""
        ...

    def carry(self, source: str, target: str, read: int, write: int) -> bytes:
        """Return an instruction that makes a value of one kind of a value of another.

        Numbers are of registers; those of flags do not count. What writes a register from flags
        reads that register, too.
        """
        ...

    def slow(self, register: int) -> list[bytes]:
        """Return instructions of one uop that make a vector register wait long for itself."""
        ...

    def add_with_carry(self, register: int) -> bytes:
        """Return an addition to a register that reads the carry and writes it."""
        ...

    def counting(self, iterations: int) -> bytes:
        """Return a loop that does nothing so many times."""
        ...

    def stacked(self, source: int, target: int) -> tuple[bytes, bytes]:
        """Return what moves a register to the stack, and what moves one from it."""
        ...

    def stack_moved(self, by: int) -> bytes:
        """Return what adds so many bytes to the stack pointer, and moves nothing there."""
        ...

    def hold(self, register: int, on: int) -> list[bytes]:
        """Return what makes a general-purpose register wait for another, and leaves its value."""
        ...

    def gone(self, random: bool, branches: int) -> bytes:
        """Return so many branches forwards, over a nop each, that go by bits.

        They are bits of a generator whose state is in memory, or else those of a register that
        nothing writes, set and clear in turn; all else is the same.
        """
        ...

    def repeated(self, name: str, count: int, source: int, destination: int) -> bytes:
        """Return a string instruction with its operands, places so many bytes behind lines."""
        ...


# Of an address, among the operands and the numbers of registers.
BASE, INDEX, DISPLACEMENT = "a", "x", "disp"
NO_BASE = -1  # the number of a base that there is not
_HALF = 128  # bits of a vector that older instructions write
_NARROW = 16  # bits of stores that some caches merge


@dataclass(frozen=True)
class Operand:
    """An operand that is named in the instruction, or a register or the flags that it uses besides.

    label is what `instructions.csv` calls it: the place of an operand, "f" for flags, a register's
    name. kind is what can be put there: "gpr", "vector", "flags"; nothing for constants. bits is
    its width. fixed names the register where there is no choice.
    """

    label: str
    kind: str
    bits: int
    read: bool
    written: bool
    fixed: int | None = None


@dataclass(frozen=True)
class Memory:
    """Memory access of a form. Its address is made of operands: BASE, INDEX.

    reach are the displacements that can be encoded, None where any can. moves says that the base is
    written: what is encoded leaves its value. parts are uops that load, or store, at most.
    """

    bits: int
    read: bool
    written: bool
    reach: range | None = None
    moves: bool = False
    parts: int = 2

    @property
    def narrow(self) -> bool:
        """Say whether it stores a byte or two."""
        return self.written and self.bits <= _NARROW


Encode = Callable[[Mapping[str, int]], bytes]


@dataclass(frozen=True)
class Form:
    """A form by the name that `instructions.csv` has for it.

    encode takes the number of a register for each operand with a choice, by its label, and
    DISPLACEMENT of an address in bytes (0 where it is not given); with INDEX any address has an
    index, and "i" is the value of a constant. twin names the form that has a register where this
    one has memory, if there is one. undone names the form that follows in its code and gives back
    the value of a base that it moves on.
    """

    name: str
    operands: tuple[Operand, ...]
    encode: Encode = field(compare=False, repr=False)
    kit: Kit = field(compare=False, repr=False)
    needs: frozenset[str] = frozenset()
    memory: Memory | None = None
    twin: str = ""
    undone: str = ""

    @property
    def mnemonic(self) -> str:
        """Return the first word of its name."""
        return self.name.partition(" ")[0]

    @property
    def chosen(self) -> tuple[Operand, ...]:
        """Return the operands whose registers can be chosen."""
        return tuple(o for o in self.operands if o.kind != "flags" and o.fixed is None)

    @cached_property
    def legacy(self) -> bool:
        """Say whether it writes a vector and leaves the upper half of the register as it was."""
        vector = any(one.kind == "vector" and one.written for one in self.operands)
        return vector and not self.name.startswith("v")

    @cached_property
    def wide(self) -> bool:
        """Say whether it uses upper halves of vectors."""
        return any(one.kind == "vector" and one.bits > _HALF for one in self.operands)

    def beside(self, other: "Form") -> bool:
        """Say whether it can be timed beside another form.

        What leaves upper halves of vectors as they are takes 350 cycles on a Zen 3 where something
        else has written such halves.
        """
        return not ((self.wide and other.legacy) or (self.legacy and other.wide))


MULTIPLIER, INCREMENT = 0x2545F495, 0x1B873593
GENERATOR_PLACE = 64  # bytes behind a line: of the generator's state
_HIGHEST, _STEP = 62, 3  # bits of the generator
_SET, _CLEAR = 29, 62  # bits of pointers


def branch_bits(random: bool, branches: int) -> list[int]:
    """Return the bit of each branch: of the generator, or of a pointer, clear and set in turn."""
    if random:
        return [_HIGHEST - _STEP * number for number in range(branches)]
    return [_SET if number % 2 else _CLEAR for number in range(branches)]
