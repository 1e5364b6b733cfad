"""Whole calls as the simulator predicts them: each question asked once, many at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from loopwright import kernels, microarchs
from loopwright.code import assemble, loops
from loopwright.errors import InputError
from loopwright.judging.call_costs import Place
from loopwright.kernels import Variant
from loopwright.microarchs import Microarch
from loopwright.predicting.calls import CallQuestion

Setting = tuple[tuple[str, str], ...]
"""Values of parameters that differ from those of core.toml, by name."""


class Asked(NamedTuple):
    """A variant with its main loop at a code offset, under values of parameters."""

    variant: Variant
    offset: int | None
    setting: Setting


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
    _known: dict[tuple[str, str, int | None, tuple[Place, ...], Setting], Costs | str] = field(
        default_factory=dict
    )

    def ask(
        self, core: Microarch, places: tuple[Place, ...], record: int, wanted: Sequence[Asked]
    ) -> list[Costs | str]:
        """Return the costs of calls, or for each why they are not known.

        record is the bytes of one record where the contract counts records, else 1.
        """
        keys = [(a.variant.id, core.id, a.offset, places, a.setting) for a in wanted]
        new = {key: one for key, one in zip(keys, wanted, strict=True) if key not in self._known}
        spots = tuple((p.size // record, p.dst, p.src) for p in places)
        asked = [
            CallQuestion(one.variant, core, spots, {**self.given, **dict(one.setting)}, one.offset)
            for one in new.values()
        ]
        for key, answers in zip(new, self._answers(asked), strict=True):
            self._known[key] = _costs(places, answers)
        return [self._known[key] for key in keys]

    def _answers(self, asked: Sequence[CallQuestion]) -> Answers:
        """Return answers; a value that the simulator refuses is an error of its question alone."""
        try:
            return self.simulator(asked) if asked else []
        except InputError as error:
            if len(asked) == 1:
                return [[error for _ in asked[0].places]]
        return [self._answers([one])[0] for one in asked]


def code_offsets(variant: Variant, core: Microarch) -> tuple[int | None, ...]:
    """Return the offsets that a linker may give a variant's main loop, None if it has no code.

    A routine that a tree keeps in a header is inlined.
    """
    try:
        code = assemble.variant_code(variant, microarchs.alternatives_left(variant, core))
    except InputError:
        return (None,)
    upstream = kernels.load(variant.kernel).routines[variant.routine].upstream
    inlined = upstream is not None and upstream.file.endswith(".h")
    return loops.offsets(code, kernels.contract_of(variant), inlined=inlined)


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
