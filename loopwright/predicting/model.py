"""The protocol of throughput models: blocks in, answers out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from loopwright.code.instructions import Flow, Instruction, decode
from loopwright.microarchs import Microarch

ALIKE = 1.02  # two figures of cycles that differ by less say the same
BALANCED = "balanced:"  # begins what is said of several limits of the same figure


@dataclass(frozen=True)
class Block:
    """Code to predict: cycles an iteration of it, steady state, all data in the L1 cache.

    notion is "loop" (it ends in a branch to its start and repeats so) or "unrolled" (copies of it
    stand back to back). offset is the code offset: the address of the first byte mod 64.
    """

    isa: str
    code: bytes
    notion: str
    offset: int

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """Return the decoded instructions, addresses counted from its first byte."""
        return decode(self.isa, self.code)

    @property
    def string(self) -> Instruction | None:
        """Return the first repeated string instruction in it."""
        return next((i for i in self.instructions if i.string), None)

    @property
    def transfer(self) -> Instruction | None:
        """Return the first instruction that leaves it: a call, a return, an indirect jump."""
        leaving = (Flow.CALL, Flow.RETURN, Flow.INDIRECT)
        return next((i for i in self.instructions if i.flow in leaving), None)


@dataclass(frozen=True)
class Answer:
    """A model's answer: cycles an iteration, or None and the error that says why not.

    startup is what comes once before the first (of a string instruction), in cycles; None where it
    is not known. cheap and dear are the cycles at both ends of what nobody has measured, where they
    rest on such a parameter, else None. low and high hold 95 % of the measurements of such code,
    both None where the errors of the model on the core are not recorded. note says what of the
    block the model leaves out. limits are all that the model sees of what limits the block, each
    with its figure, bound what the largest of ports, dispatch and dependencies allows alone: no
    other order, alignment or window makes these instructions faster.
    """

    cycles: float | None
    bottleneck: str = ""
    error: str = ""
    startup: float | None = 0.0
    cheap: float | None = None
    dear: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    limits: str = ""
    bound: float | None = None

    @classmethod
    def none(cls, why: str) -> "Answer":
        """Return the answer of a model that has no number."""
        return cls(None, error=why)


class Model(Protocol):
    """A throughput model behind the one interface that loopwright knows.

    short is what a narrow column calls it. corrects is the id of the model that it answers instead
    of where both have an answer, or nothing.
    """

    id: str
    short: str
    corrects: str

    def version(self) -> str:
        """Return name and version; InputError that says how to get it where it is missing."""
        ...

    def lacks(self, core: Microarch) -> str:
        """Say why it has no answer for any block on a core, or nothing."""
        ...

    def predict(self, blocks: Sequence[Block], core: Microarch) -> list[Answer]:
        """Answer for each block, in order. A block it cannot answer for gets an error."""
        ...


def unfit(block: Block) -> str:
    """Say why no model that sees one straight block can answer for this one, or nothing."""
    if block.string:
        return (
            f"{block.string.mnemonic}: its cost depends on count and alignment, "
            "which this model does not see"
        )
    if block.transfer:
        return f"{block.transfer.mnemonic}: this model does not follow control out of the block"
    return ""
