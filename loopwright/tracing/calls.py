"""The steps of calls that follow each other, as the simulator takes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels.contracts import Contract
from loopwright.tracing import caller, emulator
from loopwright.tracing.machine import STACK_TOP, Machine
from loopwright.tracing.memory import BASES, PAGE, Buffer, Call, place
from loopwright.tracing.recorder import Steps

# A step of a call: the instruction's position in the code, repeats of a string instruction (else 1)
# and the addresses of its load and its store, -1 where it has none.
RECORD = np.dtype([("position", "<u4"), ("repeats", "<u4"), ("load", "<i8"), ("store", "<i8")])
_NONE = -1


class Packed(NamedTuple):
    """A call as the simulator takes it: code, its address mod 4096, and steps as RECORD has them.

    The steps are those of one call with its caller, from the loading of arguments to the branch
    back to it.
    """

    code: bytes
    offset: int
    steps: bytes


@dataclass(frozen=True)
class _Place:
    """A call, and where its buffers are."""

    buffers: dict[str, Buffer]
    count: int


class Tracer:
    """Traces calls of code, its text offset bytes behind a 64-byte boundary."""

    def __init__(self, code: Code, contract: Contract, offset: int) -> None:
        """Take code and the contract that says how it is called."""
        self._code, self._contract = code, contract
        self._machine = Machine(code, offset)
        self._decoded = emulator.Decoded(code)
        self._mapped: dict[str, int] = {}  # up to which address, by side

    def calls(self, calls: Sequence[Call]) -> Iterator[Packed | InputError]:
        """Yield each call, or why there is none.

        That is a call that the contract has not, or code that Unicorn does not know, that faults,
        or that does not return.
        """
        places: list[_Place | InputError] = []
        for call in calls:
            try:
                places.append(_Place(place(self._contract, call), call.count))
            except InputError as error:
                places.append(error)
        self._map([one for one in places if isinstance(one, _Place)])
        for one in places:
            try:
                yield self._packed(one) if isinstance(one, _Place) else one
            except InputError as error:
                yield error

    def _map(self, places: Sequence[_Place]) -> None:
        """Let the buffers of all places be accessed."""
        for side, base in BASES.items():
            ends = (sum(one.buffers[side].pages) for one in places if side in one.buffers)
            mapped, end = self._mapped.get(side, base), max(ends, default=0)
            if end > mapped:
                self._machine.map(mapped, end - mapped)
                self._mapped[side] = end

    def _packed(self, one: _Place) -> Packed:
        machine, code, contract = self._machine, self._code, self._contract
        values = emulator.inputs(contract, one.buffers, one.count)
        machine.prepare(values)
        if emulator.follow(machine, code, contract):
            raise InputError(f"{contract.symbol} accesses memory that its call does not give it")
        around = caller.of(code, contract, values, machine.base % 64)
        seen = machine.recorder.steps
        steps = np.empty(len(around.before) + len(seen) + len(around.behind), dtype=RECORD)
        steps["repeats"], steps["load"], steps["store"] = 1, _NONE, _NONE
        first, last = len(around.before), len(steps) - len(around.behind)
        steps["position"][:first], steps["position"][last:] = around.before, around.behind
        if code.isa == "x86_64":
            steps["store"][first - 1] = STACK_TOP  # the call's
        self._write(steps[first:last], seen)
        return Packed(around.code, machine.base % PAGE, steps.tobytes())

    def _write(self, steps: NDArray[np.void], seen: Steps) -> None:
        """Write what was recorded as the simulator takes it."""
        steps["position"] = seen["address"] - self._machine.base
        for side in ("load", "store"):
            steps[side] = np.where(seen[f"{side}s"] > 0, seen[side].view("<i8"), _NONE)
        for address, at in zip(*np.unique(steps["position"], return_index=True), strict=True):
            if self._decoded.at(int(address), int(seen["size"][at])).string:
                mine = steps["position"] == address
                steps["repeats"][mine] = np.maximum(seen["loads"], seen["stores"])[mine]
