"""Accuracy of each model on each core, from models/accuracy.csv, and opinions weighed by it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd

from loopwright import microarchs, paths
from loopwright.errors import InputError
from loopwright.histogram import Histogram
from loopwright.judging import call_costs
from loopwright.kernels import Routine
from loopwright.predicting import held_out
from loopwright.predicting.models import MODELS, SIMULATOR

FILE = "accuracy.csv"
COLUMNS = [
    "core", "model", "what", "against", "rows", "mape_percent", "tau", "held_out", "origin"
]  # fmt: skip
MEASUREMENT = "measurement"

# A model with a larger mean error counts only where no better one answers.
GOOD_PERCENT = 15.0
LEAST_ROWS = 30  # fewer rows do not establish the accuracy of a model
# The least error assumed of a model that was never compared with loops of a core.
UNVALIDATED_PERCENT = 20.0
# The least relative difference of speeds that a model's figures can establish.
LEAST_DIFFERENCE = 0.05
_RECORDS_FOR = {
    "call": ("calls", "loops", "unrolled"),
    "loop": ("loops", "unrolled"),
    "unrolled": ("unrolled", "loops"),
    "strings": ("strings",),
}
_WHOLE = ("calls", "loops", "speed-ups")  # records of more than single instructions


@dataclass(frozen=True)
class ModelAccuracy:
    """The accuracy of a model on a core, for one kind of prediction.

    error_percent is the mean absolute error over rows that set no parameter of the model, None
    if there are fewer than LEAST_ROWS. described is the accuracy in words.
    """

    model: str
    core: str
    error_percent: float | None
    described: str

    @property
    def validated(self) -> bool:
        """True if the model was compared with measurements of the core, and is accurate."""
        return self.error_percent is not None and self.error_percent <= GOOD_PERCENT

    @property
    def wrong(self) -> bool:
        """True if the model was compared with measurements of the core, and is not accurate."""
        return self.error_percent is not None and not self.validated

    @property
    def doubt(self) -> float:
        """The relative difference of speeds below which the model's figures establish nothing."""
        error = UNVALIDATED_PERCENT if self.error_percent is None else self.error_percent
        return max(LEAST_DIFFERENCE, error / 100)


def records() -> pd.DataFrame:
    """Return models/accuracy.csv: a row for each comparison of a model with figures of a core.

    what is calls (whole), strings (calls that move their data by string instructions), loops,
    unrolled (blocks), instructions or speed-ups; against is "measurement", or the
    model whose cycles stand for it. mape_percent is the mean absolute error, tau Kendall's tau-b;
    held_out is False if rows among them set parameters of the model. origin names who measured;
    rows is missing where the origin gives no count. Cores that `calibrate` learned have a row for
    the loops of their self-check. Empty if nothing is recorded; InputError if the file is
    malformed.
    """
    return pd.concat([_recorded(), *_self_checks()], ignore_index=True)


def _self_checks() -> Iterator[pd.DataFrame]:
    """Yield the row of each learned core: the simulator's error on loops not used for learning."""
    for path in sorted(paths.models_root().glob(f"*/{held_out.FILE}")):
        loops = pd.read_csv(path).dropna(subset=["predicted"])
        error = 100 * (loops["predicted"] / loops["cycles"] - 1).abs().mean()
        origin = f"the self-check of calibrate ({path.parent.name}/{held_out.FILE})"
        figures = (path.parent.name, SIMULATOR, "loops", MEASUREMENT, len(loops), error)
        row = pd.DataFrame([(*figures, float("nan"), True, origin)], columns=COLUMNS)
        if len(loops):
            yield row.astype({"rows": "Int64"})


def _recorded() -> pd.DataFrame:
    path = paths.models_root() / FILE
    if not path.is_file():
        return pd.DataFrame(columns=COLUMNS)
    try:
        rows = pd.read_csv(path, keep_default_na=False, na_values={"tau": [""], "rows": [""]})
        missing = [name for name in COLUMNS if name not in rows.columns]
        if missing:
            raise InputError(f"{path}: the header lacks {', '.join(missing)}")
        if not rows["held_out"].isin(["yes", "no"]).all():
            raise InputError(f"{path}: held_out is neither yes nor no in some row")
        rows["held_out"] = rows["held_out"] == "yes"
        rows["rows"] = pd.to_numeric(rows["rows"]).astype("Int64")
        return rows.astype({"mape_percent": float, "tau": float})
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def accuracy_of(model: str, core: str, notion: str, recorded: pd.DataFrame) -> ModelAccuracy:
    """Return the accuracy of a model on a core by the records known, for a prediction kind.

    Records of that kind go before those of related kinds. Several are pooled, weighted by their
    rows. The error of a model whose cycles stood for measurements is added. Rows that set
    parameters of the model can show that it is wrong, but never that it is accurate.
    """
    mine = recorded[(recorded["core"] == core) & (recorded["model"] == model)]
    for what in _RECORDS_FOR[notion]:
        about = mine[mine["what"] == what]
        for rows in (about[about["held_out"]], about):
            total, error = _pooled(rows, core, recorded)
            if total >= LEAST_ROWS and (rows["held_out"].all() or error > GOOD_PERCENT):
                count = f"{total:,} " if rows["rows"].notna().any() else ""
                text = f"off by {error:.0f} % over {count}{_plural(what)} there"
                return ModelAccuracy(model, core, error, text)
    return ModelAccuracy(model, core, None, _without_accuracy(mine))


def off_by(model: str, core: str, recorded: pd.DataFrame) -> float | None:
    """Return the mean error of a model in percent on a core's loops, else on its unrolled blocks.

    All records count, also those that set parameters; None if there are fewer than LEAST_ROWS
    rows of either kind.
    """
    mine = recorded[(recorded["core"] == core) & (recorded["model"] == model)]
    for what in _RECORDS_FOR["loop"]:
        total, error = _pooled(mine[mine["what"] == what], core, recorded)
        if total >= LEAST_ROWS:
            return error
    return None


def bounded_accuracy(model: str, core: str, recorded: pd.DataFrame) -> ModelAccuracy | None:
    """Return a bound of the error of a model on a core of which only instructions were measured.

    None if fewer than LEAST_ROWS of those were compared, or the model is not accurate on them.
    The error is the largest of these: that of single instructions there; that of whole loops or of
    published speed-ups there, however few; its mean on the loops of the core with the largest one;
    and UNVALIDATED_PERCENT.
    """
    mine = recorded[(recorded["core"] == core) & (recorded["model"] == model)]
    count, error = _pooled(mine[mine["what"] == "instructions"], core, recorded)
    if count < LEAST_ROWS or error > GOOD_PERCENT:
        return None
    parts = {f"{error:.0f} % over {count:,} single instructions there": error}
    counts = dict.fromkeys(_WHOLE, 0)
    for what in _WHOLE:
        rows, off = _pooled(mine[(mine["what"] == what) & mine["held_out"]], core, recorded)
        counts[what] = rows
        if rows:
            parts[f"{off:.0f} % over {rows:,} {what} there"] = off
    of_model = recorded[recorded["model"] == model]
    others = of_model[(of_model["core"] != core) & of_model["held_out"]]
    for other, rows_of in others[others["what"].isin(("calls", "loops"))].groupby("core"):
        rows, off = _pooled(rows_of, str(other), recorded)
        if rows >= LEAST_ROWS:
            parts[f"{off:.0f} % over {rows:,} loops on {other}"] = off
    most = max(parts, key=lambda part: parts[part])
    if parts[most] < UNVALIDATED_PERCENT:
        loops = counts["loops"]
        gap = f"only {loops} loops, where {LEAST_ROWS} are asked" if loops else "no loops"
        gap = "no calls by string instructions" if loops >= LEAST_ROWS else gap
        most = f"{error:.0f} % over {count:,} single instructions there, but {gap}"
    bound = max(UNVALIDATED_PERCENT, *parts.values())
    return ModelAccuracy(model, core, bound, f"taken to be off by {bound:.0f} %: {most}")


def simulator_accuracy(
    core: str, recorded: pd.DataFrame, *, strings: bool = False
) -> ModelAccuracy | None:
    """Return the accuracy of the simulator's whole calls on a core; None if it has none.

    strings asks about calls that move their data by string instructions; their error is kept apart.
    """
    accuracy = accuracy_of(SIMULATOR, core, "strings" if strings else "call", recorded)
    if accuracy.validated or (strings and accuracy.wrong):
        return accuracy
    return None if accuracy.wrong else bounded_accuracy(SIMULATOR, core, recorded)


def _pooled(rows: pd.DataFrame, core: str, recorded: pd.DataFrame) -> tuple[int, float]:
    """Return the number of rows of records, and their mean error in percent.

    A record without a count of rows is of a whole suite, and counts as LEAST_ROWS.
    """
    total, weighted = 0, 0.0
    for row in rows.to_dict("records"):
        if (added := _reference_error(str(row["against"]), core, recorded)) is not None:
            count = LEAST_ROWS if pd.isna(row["rows"]) else int(row["rows"])
            total += count
            weighted += count * (row["mape_percent"] + added)
    return total, weighted / total if total else 0.0


def _reference_error(against: str, core: str, recorded: pd.DataFrame) -> float | None:
    """Return the error of the figures that a model was compared with; None if not known."""
    if against == MEASUREMENT:
        return 0.0
    rows = recorded[(recorded["core"] == core) & (recorded["model"] == against)]
    rows = rows[(rows["against"] == MEASUREMENT) & rows["held_out"]]
    return float(rows["mape_percent"].max()) if len(rows) else None


def _without_accuracy(mine: pd.DataFrame) -> str:
    """Return in words what is known of a model without held-out rows of this kind."""
    if mine.empty:
        return "not validated there"
    best = mine.sort_values("rows", na_position="first").iloc[-1]
    count = "" if pd.isna(best["rows"]) else f"{best['rows']:,} "
    text = f"{best['mape_percent']:.0f} % over {count}{_plural(str(best['what']))}"
    if not best["held_out"]:
        return f"not validated there: off by {text}, but some of these set its parameters"
    return f"not validated there: {text} alone"


def _plural(what: str) -> str:
    return "unrolled blocks" if what == "unrolled" else what


LEAST_PAIRS = 3  # fewer have no meaningful rank correlation


@dataclass(frozen=True)
class Accuracy:
    """Errors of a model: count of pairs, MAPE in percent, Kendall's tau (tau-b) from -1 to 1."""

    count: int
    mape: float
    tau: float

    @classmethod
    def of(cls, predicted: Iterable[float], measured: Iterable[float]) -> Self:
        """Compare the pairs with both figures known (not NaN); NaN if there are too few.

        tau is NaN as well where all figures of one side are equal: they have no order.
        """
        pairs = pd.DataFrame(
            {"predicted": [*predicted], "measured": [*measured]}, dtype=float
        ).dropna()
        if len(pairs) < LEAST_PAIRS:
            return cls(len(pairs), float("nan"), float("nan"))
        error = (pairs["predicted"] / pairs["measured"] - 1).abs().mean()
        tau = pairs["predicted"].corr(pairs["measured"], method="kendall")
        return cls(len(pairs), 100 * error, tau)


@dataclass(frozen=True)
class Opinion:
    """The verdict of the models that count on a variant against its baseline on one core.

    ratios are speeds relative to the baseline by model; accuracies has that of each of them
    there, not_counted the other models with answers and the reasons why they do not count.
    """

    core: str
    ratios: Mapping[str, float]
    accuracies: Mapping[str, ModelAccuracy]
    not_counted: Mapping[str, str]

    @property
    def ratio(self) -> float:
        """The median speed of the models that count."""
        return float(np.median(list(self.ratios.values())))

    @property
    def validated(self) -> bool:
        """True if all models that count were compared with measurements of the core."""
        return all(accuracy.validated for accuracy in self.accuracies.values())

    @property
    def contested(self) -> bool:
        """True if the models disagree on whether there is a gain."""
        return len({ratio > 1 + LEAST_DIFFERENCE for ratio in self.ratios.values()}) > 1

    @property
    def gain(self) -> bool:
        """True if all models show a gain that exceeds their error.

        Models without a validation have to be two, and show more than UNVALIDATED_PERCENT.
        """
        if not self.validated and len(self.ratios) < 2:
            return False
        return all(ratio > 1 + self.accuracies[model].doubt for model, ratio in self.ratios.items())

    @property
    def loss(self) -> bool:
        """True if the models agree on a loss, which needs no proof beyond their error."""
        return not self.contested and self.ratio < 1 - LEAST_DIFFERENCE

    @property
    def unproven(self) -> str:
        """The reason why a gain that all models show does not count, or ""."""
        if self.contested or self.gain or self.ratio <= 1 + LEAST_DIFFERENCE:
            return ""
        if not self.validated and len(self.ratios) < 2:
            return "one model alone, and not validated there"
        most = max(accuracy.doubt for accuracy in self.accuracies.values())
        return f"models may be off by {100 * most:.0f} % there"

    @property
    def described(self) -> str:
        """The models that count, those that do not, and the reasons, in words."""
        counted = [f"{model} ({a.described})" for model, a in self.accuracies.items()]
        out = f"{self.core}: counted {', '.join(counted)}"
        left = [f"{model} ({why})" for model, why in self.not_counted.items()]
        return f"{out}; not counted {', '.join(left)}" if left else out


@dataclass(frozen=True)
class Panel:
    """The models' figures of one routine, of which opinions are formed.

    rows is the comparison table without measurements, recorded has the records of accuracy.
    """

    rows: pd.DataFrame
    routine: Routine
    sizes: Histogram | None
    recorded: pd.DataFrame

    def opinion(self, variant: str, core: str) -> Opinion | None:
        """Return the opinion of the models with figures of both the variant and the baseline.

        Only those that are accurate on that core count; where there are none, those without a
        validation there; and those that were wrong there only where no other answers.
        """
        nothing = self.rows.iloc[:0].set_index("source")
        base, other = (
            self._figures.get((name, core), nothing) for name in (self.routine.baseline, variant)
        )
        answering_both = [str(model) for model in other.index if model in base.index]
        below_bound = "a figure below what loads and stores take"
        not_counted = {
            str(model): below_bound
            for rows in (base, other)
            for model in rows.index[microarchs.below_bounds(rows)]
        }
        for model in MODELS:
            both = {model.id, model.corrects} <= {*answering_both}
            if both and model.corrects not in not_counted:
                not_counted[model.corrects] = f"{model.id} answers instead"
        answering = [model for model in answering_both if model not in not_counted]
        if not answering:
            return None
        notion = str(other.loc[answering[0], "notion"])
        accuracies = {model: accuracy_of(model, core, notion, self.recorded) for model in answering}
        validated = {model: a for model, a in accuracies.items() if a.validated}
        not_wrong = {model: a for model, a in accuracies.items() if not a.wrong}
        counted = validated or not_wrong or accuracies
        not_counted |= {m: a.described for m, a in accuracies.items() if m not in counted}
        contract = self.routine.contract
        fixed = 0 if contract.counted else contract.dst_record
        before, after = base.to_dict("index"), other.to_dict("index")
        ratios = {
            m: call_costs.predicted_speedup(before[m], after[m], self.sizes, fixed) for m in counted
        }
        return Opinion(core, ratios, counted, not_counted)

    @cached_property
    def _figures(self) -> dict[tuple[str, str], pd.DataFrame]:
        """The models' rows by variant and core, with a start-up and a main loop each."""
        whole = self.rows[self.rows["cycles"].notna() & self.rows["startup_cycles"].notna()]
        parts = whole.groupby(["variant", "microarch"], sort=False)
        return {(str(v), str(core)): part.set_index("source") for (v, core), part in parts}


class Rank(IntEnum):
    """The kind of evidence of a verdict on a core; a lower number goes before a higher one.

    MEASURED: whole calls, measured on that core. SIMULATED: whole calls by the simulator, validated
    on loops of that core. BOUNDED: whole calls by the simulator, validated on single instructions
    of the core alone; the error is the largest one known. MODELS: main loops, by the models that
    have been right on that core.
    """

    MEASURED = 1
    SIMULATED = 2
    BOUNDED = 3
    MODELS = 4


RANK_NAMES = {
    Rank.MEASURED: "measured",
    Rank.SIMULATED: "simulated",
    Rank.BOUNDED: "simulated",
    Rank.MODELS: "models of the main loop",
}
