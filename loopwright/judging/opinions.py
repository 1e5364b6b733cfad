"""What the models say of a variant on a core, each by how right it has been there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from loopwright import microarchs
from loopwright.histogram import Histogram
from loopwright.judging import call_costs, standing
from loopwright.judging.call_costs import Row
from loopwright.judging.compare import MEASURED
from loopwright.judging.standing import Standing
from loopwright.kernels import Routine
from loopwright.predicting.models import MODELS

# A difference that is smaller than this no model is asked to tell.
LEAST = 0.05
# Models that nobody has held to measurements of a core must show more, and be at least two.
UNVALIDATED = standing.UNVALIDATED_PERCENT / 100


@dataclass(frozen=True)
class Opinion:
    """What the models that count say of a variant against its baseline on one core.

    ratios are speeds relative to the baseline by model; standings say how right each of them has
    been there, aside which others answered, and why they do not count.
    """

    core: str
    ratios: Mapping[str, float]
    standings: Mapping[str, Standing]
    aside: Mapping[str, str]

    @property
    def ratio(self) -> float:
        """Return the median of what the models that count say."""
        return float(np.median(list(self.ratios.values())))

    @property
    def validated(self) -> bool:
        """Say whether those that count were held to measurements of the core."""
        return all(s.validated for s in self.standings.values())

    @property
    def contested(self) -> bool:
        """Say whether they differ on whether there is a gain."""
        return len({ratio > 1 + LEAST for ratio in self.ratios.values()}) > 1

    @property
    def gain(self) -> bool:
        """Say whether all of them show a gain that is more than they are off by.

        Those that were never held to measurements must be two, and show more than UNVALIDATED.
        """
        if not self.validated and len(self.ratios) < 2:
            return False
        return all(ratio > 1 + self.doubt(model) for model, ratio in self.ratios.items())

    @property
    def loss(self) -> bool:
        """Say whether they show a loss; it takes no proof to be careful."""
        return not self.contested and self.ratio < 1 - LEAST

    def doubt(self, model: str) -> float:
        """Return the difference, relative, up to which a model's figure tells nothing."""
        error = self.standings[model].error_percent
        return max(LEAST, UNVALIDATED if error is None else error / 100)

    @property
    def unproven(self) -> str:
        """Say why a gain that all of them show is not believed, or nothing."""
        if self.contested or self.gain or self.ratio <= 1 + LEAST:
            return ""
        if not self.validated and len(self.ratios) < 2:
            return "one model alone, and not validated there"
        most = max(self.doubt(model) for model in self.ratios)
        return f"models may be off by {100 * most:.0f} % there"

    @property
    def described(self) -> str:
        """Return in words which models count, which do not, and why."""
        counted = [f"{model} ({s.described})" for model, s in self.standings.items()]
        out = f"{self.core}: counted {', '.join(counted)}"
        left = [f"{model} ({why})" for model, why in self.aside.items()]
        return f"{out}; not counted {', '.join(left)}" if left else out


@dataclass(frozen=True)
class Panel:
    """The models' figures of one routine, of which opinions are made.

    rows is the comparison table, known what models have been held to.
    """

    rows: pd.DataFrame
    routine: Routine
    sizes: Histogram | None
    known: pd.DataFrame

    @classmethod
    def of(cls, rows: pd.DataFrame, routine: Routine, sizes: Histogram | None) -> "Panel":
        """Return the panel for a comparison table, with what models have been held to."""
        return cls(rows[rows["source"] != MEASURED], routine, sizes, standing.records())

    def opinion(self, variant: str, core: str) -> Opinion | None:
        """Return what the models say that have figures of both the variant and the baseline.

        Those that were right on that core count alone; where there are none, those that nobody
        held to it; and those that were wrong there only where no other answers.
        """
        base, other = (self._figures(name, core) for name in (self.routine.baseline, variant))
        both = [str(model) for model in other.index if model in base.index]
        low = "a figure below what loads and stores take"
        aside = dict.fromkeys(self._impossible(base, other), low)
        for model in MODELS:
            if {model.id, model.corrects} <= set(both) and model.corrects not in aside:
                aside[model.corrects] = f"{model.id} answers instead"
        answering = [model for model in both if model not in aside]
        if not answering:
            return None
        notion = str(other.loc[answering[0], "notion"])
        held = {model: standing.of(model, core, notion, self.known) for model in answering}
        counted = _counted(held.values())
        aside |= {model: s.described for model, s in held.items() if s not in counted}
        contract = self.routine.contract
        fixed = 0 if contract.counted else contract.dst_record
        pairs = zip(*(_rows(figures, counted) for figures in (base, other)), strict=True)
        ratios = {
            s.model: call_costs.predicted_speedup(was, now, self.sizes, fixed)
            for s, (was, now) in zip(counted, pairs, strict=True)
        }
        return Opinion(core, ratios, {s.model: s for s in counted}, aside)

    def _figures(self, variant: str, core: str) -> pd.DataFrame:
        """Return the models' rows of one variant on one core that cost a call of any size."""
        return self._by_place.get((variant, core), self.rows.iloc[:0].set_index("source"))

    @cached_property
    def _by_place(self) -> dict[tuple[str, str], pd.DataFrame]:
        whole = self.rows[self.rows["cycles"].notna() & self.rows["startup_cycles"].notna()]
        parts = whole.groupby(["variant", "microarch"], sort=False)
        return {(str(v), str(core)): part.set_index("source") for (v, core), part in parts}

    def _impossible(self, *figures: pd.DataFrame) -> set[str]:
        """Return the models of which one figure cannot be."""
        return {
            str(model) for rows in figures for model in rows.index[microarchs.below_bounds(rows)]
        }


def _counted(standings: Iterable[Standing]) -> list[Standing]:
    every = list(standings)
    validated = [s for s in every if s.validated]
    unknown = [s for s in every if not s.wrong]
    return validated or unknown or every


def _rows(figures: pd.DataFrame, counted: Sequence[Standing]) -> list[Row]:
    """Return the row of each model that counts."""
    of_model = figures.to_dict("index")
    return [of_model[s.model] for s in counted]
