"""Whole calls as the simulator predicts them: each question asked once, many at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from loopwright.cores.microarchs import Microarch
from loopwright.errors import InputError
from loopwright.judging.call_costs import Place
from loopwright.judging.unknowns import Unknown, of
from loopwright.kernels import Variant
from loopwright.predicting.calls import CallQuestion

Setting = tuple[tuple[str, str], ...]
"""Values of parameters, by name."""


class Cost(Protocol):
    """Cycles of a call: with all branches predicted, and with exits of loops that are not."""

    @property
    def cycles(self) -> float:
        """Cycles with all branches predicted."""

    @property
    def mispredicted(self) -> float:
        """Cycles with those exits mispredicted that a history predictor cannot know."""


Answers = Sequence[Sequence[Cost | InputError]]
Simulator = Callable[[Sequence[CallQuestion]], Answers]


class Costs(NamedTuple):
    """What a variant's calls take by place, in cycles: exits predicted, and mispredicted."""

    predicted: Mapping[Place, float]
    mispredicted: Mapping[Place, float]


@dataclass
class Calls:
    """Simulated calls of variants on cores; what was answered once is not asked again.

    given are values of parameters that are set by hand, and so no longer unknown.
    """

    simulator: Simulator
    given: Mapping[str, str] = field(default_factory=dict)
    _known: dict[tuple[str, str, tuple[Place, ...], Setting], Costs | str] = field(
        default_factory=dict
    )

    def unknown(self, core: Microarch) -> list[Unknown]:
        """Return what is not known of a core."""
        return of(core, self.given)

    def ask(
        self,
        core: Microarch,
        places: tuple[Place, ...],
        record: int,
        wanted: Sequence[tuple[Variant, Setting]],
    ) -> list[Costs | str]:
        """Return what calls of variants take under settings, or why that is not known.

        record is the bytes of one record where the contract counts records, else 1.
        """
        keys = [(v.id, core.id, places, setting) for v, setting in wanted]
        new = {key: one for key, one in zip(keys, wanted, strict=True) if key not in self._known}
        spots = tuple((p.size // record, p.dst, p.src) for p in places)
        asked = [
            CallQuestion(variant, core, spots, {**self.given, **dict(setting)})
            for variant, setting in new.values()
        ]
        if asked:
            for key, answers in zip(new, self.simulator(asked), strict=True):
                self._known[key] = _costs(places, answers)
        return [self._known[key] for key in keys]


def _costs(places: Sequence[Place], answers: Sequence[Cost | InputError]) -> Costs | str:
    """Return costs by place, or the first reason why there is one missing."""
    costs: list[Cost] = []
    for answer in answers:
        if isinstance(answer, InputError):
            return str(answer)
        costs.append(answer)
    return Costs(
        {p: c.cycles for p, c in zip(places, costs, strict=True)},
        {p: max(c.cycles, c.mispredicted) for p, c in zip(places, costs, strict=True)},
    )
