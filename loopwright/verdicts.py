"""What is known of each variant against its routine's baseline, core by core."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from loopwright import costs, microarchs
from loopwright.compare import MEASURED
from loopwright.histogram import Histogram
from loopwright.kernels import Routine, Variant
from loopwright.microarchs import Microarch
from loopwright.predict.llvm_mca import CorrectedLlvmMca, LlvmMca
from loopwright.predict.subjects import provides
from loopwright.study import Study

# Measurements differ by this much from placement to placement, whatever the variant; models err
# by more.
THRESHOLD = 0.02
MODEL_THRESHOLD = 0.05


@dataclass(frozen=True)
class Verdict:
    """A variant against the baseline on one core.

    ratio is its speed relative to the baseline, between low and high; sources name who says so.
    agree says whether they are of one mind: faster, slower, or the same.
    """

    core: str
    ratio: float
    low: float
    high: float
    sources: tuple[str, ...]
    agree: bool

    @property
    def measured(self) -> bool:
        """Say whether this is a measurement."""
        return self.sources == (MEASURED,)

    @property
    def alike(self) -> bool:
        """Say whether this is a measurement that shows no difference."""
        return self.measured and self.low <= 1 <= self.high


@dataclass
class Case:
    """A sound variant other than the baseline: its verdicts by core, and by core what it lacks."""

    variant: Variant
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)

    def score(self, cores: list[Microarch]) -> float:
        """Return the geometric mean of its ratios on those cores, nan where none is known.

        A difference that lies within its own interval counts as none.
        """
        known = [self.verdicts[c.id] for c in cores if c.id in self.verdicts]
        ratios = [1.0 if v.alike else v.ratio for v in known]
        return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")


def sound(found: Study, variant: str) -> bool:
    """Say whether a variant honours its contract."""
    return bool(found.checks.set_index("variant")["passed"].get(variant, False))


def cases(
    found: Study, routine: Routine, rows: pd.DataFrame, sizes: Histogram | None
) -> list[Case]:
    """Return the candidates of a routine with what the comparison table rows says of each."""
    out = []
    for variant in found.kernel.of_routine(routine.name):
        if variant.name == routine.baseline or not sound(found, variant.name):
            continue
        case = Case(variant)
        for core in microarchs.targets(found.kernel.isa):
            unmet = [n for n in variant.needs if not provides(core, n) or n.startswith("no")]
            if unmet:
                case.lacking[core.id] = " and ".join(map(_condition, unmet))
        for core_id in rows["microarch"].unique():
            verdict = _measured(found, routine, variant, str(core_id), sizes) or _predicted(
                rows, variant.name, routine.baseline, str(core_id), sizes
            )
            if verdict:
                case.verdicts[str(core_id)] = verdict
        out.append(case)
    return out


def _condition(need: str) -> str:
    """Return a need in words: "noX" asks for X to be switched off."""
    return f"{need[2:]} is off" if need.startswith("no") else f"there is {need}"


def _measured(
    found: Study, routine: Routine, variant: Variant, core: str, sizes: Histogram | None
) -> Verdict | None:
    """Return the verdict of calls measured on that core."""
    rows = found.measurements
    if rows.empty:
        return None
    rows = rows[rows["microarch"] == core]
    calls = (rows["quantity"] == "call") & (rows["cache"] == "hot")
    good = rows[calls & (rows["status"] != "refused")]
    base, other = (good[good["variant"] == n] for n in (routine.baseline, variant.name))
    if not set(base["size_bytes"]) & set(other["size_bytes"]):
        return None
    return Verdict(core, *costs.speedup(base, other, sizes), (MEASURED,), True)


def _superseded(sources: list[str]) -> set[str]:
    """Return the models that another one, with a known error mended, answers instead of."""
    return {LlvmMca.id} if CorrectedLlvmMca.id in sources else set()


def _impossible(rows: pd.DataFrame, variants: set[str], core: str) -> set[str]:
    """Return the models whose figure for one of the variants is below what the core can do."""
    mine = rows[rows["variant"].isin(variants) & (rows["microarch"] == core)]
    return set(mine.loc[mine["cycles"] < (1 - THRESHOLD) * mine["least_cycles"], "source"])


def _figures(rows: pd.DataFrame, variant: str, core: str) -> pd.DataFrame:
    """Return the models' rows of one variant on one core that cost a call of any size."""
    mine = rows[(rows["variant"] == variant) & (rows["microarch"] == core)]
    whole = mine["cycles"].notna() & mine["startup_cycles"].notna()
    return mine[whole & (mine["source"] != MEASURED)].set_index("source")


def _predicted(
    rows: pd.DataFrame, variant: str, baseline: str, core: str, sizes: Histogram | None
) -> Verdict | None:
    """Return the verdict of the models that answer for both variants: their median."""
    base, other = (_figures(rows, name, core) for name in (baseline, variant))
    both = [s for s in other.index if s in base.index]
    wrong = _impossible(rows, {variant, baseline}, core) | _superseded(both)
    used = [source for source in both if source not in wrong]
    if not used:
        return None
    ratios = [costs.predicted_speedup(base.loc[s], other.loc[s], sizes) for s in used]
    edge = MODEL_THRESHOLD
    sides = {1 if r > 1 + edge else -1 if r < 1 - edge else 0 for r in ratios}
    return Verdict(
        core, float(np.median(ratios)), min(ratios), max(ratios), tuple(used), len(sides) == 1
    )
