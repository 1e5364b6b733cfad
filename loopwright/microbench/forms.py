"""Instruction forms: operands and encoding; and the kit of an ISA, registers and instructions.

Branches to be mispredicted go by the bits of a random generator, or by bits of pointers. The
generator is linear congruential modulo 2 ** 64: its period is full, and high bits repeat later than
any predictor can learn. Its state is in memory, as registers are set anew.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol


@dataclass(frozen=True)
class Pool:
    """Registers of a kind, by their use in microbenchmarks.

    own are written by the form under test, others by instructions beside it. Nothing writes the
    constant ones. back are two that close chains. moved are bases that loads update, and those that
    stores do; they keep their values.
    """

    own: tuple[int, ...]
    others: tuple[int, ...]
    constant: tuple[int, ...]
    back: tuple[int, int]
    moved: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


@dataclass(frozen=True)
class Branch:
    """A conditional branch to the next instruction; kind is as in flag `fuse=`."""

    kind: str
    name: str
    opposite: str
    code: bytes


@dataclass(frozen=True)
class Serial:
    """A serialising instruction: its code, and the code that sets up its operands.

    needs is the extension that has it. traps says that a hypervisor emulates it for guests. times
    is how often a copy drains the pipeline. free says that some cores do not drain it.
    """

    code: bytes
    before: bytes = b""
    needs: str = ""
    traps: bool = False
    times: int = 1
    free: bool = False


class Kit(Protocol):
    """The registers and known instructions of an ISA for microbenchmarks.

    DISPATCHED is the kind, "loop" or "unrolled", of timed copies that dispatch limits.
    """

    POOLS: Mapping[str, Pool]
    BYTES: int  # of every instruction; 0 where lengths differ
    DISPATCHED: str
    LOAD: str  # names of the plain load and the plain store of a register
    STORE: str
    LOADS: Mapping[str, str]  # plain loads by the parameter that their latency sets
    # a store and a load of the same address, by what the pair shows
    FORWARDS: Mapping[str, tuple[str, str]]
    ADDITIONS: Sequence[str]  # forms that add a register, or a constant, to memory, by its bits
    UPDATES: Mapping[str, str]  # forms that add a cycle to a value in memory
    EXTENSION: str  # name of the zero extension of a byte register; "" where there is none
    SUMMING: Sequence[str]  # names of an addition and a product of floats
    ADDED: str  # name of the form that adds any constant; "" where rename never adds
    RENAMED: Sequence[str]  # additions of a constant below 128, which rename performs on some cores
    IDIOMS: frozenset[str]  # mnemonics that may be zero idioms where operands are one register
    PUSH: str  # names of push and pop; "" where the ISA has none
    POP: str
    STACK: int  # number of the stack pointer among general-purpose registers
    BRANCHES: Sequence[Branch]  # none of them is taken behind a loop's count
    # branches that fuse with nothing and are not taken; opposite may be ""
    UNFUSED: Sequence[Branch]
    JUMP: str  # name of the plain jump
    # a call of a return, and a jump over the return; empty where calls are not measured
    CALLED: bytes
    CALLED_APART: bytes  # the same, spread over more bytes
    # Forms that no microbenchmark times, by name: the form whose figures they take ("" for none),
    # and their further uops of "load", "store" and "compute".
    DERIVED: Mapping[str, tuple[str, Sequence[str]]]
    FUSING: Sequence[str]  # mnemonics that some core fuses with a branch
    # Moves and loads of a register by name, and operations on the result that may fuse with them.
    ABSORBING: Sequence[tuple[Mapping[str, bytes], Mapping[str, bytes]]]
    COUNT: bytes  # the instruction that counts iterations, on another register
    FENCE: bytes  # waits until all earlier instructions have retired; empty where no such is known
    SERIAL: Mapping[str, Serial]  # by mnemonic, or by the key of their parameter
    PRIVILEGED: Sequence[str]  # serialising instructions that user mode cannot execute
    REPEATED: Mapping[str, int]  # repeated string instructions, with the bytes of an element
    SHORT: bytes  # the shortest nop
    MOVE: bytes  # a short move of a general-purpose register

    def nop(self) -> bytes:
        """Return the nop that microbenchmarks copy."""
        ...

    def pad(self, size: int) -> list[bytes]:
        """Return as few nops as fill so many bytes."""
        ...

    def jump_over(self, over: int) -> bytes:
        """Return a jump over so many bytes of nops."""
        ...

    def opposite(self, branch: Branch) -> bytes:
        """Return the code of a branch's opposite."""
        ...

    def break_dependency(self, kind: str, number: int) -> bytes:
        """Return an instruction that breaks the dependency of a register, or the flags."""
        ...

    def transfer(self, source: str, target: str, read: int, write: int) -> bytes:
        """Return an instruction with a result of one register kind and an operand of another.

        read and write are register numbers; for flags they are ignored. An instruction that writes
        a register from flags also reads that register.
        """
        ...

    def slow_links(self, register: int) -> list[bytes]:
        """Return one-uop instructions with a long latency from a vector register to itself."""
        ...

    def add_with_carry(self, register: int) -> bytes:
        """Return an addition to a register that reads and writes the carry."""
        ...

    def counting_loop(self, iterations: int) -> bytes:
        """Return an empty loop of so many iterations."""
        ...

    def push_and_pop(self, source: int, target: int) -> tuple[bytes, bytes]:
        """Return a push of one register, and a pop into another."""
        ...

    def adjust_stack(self, by: int) -> bytes:
        """Return an instruction that adds so many bytes to the stack pointer."""
        ...

    def make_dependent(self, register: int, on: int) -> list[bytes]:
        """Return instructions that make a register depend on another, and keep its value."""
        ...

    def branches_by_bits(self, random: bool, branches: int) -> bytes:
        """Return so many forward branches, each over a nop, that go by bits.

        The bits are those of a random generator with its state in memory, or of a register that
        nothing writes, set and clear in turn; all else is the same. Those of an iteration are made
        in the previous one, so that no branch waits for them.
        """
        ...

    def string_instruction(self, name: str, count: int, source: int, destination: int) -> bytes:
        """Return a string instruction with its operands, at offsets from lines; b"" without one."""
        ...


# labels of address operands, and keys of register numbers
BASE, INDEX, DISPLACEMENT = "a", "x", "disp"
NO_BASE = -1  # the number of a missing base
_HALF = 128  # bits of a vector that instructions before AVX write
_NARROW = 16  # bits of stores that some caches merge


@dataclass(frozen=True)
class Operand:
    """An operand, explicit or implied.

    label is its name in `instructions.csv`: the number of an operand, "f" for flags, a register's
    name. kind is "gpr", "vector" or "flags"; empty for constants. bits is its width. fixed is the
    register number where there is no choice.
    """

    label: str
    kind: str
    bits: int
    read: bool
    written: bool
    fixed: int | None = None


@dataclass(frozen=True)
class Memory:
    """Memory access of a form; its address consists of the operands BASE and INDEX.

    reach are the displacements that can be encoded, None for any. moves says that the base is
    updated; the encoded instructions restore it. parts are the load, or store, uops at most.
    """

    bits: int
    read: bool
    written: bool
    reach: range | None = None
    moves: bool = False
    parts: int = 2

    @property
    def narrow(self) -> bool:
        """True if it stores one or two bytes."""
        return self.written and self.bits <= _NARROW


Encode = Callable[[Mapping[str, int]], bytes]


@dataclass(frozen=True)
class Form:
    """A form, by its name in `instructions.csv`.

    encode takes register numbers by operand label, with DISPLACEMENT in bytes (default 0), INDEX
    for an indexed address, and "i" for the value of a constant. twin names the form with a register
    in the place of memory, if any. undone names the instruction that restores an updated base.
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
        return self.name.partition(" ")[0]

    @property
    def chosen(self) -> tuple[Operand, ...]:
        """Return the operands whose registers can be chosen."""
        return tuple(o for o in self.operands if o.kind != "flags" and o.fixed is None)

    @cached_property
    def legacy(self) -> bool:
        """True if it writes a vector and keeps the upper half of the register."""
        vector = any(one.kind == "vector" and one.written for one in self.operands)
        return vector and not self.name.startswith("v")

    @cached_property
    def wide(self) -> bool:
        """True if it uses upper halves of vectors."""
        return any(one.kind == "vector" and one.bits > _HALF for one in self.operands)

    def beside(self, other: "Form") -> bool:
        """True if it can be timed beside another form.

        An instruction that keeps upper halves takes 350 cycles on Zen 3 if another one has written
        them.
        """
        return not ((self.wide and other.legacy) or (self.legacy and other.wide))


MULTIPLIER, INCREMENT = 0x2545F495, 0x1B873593
GENERATOR_PLACE = 64  # offset in a line of the generator's state
_HIGHEST, _STEP = 62, 3  # bits of the generator
_SET, _CLEAR = 29, 62  # bits of pointers


def branch_bits(random: bool, branches: int) -> list[int]:
    """Return the bit of each branch: of the generator, or of a pointer, clear and set in turn."""
    if random:
        return [_HIGHEST - _STEP * number for number in range(branches)]
    return [_SET if number % 2 else _CLEAR for number in range(branches)]
