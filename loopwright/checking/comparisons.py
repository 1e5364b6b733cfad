"""Comparisons that decide branches, and the difference of their operands."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopwright.checking.body import Body, Step

_BACK = 6  # instructions before a branch among which its comparison is looked for
_MASK = (1 << 64) - 1
_FLAGS = re.compile(
    r"^(?:cmp|test|sub|add|and|or|xor|dec|inc|neg|sh[lr]|sar|bt|adc|sbb|imul|lea|mov\w*|"
    r"ccm[pn]|cm[pn]|tst|subs|adds|ands|bics|tbn?z|cbn?z|jr?e?cxz)\b"
)
_REGISTER = re.compile(r"\b([er][a-ds][xip]|[er][sd]i|r\d+[dwb]?|[a-d][lx]|[xw]\d+|[sd]il)\b")
_NUMBER = re.compile(r"(?<![\w.])#?(-?(?:0x[0-9a-f]+|[0-9][0-9A-Fa-f]*h?))\b")


@dataclass(frozen=True)
class Comparison:
    """An instruction whose operands decide: registers by name, and constants."""

    at: int
    registers: tuple[str, ...]
    constants: tuple[int, ...]

    def lacking(self, values: Mapping[str, int]) -> set[int]:
        """Return by how much an operand would have to differ for another result."""
        operands = [_value(name, values) for name in self.registers]
        operands += [constant & _MASK for constant in self.constants]
        out = {1, 2, 4, 8}
        for n, one in enumerate(operands):
            out.add(_small(one))
            for other in operands[n + 1 :]:
                difference = _small(one - other)
                out |= {difference, difference - 1, difference + 1, _small(one & other)}
                out |= {_small(one ^ other)}
        return {d for d in out if 0 < d < 1 << 33}


def before(reached: Body, at: int, what: str) -> Iterator[Comparison]:
    """Yield the comparisons that may decide what happens at an address, nearest first.

    Of an instruction that is never executed they are those before the branches that lead to it.
    """
    addresses = sorted(reached.steps)
    ends = [at]
    if what == "never executed":
        ends = [a for a, s in reached.steps.items() if s.target == at]
    for end in ends:
        where = addresses.index(end)
        for address in reversed(addresses[max(0, where - _BACK) : where + 1]):
            step = reached.steps[address]
            if _FLAGS.match(step.text):
                yield _comparison(step)


def _comparison(step: Step) -> Comparison:
    operands = step.text.partition(" ")[2]
    return Comparison(step.address, tuple(_REGISTER.findall(operands)), step.constants)


_BYTES = {"al": "rax", "bl": "rbx", "cl": "rcx", "dl": "rdx", "sil": "rsi", "dil": "rdi",
          "ax": "rax", "bx": "rbx", "cx": "rcx", "dx": "rdx"}  # fmt: skip


def _value(name: str, values: Mapping[str, int]) -> int:
    """Return what a register holds, by the name of all of it or of a part."""
    if name in values:
        return values[name]
    if name in _BYTES:
        return values[_BYTES[name]] & (0xFF if name.endswith("l") else 0xFFFF)
    if name[0] == "w":
        return values[f"x{name[1:]}"] & 0xFFFF_FFFF
    if name[0] == "e":
        return values[f"r{name[1:]}"] & 0xFFFF_FFFF
    wide, part = name[:-1], name[-1]
    bits = {"d": 32, "w": 16, "b": 8}[part]
    return values[wide] & (1 << bits) - 1


def _small(value: int) -> int:
    """Return the magnitude of a difference, as of 64 bits or of 32, whichever is less."""
    wide = min(value & _MASK, -value & _MASK)
    return min(wide, min(value & 0xFFFF_FFFF, -value & 0xFFFF_FFFF) or wide)
