"""What is known of each variant against its routine's baseline, core by core."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from loopwright.checking.check import user_space_note
from loopwright.cores import microarchs
from loopwright.cores.features import provides
from loopwright.cores.microarchs import Microarch
from loopwright.judging import basis, call_costs, opinions
from loopwright.judging.basis import Gap
from loopwright.judging.call_costs import Place, Row
from loopwright.judging.compare import HERE, MEASURED
from loopwright.judging.histogram import Histogram
from loopwright.judging.opinions import Opinion
from loopwright.judging.study import Study
from loopwright.kernels import Routine, Variant

# Measurements differ by this much from placement to placement, whatever the variant.
THRESHOLD = 0.02


@dataclass(frozen=True)
class Verdict:
    """A variant against the baseline on one core, by measurement or by the models' opinion.

    ratio is its speed relative to the baseline, between low and high; sources name who says so.
    gain and loss say whether it is faster or slower by more than the source can be wrong by.
    contested: the models that count differ on whether there is a gain.
    """

    core: str
    ratio: float
    low: float
    high: float
    sources: tuple[str, ...]
    gain: bool
    loss: bool
    contested: bool = False
    opinion: Opinion | None = None

    @property
    def measured(self) -> bool:
        """Say whether this is a measurement."""
        return self.opinion is None

    @property
    def alike(self) -> bool:
        """Say whether this is a measurement that shows no difference."""
        return self.measured and self.low <= 1 <= self.high

    @property
    def settled(self) -> float:
        """Return the ratio, or 1 where it is neither a gain nor a loss."""
        return self.ratio if self.gain or self.loss else 1.0


@dataclass
class Case:
    """A sound variant other than the baseline, with what is known of it by core.

    verdicts are those that stand; short has the cores that were to be measured, and what is missing
    there; lacking says what a core has not that the variant needs. partial is empty, or says what
    of the variant or its baseline cannot run in user space: such measurements are in aside, and
    are no verdict on the routine, whole or short.
    """

    variant: Variant
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    short: dict[str, tuple[Gap, ...]] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    partial: str = ""
    aside: dict[str, Verdict] = field(default_factory=dict)

    def score(self, cores: list[Microarch]) -> float:
        """Return the geometric mean of its settled ratios on those cores, nan where none is known.

        So a difference that its source cannot tell counts as none.
        """
        known = [self.verdicts[c.id] for c in cores if c.id in self.verdicts]
        return float(np.exp(np.mean(np.log([v.settled for v in known])))) if known else np.nan

    def unmeasured(self, cores: list[Microarch]) -> list[Microarch]:
        """Return the cores on which it lacks points that a verdict would rest on."""
        return [c for c in cores if c.id in self.short and not self.partial]

    def contested(self, cores: list[Microarch]) -> list[Microarch]:
        """Return the cores on which models differ on whether it is a gain."""
        return [c for c in cores if c.id in self.verdicts and self.verdicts[c.id].contested]

    def silent(self, cores: list[Microarch]) -> list[Microarch]:
        """Return the cores on which nothing is known of it."""
        return [c for c in cores if c.id not in self.verdicts]


def sound(found: Study, variant: str) -> bool:
    """Say whether a variant honours its contract."""
    return bool(found.checks.set_index("variant")["passed"].get(variant, False))


def cases(
    found: Study, routine: Routine, rows: pd.DataFrame, sizes: Histogram | None
) -> list[Case]:
    """Return the candidates of a routine with what the comparison table rows says of each."""
    out = []
    panel = opinions.Panel.of(rows, routine, sizes)
    measured = [_Measured(core, _on(found.measurements, core)) for core in measured_cores(found)]
    for variant in found.kernel.of_routine(routine.name):
        if variant.name == routine.baseline or not sound(found, variant.name):
            continue
        case = Case(variant, partial=_partial(found, routine, variant))
        for core in microarchs.targets(found.kernel.isa):
            unmet = [n for n in variant.needs if not provides(core, n) or n.startswith("no")]
            if unmet:
                case.lacking[core.id] = " and ".join(map(_condition, unmet))
        _measured(measured, routine, case, sizes)
        for core_id in map(str, rows["microarch"].unique()):
            # What was to be measured and is not there is no reason to ask models instead.
            if core_id not in case.verdicts and (case.partial or core_id not in case.short):
                opinion = panel.opinion(variant.name, core_id)
                if opinion:
                    case.verdicts[core_id] = _of_models(opinion)
        out.append(case)
    return out


def _partial(found: Study, routine: Routine, variant: Variant) -> str:
    """Say what user space leaves out of a variant or its baseline, or nothing."""
    both = (found.kernel.variants[routine.baseline], variant)
    return next((note for one in both if (note := user_space_note(one))), "")


def _condition(need: str) -> str:
    """Return a need in words: "noX" asks for X to be switched off."""
    return f"{need[2:]} is off" if need.startswith("no") else f"there is {need}"


class _Measured:
    """What was measured on a core, and the calls of each variant among it."""

    def __init__(self, core: str, rows: pd.DataFrame) -> None:
        self.core, self.rows = core, rows
        self._calls: dict[str, dict[Place, list[Row]]] = {}

    def calls(self, variant: str) -> dict[Place, list[Row]]:
        if variant not in self._calls:
            self._calls[variant] = basis.calls(self.rows, variant)
        return self._calls[variant]


def _measured(
    measured: Sequence[_Measured], routine: Routine, case: Case, sizes: Histogram | None
) -> None:
    """Fill in the verdicts of calls that were measured, and what is missing for one.

    Where user space leaves something out a measurement says nothing of the routine, whole or not.
    """
    asked = basis.places(routine.contract, sizes)
    for of_core in measured:
        core, rows = of_core.core, of_core.rows
        base, other = (of_core.calls(n) for n in (routine.baseline, case.variant.name))
        both = basis.pairs(base, other)
        if all(place in both for place in asked):
            verdict = _of_calls(core, {place: both[place] for place in asked}, sizes)
            (case.aside if case.partial else case.verdicts)[core] = verdict
            continue
        lacks = [
            basis.gap(rows, name, known, asked)
            for name, known in ((routine.baseline, base), (case.variant.name, other))
        ]
        # Each has its points, but they are not of one clock, machine and skew.
        apart = basis.gap(rows, f"{case.variant.name} beside {routine.baseline}", both, asked)
        case.short[core] = tuple(g for g in lacks if g) or tuple(g for g in (apart,) if g)


def measured_cores(found: Study) -> list[str]:
    """Return the cores that were, or were to be, measured."""
    cores = [
        str(core) or HERE for core in found.measurements.get("microarch", pd.Series()).unique()
    ]
    cores += [found.host or HERE] if found.tried else []
    return list(dict.fromkeys([*cores, *(source.core for source in found.sources)]))


def _on(rows: pd.DataFrame, core: str) -> pd.DataFrame:
    return rows if rows.empty else rows[rows["microarch"].replace("", HERE) == core]


def _of_calls(
    core: str,
    pairs: dict[Place, tuple[Row, Row]],
    sizes: Histogram | None,
) -> Verdict:
    ratio, low, high = call_costs.speedup(pairs, sizes)
    gain, loss = low > 1 and ratio > 1 + THRESHOLD, high < 1 and ratio < 1 - THRESHOLD
    return Verdict(core, ratio, low, high, (MEASURED,), gain, loss)


def _of_models(opinion: Opinion) -> Verdict:
    return Verdict(
        core=opinion.core,
        ratio=opinion.ratio,
        low=min(opinion.ratios.values()),
        high=max(opinion.ratios.values()),
        sources=tuple(opinion.ratios),
        gain=opinion.gain,
        loss=opinion.loss,
        contested=opinion.contested,
        opinion=opinion,
    )
