"""Accuracy of each model on each core, from models/accuracy.csv, and what models say by it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from loopwright.predicting.models import MODELS, SIMULATOR

FILE = "accuracy.csv"
HELD_OUT = "held-out.csv"  # of a learned core: loops that no pass learned from
COLUMNS = [
    "core", "model", "what", "against", "rows", "mape_percent", "tau", "held_out", "origin"
]  # fmt: skip
MEASUREMENT = "measurement"

# A model that was farther off than this, on the mean, is not believed where another is.
GOOD_PERCENT = 15.0
LEAST_ROWS = 30  # fewer are too few to say how right a model is
# What nobody has held to loops of a core is taken to be off by at least this.
UNVALIDATED_PERCENT = 20.0
# A difference that is smaller than this no model is asked to tell.
LEAST_DIFFERENCE = 0.05
_ABOUT = {
    "call": ("calls", "loops", "unrolled"),
    "loop": ("loops", "unrolled"),
    "unrolled": ("unrolled", "loops"),
    "strings": ("strings",),
}
_WHOLE = ("calls", "loops", "speed-ups")  # what tells of more than single instructions


@dataclass(frozen=True)
class ModelAccuracy:
    """The accuracy of a model on a core, for one kind of prediction.

    error_percent is the mean of its absolute errors over rows that no parameter of it was set by,
    None where there are not LEAST_ROWS of them. described says it in words.
    """

    model: str
    core: str
    error_percent: float | None
    described: str

    @property
    def validated(self) -> bool:
        """Say whether it was held to measurements of the core, and was right."""
        return self.error_percent is not None and self.error_percent <= GOOD_PERCENT

    @property
    def wrong(self) -> bool:
        """Say whether it was held to measurements of the core, and was not right."""
        return self.error_percent is not None and not self.validated

    @property
    def doubt(self) -> float:
        """Return the difference of speeds, relative, up to which its figures tell nothing."""
        error = UNVALIDATED_PERCENT if self.error_percent is None else self.error_percent
        return max(LEAST_DIFFERENCE, error / 100)


def records() -> pd.DataFrame:
    """Return models/accuracy.csv: one row for what each model was held to on each core.

    what is calls (whole), strings (calls that move their data by string instructions), loops,
    unrolled (blocks), instructions or speed-ups; against is "measurement", or the
    model whose cycles stand for it. mape_percent is the mean absolute error, tau Kendall's tau-b;
    held_out is False where rows among them set parameters of the model. origin says who measured;
    rows is missing where it does not say of how many. Cores that `calibrate` learned have a row for
    the loops of their self-check. Empty where nothing is recorded; InputError where the file is not
    as it must be.
    """
    return pd.concat([_recorded(), *_self_checks()], ignore_index=True)


def _self_checks() -> Iterator[pd.DataFrame]:
    """Yield the row of each learned core: the simulator's error on loops that it was not set by."""
    for path in sorted(paths.models_root().glob(f"*/{HELD_OUT}")):
        held = pd.read_csv(path).dropna(subset=["predicted"])
        error = 100 * (held["predicted"] / held["cycles"] - 1).abs().mean()
        origin = f"the self-check of calibrate ({path.parent.name}/{HELD_OUT})"
        row = (path.parent.name, SIMULATOR, "loops", MEASUREMENT, len(held), error)
        found = pd.DataFrame([(*row, float("nan"), True, origin)], columns=COLUMNS)
        if len(held):
            yield found.astype({"rows": "Int64"})


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


def accuracy_of(model: str, core: str, notion: str, known: pd.DataFrame) -> ModelAccuracy:
    """Return what the records known say of a model on a core, of loops or of unrolled code.

    Records of that notion go before those of the other. Several are taken together, each by its
    rows. What another model's cycles stood for counts as far as that one is right itself. Rows that
    set parameters of the model show that it is wrong, but never that it is right.
    """
    mine = known[(known["core"] == core) & (known["model"] == model)]
    for what in _ABOUT[notion]:
        about = mine[mine["what"] == what]
        for rows in (about[about["held_out"]], about):
            total, error = _pooled(rows, core, known)
            if total >= LEAST_ROWS and (rows["held_out"].all() or error > GOOD_PERCENT):
                count = f"{total:,} " if rows["rows"].notna().any() else ""
                said = f"off by {error:.0f} % over {count}{_plural(what)} there"
                return ModelAccuracy(model, core, error, said)
    return ModelAccuracy(model, core, None, _otherwise(mine))


def off_by(model: str, core: str, known: pd.DataFrame) -> float | None:
    """Return the percent that a model is off by on a core's loops, else on its unrolled blocks.

    It is the mean of all records, those among them that set parameters, None where LEAST_ROWS of
    either were never measured.
    """
    mine = known[(known["core"] == core) & (known["model"] == model)]
    for what in _ABOUT["loop"]:
        total, error = _pooled(mine[mine["what"] == what], core, known)
        if total >= LEAST_ROWS:
            return error
    return None


def bounded_accuracy(model: str, core: str, known: pd.DataFrame) -> ModelAccuracy | None:
    """Return a bound of how far a model is off that only knows the instructions of a core.

    None where those were not held to LEAST_ROWS measurements, or were not right. The error is the
    largest of what is known: of single instructions there; of what was measured of whole loops or
    published of speed-ups there, however little; its mean on loops of the core that it is worst on;
    and UNVALIDATED_PERCENT.
    """
    mine = known[(known["core"] == core) & (known["model"] == model)]
    count, error = _pooled(mine[mine["what"] == "instructions"], core, known)
    if count < LEAST_ROWS or error > GOOD_PERCENT:
        return None
    parts = {f"{error:.0f} % over {count:,} single instructions there": error}
    counts = dict.fromkeys(_WHOLE, 0)
    for what in _WHOLE:
        rows, off = _pooled(mine[(mine["what"] == what) & mine["held_out"]], core, known)
        counts[what] = rows
        if rows:
            parts[f"{off:.0f} % over {rows:,} {what} there"] = off
    others = known[(known["model"] == model) & (known["core"] != core) & known["held_out"]]
    for other, rows_of in others[others["what"].isin(("calls", "loops"))].groupby("core"):
        rows, off = _pooled(rows_of, str(other), known)
        if rows >= LEAST_ROWS:
            parts[f"{off:.0f} % over {rows:,} loops on {other}"] = off
    most = max(parts, key=lambda part: parts[part])
    if parts[most] < UNVALIDATED_PERCENT:
        loops = counts["loops"]
        if loops >= LEAST_ROWS:
            few = "no calls by string instructions"
        else:
            few = f"only {loops} loops, where {LEAST_ROWS} are asked" if loops else "no loops"
        most = f"{error:.0f} % over {count:,} single instructions there, but {few}"
    taken = max(UNVALIDATED_PERCENT, *parts.values())
    return ModelAccuracy(model, core, taken, f"taken to be off by {taken:.0f} %: {most}")


def simulator_accuracy(
    core: str, known: pd.DataFrame, *, strings: bool = False
) -> ModelAccuracy | None:
    """Return the accuracy of the simulator's whole calls on a core; None where it has none.

    strings asks about calls that move their data by string instructions, whose error is their own.
    """
    held = accuracy_of(SIMULATOR, core, "strings" if strings else "call", known)
    if held.validated or (strings and held.wrong):
        return held
    return None if held.wrong else bounded_accuracy(SIMULATOR, core, known)


def _pooled(rows: pd.DataFrame, core: str, known: pd.DataFrame) -> tuple[int, float]:
    """Return how many rows records have together, and their mean error in percent.

    One that does not count its rows is of a whole suite: it is as good as LEAST_ROWS.
    """
    parts = [
        (LEAST_ROWS if pd.isna(row["rows"]) else int(row["rows"]), row["mape_percent"] + more)
        for row in rows.to_dict("records")
        if (more := _of_truth(str(row["against"]), core, known)) is not None
    ]
    total = sum(count for count, _ in parts)
    return total, sum(count * percent for count, percent in parts) / total if total else 0.0


def _of_truth(against: str, core: str, known: pd.DataFrame) -> float | None:
    """Return how far that is from a measurement what a model was held to; None if not known."""
    if against == MEASUREMENT:
        return 0.0
    rows = known[(known["core"] == core) & (known["model"] == against)]
    rows = rows[(rows["against"] == MEASUREMENT) & rows["held_out"]]
    return float(rows["mape_percent"].max()) if len(rows) else None


def _otherwise(mine: pd.DataFrame) -> str:
    """Say what there is of a model that nothing of this kind was kept aside for."""
    if mine.empty:
        return "not validated there"
    best = mine.sort_values("rows", na_position="first").iloc[-1]
    count = "" if pd.isna(best["rows"]) else f"{best['rows']:,} "
    said = f"{best['mape_percent']:.0f} % over {count}{_plural(str(best['what']))}"
    if not best["held_out"]:
        return f"not validated there: off by {said}, but some of these set its parameters"
    return f"not validated there: {said} alone"


def _plural(what: str) -> str:
    return "unrolled blocks" if what == "unrolled" else what


def describe(standings: Sequence[ModelAccuracy]) -> str:
    """Return in a line what is known of models on a core."""
    return ", ".join(f"{s.model} {s.described}" for s in standings)


LEAST_PAIRS = 3  # of fewer, an order says nothing


@dataclass(frozen=True)
class Accuracy:
    """Errors of a model: count of pairs, MAPE in percent, Kendall's tau (tau-b) from -1 to 1."""

    count: int
    mape: float
    tau: float

    @classmethod
    def of(cls, predicted: Iterable[float], measured: Iterable[float]) -> Self:
        """Compare pairs of which both are known (neither is NaN); NaN where too few are.

        tau is NaN, too, where all of one side are equal: they have no order.
        """
        pairs = pd.DataFrame({"said": [*predicted], "real": [*measured]}, dtype=float).dropna()
        if len(pairs) < LEAST_PAIRS:
            return cls(len(pairs), float("nan"), float("nan"))
        error = (pairs["said"] / pairs["real"] - 1).abs().mean()
        return cls(len(pairs), 100 * error, pairs["said"].corr(pairs["real"], method="kendall"))


@dataclass(frozen=True)
class Opinion:
    """The verdict of the models that count on a variant against its baseline on one core.

    ratios are speeds relative to the baseline by model; standings say how right each of them has
    been there, aside which others answered, and why they do not count.
    """

    core: str
    ratios: Mapping[str, float]
    standings: Mapping[str, ModelAccuracy]
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
        return len({ratio > 1 + LEAST_DIFFERENCE for ratio in self.ratios.values()}) > 1

    @property
    def gain(self) -> bool:
        """Say whether all of them show a gain that is more than they are off by.

        Those that were never held to measurements must be two, and show more than
        UNVALIDATED_PERCENT.
        """
        if not self.validated and len(self.ratios) < 2:
            return False
        return all(ratio > 1 + self.standings[model].doubt for model, ratio in self.ratios.items())

    @property
    def loss(self) -> bool:
        """Say whether they show a loss; it takes no proof to be careful."""
        return not self.contested and self.ratio < 1 - LEAST_DIFFERENCE

    @property
    def unproven(self) -> str:
        """Say why a gain that all of them show is not believed, or nothing."""
        if self.contested or self.gain or self.ratio <= 1 + LEAST_DIFFERENCE:
            return ""
        if not self.validated and len(self.ratios) < 2:
            return "one model alone, and not validated there"
        most = max(s.doubt for s in self.standings.values())
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

    rows is the comparison table without measurements, known what models have been held to.
    """

    rows: pd.DataFrame
    routine: Routine
    sizes: Histogram | None
    known: pd.DataFrame

    def opinion(self, variant: str, core: str) -> Opinion | None:
        """Return what the models say that have figures of both the variant and the baseline.

        Those that were right on that core count alone; where there are none, those that nobody
        held to it; and those that were wrong there only where no other answers.
        """
        nothing = self.rows.iloc[:0].set_index("source")
        base, other = (
            self._figures.get((name, core), nothing) for name in (self.routine.baseline, variant)
        )
        both = [str(model) for model in other.index if model in base.index]
        low = "a figure below what loads and stores take"
        aside = {
            str(model): low
            for rows in (base, other)
            for model in rows.index[microarchs.below_bounds(rows)]
        }
        for model in MODELS:
            if {model.id, model.corrects} <= set(both) and model.corrects not in aside:
                aside[model.corrects] = f"{model.id} answers instead"
        answering = [model for model in both if model not in aside]
        if not answering:
            return None
        notion = str(other.loc[answering[0], "notion"])
        held = {model: accuracy_of(model, core, notion, self.known) for model in answering}
        validated = {model: s for model, s in held.items() if s.validated}
        counted = validated or {model: s for model, s in held.items() if not s.wrong} or held
        aside |= {model: s.described for model, s in held.items() if model not in counted}
        contract = self.routine.contract
        fixed = 0 if contract.counted else contract.dst_record
        was, now = base.to_dict("index"), other.to_dict("index")
        ratios = {
            model: call_costs.predicted_speedup(was[model], now[model], self.sizes, fixed)
            for model in counted
        }
        return Opinion(core, ratios, counted, aside)

    @cached_property
    def _figures(self) -> dict[tuple[str, str], pd.DataFrame]:
        """The models' rows of a variant on a core that cost a call of any size."""
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


WORDS = {
    Rank.MEASURED: "measured",
    Rank.SIMULATED: "simulated",
    Rank.BOUNDED: "simulated",
    Rank.MODELS: "models of the main loop",
}
