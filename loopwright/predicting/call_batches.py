"""Trace calls once, and simulate them on every core that is asked about."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.kernels import Contract
from loopwright.microarchs import Microarch
from loopwright.predicting.call_cache import Cache, Found, Place
from loopwright.predicting.pipeline import Pipeline
from loopwright.tracing.calls import Packed, Tracer
from loopwright.tracing.memory import Call

Tick = Callable[[int], None]

_BATCH = 64  # calls that are traced and simulated before the bar moves on


@dataclass(frozen=True)
class Routine:
    """Code that is called, and how; its text stands shift bytes behind a 64-byte boundary."""

    code: Code
    contract: Contract
    shift: int

    @property
    def key(self) -> str:
        """Return what tells it from any other."""
        return repr((self.code.sha256, self.contract, self.shift))

    def effective(self, place: Place) -> Place:
        """Return a place without what the contract has no input for."""
        size, dst, src = place
        given = self.contract.inputs
        return size, dst if "dst" in given else 0, src if "src" in given else 0


@dataclass(frozen=True)
class Work:
    """Calls that are wanted of a core."""

    core: Microarch
    model: Pipeline
    places: Sequence[Place]


def run(routine: Routine, works: Sequence[Work], tick: Tick) -> list[list[Found]]:
    """Return what each place of each work costs; tick is told how many places are done.

    What is found is kept on disk, also where this is interrupted.
    """
    jobs = [_Job(routine, work) for work in works]
    asked = Counter(place for job in jobs for place in job.places)
    new = [place for place in asked if any(job.lacks(place) for job in jobs)]
    tick(asked.total() - sum(asked[place] for place in new))
    if new:
        tracer = Tracer(routine.code, routine.contract, routine.shift)
    try:
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            traced = dict(zip(batch, tracer.calls([Call(*p) for p in batch]), strict=True))
            for job in jobs:
                job.simulate({p: call for p, call in traced.items() if job.lacks(p)})
            tick(sum(asked[place] for place in batch))
    finally:
        for job in jobs:
            job.cache.keep()
    return [[job.cache.known[place] for place in job.places] for job in jobs]


class _Job:
    """Calls that are wanted of a core, and those that are known."""

    def __init__(self, routine: Routine, work: Work) -> None:
        self._work = work
        self.places = [routine.effective(place) for place in work.places]
        self._wanted = frozenset(self.places)
        figures = work.model.figures(work.core)
        self.cache = Cache(routine.key, figures)

    def lacks(self, place: Place) -> bool:
        """Say whether a call is wanted and not known."""
        return place in self._wanted and place not in self.cache.known

    def simulate(self, traced: Mapping[Place, Packed | InputError]) -> None:
        """Find what calls cost."""
        for place, call in traced.items():
            if isinstance(call, InputError):
                self.cache.add(place, Found(error=str(call)))
        calls = {place: c for place, c in traced.items() if not isinstance(c, InputError)}
        rows = self._work.model.calls(list(calls.values()), self._work.core)
        for place, row in zip(calls, rows, strict=True):
            self.cache.add(place, _found(row))


def _found(row: Mapping[str, Any]) -> Found:
    if row.get("error"):
        return Found(error=row["error"])
    notes = [*row["caveats"], *([] if row["steady"] else ["calls do not settle: a mean of many"])]
    cycles, mispredicted, alone = (round(row[n], 3) for n in ("cycles", "mispredicted", "alone"))
    return Found(cycles, mispredicted, alone, "; ".join(notes))
