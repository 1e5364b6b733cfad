"""Loops whose code alone does not say what their iterations do, on a core of the simulator."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from loopwright.calibrating.machines.machine import Run, Timing, Trial
from loopwright.code import binding, decode
from loopwright.code.instructions import Flow

if TYPE_CHECKING:
    from loopwright_pipeline import Core

_NOWHERE = -1  # the address of what is not accessed
# What predicts branches remembers one, so that it is wrong where ways are balanced.
_FORGETS = {"mispredict.history": "1"}


class Iterations:
    """Predicts such loops as calls, whose steps are the instructions that are executed."""

    def __init__(self, isa: str, toml: str, table: str, settings: Mapping[str, str]) -> None:
        """Take the texts of a core, and parameters that replace its own."""
        self._isa, self._texts, self._settings = isa, (toml, table), settings

    @cached_property
    def _core(self) -> "Core":
        return binding.core(*self._texts, {**self._settings, **_FORGETS})

    def measure(self, trials: Sequence[tuple[Trial, Run]]) -> list[Timing]:
        """Return the cycles of an iteration of each, or why there are none."""
        asked = [(one.code, one.offset, _steps(self._isa, one.code, run)) for one, run in trials]
        out = []
        for (_, run), row in zip(trials, self._core.calls(asked) if asked else (), strict=True):
            cycles = row.get("mispredicted")
            if isinstance(cycles, float):
                out.append(Timing(cycles / len(run.ways)))
            else:
                out.append(Timing(None, refused=str(row["error"])))
        return out


def _steps(isa: str, code: bytes, run: Run) -> bytes:
    """Return the steps of all iterations."""
    return b"".join(_executed(isa, code, run))


def _executed(isa: str, code: bytes, run: Run) -> Iterator[bytes]:
    body = {one.address: one for one in decode.decode(isa, code)}
    for ways in run.ways:
        left = iter(ways)
        at = 0
        while at in body:
            one = body[at]
            load = run.load if one.read_bytes else _NOWHERE
            store = run.store if one.written_bytes else _NOWHERE
            yield struct.pack("<IIqq", at, run.repeats if one.string else 1, load, store)
            target = one.target if one.flow is Flow.BRANCH else None
            if target is not None and target >= one.end and next(left, False):
                at = target
            else:
                at = one.end
