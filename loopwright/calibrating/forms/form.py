"""An instruction form: what its operands are, and how it is encoded with chosen registers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from loopwright.calibrating.forms.kit import Kit

# Of an address, among the operands and the numbers of registers.
BASE, INDEX, DISPLACEMENT = "a", "x", "disp"
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
    """What a form accesses in memory. Its address is made of operands: BASE, INDEX.

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
